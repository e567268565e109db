"""What goes into the Index: systems, runs and cells. `rle-index-input/1` is this module as JSON."""

from pathlib import Path
from typing import Any, Literal

import msgspec

from rle.errors import UserError
from rle.report import ErrorRecord, Outcome, Report, Row, read_report

INPUT_SCHEMA = "rle-index-input/1"

Status = Literal[
    "completed", "agent_timeout", "agent_error", "verifier_timeout", "environment_error"
]
FAILED_STATUS: frozenset[str] = frozenset({"agent_timeout", "agent_error"})
"""How an agent's session can end badly; such cells count as `failed` in the resource table."""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One task in one run of one system."""

    outcome: Outcome
    reward: float | None = None
    """In [0, 1]; null where no reward was written."""
    raw_total: float | None = None
    """Reward before gates."""
    rows: list[Row] = []
    """Trials of the cell; the bootstrap resamples them."""
    metrics: dict[str, float] = {}
    """Native metrics of `reward.json`."""
    cost_usd: float | None = None
    input_tokens: int | None = None
    """Cached tokens included."""
    cached_tokens: int | None = None
    output_tokens: int | None = None
    started_at: str | None = None
    finished_at: str | None = None
    """Begin and end of the agent's session, ISO 8601; of the verification where there was no session."""
    status: Status | None = None
    """How the agent's session ended; null where there was none."""
    family_version: str | None = None
    practice: bool = False
    validation: bool = False
    ranked: bool = True
    """False for a diagnostic profile, which is never part of an index."""
    isolation: Literal["strict", "reduced"] | None = None
    reference: str | None = None
    options: dict[str, str] = {}
    """Family options (`backend`, `tier`, `kind`, `profile`)."""
    salt_id: str | None = None
    session_id: str | None = None
    verify_wall_s: float | None = None
    errors: list[ErrorRecord] = []
    flags: list[str] = []
    versions: dict[str, str | None] = {}
    n_infra: int = 0
    """Infrastructure errors of this cell, this one included."""
    report: str | None = None
    """Path of `report.json`."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One pass of a system over the set. A task that it lacks counts 0."""

    run: int
    tasks: dict[str, Cell] = {}


class System(msgspec.Struct, frozen=True, kw_only=True):
    """What was examined: the model, its harness and its budget, as really given."""

    name: str
    model: str = ""
    """Exact identifier."""
    harness: str = ""
    harness_version: str = ""
    effort: str = ""
    budget: str = ""
    """Resources and time limits really given."""
    notes: str = ""
    runs: list[Run]


class IndexInput(msgspec.Struct, frozen=True, kw_only=True):
    """All systems of an index."""

    schema: str = INPUT_SCHEMA
    systems: list[System]


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A cell as it was found on disk, before attempts of one cell are joined."""

    system: System
    """Without runs."""
    run: int
    task: str
    cell: Cell
    source: str
    """Where it was found, for messages."""


def input_schema() -> dict[str, Any]:
    """JSON schema of `rle-index-input/1`."""
    return msgspec.json.schema(IndexInput)


def report_at(path: Path) -> Report:
    """Reads a `report.json`.

    Raises:
        UserError: It is not one.
    """
    try:
        return read_report(path.read_bytes())
    except msgspec.MsgspecError as error:
        raise UserError(
            f"{path} is no rle-report/1 ({error}); verify the submission again, or leave it out"
        ) from None


def cell_from_report(report: Report, path: str) -> Cell:
    """The cell of a verification that ran by itself, without an agent's session.

    Curves and events stay in the report: an index needs scores and metrics only.
    """
    return Cell(
        outcome=report.outcome,
        reward=report.reward,
        raw_total=report.raw_total,
        rows=[msgspec.structs.replace(row, series={}, events=[]) for row in report.rows],
        metrics=report.metrics,
        started_at=None,
        finished_at=None,
        family_version=report.family_version,
        practice=report.practice,
        validation=report.validation,
        ranked=report.scored,
        isolation=report.isolation.mode if report.isolation else None,
        reference=report.reference,
        options=report.options,
        salt_id=report.salt_id,
        session_id=report.ledger.session_id if report.ledger else None,
        verify_wall_s=report.wall_s,
        errors=report.errors,
        flags=report.flags,
        versions=report.versions,
        n_infra=int(report.outcome == "infrastructure_error"),
        report=path,
    )
