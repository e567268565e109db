"""Stored oracles and the untrained Kalman submission: accepted by the contract, and what they reach."""

import json

import numpy as np
import pytest
import torch

from families.f04_tracking import draws, metrics, policy, spec, task, verify
from families.f04_tracking.reference import load_clip
from rle import seeds
from rle.paths import assets_dir
from tests.families.f04_tracking.fakes import context_of
from train_baselines.oracles import f04_lqg
from train_baselines.oracles.f04_imitate import Robots, Settings, Student
from train_baselines.oracles.f04_tracker import Tracker

FOLDER = assets_dir() / "oracles" / "f04"
FIRST_BARS = {
    "dance": 0.05, "fight": 0.05, "fall-and-get-up": 0.05, "run": 0.02, "sprint": 0.04,
}  # fmt: skip
"""What a first imitation of 92 CPU seconds was to reach, before there were stored policies."""
MADE_BY = tuple(f"train_baselines.oracles.f04_{name}" for name in ("imitate", "student"))


def stored(slug: str) -> tuple[bytes, dict]:
    """Graph and meta of a stored oracle."""
    folder = FOLDER / slug
    return (folder / spec.ONNX_FILE).read_bytes(), json.loads((folder / spec.META_FILE).read_text())


def play(slug: str, data: bytes, history: int, profile: str, trials: int) -> np.ndarray:
    """Rows (score, U) of design trials."""
    clip, graph = load_clip(slug), policy.LocalGraph(data, history)
    limit, rows = metrics.jerk_limit(clip.joint_pos), []
    for trial in range(trials):
        key = seeds.trial_key("f04", slug, "design", trial)
        drawn = draws.trial_draws(
            lambda name, k=key: seeds.stream(k, name), clip.body_pos_w, profile
        )
        record = task.play(task.Trial(clip, drawn), graph.act, history)
        t, u = metrics.tracking(record.error_m), metrics.survival(record.executed)
        rows.append((metrics.score(t, u, metrics.jerk(record.action), limit, record.is_fall), u))
    return np.array(rows)


@pytest.mark.parametrize("slug", spec.CLIPS)
def test_stored_oracle_belongs_to_its_clip(slug):
    data, meta = stored(slug)
    clip = load_clip(slug)
    assert meta["reference"] == clip.kind == "stand-in"
    assert meta["reference_sha256"] == clip.sha256
    words = meta["made_by"].split()
    assert words[:2] == ["python", "-m"] and words[2] in MADE_BY
    assert f"f04/{slug}" in words and "--seed" in words
    assert meta["n_params"] <= spec.MAX_PARAMS
    graph = policy.LocalGraph(data, meta["obs_history_length"])
    zeros = np.zeros((1, spec.OBS_DIM * meta["obs_history_length"]), np.float32)
    assert np.abs(graph.act(zeros)).max() < spec.MAX_ACTION


@pytest.mark.slow
@pytest.mark.parametrize("slug", spec.CLIPS)
@pytest.mark.parametrize("profile", ["no_push", "full"])
def test_stored_oracle_reaches_its_bars(slug, profile):
    data, meta = stored(slug)
    ctx = context_of(slug, data, meta["obs_history_length"], profile=profile)
    bar = spec.BARS[slug] if profile == spec.SCORED_PROFILE else spec.NO_PUSH_BARS[slug]
    assert verify.verify(ctx).score >= bar


@pytest.mark.slow
@pytest.mark.parametrize("slug", spec.CLIPS)
def test_stored_oracle_is_worth_more_than_a_floor_on_other_draws(slug):
    """24 design trials: with eight, the standard error of a reward is as large as these bars."""
    data, meta = stored(slug)
    rows = play(slug, data, meta["obs_history_length"], spec.SCORED_PROFILE, 24)
    assert rows[:, 0].mean() >= FIRST_BARS[slug]


def test_stored_oracle_stands_in_noise():
    data, meta = stored("dance")
    ((score, survived),) = play("dance", data, meta["obs_history_length"], "noise", 1)
    assert survived == 1.0 and score > 0.8


# --------------------------------------------------------------------------- Kalman and LQR, untrained


def test_window_filter_is_the_kalman_filter():
    """Against the recursion itself, on a small unstable system of the same shape."""
    rng = np.random.default_rng(0)
    settings = f04_lqg.Settings(history=5)
    n, n_u, n_y = 2 * f04_lqg.NV, spec.N_JOINTS, 73
    a = np.eye(n) + 0.02 * rng.standard_normal((n, n))
    b, c = rng.standard_normal((n, n_u)), rng.standard_normal((n_y, n))
    y, u = rng.standard_normal((5, n_y)), rng.standard_normal((5, n_u))
    width = draws.noise_half_width()[f04_lqg.MEASURED]
    prior = np.repeat([settings.prior_position, settings.prior_velocity], f04_lqg.NV)
    process = np.repeat(
        [
            settings.process_position,
            settings.process_root_velocity,
            settings.process_joint_velocity,
        ],
        [f04_lqg.NV, 6, n_u],
    )
    x, p = np.zeros(n), np.diag(prior**2)
    for i in range(5):
        if i > 0:
            x, p = a @ x + b @ u[i], a @ p @ a.T + np.diag(process**2)
        gain = p @ c.T @ np.linalg.inv(c @ p @ c.T + np.diag(width**2 / 3.0))
        x, p = x + gain @ (y[i] - c @ x), (np.eye(n) - gain @ c) @ p
    window = f04_lqg.window_filter(a, b, c, 5, settings)
    assert window @ np.concatenate([y.ravel(), u.ravel()]) == pytest.approx(x, abs=1e-8)


@pytest.fixture(scope="module")
def kalman():
    torch.set_num_threads(1)
    clip = load_clip("dance")
    return clip, f04_lqg.KalmanLqr(clip, f04_lqg.Settings())


def test_frame_is_found_and_nothing_is_corrected_on_the_clip(kalman):
    """Noise-free observations of the clip itself: no error, and the feed-forward of that frame."""
    clip, module = kalman
    k = np.arange(20, 900, 55)
    frames = np.hstack(
        [clip.joint_pos, clip.joint_vel, module.measured.numpy(), module.before.numpy()]
    ).astype(np.float32)
    windows = np.array([frames[i - 15 : i + 1].reshape(-1) for i in k])
    actions, error = module.estimate(torch.from_numpy(windows))
    assert np.abs(error.numpy()).max() < 3e-3  # of 0.01 rad and more that a joint is off in noise
    assert actions.numpy() == pytest.approx(module.feedforward.numpy()[k], abs=0.02)


def test_kalman_submission_is_accepted_and_stands_in_noise(kalman, tmp_path):
    clip, module = kalman
    f04_lqg.write(clip, tmp_path, f04_lqg.Settings())
    data = (tmp_path / spec.ONNX_FILE).read_bytes()
    ((score, survived),) = play("dance", data, module.history, "noise", 1)
    assert survived == 1.0 and score >= 0.80


# ---------------------------------------------------------------------------------------- imitation


def small() -> Settings:
    return Settings(
        robots=3, rounds=1, steps_per_round=30, episode_steps=20, base=f04_lqg.Settings()
    )


def test_an_untrained_student_is_its_base(kalman):
    _clip, module = kalman
    student = Student(module, Settings())
    assert torch.equal(Student(None, Settings())(torch.ones(2, 2560)), torch.zeros(2, 29))
    obs = torch.from_numpy(
        0.05 * np.random.default_rng(0).standard_normal((4, 2560)).astype(np.float32)
    )
    limit = Settings().base_limit
    assert torch.equal(student(obs), module(obs).clamp(-limit, limit))


def test_rollouts_label_what_the_tracker_would_do(kalman):
    clip, module = kalman
    settings = small()
    tracker = Tracker(clip, settings.expert)
    key = seeds.trial_key("f04", "dance", "public", "test")
    robots = Robots(clip, tracker, settings, key)
    robots.collect(Student(module, settings), 1.0)
    assert robots.t == 30 and np.isfinite(robots.frames).all()
    assert (np.abs(robots.labels) <= settings.label_limit).all()
    # a rollout restarts after 20 steps: its age falls back to 0, and older frames are not shown
    assert (robots.age[:, 0] == 0).all() and robots.age.max() <= 19
    restart = np.argwhere(robots.age[:, 1:] == 0)
    assert len(restart) >= 3
    robot, t = restart[0, :1], restart[0, 1:] + 1
    window = robots.windows(robot, t)[0].reshape(16, 160)
    assert (window[:-1] == 0.0).all() and (window[-1] != 0.0).any()
    # the same key gives the same rollouts
    again = Robots(clip, tracker, settings, key)
    again.collect(Student(module, settings), 1.0)
    assert np.array_equal(again.frames, robots.frames)
