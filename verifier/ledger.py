"""Joins `rle.service.record` to the outcomes: is there a record, may it be believed, what does it say.

The public key is the verifier's own (`broker.pub` beside the salt file), never one of the hand-over. A
verifier without one takes the key that record 0 names and marks the result as practice.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rle.errors import BudgetExceeded, InfrastructureError, InvalidSubmission
from rle.report import LedgerRecord
from rle.service.adapter import SessionSpec, session_spec
from rle.service.course import SIM_UNAVAILABLE
from rle.service.record import Expect, LedgerReport, VerifyKey, verify
from rle.service.record.ledger import LEDGER_NAME
from rle.service.record.replay import replay
from rle.service.supervisor import Supervisor
from verifier.context import Settings

KEY_NAME = "broker.pub"
FAILURE_NAME = "failure.json"
SALT_DOMAIN = b"rle-salt"
Trust = Literal["sidecar", "deployment", "practice"]
TRUST_ORDER: tuple[Trust, ...] = ("practice", "deployment", "sidecar")
"""Weakest first."""


@dataclass(frozen=True)
class LedgerView:
    """A believed record."""

    report: LedgerReport
    trust: Trust
    validation: bool
    differences: list[str] | None = None
    """Where a replay led elsewhere; None where none was asked for."""

    @property
    def record(self) -> LedgerRecord:
        """What the verification report says of it."""
        replayed = "diverged" if self.differences else "match"
        return LedgerRecord(
            trust=self.trust,
            session_id=self.report.session_id,
            records=self.report.records,
            recoveries=self.report.recoveries,
            replay="skipped" if self.differences is None else replayed,
            differences=self.differences or [],
            validation=self.validation,
        )


def read_ledger(settings: Settings) -> LedgerView:
    """Verifies the record of a hand-over folder.

    Raises:
        InvalidSubmission: Missing, unsealed, edited or foreign; scores 0.
        BudgetExceeded: Its totals are above the budget.
        InfrastructureError: The machine lost it, or its trust is too low for `--require-ledger-trust`.
    """
    folder = settings.submission.folder
    names = (*settings.submission.names(), *settings.submission.ignored)
    ledgers = [name for name in names if name.split("/")[-1] == LEDGER_NAME]
    if LEDGER_NAME not in ledgers:
        raise InvalidSubmission("ledger.missing", detail=f"{LEDGER_NAME} is not there")
    if len(ledgers) > 1:
        raise InvalidSubmission("ledger.files", detail=f"{len(ledgers)} files named {LEDGER_NAME}")
    key = public_key(settings)
    spec = session_spec(settings.task.id)
    expect = Expect(
        spec=spec, deployment_id=key.deployment_id if key else None, partial=settings.partial
    )
    report = verify(folder / LEDGER_NAME, key, expect)
    if not report.ok:
        _refuse(report, broker_failed=FAILURE_NAME in names)
    _check_session(report, settings)
    if report.end_reason == SIM_UNAVAILABLE:
        raise InfrastructureError(
            "the simulator could not open a scored scene in this session; run it again",
            code="ledger.simulator",
        )
    view = LedgerView(
        report=report,
        trust=trust_of(report, key),
        validation=bool(report.opening.get("validation")),
        differences=_replay(spec, settings) if settings.replay == "scored" else None,
    )
    wanted = settings.require_ledger_trust
    if wanted and TRUST_ORDER.index(view.trust) < TRUST_ORDER.index(_trust(wanted)):
        raise InfrastructureError(
            f"the record's trust is {view.trust}; {wanted} is required. Verify a session of such a "
            "deployment, or leave --require-ledger-trust out",
            code="ledger.trust",
        )
    return view


def _replay(spec: SessionSpec, settings: Settings) -> list[str]:
    """Runs the record again in a fresh worker process."""
    link = Supervisor(spec, settings.log_folder / "replay.log")
    try:
        return replay(settings.submission.folder, spec, settings.salt.value, link)
    finally:
        link.close()


def public_key(settings: Settings) -> VerifyKey | None:
    """The deployment's key from the verifier's own private folder; None in practice."""
    folder: Path | None = settings.salt.folder
    if folder is None or not (folder / KEY_NAME).is_file():
        return None
    return VerifyKey.load(folder / KEY_NAME)


def trust_of(report: LedgerReport, key: VerifyKey | None) -> Trust:
    """How far a record is believed: by whose key it is signed, and where its broker ran."""
    layout = report.opening.get("layout")
    if key is None or layout not in ("deployment", "sidecar"):
        return "practice"
    return "sidecar" if layout == "sidecar" else "deployment"


def _trust(name: str) -> Trust:
    return next(level for level in TRUST_ORDER if level == name)


def _check_session(report: LedgerReport, settings: Settings) -> None:
    """The record was made under this campaign's salt, in the first session of its container."""
    opening = report.opening
    nonce = bytes.fromhex(str(opening["nonce"]))
    commitment = hashlib.sha256(SALT_DOMAIN + settings.salt.value + nonce).hexdigest()
    if commitment != opening.get("salt_commitment"):
        raise InvalidSubmission("ledger.foreign", detail="it was made under another salt")
    index = opening.get("session_index")
    if index != 0 and opening.get("layout") != "practice":
        raise InvalidSubmission("ledger.session", detail=f"it is session {index}; only 0 counts")


def _refuse(report: LedgerReport, *, broker_failed: bool) -> None:
    detail = report.reason or ""
    if report.outcome == "budget_exceeded":
        raise BudgetExceeded("ledger.budget", detail=detail)
    lost = report.code == "ledger.unsealed" and broker_failed
    if report.outcome == "infrastructure_error" or lost:
        raise InfrastructureError(
            f"the broker's machine was lost before the record was sealed ({detail}); run it again",
            code="ledger.broker",
        )
    raise InvalidSubmission(report.code or "ledger.chain", detail=detail)
