"""RLE-Bench: an exam for coding agents as robot-learning engineers. Importing `rle` loads no simulator."""

__version__ = "1.0.0"
