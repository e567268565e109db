"""A deployment as a container runs it: kept alive by its keeper, and closed to the agent's user."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from service_broker import places_of

from rle.report import read_report
from rle.service import client as c
from rle.service.broker import control
from rle.service.deploy import keeper
from rle.service.deploy.campaign import deploy

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it acts as another user")
START_S = 90.0


def service(places, *words):
    """Runs a command of the service on these places."""
    path = os.pathsep.join(p or os.getcwd() for p in sys.path)
    return subprocess.run(
        [sys.executable, "-m", "rle.service", *places.arguments(), *words],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=300,
    )  # fmt: skip


@pytest.fixture
def deployed(tmp_path):
    """A deployment of a real task below one folder that others may enter, kept by a keeper."""
    base = Path("/var/tmp") / f"rle-test-{os.getpid()}"
    base.mkdir(mode=0o755)
    places = msgspec.structs.replace(
        places_of(base), service_uid=os.getuid(), roots=(base / "workspace",)
    )
    campaign = base / "campaign" / "f03-cantilever"
    deploy(base / "campaign", ("f03/cantilever",))
    shutil.copytree(campaign / "environment" / "private", places.private)  # as an image does
    for folder, mode in ((places.workspace, 0o777), (places.code, 0o700)):
        folder.mkdir()
        folder.chmod(mode)
    try:
        up = service(places, "up")
        assert up.returncode == 0, up.stderr + (places.keeper / "broker.log").read_text()
        yield places
    finally:
        for pid in _keeper_pids(places):
            os.kill(pid, signal.SIGKILL)
        if places.control.exists():
            with contextlib.suppress(OSError):
                os.kill(control(places.control, "status")["pids"][0], signal.SIGKILL)
        subprocess.run(["rm", "-rf", str(base)], check=True)


def _keeper_pids(places):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"keep" in words and str(places.keeper).encode() in words:
                found.append(int(entry.name))
    return found


def test_a_task_without_a_broker_is_up_at_once(tmp_path):
    assert keeper.up(places_of(tmp_path))
    assert not places_of(tmp_path).keeper.exists()


@as_root
def test_the_agents_user_finds_walls_and_two_doors(deployed):
    places = deployed
    found = service(places, "selfcheck", "--as", "agent")
    lines = found.stdout.splitlines()
    assert found.returncode == 0, "\n".join(x for x in lines if x.startswith("FAIL"))
    assert sum("must work" in line for line in lines) == 2
    for wall in (
        "broker.key",
        "ledger.jsonl",
        "control socket",
        "import mujoco",
        "environ",
        "trace",
    ):
        assert any(wall in line and line.startswith("ok") for line in lines), wall

    # An open key is found out.
    places.private.chmod(0o755)
    (places.private / "salt").chmod(0o644)
    found = service(places, "selfcheck")
    assert found.returncode == 1
    failed = [line for line in found.stdout.splitlines() if line.startswith("FAIL")]
    assert any(re.search(r"must fail: read \S+/salt", line) for line in failed)
    places.private.chmod(0o700)
    (places.private / "salt").chmod(0o600)

    # The keeper takes one snapshot, and starts a killed broker again; the session goes on.
    first, second = (service(places, "control", "snapshot").stdout for _ in range(2))
    assert first == "taken\n" and "before" in second
    with c.connect(str(places.socket)) as sim:
        sim.step([[0.0] * 12])
    os.kill(control(places.control, "status")["pids"][0], signal.SIGKILL)
    end = time.monotonic() + START_S
    while not keeper.greets(places.socket):
        assert time.monotonic() < end
        time.sleep(0.1)
    with c.connect(str(places.socket)) as sim:
        assert sim.fetch_status().steps_used == 1 and sim.status.live
    assert service(places, "up").returncode == 0
    assert len(_keeper_pids(places)) == 1, "a second `up` starts no second keeper"

    # The hand-over seals; the sealed broker ends on purpose and stays ended.
    done = service(places, "handover")
    assert done.returncode == 0, done.stderr
    salt = places.private.parent / "campaign" / "f03-cantilever" / "tests" / "private" / "salt"
    out = places.state.parent / "result"
    argv = [sys.executable, "-m", "verifier", "--task", "f03/cantilever", "--artifacts"]
    argv += [str(places.handover), "--out", str(out), "--replay", "scored"]
    for options, practice in ((["--salt-file", str(salt)], False), ([], True)):
        verified = subprocess.run([*argv, *options], capture_output=True, text=True)
        assert verified.returncode == 0, verified.stderr
        report = read_report((out / "report.json").read_bytes())
        assert report.practice is practice
        if practice:  # the public salt is not the one it was made under
            assert report.errors[0].code == "ledger.foreign"
        else:
            assert (report.outcome, report.ledger.trust) == ("scored", "deployment")
            assert report.ledger.replay == "match" and report.ledger.recoveries == 1
