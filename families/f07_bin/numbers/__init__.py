"""Numbers of f07 by subject; `spec.py` re-exports them."""
