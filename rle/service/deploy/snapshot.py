"""The agent's files before its first step, and back to them between steps.

A container that serves several agents one after the other must not pass notes from one to the next. What
the agent's user owned when its command line was set up is stored once; between steps everything that
user owns is deleted and the stored files come back, byte for byte.
"""

import contextlib
import os
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from rle.service.deploy.places import Places

SCRATCH = "scratch"
"""Writable folder beside what was frozen."""
_VIRTUAL = frozenset(
    {"proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "securityfs", "debugfs", "bpf",
     "tracefs", "pstore", "configfs", "fusectl", "binfmt_misc", "nsfs", "autofs"}
)  # fmt: skip
"""File systems without files of a user."""


def roots_of(places: Places) -> list[Path]:
    """Where the agent of a deployment may have left files."""
    return list(places.roots) or writable_mounts()


def writable_mounts(table: Path = Path("/proc/self/mounts")) -> list[Path]:
    """Mount points where a user may have left something, from the kernel's table."""
    found = []
    for line in table.read_text().splitlines():
        _, point, kind, options, *_ = line.split()
        if kind not in _VIRTUAL and "ro" not in options.split(","):
            found.append(Path(point.replace("\\040", " ")))
    return sorted(set(found))


def take(uid: int, roots: Sequence[Path], archive: Path) -> bool:
    """Stores everything that a user owns, once.

    Args:
        uid: The user.
        roots: Mount points to look at, each without those below it.
        archive: Tar file to write, mode 0600.

    Returns:
        False when a snapshot exists; it is left alone.
    """
    part = archive.with_suffix(".part")
    if archive.exists():
        return False
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as file, tarfile.open(fileobj=file, mode="w") as tar:
        for path, info in _owned(uid, roots):
            if not stat.S_ISSOCK(info.st_mode):
                with contextlib.suppress(FileNotFoundError):
                    tar.add(path, arcname=str(path).lstrip("/"), recursive=False)
    os.rename(part, archive)
    return True


def restore(uid: int, roots: Sequence[Path], archive: Path, *, base: Path = Path("/")) -> int:
    """Deletes everything that a user owns and unpacks what was stored; returns how much went.

    Folders of the user that hold what others own stay, without their attributes.

    Args:
        uid: The user; its processes are gone.
        roots: As `take`.
        archive: What `take` wrote; without one nothing comes back.
        base: Folder that the stored paths hang below.
    """
    gone = 0
    for path, info in reversed(list(_owned(uid, roots))):
        gone += 1
        if not stat.S_ISDIR(info.st_mode):
            path.unlink(missing_ok=True)
            continue
        try:
            path.rmdir()
        except OSError:
            for name in os.listxattr(path, follow_symlinks=False):
                with contextlib.suppress(OSError):
                    os.removexattr(path, name, follow_symlinks=False)
    _end_ipc(uid)
    if archive.is_file():
        with tarfile.open(archive) as tar:
            tar.extractall(base, numeric_owner=True, filter="fully_trusted")
    return gone


def put_back(frozen: Path, workspace: Path, uid: int) -> list[str]:
    """Gives the next agent what was frozen: root's, read-only, beside an empty scratch folder of its own.

    Args:
        frozen: Folder of the hand-over; each of its entries comes to stand in the workspace.
        workspace: The agent's folder.
        uid: The agent.

    Returns:
        Names that were put there.
    """
    names = sorted(p.name for p in frozen.iterdir()) if frozen.is_dir() else []
    for name in names:
        target = workspace / name
        _remove(target)
        if (frozen / name).is_dir():
            shutil.copytree(frozen / name, target)
        else:
            shutil.copyfile(frozen / name, target)
        for path in (target, *target.rglob("*")):
            os.chown(path, 0, 0)
            path.chmod(0o555 if path.is_dir() else 0o444)
    if names:
        scratch = workspace / SCRATCH
        _remove(scratch)
        scratch.mkdir()
        os.chown(scratch, uid, uid)
    return names


def _remove(path: Path) -> None:
    """Whatever stands there; a link is removed, not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _owned(uid: int, roots: Sequence[Path]) -> Iterator[tuple[Path, os.stat_result]]:
    """Paths of a user below each root, folders before what they hold; other mounts are not entered."""
    seen: set[tuple[int, int]] = set()
    for root in roots:
        with contextlib.suppress(OSError):
            yield from _below(root, root.lstat().st_dev, uid, seen)


def _below(
    folder: Path, device: int, uid: int, seen: set[tuple[int, int]]
) -> Iterator[tuple[Path, os.stat_result]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        with contextlib.suppress(FileNotFoundError):
            info = entry.stat(follow_symlinks=False)
            is_folder = stat.S_ISDIR(info.st_mode)
            if info.st_dev != device or (is_folder and (info.st_dev, info.st_ino) in seen):
                continue
            if is_folder:
                seen.add((info.st_dev, info.st_ino))
            if info.st_uid == uid:
                yield Path(entry.path), info
            if is_folder:
                yield from _below(Path(entry.path), device, uid, seen)


def _end_ipc(uid: int) -> None:
    """Removes the user's System V queues, semaphores and shared memory."""
    for name, flag in (("shm", "-m"), ("sem", "-s"), ("msg", "-q")):
        table = Path(f"/proc/sysvipc/{name}")
        if not table.is_file():
            continue
        head, *rows = (line.split() for line in table.read_text().splitlines())
        for row in rows:
            fields = dict(zip(head, row, strict=False))
            if fields.get("uid") == str(uid):
                number = fields[{"shm": "shmid", "sem": "semid", "msg": "msqid"}[name]]
                subprocess.run(["ipcrm", flag, number], check=False, capture_output=True)
