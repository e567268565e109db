"""What a call costs a submission: the wall time that it had a CPU or slept, and never less than its CPU time.

The kernel counts for every process how long it was ready to run and had to wait for a CPU. On a crowded
machine this is the neighbours' doing and is taken off; what a submission sleeps or waits for stays on.
"""

import contextlib
import os
import time


class WorkerClock:
    """CPU and queueing time of one process, which has a single thread.

    Args:
        pid: The process, alive.
    """

    def __init__(self, pid: int) -> None:
        self._cpu_clock = (~pid << 3) | 2
        self._last_cpu_s = self._last_queued_s = 0.0
        self._fd = -1
        with contextlib.suppress(
            OSError
        ):  # a kernel without scheduler statistics: nothing is taken off
            self._fd = os.open(f"/proc/{pid}/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def cpu_s(self) -> float:
        """CPU time since it was started; the last known value once it has ended."""
        with contextlib.suppress(OSError):
            self._last_cpu_s = time.clock_gettime(self._cpu_clock)
        return self._last_cpu_s

    def queued_s(self) -> float:
        """Time that it was ready to run without a CPU; the last known value once it has ended."""
        with contextlib.suppress(OSError, IndexError):
            self._last_queued_s = 1e-9 * int(os.pread(self._fd, 100, 0).split()[1])
        return self._last_queued_s

    def close(self) -> None:
        """Closes its descriptor. Safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def charged_s(wall_s: float, cpu_s: float, queued_s: float) -> float:
    """max(wall - queued, CPU)."""
    return max(wall_s - queued_s, cpu_s)
