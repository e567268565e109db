"""Card f04, section Score: worked examples, limits, monotonicity, both sides of the free drift."""

import numpy as np
import pytest
import torch

from families.f04_tracking import metrics, spec
from rle import rotations

J_MAX = 0.3054


def test_worked_example_with_a_fall():
    # Kernels at .04 m: exp(-.04^2/.3^2) .98238, .85214, .52729, mean .78727; at .12 m: mean .36407.
    # T = (600 x .78727 + 200 x .36407) / 1000 = .54518; U = .8;
    # s = .7 x .54518 + .3 x .8 - .15 x .12 / .3054 - .05 = .51269
    error_m = np.concatenate([np.full(600, 0.04), np.full(200, 0.12)])
    t = metrics.tracking(error_m)
    assert t == pytest.approx(0.54518, abs=5e-6)
    s = metrics.score(t, metrics.survival(800), 0.12, J_MAX, fall=True)
    assert s == pytest.approx(0.51269, abs=5e-6)


def test_worked_example_with_too_much_jerk():
    # T = .86722, J = .4 > J_max: s = .60705 + .3 - .15 = .75705
    t = metrics.tracking(np.full(1000, 0.03))
    assert t == pytest.approx(0.86722, abs=5e-6)
    assert metrics.score(t, 1.0, 0.4, J_MAX, fall=False) == pytest.approx(0.75705, abs=5e-6)


def test_perfect_is_one_and_nothing_is_zero():
    assert metrics.score(metrics.tracking(np.zeros(1000)), 1.0, 0.0, J_MAX, fall=False) == 1.0
    assert metrics.score(metrics.tracking(np.zeros(0)), 0.0, 0.0, J_MAX, fall=True) == 0.0


def test_a_step_that_was_not_executed_earns_nothing():
    assert metrics.tracking(np.zeros(250)) == 0.25
    assert metrics.survival(250) == 0.25


@pytest.mark.parametrize("name", ["tracking", "survival", "jerk", "fall"])
def test_score_is_monotone(name):
    better = {"tracking": 0.6, "survival": 0.8, "jerk": 0.10, "fall": False}
    worse = {"tracking": 0.5, "survival": 0.7, "jerk": 0.11, "fall": True}
    base = dict(better)
    assert metrics.score(**base, jerk_limit=J_MAX) > metrics.score(
        **(base | {name: worse[name]}), jerk_limit=J_MAX
    )


def test_more_error_is_less_tracking():
    values = [metrics.tracking(np.full(10, e), steps=10) for e in (0.0, 0.01, 0.05, 0.2, 1.0)]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == len(values)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.1])
def test_an_impossible_error_is_a_bug_not_a_zero(bad):
    with pytest.raises(ValueError, match="error_m"):
        metrics.tracking(np.array([0.0, bad]))


def test_more_steps_than_there_are_is_a_bug():
    with pytest.raises(ValueError, match="1001 errors"):
        metrics.tracking(np.zeros(1001))
    with pytest.raises(ValueError, match="1001 executed"):
        metrics.survival(1001)


def test_jerk_by_hand():
    # one joint of 29 moves 0, 1, 3: second difference 3 - 2 + 0 = 1, mean over 29 joints
    action = np.zeros((3, 29))
    action[:, 4] = (0.0, 1.0, 3.0)
    assert metrics.jerk(action) == pytest.approx(1.0 / 29.0)


def test_jerk_of_a_ramp_and_of_two_actions_is_zero():
    assert metrics.jerk(np.linspace(0.0, 1.0, 8)[:, None] * np.ones(29)) == pytest.approx(0.0)
    assert metrics.jerk(np.ones((2, 29)) * [[1.0], [-1.0]]) == 0.0


def test_jerk_limit_of_a_resting_clip_is_the_feedback_allowance():
    rest = np.tile(spec.DEFAULT_POSE_RAD, (10, 1))
    assert metrics.jerk_limit(rest) == pytest.approx(2 * spec.J_FEEDBACK)


def anchored(drift_m: float, yaw_rad: float, xp=np):
    """e of a robot that repeats the reference exactly, but drifted and turned about its anchor."""
    rng = np.random.default_rng(4)
    ref = rng.uniform(-1, 1, (1, spec.N_TRACKED, 3))
    anchor = ref[:, spec.ANCHOR_INDEX]
    ref_quat = rotations.from_rpy(0.1, -0.2, 0.7)[None]
    turn = rotations.from_rpy(0.0, 0.0, yaw_rad)
    quat = rotations.product(turn[None], ref_quat)
    body = (ref - anchor) @ rotations.matrix(turn).T + anchor + [drift_m * 0.6, drift_m * 0.8, 0.0]
    pos = body[:, spec.ANCHOR_INDEX]
    arrays = [anchor, ref_quat, pos, quat, ref, body]
    if xp is torch:
        arrays = [torch.as_tensor(a) for a in arrays]
    anchor, ref_quat, pos, quat, ref, body = arrays
    moved = metrics.anchoring(anchor, ref_quat, pos, quat, xp=xp)
    return metrics.body_error(body, metrics.re_anchor(moved, ref, xp=xp)), moved


@pytest.mark.parametrize("drift_m", [0.0, 0.25, 0.49])
@pytest.mark.parametrize("yaw_rad", [0.0, -0.49, 0.49])
def test_drift_within_its_limits_is_free(drift_m, yaw_rad):
    error, moved = anchored(drift_m, yaw_rad)
    assert error[0] == pytest.approx(0.0, abs=1e-12)
    assert moved.drift_m[0] == pytest.approx(drift_m)
    assert moved.yaw_drift_rad[0] == pytest.approx(yaw_rad)


def test_drift_beyond_counts_as_its_excess():
    error, _ = anchored(0.60, 0.0)
    assert error[0] == pytest.approx(0.10)


def test_yaw_beyond_counts_as_its_excess():
    error, _ = anchored(0.0, 0.60)
    lever_m = None  # every body is off by 2 sin(.05) of its distance to the anchor's vertical
    rng = np.random.default_rng(4)
    ref = rng.uniform(-1, 1, (1, spec.N_TRACKED, 3))
    arm = ref[0] - ref[0, spec.ANCHOR_INDEX]
    lever_m = np.hypot(arm[:, 0], arm[:, 1]).mean()
    assert error[0] == pytest.approx(2 * np.sin(0.05) * lever_m)


def test_torch_measures_the_same_error():
    ours, _ = anchored(0.7, 0.8)
    theirs, _ = anchored(0.7, 0.8, xp=torch)
    assert float(theirs[0]) == pytest.approx(float(ours[0]), abs=1e-12)


def test_body_error_is_the_mean_distance():
    # offsets of 5 m (3-4-0) on one body of two: mean 2.5 m
    body = np.array([[[3.0, 4.0, 0.0], [1.0, 1.0, 1.0]]])
    assert metrics.body_error(body, np.array([[[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]]))[0] == 2.5


def test_recovery_time():
    # 1 s calm at .02 m; at the push the error rises for 10 steps and is back at the 11th: 11 x 20 ms
    error_m = np.full(200, 0.02)
    error_m[60:70] = 0.2
    assert metrics.recovery_s(error_m, 60) == pytest.approx(0.22)
    assert metrics.recovery_s(np.full(200, 0.02), 60) == 0.0
    assert metrics.recovery_s(error_m[:65], 60) is None
