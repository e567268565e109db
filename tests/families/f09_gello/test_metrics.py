"""Card f09, section on the score: worked example, limits, monotonicity, non-finite input."""

import math

import pytest

from families.f09_gello import metrics
from families.f09_gello.spec import ARM_NAMES, CHECKPOINTS, MARKS, VALIDITY_WEIGHTS, Marks

FRANKA = {
    "C1": 1.0, "H1": 0.257, "H2": 0.0184, "H3": 0.247, "S2a": 0.0012, "S2b": 0.0597,
    "B1": 0.0007, "B2": 0.0462, "B3": 0.1175, "B4": metrics.push_m(peak_m=0.2669, final_m=0.0191),
}  # fmt: skip
CLEAN = dict.fromkeys(VALIDITY_WEIGHTS, 0.0)


def test_worked_example():
    # Credits H1 .5098, H2 .5389, H3 .4812, S2a .9474, S2b .9125, B1 1, B2 .9817, B3 .3711,
    # B4 .6266 (x = max(.0191, .2669 / 20) = .0191), C1 = min(1, 2 x .5098) = 1: sum x 0.10 = .7369.
    # Two of four parts dropped: .020 x .5 + .010 x .5 = .015. Reward .7219.
    expected = {
        "C1": 1.0, "H1": 0.5098, "H2": 0.5389, "H3": 0.4812, "S2a": 0.9474, "S2b": 0.9125,
        "B1": 1.0, "B2": 0.9817, "B3": 0.3711, "B4": 0.6266,
    }  # fmt: skip
    credit = metrics.checkpoint_credits("franka", FRANKA)
    assert credit == pytest.approx(expected, abs=1e-4)
    deduction = metrics.deductions({**CLEAN, "printability": 0.5, "buildable": 0.5})
    assert sum(deduction.values()) == pytest.approx(0.015)
    assert metrics.arm_reward(credit, deduction) == pytest.approx(0.7219, abs=1e-4)


@pytest.mark.parametrize("arm", ARM_NAMES)
def test_marks_are_ordered(arm):
    for key, m in MARKS[arm].items():
        assert (m.zero < m.bar < m.best) if key == "B3" else (m.zero > m.bar > m.best > 0), key


@pytest.mark.parametrize(
    ("arm", "key"),
    [(arm, key) for arm in ARM_NAMES for key in CHECKPOINTS if key not in ("C1", "B3")],
)
def test_rows_of_the_curve(arm, key):
    m = MARKS[arm][key]
    assert metrics.log_credit(m.zero, m) == 0.0
    assert metrics.log_credit(m.zero * 1.5, m) == 0.0
    assert metrics.log_credit(m.bar, m) == pytest.approx(0.6)
    assert metrics.log_credit(m.best, m) == 1.0
    assert metrics.log_credit(0.0, m) == 1.0
    # Half way in ln x between two marks is half way in credit.
    assert metrics.log_credit(math.sqrt(m.zero * m.bar), m) == pytest.approx(0.3)
    assert metrics.log_credit(math.sqrt(m.bar * m.best), m) == pytest.approx(0.8)
    xs = [m.best * (m.zero / m.best) ** (i / 50) for i in range(51)]
    values = [metrics.log_credit(x, m) for x in xs]
    assert all(a >= b for a, b in zip(values, values[1:], strict=False))


@pytest.mark.parametrize("x", [math.nan, math.inf])
def test_non_finite_earns_nothing(x):
    assert metrics.log_credit(x, Marks(zero=1.0, bar=0.5, best=0.1)) == 0.0
    assert metrics.headroom_credit(x, 1.0, MARKS["franka"]["B3"]) == 0.0
    assert metrics.settle_shortfall(x) == 1.0


def test_headroom_needs_backdrive():
    m = MARKS["xarm7"]["B3"]
    assert metrics.headroom_credit(m.bar, 0.6, m) == pytest.approx(0.6)
    assert metrics.headroom_credit(m.best, 1.0, m) == pytest.approx(1.0)
    assert metrics.headroom_credit(0.35, 1.0, m) == pytest.approx(1.0)
    assert metrics.headroom_credit(m.best, 0.3, m) == pytest.approx(0.5)
    assert metrics.headroom_credit(0.35, 0.0, m) == 0.0, "no pay for zero feedforward alone"
    assert metrics.headroom_credit(-0.1, 1.0, m) == 0.0
    assert metrics.headroom_n_m(0.5) == pytest.approx(-0.15)


def test_clearance_is_paid_for_compensation():
    assert metrics.clearance_credit(1.0, 0.0) == 0.0
    assert metrics.clearance_credit(2 / 3, 0.25) == pytest.approx(1 / 3)
    assert metrics.clearance_credit(1.0, 0.5) == 1.0


def test_violent_swing_is_not_a_recovery():
    assert metrics.push_m(peak_m=0.4, final_m=0.001) == pytest.approx(0.02)
    assert metrics.push_m(peak_m=0.1, final_m=0.03) == 0.03


@pytest.mark.parametrize(
    ("speed", "shortfall"), [(0.0, 0.0), (0.1, 0.0), (0.125, 0.5), (0.15, 1.0)]
)
def test_settle_is_linear_between_its_limits(speed, shortfall):
    assert metrics.settle_shortfall(speed) == pytest.approx(shortfall)


def test_nothing_measured_earns_nothing():
    credit = metrics.checkpoint_credits("ur5e", {})
    assert set(credit.values()) == {0.0}
    assert metrics.arm_reward(credit, metrics.deductions({})) == 0.0
    assert sum(metrics.deductions({}).values()) == pytest.approx(0.10)


def test_deductions_never_make_a_reward_negative_and_missing_arms_count():
    assert metrics.arm_reward(
        metrics.checkpoint_credits("ur5e", {"B1": 0.0005}), metrics.deductions(CLEAN)
    ) == (pytest.approx(0.1))
    assert metrics.score({"franka": 0.9, "ur5e": 0.6}) == pytest.approx(0.5)
    assert metrics.score({}) == 0.0
