"""Credit functions stay in [0, 1] for any input, and mean what they say."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rle import scoring

ANY = st.floats(allow_nan=True, allow_infinity=True)


@given(ANY, ANY)
def test_bounded_for_any_input(value, other):
    assert 0.0 <= scoring.clip01(value) <= 1.0
    assert scoring.within(value, other) in (0.0, 1.0)
    assert 0.0 <= scoring.saturating(value, 2.0) <= 1.0
    assert 0.0 <= scoring.linear_credit(value, 1.0, 3.0) <= 1.0
    assert 0.0 <= scoring.gate(value, False, 0.1) <= 0.1


def test_worked_examples():
    assert scoring.linear_credit(1.5, full=1.0, zero=3.0) == 0.75  # (1.5 - 3) / (1 - 3)
    assert scoring.linear_credit(0.25, full=1.0, zero=0.0) == 0.25
    assert scoring.saturating(2.0, 2.0) == pytest.approx(1 - math.exp(-1))
    assert scoring.within(1.0, 1.0) == 1.0
    assert scoring.within(1.0 + 1e-9, 1.0) == 0.0
    assert scoring.gate(0.7, True, 0.1) == 0.7


def test_linear_credit_needs_two_points():
    with pytest.raises(ValueError, match="full != zero"):
        scoring.linear_credit(1.0, 2.0, 2.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_earns_nothing(bad):
    assert scoring.clip01(bad) == 0.0
    assert scoring.saturating(bad, 1.0) == 0.0
