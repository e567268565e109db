"""Baselines and oracles: one readable file each."""
