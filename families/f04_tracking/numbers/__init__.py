"""Parts of `spec.py` that would make it too long; it re-exports every name, so look numbers up there."""
