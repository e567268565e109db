"""Bounded credit functions used by all families. Every result lies in [0, 1]; non-finite input earns 0."""

import math


def clip01(value: float) -> float:
    """clip(value, 0, 1); a non-finite value earns 0."""
    return min(max(float(value), 0.0), 1.0) if math.isfinite(value) else 0.0


def within(value: float, limit: float) -> float:
    """1[value <= limit], the limit included."""
    return 1.0 if math.isfinite(value) and value <= limit else 0.0


def linear_credit(value: float, full: float, zero: float) -> float:
    """clip((value - zero) / (full - zero), 0, 1): 1 at `full`, 0 at `zero`, linear between.

    Works in both directions (`full` below `zero` when less is better).

    Raises:
        ValueError: `full` equals `zero`.
    """
    if full == zero:
        raise ValueError(f"linear_credit needs full != zero, got {full} for both")
    return clip01((value - zero) / (full - zero))


def saturating(value: float, scale: float) -> float:
    """1 - exp(-value / scale) for value >= 0: diminishing returns, 0.632 at `scale`."""
    return clip01(1.0 - math.exp(-value / scale)) if math.isfinite(value) and value > 0 else 0.0


def gate(score: float, is_open: bool, cap: float) -> float:
    """score if the gate is open, else min(score, cap)."""
    return clip01(score) if is_open else min(clip01(score), cap)
