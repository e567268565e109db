"""The training environment measures what scoring measures, and pays what the card says."""

import dataclasses
import re

import gymnasium
import numpy as np
import pytest
import torch

import rle.envs  # noqa: F401  (registers the ids)
from families.f04_tracking import batch_env, draws, metrics, policy, spec, task
from families.f04_tracking.batch_env import TrackingEnv
from families.f04_tracking.reference import load_clip
from rle import registry
from rle.errors import SimulationError
from rle.paths import assets_dir
from rle.sim.batch import State

NOTHING = spec.Profile(dynamics=False, terrain=False, init=False, push=False, noise=False)
CLIP = load_clip("dance")


def env(n=3, randomise=NOTHING, **options) -> TrackingEnv:
    return TrackingEnv(CLIP, n, backend="mjc", randomise=randomise, threads=1, **options)


def trial(**dynamics) -> task.Trial:
    drawn = draws.trial_draws(lambda s: np.random.default_rng(0), CLIP.body_pos_w, "nominal")
    changed = draws.Draw(**dynamics) if dynamics else drawn.dynamics
    return task.Trial(CLIP, dataclasses.replace(drawn, dynamics=changed))


def test_observation_is_that_of_scoring_on_recorded_states():
    scored, e = trial(), env(1)
    rng = np.random.default_rng(2)
    for _ in range(25):
        scored.step(rng.normal(0, 0.3, spec.ACTION_DIM))
        k = scored.step_index
        last = torch.tensor(scored._action[k - 1 : k], dtype=torch.float32)
        e.sim.reset(
            torch.tensor([0]),
            torch.tensor(scored.data.qpos[None]),
            torch.tensor(scored.data.qvel[None]),
        )
        e.frame[:], e.action = scored.frame, last
        e.measure()
        frame = e._observe()["policy"].numpy()
        assert frame == pytest.approx(scored.observe(), abs=2e-5)


def test_perfect_tracking_pays_the_sum_of_the_weights():
    # 0.02 x (0.5 + 0.5 + 1 + 1 + 1 + 1) = 0.1; no action change, no joint near its limit, no contact.
    target = policy.Target(*(torch.tensor(np.asarray(a)) for a in policy.targets(CLIP))).at(
        slice(0, 2)
    )
    zeros = torch.zeros(2, spec.ACTION_DIM)
    robot = policy.Robot(
        torch.tensor([spec.DEFAULT_POSE_RAD] * 2), zeros, zeros[:, :3], zeros[:, :3],
        target.body_pos, target.body_quat_wxyz,
    )  # fmt: skip
    state = State(
        zeros, zeros, target.body_pos, target.body_quat_wxyz, target.body_lin_vel, target.body_ang_vel,
        zeros[:, :3], zeros[:, :3], torch.tensor([0.0, 2.0]),
    )  # fmt: skip
    moved = metrics.anchoring(
        target.body_pos[:, spec.ANCHOR_INDEX], target.body_quat_wxyz[:, spec.ANCHOR_INDEX],
        target.body_pos[:, spec.ANCHOR_INDEX], target.body_quat_wxyz[:, spec.ANCHOR_INDEX], torch,
    )  # fmt: skip
    limits = tuple(torch.full((spec.ACTION_DIM,), x) for x in (-4.0, 4.0))
    pay = metrics.training_reward
    earned, terms = pay(robot, state, target, moved, zeros, zeros, limits, torch)
    assert earned[0].item() == pytest.approx(0.1, abs=1e-4)
    assert earned[1].item() == pytest.approx(0.1 - 0.02 * 0.2, abs=1e-4)  # two touching bodies
    shaken, _ = pay(robot, state, target, moved, zeros + 0.1, zeros, limits, torch)
    # - 0.1 x 29 x 0.1^2 x 0.02
    assert (earned - shaken)[0].item() == pytest.approx(0.1 * 29 * 0.01 * 0.02, abs=1e-6)
    assert terms["joint_limit"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("latency", [0, 1])
def test_latency_is_exactly_the_draw(latency):
    e = env(1)
    e._latency[:] = latency
    e.frame[:] = e.start_frame[:] = 0
    scored = trial(latency_steps=latency)
    rng = np.random.default_rng(5)
    for k in range(4):
        action = rng.normal(0, 0.3, (1, spec.ACTION_DIM))
        scored._action[k] = action
        e.previous_action, e.action = e.action, torch.tensor(action, dtype=torch.float32)
        assert e.controls()[0].numpy() == pytest.approx(scored.joint_target(k), abs=1e-6)
        e.episode_length_buf += 1


def test_a_fall_ends_an_episode_and_a_timeout_is_told_apart():
    e = env(2, auto_reset=False)
    e.episode_length_buf[:] = torch.tensor([0, e.max_episode_length - 1])
    qpos, qvel = torch.tensor(CLIP.qpos[e.frame]), torch.tensor(CLIP.qvel[e.frame])
    qpos[0, 2] += 0.5  # half a metre above the reference
    e.sim.reset(torch.arange(2), qpos, qvel)
    _, _, dones, extras = e.step(torch.zeros(2, spec.ACTION_DIM))
    assert dones.tolist() == [1, 1]
    assert extras["falls"].tolist() == [True, False]
    assert extras["time_outs"].tolist() == [False, True]


def test_finished_robots_restart_and_their_history_is_empty():
    e = env(2, history=2)
    e.frame[0] = e.last_frame - 1
    observation, _, dones, _ = e.step(torch.zeros(2, spec.ACTION_DIM))
    assert dones[0] == 1 and e.episode_length_buf.tolist() == [0, 1]
    assert (observation["policy"][0, : spec.OBS_DIM] == 0).all()
    assert (observation["policy"][1, : spec.OBS_DIM] != 0).any()


def test_a_reset_leaves_the_given_actions_alone():
    e = env(2)
    e.frame[0] = e.last_frame - 1  # ends in this step
    actions = torch.ones(2, spec.ACTION_DIM)
    _, _, dones, _ = e.step(actions)
    assert dones[0] == 1 and (e.action[0] == 0).all()
    assert (actions == 1).all()


def test_episodes_start_more_often_where_robots_fall():
    e = env(1)
    assert e.starts.probabilities().unique().numel() == 1  # nothing has failed yet
    for _ in range(50):
        e.frame[:] = 320  # bin 6 of 1 s
        qpos, qvel = torch.tensor(CLIP.qpos[[320]]), torch.tensor(CLIP.qvel[[320]])
        qpos[0, 2] += 0.5
        e.place(torch.tensor([320]), qpos, qvel)
        e.step(torch.zeros(1, spec.ACTION_DIM))
    p = e.starts.probabilities()
    assert p.argmax().item() == 6
    assert p.min().item() == pytest.approx(spec.START_SAMPLING.uniform_share / len(p))


def test_randomised_worlds_differ_and_a_seed_repeats_them():
    a, b = (env(3, randomise=batch_env.TRAIN_DRAWS, seed=3) for _ in range(2))
    masses = [m.body_subtreemass[1] for m in a.sim._models]
    assert len({round(m, 9) for m in masses}) == 3
    for _ in range(3):
        oa, ob = (e.step(torch.zeros(3, spec.ACTION_DIM))[0] for e in (a, b))
        assert torch.equal(oa["policy"], ob["policy"])


def test_the_critic_sees_the_same_instant_without_noise():
    noisy = spec.Profile(dynamics=False, terrain=False, init=False, push=False, noise=True)
    e = env(2, randomise=noisy)
    observation, *_ = e.step(torch.zeros(2, spec.ACTION_DIM))
    head = slice(0, 58)  # the reference slices carry no noise
    assert torch.equal(observation["policy"][:, head], observation["critic"][:, head])
    measured = slice(67, 131)
    tail = observation["critic"][:, 67 + 126 : 286 - 29]
    assert (observation["policy"][:, measured] - tail).abs().max() > 1e-3
    assert observation["critic"].shape == (2, spec.CRITIC_DIM)


def test_vector_environment_of_gymnasium():
    gym_id = registry.get("f04/dance").gym_id
    made = gymnasium.make_vec(gym_id, num_envs=2, vectorization_mode="vector_entry_point")
    observation, _ = made.reset(seed=1)
    assert observation.shape == (2, spec.OBS_DIM) and observation.dtype == np.float32
    observation, earned, terminated, truncated, info = made.step(np.zeros((2, 29), np.float32))
    assert earned.shape == terminated.shape == truncated.shape == (2,)
    assert info["mpjpe_m"] > 0
    again, _ = made.reset(seed=1)
    assert np.array_equal(again, made.reset(seed=1)[0])
    made.close()


def standing(n: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Frames, qpos and qvel of n robots whose soles press on the floor as they do under load.

    In the clip the soles are at z = 0 to the last bit, where rounding decides whether a sole touches: a
    change of 1e-7 then moves joints by up to 3e-2 rad within one control step, in plain MuJoCo against itself.
    """
    frames = 50 * np.arange(n)
    qpos, qvel = torch.tensor(CLIP.qpos[frames]), torch.tensor(CLIP.qvel[frames])
    qpos[:, 2] -= 0.0004  # depth of a standing sole, measured
    return torch.from_numpy(frames), qpos, qvel


@pytest.mark.slow
def test_warp_cpu_parity_from_standing_contact():
    """Joint angles of the two backends differ by at most 1e-4 rad over 0.3 s, 16 worlds."""
    pytest.importorskip("mujoco_warp")
    n = 16
    made = [TrackingEnv(CLIP, n, backend=k, randomise=NOTHING) for k in ("mjc", "warp-cpu", "mjc")]
    frames, qpos, qvel = standing(n)
    changed = qpos + 1e-7 * torch.randn(qpos.shape, generator=torch.Generator().manual_seed(3))
    for e, q in zip(made, (qpos, qpos, changed), strict=True):
        e.place(frames, q, qvel)
    rng = torch.Generator().manual_seed(0)
    for _ in range(15):
        action = 0.1 * torch.randn(n, spec.ACTION_DIM, generator=rng)
        for e in made:
            e.step(action)
    mjc, warp, again = (e.state.qpos[:, 7:] for e in made)
    assert (mjc - again).abs().max().item() <= 5e-5  # the motion is no knife's edge
    assert (mjc - warp).abs().max().item() <= 1e-4


@pytest.mark.slow
def test_warp_cpu_plays_the_stored_policy_like_mjc():
    """Closed loop for 4 s: the mean body error of the two backends differs by at most 1 mm."""
    pytest.importorskip("mujoco_warp")
    folder = assets_dir() / "oracles" / "f04" / "dance"
    history = policy.read_meta((folder / spec.META_FILE).read_bytes()).obs_history_length
    graph = policy.LocalGraph((folder / spec.ONNX_FILE).read_bytes(), history)
    errors_m = []
    for backend in ("mjc", "warp-cpu"):
        e = TrackingEnv(CLIP, 1, backend=backend, randomise=NOTHING, history=history)
        e.place(*standing(1))
        total = 0.0
        for _ in range(200):
            frames = e.get_observations()["policy"].numpy()
            *_, dones, extras = e.step(torch.from_numpy(graph.act(frames)))
            assert not dones.any()
            total += extras["log"]["/mpjpe_m"].item() / 200
        errors_m.append(total)
    assert errors_m[0] < 0.05  # it tracks
    assert abs(errors_m[0] - errors_m[1]) <= 1e-3


@pytest.mark.slow
def test_a_buffer_too_small_names_the_size_that_is_enough():
    pytest.importorskip("mujoco_warp")
    e = TrackingEnv(CLIP, 2, backend="warp-cpu", randomise=NOTHING, njmax=40, auto_reset=False)
    e.place(*standing(2))
    with pytest.raises(SimulationError) as caught:
        for _ in range(batch_env.OVERFLOW_CHECK_STEPS):
            e.step(torch.zeros(2, spec.ACTION_DIM))
    assert caught.value.code == "sim_overflow"
    found = re.search(
        r"2 of 2 worlds exceeded njmax=40 at step 50; rerun with njmax >= (\d+)", str(caught.value)
    )
    assert found and int(found[1]) > 100 and e.overflow_worlds == 2
