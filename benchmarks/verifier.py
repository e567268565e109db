"""Cost of the verifier's machinery, each beside what it cannot be cheaper than, in one run.

python benchmarks/verifier.py [--repeats 5]

What decides is CPU time, of the verifier and of its worker together: an exchange is serial, so what the two
compute is what it costs, and waiting for a processor is other people's load. Our side and the bare one are
measured in turn; each number is the median of the repeats. Wall times are printed beside them (the
quickest repeat) and judged by nobody.
"""

import argparse
import hashlib
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import msgspec
import numpy as np

from rle.contracts import Arg, ArraySpec, Function, PythonContract
from rle.spec import ArtifactContract, ArtifactEntry
from rle.verify_api import Checked, Limits
from tests.attacks.onnx_files import honest
from tests.verifier.fake_family import ONNX, TASK
from verifier.box import wire
from verifier.isolation import layers, selftest
from verifier.isolation.launch import FIXED_ENV, LaunchSpec, Sandboxed
from verifier.isolation.worker import SubmissionWorker
from verifier.submission import freeze

CALLS = 2000
ECHO_BYTES = 640
INTAKE_BYTES = 100 * 10**6
SELF_TEST_LIMIT_S = 1.5
LIMITS = Limits(call_cap_s=30.0, total_cap_s=600.0)
ECHO_CHILD = """
import os, sys
while data := os.read(0, 640):
    os.write(1, data)
"""
"""The least that answers a frame: two system calls."""
ACT_CHILD = """
import os, sys
import numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = ort.InferenceSession(sys.argv[1], options, ["CPUExecutionProvider"])
while data := os.read(0, 1 << 16):
    obs = np.frombuffer(data, np.float32).reshape(1, -1)
    os.write(1, session.run(["actions"], {"obs": obs})[0].tobytes())
"""
"""The least that runs the graph in another process: no frame, no deadline, no sandbox."""


class Cost(NamedTuple):
    """Seconds of one act."""

    cpu_s: float
    wall_s: float


class Side:
    """One side of a comparison: an act, and the clocks of the processes that it keeps busy.

    Args:
        act: What is measured.
        calls: How often one `act` does it.
        pid: A process that lives beside this one and takes part.
    """

    def __init__(self, act: Callable[[], object], calls: int = 1, pid: int | None = None) -> None:
        self._act, self._calls = act, calls
        self._clock = None if pid is None else (~pid << 3) | 2
        self._costs: list[Cost] = []

    def _cpu_s(self) -> float:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        beside = 0.0 if self._clock is None else time.clock_gettime(self._clock)
        return time.process_time() + ended.ru_utime + ended.ru_stime + beside

    def measure(self) -> None:
        cpu_s, start_s = self._cpu_s(), time.perf_counter()
        self._act()
        wall_s = time.perf_counter() - start_s
        self._costs.append(Cost((self._cpu_s() - cpu_s) / self._calls, wall_s / self._calls))

    @property
    def cost(self) -> Cost:
        """Median CPU time and quickest wall time."""
        cpu, wall = zip(*self._costs, strict=True)
        return Cost(float(np.median(cpu)), min(wall))


def compare(ours: Side, bare: Side, repeats: int) -> tuple[Cost, Cost]:
    """Both sides in turn."""
    for _ in range(repeats):
        ours.measure()
        bare.measure()
    return ours.cost, bare.cost


def start_of_a_worker(plan: layers.Plan, repeats: int) -> tuple[Cost, Cost]:
    """Start and end of a worker, and of an interpreter with the same imports."""

    def sandboxed() -> None:
        Sandboxed(LaunchSpec(profile="onnx", role="onnx_box", plan=plan)).close()

    def bare() -> None:
        command = [sys.executable, "-I", "-B", "-c", "import numpy, onnxruntime"]
        subprocess.run(command, env=FIXED_ENV, check=True)

    return compare(Side(sandboxed), Side(bare), repeats)


class BareChild:
    """A child over two pipes that answers whatever it is sent; nobody restricts or times it."""

    def __init__(self, code: str, *args: str) -> None:
        command = [sys.executable, "-I", "-c", code, *args]
        self._process = subprocess.Popen(
            command, env=FIXED_ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._write_fd, self._read_fd = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._read_fd, select.POLLIN)
        self.pid = self._process.pid

    def ask(self, data: bytes) -> bytes:
        """One exchange. The wait is bounded, as it must be with a child that one does not trust."""
        os.write(self._write_fd, data)
        self._poll.poll(5000)
        return os.read(self._read_fd, ECHO_BYTES)

    def __enter__(self) -> "BareChild":
        return self

    def __exit__(self, *exc: object) -> None:
        with self._process as process:
            process.kill()


def onnx_act(plan: layers.Plan, folder: Path, repeats: int) -> tuple[Cost, Cost]:
    """One act through the sandbox, and the same graph in a child that nothing restricts."""
    checked = Checked(kind="onnx", contract=ONNX, files=("policy.onnx",))
    obs = np.zeros((1, 4), np.float32)
    launch = LaunchSpec(profile="onnx", role="onnx_box", plan=plan, submission=folder)
    worker = SubmissionWorker(launch, checked, LIMITS)
    try:
        worker.load()
        with BareChild(ACT_CHILD, str(folder / "policy.onnx")) as child:

            def bare() -> None:
                for _ in range(CALLS):
                    np.frombuffer(child.ask(obs.tobytes()), np.float32).reshape(1, -1)

            bare()  # the child has imported what it needs
            return compare(
                Side(lambda: [worker.act(obs) for _ in range(CALLS)], CALLS, worker.pid),
                Side(bare, CALLS, child.pid),
                repeats,
            )
    finally:
        worker.close()


def frame_echo(plan: layers.Plan, repeats: int) -> tuple[Cost, Cost]:
    """One echoed frame, and the same bytes through two bare pipes."""
    frame = bytes(ECHO_BYTES)
    limits = {wire.REPLY: ECHO_BYTES}
    with (
        Sandboxed(LaunchSpec(profile="onnx", role="canaries", plan=plan)) as worker,
        BareChild(ECHO_CHILD) as child,
    ):

        def framed() -> None:
            for _ in range(CALLS):
                worker.request(wire.ACT, frame, 5.0, limits, charge=False)

        def bare() -> None:
            for _ in range(CALLS):
                child.ask(frame)

        bare()
        return compare(Side(framed, CALLS, worker.pid), Side(bare, CALLS, child.pid), repeats)


def intake(folder: Path, repeats: int) -> tuple[Cost, Cost]:
    """Freezing 100 MB, and hashing the same bytes."""
    source = folder / "large"
    source.mkdir()
    data = os.urandom(INTAKE_BYTES)
    (source / "policy.onnx").write_bytes(data)
    entry = ArtifactEntry(path="policy.onnx", kind="onnx", max_bytes=2 * INTAKE_BYTES)
    contract = ArtifactContract(entries=(entry,), max_files=1, max_total_bytes=2 * INTAKE_BYTES)
    task = msgspec.structs.replace(TASK, artifact=contract)
    targets = iter(range(repeats))
    frozen = Side(lambda: freeze(source, folder / f"copy{next(targets)}", task))
    return compare(frozen, Side(lambda: hashlib.sha256(data).digest()), repeats)


def freeze_and_thaw(plan: layers.Plan, folder: Path, repeats: int) -> tuple[Cost, Cost]:
    """One call of a Python function in a frozen worker, and in one that is not."""
    number = ArraySpec("number")
    function = Function(name="act", args=(Arg(arrays=(number,)),), returns=(number,))
    contract = PythonContract(entry="echo.py", functions=(function,))
    checked = Checked(kind="python", contract=contract, files=("echo.py",))
    one = np.array(1.0)
    workers, sides = [], []
    try:
        for profile in ("python", "session"):  # one role; only the first is stopped between calls
            launch = LaunchSpec(profile=profile, role="python_box", plan=plan, submission=folder)
            worker = SubmissionWorker(launch, checked, LIMITS)
            workers.append(worker)
            worker.load()
            calls = lambda w=worker: [w.act(one) for _ in range(CALLS)]  # noqa: E731
            sides.append(Side(calls, CALLS, worker.pid))
        return compare(sides[0], sides[1], repeats)
    finally:
        for worker in workers:
            worker.close()


def self_test(plan: layers.Plan, folder: Path, repeats: int) -> Cost:
    side = Side(lambda: selftest.run("onnx", plan, folder))
    for _ in range(repeats):
        side.measure()
    return side.cost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    plan = layers.plan("strict")
    with tempfile.TemporaryDirectory(prefix="rle-bench-") as work:
        folder = Path(work)
        folder.chmod(0o755)
        submission = folder / "submission"
        submission.mkdir()
        (submission / "policy.onnx").write_bytes(honest())
        (submission / "echo.py").write_text("def act(number):\n    return number\n")
        rows = [
            ("worker start / bare imports", *start_of_a_worker(plan, repeats), "ratio", 1.3),
            ("ONNX act - bare child", *onnx_act(plan, submission, repeats), "us", 80.0),
            ("frame echo / bare echo", *frame_echo(plan, repeats), "ratio", 2.0),
            ("intake of 100 MB / SHA-256", *intake(folder, repeats), "ratio", 2.5),
            ("freeze and thaw", *freeze_and_thaw(plan, submission, repeats), "us", 60.0),
        ]
        once = self_test(plan, folder, repeats)
    print(f"load average {os.getloadavg()[0]:.1f}, {len(os.sched_getaffinity(0))} CPUs")
    heads = ("ours ms", "bare ms", "result", "limit", "", "wall ms", "bare wall")
    print(f"{'CPU time of':<28}" + "".join(f"{head:>10}" for head in heads))
    missed = False
    for name, ours, bare, unit, limit in rows:
        cpu, least = ours.cpu_s, bare.cpu_s
        value = cpu / least if unit == "ratio" else 1e6 * (cpu - least)
        missed |= value > limit
        verdict = f"{unit} {'ok' if value <= limit else 'OVER'}"
        print(
            f"{name:<28}{1e3 * cpu:10.3f}{1e3 * least:10.3f}{value:10.2f}{limit:10.2f}{verdict:>10}"
            f"{1e3 * ours.wall_s:10.3f}{1e3 * bare.wall_s:10.3f}"
        )
    missed |= once.cpu_s > SELF_TEST_LIMIT_S
    verdict = "ok" if once.cpu_s <= SELF_TEST_LIMIT_S else "OVER"
    print(
        f"{'self-test of one profile':<28}{1e3 * once.cpu_s:10.3f}{'':>20}"
        f"{1e3 * SELF_TEST_LIMIT_S:10.0f}{'ms ' + verdict:>10}{1e3 * once.wall_s:10.3f}"
    )
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
