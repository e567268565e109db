"""Speed and memory of the simulator service, one run, ratios: python benchmarks/service.py [--quick]

Client, broker and worker are three processes, as in a container. Steps are those of a stand-in with the
duration of a real control step, images those of f03/cantilever. Bars are printed beside the values.
"""

import argparse
import hashlib
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(HERE), str(HERE / "tests" / "rle" / "service")]

from broker_process import Broker
from service_fake import Paced, Point, attempt, spec

from rle.seeds import PRACTICE_SALT
from rle.service import embedded
from rle.service.adapter import make_adapter, session_spec, trial_plan
from rle.service.client import connect
from rle.service.course import Profile
from rle.service.protocol import ObserveSpec
from rle.service.record import Expect, verify
from rle.service.supervisor import Supervisor
from rle.service.worker import Again, Open

REAL = "f03/cantilever"
LOOK = ObserveSpec(cameras=("left",), width_px=256, height_px=256)
FRESH = (
    "import time; t = time.perf_counter()\n"
    "from rle.service.adapter import make_adapter, session_spec, trial_plan\n"
    f"s = session_spec({REAL!r}); a = make_adapter(s)\n"
    f"a.open_trial(trial_plan(s, s.phases[0], 0, {PRACTICE_SALT!r}))\n"
    "print(time.perf_counter() - t)"
)
"""The same scene opened by a fresh interpreter without service."""


def seconds(function: Callable[[], object], count: int) -> float:
    """Time per call of `count` calls."""
    start = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - start) / count


def alternating(first: Callable[[], object], second: Callable[[], object], count: int) -> float:
    """First over second, measured in turn so that both see the same load; the lower decile of each, as
    other processes can only add.
    """
    times = np.array([(seconds(first, 1), seconds(second, 1)) for _ in range(count)])
    low = np.percentile(times, 10.0, axis=0)
    return float(low[0] / low[1])


def served(root: Path, kind: str, *options: str) -> Broker:
    root.mkdir()
    return Broker(root, kind, *options)


def stepping(root: Path, batch: int, count: int, *options: str) -> float:
    """Time of a batch through client, broker and worker over the same steps in process."""
    broker = served(root, "paced", *options)
    adapter = Paced("x")
    actions = np.zeros((batch, 2))
    try:
        with broker.connect() as sim:
            sim.step(actions)
            return alternating(
                lambda: sim.step(actions),
                lambda: [adapter.step(action) for action in actions],
                count,
            )
    finally:
        broker.stop()


def observing(root: Path, count: int) -> float:
    """A 256 px image of a real scene through the service over the adapter's own."""
    argv = [sys.executable, "-m", "rle", "serve", REAL, "--root", str(root), "--no-sync"]
    path = {"PYTHONPATH": str(HERE)}
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**os.environ, **path})
    assert server.stdout is not None
    lines = iter(server.stdout.readline, "")
    address = next(line.split("=")[1].strip() for line in lines if "RLE_SOCKET=" in line)
    declared = session_spec(REAL)
    adapter = make_adapter(declared)
    adapter.open_trial(trial_plan(declared, declared.phases[0], 0, PRACTICE_SALT))
    with connect(address) as sim:
        sim.observe(LOOK.cameras, width_px=256)
        adapter.observe(LOOK)
        ratio = alternating(
            lambda: sim.observe(LOOK.cameras, width_px=256), lambda: adapter.observe(LOOK), count
        )
    server.terminate()
    server.wait()
    adapter.close()
    return ratio


def asking(root: Path, count: int) -> tuple[float, float, float, float]:
    """Status requests; this process and the one that answers keep to a CPU each where there are two.

    Returns:
        Rate over that of bare echoes of the same bytes by another process, milliseconds each, broker's
        resident MiB before, and its growth over 50 x `count` requests, MiB.
    """
    broker = served(root, "attempt", "nosync")
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        while data := theirs.recv(4096):
            theirs.send(data)
        os._exit(0)
    theirs.close()
    cpus = os.sched_getaffinity(0)
    here, there = min(cpus), max(cpus)
    os.sched_setaffinity(0, {here})
    for pid in (child, broker.process.pid):
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), {there})

    def bare() -> None:
        ours.send(bytes(300))
        ours.recv(4096)

    try:
        with broker.connect() as sim:
            seconds(sim.fetch_status, count)
            before = resident_mib(broker.process.pid)
            times = np.array(
                [(seconds(sim.fetch_status, count), seconds(bare, count)) for _ in range(50)]
            )
            ask_s, bare_s = np.percentile(times, 10.0, axis=0)
            grown = resident_mib(broker.process.pid) - before
        return float(bare_s / ask_s), float(1000.0 * ask_s), before, grown
    finally:
        os.sched_setaffinity(0, cpus)
        ours.close()
        os.waitpid(child, 0)
        broker.stop()


def growth_by_steps(root: Path, count: int) -> float:
    """Growth of the broker over `count` charged requests, MiB: it remembers their ids."""
    broker = served(root, "attempt", "nosync")
    still = np.zeros((1, 2))
    try:
        with broker.connect() as sim:
            seconds(lambda: sim.step(still), count // 10)
            before = resident_mib(broker.process.pid)
            seconds(lambda: sim.step(still), count)
            return resident_mib(broker.process.pid) - before
    finally:
        broker.stop()


def resident_mib(pid: int) -> float:
    """Resident memory of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024.0


def worker(root: Path, count: int) -> tuple[float, float]:
    """Start of a worker over a fresh interpreter that opens the same scene; and by how many milliseconds
    a reset takes longer than the adapter's own.
    """
    declared = session_spec(REAL)
    plan = trial_plan(declared, declared.phases[0], 0, PRACTICE_SALT)
    link = Supervisor(declared, root / "worker.log")
    environment = {**os.environ, "PYTHONPATH": str(HERE)}

    def fresh() -> float:
        run = subprocess.run(
            [sys.executable, "-c", FRESH],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )
        return float(run.stdout)

    def start() -> float:
        link.restart()
        return seconds(lambda: link.call(Open(plan=plan)), 1)

    pairs = [(start(), fresh()) for _ in range(count)]
    ratio = statistics.median(a for a, _ in pairs) / statistics.median(b for _, b in pairs)
    adapter = make_adapter(declared)
    adapter.open_trial(plan)
    times = np.array(
        [
            (seconds(lambda: link.call(Again()), 1), seconds(adapter.reset, 1))
            for _ in range(15 * count)
        ]
    )
    again_s, own_s = np.percentile(times, 10.0, axis=0)
    link.close()
    adapter.close()
    return ratio, float(1000.0 * (again_s - own_s))


def verifying(folder: Path, requests: int) -> tuple[float, int]:
    """Verification over one SHA-256 pass of the file, both linear in its length; and its records."""
    declared = spec(attempt(steps=1_000_000))
    profile = Profile(task=declared.task, layout="practice", sync=False)
    with embedded.open(declared, folder=folder, adapter=Point("x"), profile=profile) as sim:
        still = np.zeros((1, 2))
        for _ in range(requests):
            sim.step(still)
    path = folder / "ledger.jsonl"
    data = path.read_bytes()
    report = verify(path, None, Expect(spec=declared))
    assert report.ok, report.reason
    ratio = alternating(
        lambda: verify(path, None, Expect(spec=declared)),
        lambda: hashlib.sha256(data).digest(),
        15,
    )
    return ratio, report.records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples")
    n = 10 if parser.parse_args().quick else 1
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in ("f", "g"):
            (root / name).mkdir()
        show("step of 1 action, synced", stepping(root / "a", 1, 200 // n), "<= 1.35")
        show("step of 1 action, not synced", stepping(root / "b", 1, 200 // n, "nosync"), "<= 1.10")
        show("batch of 20, synced", stepping(root / "c", 20, 30 // n), "<= 1.10")
        show("batch of 50, synced", stepping(root / "d", 50, 20 // n), "<= 1.03")
        rate, each_ms, memory, grown = asking(root / "e", 1000 // n)
        show("status rate over a bare echo", rate, ">= 0.4")
        show("status request, ms", each_ms, "< 1")
        show("broker resident, MiB", memory, "<= 120")
        show("growth over 50,000 requests, MiB", grown, "about 0")
        ids = growth_by_steps(root / "i", 10_000 // n)
        show("growth over 10,000 charged steps, MiB", ids, "ids")
        ratio, records = verifying(root / "h", 5000 // n)
        show(f"verify {records} records over SHA-256", ratio, "<= 40")
        show("observe, one 256 px image", observing(root / "f", 40 // n), "<= 1.10")
        start, again_ms = worker(root / "g", max(1, 3 // n))
        show("worker start over a fresh interpreter", start, "<= 1.10")
        show("reset through the worker, ms more", again_ms, "< 1")


def show(name: str, value: float, bar: str) -> None:
    """One row."""
    print(f"{name:42s} {value:9.3f}   {bar}", flush=True)


if __name__ == "__main__":
    main()
