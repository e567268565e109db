"""OUT: old results are deleted first, new ones are written whole or not at all, the reward last."""

import contextlib
import errno
import os
import shutil
import stat
from pathlib import Path

import msgspec

from rle.errors import InfrastructureError, UserError
from rle.report import Report, flat_reward

REWARD, REWARD_TEXT, REPORT, WORKER_LOG = "reward.json", "reward.txt", "report.json", "worker.log"
RESULTS = (REWARD, REWARD_TEXT, REPORT)
"""Files that a run makes or that a harness reads in their place; deleted at the start."""


def prepare(out: Path) -> None:
    """Makes OUT (0700) and deletes results of an earlier run.

    Raises:
        UserError: OUT is a symbolic link, is no folder, or cannot be written.
    """
    try:
        info = os.lstat(out) if os.path.lexists(out) else None
        if info is None:
            out.mkdir(mode=0o700, parents=True)
        elif stat.S_ISLNK(info.st_mode) or not stat.S_ISDIR(info.st_mode):
            kind = "a symbolic link" if stat.S_ISLNK(info.st_mode) else "not a folder"
            raise UserError(f"--out {out} is {kind}; give a folder or a new name.", code="out.type")
        else:
            os.chmod(out, 0o700)
        for name in RESULTS:
            (out / name).unlink(missing_ok=True)
    except OSError as error:
        raise UserError(
            f"--out {out} cannot be written: {error.strerror}. Give another folder.",
            code="out.access",
        ) from error


def write_atomic(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Temp file, fsync, rename, fsync of the folder: a reader sees the old file or the whole new one.

    Raises:
        InfrastructureError: `output.disk`; nothing partial is left.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.rename(temporary, path)
        folder_fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder_fd)
        finally:
            os.close(folder_fd)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        why = "the disk is full" if full else error.strerror
        raise InfrastructureError(f"{path} was not written: {why}", code="output.disk") from error


def write_report(out: Path, report: Report) -> None:
    """`report.json`, indented for people."""
    write_atomic(out / REPORT, msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")


def write_reward(out: Path, report: Report, n_trials: int) -> dict[str, float]:
    """`reward.json`: the last file of a run. Returns its content."""
    flat = flat_reward(report, n_trials)
    write_atomic(out / REWARD, msgspec.json.format(msgspec.json.encode(flat), indent=1) + b"\n")
    return flat


def copy_folder(source: Path, target: Path) -> None:
    """Copies a frozen folder into OUT.

    Raises:
        InfrastructureError: `output.disk`.
    """
    try:
        shutil.copytree(source, target, symlinks=True)
    except (OSError, shutil.Error) as error:
        raise InfrastructureError(
            f"{target} was not written: {error}", code="output.disk"
        ) from error
