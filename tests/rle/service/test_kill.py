"""kill -9 of client, worker and broker at random instants: no acknowledged charge is lost, no action
runs twice, and the record verifies at the end."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from broker_process import HERE, Broker
from service_client import QUANTUM, batch

from rle.service import client as c

LARGEST_BATCH = 5


class Witness:
    """Runs client processes against a broker and remembers what they saw acknowledged."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.next = 1
        self.acknowledged: set[int] = set()
        self.steps_used = 0

    def round(self, victim: str, delay_s: float, seed: int) -> None:
        """One client; `victim` is killed after `delay_s` of its work, then the client too."""
        path = os.pathsep.join([str(HERE), *(p or os.getcwd() for p in sys.path)])
        client = subprocess.Popen(
            [sys.executable, str(HERE / "service_client.py"), self.broker.state["address"],
             str(self.next), str(seed)],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert client.stdout is not None
        lines = [client.stdout.readline()]  # the first action is under way
        time.sleep(delay_s)
        if victim == "broker":
            self.broker.kill()
        elif victim == "worker":
            for pid in self.broker.worker_pids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(delay_s)
        client.kill()
        lines += client.stdout.read().splitlines()
        client.wait()
        self._take([line.split() for line in lines if line.strip()])
        if victim == "broker":
            self.broker.start()
        with self.broker.connect() as sim:
            used = sim.fetch_status().steps_used
        assert used >= self.steps_used, "an acknowledged charge was lost"
        self.steps_used = used

    def _take(self, lines: list[list[str]]) -> None:
        for kind, *numbers in lines:
            values = [int(n) for n in numbers]
            if kind == "ack":
                assert values[0] >= self.steps_used, "the meter ran backwards"
                self.steps_used = values[0]
                self.acknowledged |= set(range(values[1], values[2] + 1))
            self.next = max(self.next, values[-1] + 1)

    def conclude(self) -> None:
        """Seals, verifies, and compares what ran with what was acknowledged."""
        assert self.broker.stop() == 0
        report = self.broker.report()
        assert report.ok, report.reason
        folder = Path(self.broker.state["folder"])
        actions = np.fromfile(folder / "actions.f32", "<f4").reshape(-1, 2)
        ran = np.rint(actions[:, 1] / QUANTUM).astype(int)
        assert np.all(np.diff(ran) > 0), "an action ran twice or out of order"
        assert self.acknowledged <= set(ran.tolist()), "an acknowledged action is not in the record"
        resets = sum(
            json.loads(line)["p"].get("op") == "reset"
            for line in (folder / "ledger.jsonl").read_bytes().splitlines()
        )
        assert len(ran) + resets <= report.steps_used == self.steps_used


def kill_at_random(broker: Broker, rounds: int, seed: int, victims: tuple[str, ...]) -> None:
    rng = random.Random(seed)
    witness = Witness(broker)
    for n in range(rounds):
        witness.round(rng.choice(victims), rng.uniform(0.0, 0.12), n)
    assert witness.acknowledged
    witness.conclude()


def test_kill_nine_of_each_side(start):
    broker = start("development")
    witness = Witness(broker)
    for n, victim in enumerate(("client", "worker", "broker", "broker")):
        witness.round(victim, 0.03 * n, n)
    witness.conclude()


@pytest.mark.slow
def test_twenty_five_kills_of_the_broker(start):
    kill_at_random(start("development"), 25, 1, ("broker",))


@pytest.mark.slow
def test_two_hundred_kills_of_any_side(start):
    kill_at_random(start("development"), 200, 2, ("client", "worker", "broker"))


@pytest.mark.parametrize(
    "write", [6, pytest.param(7, marks=pytest.mark.slow), pytest.param(8, marks=pytest.mark.slow),
              9, pytest.param(10, marks=pytest.mark.slow)]
)  # fmt: skip
def test_a_broker_that_dies_inside_a_write_loses_nothing(start, tmp_path, write):
    """Each start of the broker writes half of one record, or of the actions, and is killed there."""
    broker = start("development", f"half={write}")
    acknowledged, number = 0, 1
    for _ in range(2):
        with contextlib.suppress(c.ConnectionLostError), broker.connect() as sim:
            while True:
                if not sim.status.live:
                    sim.reset()
                sim.step(batch(number, LARGEST_BATCH))
                acknowledged = sim.status.steps_used
                number += LARGEST_BATCH
        assert broker.process.wait(30) == -signal.SIGKILL
        number += LARGEST_BATCH
        broker.start()
    broker.kill()
    broker.options = ()
    broker.start()
    with broker.connect() as sim:
        used = sim.fetch_status().steps_used
        assert acknowledged <= used <= acknowledged + 2 * (LARGEST_BATCH + 1)
        assert sim.status.phase == "development"
    assert broker.stop() == 0
    report = broker.report()
    assert report.ok, report.reason
    text = (Path(broker.state["folder"]) / "ledger.jsonl").read_text()
    torn = [json.loads(x)["p"]["dropped_bytes"] for x in text.splitlines() if '"recover"' in x]
    assert len(torn) == 3
