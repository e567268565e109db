"""The physical side of f06: pushes, frames, and pictures for people."""
