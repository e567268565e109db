"""Strokes, inverse kinematics, occlusion, and the choice of an episode."""

import math

import mujoco
import numpy as np
import pytest

from families.f06_pose import scene, spec, task
from families.f06_pose.world import pushes


def test_kinematics_follow_a_stroke_within_a_millimetre():
    built = scene.build(0)
    driver = pushes.Driver(pushes.Kinematics(built), np.random.default_rng(3), 0)
    worst_m, worst_rad = 0.0, 0.0
    for _ in range(140):
        driver.target(np.array([-0.05, 0.05]), 0.4)
        at, axis = driver._ik.tip()
        worst_m = max(worst_m, float(np.linalg.norm(at - driver._at)))
        worst_rad = max(worst_rad, math.acos(min(1.0, float(axis @ driver._axis))))
    assert driver.n_ended >= 1
    assert worst_m < 1e-3 and worst_rad < 0.1


def test_a_stroke_starts_outside_and_pushes_away_from_the_camera():
    rng = np.random.default_rng(0)
    clear = spec.PUSH_START_GAP_M + spec.SHAFT_RADIUS_M
    for k in range(60):
        shape_id, yaw = k % 3, float(rng.uniform(-3, 3))
        at = rng.uniform((-0.1, -0.1), (0.1, 0.1))
        stroke = pushes.plan_stroke(rng, shape_id, at, yaw)
        c, s = math.cos(yaw), math.sin(yaw)
        outline = at + scene.outline_m(shape_id) @ np.array([[c, s], [-s, c]])
        gaps = np.linalg.norm(outline - stroke.start_m, axis=1)
        assert gaps.min() >= clear - 1e-9, "the shaft would come down on the block"
        assert np.linalg.norm(stroke.end_m - stroke.start_m) == pytest.approx(spec.PUSH_LENGTH_M)
        camera = np.array(spec.CAMERA_POS_M[:2]) - stroke.start_m
        assert (stroke.end_m - stroke.start_m) @ camera < 0
        assert np.linalg.norm(stroke.axis) == pytest.approx(1.0)
        assert np.hypot(*stroke.axis[:2]) == pytest.approx(spec.PUSH_TILT_SIN)
        assert stroke.axis[:2] @ camera < 0, "the flange leans towards the camera"


def test_block_slides_as_friction_says():
    # A block with speed v on a table with friction mu stops after v^2 / (2 mu g), without the arm.
    built = scene.build(0)
    data = mujoco.MjData(built.model)
    data.qpos[built.arm_qpos] = data.ctrl[:] = spec.ARM_PARK_RAD
    data.qpos[built.block_qpos] = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
    mujoco.mj_step(built.model, data, 200)
    speed = 0.6
    before = data.qpos[built.block_qpos][0]
    data.qvel[built.model.jnt_dofadr[built.model.joint("block_free").id]] = speed
    mujoco.mj_step(built.model, data, 300)
    slid = data.qpos[built.block_qpos][0] - before
    expected = speed**2 / (2 * spec.FRICTION[0] * spec.GRAVITY_M_S2)
    assert slid == pytest.approx(expected, rel=0.05)


def test_probe_sees_the_arm_between():
    built = scene.build(0)
    run = pushes.Simulation(built, (0.0, 0.0, 0.0))
    probe = pushes.Probe(built)
    assert probe.hidden_share(run.state()) == 0.0
    # The tip brought onto the line of sight, flange towards the camera.
    ik = pushes.Kinematics(built)
    eye = np.array(spec.CAMERA_POS_M)
    for share in np.linspace(0, 1, 40):
        goal = ik.tip()[0] * (1 - share) + np.array([0.05, -0.05, 0.06]) * share
        ik.solve(goal, -eye / np.linalg.norm(eye))
    state = run.state()
    state[built.arm_qpos] = ik.q
    assert probe.hidden_share(state) >= spec.OCCLUDED_AT


def test_quality_counts_hidden_rotation():
    quality = pushes.Quality()
    for k in range(31):  # 2 deg a frame, all hidden: 60 deg of range
        quality.add(math.radians(2.0 * k), True, False)
    assert quality.value == pytest.approx(1.0)
    quality.add(0.0, True, True)
    assert quality.value == -1.0 and not quality.can_exceed(-1.0, 10)
    seen = pushes.Quality()
    for k in range(40):
        seen.add(math.radians(2.0 * k), False, False)
    assert seen.value == 0.0, "a turn in plain sight is no test of memory"
    assert not seen.can_exceed(0.9, 5) and seen.can_exceed(0.8, 5)


def test_quality_follows_yaw_over_the_wrap():
    quality = pushes.Quality()
    for k in range(10):
        yaw = math.remainder(3.1 + 0.02 * k, 2 * math.pi)
        quality.add(yaw, True, False)
    assert quality._hidden_rad == pytest.approx(0.18)


def test_a_dropped_candidate_is_shorter_and_worth_nothing():
    built = scene.build(0)
    states, occluded, _, quality = pushes.record(
        built, (0.0, 0.0, 0.3), np.random.default_rng(1), 12, best=50.0
    )
    assert len(states) == len(occluded) < 12 and quality == -1.0


def test_a_candidate_that_dies_in_the_last_judged_frame_is_not_chosen(monkeypatch):
    monkeypatch.setattr(spec, "SELECT_FRAMES", 4)
    calls = iter([False, False, False, True])
    monkeypatch.setattr(pushes, "is_dead", lambda built, qpos: next(calls))
    quality = pushes.record(scene.build(0), (0.0, 0.0, 0.3), np.random.default_rng(1), 4)[3]
    assert quality == -1.0


@pytest.mark.parametrize(("bad_frame", "judged"), [(2, False), (4, True)])
def test_a_candidate_whose_physics_diverges_is_no_failure_of_ours(monkeypatch, bad_frame, judged):
    monkeypatch.setattr(spec, "SELECT_FRAMES", 4)
    honest, count = pushes.Simulation.frame, iter(range(1, 100))

    def frame(self, driver):
        if next(count) == bad_frame:
            with monkeypatch.context() as patch:
                patch.setattr(mujoco, "mj_step", _give_up)
                return honest(self, driver)
        return honest(self, driver)

    monkeypatch.setattr(pushes.Simulation, "frame", frame)
    states, occluded, _, quality = pushes.record(
        scene.build(0), (0.0, 0.0, 0.3), np.random.default_rng(1), 8
    )
    assert len(states) == len(occluded) == bad_frame
    assert (quality > -1.0) == judged, "what came after the judged frames only ends the episode"


def _give_up(*_):
    raise mujoco.FatalError("FactorizeHessian: rank-deficient")


def test_yaw_of_a_state_is_the_angle_it_was_spawned_with():
    built = scene.build(1)
    for yaw in (-3.0, -1.0, 0.5, 3.1):
        x, y, seen = pushes.block_pose(built, pushes.Simulation(built, (0.1, -0.05, yaw)).state())
        assert (x, y, seen) == pytest.approx((0.1, -0.05, yaw), abs=2e-3)


@pytest.mark.slow
def test_forty_public_pushes_turn_behind_the_arm():
    good, ranges, hidden = 0, [], []
    for seed in range(40):
        push = task.plan_push(task.open_streams("public", "push", seed))
        built = scene.build(push.shape_id)
        n = spec.FRAMES_PER_PUSH_B
        assert len(push.qpos) >= n
        yaw = np.unwrap([pushes.block_pose(built, q)[2] for q in push.qpos[:n]])
        good += push.quality >= 1.0
        ranges.append(math.degrees(np.ptp(yaw)))
        hidden.append(push.occluded[:n].mean())
        assert not any(pushes.is_dead(built, q) for q in push.qpos), "tilt over 15 deg"
    print(f"q >= 1: {good / 40:.3f}, yaw {np.median(ranges):.1f} deg, hidden {np.mean(hidden):.3f}")
    assert good / 40 >= 0.6 and np.median(ranges) >= 60.0 and np.mean(hidden) >= 0.2
