"""Numbers of f06 by subject; `spec.py` re-exports them."""
