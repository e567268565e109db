"""Facts about this machine and the versions that made a result."""

import os
import platform
import time
from importlib import metadata
from pathlib import Path

from rle.report import Machine
from rle.spec import REFERENCE_STEPS_PER_S

PACKAGES = {
    "rle": "rle-bench",
    "mujoco": "mujoco",
    "numpy": "numpy",
    "onnxruntime": "onnxruntime",
    "torch": "torch",
}


STEP_S, WINDOWS, WINDOW_S, STEPS_AT_ONCE = 0.002, 5, 0.1, 50
"""The speed probe: half a second in five windows."""
SLOWEST_FACTOR = 0.2
"""Below it, results with wall-clock terms say more about the machine than about the submission."""
TIMED_FAMILIES = frozenset({"f05", "f06", "f07"})
"""Families whose score holds wall-clock time."""


def versions() -> dict[str, str | None]:
    """Versions of the interpreter and of what can change a score; None where not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name, package in PACKAGES.items():
        try:
            found[name] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[name] = None
    if found["rle"] is None:
        found["rle"] = _checkout_version()
    return found


def _checkout_version() -> str | None:
    import rle

    return getattr(rle, "__version__", None)


def describe(before: float | None = None, after: float | None = None) -> Machine:
    """CPU, usable cores, kernel, the renderer that was chosen, and speed factors if measured."""
    return Machine(
        cpu=_cpu_name(),
        cores=len(os.sched_getaffinity(0)),
        kernel=platform.release(),
        gl=os.environ.get("MUJOCO_GL"),
        speed_before=before,
        speed_after=after,
    )


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def speed_factor() -> float:
    """Speed of this machine: MuJoCo steps of the G1 per second of CPU time, over the reference.

    The robot is released over the plane in its default pose, 2 ms steps; best of a few windows. CPU
    time, because the question is whether this processor can be compared with others; what other
    processes take away shows in the charged time of each call.
    """
    import mujoco  # only runs of tasks with wall-clock terms pay for it

    from families.f04_tracking import scene

    model = scene.build(STEP_S).model
    data = mujoco.MjData(model)
    mujoco.mj_resetData(model, data)
    best = 0.0
    for _ in range(WINDOWS):
        steps, start_s = 0, time.thread_time()
        while (passed_s := time.thread_time() - start_s) < WINDOW_S:
            mujoco.mj_step(model, data, STEPS_AT_ONCE)
            steps += STEPS_AT_ONCE
        best = max(best, steps / passed_s)
    return best / REFERENCE_STEPS_PER_S
