"""The numbers of f09 in parts; `spec.py` re-exports them all."""
