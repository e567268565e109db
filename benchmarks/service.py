"""Speed of the simulator service as ratios, one run: python benchmarks/service.py

Bars: metered step of 1 action <= 1.35 of the adapter's own step (<= 1.10 without disk sync), batch of 50 <= 1.03,
status round trips >= 0.4 of a bare socketpair echo, verification of a long record <= 40 passes of SHA-256.
"""

import hashlib
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parent.parent), str(
    Path(__file__).resolve().parent.parent / "tests" / "rle" / "service"
)]  # fmt: skip

from service_fake import Point, attempt, spec

from rle.service import embedded
from rle.service.broker import serve_connection
from rle.service.client import Client, SocketTransport
from rle.service.course import Profile
from rle.service.protocol import recv_frame, send_frame
from rle.service.record import Expect, verify

STEP_S = 0.0146
"""Duration of the stand-in's control step: the mobile robot with twelve cubes on one idle core."""
DECLARED = spec(attempt(steps=1_000_000))


class Slow(Point):
    """The fake task with the duration of a real control step."""

    def step(self, action):
        end = time.perf_counter() + STEP_S
        out = super().step(action * 0.0)
        while time.perf_counter() < end:
            pass
        return out


def seconds(function, count: int) -> float:
    """Time per call of `count` calls."""
    start = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - start) / count


def metered(folder: Path, sync: bool, batch: int, count: int) -> float:
    """Time per action through a session, over the adapter's own."""
    profile = Profile(task=DECLARED.task, layout="practice", sync=sync)
    adapter = Slow("x")
    with embedded.open(DECLARED, folder=folder, adapter=adapter, profile=profile) as sim:
        actions = np.zeros((batch, 2))
        through = seconds(lambda: sim.step(actions), count) / batch
    return through / seconds(lambda: adapter.step(np.zeros(2)), count)


def status_ratio(folder: Path, count: int = 5000) -> float:
    """Status round trips per second over bare echoes of the same bytes."""
    profile = Profile(task=DECLARED.task, layout="practice", sync=False)
    with embedded.open(DECLARED, folder=folder, adapter=Point("x"), profile=profile) as owner:
        ours, theirs = socket.socketpair()
        thread = threading.Thread(target=serve_connection, args=(owner.session, theirs))
        thread.start()
        client = Client(SocketTransport(ours, 10.0))
        served = seconds(client.fetch_status, count)
        client.close()
        thread.join()
    a, b = socket.socketpair()

    def echo():
        while (body := recv_frame(b, 1 << 20)) is not None:
            send_frame(b, body)

    thread = threading.Thread(target=echo)
    thread.start()

    def ask():
        send_frame(a, b"x" * 300)
        recv_frame(a, 1 << 20)

    bare = seconds(ask, count)
    a.close()
    thread.join()
    return bare / served


def verify_ratio(folder: Path, requests: int = 25_000) -> float:
    """Verification of a record of about 50,000 lines over one SHA-256 pass."""
    profile = Profile(task=DECLARED.task, layout="practice", sync=False)
    with embedded.open(DECLARED, folder=folder, adapter=Point("x"), profile=profile) as sim:
        still = np.zeros((1, 2))
        for _ in range(requests):
            sim.step(still)
    path = folder / "ledger.jsonl"
    data = path.read_bytes()
    start = time.perf_counter()
    report = verify(path, None, Expect(spec=DECLARED))
    took = time.perf_counter() - start
    assert report.ok, report.reason
    return took / seconds(lambda: hashlib.sha256(data).digest(), 5)


def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        rows = [
            ("step of 1 action, synced", metered(Path(root) / "a", True, 1, 150), "<= 1.35"),
            ("step of 1 action, not synced", metered(Path(root) / "b", False, 1, 150), "<= 1.10"),
            ("batch of 50", metered(Path(root) / "c", True, 50, 5), "<= 1.03"),
            ("status over bare echo", status_ratio(Path(root) / "d"), ">= 0.4"),
            ("verify over SHA-256 pass", verify_ratio(Path(root) / "e"), "<= 40"),
        ]
    for name, value, bar in rows:
        print(f"{name:32s} {value:8.3f}   {bar}")


if __name__ == "__main__":
    main()
