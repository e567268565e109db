"""Speed of f03's control steps, pictures and final measurement as ratios, one run: python benchmarks/f03.py

A control step over the 25 bare `mj_step` calls it holds, on the same states: tower, cantilever, balance <= 7, pocket-cube <= 10,
hidden-com <= 6. One 512 px picture through the adapter over a bare renderer <= 1.1. Final measurement over its own physics <= 1.15.
The hardest states of the cube's exact solver over the build of its half-depth table <= 3. A process that holds one scene <= 900 MiB.
All in CPU time, one process for each scene.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable

os.environ.setdefault("MUJOCO_GL", "egl")  # read when mujoco is imported

import mujoco
import numpy as np

from families.f03_tabletop import cube_solver, instances
from families.f03_tabletop import spec as s
from families.f03_tabletop.task import make
from rle import seeds
from rle.service.adapter import TrialPlan
from rle.service.protocol import ObserveSpec

STEPS = 40
STEP_BARS = {"tower": 7, "cantilever": 7, "balance": 7, "pocket-cube": 10, "hidden-com": 6}


def opened(slug: str):
    """An adapter with its practice instance, and how long that took."""
    adapter = make(f"f03/{slug}")
    key = seeds.trial_key("f03", slug, "hidden", 0, seeds.PRACTICE_SALT)
    plan = TrialPlan(phase="attempt", kind="attempt", trial=0, key=key)
    start = time.process_time()
    adapter.open_trial(plan)
    return adapter, time.process_time() - start


def step_ratio(adapter) -> float:
    """Control step over 25 bare physics steps, interleaved on the same states."""
    model = adapter.ready.model
    copy = mujoco.MjData(model)
    whole = bare = 0.0
    for _ in range(STEPS):
        mujoco.mj_copyData(copy, model, adapter.ready.data)
        start = time.process_time()
        adapter.step(np.zeros(adapter.action_dim))
        middle = time.process_time()
        for _ in range(s.SUBSTEPS):
            mujoco.mj_step(model, copy)
        whole += middle - start
        bare += time.process_time() - middle
    return whole / bare


def look_of(adapter) -> ObserveSpec:
    """A 512 px picture of the task's first camera."""
    camera = s.SESSIONS[adapter.task].cameras[0]
    return ObserveSpec(cameras=(camera,), width_px=s.IMAGE_PX, height_px=s.IMAGE_PX)


def picture_ratio(adapter, count: int = 30) -> float:
    """A 512 px picture through `observe` over `mujoco.Renderer` alone; the lower decile of each."""
    look = look_of(adapter)
    camera = look.cameras[0]
    ours = _seconds(lambda: adapter.observe(look), count)
    adapter.close()
    name = adapter.camera_names.get(camera, camera)
    with mujoco.Renderer(adapter.ready.model, s.IMAGE_PX, s.IMAGE_PX) as renderer:
        flags = renderer.scene.flags
        flags[mujoco.mjtRndFlag.mjRND_SHADOW] = flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False

        def draw() -> None:
            renderer.update_scene(adapter.ready.data, name)
            renderer.render()

        draw()
        return ours / _seconds(draw, count)


def _seconds(function: Callable[[], object], count: int) -> float:
    """CPU time of a call, the lower decile of `count`."""
    times = []
    for _ in range(count):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return float(np.percentile(times, 10.0))


def finish_ratio(adapter) -> float:
    """Final measurement over the `mj_step` calls inside it."""
    plain, inside = mujoco.mj_step, 0.0

    def timed(model, data) -> None:
        nonlocal inside
        start = time.process_time()
        plain(model, data)
        inside += time.process_time() - start

    mujoco.mj_step = timed
    try:
        start = time.process_time()
        adapter.finish()
        return (time.process_time() - start) / inside
    finally:
        mujoco.mj_step = plain


def solver_ratio(count: int = 40) -> tuple[float, int]:
    """The slowest solution of `count` random states over the build of the table; its number of turns."""
    start = time.process_time()
    cube_solver._table()
    built = time.process_time() - start
    rng = np.random.default_rng(0)
    slowest, turns = 0.0, 0
    for _ in range(count):
        state = cube_solver.apply(cube_solver.SOLVED, instances.scramble(s.SCRAMBLE_TURNS, rng))
        start = time.process_time()
        solution = cube_solver.solve(state)
        slowest, turns = max(slowest, time.process_time() - start), max(turns, len(solution))
    return slowest / built, turns


def show(slug: str) -> None:
    """The rows of one scene."""
    adapter, seconds = opened(slug)
    print(f"{slug:12s} open {seconds:6.2f} s")
    print(f"{slug:12s} control step / bare {step_ratio(adapter):6.2f}   <= {STEP_BARS[slug]}")
    adapter.observe(look_of(adapter))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{slug:12s} resident, MiB       {peak:6.0f}   <= 900")
    print(f"{slug:12s} picture / renderer  {picture_ratio(adapter):6.2f}   <= 1.1")
    if slug in ("tower", "cantilever", "balance"):
        print(f"{slug:12s} finish / physics    {finish_ratio(adapter):6.2f}   <= 1.15")
    adapter.close()
    sys.stdout.flush()


def main() -> None:
    if len(sys.argv) > 1:
        show(sys.argv[1])
        return
    ratio, turns = solver_ratio()
    print(f"cube solver, up to {turns} turns, over its table {ratio:6.2f}   <= 3", flush=True)
    for slug in STEP_BARS:
        subprocess.run([sys.executable, __file__, slug], check=True)


if __name__ == "__main__":
    main()
