"""The real verifier on one arm: software that tries to reach out is stopped, and scored like any other."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from families.f09_gello import dev
from families.f09_gello import verify as family
from rle.paths import assets_dir
from rle.report import read_report
from rle.verify_api import Trial

ASSETS = assets_dir() / "gello"
FILES = ("lead.xml", "trim.py")
PROBE = """
import os, socket, threading, time

def blocked(act):
    try:
        act()
    except (OSError, RuntimeError):
        return True
    return False

ATTEMPTS = {
    "fork": os.fork,
    "socket": socket.socket,
    "file": lambda: open("/etc/hostname").read(),
    "write": lambda: open("note.txt", "w"),
    "thread": lambda: threading.Thread(target=time.sleep, args=(1,)).start(),
}
OPEN = [name for name, act in ATTEMPTS.items() if not blocked(act)]
if OPEN:
    raise ValueError(OPEN)
"""


def verify(folder: Path, out: Path) -> tuple[dict, object]:
    argv = [sys.executable, "-m", "verifier", "--task", "f09/gello", "--artifacts", str(folder)]
    run = subprocess.run([*argv, "--out", str(out)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads((out / "reward.json").read_text()), read_report(
        (out / "report.json").read_bytes()
    )


def arm(folder: Path, source: Path, trim: str) -> Path:
    shutil.copytree(
        source / "xarm7", folder / "xarm7", ignore=shutil.ignore_patterns("__pycache__")
    )
    (folder / "xarm7" / "trim.py").write_text(trim)
    return folder


@pytest.mark.slow
def test_a_sandboxed_run_measures_what_development_measures(make_context, monkeypatch):
    """Equal draws, equal row: neither the check, nor the frames to the worker change a number."""
    files = {f"xarm7/{name}": (ASSETS / "oracle/xarm7" / name).read_bytes() for name in FILES}
    context = make_context(files)
    monkeypatch.setattr(context, "rng", lambda stream, arm, *ids: streams(stream, *ids))
    streams = dev.design_streams("xarm7", 101)
    theirs = family.run_arm(context, Trial(id="t00", index=0, group="xarm7"))
    ours = dev.evaluate_arm(ASSETS / "oracle/xarm7", "xarm7", streams, "t00")
    assert theirs.metrics == ours.metrics and theirs.series == ours.series
    assert theirs.score == ours.score > 0.5 and theirs.events == ours.events


@pytest.mark.slow
def test_reaching_out_is_blocked_and_a_kept_lambda_stays_inside(tmp_path):
    oracle = (ASSETS / "oracle" / "xarm7" / "trim.py").read_text()
    lambda_params = oracle.replace("def adapt(", "def fit(") + (
        "\n\ndef adapt(model, probes):\n    params = fit(model, probes)\n    return lambda: params\n"
        "\n\ndef make_trim_adapted(model, params):\n    return feedforward(model, params())\n"
    )
    honest, report = verify(arm(tmp_path / "a", ASSETS / "springs", oracle), tmp_path / "out_a")
    cheat, cheat_report = verify(
        arm(tmp_path / "b", ASSETS / "springs", PROBE + lambda_params), tmp_path / "out_b"
    )
    assert cheat == honest and honest["xarm7_reward"] > 0.3
    assert not any("ValueError" in text for row in cheat_report.rows for _, text in row.events)
    assert [row.ended for row in report.rows] == ["no_submission", "no_submission", "done"]
    again, _ = verify(tmp_path / "a", tmp_path / "out_c")
    assert again == honest, "one salt, one reward"


@pytest.mark.slow
def test_memory_and_exit_cost_the_software_alone(tmp_path):
    greedy = "import numpy as np\n\n\ndef make_trim(model):\n    kept = np.ones(3 * 2**27)\n    return lambda q: 0 * q\n"
    reward, report = verify(arm(tmp_path / "a", ASSETS / "springs", greedy), tmp_path / "out_a")
    texts = " ".join(text for row in report.rows for _, text in row.events)
    assert "MemoryError" in texts and reward["xarm7_cp_H1"] > 0 and reward["xarm7_cp_S2a"] == 0
    leaving = "import os\n\n\ndef make_trim(model):\n    os._exit(0)\n"
    reward, report = verify(arm(tmp_path / "b", ASSETS / "springs", leaving), tmp_path / "out_b")
    texts = " ".join(text for row in report.rows for _, text in row.events)
    assert "software absent: worker_died" in texts and reward["xarm7_cp_H1"] > 0
