"""Speed and memory of f04 training on `mjc`, each as a ratio against a named limit of the same run.

python benchmarks/f04_train.py [--num-envs 256] [--steps 40]

Bare physics replays the controls that the environment sent, from the same states, on the same threads.
"""

import argparse
import copy
import os
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import mujoco
import numpy as np
import torch

from families.f04_tracking import spec
from families.f04_tracking.batch_env import TrackingEnv
from train_baselines.f04_ppo import Args, Trainer


def bare(env: TrackingEnv, ctrl: list[np.ndarray]) -> float:
    """Seconds of `mj_step(nstep)` alone: as many worlds and threads, the recorded controls."""
    model = env.g1.model
    models = [copy.copy(model) for _ in range(env.num_envs)]
    datas = [mujoco.MjData(m) for m in models]
    for i, d in enumerate(datas):
        d.qpos[:], d.qvel[:] = env.start_states[0][i], env.start_states[1][i]
    chunks = [c.tolist() for c in np.array_split(np.arange(env.num_envs), 4 * env.sim.threads)]

    def run(chunk: list[int], row: np.ndarray) -> None:
        for i in chunk:
            datas[i].ctrl[:] = row[i]
            mujoco.mj_step(models[i], datas[i], spec.TRAIN_SUBSTEPS)

    began = time.perf_counter()
    with ThreadPoolExecutor(env.sim.threads) as pool:
        for row in ctrl:
            list(pool.map(lambda c, r=row: run(c, r), chunks))
    return time.perf_counter() - began


def environment(num_envs: int, steps: int) -> list[tuple[str, str, float, float]]:
    """Rows: measure, limit it is compared with, ratio, target."""
    env = TrackingEnv("dance", num_envs, backend="mjc", seed=0, auto_reset=False)
    state = env.sim.state()
    env.start_states = (state.qpos.double().numpy(), state.qvel.double().numpy())
    generator = torch.Generator().manual_seed(0)
    actions = [
        0.5 * torch.randn((num_envs, spec.ACTION_DIM), generator=generator) for _ in range(steps)
    ]
    ctrl, inside = [], env.controls

    def recorded() -> torch.Tensor:
        ctrl.append(inside().double().numpy())
        return torch.from_numpy(ctrl[-1])

    env.controls = recorded
    env.use = copy.copy(spec.PROFILES["noise"])  # no pushes: bare physics replays the same run
    began = time.perf_counter()
    for action in actions:
        env.frame.clamp_(max=env.last_frame - 1)
        env.step(action)
    whole = time.perf_counter() - began
    env.sim.reset(torch.arange(num_envs), *(torch.from_numpy(a) for a in env.start_states))
    began = time.perf_counter()
    for row in ctrl:
        env.sim.step(torch.from_numpy(row), spec.TRAIN_SUBSTEPS)
        env.sim.state()
    backend = time.perf_counter() - began
    limit = bare(env, ctrl)
    rate = num_envs * steps / whole
    env.close()
    return [
        (f"environment, {rate:.0f} control steps/s", "bare mj_step", limit / whole, 0.75),
        ("backend step and state", "bare mj_step", limit / backend, 0.75),
    ]


def learning(num_envs: int) -> list[tuple[str, str, float, float]]:
    """Learn phase against collect phase of one PPO iteration."""
    args = Args(task="f04/dance", backend="mjc", num_envs=num_envs, tensorboard=False,
                out=Path("/tmp/rle_bench_f04"))  # fmt: skip
    trainer = Trainer(args)
    trainer.alg.train_mode()
    row = trainer.iterate()
    trainer.env.close()
    return [("PPO learn phase", "collect phase", row["learn_s"] / row["collect_s"], 0.5)]


def memory(num_envs: int) -> list[tuple[str, str, float, float]]:
    """Peak memory against models and data alone, plus 400 MB."""
    model = TrackingEnv("dance", 1, backend="mjc").g1.model
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kept = [(m := copy.copy(model), mujoco.MjData(m)) for _ in range(num_envs)]
    worlds_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    per_world = worlds_kib / num_envs
    del kept
    pid = os.fork()
    if pid == 0:  # a process of its own, so that its peak is its own
        os.execv(sys.executable, [sys.executable, __file__, "--only-rss", str(num_envs)])
    _, _, usage = os.wait4(pid, 0)
    allowed = 1.3 * per_world * num_envs + 400 * 1024
    name = f"peak memory, {usage.ru_maxrss / 1024:.0f} MiB, {per_world / 1024:.2f} MiB a world"
    return [(name, "1.3 x worlds + 400 MB", usage.ru_maxrss / allowed, 1.0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--only-rss", type=int)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.only_rss:
        env = TrackingEnv("dance", given.only_rss, backend="mjc")
        env.step(torch.zeros(given.only_rss, spec.ACTION_DIM))
        os._exit(0)
    rows = (
        memory(given.num_envs) + environment(given.num_envs, given.steps) + learning(given.num_envs)
    )
    print(f"f04 training, {given.num_envs} worlds, load average {os.getloadavg()[0]:.1f}")
    print(f"{'measure':<52} {'compared with':<24} {'ratio':>6} {'target':>7}")
    for name, limit, ratio, target in rows:
        print(f"{name:<52} {limit:<24} {ratio:>6.2f} {target:>7.2f}")


if __name__ == "__main__":
    main()
