"""Speed and memory of f06 as ratios inside one run: frames, generation, physics, streaming, verification.

python benchmarks/f06.py [--frames 20] [--whole]

Ratios of one process are taken in CPU time, interleaved, so that a busy machine slows both sides alike;
those of several processes need idle cores. `--whole` verifies all 700 frames, which the limit of the
verification is for; a tenth of them, the default, is mostly start, self-test and checks.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")  # read when mujoco is imported

import mujoco
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from families.f06_pose import ahead, client, scene, spec, task, verify
from families.f06_pose.estimators import estimator_of, limits
from families.f06_pose.service import render
from families.f06_pose.service.pool import Order
from families.f06_pose.service.server import Server
from families.f06_pose.world import pushes
from families.f06_pose.world.frames import NOISE, Studio
from rle import registry
from rle.service.protocol import encode
from rle.sim.depth import noisy_depth_m
from rle.verify_api import Checked
from verifier.context import Context, Settings
from verifier.hidden import read_salt
from verifier.isolation import layers
from verifier.submission import freeze

TASK = registry.get("f06/rgbd")
BOTH = ("rgb", "depth")
ZERO = (
    "class E:\n    def reset(self): pass\n    def update(self, *, rgb, K, T_cam_table, t, depth=None):\n"
    "        return 0.0, 0.0, 0.0, 0\ndef make_estimator(): return E()\n"
)
FRAME_LIMIT, NOISE_LIMIT_S, COMPILE_LIMIT = 1.35, 0.025, 0.02
GENERATE_LIMIT, PHYSICS_LIMIT, CANDIDATE_LIMIT = 0.8, 3.0, 1.0
STREAM_LIMIT_S, RATE_LIMIT_HZ, VERIFY_LIMIT = 0.008, 200.0, 1.3
PARENT_MIB, RENDERER_MIB = 700.0, 350.0
"""Source: card, section 10."""


def frames(n: int) -> dict[str, float]:
    """CPU seconds per served frame, bare renders, depth noise, and writing a scene's look."""
    ours = bare = noise = look_s = 0.0
    rng = np.random.default_rng(0)
    with Studio() as studio:
        for seed in range(n + 3):
            request = client.Render(request_id="x", kind="single", seed=seed)
            order = Order(request=request, channels=BOTH)
            a = time.process_time()
            for reply in render.replies(studio, order):
                encode(reply)
            b = time.process_time()
            streams = task.open_streams("public", "single", seed)
            built = scene.build(task.draw_shape(streams))
            data = studio._data[built.shape_id]
            renderer = studio._renderer(built)
            c = time.process_time()
            renderer.rgb(data, scene.CAMERA)
            exact = renderer.depth_m(data, scene.CAMERA)
            d = time.process_time()
            noisy_depth_m(exact, spec.FOCAL_PX, rng, NOISE)
            e = time.process_time()
            built.write(scene.Look.draw(streams("light")))
            f = time.process_time()
            if seed >= 3:  # the first of each shape compiles and opens a renderer
                ours, bare, noise, look_s = (
                    ours + b - a,
                    bare + d - c,
                    noise + e - d,
                    look_s + f - e,
                )
    return {"frame": ours / n, "bare": bare / n, "noise": noise / n, "look": look_s / n}


def generation(n: int, workers: int) -> float:
    """Frames per second of the service with this many workers, wall time, start left out."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "s.sock"
        with Server(TASK, path, workers, None), client.connect(str(path)) as renderer:
            list(renderer.map("single", range(4 * workers)))
            begin = time.perf_counter()
            list(renderer.map("single", range(100, 100 + n)))
            return n / (time.perf_counter() - begin)


def physics() -> tuple[float, float]:
    """CPU seconds of a 60-frame candidate, and of bare steps from the same states."""
    built = scene.build(2)
    pose = (0.0, 0.05, 1.0)
    begin = time.process_time()
    states = pushes.record(built, pose, np.random.default_rng(4), spec.SELECT_FRAMES)[0]
    candidate = time.process_time() - begin
    data = mujoco.MjData(built.model)
    run = pushes.Simulation(built, pose)
    driver = pushes.Driver(pushes.Kinematics(built), np.random.default_rng(4), 2)
    bare = 0.0
    for _ in range(len(states) - 1):
        mujoco.mj_copyData(data, built.model, run.data)
        begin = time.process_time()
        mujoco.mj_step(built.model, data, spec.STEPS_PER_FRAME)
        bare += time.process_time() - begin
        run.frame(driver)
    return candidate, bare


def streaming(n: int = 60) -> tuple[float, float]:
    """Median wall seconds of a frame's whole exchange beyond its charge, and the rate nu."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o711)
        _submission(folder / "source")
        (folder / "logs").mkdir()
        frozen = freeze(folder / "source", folder / "frozen", TASK)
        settings = Settings(
            TASK, frozen, read_salt(None), layers.plan("strict"), {}, folder / "logs"
        )
        context = Context(settings)
        estimator = estimator_of(TASK)
        checked = Checked(kind="python", contract=estimator.contract, files=())
        shot = verify.smoke_shot(context)
        with context.worker("python", checked, limits(n)) as worker:
            os.sched_setaffinity(worker.pid, ahead.cpus()[1])
            estimator.start(worker)
            estimator.ask(worker, shot.obs, warm_up=True)
            over = []
            before = worker.wall_s
            for _ in range(n):
                begin, charged = time.perf_counter(), worker.wall_s
                estimator.ask(worker, shot.obs)
                over.append(time.perf_counter() - begin - (worker.wall_s - charged))
            return float(np.median(over)), n / (worker.wall_s - before)


def _submission(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "estimator.py").write_text(ZERO)
    return folder


def verification(profile: str) -> tuple[float, float, float, float]:
    """Wall seconds of the verifier and of drawing its frames here; its and a renderer's memory, MiB."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        argv = [sys.executable, "-m", "verifier", "--task", TASK.id, "--artifacts"]
        argv += [str(_submission(folder / "source")), "--out", str(folder / "out")]
        argv += ["--profile", profile, "--jobs", "2", "--no-keep"]
        begin = time.perf_counter()
        child = subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.DEVNULL)
        peaks = {"parent": 0.0, "renderer": 0.0}
        while child.poll() is None:
            _note_peaks(child.pid, peaks)
            time.sleep(0.2)
        whole = time.perf_counter() - begin
        json.loads((folder / "out" / "reward.json").read_text())
        frozen = freeze(folder / "source", folder / "frozen", TASK)
    settings = Settings(TASK, frozen, read_salt(None), layers.plan("strict"), {}, Path("."))
    context = Context(settings)
    begin = time.perf_counter()
    for trial in verify.trials_of(profile):
        ahead.shoot(verify.scenes_of(context, trial))
    return whole, time.perf_counter() - begin, peaks["parent"], peaks["renderer"]


def _note_peaks(pid: int, peaks: dict[str, float]) -> None:
    """Highest resident memory of the verifier and of its renderer processes, MiB."""
    for name, which in [("parent", [pid]), ("renderer", _children(pid))]:
        for process in which:
            try:
                text = Path(f"/proc/{process}/status").read_text()
                command = Path(f"/proc/{process}/cmdline").read_text()
            except OSError:
                continue
            if name == "renderer" and "spawn_main" not in command:
                continue
            for line in text.splitlines():
                if line.startswith("VmRSS"):
                    peaks[name] = max(peaks[name], int(line.split()[1]) / 1024)


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=20, help="frames of the frame ratios")
    parser.add_argument("--whole", action="store_true", help="verify all 700 frames")
    args = parser.parse_args()
    cost = frames(args.frames)
    candidate, bare = physics()
    over, nu = streaming()
    workers = min(spec.RENDERER_WORKERS, len(os.sched_getaffinity(0)))
    one, many = generation(args.frames, 1), generation(args.frames * workers, workers)
    whole, drawing, parent, renderer = verification("scored" if args.whole else "quick")
    rows = [
        ("1 served frame / bare renders", cost["frame"] / cost["bare"], FRAME_LIMIT, "at most"),
        ("1 depth noise of a frame, CPU s", cost["noise"], NOISE_LIMIT_S, "at most"),
        ("2 look of a scene / frame", cost["look"] / cost["frame"], COMPILE_LIMIT, "at most"),
        (
            f"2 {workers} workers / {workers} x one",
            many / (workers * one),
            GENERATE_LIMIT,
            "at least",
        ),
        ("3 push with kinematics / mj_step", candidate / bare, PHYSICS_LIMIT, "at most"),
        (
            "3 candidate / drawing 60 frames",
            candidate / (60 * cost["bare"]),
            CANDIDATE_LIMIT,
            "at most",
        ),
        ("4 streaming of a frame, s", over, STREAM_LIMIT_S, "at most"),
        ("4 rate of a zero-cost estimator, Hz", nu, RATE_LIMIT_HZ, "at least"),
        (
            "5 verification / drawing its frames",
            whole / drawing,
            VERIFY_LIMIT if args.whole else math.inf,
            "at most",
        ),
        ("5 memory of the verifier, MiB", parent, PARENT_MIB, "at most"),
        ("5 memory of a renderer, MiB", renderer, RENDERER_MIB, "at most"),
    ]
    ok = True
    for name, value, limit, sense in rows:
        passed = value <= limit if sense == "at most" else value >= limit
        ok &= passed
        print(f"{name:<38}{value:10.3f}   {sense} {limit:g}   {'ok' if passed else 'MISSED'}")
    raise SystemExit(0 if ok else 1)


if __name__ == "__main__":
    main()
