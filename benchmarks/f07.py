"""Speed and memory of f07 as ratios inside one run: instrumented steps, pictures, transport, memory.

python benchmarks/f07.py [--seconds 20]

Every ratio compares work on the same states, interleaved, in CPU time, so that a busy machine slows both
sides alike. The privileged picker drives the cell, so that the states are those of real episodes.
"""

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import mujoco
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from families.f07_bin import piles, spec, verify
from families.f07_bin.episode import Episode
from families.f07_bin.task import STATE, picture_arrays
from rle import registry
from rle.sim.render import Frames
from rle.verify_api import Checked
from train_baselines.oracles.f07_privileged import Picker
from verifier.context import Context, Settings
from verifier.hidden import read_salt
from verifier.isolation import layers
from verifier.submission import freeze

PILE = 101
STEP_LIMIT, PICTURE_LIMIT, REAL_TIME_FREE, REAL_TIME_PICTURES = 1.5, 1.4, 2.0, 1.0
TRANSPORT_LIMIT_S, MEMORY_LIMIT_MIB = 0.008, 450.0
"""Source: card, section 10."""
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


def pictures(frames: int = 30) -> tuple[float, float]:
    """CPU seconds per frame tick: observation with all channels, and bare renders of the same."""
    streams = piles.public_streams("design", PILE)
    pile = piles.draw(streams, spec.DESIGN_PILES[PILE])
    ours = bare = 0.0
    with Episode(pile, streams, spec.CHANNELS) as episode:
        episode.observe()
        wide = Frames(episode.cell.model, *spec.OVERHEAD_WH_PX, keep_open=True)
        small = Frames(episode.cell.model, *spec.WRIST_WH_PX, keep_open=True)
        with wide, small:
            for _ in range(frames):
                begin = time.process_time()
                episode.observe()
                middle = time.process_time()
                for camera, view in (("overhead", wide), ("wrist", small)):
                    view.rgb(episode.data, camera)
                    view.depth_m(episode.data, camera)
                ours, bare = ours + middle - begin, bare + time.process_time() - middle
    return ours / frames, bare / frames


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="simulated time of the step ratio"
    )
    args = parser.parse_args()
    ours, bare, simulated = steps(args.seconds)
    frame, render = pictures()
    per_second = ours / simulated
    with_pictures = per_second + frame * spec.CONTROL_HZ / spec.FRAME_EVERY_TICKS
    memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = [
        ("instrumented step / mj_step", ours / bare, STEP_LIMIT, "at most"),
        ("observation / bare renders", frame / render, PICTURE_LIMIT, "at most"),
        ("real-time factor, no channels", 1.0 / per_second, REAL_TIME_FREE, "at least"),
        ("real-time factor, all channels", 1.0 / with_pictures, REAL_TIME_PICTURES, "at least"),
        ("transport of a frame tick, s", transport(), TRANSPORT_LIMIT_S, "at most"),
        ("memory of a pile process, MiB", memory_mib, MEMORY_LIMIT_MIB, "at most"),
    ]
    ok = True
    for name, value, limit, sense in rows:
        passed = value <= limit if sense == "at most" else value >= limit
        ok &= passed
        print(f"{name:<34}{value:10.3f}   {sense} {limit:g}   {'ok' if passed else 'MISSED'}")
    raise SystemExit(0 if ok else 1)


if __name__ == "__main__":
    main()
