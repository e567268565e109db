"""Baselines and oracles: one readable file each."""

import rle  # noqa: F401  # chooses the GL backend before a baseline imports MuJoCo
