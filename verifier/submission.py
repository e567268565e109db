"""Intake: copies an untrusted folder into a frozen one, refusing what is not plain files.

The source is walked by directory descriptors and never by name twice; nothing is followed, nothing
blocks, every count is bounded before memory is used. What is scored is the copy; the original is
not opened again.
"""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rle.errors import InfrastructureError, InvalidSubmission
from rle.report import FileRecord, SubmissionRecord
from rle.spec import ArtifactContract, ArtifactEntry, TaskSpec
from verifier.names import check_name, check_names, leads_to, listed, matches, printable

MARKER = ".rle"
"""File that the harness leaves in a hand-over folder; absent only when the transfer failed."""
MAX_ENTRIES = 20_000
"""Entries of the folder that are looked at, ignored ones included."""
CHUNK = 1 << 20
LFS_HEAD = b"version https://git-lfs"
VCS_NAMES = frozenset({".git", "__pycache__"})
DIGEST_HEAD = b"rle-submission/1\n"
OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_TYPES = {
    stat.S_IFIFO: "FIFO",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
}


@dataclass(frozen=True)
class Frozen:
    """The copy that is scored. Implements `rle.verify_api.Submission`."""

    folder: Path
    record: SubmissionRecord
    refused: dict[str, InvalidSubmission] = field(default_factory=dict)
    """Files and folders for which empty files stand in the copy, where the contract judges them one by one."""

    @property
    def digest(self) -> str:
        return self.record.digest

    @property
    def ignored(self) -> list[str]:
        return self.record.ignored

    def names(self) -> tuple[str, ...]:
        return tuple(f.path for f in self.record.files)

    def refusal(self, path: str) -> InvalidSubmission | None:
        parts = path.split("/")
        above = ("/".join(parts[:end]) for end in range(1, len(parts) + 1))
        return next((self.refused[name] for name in above if name in self.refused), None)

    def read(self, path: str) -> bytes:
        if path not in self.names():
            raise InvalidSubmission("file.missing", path=path, found=listed(self.names()))
        return (self.folder / path).read_bytes()


@dataclass(frozen=True)
class _Found:
    """One entry of the source, seen through its directory's descriptor."""

    path: str
    kind: int
    size: int
    links: int


def freeze(source: Path, destination: Path, task: TaskSpec, *, harness: bool = False) -> Frozen:
    """Copies and audits a submission.

    Args:
        source: What was handed in.
        destination: Folder to make; the copy ends up read-only in it.
        task: Its artifact contract decides.
        harness: Whether the folder must hold the hand-over marker.

    Raises:
        InvalidSubmission: `file.*`.
        InfrastructureError: `intake.transfer` or `output.disk`.
    """
    root_fd = _open_root(source, harness)
    refused: dict[str, InvalidSubmission] = {}
    judging = _Judging(task.artifact.by_part, refused)
    try:
        found, ignored = _survey(root_fd, task, judging)
        check_names([f.path for f in found])
        found = _check_sizes(found, task.artifact, judging)
        _check_required(found, ignored, task.artifact, refused)
        destination.mkdir(mode=0o700)
        for entry in found:
            _copy(root_fd, entry, destination, _entry_of(task.artifact, entry.path))
    except FileNotFoundError:
        raise InfrastructureError(
            f"{source} vanished while it was copied", code="intake.transfer"
        ) from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise InfrastructureError(
                f"the copy of the submission does not fit on the disk ({error.strerror})",
                code="output.disk",
            ) from error
        raise
    finally:
        os.close(root_fd)
    records = []
    for file in found:
        with judging.of(file.path):
            records.append(_audit(destination, file.path, _entry_of(task.artifact, file.path)))
    if refused:
        _check_required(
            [f for f in found if f.path not in refused], ignored, task.artifact, refused
        )
    for path in _stand_ins(refused, task.artifact):
        (destination / path).parent.mkdir(parents=True, exist_ok=True)
        (destination / path).write_bytes(b"")
        records.append(FileRecord(path=path, size=0, sha256=hashlib.sha256(b"").hexdigest()))
    records.sort(key=lambda record: os.fsencode(record.path))
    _seal(destination)
    return Frozen(
        destination,
        SubmissionRecord(
            digest=digest(records),
            files=records,
            ignored=sorted(ignored),
            refused={printable(path): error.message for path, error in refused.items()},
        ),
        refused,
    )


def _stand_ins(refused: dict[str, InvalidSubmission], contract: ArtifactContract) -> list[str]:
    """Empty files that stand in the copy for what was refused: nothing can be made of them either, so that
    the copy alone, graded again, comes to the same score. For a folder: the files that are named in it."""
    entries = [entry.path for entry in contract.entries]
    found = []
    for path, error in refused.items():
        if error.code == "file.name":
            continue  # what has no acceptable name is not asked for by any
        if any(matches(pattern, path) for pattern in entries):
            found.append(path)
        else:
            found += [e for e in entries if e.startswith(f"{path}/") and "*" not in e]
    return found


@dataclass(frozen=True)
class _Judging:
    """Where a finding about one file goes: it ends the intake, or it leaves the file out."""

    by_part: bool
    refused: dict[str, InvalidSubmission]

    @contextlib.contextmanager
    def of(self, path: str) -> Generator[None]:
        """What is raised inside is about this file."""
        try:
            yield
        except InvalidSubmission as error:
            if not self.by_part:
                raise
            self.refused[path] = error


def digest(records: list[FileRecord]) -> str:
    """SHA-256 over `rle-submission/1` and one line `<sha256> <size> <path>` per file, by path bytes."""
    lines = [
        f"{r.sha256} {r.size} {r.path}\n".encode()
        for r in sorted(records, key=lambda r: r.path.encode())
    ]
    return hashlib.sha256(DIGEST_HEAD + b"".join(lines)).hexdigest()


def _open_root(source: Path, harness: bool) -> int:
    try:
        fd = os.open(source, OPEN_FLAGS | os.O_DIRECTORY)
    except FileNotFoundError:
        if harness:
            raise InfrastructureError(
                f"no hand-over marker at {source / MARKER}", code="intake.transfer"
            ) from None
        raise InvalidSubmission("file.none", required="the files of the contract") from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise InvalidSubmission("file.symlink", path=source.name) from None
        raise
    if harness and MARKER not in os.listdir(fd):
        os.close(fd)
        raise InfrastructureError(
            f"no hand-over marker at {source / MARKER}", code="intake.transfer"
        )
    return fd


def _walk(folder_fd: int, prefix: str, contract: ArtifactContract) -> Iterator[_Found]:
    """Every entry below a folder, in order of names; folders before what they hold."""
    depth = prefix.count("/")
    with os.scandir(folder_fd) as entries:
        listed = []
        for entry in entries:
            listed.append(entry.name)
            if len(listed) > MAX_ENTRIES:
                raise InvalidSubmission("file.count", n=len(listed), max=contract.max_files)
    for name in sorted(listed, key=os.fsencode):
        path = prefix + name
        info = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        yield _Found(path, stat.S_IFMT(info.st_mode), info.st_size, info.st_nlink)
        if stat.S_ISDIR(info.st_mode):
            if depth + 1 > contract.max_depth:
                raise InvalidSubmission(
                    "file.depth", path=printable(path), n=depth + 1, max=contract.max_depth
                )
            child_fd = os.open(name, OPEN_FLAGS | os.O_DIRECTORY, dir_fd=folder_fd)
            try:
                yield from _walk(child_fd, path + "/", contract)
            finally:
                os.close(child_fd)


def _survey(root_fd: int, task: TaskSpec, judging: _Judging) -> tuple[list[_Found], list[str]]:
    """Files to copy, and names that the contract ignores."""
    contract = task.artifact
    patterns = [entry.path for entry in contract.entries]
    accepted, ignored, seen = [], [], 0
    for found in _walk(root_fd, "", contract):
        if found.path == MARKER:
            continue
        seen += 1
        if seen > MAX_ENTRIES:
            raise InvalidSubmission("file.count", n=seen, max=contract.max_files)
        named = any(matches(p, found.path) for p in patterns)
        relevant = named or any(leads_to(p, found.path) for p in patterns)
        if contract.extra == "ignore" and not relevant:
            if found.kind != stat.S_IFDIR:
                ignored.append(printable(found.path))
            continue
        with judging.of(found.path):
            _refuse_type(found)
        if found.kind == stat.S_IFDIR or found.path in judging.refused:
            continue
        if named:
            accepted.append(found)
        elif contract.extra == "ignore":
            ignored.append(printable(found.path))
        else:
            raise InvalidSubmission(
                "file.extra",
                path=printable(found.path),
                task=task.id,
                patterns=", ".join(patterns),
            )
        if len(accepted) > contract.max_files:
            raise InvalidSubmission("file.count", n=len(accepted), max=contract.max_files)
    return accepted, ignored


def _refuse_type(found: _Found) -> None:
    path, name = printable(found.path), found.path.rsplit("/", 1)[-1]
    if name in VCS_NAMES or name.endswith(".pyc"):
        raise InvalidSubmission("file.vcs", path=path)
    check_name(found.path)
    if found.kind == stat.S_IFLNK:
        raise InvalidSubmission("file.symlink", path=path)
    if found.kind not in (stat.S_IFREG, stat.S_IFDIR):
        raise InvalidSubmission("file.special", path=path, type=_TYPES.get(found.kind, "special"))
    if found.kind == stat.S_IFREG and found.links != 1:  # none is left of a file replaced just now
        raise InvalidSubmission("file.hardlink" if found.links else "file.changed", path=path)


def _check_sizes(
    found: list[_Found], contract: ArtifactContract, judging: _Judging
) -> list[_Found]:
    """The files that are not too large; all of them together are not either."""
    total, kept = 0, []
    for file in found:
        limit = min(_entry_of(contract, file.path).max_bytes, contract.max_total_bytes)
        path = printable(file.path)
        with judging.of(file.path):
            if file.size > limit:
                raise InvalidSubmission("file.size", path=path, n=file.size, max=limit)
            total += file.size
            kept.append(file)
    if total > contract.max_total_bytes:
        raise InvalidSubmission(
            "file.size", path="the folder", n=total, max=contract.max_total_bytes
        )
    return kept


def _check_required(
    found: list[_Found],
    ignored: list[str],
    contract: ArtifactContract,
    refused: dict[str, InvalidSubmission],
) -> None:
    names = [f.path for f in found]
    required = [entry.path for entry in contract.entries if entry.required]
    if not names and not ignored and not refused:
        raise InvalidSubmission(
            "file.none", required=", ".join(required) or listed([e.path for e in contract.entries])
        )
    for pattern in required:
        if pattern in refused:
            raise refused[pattern]
        if not any(matches(pattern, name) for name in names):
            raise InvalidSubmission("file.missing", path=pattern, found=listed([*names, *ignored]))


def _entry_of(contract: ArtifactContract, path: str) -> ArtifactEntry:
    """First entry that names the path."""
    return next(entry for entry in contract.entries if matches(entry.path, path))


def _copy(root_fd: int, found: _Found, destination: Path, entry: ArtifactEntry) -> None:
    target = destination / found.path
    for folder in reversed(target.relative_to(destination).parents):
        with contextlib.suppress(FileExistsError):
            (destination / folder).mkdir(mode=0o700)
    for attempt in (1, 2):
        if _copy_once(root_fd, found.path, target, entry.max_bytes):
            return
        if attempt == 2:
            raise InvalidSubmission("file.changed", path=printable(found.path))


def _open_below(root_fd: int, path: str) -> int:
    """Opens a file by descriptors from the root, so that no folder on the way can be swapped."""
    *folders, name = path.split("/")
    folder_fd = os.dup(root_fd)
    try:
        for part in folders:
            next_fd = os.open(part, OPEN_FLAGS | os.O_DIRECTORY, dir_fd=folder_fd)
            os.close(folder_fd)
            folder_fd = next_fd
        return os.open(name, OPEN_FLAGS, dir_fd=folder_fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise InvalidSubmission("file.changed", path=printable(path)) from None
        raise
    finally:
        os.close(folder_fd)


def _copy_once(root_fd: int, path: str, target: Path, max_bytes: int) -> bool:
    """Copies through one descriptor; False when the file changed meanwhile."""
    source_fd = _open_below(root_fd, path)
    try:
        before = os.fstat(source_fd)
        if not stat.S_ISREG(before.st_mode) or before.st_nlink != 1:
            raise InvalidSubmission("file.changed", path=printable(path))
        copied = 0
        with open(target, "wb", buffering=0) as out:
            while copied <= max_bytes and (data := os.read(source_fd, CHUNK)):
                view = memoryview(data)
                copied += len(data)
                while view:
                    view = view[out.write(view) :]
        after = os.fstat(source_fd)
    finally:
        os.close(source_fd)
    if copied > max_bytes:
        raise InvalidSubmission("file.size", path=printable(path), n=copied, max=max_bytes)
    stable = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    return stable and copied == after.st_size


def _audit(folder: Path, path: str, entry: ArtifactEntry) -> FileRecord:
    """Digest of a copied file, and the rules about its content."""
    copy, sha = folder / path, hashlib.sha256()
    with open(copy, "rb", buffering=0) as file:
        head = file.read(CHUNK)
        data = head
        while data:
            sha.update(data)
            data = file.read(CHUNK)
    if not head and entry.required:
        raise InvalidSubmission("file.empty", path=path)
    if head.startswith(LFS_HEAD):
        raise InvalidSubmission("file.lfs", path=path)
    if entry.is_text:
        try:
            copy.read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidSubmission("file.encoding", path=path, byte=error.start) from None
    return FileRecord(path=path, size=copy.stat().st_size, sha256=sha.hexdigest())


def _seal(folder: Path) -> None:
    """Files 0444, folders 0555."""
    for current, _, files in os.walk(folder, topdown=False):
        for name in files:
            os.chmod(os.path.join(current, name), 0o444)
        os.chmod(current, 0o555)
