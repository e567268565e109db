"""Videos, after the score is on disk: best effort, in a process that can write neither result."""

import ctypes
import errno
import multiprocessing
import os
import signal
import sys
import tempfile
from pathlib import Path

from rle import registry
from verifier.context import Context, Settings
from verifier.isolation import landlock

FOLDER = "media"
"""Folder of OUT for the videos."""
CAP_S = 900.0
"""Longest time for all videos of a run."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, SIGKILL = 1, 38, 9


def render(settings: Settings, out: Path) -> str | None:
    """Lets the family film the trials; `families/*/verify.py::media(ctx, folder)`.

    Args:
        settings: Those of the run.
        out: Folder of the results.

    Returns:
        Why there are no videos, or None. A signal to stop ends the filming alone: the score is written.
    """
    if not hasattr(registry.room(settings.task.family, "verify"), "media"):
        return f"{settings.task.family} draws no videos"
    folder = out / FOLDER
    folder.mkdir(exist_ok=True)
    process = multiprocessing.get_context("spawn").Process(
        target=_film, args=(settings, folder, os.getpid())
    )
    stopped: list[str] = []

    def stop(number: int, _frame: object) -> None:
        stopped.append(signal.Signals(number).name)
        process.kill()

    process.start()
    before = {number: signal.signal(number, stop) for number in STOP_SIGNALS}
    try:
        process.join(CAP_S)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if stopped:
        process.join()
        return f"stopped by {stopped[0]}"
    if process.is_alive():
        process.kill()
        process.join()
        return f"filming took more than {CAP_S:g} s"
    return None if process.exitcode == 0 else f"filming ended with exit code {process.exitcode}"


def _film(settings: Settings, folder: Path, ppid: int) -> None:
    """Entry of the filming process."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    if os.getppid() != ppid:
        os._exit(1)
    work = settings.log_folder.parent
    tempfile.tempdir = str(work)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    try:
        landlock.restrict(["/"], [str(folder), str(work), "/dev"])
    except landlock.LandlockError as error:
        if error.errno not in (errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        sys.stderr.write("rle verify: no Landlock here; the videos are drawn without it\n")
    registry.room(settings.task.family, "verify").media(Context(settings, label="media"), folder)
