"""`rle serve` from end to end, as its help says: serve a real task, ten lines of the client move the robot,
the record verifies and runs again to the bit."""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from rle import gen
from rle.commands.serve import EXAMPLE
from rle.report import read_report

BEFORE = """
import sys, rle_client
with rle_client.connect() as sim:
    before = sim.observe()
"""
AFTER = """
with rle_client.connect() as sim:
    after = sim.observe()
    moved = after["eef_pos"] - before["eef_pos"]
    print("MOVED", *moved)
foreign = {m.split(".")[0] for m in sys.modules} & {"rle", "families", "verifier", "mujoco"}
assert not foreign, foreign
"""
START_S = 120.0


@pytest.fixture
def served(tmp_path):
    """A running `rle serve f03/tower`: the process and what it printed."""
    log = (tmp_path / "out").open("w+")
    argv = [sys.executable, "-m", "rle", "serve", "f03/tower", "--root", str(tmp_path / "root")]
    process = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT)
    end = time.monotonic() + START_S
    text = ""
    while "--new-session" not in text:
        assert process.poll() is None and time.monotonic() < end, text
        time.sleep(0.1)
        text = (tmp_path / "out").read_text()
    yield process, text
    if process.poll() is None:
        process.kill()
        process.wait()
    log.close()


def test_ten_lines_move_the_robot_and_the_record_verifies(served, tmp_path):
    process, text = served
    exports = dict(re.findall(r"export (\w+)=(\S+)", text))
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | exports
    run = subprocess.run(
        [sys.executable, "-c", BEFORE + EXAMPLE + AFTER],
        capture_output=True, text=True, env=env, cwd=tmp_path, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "Build a stable, unsupported tower" in run.stdout
    assert "steps_used=20" in run.stdout
    moved = [float(v) for v in run.stdout.rsplit("MOVED", 1)[1].split()]
    assert moved[0] > 0.1, "one second of full forward command moves the hand by more than 0.1 m"

    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 0
    hand = re.search(r"--submission (\S+)", text).group(1)
    last = (tmp_path / "out").read_text().splitlines()[-1]
    assert last == (
        f"the session is over, its record is sealed in {hand}; "
        f"score it with: rle verify f03/tower --submission {hand}"
    )
    out = tmp_path / "result"
    argv = [sys.executable, "-m", "verifier", "--task", "f03/tower", "--artifacts", hand]
    verify = subprocess.run(
        [*argv, "--out", str(out), "--replay", "scored"], capture_output=True, text=True
    )
    assert verify.returncode == 0, verify.stderr
    report = read_report((out / "report.json").read_bytes())
    assert (report.outcome, report.practice) == ("scored", True)
    assert (report.ledger.replay, report.ledger.differences) == ("match", [])
    assert report.metrics["interaction_steps"] == 20.0
    assert "replay_diverged" not in report.flags


def test_the_service_ends_with_its_session_once_the_client_has_left(start):
    broker = start("short", "nosync", "ends")
    told = broker.root / "sealed"
    with broker.connect() as sim:
        sim.step(np.zeros((3, 2)))
        assert not told.exists()
        sim.finish()
        end = time.monotonic() + START_S
        while not told.exists():
            assert time.monotonic() < end, "nobody was told of the seal"
            time.sleep(0.02)
        assert sim.fetch_status().phase == "finished" and broker.process.poll() is None
    assert broker.process.wait(START_S) == 0
    assert told.read_text() == "x"
    assert broker.report().ok


def test_a_service_that_is_stopped_seals_and_says_so_once(start):
    broker = start("short", "nosync", "ends")
    assert broker.stop() == 0
    assert (broker.root / "sealed").read_text() == "x" and broker.report().ok


def test_the_readme_shows_the_lines_that_are_tested():
    assert EXAMPLE in (gen.root() / "README.md").read_text()
