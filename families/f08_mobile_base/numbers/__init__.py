"""The numbers of f08 that are tables; `spec.py` re-exports them all."""
