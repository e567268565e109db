"""A broker in a process of its own, for tests that kill it, hang it or feed it nonsense."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from service_broker import declared

from rle.service import client as c
from rle.service.record import Expect, verify

HERE = Path(__file__).parent
START_S = 60.0


class Broker:
    """A broker process that can be killed and started again on the same session."""

    def __init__(self, root: Path, kind: str, *options: str) -> None:
        self.root, self.kind, self.options = root, kind, options
        self.process: subprocess.Popen | None = None
        self.state: dict = {}
        self.start()

    def start(self) -> None:
        ready = self.root / "ready.json"
        ready.unlink(missing_ok=True)
        path = os.pathsep.join([str(HERE), *(p or os.getcwd() for p in sys.path)])
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "service_broker.py"), str(self.root), self.kind,
             *self.options],
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        end = time.monotonic() + START_S
        while not ready.exists():
            assert self.process.poll() is None, "the broker did not start"
            assert time.monotonic() < end, "the broker did not come up"
            time.sleep(0.01)
        self.state = json.loads(ready.read_text())

    def connect(self) -> c.Client:
        end = time.monotonic() + START_S
        while True:
            try:
                return c.connect(self.state["address"], timeout_s=30.0)
            except (c.ConnectionLostError, c.BusyError):
                assert time.monotonic() < end, "no connection"
                time.sleep(0.02)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def worker_pids(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(p) for f in children for p in f.read_text().split()]

    def report(self):
        folder = Path(self.state["folder"])
        return verify(folder / "ledger.jsonl", None, Expect(spec=declared(self.kind)))
