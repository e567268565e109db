"""Facts about this machine and the versions that made a result."""

import os
import platform
from importlib import metadata
from pathlib import Path

from rle.report import Machine

PACKAGES = {
    "rle": "rle-bench",
    "mujoco": "mujoco",
    "numpy": "numpy",
    "onnxruntime": "onnxruntime",
    "torch": "torch",
}


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


def describe() -> Machine:
    """CPU, usable cores, kernel and the renderer that was chosen."""
    return Machine(
        cpu=_cpu_name(),
        cores=len(os.sched_getaffinity(0)),
        kernel=platform.release(),
        gl=os.environ.get("MUJOCO_GL"),
    )


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()
