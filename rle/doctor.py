"""`rle doctor`: says what works on this machine, and prints the fix for what does not."""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from typing import Literal, NamedTuple

PINNED: dict[str, str] = {
    "mujoco": "3.9.0",
    "numpy": "1.26.4",
    "robosuite": "1.5.2",
    "torch": "2.13.0",
}
"""Versions that decide a score. Source: constraints.txt (a test compares)."""

Verdict = Literal["ok", "warn", "fail"]


class Finding(NamedTuple):
    name: str
    verdict: Verdict
    fact: str
    fix: str = ""


def examine() -> list[Finding]:
    """Runs every check. None raises; a failing one carries its fix."""
    return [_python(), *_versions(), _frame(), _sandbox(), _cuda(), _cpus()]


def _python() -> Finding:
    good = (3, 11) <= sys.version_info[:2] < (3, 13)
    return Finding(
        "python", "ok" if good else "fail", platform.python_version(),
        "" if good else "Use Python 3.11 or 3.12: `python3.11 -m venv .venv`.",
    )  # fmt: skip


def _versions() -> list[Finding]:
    found = []
    for package, pin in PINNED.items():
        try:
            here = importlib.metadata.version(package).split("+")[0]
        except importlib.metadata.PackageNotFoundError:
            here = "absent"
        good = here == pin
        fix = (
            ""
            if good
            else f"Scores are stated for {package} {pin}: `pip install -c constraints.txt -e .`"
        )
        found.append(Finding(package, "ok" if good else "fail", here, fix))
    return found


def _frame() -> Finding:
    """Draws one frame in a child process, since a broken GL driver can abort the process."""
    code = (
        "import rle.sim, mujoco\n"
        "from rle.sim.render import Frames, gl_backend\n"
        'm = mujoco.MjModel.from_xml_string(\'<mujoco><worldbody><light name="l" pos="0 0 2"/>'
        '<geom name="g" size="1"/></worldbody></mujoco>\')\n'
        "d = mujoco.MjData(m); mujoco.mj_forward(m, d)\n"
        "with Frames(m, 64, 48) as f:\n"
        "    assert f.rgb(d, mujoco.MjvCamera()).std() > 0, 'blank frame'\n"
        "print(gl_backend())"
    )
    for backend in dict.fromkeys((os.environ.get("MUJOCO_GL", "egl"), "egl", "osmesa")):
        run = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "MUJOCO_GL": backend},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        if run.returncode == 0:
            wanted = os.environ.get("MUJOCO_GL", "egl")
            if backend == wanted:
                return Finding("rendering", "ok", f"a frame was drawn with {backend}")
            return Finding(
                "rendering",
                "warn",
                f"{wanted} fails, {backend} works",
                f"export MUJOCO_GL={backend}",
            )
    last = (run.stderr.strip().splitlines() or ["no output"])[-1]
    return Finding(
        "rendering", "fail", last,
        "Debian: apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri, or libosmesa6 with MUJOCO_GL=osmesa.",
    )  # fmt: skip


def _sandbox() -> Finding:
    """Asks the verifier, in its own process, which isolation layers this machine gives."""
    run = subprocess.run(
        [sys.executable, "-m", "verifier.isolation"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    try:
        answer = json.loads(run.stdout.strip().splitlines()[-1])
    except (json.JSONDecodeError, IndexError):
        last = (run.stderr.strip().splitlines() or ["no output"])[-1]
        return Finding(
            "sandbox", "fail", last, "Run `python -m verifier.isolation` and read its message."
        )
    layers, missing = answer.get("layers", []), answer.get("missing", [])
    fact = (
        f"layers {', '.join(layers) or 'none'}; blocked {len(answer.get('blocked', []))} canaries"
    )
    if run.returncode == 0 and not missing:
        return Finding("sandbox", "ok", fact)
    return Finding(
        "sandbox", "warn", f"{fact}; missing {', '.join(missing)}",
        "Linux >= 5.13 with Landlock and libseccomp2 gives strict isolation; "
        "without it `--isolation reduced` marks the result.",
    )  # fmt: skip


def _cuda() -> Finding:
    try:
        listing = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20, check=False
        )
        devices = listing.stdout.strip().splitlines() if listing.returncode == 0 else []
    except FileNotFoundError:
        devices = []
    fact = devices[0] if devices else "no CUDA device: training uses the `mjc` backend on CPU"
    return Finding("cuda", "ok", fact)


def _cpus() -> Finding:
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Finding("cpus", "ok", f"{n} in the affinity mask: default of --jobs")
