"""The privileged tracker: what it is made of, and the clips that it must follow."""

import functools

import mujoco
import numpy as np
import pytest

from families.f04_tracking import draws, metrics, scene, spec, task
from families.f04_tracking.reference import load_clip
from rle import seeds
from train_baselines.oracles.f04_tracker import NV, Settings, Tracker, state_weight


@functools.cache
def tracker(slug: str) -> Tracker:
    return Tracker(load_clip(slug))


def play(slug: str, profile: str, trial: int = 0) -> tuple[float, float, float]:
    """T, U and score of a trial in which the tracker sees the true state."""
    clip, expert = load_clip(slug), tracker(slug)
    key = seeds.trial_key("f04", slug, "design", trial)
    drawn = draws.trial_draws(lambda name: seeds.stream(key, name), clip.body_pos_w, profile)
    sim = task.Trial(clip, drawn)
    bias = np.array(drawn.dynamics.encoder_bias_rad)
    record = task.play(sim, lambda _: expert.action(sim.frame, sim.data, bias))
    t, u = metrics.tracking(record.error_m), metrics.survival(record.executed)
    limit = metrics.jerk_limit(clip.joint_pos)
    return t, u, metrics.score(t, u, metrics.jerk(record.action), limit, record.is_fall)


def test_feed_forward_carries_the_weight():
    """At rest, the torques of the feed-forward and the planned wrenches balance gravity: the sum of the
    feet's loads is the weight, so what the legs' servos hold is within the robot's limits."""
    plan = tracker("dance").plan
    torque = (plan.feedforward_rad[0] - plan.qpos[0, 7:]) * spec.KP_N_M_PER_RAD
    assert (np.abs(torque) < 0.5 * np.array(spec.EFFORT_N_M)).all()
    knee = torque[spec.JOINT_NAMES.index("left_knee_joint")]
    assert knee == pytest.approx(torque[spec.JOINT_NAMES.index("right_knee_joint")], rel=0.02)
    assert abs(knee) > 5.0  # a bent knee carries


def test_gains_stabilise_what_is_unstable_alone():
    plan = tracker("dance").plan
    a, b, k = plan.transition[0], plan.control[0], plan.gains[0]
    alone, held = (np.abs(np.linalg.eigvals(m)).max() for m in (a, a + b @ k))
    assert alone > 1.03  # falls: e-fold in 0.6 s
    assert held < 1.001  # where the robot stands on the floor is nearly free: 1


def test_linearisation_predicts_the_simulator():
    """A push of 1 cm/s, one control period later, against the simulator itself."""
    expert = tracker("dance")
    plan, g1 = expert.plan, scene.build(spec.EVAL_TIMESTEP_S, frictionloss_n_m=0.0)
    data = mujoco.MjData(g1.model)
    after = []
    for push in (0.0, 0.01):
        mujoco.mj_resetData(g1.model, data)
        data.qpos[:], data.qvel[:] = plan.qpos[0], plan.qvel[0]
        data.qvel[0] += push
        data.ctrl[g1.handles.ctrl] = plan.feedforward_rad[0]
        mujoco.mj_step(g1.model, data, spec.EVAL_SUBSTEPS)
        after.append((data.qpos.copy(), data.qvel.copy()))
    tangent = np.empty(NV)
    mujoco.mj_differentiatePos(g1.model, tangent, 1.0, after[0][0], after[1][0])
    moved = np.concatenate([tangent, after[1][1] - after[0][1]])
    predicted = plan.transition[0][:, NV] * 0.01  # column of the root's x velocity
    assert np.linalg.norm(moved - predicted) < 0.15 * np.linalg.norm(predicted)


def test_the_error_is_blind_to_a_planar_motion_of_everything():
    """Robot moved by (1.3, -0.4) m and turned by 0.7 rad: same error, because the clip moves along."""
    expert, k = tracker("dance"), 137
    plan, yaw = expert.plan, 0.7
    qpos, qvel = plan.qpos[k].copy(), plan.qvel[k].copy()
    qpos[9] += 0.05
    errors = []
    g1 = scene.build(spec.EVAL_TIMESTEP_S)
    for turn, shift in ((0.0, np.zeros(2)), (yaw, np.array([1.3, -0.4]))):
        c, s = np.cos(turn), np.sin(turn)
        rotate = np.array([[c, -s], [s, c]])
        moved, velocity = qpos.copy(), qvel.copy()
        moved[:2] = rotate @ qpos[:2] + shift
        mujoco.mju_mulQuat(
            moved[3:7], np.array([np.cos(turn / 2), 0, 0, np.sin(turn / 2)]), qpos[3:7]
        )
        velocity[:2] = rotate @ qvel[:2]
        data = mujoco.MjData(g1.model)
        data.qpos[:] = moved
        mujoco.mj_kinematics(g1.model, data)
        feet_m = np.array([data.body(name).xpos for name in spec.FOOT_BODIES])
        errors.append(expert.error(k, moved, velocity, feet_m))
    assert errors[0] == pytest.approx(errors[1], abs=1e-9)
    assert errors[0][6 + 2] == pytest.approx(0.05, abs=1e-9)


def test_lifted_foot_is_no_anchor():
    plan = tracker("run").plan
    k = 200  # t = 4.0 s: the left foot is 4 cm up
    assert plan.feet_m[k, 0, 2] + spec.FOOT_SOLE_Z_M == pytest.approx(0.04, abs=1e-4)
    assert plan.support[k] == pytest.approx((0.0, 1.0), abs=2e-3)
    assert plan.firm[k].tolist() == [False, True]
    assert plan.support[0] == pytest.approx((0.5, 0.5))


def test_state_weight_has_one_number_per_coordinate():
    assert state_weight(Settings()).shape == (2 * NV,)


def test_stand_in_is_accepted_dance():
    t, u, score = play("dance", "nominal")
    assert u == 1.0 and t >= 0.98 and score >= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("slug", spec.CLIPS)
def test_stand_in_is_accepted(slug):
    """True state, no perturbation: all 20 s, T >= 0.98."""
    t, u, score = play(slug, "nominal")
    assert u == 1.0 and t >= 0.98 and score >= 0.97
