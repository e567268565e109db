"""f04 on MuJoCo-Warp with CUDA: parity, throughput against the bare captured graph, memory, a short PPO run.

python benchmarks/f04_warp_cuda.py [--out f04_warp_cuda.json] [--minutes 8]

Needs one GPU; ends within the given minutes, kernel compilation included: the clock is checked between
rows and what does not fit is printed as `skipped (time)`. Without a GPU it says `no CUDA device`.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch

WORLDS = (1024, 4096, 8192)
STEPS = 100
PPO_MINUTES = 2.0
ROW_RESERVE_S = 45.0
"""A row is started only with this much time left."""


def gpu_mib() -> float:
    """Memory in use on the device, MiB (warp and torch allocate side by side)."""
    free, total = torch.cuda.mem_get_info()
    return (total - free) / 2**20


def timed(step: Any, steps: int) -> float:
    """Seconds of `steps` calls, the device idle before and after."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def parity() -> dict[str, Any]:
    """Largest joint difference between `mjc` and `warp-cuda` over 0.3 s of standing contact, rad."""
    from families.f04_tracking import spec
    from families.f04_tracking.batch_env import TrackingEnv
    from families.f04_tracking.reference import load_clip

    clip, still = load_clip("dance"), spec.PROFILES["nominal"]
    envs = [TrackingEnv(clip, 16, backend=b, randomise=still, seed=1) for b in ("mjc", "warp-cuda")]
    frames = torch.arange(16) * 40
    for env in envs:
        qpos, qvel = (torch.tensor(a[frames.numpy()]) for a in (clip.qpos, clip.qvel))
        qpos[:, 2] -= 0.0004  # soles pressed in as under load, not at the edge of contact
        env.place(frames, qpos, qvel)
    generator = torch.Generator().manual_seed(0)
    for _ in range(15):
        action = 0.1 * torch.randn(16, spec.ACTION_DIM, generator=generator)
        for env in envs:
            env.step(action.to(env.device))
    a, b = (env.state.qpos[:, 7:].cpu() for env in envs)
    return {"max_joint_difference_rad": float((a - b).abs().max()), "target": 1e-4}


def throughput(worlds: int) -> dict[str, Any]:
    """Control steps per second of the bare graph and of the environment, and the memory of both."""
    from families.f04_tracking import spec
    from families.f04_tracking.batch_env import TrackingEnv

    before, began = gpu_mib(), time.perf_counter()
    env = TrackingEnv("dance", worlds, backend="warp-cuda", seed=0)
    actions = 0.5 * torch.randn(worlds, spec.ACTION_DIM, device=env.device)
    env.step(actions)
    compile_s = time.perf_counter() - began
    ctrl = env.controls()
    graph = timed(lambda: env.sim.step(ctrl, spec.TRAIN_SUBSTEPS), STEPS)
    env.reset()
    whole = timed(lambda: env.step(actions), STEPS)
    overflow = env.sim.overflow()
    row = {
        "worlds": worlds, "graph_steps_per_s": worlds * STEPS / graph,
        "env_steps_per_s": worlds * STEPS / whole, "env_over_graph": graph / whole, "target": 0.9,
        "memory_mib": gpu_mib() - before, "memory_kib_per_world": (gpu_mib() - before) * 1024 / worlds,
        "overflow_worlds": overflow.worlds if overflow else 0, "first_step_s": compile_s,
    }  # fmt: skip
    env.close()
    return row


def ppo(worlds: int, minutes: float, out: Path) -> dict[str, Any]:
    """A short PPO run: its speed against the bare graph, and its curve."""
    from train_baselines.f04_ppo import Args, Trainer

    args = Args(task="f04/dance", backend="warp-cuda", num_envs=worlds, minutes=minutes, out=out,
                tensorboard=False, stage_every_min=1e9)  # fmt: skip
    trainer = Trainer(args)
    trainer.alg.train_mode()
    rows, began = [], time.perf_counter()
    while time.perf_counter() - began < 60.0 * minutes:
        rows.append(trainer.iterate())
    trainer.env.close()
    picked = rows[:: max(1, len(rows) // 40)]
    return {
        "worlds": worlds, "iterations": len(rows), "minutes": minutes,
        "env_steps_per_s": float(np.median([r["env_steps_per_s"] for r in rows])),
        "curve": [{k: r[k] for k in ("iteration", "env_steps", "mean_reward", "episode_len", "mpjpe_m")}
                  for r in picked],
    }  # fmt: skip


def versions() -> dict[str, str]:
    """Device, driver and packages."""
    import mujoco
    import mujoco_warp
    import warp

    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    listing = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "device": listing, "python": platform.python_version(), "torch": torch.__version__,
        "mujoco": mujoco.__version__, "warp": warp.__version__,
        "mujoco_warp": getattr(mujoco_warp, "__version__", "unknown"),
        "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("f04_warp_cuda.json"))
    parser.add_argument("--minutes", type=float, default=8.0)
    given = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA device")
        return
    deadline = time.perf_counter() + 60.0 * given.minutes
    result: dict[str, Any] = {"versions": versions()}

    def row(name: str, work: Any, need_s: float = ROW_RESERVE_S) -> None:
        if deadline - time.perf_counter() < need_s:
            result[name] = "skipped (time)"
        else:
            result[name] = work()
        print(f"{name}: {json.dumps(result[name])[:300]}", flush=True)
        partial = given.out.with_suffix(".partial")
        partial.write_text(json.dumps(result, indent=2))
        os.replace(partial, given.out)  # what is measured is kept, whatever happens next

    row("parity", parity)
    for worlds in WORLDS:
        row(f"throughput_{worlds}", lambda w=worlds: throughput(w))
    left_min = (deadline - time.perf_counter()) / 60.0 - 0.75
    minutes = min(PPO_MINUTES, left_min)
    row("ppo", lambda: ppo(4096, minutes, given.out.with_suffix(".ppo")), 60.0 * minutes + 30.0)
    print(
        f"{'worlds':>7} {'graph steps/s':>14} {'env steps/s':>12} {'env/graph':>10} {'MiB':>8} {'overflow':>9}"
    )
    for worlds in WORLDS:
        r = result[f"throughput_{worlds}"]
        if isinstance(r, str):
            print(f"{worlds:>7} {r}")
            continue
        print(
            f"{worlds:>7} {r['graph_steps_per_s']:>14.0f} {r['env_steps_per_s']:>12.0f} "
            f"{r['env_over_graph']:>10.2f} {r['memory_mib']:>8.0f} {r['overflow_worlds']:>9}"
        )


if __name__ == "__main__":
    main()
