"""Verification of a ledger with the public key alone: no salt, no private key, no simulator.

Rules are checked in order and the first one broken is the reason. A ledger that breaks one earns 0;
only a lost machine (an unsealed record that ends in `recover`) is nobody's zero.
"""

import hashlib
import os
import stat
from pathlib import Path
from typing import Any, Literal

import msgspec

from rle.service.adapter import SessionSpec
from rle.service.record.keys import VerifyKey, signed_bytes
from rle.service.record.ledger import (
    ACTIONS_NAME,
    MAX_LEDGER_BYTES,
    ZERO_HASH,
    Kind,
    Record,
    parse_line,
    written_payload,
)
from rle.service.record.walk import RuleBroken, TrialRecord, Walk

__all__ = ["Expect", "LedgerReport", "TrialRecord", "verify"]

Verdict = Literal["scored", "invalid_submission", "budget_exceeded", "infrastructure_error"]
SIGNED = ("checkpoint", "seal")


class Expect(msgspec.Struct, frozen=True, kw_only=True):
    """What a ledger must belong to."""

    spec: SessionSpec
    deployment_id: str | None = None
    """None: any (practice)."""
    partial: bool = False
    """True: a signed checkpoint is accepted as the end (steps before the last)."""


class LedgerReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a verified record says; with `reason` set, why it is not believed."""

    outcome: Verdict
    reason: str | None = None
    """Code and record of the first rule broken."""
    code: str | None = None
    records: int = 0
    opening: dict[str, Any] = {}
    """Payload of record 0."""
    end_reason: str | None = None
    trials: list[TrialRecord] = []
    steps_used: int = 0
    seconds_used: float = 0.0
    sim_errors: int = 0
    refused_clients: int = 0
    recoveries: int = 0
    """Times that the broker died and went on; what was asked of it in those moments may be lost."""

    @property
    def ok(self) -> bool:
        return self.outcome == "scored"

    @property
    def session_id(self) -> str:
        return str(self.opening.get("nonce", ""))


def verify(path: Path, public_key: VerifyKey | None, expect: Expect) -> LedgerReport:
    """Checks a ledger file and the `actions.f32` beside it.

    Args:
        path: `ledger.jsonl` of the hand-over.
        public_key: Key of the deployment; None takes the one in record 0, which proves nothing but
            that one broker wrote all of it (practice).
        expect: Task, version and deployment it must belong to.
    """
    walk = Walk(expect.spec)
    kinds: list[Kind] = []
    try:
        lines = _lines(path)
        _walk(lines, public_key, expect, walk, kinds)
        _end(walk, kinds, expect)
        _actions(path.parent / ACTIONS_NAME, walk, len(kinds))
    except RuleBroken as broken:
        return _report(walk, kinds, _verdict(broken, kinds), broken)
    return _report(walk, kinds, "scored", None)


def _verdict(broken: RuleBroken, kinds: list[Kind]) -> Verdict:
    if broken.code == "ledger.budget":
        return "budget_exceeded"
    if broken.code == "ledger.unsealed" and kinds and kinds[-1] == "recover":
        return "infrastructure_error"
    return "invalid_submission"


def _report(
    walk: Walk, kinds: list[Kind], outcome: Verdict, broken: RuleBroken | None
) -> LedgerReport:
    return LedgerReport(
        outcome=outcome,
        reason=str(broken) if broken else None,
        code=broken.code if broken else None,
        records=len(kinds),
        opening=walk.opening,
        end_reason=(walk.seal or {}).get("end_reason"),
        trials=walk.trials,
        steps_used=walk.meter.steps_used,
        seconds_used=round(walk.seconds, 3),
        sim_errors=walk.sim_errors,
        refused_clients=walk.refused_clients,
        recoveries=walk.recoveries,
    )


def _lines(path: Path) -> list[bytes]:
    """Whole lines of a regular file that is not a link."""
    data = _read_regular(path, "ledger.missing")
    if not data.endswith(b"\n"):
        raise RuleBroken("ledger.unsealed", data.count(b"\n"), "the last line is cut")
    return data[:-1].split(b"\n")


def _read_regular(path: Path, missing: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise RuleBroken(missing, 0, f"{path.name} is not there") from None
    except OSError:
        raise RuleBroken("ledger.files", 0, f"{path.name} is a link or special file") from None
    with os.fdopen(fd, "rb") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise RuleBroken("ledger.files", 0, f"{path.name} is not a regular file")
        if info.st_size > MAX_LEDGER_BYTES:
            raise RuleBroken("ledger.files", 0, f"{path.name} has {info.st_size} bytes")
        return file.read()


def _walk(
    lines: list[bytes],
    public_key: VerifyKey | None,
    expect: Expect,
    walk: Walk,
    kinds: list[Kind],
) -> None:
    """Feeds the lines one by one; `kinds` receives those of the records that were accepted."""
    prev, t = ZERO_HASH, float("-inf")
    key = public_key
    for number, line in enumerate(lines):
        try:
            record = parse_line(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise RuleBroken("ledger.chain", number, "not a record") from None
        if record.i != number:
            raise RuleBroken("ledger.sequence", number, f"index {record.i}")
        if record.prev != prev:
            raise RuleBroken("ledger.chain", number, "the hash of the record before differs")
        if record.t < t and record.k != "recover":
            raise RuleBroken("ledger.sequence", number, "time runs backwards")
        if number == 0:
            key = _opening(record, public_key, expect)
        if record.k in SIGNED:
            _signature(number, line, prev, key)
        walk.feed(number, record.k, record.t, record.p)
        kinds.append(record.k)
        prev, t = hashlib.sha256(line).hexdigest(), record.t


def _opening(record: Record, public_key: VerifyKey | None, expect: Expect) -> VerifyKey:
    """Checks what the session belongs to; returns the key that its signatures must have."""
    if record.k != "open":
        raise RuleBroken("ledger.sequence", 0, f"the first record is {record.k}")
    p = record.p
    for name, want in (
        ("task", expect.spec.task),
        ("family_version", expect.spec.family_version),
        ("rules", expect.spec.digest),
    ):
        if p.get(name) != want:
            raise RuleBroken("ledger.foreign", 0, f"{name} is {p.get(name)!r}, not {want!r}")
    try:
        key = public_key or VerifyKey.from_hex(str(p.get("public_key")))
    except ValueError:
        raise RuleBroken("ledger.signature", 0, "no public key") from None
    if expect.deployment_id is not None and p.get("deployment_id") != expect.deployment_id:
        raise RuleBroken(
            "ledger.foreign", 0, f"deployment {p.get('deployment_id')}, not {expect.deployment_id}"
        )
    return key


def _signature(number: int, line: bytes, prev: str, key: VerifyKey | None) -> None:
    head, mark, tail = written_payload(line).rpartition(b'"sig":"')
    try:
        signature = bytes.fromhex(tail.removesuffix(b'"}').decode("ascii"))
    except (ValueError, UnicodeDecodeError):
        signature = b""
    blank = head + mark + b'"}'
    message = signed_bytes(number, bytes.fromhex(prev), blank)
    if key is None or len(signature) != 64 or not key.is_valid(signature, message):
        raise RuleBroken("ledger.signature", number, "not signed by this deployment")


def _end(walk: Walk, kinds: list[Kind], expect: Expect) -> None:
    if walk.seal is not None:
        return
    if expect.partial and kinds and kinds[-1] == "checkpoint":
        return
    raise RuleBroken("ledger.unsealed", len(kinds), "no seal")


def _actions(path: Path, walk: Walk, number: int) -> None:
    size, digest = walk.actions
    if size == 0:
        return
    data = _read_regular(path, "ledger.files")
    if len(data) < size or hashlib.sha256(data[:size]).hexdigest() != digest:
        raise RuleBroken("ledger.chain", number, "actions.f32 is not the recorded one")
