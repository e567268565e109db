"""Trials in parallel: order, the one re-run of a trial whose worker or trusted process was killed.

The score never depends on the number of jobs: a trial gets its draws from its own streams, runs in
fresh workers, and rows come back in the order of the trials.
"""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

import msgspec

from rle.errors import InfrastructureError
from rle.report import Row
from rle.verify_api import Trial, TrialFault
from verifier.context import Context, Settings

TrialFunction = Callable[[Context, Trial], Row]
OnRow = Callable[[Row], None]
RETRY_ENDED = "worker_died"
POOL_ATTEMPTS = 2
"""Pools that are started for one set of trials; the second for what a lost process left undone."""
PR_SET_PDEATHSIG = 1

_settings: Settings | None = None
"""Settings of this process where it is one of a pool."""


def run_trials(
    settings: Settings,
    fn: TrialFunction,
    trials: Sequence[Trial],
    on_row: OnRow | None = None,
    *,
    in_turn: bool = False,
) -> list[Row]:
    """Runs every trial and returns the rows in trial order.

    Args:
        settings: Those of the run.
        fn: Module-level function of the family.
        trials: Distinct ids.
        on_row: Told of every finished row.
        in_turn: One after the other in this process, however many jobs there are.

    Raises:
        RleError: What trusted code raised in a trial; the run is over.
    """
    ids = [trial.id for trial in trials]
    if len(set(ids)) != len(ids):
        raise ValueError(f"trial ids repeat: {', '.join(ids)}")
    told = on_row or (lambda row: None)
    jobs = 1 if in_turn else min(settings.jobs, len(trials))
    if jobs <= 1:
        rows = []
        for trial in trials:
            rows.append(run_trial(settings, fn, trial))
            told(rows[-1])
        return rows
    return _run_pool(settings, fn, trials, jobs, told)


def run_trial(settings: Settings, fn: TrialFunction, trial: Trial) -> Row:
    """One trial; once more in fresh workers when a signal ended the first one's worker."""
    context = Context(settings, label=trial.id)
    row = _attempt(context, fn, trial)
    if row.ended == RETRY_ENDED and context.signal_deaths:
        again = Context(settings, label=f"{trial.id}-again")
        row = msgspec.structs.replace(_attempt(again, fn, trial), retried=1)
    return row


def _attempt(context: Context, fn: TrialFunction, trial: Trial) -> Row:
    start_s = time.monotonic()
    try:
        row = fn(context, trial)
    except TrialFault as fault:  # a family that has nothing to add to a lost trial
        row = Row(id=trial.id, group=trial.group, score=0.0, ended=fault.ended)
    if row.wall_s == 0.0:
        row = msgspec.structs.replace(row, wall_s=time.monotonic() - start_s)
    return row


def _enter_pool(settings: Settings, ppid: int) -> None:
    """Start of a trusted trial process: it ends with the verifier, and leaves signals to it."""
    global _settings
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != ppid:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _settings = settings


def _in_pool(fn: TrialFunction, trial: Trial) -> Row:
    if _settings is None:
        raise RuntimeError("this process was not started by a pool of the verifier")
    return run_trial(_settings, fn, trial)


def _run_pool(
    settings: Settings, fn: TrialFunction, trials: Sequence[Trial], jobs: int, told: OnRow
) -> list[Row]:
    """A trusted process that is killed loses no row: what was not finished is run once more."""
    rows: dict[int, Row] = {}
    for attempt in range(POOL_ATTEMPTS):
        try:
            _run_missing(settings, fn, trials, jobs, rows, told)
            break
        except BrokenProcessPool as error:
            if attempt + 1 == POOL_ATTEMPTS:
                raise InfrastructureError(
                    "a trusted trial process was killed twice (memory, or a person)",
                    code="trial.process",
                ) from error
    return [rows[i] for i in range(len(trials))]


def _run_missing(
    settings: Settings,
    fn: TrialFunction,
    trials: Sequence[Trial],
    jobs: int,
    rows: dict[int, Row],
    told: OnRow,
) -> None:
    """Adds the rows that are missing. Raises BrokenProcessPool if a process of the pool is lost."""
    pool = ProcessPoolExecutor(
        jobs, multiprocessing.get_context("spawn"), _enter_pool, (settings, os.getpid())
    )
    processes = pool._processes  # the executor has no public way to end running work
    try:
        futures = {
            pool.submit(_in_pool, fn, trial): i for i, trial in enumerate(trials) if i not in rows
        }
        for future in as_completed(futures):
            rows[futures[future]] = future.result()
            told(rows[futures[future]])
    except BaseException:
        for process in list(processes.values()):
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
