"""Runs of the verifier with the fake family, in this process or in their own, and their results."""

import json
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from rle.report import read_report
from tests.verifier.fake_main import patched
from verifier import __main__ as cli

ROOT = Path(__file__).resolve().parents[2]
BOX_MAIN = "verifier/box/main.py"


def arguments(policy: Path, out: Path, *more: str) -> list[str]:
    return ["--task", "f04/dance", "--artifacts", str(policy), "--out", str(out), *more]


def verify(policy: Path, out: Path, *more: str) -> int:
    """One verification in this process."""
    with patched():
        return cli.main(arguments(policy, out, "--jobs", "1", *more))


def start(policy: Path, out: Path, *more: str, **popen) -> subprocess.Popen:
    """One verification in its own process."""
    command = [sys.executable, "-m", "tests.verifier.fake_main", *arguments(policy, out, *more)]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **popen
    )


def report_of(out: Path):
    return read_report((out / "report.json").read_bytes())


def reward_of(out: Path) -> float:
    return json.loads((out / "reward.json").read_text())["reward"]


def plain_rows(out: Path) -> list:
    """Rows without what a clock measured."""
    return [msgspec.structs.replace(row, wall_s=0.0, policy_s=0.0) for row in report_of(out).rows]


def workers_of(pid: int) -> set[int]:
    """Worker processes started by a process."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if BOX_MAIN.encode() in command and f'"ppid": {pid},'.encode() in command:
                found.add(int(entry.name))
    return found


def wait_until(condition, what: str, limit_s: float = 60.0) -> None:
    """Polls; the limit tells a hang from a loaded machine."""
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s, f"never happened: {what}"
        time.sleep(0.005)
