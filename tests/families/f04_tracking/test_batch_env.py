"""The training environment measures what scoring measures, and pays what the card says."""

import dataclasses

import gymnasium
import numpy as np
import pytest
import torch

import rle.envs  # noqa: F401  (registers the ids)
from families.f04_tracking import batch_env, draws, metrics, policy, spec, task
from families.f04_tracking.batch_env import TrackingEnv
from families.f04_tracking.reference import load_clip
from rle import registry
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
        e._read()
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
        assert e._targets_to_ctrl()[0].numpy() == pytest.approx(scored.joint_target(k), abs=1e-6)
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


def test_start_bins_are_a_distribution_that_prefers_failures():
    e = env(1)
    uniform = e.start_probabilities()
    assert torch.allclose(uniform, torch.full_like(uniform, 1 / len(uniform)))
    for _ in range(50):
        e.frame[:] = 320  # bin 6 of 1 s
        e._count_failures(torch.tensor([True]))
    p = e.start_probabilities()
    assert p.sum().item() == pytest.approx(1.0)
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


@pytest.mark.slow
def test_warp_cpu_parity_from_standing_contact():
    """Joint angles of the two backends differ by at most 1e-4 rad over 0.3 s."""
    pytest.importorskip("mujoco_warp")
    made = [TrackingEnv(CLIP, 4, backend=k, randomise=NOTHING, seed=1) for k in ("mjc", "warp-cpu")]
    for e in made:
        frames = torch.tensor([0, 0, 100, 200])
        e.frame[:] = e.start_frame[:] = frames
        e.sim.reset(
            torch.arange(4), torch.tensor(CLIP.qpos[frames]), torch.tensor(CLIP.qvel[frames])
        )
    rng = torch.Generator().manual_seed(0)
    for _ in range(15):
        action = 0.2 * torch.randn(4, spec.ACTION_DIM, generator=rng)
        for e in made:
            e.step(action)
    a, b = (e.state.qpos[:, 7:] for e in made)
    assert (a - b).abs().max().item() <= 1e-4
