"""The record of one verification: outcomes, rows, the report, and the flat reward.

Every outcome's rule for the denominator stands in `DENOMINATOR`. `reward.json` is flat and finite;
`report.json` is this module's `Report`, whose JSON schema is exported by `rle gen`.
"""

import math
from typing import Any, Literal

import msgspec

SCHEMA = "rle-report/1"

Outcome = Literal[
    "scored", "invalid_submission", "budget_exceeded", "infrastructure_error", "not_run"
]

DENOMINATOR: dict[Outcome, str] = {
    "scored": "counts with its reward",
    "invalid_submission": "counts as 0",
    "budget_exceeded": "counts with the family's value, else 0",
    "infrastructure_error": "flagged and re-run; 0 in the Index until then",
    "not_run": "counts as 0 and is shown as not run",
}

COMMON_ENDED: tuple[str, ...] = (
    "done", "timeout_call", "timeout_total", "worker_died", "bad_action", "sim_unstable",
    "budget", "no_interaction", "no_submission", "not_run",
)  # fmt: skip
"""How a trial can end in any family; `TaskSpec.ended` adds the family's own."""

FAILED_ENDED: frozenset[str] = frozenset(
    {
        "timeout_call",
        "timeout_total",
        "worker_died",
        "bad_action",
        "sim_unstable",
        "no_submission",
        "not_run",
    }
)
"""Endings that count as a failed trial in `trials_failed`, whatever the row's score."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One trial: what was measured, what it scored, how it ended."""

    id: str
    """Public name, `t00 ... tNN`; says nothing about the drawn values."""
    group: str = ""
    score: float
    metrics: dict[str, float | None] = {}
    """Named measurements; None where nothing was measured (never 0 for that)."""
    ended: str
    wall_s: float = 0.0
    policy_s: float = 0.0
    """Time charged to the submission."""
    retried: int = 0
    series: dict[str, list[float]] = {}
    """Curves over time for the trial report (decimated), e.g. {"t_s": ..., "error_m": ...}."""
    events: list[tuple[float, str]] = []
    """(time in s, what happened), for the time line; nothing about other trials."""
    actions_sha256: str = ""
    """Digest of all that the submission did, where the family keeps one: equal runs have equal ones."""


class FamilyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a family's `verify` returns: measured rows and the composition of its `metrics.score`."""

    rows: list[Row]
    score: float
    """The reward in [0, 1], gates applied."""
    raw_total: float | None = None
    """The reward before gates; None where the family has none."""
    metrics: dict[str, float] = {}
    """Flat, finite native metrics for `reward.json`; absent where not measured."""
    gates: dict[str, bool] = {}
    outcome: Outcome = "scored"
    scored: bool = True
    """False for a diagnostic profile, which is never ranked."""
    reference: str | None = None
    """Kind of reference data, `lafan1 | stand-in`; results of different kinds are never averaged."""
    extra: dict[str, Any] = {}
    """Family facts for the report (hashes, limits, contract facts)."""
    flags: list[str] = []
    thresholds: list["Threshold"] = []
    ledger: "LedgerRecord | None" = None
    """The session record behind the rows (f01 to f03)."""


class Threshold(msgspec.Struct, frozen=True, kw_only=True):
    """One checked threshold for the report's check table: measured against its limit."""

    name: str
    measured: float
    limit: float
    unit: str
    sense: Literal["at_most", "at_least"]

    @property
    def passed(self) -> bool:
        ok = self.measured <= self.limit if self.sense == "at_most" else self.measured >= self.limit
        return bool(ok and math.isfinite(self.measured))


class FileRecord(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    size: int
    sha256: str


class SubmissionRecord(msgspec.Struct, frozen=True, kw_only=True):
    digest: str
    files: list[FileRecord]
    ignored: list[str] = []
    refused: dict[str, str] = {}
    """Why a file was refused, where the contract judges files one by one; an empty one stands for it."""


class SelfTest(msgspec.Struct, frozen=True, kw_only=True):
    blocked: list[str] = []
    allowed: list[str] = []


class IsolationRecord(msgspec.Struct, frozen=True, kw_only=True):
    mode: Literal["strict", "reduced"]
    layers: list[str] = []
    missing: list[str] = []
    selftest: SelfTest = SelfTest()


class LedgerRecord(msgspec.Struct, frozen=True, kw_only=True):
    trust: Literal["sidecar", "deployment", "practice"]
    session_id: str
    records: int
    recoveries: int = 0
    """Times that the broker died in the session and went on; above 0 the report is flagged."""
    replay: Literal["match", "diverged", "skipped"] = "skipped"
    """Whether the recorded actions lead to the recorded measurements again (`--replay scored`)."""
    differences: list[str] = []
    """Where the replay led elsewhere."""
    validation: bool = False
    """The session answered the reference solvers' questions: never ranked."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    cpu: str
    cores: int
    kernel: str
    gl: str | None = None
    speed_before: float | None = None
    """Speed factor against `rle.spec.REFERENCE_STEPS_PER_S`."""
    speed_after: float | None = None


class ErrorRecord(msgspec.Struct, frozen=True, kw_only=True):
    code: str
    message: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """`report.json`: the typed record of one verification."""

    schema: str = SCHEMA
    task: str
    family_version: str
    outcome: Outcome
    reward: float | None
    """Null where no reward was written."""
    raw_total: float | None = None
    gates: dict[str, bool] = {}
    metrics: dict[str, float] = {}
    rows: list[Row] = []
    submission: SubmissionRecord | None = None
    versions: dict[str, str | None] = {}
    isolation: IsolationRecord | None = None
    practice: bool
    """Made with the public practice salt: never ranked."""
    validation: bool = False
    """Made by an oracle or in a rehearsal."""
    scored: bool = True
    reference: str | None = None
    options: dict[str, str] = {}
    """Family options of this run (`profile`, `tier`, `backend`)."""
    salt_id: str | None = None
    ledger: LedgerRecord | None = None
    machine: Machine | None = None
    started_at: str
    finished_at: str
    wall_s: float
    errors: list[ErrorRecord] = []
    flags: list[str] = []
    failed_calls: list[str] = []
    """Per worker with calls that failed: trial, how many, and how the first one did."""
    thresholds: list[Threshold] = []
    extra: dict[str, Any] = {}
    command: str = ""
    """The one command that makes this result again."""


def flat_reward(report: Report, n_trials: int) -> dict[str, float]:
    """The content of `reward.json`: `reward`, the family's metrics and the common keys, sorted.

    Args:
        report: A report with a reward.
        n_trials: Scored trials that the task defines; missing ones count as failed.

    Raises:
        ValueError: No reward, or a non-finite number.
    """
    if report.reward is None:
        raise ValueError(f"outcome {report.outcome} writes no reward")
    ok = sum(row.ended not in FAILED_ENDED for row in report.rows)
    flat = {
        **report.metrics,
        "reward": report.reward,
        "trials_total": float(n_trials),
        "trials_ok": float(ok),
        "trials_failed": float(n_trials - ok),
        "gated": float(not all(report.gates.values())),
        "practice": float(report.practice),
        "isolation_reduced": float(
            report.isolation is not None and report.isolation.mode == "reduced"
        ),
    }
    bad = sorted(k for k, v in flat.items() if not math.isfinite(v))
    if bad:
        raise ValueError(f"reward.json must be finite; these are not: {', '.join(bad)}")
    return dict(sorted(flat.items()))


def report_schema() -> dict[str, Any]:
    """JSON schema of `report.json`."""
    return msgspec.json.schema(Report)


def read_report(data: bytes) -> Report:
    """Decodes a report strictly.

    Raises:
        msgspec.ValidationError: Not a `rle-report/1`.
    """
    report = msgspec.json.decode(data, type=Report)
    if report.schema != SCHEMA:
        raise msgspec.ValidationError(
            f"schema {report.schema!r} is not {SCHEMA!r}; verify again with `rle regrade`"
        )
    return report
