"""Intervals against known values."""

import numpy as np
import pytest

from rle import stats


@pytest.mark.parametrize(
    ("k", "n", "low", "high"), [(5, 10, 0.24, 0.76), (25, 50, 0.37, 0.63), (100, 200, 0.43, 0.57)]
)
def test_wilson_at_one_half(k, n, low, high):
    interval = stats.wilson(k, n)
    assert (round(interval.low, 2), round(interval.high, 2)) == (low, high)


def test_wilson_limits():
    assert stats.wilson(0, 10).low == 0.0
    assert stats.wilson(10, 10).high == pytest.approx(1.0)
    with pytest.raises(ValueError, match="got 3 of 2"):
        stats.wilson(3, 2)


def test_standard_deviations():
    # Runs 1, .25, 0: mean .416667, population SD .424918, sample SD .520416.
    assert stats.population_sd([1, 0.25, 0]) == pytest.approx(0.424918, abs=1e-6)
    assert stats.sample_sd([1, 0.25, 0]) == pytest.approx(0.520416, abs=1e-6)
    assert stats.sample_sd([1.0]) is None


def test_bootstrap_mean_covers_and_is_seeded():
    values = np.random.default_rng(3).normal(0.4, 0.1, 200).tolist()
    a = stats.bootstrap_mean(values, np.random.default_rng(1))
    assert a == stats.bootstrap_mean(values, np.random.default_rng(1))
    half = 1.96 * np.std(values) / np.sqrt(200)  # normal theory for n = 200
    assert a.high - a.low == pytest.approx(2 * half, rel=0.1)
    assert stats.bootstrap_mean([0.3], np.random.default_rng(1)) == (pytest.approx(0.3),) * 2


def test_generic_bootstrap_agrees_with_the_mean():
    values = np.array([0.1, 0.4, 0.9, 0.3])
    low, high = stats.bootstrap(4, lambda i: values[i].mean(), np.random.default_rng(2), 4000)
    fast = stats.bootstrap_mean(values.tolist(), np.random.default_rng(5), 4000)
    assert (low, high) == (pytest.approx(fast.low, abs=0.03), pytest.approx(fast.high, abs=0.03))
