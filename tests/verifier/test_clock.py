"""What a call is charged: sleep is, work is, and what the machine keeps a worker waiting is not."""

import os

import numpy as np
import pytest

from rle.contracts import Arg, ArraySpec, Function, PythonContract
from rle.verify_api import Limits
from verifier.isolation.clock import WorkerClock, charged_s

CONTRACT = PythonContract(
    entry="probe.py",
    functions=(
        Function(
            name="act", args=(Arg(arrays=(ArraySpec("n"),)),), returns=(ArraySpec("a", (1,)),)
        ),
    ),
)
SLEEPER = "import time\ndef act(number):\n    time.sleep(number)\n    return [0.0]\n"


@pytest.mark.parametrize(
    ("wall_s", "cpu_s", "queued_s", "charged"),
    [
        (0.100, 0.025, 0.070, 0.030),  # a busy machine: 5 ms of something else than CPU or queue
        (0.100, 0.025, 0.000, 0.100),  # it slept
        (0.100, 0.250, 0.090, 0.250),  # it worked before it was asked
        (0.100, 0.020, 0.200, 0.020),  # never less than its CPU time
    ],
)
def test_worked_examples(wall_s, cpu_s, queued_s, charged):
    assert charged_s(wall_s, cpu_s, queued_s) == pytest.approx(charged)


def test_clock_of_a_living_and_of_an_ended_process():
    own = WorkerClock(os.getpid())
    before = own.cpu_s(), own.queued_s()
    sum(range(10**6))
    assert own.cpu_s() > before[0] > 0.0 and own.queued_s() >= before[1] >= 0.0
    own.close()
    own.close()
    assert own.queued_s() >= before[1], "closed: the last known value"
    nobody = WorkerClock(2**22 + 1)  # above the largest process id
    assert (nobody.cpu_s(), nobody.queued_s()) == (0.0, 0.0)


@pytest.mark.parametrize(("queued_step_s", "low", "high"), [(0.0, 0.5, 30.0), (100.0, 0.0, 0.4)])
def test_a_worker_pays_for_sleep_but_not_for_waiting(
    make_context, monkeypatch, queued_step_s, low, high
):
    """The same sleep of half a second, once as it is and once as if it had been spent in the queue."""
    told = [0.0]

    def queued(self) -> float:
        told[0] += queued_step_s
        return told[0]

    monkeypatch.setattr(WorkerClock, "queued_s", queued)
    ctx = make_context({"probe.py": SLEEPER})
    limits = Limits(call_cap_s=60.0, total_cap_s=60.0)
    with ctx.worker("python", ctx.check("python", CONTRACT), limits) as worker:
        worker.act(np.array(0.5))
        assert low <= worker.wall_s < high
        assert worker.wall_s >= worker.cpu_s
