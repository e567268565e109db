"""Speed and memory of f07 as ratios inside one run: steps, pictures, whole episodes, piles in parallel.

python benchmarks/f07.py [--seconds 20] [--parallel-seconds 10]

Every ratio of one process compares work on the same states, interleaved, in CPU time, so that a busy
machine slows both sides alike. The privileged picker drives the cell, so that the states are those of real
episodes. Eight piles over four processes are wall time: they need as many free cores, and the number of
cores and the load stand beside the result.
"""

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("MUJOCO_GL", "egl")

import mujoco
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from families.f07_bin import piles, spec, verify
from families.f07_bin.episode import Episode
from families.f07_bin.sensors import camera_matrix
from families.f07_bin.task import STATE, picture_arrays
from rle import registry
from rle.sim.depth import noisy_depth_m
from rle.sim.render import Frames
from rle.verify_api import Checked
from train_baselines.oracles.f07_privileged import Picker
from verifier.context import Context, Settings
from verifier.hidden import read_salt
from verifier.isolation import layers
from verifier.submission import freeze

PILE = 101
N_PILES, PROCESSES = 8, 4
STEP_LIMIT, PICTURE_LIMIT, REAL_TIME_FREE, REAL_TIME_PICTURES = 1.5, 1.4, 2.0, 1.0
TRANSPORT_LIMIT_S, MEMORY_LIMIT_MIB, GROWTH_LIMIT_MIB, ALL_MEMORY_LIMIT_MIB = (
    0.008,
    450.0,
    20.0,
    2048.0,
)
PARALLEL_LIMIT = 1.3
"""Source: card, section 10. Parallel: wall time of all piles over that of one, at most this multiple of
piles / processes that can run at once (2.6 where four cores are free)."""
EPISODE_LIMIT = 1.2
"""An episode with all channels over bare physics, bare renders and the depth noise of the same frames."""
EPISODE_STEP_LIMIT = 1.7
"""The same over bare physics alone: this, and `PICTURE_LIMIT` times what bare renders are of it. Source: card."""
ECHO = """
import numpy as np
class P:
    def reset(self, cell, seed):
        self.home = np.append(cell["arm_home"], 0.0)
    def act(self, obs):
        return self.home
def make_policy():
    return P()
"""


def steps(seconds: float) -> tuple[float, float, float]:
    """CPU seconds of instrumented ticks, of bare `mj_step` on the same states, and simulated seconds."""
    streams = piles.public_streams("design", PILE)
    episode = Episode(piles.draw(streams, spec.DESIGN_PILES[PILE]), streams, ())
    picker = Picker(episode)
    model, copy = episode.cell.model, mujoco.MjData(episode.cell.model)
    ours = bare = 0.0
    for command in picker._commands():
        if episode.is_done or episode.t_s >= seconds:
            break
        mujoco.mj_copyData(copy, model, episode.data)
        begin = time.process_time()
        episode.step(command)
        middle = time.process_time()
        mujoco.mj_step(model, copy, spec.SUBSTEPS)
        ours, bare = ours + middle - begin, bare + time.process_time() - middle
    return ours, bare, episode.t_s


def pictures(frames: int = 30) -> tuple[float, float, float]:
    """CPU seconds per frame tick: observation with all channels, bare renders of the same, depth noise."""
    streams = piles.public_streams("design", PILE)
    pile = piles.draw(streams, spec.DESIGN_PILES[PILE])
    ours = bare = noise = 0.0
    rng = np.random.default_rng(0)
    with Episode(pile, streams, spec.CHANNELS) as episode:
        episode.observe()
        wide = Frames(episode.cell.model, *spec.OVERHEAD_WH_PX, keep_open=True)
        small = Frames(episode.cell.model, *spec.WRIST_WH_PX, keep_open=True)
        with wide, small:
            for _ in range(frames):
                begin = time.process_time()
                episode.observe()
                middle = time.process_time()
                exact = {}
                for camera, view in (("overhead", wide), ("wrist", small)):
                    view.rgb(episode.data, camera)
                    exact[camera] = view.depth_m(episode.data, camera)
                drawn = time.process_time()
                for camera, depth in exact.items():
                    noisy_depth_m(depth, float(camera_matrix(camera)[0, 0]), rng)
                ended = time.process_time()
                ours, bare, noise = (
                    ours + middle - begin,
                    bare + drawn - middle,
                    noise + ended - drawn,
                )
    return ours / frames, bare / frames, noise / frames


def transport(calls: int = 60) -> float:
    """Median wall seconds of one call with all pictures and a policy that does nothing."""
    task = registry.get(spec.TASKS[0].id)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o711)
        (folder / "source" / "policy").mkdir(parents=True)
        (folder / "source" / "policy" / "policy.py").write_text(ECHO)
        (folder / "logs").mkdir()
        frozen = freeze(folder / "source", folder / "frozen", task)
        settings = Settings(
            task, frozen, read_salt(None), layers.plan("strict"), {}, folder / "logs"
        )
        checked = Checked(kind="python", contract=verify.contract(spec.CHANNELS), files=())
        arrays = (*STATE, *picture_arrays(spec.CHANNELS))
        message = [np.zeros(a.shape, a.dtype) for a in arrays]
        with Context(settings).worker("python", checked, verify.LIMITS) as worker:
            worker.reset(cell_spec={"arm_home": list(spec.ARM_HOME_RAD)}, seed=0)
            times = []
            for _ in range(calls):
                begin = time.perf_counter()
                worker.call("act_frame", *message)
                times.append(time.perf_counter() - begin)
    return float(np.median(times))


def one_pile(
    pile: int, seconds: float, channels: tuple[str, ...]
) -> tuple[float, tuple[float, float]]:
    """Wall seconds of playing a public pile, built before; and this process's memory after it, MiB."""
    streams = piles.public_streams("public", pile)
    with Episode(piles.draw(streams), streams, channels) as episode:
        picker = Picker(episode)
        start_s = time.perf_counter()
        for command in picker._commands():
            if episode.is_done or episode.t_s >= seconds:
                break
            if channels:
                episode.observe()
            episode.step(command)
        wall_s = time.perf_counter() - start_s
    return wall_s, memory_mib()


def memory_mib() -> tuple[float, float]:
    """Proportional set size, in which memory that processes share is split among them; and what of it is
    anonymous: the process' own, whatever other processes begin or cease to share meanwhile."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    fields = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines[1:]}
    return fields["Pss"], fields["Anonymous"]


def in_parallel(seconds: float) -> tuple[float, float]:
    """Wall time of eight piles over four processes / that of one pile; memory of all four, MiB."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, context) as pool:
        barrier = [pool.submit(time.sleep, 1.0) for _ in range(PROCESSES)]  # all four are up
        [future.result() for future in barrier]
        pool.submit(one_pile, 0, 0.5, ()).result()
        start_s = time.perf_counter()
        pool.submit(one_pile, 1, seconds, ()).result()
        one_s = time.perf_counter() - start_s
        start_s = time.perf_counter()
        futures = [pool.submit(one_pile, 1, seconds, ()) for _ in range(N_PILES)]
        results = [future.result() for future in futures]
        all_s = time.perf_counter() - start_s
    return all_s / one_s, PROCESSES * max(mib for _, (mib, _) in results)


def memory(seconds: float) -> tuple[float, float]:
    """MiB of a process after its eighth pile with all channels, and by how much it grew since the first."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        sizes = [
            pool.submit(one_pile, pile, seconds, spec.CHANNELS).result()[1]
            for pile in range(N_PILES)
        ]
    return sizes[-1][0], sizes[-1][1] - sizes[0][1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="simulated time of the step ratio"
    )
    parser.add_argument(
        "--parallel-seconds", type=float, default=10.0, help="simulated time of each parallel pile"
    )
    args = parser.parse_args()
    ours, bare, simulated = steps(args.seconds)
    frame, render, noise = pictures()
    frames_hz = spec.CONTROL_HZ / spec.FRAME_EVERY_TICKS
    per_second = ours / simulated
    with_pictures = per_second + frame * frames_hz
    bare_per_second = bare / simulated
    whole = with_pictures / bare_per_second
    whole_limit = EPISODE_STEP_LIMIT + PICTURE_LIMIT * render * frames_hz / bare_per_second
    with_frames = with_pictures / (bare_per_second + (render + noise) * frames_hz)
    memory_mib, grown_mib = memory(1.0)
    cores = len(os.sched_getaffinity(0))
    at_once = min(PROCESSES, cores)
    ratio, all_mib = in_parallel(args.parallel_seconds)
    rows = [
        ("instrumented step / mj_step", ours / bare, STEP_LIMIT, "at most"),
        ("observation / bare renders", frame / render, PICTURE_LIMIT, "at most"),
        ("episode / physics, renders, noise", with_frames, EPISODE_LIMIT, "at most"),
        ("episode, all channels / mj_step", whole, whole_limit, "at most"),
        ("real-time factor, no channels", 1.0 / per_second, REAL_TIME_FREE, "at least"),
        ("real-time factor, all channels", 1.0 / with_pictures, REAL_TIME_PICTURES, "at least"),
        ("transport of a frame tick, s", transport(), TRANSPORT_LIMIT_S, "at most"),
        ("8 piles, 4 processes / one pile", ratio, PARALLEL_LIMIT * N_PILES / at_once, "at most"),
        ("memory of a pile process, MiB", memory_mib, MEMORY_LIMIT_MIB, "at most"),
        ("memory of 4 pile processes, MiB", all_mib, ALL_MEMORY_LIMIT_MIB, "at most"),
        ("growth over eight piles, MiB", grown_mib, GROWTH_LIMIT_MIB, "at most"),
    ]
    print(f"{cores} cores, load average {os.getloadavg()[0]:.1f}")
    ok = True
    for name, value, limit, sense in rows:
        passed = value <= limit if sense == "at most" else value >= limit
        ok &= passed
        print(f"{name:<34}{value:10.3f}   {sense} {limit:.3g}   {'ok' if passed else 'MISSED'}")
    raise SystemExit(0 if ok else 1)


if __name__ == "__main__":
    main()
