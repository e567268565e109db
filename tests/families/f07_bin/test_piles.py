"""Piles: what is drawn, and that nothing explodes, on the pinned MuJoCo."""

import mujoco
import numpy as np
import pytest

from families.f07_bin import piles, scene, spec


def sink(poses: np.ndarray, seconds: float) -> tuple[float, float]:
    """Highest speed (m/s) and deepest penetration (m) of parts let go without the arm."""
    cell = scene.build(len(poses), arm=False)
    data = mujoco.MjData(cell.model)
    data.qpos[cell.part_qpos[:, None] + np.arange(7)] = poses
    linear = cell.part_qvel[:, None] + np.arange(3)
    fastest = 0.0
    for _ in range(round(seconds / spec.TIMESTEP_S)):
        mujoco.mj_step(cell.model, data)
        fastest = max(fastest, float(np.linalg.norm(data.qvel[linear], axis=1).max()))
    return fastest, float(-min(data.contact.dist, default=0.0))


def test_same_streams_same_pile_and_every_part_inside():
    first, again = (piles.draw(piles.public_streams("design", 35), 12) for _ in range(2))
    assert np.array_equal(first.poses, again.poses) and first.lights == again.lights
    assert first.n_parts == 12 and piles.is_in_bin(first.poses).all()
    assert spec.KEY_DIFFUSE[0] <= first.lights.key_diffuse <= spec.KEY_DIFFUSE[1]


def test_namespaces_share_no_pile():
    public, design = (
        piles.drop_poses(12, piles.public_streams(ns, 35)("pile", 0)) for ns in ("public", "design")
    )
    assert not np.array_equal(public, design)


def test_number_of_parts_covers_its_range():
    counts = {
        int(
            piles.public_streams("public", s)("count").integers(
                spec.N_PARTS_MIN, spec.N_PARTS_MAX + 1
            )
        )
        for s in range(60)
    }
    assert counts == set(range(12, 17))


@pytest.mark.parametrize("jitter_m", [0.0, 0.002])
@pytest.mark.parametrize("pitch_m", [0.0215, 0.0207, 0.019])
def test_nested_columns_do_not_fly_apart(pitch_m, jitter_m):
    # Two columns of eight brackets inside each other, free and overlapping: at most a free fall's speed.
    rng = np.random.default_rng(0)
    poses = np.zeros((16, 7))
    poses[:, 3] = 1.0
    for i in range(16):
        poses[i, :3] = (0.40 + 0.14 * (i // 8), -0.27, 0.116 + pitch_m * (i % 8))
    poses[:, :2] += rng.uniform(-jitter_m, jitter_m, (16, 2))
    fastest, depth = sink(poses, 1.0)
    assert fastest < 1.0 and depth < 0.0015


def test_flush_pairs_back_to_back_do_not_fly_apart():
    # Web on web, the upper one with its flanges up and the lower one with its flanges down, on the bottom.
    height = spec.FLANGE_Z_M + spec.FLANGE_HALF_M[1] + spec.WEB_HALF_M[2]
    poses = np.zeros((12, 7))
    for pair in range(6):
        x, y = 0.36 + 0.11 * (pair % 3), -0.33 + 0.12 * (pair // 3)
        z = spec.BIN_LO_M[2] + height
        poses[2 * pair] = (x, y, z, 0.0, 1.0, 0.0, 0.0)
        poses[2 * pair + 1] = (x, y, z + 2 * spec.WEB_HALF_M[2], 1.0, 0.0, 0.0, 0.0)
    fastest, depth = sink(poses, 1.0)
    assert fastest < 0.6 and depth < 0.0015


def test_a_pile_that_explodes_is_redrawn(monkeypatch):
    honest, calls = mujoco.mj_step, iter(range(10**6))

    def step(*args):
        if next(calls) == 0:
            raise mujoco.FatalError("FactorizeHessian: rank-deficient")
        return honest(*args)

    monkeypatch.setattr(mujoco, "mj_step", step)
    monkeypatch.setattr(spec, "SETTLE_S", 1.0)
    pile = piles.draw(piles.public_streams("public", 3), 2)
    assert pile.attempts == 2 and piles.is_in_bin(pile.poses).all()


@pytest.mark.slow
def test_design_piles_and_fifty_more_settle_inside():
    jobs = [("design", seed, n) for seed, n in spec.DESIGN_PILES.items()]
    jobs += [("public", seed, None) for seed in range(50)]
    for namespace, seed, n in jobs:
        pile = piles.draw(piles.public_streams(namespace, seed), n)
        assert piles.is_in_bin(pile.poses).all(), (namespace, seed)
        cell = scene.build(pile.n_parts, arm=False)
        data = mujoco.MjData(cell.model)
        data.qpos[cell.part_qpos[:, None] + np.arange(7)] = pile.poses
        mujoco.mj_step(cell.model, data, 100)
        speed = np.linalg.norm(data.qvel[cell.part_qvel[:, None] + np.arange(3)], axis=1)
        assert speed.max() < 0.1, (namespace, seed)
