"""Cost of the verifier's machinery, each beside what it cannot be cheaper than, in one run.

python benchmarks/verifier.py [--repeats 5]

Medians of a few repeats. Ratios and differences are of wall time, so an otherwise idle machine is
meant; the load average is printed with the table.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import msgspec
import numpy as np
import onnxruntime as ort

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
LIMITS = Limits(call_cap_s=30.0, total_cap_s=600.0)
ECHO_CHILD = """
import os, sys
while data := os.read(0, 640):
    os.write(1, data)
"""


def median_s(act: Callable[[], object], repeats: int) -> float:
    """Median wall time of a few calls."""
    times = []
    for _ in range(repeats):
        start_s = time.perf_counter()
        act()
        times.append(time.perf_counter() - start_s)
    return float(np.median(times))


def start_of_a_worker(plan: layers.Plan, repeats: int) -> tuple[float, float]:
    """Seconds to start and end a worker, and to start an interpreter with the same imports."""

    def sandboxed() -> None:
        Sandboxed(LaunchSpec(profile="onnx", role="onnx_box", plan=plan)).close()

    def bare() -> None:
        command = [sys.executable, "-I", "-B", "-c", "import numpy, onnxruntime"]
        subprocess.run(command, env=FIXED_ENV, check=True)

    return median_s(sandboxed, repeats), median_s(bare, repeats)


def onnx_act(plan: layers.Plan, folder: Path, repeats: int) -> tuple[float, float]:
    """Seconds of one act through the sandbox, and of the same run in this process."""
    checked = Checked(kind="onnx", contract=ONNX, files=("policy.onnx",))
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(honest(), options, ["CPUExecutionProvider"])
    obs = np.zeros((1, 4), np.float32)
    launch = LaunchSpec(profile="onnx", role="onnx_box", plan=plan, submission=folder)
    worker = SubmissionWorker(launch, checked, LIMITS)
    try:
        worker.load()
        outside = median_s(lambda: [worker.act(obs) for _ in range(CALLS)], repeats) / CALLS
    finally:
        worker.close()
    run = lambda: [session.run(["actions"], {"obs": obs}) for _ in range(CALLS)]  # noqa: E731
    return outside, median_s(run, repeats) / CALLS


def frame_echo(plan: layers.Plan, repeats: int) -> tuple[float, float]:
    """Seconds of one echoed frame, and of the same bytes through two bare pipes."""
    frame = bytes(ECHO_BYTES)
    limits = {wire.REPLY: ECHO_BYTES}
    with Sandboxed(LaunchSpec(profile="onnx", role="canaries", plan=plan)) as worker:
        request = lambda: worker.request(wire.ACT, frame, 5.0, limits, charge=False)  # noqa: E731
        framed = median_s(lambda: [request() for _ in range(CALLS)], repeats) / CALLS
    command = [sys.executable, "-I", "-c", ECHO_CHILD]
    with subprocess.Popen(command, stdin=-1, stdout=-1, bufsize=0) as child:

        def bare() -> None:
            for _ in range(CALLS):
                os.write(child.stdin.fileno(), frame)
                os.read(child.stdout.fileno(), ECHO_BYTES)

        return framed, median_s(bare, repeats) / CALLS


def intake(folder: Path, repeats: int) -> tuple[float, float]:
    """Seconds to freeze 100 MB, and to hash the same bytes."""
    source = folder / "large"
    source.mkdir()
    data = os.urandom(INTAKE_BYTES)
    (source / "policy.onnx").write_bytes(data)
    entry = ArtifactEntry(path="policy.onnx", kind="onnx", max_bytes=2 * INTAKE_BYTES)
    contract = ArtifactContract(entries=(entry,), max_files=1, max_total_bytes=2 * INTAKE_BYTES)
    task = msgspec.structs.replace(TASK, artifact=contract)
    targets = iter(range(repeats))
    frozen_s = median_s(lambda: freeze(source, folder / f"copy{next(targets)}", task), repeats)
    return frozen_s, median_s(lambda: hashlib.sha256(data).digest(), repeats)


def freeze_and_thaw(plan: layers.Plan, folder: Path, repeats: int) -> tuple[float, float]:
    """Seconds of one call of a Python function in a frozen worker, and in one that is not."""
    number = ArraySpec("number")
    function = Function(name="act", args=(Arg(arrays=(number,)),), returns=(number,))
    contract = PythonContract(entry="echo.py", functions=(function,))
    checked = Checked(kind="python", contract=contract, files=("echo.py",))
    seconds = []
    for profile in ("python", "session"):  # the same role; only the first is stopped between calls
        launch = LaunchSpec(profile=profile, role="python_box", plan=plan, submission=folder)
        worker = SubmissionWorker(launch, checked, LIMITS)
        try:
            worker.load()
            one = np.array(1.0)
            calls = lambda w=worker, x=one: [w.act(x) for _ in range(CALLS)]  # noqa: E731
            seconds.append(median_s(calls, repeats) / CALLS)
        finally:
            worker.close()
    return seconds[0], seconds[1]


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
            ("ONNX act - session.run", *onnx_act(plan, submission, repeats), "us", 80.0),
            ("frame echo / pipe echo", *frame_echo(plan, repeats), "ratio", 2.0),
            ("intake of 100 MB / SHA-256", *intake(folder, repeats), "ratio", 2.5),
            ("freeze and thaw", *freeze_and_thaw(plan, submission, repeats), "us", 60.0),
        ]
        once_s = median_s(lambda: selftest.run("onnx", plan, folder), repeats)
    print(f"load average {os.getloadavg()[0]:.1f}, {len(os.sched_getaffinity(0))} CPUs")
    print(f"{'measure':<30} {'ours ms':>10} {'bare ms':>10} {'result':>10} {'limit':>8}")
    for name, ours_s, bare_s, unit, limit in rows:
        value = ours_s / bare_s if unit == "ratio" else 1e6 * (ours_s - bare_s)
        numbers = f"{1e3 * ours_s:10.3f} {1e3 * bare_s:10.3f} {value:10.2f} {limit:8.2f} {unit}"
        print(f"{name:<30} {numbers}{'' if value <= limit else '  OVER'}")
    mark = "" if once_s <= 1.5 else "  OVER"
    print(
        f"{'self-test of one profile':<30} {1e3 * once_s:10.3f} {'':>10} {'':>10} {1500.0:8.0f} ms{mark}"
    )


if __name__ == "__main__":
    main()
