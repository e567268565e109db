"""Attack book, kind session: row 90, with two uids on this machine instead of a container's."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from rle.service import client
from rle.service.broker import control
from rle.service.course import Profile
from rle.service.record import SigningKey

HERE = Path(__file__).resolve()
FAKES = HERE.parents[1] / "rle" / "service"
AGENT_UID = 65_534
"""Nobody's: neither the broker's nor that of any worker."""
SERVE = """
import sys
from pathlib import Path
from service_broker import declared, places_of
from rle.service import hosting
hosting.session_spec = lambda task: declared("attempt")
base = Path(sys.argv[1])
broker = hosting.deployed(places_of(base))
broker.session.start()
(base / "run/ready").touch()
broker.run()
"""
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="two uids need root")


@pytest.fixture
def deployment():
    """A broker of a deployment under this uid; its folder, process and socket."""
    base = Path("/tmp") / f"rle-deployment-{os.getpid()}"
    for name, mode in (("private", 0o700), ("state", 0o700), ("run", 0o755)):
        (base / name).mkdir(parents=True)
        (base / name).chmod(mode)
    base.chmod(0o755)
    profile = Profile(task="f03/tower", layout="deployment", sync=False)
    (base / "private" / "profile.json").write_bytes(msgspec.json.encode(profile))
    (base / "private" / "salt").write_bytes(b"a salt of at least thirty-two bytes, really")
    SigningKey.generate().save(base / "private" / "broker.key", base / "private" / "broker.pub")
    path = os.pathsep.join([str(FAKES), *(p or os.getcwd() for p in sys.path)])
    command = [sys.executable, "-c", SERVE, str(base)]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})
    end_s = time.monotonic() + 60.0
    while not (base / "run" / "ready").exists():
        assert process.poll() is None and time.monotonic() < end_s, "the broker did not start"
        time.sleep(0.02)
    yield base, process
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    subprocess.run(["rm", "-rf", str(base)], check=True)


def as_agent(act) -> bytes:
    """What `act` returns in a process of the agent's uid; empty if it raised."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(AGENT_UID, AGENT_UID, AGENT_UID)
            os.setresuid(AGENT_UID, AGENT_UID, AGENT_UID)
            os.write(writer, str(act()).encode()[:4096])
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        data = stream.read()
    os.waitpid(child, 0)
    return data


def test_what_an_agent_may_not_reach_of_a_broker(deployment):
    """Row 90: memory, key, salt, record and control socket; the simulator's socket it may use."""
    base, process = deployment
    proc = Path("/proc") / str(process.pid)
    acts = {
        "memory": lambda: (proc / "mem").open("rb"),
        "environ": lambda: (proc / "environ").read_bytes(),
        "fds": lambda: os.listdir(proc / "fd"),
        "key": lambda: (base / "private" / "broker.key").read_bytes(),
        "salt": lambda: (base / "private" / "salt").read_bytes(),
        "state": lambda: os.listdir(base / "state"),
        "record": lambda: (base / "state" / "session" / "ledger.jsonl").read_bytes(),
        "plant": lambda: (base / "run" / "sim.sock").unlink(),
        "control": lambda: control(base / "state" / "control.sock", "seal", reason="mine"),
        "signal": lambda: os.kill(process.pid, signal.SIGTERM),
    }
    assert [name for name, act in acts.items() if as_agent(act)] == []
    played = as_agent(lambda: play(str(base / "run" / "sim.sock")))
    assert played == b"1"
    assert control(base / "state" / "control.sock", "seal", reason="collected")["sealed"]


def play(address: str) -> int:
    """Steps used after one step."""
    sim = client.connect(address, timeout_s=30.0)
    sim.step(np.zeros(2))
    return sim.status.steps_used
