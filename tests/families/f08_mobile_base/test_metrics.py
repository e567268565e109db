"""The card's worked example, every credit on both sides of its limits, and non-finite input."""

import math

import numpy as np
import pytest

from families.f08_mobile_base import metrics, spec
from rle.report import Row


def full_credits() -> dict[str, float]:
    return dict.fromkeys(spec.WEIGHTS, 1.0)


def rows_with(score_of=lambda arm, test, k: 1.0, design=None, repeat=1.0) -> list[Row]:
    """A complete set of rows, 3 per drawn test and 12 per shelf load."""
    count = {"static": 3, "shelf-1kg": 12, "shelf-2kg": 12, **dict.fromkeys(spec.SCENARIOS, 3)}
    rows = []
    for arm in spec.ARM_NAMES:
        known = {**dict.fromkeys(metrics.BY_DESIGN, 1.0), **(design or {})}
        rows.append(Row(id="d", group=f"{arm}/design", score=1.0, ended="done", metrics=known))
        for test in sorted(set(metrics.TEST_OF.values())):
            rows += [
                Row(id=f"{k}", group=f"{arm}/{test}", score=score_of(arm, test, k), ended="done")
                for k in range(count.get(test, 1))
            ]
        rows.append(Row(id="r", group=f"{arm}/repeat", score=repeat, ended="done"))
    return rows


def test_weights_sum_to_one_and_stages_partition_them():
    assert math.fsum(spec.WEIGHTS.values()) == pytest.approx(1.0)
    assert sorted(cp for s in spec.STAGES.values() for cp in s) == sorted(spec.WEIGHTS)
    totals = {s: math.fsum(spec.WEIGHTS[cp] for cp in cps) for s, cps in spec.STAGES.items()}
    assert totals == pytest.approx(
        {"validity": 0.15, "design": 0.35, "static": 0.15, "dynamic": 0.20, "integration": 0.15}
    )


def test_worked_example():
    # m_base 24.41 kg, length 4.7 m, footprint .56 x .546 m:
    # E = (.3576 + .6083 + .0250)/3 = .3303, credit .3303/.48 = .6882. SSM .042 -> .9.
    # B .8, C 1, D1 1, D2 1, E .6; shelf 11/12 and 9/12; the rest 1.
    # .15 + (.03 + .02 + .22 x .6882 + .025 + .025 + .03) + .135 + .176 + (.0917 + .0375) = .8716
    terms = metrics.efficiency_terms(24.41, 4.7, 0.56 * 0.546)
    assert terms == pytest.approx((0.3576, 0.6083, 0.0250), abs=5e-5)
    design = metrics.design_efficiency(24.41, 4.7, 0.56 * 0.546, 1.0, 1.0)
    assert design == pytest.approx(0.6882, abs=5e-5)
    static = metrics.static_margin([0.05, 0.042, 0.06])
    assert static == pytest.approx(0.9)
    dynamic = {"testB": 0.8, "testC": 1.0, "testD1": 1.0, "testD2": 1.0, "testE": 0.6}

    def score_of(arm: str, test: str, k: int) -> float:
        if test == "static":
            return static
        if test in dynamic:
            return dynamic[test]
        return float(k < {"shelf-1kg": 11, "shelf-2kg": 9}.get(test, 99))

    rows = rows_with(score_of, {"S3.design_efficiency": design})
    credits, _ = metrics.worst_credits(rows)
    reward, total = metrics.score(credits)
    assert reward == total == pytest.approx(0.8716, abs=5e-5)
    assert metrics.stage_total(credits, "dynamic") == pytest.approx(0.176)
    # One battery gap of 5 mm: structure 7/8, efficiency and still_valid fall too, the gate caps.
    gated = rows_with(score_of, {"S3.design_efficiency": 0.0, "S1.structure": 7 / 8})
    assert metrics.score(metrics.worst_credits(gated)[0])[0] == 0.15


@pytest.mark.parametrize("checkpoint", spec.GATES)
def test_gate_caps_only_below_full_credit(checkpoint):
    credits = full_credits()
    assert metrics.score(credits) == (1.0, 1.0)
    credits[checkpoint] = 0.99
    reward, total = metrics.score(credits)
    assert reward == spec.GATE_CAP and total > 0.99


def test_the_worst_arm_decides_and_is_named():
    rows = rows_with(lambda arm, test, k: 0.25 if (arm, test) == ("ur5e", "testE") else 1.0)
    credits, limiting = metrics.worst_credits(rows)
    assert credits["S5.testE"] == 0.25 and limiting["S5.testE"] == "ur5e"


def test_missing_rows_earn_nothing():
    credits, _ = metrics.worst_credits([])
    assert metrics.score(credits) == (0.0, 0.0)


def test_a_controller_that_does_not_repeat_loses_both_shelf_scores():
    credits, _ = metrics.worst_credits(rows_with(repeat=0.0))
    assert credits["S7.pick_compat"] == credits["S7.payload_margin"] == 0.0
    assert metrics.score(credits)[0] == pytest.approx(0.85)


def test_still_valid_needs_every_validity_credit():
    rows = rows_with(lambda arm, test, k: 0.75 if test == "mecanum" else 1.0)
    assert metrics.arm_credits(rows, "panda")["S3.still_valid"] == 0.0


@pytest.mark.parametrize(
    ("ratio", "band", "credit"),
    [(0.0, 1.5, 1.0), (1.0, 1.5, 1.0), (1.25, 1.5, 0.5), (1.5, 1.5, 0.0), (9.0, 1.5, 0.0),
     (1.05, 1.1, 0.5), (math.nan, 1.5, 0.0), (math.inf, 1.5, 0.0)],
)  # fmt: skip
def test_capped_credit(ratio, band, credit):
    assert metrics.capped_credit(ratio, band) == pytest.approx(credit)


@pytest.mark.parametrize(("key", "limit"), spec.EQUILIBRIUM_LIMITS.items())
def test_equilibrium_takes_the_worst(key, limit):
    still = dict.fromkeys(spec.EQUILIBRIUM_LIMITS, 0.0)
    assert metrics.equilibrium(still) == 1.0
    assert metrics.equilibrium({**still, key: limit}) == 1.0
    assert metrics.equilibrium({**still, key: 1.25 * limit}) == pytest.approx(0.5)
    assert metrics.equilibrium({**still, key: math.nan}) == 0.0


def test_mecanum_share():
    command = np.array(spec.MECANUM_TWISTS)
    assert metrics.mecanum(command, command) == 1.0
    slow = command.copy()
    slow[0, 0] = 0.301  # 24.75 % low: passes
    assert metrics.mecanum(slow, command) == 1.0
    slow[0, 0] = 0.299  # 25.25 % low: fails
    assert metrics.mecanum(slow, command) == 0.75
    yawing = command.copy()
    yawing[1, 2] = 0.11  # uncommanded, above .25 x .4
    assert metrics.mecanum(yawing, command) == 0.75
    assert metrics.mecanum(np.full_like(command, np.nan), command) == 0.0


@pytest.mark.parametrize(
    ("footprint", "mass", "length", "credit"),
    [((0.56, 0.56), 60.0, 12.0, 1.0), ((0.588, 0.56), 60.0, 12.0, 0.9), ((0.7, 0.7), 70, 20, 0.2)],
)
def test_resource_constraints(footprint, mass, length, credit):
    assert metrics.resource_constraints(footprint, mass, length, 1.0) == pytest.approx(credit)


@pytest.mark.parametrize(("side", "is_full"), [(0.5600, True), (0.5601, False)])
def test_footprint_limit_ends_efficiency(side, is_full):
    resource = metrics.resource_constraints((side, 0.5), 50.0, 5.0, 1.0)
    assert (metrics.design_efficiency(24.0, 5.0, side * 0.5, resource, 1.0) > 0) is is_full


@pytest.mark.parametrize(("length", "is_full"), [(12.000, True), (12.001, False)])
def test_length_limit_ends_efficiency(length, is_full):
    resource = metrics.resource_constraints((0.5, 0.5), 50.0, length, 1.0)
    assert (resource == 1.0) is is_full
    assert (metrics.design_efficiency(24.0, length, 0.25, resource, 1.0) > 0) is is_full


def test_efficiency_needs_full_structure():
    assert metrics.design_efficiency(20.0, 2.0, 0.27, 1.0, 7 / 8) == 0.0
    assert metrics.design_efficiency(0.0, 0.0, 0.0, 1.0, 1.0) == 1.0  # capped at 1


@pytest.mark.parametrize(
    ("margin", "credit"), [(0.015, 0.0), (0.030, 0.5), (0.045, 1.0), (0.09, 1.0), (-0.1, 0.0)]
)
def test_static_margin(margin, credit):
    assert metrics.static_margin([0.2, margin]) == pytest.approx(credit)


def test_static_margin_without_a_quiet_dwell_is_zero():
    assert metrics.static_margin([0.2, None]) == 0.0
    assert metrics.static_margin([0.2, math.nan]) == 0.0
    assert metrics.static_margin([]) == 0.0


def measured(**changes) -> dict[str, float]:
    good = {
        "tracking": 0.05, "tilt_max_deg": 0.5, "n_events": 0, "longest_event_s": 0.0,
        "fasm_min": 50.0,
    }  # fmt: skip
    return {**good, **changes}


@pytest.mark.parametrize("name", spec.SCENARIOS)
def test_dynamic_full_and_lost(name):
    assert metrics.dynamic(name, measured()) == 1.0
    limit = 0.5 if name == "testD2" else 0.304
    assert metrics.dynamic(name, measured(tracking=limit)) == 1.0
    assert metrics.dynamic(name, measured(tracking=limit + 1e-4)) == 0.0
    assert metrics.dynamic(name, measured(tracking=math.nan)) == 0.0
    assert metrics.dynamic(name, measured(tilt_max_deg=30.1)) == 0.0
    if name != "testD2":
        assert metrics.dynamic(name, measured(n_events=1, longest_event_s=0.31)) == 0.0
        assert metrics.dynamic(name, measured(fasm_min=-1.0)) == 0.0


@pytest.mark.parametrize(
    ("name", "changes", "credit"),
    [
        ("testB", {"fasm_min": 20.0}, 0.5),
        ("testE", {"fasm_min": 5.0}, 0.0),
        ("testC", {"fasm_min": 4.0}, 0.5),
        ("testC", {"tilt_max_deg": 6.0}, 0.5),
        ("testD1", {"fasm_min": 2.5}, 0.25),
        ("testD2", {"n_events": 3, "longest_event_s": 0.9}, 1.0),
        ("testD2", {"n_events": 5, "longest_event_s": 0.9}, 0.6),
        ("testD2", {"n_events": 1, "longest_event_s": 1.01}, 0.0),
        ("testD2", {"tilt_max_deg": 15.1}, 0.0),
    ],
)
def test_dynamic_credits(name, changes, credit):
    assert metrics.dynamic(name, measured(**changes)) == pytest.approx(credit)


def test_reach_credits():
    assert metrics.reach_preserved(0.99, 1.0) == 1.0
    assert metrics.reach_preserved(0.9899, 1.0) == 0.0
    assert metrics.reach_beyond(0.29) == 1.0
    assert metrics.reach_beyond(0.29 / 1.25) == pytest.approx(0.5)
    assert metrics.reach_beyond(0.0) == 0.0


def test_resampling_equals_the_score_for_the_identity_draw():
    rng = np.random.default_rng(5)
    rows = rows_with(lambda arm, test, k: float(rng.random()))
    total = metrics.score(metrics.worst_credits(rows)[0])[1]
    picks = np.vstack([np.arange(len(rows)), rng.integers(0, len(rows), len(rows))])
    drawn = metrics.resampled_scores(rows, picks)
    assert drawn[0] == pytest.approx(total)
    assert 0.0 <= drawn[1] <= 1.0 and drawn[1] != drawn[0]
