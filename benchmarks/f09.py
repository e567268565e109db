"""Speed of f09 as ratios, each against the bare loop that it wraps; prints a table.

python benchmarks/f09.py
"""

import math
import os
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import mujoco
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import ratio  # noqa: E402
from families.f09_gello import clearance, scene, task  # noqa: E402
from families.f09_gello.dev import design_streams, evaluate_arm  # noqa: E402
from families.f09_gello.devices.draws import draw  # noqa: E402
from families.f09_gello.spec import ARM_NAMES, CLEARANCE, PHYSICS, PROTOCOL  # noqa: E402
from rle.paths import assets_dir  # noqa: E402

ARM = "franka"
ROUNDS = 6
ORACLE = assets_dir() / "gello" / "oracle"


def bare_residual(model: mujoco.MjModel, poses: np.ndarray) -> None:
    data, out = mujoco.MjData(model), np.zeros(model.nv)
    for pose in poses:
        data.qpos[:] = pose
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_comVel(model, data)
        mujoco.mj_rne(model, data, 0, out)


def bare_hold(model: mujoco.MjModel, target: np.ndarray) -> None:
    data = mujoco.MjData(model)
    data.qpos[:] = target
    for _ in range(round(PROTOCOL.hold_s / PHYSICS.timestep_s)):
        mujoco.mj_step(model, data)


def remaining_pairs(device: scene.Device, path: np.ndarray) -> None:
    """Kinematics of every pose and distances of the pairs that a bounding-sphere reject leaves."""
    data, pairs, ends = mujoco.MjData(device.model), clearance.candidate_pairs(device), np.zeros(6)
    for pose, near in zip(path, _near(device, path), strict=True):
        data.qpos[:] = pose
        mujoco.mj_kinematics(device.model, data)
        for i in near:
            mujoco.mj_geomDistance(
                device.model, data, int(pairs.a[i]), int(pairs.b[i]), CLEARANCE.gap_m, ends
            )


_NEAR: dict[int, list[np.ndarray]] = {}


def _near(device: scene.Device, path: np.ndarray) -> list[np.ndarray]:
    if id(path) not in _NEAR:
        close = clearance.near(
            device, clearance.centres_m(device, path), clearance.candidate_pairs(device)
        )
        _NEAR[id(path)] = [np.flatnonzero(row) for row in close]
    return _NEAR[id(path)]


def hold_device(k: int) -> None:
    """Twelve passive holds of one copy; for the parallel run."""
    draws = draw(ARM, design_streams(ARM, 101))
    scale, payload = draws.copies[k]
    model = task.compose(task.load_lead(ORACLE / ARM, ARM), payload, scale)
    for _ in range(2):  # long enough to be measured
        for pose in draws.holds:
            task.simulate_hold(model, pose, np.zeros(model.nv))


def one_by_one_s(pool: ProcessPoolExecutor) -> float:
    """Wall time of the holds of three copies, one copy after the other."""
    start = time.perf_counter()
    for k in range(3):
        pool.submit(hold_device, k).result()
    return time.perf_counter() - start


def together_s(pool: ProcessPoolExecutor) -> float:
    """Wall time of the same at once."""
    start = time.perf_counter()
    list(pool.map(hold_device, range(3)))
    return time.perf_counter() - start


def main() -> None:
    lead = task.load_lead(ORACLE / ARM, ARM)
    device = scene.compose(lead.record)
    grid, home = task.workspace_grid(ARM), np.array(device.arm.home_rad)
    path = task.teleop_path(ARM, np.random.default_rng(0), CLEARANCE.dt_s).q
    model = device.model
    rows = [
        ("residual on the grid / bare kinematics and Newton-Euler", 2.0,
         ratio(lambda: task.residual(model, grid), lambda: bare_residual(model, grid))),
        ("hold of 1.5 s / 750 bare mj_step", 1.5,
         ratio(lambda: task.simulate_hold(model, home, np.zeros(7)), lambda: bare_hold(model, home))),
        ("clearance of a path / kinematics and remaining distances", 3.0,
         ratio(lambda: clearance.first_offence(device, path), lambda: remaining_pairs(device, path))),
    ]  # fmt: skip
    print(f"{'ratio':<58}{'measured':>9}{'at most':>9}")
    for name, limit, measured in rows:
        print(f"{name:<58}{measured:>9.2f}{limit:>9.1f}")
    cores = min(3, len(os.sched_getaffinity(0)))
    with ProcessPoolExecutor(cores, get_context("spawn")) as pool:
        list(pool.map(hold_device, range(cores)))  # the processes are warm from here on
        times = np.array([(one_by_one_s(pool), together_s(pool)) for _ in range(ROUNDS)])
    gain = float(np.divide(*times.min(axis=0)))  # in turn; the quietest moment of each
    print(
        f"12 holds x 3 copies on {cores} cores: {gain:.2f} x one after the other, at least "
        f"{0.7 * 3 / math.ceil(3 / cores):.2f} (0.7 of what three parts can gain there)"
    )
    start = time.process_time()
    evaluate_arm(ORACLE / ARM, ARM, design_streams(ARM, 101), "bench")
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"battery of one arm: {time.process_time() - start:.1f} s of CPU, peak {peak_mb:.0f} MB; "
        f"a verification runs {len(ARM_NAMES)} of them in parallel"
    )


if __name__ == "__main__":
    main()
