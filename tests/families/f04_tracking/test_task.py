"""The trial loop: what is simulated, when an action takes effect, what ends a trial, what is measured."""

import dataclasses

import msgspec
import mujoco
import numpy as np
import pytest

from families.f04_tracking import draws, scene, spec, task
from families.f04_tracking.reference import load_clip
from rle import seeds

ZERO = np.zeros(spec.ACTION_DIM)


@pytest.fixture(scope="module")
def clip():
    return load_clip("dance")


def nominal(**changes) -> draws.TrialDraws:
    """A trial without perturbation, but for the given blocks."""
    base = draws.TrialDraws(
        dynamics=draws.Draw(),
        terrain=None,
        start=draws.NO_OFFSET,
        pushes={},
        noise=np.zeros((spec.STEPS, spec.OBS_DIM)),
    )
    return dataclasses.replace(base, **changes)


def full_draws(clip, trial: int = 0) -> draws.TrialDraws:
    key = seeds.trial_key("f04", "dance", "public", trial)
    return draws.trial_draws(lambda name: seeds.stream(key, name), clip.body_pos_w)


class ReplaysReference(task.Trial):
    """A simulator stub: after every step the robot is exactly in the next reference frame."""

    def _simulate(self, joint_target):
        k = self.frame + 1
        self.data.qpos[:], self.data.qvel[:] = self.reference.qpos[k], self.reference.qvel[k]
        scene.refresh(self.model, self.data)


def test_frame_alignment(clip):
    """State after step k is compared with frame k + 1: a perfect simulator has no error at all."""
    record = task.play(ReplaysReference(clip, nominal()), lambda frames: ZERO)
    assert record.ended == "done" and record.executed == 1000
    assert record.error_m.max() < 1e-6  # frames are stored as float32
    assert record.joint_error_rad.max() < 1e-6 and record.drift_m.max() < 1e-6


def test_observation_of_step_k_shows_frame_k(clip):
    trial = ReplaysReference(clip, nominal())
    for k in range(3):
        frame = trial.observe()[0]
        assert np.array_equal(frame[:29], clip.joint_pos[k])
        assert frame[58:61] == pytest.approx(
            np.zeros(3), abs=1e-3
        )  # less the lift out of the floor
        trial.step(ZERO)


@pytest.mark.parametrize("latency", [0, 1])
def test_latency_is_exact(clip, latency):
    """A step action at k = 5 appears in the ctrl trace at k = 5 + L, and nowhere else."""
    trial = task.Trial(clip, nominal(dynamics=draws.Draw(latency_steps=latency)))
    for k in range(9):
        trial.step(np.full(29, 0.1 if k == 5 else 0.0))
    ctrl = trial.record().ctrl
    default = np.array(spec.DEFAULT_POSE_RAD)
    moved = [k for k in range(9) if not np.allclose(ctrl[k], default)]
    expected = [5] if latency == 0 else [0, 6]  # k < L holds the clip's first pose
    assert moved == expected
    assert ctrl[5 + latency] == pytest.approx(default + 0.1 * np.array(spec.ACTION_SCALE_RAD))
    if latency:
        assert ctrl[0] == pytest.approx(clip.joint_pos[0])


def test_latencies_differ_by_one_row(clip):
    rng = np.random.default_rng(0)
    actions = rng.uniform(-0.1, 0.1, (12, 29))
    traces = []
    for latency in (0, 1):
        trial = task.Trial(clip, nominal(dynamics=draws.Draw(latency_steps=latency)))
        for action in actions:
            trial.step(action)
        traces.append(trial.record().ctrl)
    assert np.array_equal(traces[0][:-1], traces[1][1:])


def test_target_is_clipped_to_the_joint_range_and_carries_the_bias(clip):
    bias = tuple(np.linspace(-0.01, 0.01, 29).tolist())
    trial = task.Trial(clip, nominal(dynamics=draws.Draw(encoder_bias_rad=bias)))
    trial.step(ZERO)
    assert trial.record().ctrl[0] == pytest.approx(np.array(spec.DEFAULT_POSE_RAD) - bias)
    trial.step(np.full(29, 1e3))
    assert trial.record().ctrl[1] == pytest.approx(trial.g1.handles.joint_range_rad[:, 1])


def test_bias_is_seen_by_the_encoder_and_not_by_the_body(clip):
    bias = (0.01,) * 29
    plain = task.Trial(clip, nominal())
    biased = task.Trial(clip, nominal(dynamics=draws.Draw(encoder_bias_rad=bias)))
    difference = biased.observe()[0] - plain.observe()[0]
    expected = np.zeros(160)
    expected[73:102] = 0.01
    assert difference == pytest.approx(expected, abs=1e-12)


def test_start_offsets_are_in_the_state(clip):
    start = draws.Start(
        pos_m=np.array([0.03, -0.02, 0.5]),
        rpy_rad=np.array([0.0, 0.0, 0.2]),
        vel=np.array([0.1, 0.2, 0.3, -0.1, -0.2, 0.05]),
        joint_rad=np.full(29, 0.05),
    )
    data = task.Trial(clip, nominal(start=start)).data
    assert data.qpos[:3] == pytest.approx(clip.qpos[0, :3] + start.pos_m)
    assert data.qvel[:6] == pytest.approx(clip.qvel[0, :6] + start.vel)
    assert data.qpos[7:] == pytest.approx(clip.joint_pos[0] + 0.05)
    forward = np.zeros(9)
    mujoco.mju_quat2Mat(forward, data.qpos[3:7])
    assert np.arctan2(forward[3], forward[0]) == pytest.approx(
        0.2, abs=0.01
    )  # clip starts at yaw 0


def test_start_is_lifted_out_of_the_floor_to_one_millimetre(clip):
    low = dataclasses.replace(draws.NO_OFFSET, pos_m=np.array([0.0, 0.0, -0.05]))
    trial = task.Trial(clip, nominal(start=low))
    contacts = trial.data.contact
    assert -min(c.dist for c in contacts) == pytest.approx(1e-3, abs=2e-4)


def test_push_is_a_jump_of_the_root_velocity(clip):
    push = np.array([0.3, -0.2, 0.1, 0.5, -0.4, 0.3])
    seen = {}

    class Watched(task.Trial):
        def _simulate(self, joint_target):
            seen[self.step_index] = self.data.qvel[:6].copy()
            super()._simulate(joint_target)

    for name, pushes in (("pushed", {4: push}), ("plain", {})):
        trial = Watched(clip, nominal(pushes=pushes))
        for _ in range(5):
            trial.step(ZERO)
        seen[name] = seen[4]
        assert trial.record().push_steps == tuple(pushes)
    assert seen["pushed"] - seen["plain"] == pytest.approx(push)


@pytest.mark.parametrize("friction", [0.3, 1.0, 1.6])
@pytest.mark.parametrize("span_m", [0.0, 0.02])
def test_friction_and_terrain_are_simulated(clip, friction, span_m):
    heights = draws.draw_terrain(np.random.default_rng(3), clip.body_pos_w)
    unit = heights.heights_m / heights.span_m
    terrain = scene.HeightMap(span_m * unit, heights.center_xy_m) if span_m else None
    trial = task.Trial(clip, nominal(dynamics=draws.Draw(friction=friction), terrain=terrain))
    for _ in range(5):
        trial.step(ZERO)
    mujoco.mj_forward(trial.model, trial.data)
    measured = scene.floor_contact_friction(trial.g1, trial.data)
    assert len(measured) > 0 and measured == pytest.approx(friction)
    # the floor under a foot: where a vertical ray hits it
    height = []
    for name in spec.FOOT_BODIES:
        above = trial.data.body(name).xpos + [0.0, 0.0, 1.0]
        group = np.array([1, 0, 0, 0, 0, 0], np.uint8)  # the floor's group alone
        geom = np.array([-1], np.int32)
        distance = mujoco.mj_ray(
            trial.model, trial.data, above, np.array([0.0, 0.0, -1.0]), group, 1, -1, geom
        )
        assert geom[0] == trial.g1.handles.floor_geom
        height.append(above[2] - distance)
    assert (np.abs(height) > 1e-4).any() if span_m else height == pytest.approx([0.0, 0.0])
    assert np.abs(height).max() <= span_m / 2 + 1e-6


def test_mass_scale_is_simulated(clip):
    for scale in (0.9, 1.0, 1.1):
        model = task.Trial(clip, nominal(dynamics=draws.Draw(mass_scale=scale))).model
        assert model.body_subtreemass[1] == pytest.approx(scale * 33.341142, abs=1e-5)


def test_gains_and_torso_offset_are_simulated(clip):
    base = task.Trial(clip, nominal()).model
    changed = draws.Draw(kp_scale=1.1, kd_scale=0.9, torso_com_offset_m=(0.02, -0.04, 0.03))
    model = task.Trial(clip, nominal(dynamics=changed)).model
    assert model.actuator_gainprm[:, 0] == pytest.approx(1.1 * base.actuator_gainprm[:, 0])
    assert model.actuator_biasprm[:, 1] == pytest.approx(1.1 * base.actuator_biasprm[:, 1])
    assert model.actuator_biasprm[:, 2] == pytest.approx(0.9 * base.actuator_biasprm[:, 2])
    torso = base.body("torso_link").id
    moved = model.body_ipos - base.body_ipos
    assert moved[torso] == pytest.approx([0.02, -0.04, 0.03])
    assert np.count_nonzero(np.abs(moved).sum(axis=1)) == 1


def test_noise_is_added_as_drawn(clip):
    noise = draws.draw_noise(np.random.default_rng(0))
    noisy, clean = task.Trial(clip, nominal(noise=noise)), task.Trial(clip, nominal())
    for k in range(3):
        assert noisy.observe() - clean.observe() == pytest.approx(noise[None, k])
        noisy.step(ZERO), clean.step(ZERO)


@pytest.mark.parametrize(
    ("name", "index", "inside", "outside"),
    [("anchor_z", 2, 0.2499, 0.2501), ("ee_z", 2, 0.2499, 0.2501)],
)
def test_height_rules_at_their_edge(clip, name, index, inside, outside):
    for offset_m, ended in ((inside, None), (outside, name)):
        trial = held_off(clip, name, offset_m)
        assert trial.step(ZERO) == ended
        assert trial.record().executed == (1 if ended is None else 0)
        assert trial.record().is_fall or ended is None


def held_off(clip, name: str, offset_m: float) -> task.Trial:
    """A trial whose robot is in the reference pose, with one measure moved by hand."""

    class Held(ReplaysReference):
        def _measure(self):
            super()._measure()
            z = clip.body_pos_w[self.frame, list(spec.TRACKED_INDEX), 2].copy()
            moved = [spec.ANCHOR_INDEX] if name == "anchor_z" else [spec.END_EFFECTOR_INDEX[2]]
            if self.step_index:
                z[moved] -= offset_m
            self.robot.body_pos[0, :, 2] = z

    return Held(clip, nominal())


def test_tilt_rule_compares_gravity_in_the_torso(clip):
    """Lying: gravity's z component goes from -1 to 0, a difference of 1 > 0.8."""
    record = task.Trial(clip, nominal())
    robot, target = record.robot, record.target()
    upright = np.array([[1.0, 0.0, 0.0, 0.0]])
    quat, ref = robot.body_quat_wxyz.copy(), target.body_quat_wxyz.copy()
    ref[:, spec.ANCHOR_INDEX] = upright
    for pitch_rad, expected in ((0.0, 0.0), (np.pi / 2, 1.0), (np.arccos(0.2), 0.8)):
        quat[:, spec.ANCHOR_INDEX] = (np.cos(pitch_rad / 2), 0.0, np.sin(pitch_rad / 2), 0.0)
        _, tilt, _ = task.fall_measures(
            robot._replace(body_quat_wxyz=quat), target._replace(body_quat_wxyz=ref)
        )
        assert tilt[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "action",
    [np.full(29, np.nan), np.full(29, np.inf), np.full(29, 1.0001e4), np.zeros(28)],
    ids=["nan", "inf", "huge", "short"],
)
def test_an_impossible_action_ends_the_trial_as_a_fall(clip, action):
    trial = task.Trial(clip, nominal())
    trial.step(ZERO)
    assert trial.step(action) == "bad_action"
    record = trial.record()
    assert record.is_fall and record.executed == 1 and len(record.ctrl) == 1


def test_the_largest_legal_action_is_applied(clip):
    assert task.Trial(clip, nominal()).step(np.full(29, 1e4)) is None


def test_divergence_ends_the_trial_as_a_fall(clip):
    for spoil in (
        lambda data: data.qvel.__setitem__(10, 201.0),
        lambda data: data.qpos.__setitem__(2, np.nan),
    ):

        class Spoiled(task.Trial):
            def _simulate(self, joint_target, spoil=spoil):
                super()._simulate(joint_target)
                spoil(self.data)

        trial = Spoiled(clip, nominal())
        assert trial.step(ZERO) == "sim_unstable"
        assert trial.record().is_fall and trial.record().executed == 0


def test_a_mujoco_warning_ends_the_trial(clip):
    trial = task.Trial(clip, nominal())
    trial.data.qvel[:] = 1e12  # MuJoCo warns of a bad velocity and resets its state by itself
    assert trial.step(ZERO) == "sim_unstable"


def test_a_solver_that_gives_up_ends_the_trial(clip, monkeypatch):
    def give_up(model, data, nstep=1):
        raise mujoco.FatalError("the solver gave up")

    trial = task.Trial(clip, nominal())
    monkeypatch.setattr(mujoco, "mj_step", give_up)
    assert trial.step(ZERO) == "sim_unstable"
    assert trial.record().is_fall and trial.record().executed == 0


def test_an_ended_trial_takes_no_step(clip):
    trial = task.Trial(clip, nominal())
    trial.end("worker_died")
    with pytest.raises(RuntimeError, match="worker_died"):
        trial.step(ZERO)


def test_same_draws_same_trial_and_reset_is_a_new_start(clip):
    records = []
    first = task.Trial(clip, full_draws(clip))
    for trial in (first, first, task.Trial(clip, full_draws(clip))):
        trial.reset()
        records.append(task.play(trial, lambda frames: frames[0, :29]))
    assert records[0].executed > 5
    for other in records[1:]:
        assert np.array_equal(other.error_m, records[0].error_m)
        assert np.array_equal(other.qpos, records[0].qpos)
    different = task.play(task.Trial(clip, full_draws(clip, 1)), lambda frames: frames[0, :29])
    assert not np.array_equal(different.error_m[:5], records[0].error_m[:5])


def test_a_trial_can_start_inside_the_clip(clip):
    trial = ReplaysReference(clip, nominal(), first_frame=400)
    assert trial.data.qpos[7:] == pytest.approx(clip.joint_pos[400])
    record = task.play(trial, lambda frames: ZERO)
    assert record.executed == 600 and record.error_m.max() < 1e-6


def test_present_error_is_the_recorded_one(clip):
    trial = task.Trial(clip, full_draws(clip))
    for _ in range(5):
        trial.step(ZERO)
        now = trial.error_m()
        assert trial.record().error_m[-1] == pytest.approx(now, abs=1e-12)


def test_bare_physics_of_the_recorded_targets_is_the_same_trial(clip):
    """The trial adds nothing to MuJoCo: ctrl and pushes replayed on the bare model give the states."""
    trial = task.Trial(clip, full_draws(clip))
    record = task.play(trial, lambda frames: frames[0, :29])
    data = mujoco.MjData(trial.model)
    data.qpos[:], data.qvel[:] = record.qpos[0], record.qvel_start
    mujoco.mj_forward(trial.model, data)
    for k, ctrl in enumerate(record.ctrl):
        data.qvel[:6] += trial.draws.pushes.get(k, np.zeros(6))
        data.ctrl[trial.g1.handles.ctrl] = ctrl
        for _ in range(spec.EVAL_SUBSTEPS):
            mujoco.mj_step(trial.model, data)
    assert data.qpos == pytest.approx(record.qpos[-1], abs=1e-9)


def test_draws_are_no_part_of_the_observation_but_bias_and_noise(clip):
    """Friction, mass, gains, latency and floor cannot be read off the first frame."""
    hidden = msgspec.structs.replace(
        draws.draw_dynamics(np.random.default_rng(0)), encoder_bias_rad=(0.0,) * 29
    )
    plain, drawn = task.Trial(clip, nominal()), task.Trial(clip, nominal(dynamics=hidden))
    assert drawn.observe() == pytest.approx(plain.observe(), abs=1e-9)
