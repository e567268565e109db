"""Intervals. Each function names its formula; all take and return plain floats in the data's unit."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np


class Interval(NamedTuple):
    low: float
    high: float


Z_95 = 1.959963984540054
"""Two-sided 95 % quantile of the standard normal distribution."""


def wilson(successes: int, n: int, z: float = Z_95) -> Interval:
    """Wilson score interval of a proportion: (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n).

    Raises:
        ValueError: n < 1, or successes outside 0..n.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"wilson needs 0 <= successes <= n and n >= 1, got {successes} of {n}")
    p = successes / n
    centre = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return Interval(max((centre - half) / scale, 0.0), min((centre + half) / scale, 1.0))


def percentile_interval(replicates: np.ndarray, level: float = 0.95) -> Interval:
    """Percentile bootstrap interval: the (1-level)/2 and (1+level)/2 quantiles of the replicates."""
    tail = 50.0 * (1.0 - level)
    low, high = np.percentile(replicates, [tail, 100.0 - tail])
    return Interval(float(low), float(high))


def bootstrap_mean(
    values: Sequence[float], rng: np.random.Generator, n_replicates: int = 5000
) -> Interval:
    """95 % percentile bootstrap interval of the mean. One value: a point."""
    data = np.asarray(values, dtype=float)
    if data.size == 0:
        raise ValueError("bootstrap_mean needs at least one value")
    picks = rng.integers(0, data.size, size=(n_replicates, data.size))
    return percentile_interval(data[picks].mean(axis=1))


def bootstrap(
    n: int,
    statistic: Callable[[np.ndarray], float],
    rng: np.random.Generator,
    n_replicates: int = 5000,
) -> Interval:
    """95 % percentile bootstrap of `statistic`, called with resampled row indices of shape (n,)."""
    replicates = [statistic(rng.integers(0, n, size=n)) for _ in range(n_replicates)]
    return percentile_interval(np.asarray(replicates))


def population_sd(values: Sequence[float]) -> float:
    """sqrt(sum (x - mean)^2 / n)."""
    return float(np.std(np.asarray(values, dtype=float)))


def sample_sd(values: Sequence[float]) -> float | None:
    """sqrt(sum (x - mean)^2 / (n - 1)); None for one value."""
    return float(np.std(np.asarray(values, dtype=float), ddof=1)) if len(values) > 1 else None
