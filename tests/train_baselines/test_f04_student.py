"""The network that takes steps: its senses against the simulator, and imitation end to end."""

import dataclasses

import mujoco
import numpy as np
import pytest
import torch

from families.f04_tracking import policy, scene, spec
from families.f04_tracking.export import ImportedPolicy, to_onnx
from families.f04_tracking.reference import load_clip
from rle import seeds
from train_baselines.oracles import f04_school, f04_student
from train_baselines.oracles.f04_lqg import MEASURED, measure
from train_baselines.oracles.f04_senses import (
    HISTORY,
    JOINT_POS,
    LAST_ACTION,
    Kinematics,
    Senses,
    mirror,
    mirror_joints,
)

QUICK = f04_school.Settings(robots=3, steps_per_round=40, episode_steps=30, start_share=0.5)
TRAINING = f04_student.Settings(
    school=QUICK, hidden=(32,), rounds=2, expert_rounds=1, updates_per_round=5, final_updates=5
)


@pytest.fixture(scope="module")
def g1() -> scene.G1:
    return scene.build(spec.EVAL_TIMESTEP_S)


def leaning(rng: np.random.Generator) -> np.ndarray:
    """A state near the start of the dance clip, shape (36,)."""
    qpos = load_clip("dance").qpos[0].copy()
    qpos[3:7] += 0.1 * rng.standard_normal(4)
    qpos[3:7] /= np.linalg.norm(qpos[3:7])
    qpos[7:] += 0.2 * rng.standard_normal(29)
    return qpos


def frame_of(g1: scene.G1, qpos: np.ndarray, clip_qpos: np.ndarray) -> np.ndarray:
    """Noise-free frame of a robot at rest against a clip at rest, shape (160,)."""
    data = mujoco.MjData(g1.model)
    data.qpos[:] = clip_qpos
    mujoco.mj_kinematics(g1.model, data)
    tracked, still = g1.handles.tracked, np.zeros((1, 29))
    target = policy.Target(
        data.qpos[None, 7:].copy(), still, data.xpos[None, tracked], data.xquat[None, tracked],
        np.zeros((1, 14, 3)), np.zeros((1, 14, 3)),
        data.xmat[tracked[spec.ANCHOR_INDEX]].reshape(1, 3, 3).copy(),
    )  # fmt: skip
    frame = np.zeros(spec.OBS_DIM)
    frame[MEASURED] = measure(g1, target, qpos, np.zeros(35))
    frame[:29] = clip_qpos[7:]
    return frame


def test_kinematics_are_those_of_the_simulator(g1):
    rng, data = np.random.default_rng(0), mujoco.MjData(g1.model)
    joints = rng.uniform(-0.7, 0.7, (3, 2, 29))
    body = Kinematics()(torch.tensor(joints, dtype=torch.float32))
    for index in np.ndindex(3, 2):
        data.qpos[:7], data.qpos[g1.handles.qpos] = (0, 0, 0, 1, 0, 0, 0), joints[index]
        mujoco.mj_kinematics(g1.model, data)
        mujoco.mj_comPos(g1.model, data)
        assert np.allclose(body.com_m[:, *index], data.subtree_com[1], atol=1e-5)
        for i, name in enumerate(spec.FOOT_BODIES):
            at = data.body(name)
            assert np.allclose(body.feet_m[:, *index, i], at.xpos, atol=1e-5)
            assert np.allclose(body.foot_rot[:, :, *index, i], at.xmat.reshape(3, 3), atol=1e-5)
        torso = data.body("torso_link").xmat.reshape(3, 3)
        assert np.allclose(body.torso_rot[:, :, *index], torso, atol=1e-5)


def test_the_vertical_is_found_from_the_flat_soles_of_the_clip(g1):
    """A robot at rest, any lean: the vertical in its pelvis frame is the last row of its rotation."""
    senses, rng, clip = Senses(), np.random.default_rng(1), load_clip("dance").qpos[0]
    for frames in (1, 5, HISTORY):
        qpos, turned = leaning(rng), np.empty(9)
        mujoco.mju_quat2Mat(turned, qpos[3:7])
        history = np.zeros((HISTORY, spec.OBS_DIM), np.float32)
        history[-frames:] = frame_of(g1, qpos, clip)
        features = senses(torch.from_numpy(history.reshape(1, -1)))[0]
        assert np.allclose(features[-9:-6], turned[6:], atol=1e-4)  # six counts stand behind it


def test_a_mirror_image_is_what_the_mirrored_robot_observes(g1):
    rng = np.random.default_rng(2)
    index, sign = mirror()
    joint, flip = mirror_joints()

    def mirrored(qpos: np.ndarray) -> np.ndarray:
        x, y, z, w, qx, qy, qz = qpos[:7]
        return np.concatenate([(x, -y, z, w, -qx, qy, -qz), qpos[7:][joint] * flip])

    qpos, clip = leaning(rng), leaning(rng)
    seen = frame_of(g1, qpos, clip)
    image = frame_of(g1, mirrored(qpos), mirrored(clip))
    assert not np.allclose(seen, image, atol=1e-2)
    assert np.allclose(sign * seen[index], image, atol=1e-9)


def test_noise_and_bias_are_drawn_anew_and_decide_no_label():
    """A label moves with the drawn bias and with nothing else; so do measured joints and last actions."""
    settings = dataclasses.replace(QUICK, variants=1)
    school = school_of(settings)
    seen = []
    school.senses = lambda obs: seen.append(obs.reshape(-1, HISTORY, spec.OBS_DIM).numpy()) or obs
    window, label = np.zeros((400, HISTORY, spec.OBS_DIM), np.float32), np.zeros((400, 29))
    window[:, -2:, 0] = 1.0  # two frames old
    school._file(window, label)
    bias = school.labels[0].numpy() * f04_school.SCALE
    limit = spec.EVAL_DRAWS.encoder_bias_rad[1]
    assert 0.9 * limit < np.abs(bias).max() <= limit * 1.001
    frames = np.concatenate(seen)
    assert (frames[:, :-2] == 0.0).all()
    assert np.allclose(frames[:, -1, LAST_ACTION], bias / f04_school.SCALE, atol=1e-5)
    assert (frames[:, -2, LAST_ACTION] == 0.0).all()  # nothing was done before the first frame
    off = frames[:, -1, JOINT_POS] - bias
    assert 0.009 < np.abs(off).max() <= 0.01001 and abs(off.mean()) < 5e-4


def school_of(settings: f04_school.Settings, is_expert: bool = True) -> f04_school.School:
    key = seeds.trial_key("f04", "dance", "public", "test")
    return f04_school.School([f04_school.course_of("f04/dance")], settings, key, is_expert)


def test_rollouts_repeat_and_know_what_they_saw_without_noise():
    student = f04_student.Student(TRAINING)
    first, again = school_of(QUICK), school_of(QUICK)
    for school in (first, again):
        school.is_expert = False
        school.collect(student.drive)
    assert first.n_labels > 0 and torch.equal(first.features[0], again.features[0])
    for rollout, seen in zip(first.rollouts, first.seen, strict=True):
        assert (np.abs(seen - rollout.window) <= np.float32(0.51)).all()
        exists = np.abs(rollout.window).max(axis=1) > 0.0
        assert np.array_equal(exists, np.abs(seen).max(axis=1) > 0.0)
    rollout = first.rollouts[0]
    reached = rollout.trial.data.qpos[7:] - np.array(spec.DEFAULT_POSE_RAD)
    rollout.look()
    assert np.allclose(rollout.window[-1, JOINT_POS], reached, atol=1e-5)


def test_smoothing_is_the_minimum_that_it_claims():
    student = f04_student.Student(TRAINING)
    torch.nn.init.normal_(student.linear.weight, std=0.05)
    obs = torch.randn(2, HISTORY, spec.OBS_DIM)
    obs[1, :-2] = 0.0  # a rollout in its second step
    own, smooth = student.drive(obs.flatten(1)), student(obs.flatten(1))
    assert torch.equal(smooth[1], own[1])
    last, before = obs[0, -1, LAST_ACTION], obs[0, -2, LAST_ACTION]
    a = smooth[0].detach().requires_grad_()
    weight = TRAINING.smoothing
    cost = ((a - own[0]) ** 2).sum() + weight * ((a - 2.0 * last + before) ** 2).sum()
    assert torch.autograd.grad(cost, a)[0].abs().max() < 1e-5


def test_a_graph_with_senses_can_be_trained_on_in_batches():
    """What `--init` of the PPO baseline reads back is the same function, for many robots at once."""
    student = f04_student.Student(TRAINING)
    torch.nn.init.normal_(student.mlp[-1].weight, std=0.1)
    obs = 0.3 * torch.randn(5, HISTORY * spec.OBS_DIM)
    obs[2, : 10 * spec.OBS_DIM] = 0.0
    imported = ImportedPolicy(to_onnx(student, HISTORY))
    assert torch.allclose(imported(obs), student(obs), atol=1e-5)
    shapes = {tuple(p.shape) for p in imported.parameters()}
    assert {tuple(student.linear.weight.shape), (32, student.senses.size)} <= shapes


def test_a_student_goes_on_from_an_exported_one():
    first, again = f04_student.Student(TRAINING), f04_student.Student(TRAINING)
    torch.nn.init.normal_(first.mlp[-1].weight, std=0.1)
    first.std.fill_(0.5)
    again.load(to_onnx(first, HISTORY))
    obs = torch.randn(2, HISTORY * spec.OBS_DIM)
    assert torch.allclose(again(obs), first(obs), atol=1e-6)


def test_short_rollouts_start_with_the_clip_and_are_the_students():
    school = school_of(dataclasses.replace(QUICK, short_share=1.0, short_steps=7), is_expert=False)
    for rollout in school.rollouts:
        trial = rollout.trial
        assert trial.first_frame == 0 and trial.steps == 7 and rollout.handover == 0


def test_a_trained_network_is_an_artifact_that_says_how_it_was_made(tmp_path):
    courses = [f04_school.course_of(f"f04/{slug}") for slug in ("dance", "fight")]
    f04_student.train(courses, TRAINING, seed=3, out=tmp_path)
    for slug in ("dance", "fight"):
        folder = tmp_path / slug
        meta = policy.read_meta((folder / spec.META_FILE).read_bytes())
        assert meta.obs_history_length == HISTORY
        assert "f04/dance f04/fight --seed 3" in (folder / spec.META_FILE).read_text()
    data = [(tmp_path / slug / spec.ONNX_FILE).read_bytes() for slug in ("dance", "fight")]
    assert data[0] == data[1]
