"""Card f07 section 7: worked examples, limits, monotony."""

import pytest

from families.f07_bin import metrics, spec
from families.f07_bin.metrics import Outcome, score


def pile(n, cleared, last=120.0, floor=0, damage=0, bin_hits=0):
    return score(Outcome(n, cleared, last, floor, damage, bin_hits)).score


def test_worked_examples():
    # 14 of 14 in 98 s, clean: p = 60 * 14 / 98 = 8.571429; .30 + .35 + .20 * .8571429 + .15 * .5714286
    assert pile(14, 14, 98.0) == pytest.approx(0.907143, abs=1e-6)
    # The same with one bin hit: I = 0; .35 + .171429 - .05
    assert pile(14, 14, 98.0, bin_hits=1) == pytest.approx(0.471429, abs=1e-6)
    # 11 of 15, one floor drop: f = .7333, h = .1 + .9 * (1/3)^3 = .133333, p = 60 * 11 / 120 = 5.5
    assert pile(15, 11, floor=1) == pytest.approx(0.126667, abs=1e-6)
    assert pile(15, 0) == 0.0
    # 15 of 15 clean in 60 s: p = 15, every term full.
    assert pile(15, 15, 60.0) == pytest.approx(1.0)


def test_partial_credit_is_continuous_and_ends_at_one():
    assert metrics.partial_credit(spec.H_KNEE) == pytest.approx(0.1)
    assert metrics.partial_credit(spec.H_KNEE + 1e-9) == pytest.approx(0.1)
    assert metrics.partial_credit(1.0) == pytest.approx(1.0)
    assert metrics.partial_credit(0.0) == 0.0


def test_unfinished_pile_is_divided_by_the_whole_episode():
    assert metrics.denominator_s(13 / 14, 40.0) == spec.EPISODE_S
    assert metrics.denominator_s(1.0, 40.0) == 40.0


@pytest.mark.parametrize("n", [12, 16])
def test_a_part_more_never_costs(n):
    scores = [pile(n, cleared) for cleared in range(n + 1)]
    assert scores == sorted(scores)


@pytest.mark.parametrize("event", ["floor", "damage", "bin_hits"])
@pytest.mark.parametrize("cleared", [0, 9, 14])
def test_an_event_never_pays(event, cleared):
    scores = [pile(14, cleared, 70.0, **{event: k}) for k in range(4)]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 <= s <= 1.0 for s in scores)


def test_impossible_counts_are_a_bug_not_a_zero():
    with pytest.raises(ValueError, match="15 of 14"):
        pile(14, 15)
    with pytest.raises(ValueError, match="0 of 0"):
        pile(0, 0)
