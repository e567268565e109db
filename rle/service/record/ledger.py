"""The append-only record of a session: one JSON line per record, hash-chained, signed at checkpoints.

    record = {"i": index, "k": kind, "t": monotonic s, "p": payload, "prev": SHA-256 of the line before}

The hash of a record is SHA-256 over its line without the newline; the verifier hashes the bytes it
reads, so there is no canonical form to get wrong. `actions.f32` beside it holds every executed action
as float32, so that a run can be replayed.
"""

import contextlib
import fcntl
import hashlib
import os
import time
from pathlib import Path
from typing import Any, Literal

import msgspec

from rle.errors import InfrastructureError
from rle.service.record.keys import SigningKey, signed_bytes

FORMAT = 1
LEDGER_NAME = "ledger.jsonl"
ACTIONS_NAME = "actions.f32"
RESERVE_NAME = "reserve"
RESERVE_BYTES = 256 * 1024
"""Disk kept free for the seal. Source: a seal of 5 trials is under 4 KiB."""
CHECKPOINT_RECORDS = 1000
"""Records between signed checkpoints."""
MAX_LEDGER_BYTES = 256 * 1024 * 1024
ZERO_HASH = "0" * 64
DURABLE = frozenset({"open", "charge", "trial_close", "phase", "answer", "checkpoint", "seal"})
"""Kinds that are on the disk before anything else happens."""
CHECKPOINTED = frozenset({"trial_close", "phase"})
"""Kinds that a checkpoint follows at once."""

Kind = Literal[
    "open", "lease", "phase", "trial_open", "trial_close", "charge", "confirm", "answer",
    "sim_error", "recover", "checkpoint", "seal",
]  # fmt: skip


_payload_encoder = msgspec.json.Encoder()


class Record(msgspec.Struct, frozen=True):
    """One parsed line."""

    i: int
    k: Kind
    t: float
    p: dict[str, Any]
    prev: str


class _Raw(msgspec.Struct):
    """A line whose payload stays as it is written."""

    p: msgspec.Raw


class LedgerFull(Exception):
    """The record could not be written; the file was cut back to its last whole record."""


class SessionOwned(InfrastructureError):
    """Another broker holds the session."""


class SessionSealed(InfrastructureError):
    """The session in this folder is over."""


class LedgerDamaged(InfrastructureError):
    """The file is not what a broker left."""


_record_decoder = msgspec.json.Decoder(Record, strict=True)
_raw_decoder = msgspec.json.Decoder(_Raw)


def parse_line(line: bytes) -> Record:
    """Parses one line without its newline. Raises msgspec.DecodeError."""
    return _record_decoder.decode(line)


def written_payload(line: bytes) -> bytes:
    """The bytes of a line's payload, which are what is signed. Raises msgspec.DecodeError."""
    return bytes(_raw_decoder.decode(line).p)


class Ledger:
    """Writer of one session's record; holds the lock of its folder until closed.

    Args:
        folder: Session folder, made with mode 0700.
        key: Signs checkpoints and the seal.
        sync: False skips `fdatasync` (benchmarks, tests); then a lost machine may lose a charge.

    Raises:
        SessionOwned: Another process writes here.
        SessionSealed: The record is sealed.
        LedgerDamaged: A line that is neither whole nor a torn last one.
    """

    def __init__(self, folder: Path, key: SigningKey, *, sync: bool = True) -> None:
        self.folder = folder
        self._key = key
        self._sync = sync
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(folder / LEDGER_NAME, flags, 0o600)
        self._lock()
        self._actions_fd = os.open(folder / ACTIONS_NAME, flags, 0o600)
        self.dropped_bytes = 0
        self.torn_seal = False
        self.records: list[Record] = []
        """Records found at start; empty for a new session. The session forgets them after recovery."""
        self._prev = ZERO_HASH
        self._last_t = 0.0
        self.count = 0
        self._since_checkpoint = 0
        self._last_kind = ""
        self._size = 0
        self.is_sealed = False
        self.is_full = False
        self._read_back()
        self._action_hash = hashlib.sha256()
        self._action_bytes = 0
        self._restore_actions()
        self._reserve()

    # ------------------------------------------------------------------------------------- writing

    def append(self, kind: Kind, payload: dict[str, Any]) -> tuple[int, float]:
        """Writes one record; kinds in `DURABLE` are on the disk when this returns.

        Returns:
            Its index and time.

        Raises:
            LedgerFull: Nothing of the record was kept.
        """
        if self.is_sealed:
            raise ValueError(f"the ledger is sealed; {kind} cannot follow")
        return self._write(kind, _payload_encoder.encode(payload), durable=kind in DURABLE)

    @property
    def wants_checkpoint(self) -> bool:
        """The record just written is to be followed by a checkpoint."""
        return self._last_kind in CHECKPOINTED or self._since_checkpoint >= CHECKPOINT_RECORDS

    def add_actions(self, data: bytes) -> dict[str, Any]:
        """Appends executed actions; returns the size and running digest for their confirm.

        Args:
            data: float32, little endian, shape (n, A); empty for operations without any.
        """
        if data:
            self._write_all(self._actions_fd, data, self._action_bytes)
            self._action_hash.update(data)
            self._action_bytes += len(data)
        return {
            "actions_bytes": self._action_bytes,
            "actions_sha256": self._action_hash.hexdigest(),
        }

    def checkpoint(self, charged: int, confirmed: int) -> None:
        """Appends the signed totals so far."""
        totals = {"charged": charged, "confirmed": confirmed, "count": self.count}
        self._signed("checkpoint", totals)
        self._since_checkpoint = 0

    def seal(self, payload: dict[str, Any]) -> tuple[int, float]:
        """Appends the signed last record."""
        written = self._signed("seal", {**payload, "count": self.count})
        self.is_sealed = True
        return written

    def free_reserve(self) -> None:
        """Gives the reserved disk space back, for the records that end a session."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.folder / RESERVE_NAME)

    def close(self) -> None:
        """Closes the files and releases the lock."""
        if self._fd >= 0:
            os.close(self._fd)
            os.close(self._actions_fd)
            self._fd = self._actions_fd = -1

    # ------------------------------------------------------------------------------------ inside

    def _signed(self, kind: Kind, payload: dict[str, Any]) -> tuple[int, float]:
        blank = _payload_encoder.encode({**payload, "sig": ""})
        sig = self._key.sign(signed_bytes(self.count, bytes.fromhex(self._prev), blank))
        return self._write(kind, blank[:-2] + sig.hex().encode() + b'"}', durable=True)

    def _write(self, kind: Kind, payload: bytes, *, durable: bool) -> tuple[int, float]:
        t = max(time.monotonic(), self._last_t)
        line = b'{"i":%d,"k":"%s","t":%.6f,"p":%s,"prev":"%s"}' % (
            self.count, kind.encode(), t, payload, self._prev.encode(),
        )  # fmt: skip
        self._write_all(self._fd, line + b"\n", self._size)
        if durable and self._sync:
            try:
                os.fdatasync(self._fd)
            except OSError as error:
                self.is_full = True
                raise LedgerFull(str(error)) from error
        self._size += len(line) + 1
        self._prev = hashlib.sha256(line).hexdigest()
        self._last_t, self._last_kind = t, kind
        self.count += 1
        self._since_checkpoint += 1
        return self.count - 1, t

    def _write_all(self, fd: int, data: bytes, size: int) -> None:
        """Appends all of `data`, or cuts the file back to `size` and raises LedgerFull."""
        try:
            written = os.write(fd, data)
            if written == len(data):
                return
            reason = f"{written} of {len(data)} bytes written"
        except OSError as error:
            reason = str(error)
        os.ftruncate(fd, size)
        self.is_full = True
        raise LedgerFull(reason)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise SessionOwned(
                f"the session in {self.folder} is owned by another broker; "
                "stop it, or serve another session folder",
                code="session.owned",
            ) from None

    def _read_back(self) -> None:
        """Reads what is there, drops a torn last line, checks the chain."""
        data = _read_all(self._fd)
        whole = data.rfind(b"\n") + 1
        tail = data[whole:]
        if tail:
            self.dropped_bytes = len(tail)
            self.torn_seal = b'"k":"seal"' in tail
            os.ftruncate(self._fd, whole)
        for number, line in enumerate(data[:whole].split(b"\n")[:-1]):
            try:
                record = parse_line(line)
            except msgspec.DecodeError:
                raise self._damaged(number, "is not a record") from None
            if record.i != number:
                raise self._damaged(number, f"has index {record.i}")
            if record.prev != self._prev:
                raise self._damaged(number, "chain broken")
            self.records.append(record)
            self._prev = hashlib.sha256(line).hexdigest()
            self._last_t = record.t
        self.count, self._size = len(self.records), whole
        if self.records and self.records[-1].k == "seal":
            self.close()
            raise SessionSealed(
                f"the session in {self.folder} is already sealed; only the first sealed session of "
                "a container counts. For practice start another with `rle serve --new-session`",
                code="session.sealed",
            )
        self.is_reboot = bool(self.records) and time.monotonic() < self._last_t

    def _damaged(self, number: int, what: str) -> LedgerDamaged:
        self.close()
        return LedgerDamaged(
            f"ledger record {number}: {what}; restore the file or start a new deployment",
            code="session.damaged",
        )

    def _restore_actions(self) -> None:
        """Cuts `actions.f32` back to the last confirm and continues its digest."""
        last = next((r for r in reversed(self.records) if r.k == "confirm"), None)
        size = last.p["actions_bytes"] if last else 0
        data = _read_all(self._actions_fd)
        if len(data) < size:
            raise self._damaged(last.i if last else 0, "actions.f32 is shorter than recorded")
        os.ftruncate(self._actions_fd, size)
        self._action_hash.update(data[:size])
        self._action_bytes = size

    def _reserve(self) -> None:
        path = self.folder / RESERVE_NAME
        if path.exists():
            return
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            with contextlib.suppress(OSError):  # a disk this full is found by the first record
                os.posix_fallocate(fd, 0, RESERVE_BYTES)
        finally:
            os.close(fd)


def _read_all(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    if size > MAX_LEDGER_BYTES:
        raise LedgerDamaged(
            f"the file has {size} bytes; at most {MAX_LEDGER_BYTES}", code="session.damaged"
        )
    chunks, offset = [], 0
    while offset < size:
        chunk = os.pread(fd, min(1 << 20, size - offset), offset)
        if not chunk:
            break
        chunks.append(chunk)
        offset += len(chunk)
    return b"".join(chunks)
