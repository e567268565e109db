"""How the benchmarks compare: the acts take turns in short slices, and the lower decile of each is its time."""

import time
from collections.abc import Callable, Sequence

import numpy as np

SLICES = 40
"""Slices of each act: enough for a decile."""


def cpu_deciles_s(
    acts: Sequence[Callable[[], object]], slices: int = SLICES, warm: int = 1
) -> np.ndarray:
    """Lower decile of the CPU time of each act, measured in turn.

    Other work on the machine, that of a neighbour on the same core too, only ever adds, and it comes and
    goes in seconds: slices of a tenth of a second meet it alike, and a tenth of them hardly at all.

    Args:
        acts: Each does one slice of its work.
        slices: How often each is measured.
        warm: Turns before the first one that counts.

    Returns:
        Shape (acts,), s.
    """
    times = np.empty((warm + slices, len(acts)))
    for row in times:
        for k, act in enumerate(acts):
            start = time.process_time()
            act()
            row[k] = time.process_time() - start
    return np.percentile(times[warm:], 10.0, axis=0)


def ratio(act: Callable[[], object], bare: Callable[[], object], slices: int = SLICES) -> float:
    """CPU time of an act over that of the bare loop that it wraps; see `cpu_deciles_s`."""
    act_s, bare_s = cpu_deciles_s((act, bare), slices)
    return float(act_s / bare_s)
