"""Corrections after an audit: `audit.jsonl`, written by `rle audit add`, read by `rle index --corrected`."""

from pathlib import Path
from typing import Literal

import msgspec

from rle import registry
from rle.errors import UserError
from rle.index.fold import FULL_SET, TaskSet
from rle.index.model import Cell, System
from rle.index.result import AuditSummary
from rle.stats import wilson

Label = Literal["model_error", "grader_error", "benchmark_error"]
Action = Literal["none", "repair", "exclude"]


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One trial that a person looked at."""

    id: str
    """Which result: the submission digest, or the folder's name."""
    task: str
    family_version: str
    trial: str
    label: Label
    action: Action = "none"
    note: str
    date: str
    """Day of the audit, ISO 8601."""


def append_entry(path: Path, entry: AuditEntry) -> None:
    """Adds one line to `audit.jsonl`. A model error needs no correction, so it takes no action.

    Raises:
        UnknownName: No such task.
        UserError: A correction of what was the model's own error.
    """
    registry.check_task_id(entry.task)
    if entry.label == "model_error" and entry.action != "none":
        raise UserError(
            f"label model_error takes --action none, not {entry.action}: the benchmark was right"
        )
    with path.open("ab") as file:
        file.write(msgspec.json.encode(entry) + b"\n")


def read_entries(path: Path) -> list[AuditEntry]:
    """All entries of an audit file.

    Raises:
        UserError: Unreadable; names the line.
    """
    if not path.is_file():
        raise UserError(f"--corrected {path} does not exist; `rle audit add` writes it")
    entries = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            entries.append(msgspec.json.decode(line, type=AuditEntry))
        except msgspec.MsgspecError as error:
            raise UserError(f"{path}, line {number}: {error}") from None
        registry.check_task_id(entries[-1].task)
    return entries


def summarise(entries: list[AuditEntry]) -> AuditSummary:
    """Counts, the grader-error rate with its Wilson interval, and the corrected tasks."""
    audited = {(e.id, e.task, e.trial) for e in entries}
    wrong = {(e.id, e.task, e.trial) for e in entries if e.label == "grader_error"}
    excluded = {e.task for e in entries if e.action == "exclude"}
    repaired = {e.task for e in entries if e.action == "repair"} - excluded
    n = len(audited)
    return AuditSummary(
        audited=n,
        grader_errors=len(wrong),
        grader_error_rate=len(wrong) / n if n else None,
        interval=tuple(wilson(len(wrong), n)) if n else None,
        excluded=[t for t in registry.TASK_IDS if t in excluded],
        repaired=[t for t in registry.TASK_IDS if t in repaired],
    )


def corrected_set(summary: AuditSummary) -> TaskSet:
    """The set without excluded tasks, named after the number of corrected tasks (`rle-51+c1`).

    Raises:
        UserError: Nothing would be left.
    """
    n = len(summary.excluded) + len(summary.repaired)
    if n == 0:
        return FULL_SET
    kept = [t for t in FULL_SET.tasks if t not in summary.excluded]
    if not kept:
        raise UserError("the audit excludes every task; nothing is left to index")
    return TaskSet(f"{FULL_SET.name}+c{n}", kept)


def correct(system: System, entries: list[AuditEntry]) -> System:
    """The system as it counts after corrections: a repaired task only under a newer family version.

    A cell of the faulty version becomes `not_run` until it is regraded.
    """
    faulty: dict[str, list[tuple[int, ...]]] = {}
    for entry in entries:
        if entry.action == "repair":
            faulty.setdefault(entry.task, []).append(_version(entry.family_version))

    def fixed(task: str, cell: Cell) -> Cell:
        known = cell.outcome in ("not_run", "infrastructure_error")
        if known or task not in faulty or _version(cell.family_version or "0") > max(faulty[task]):
            return cell
        return msgspec.structs.replace(
            cell, outcome="not_run", reward=None, rows=[], flags=[*cell.flags, "awaits_regrade"]
        )

    runs = [
        msgspec.structs.replace(run, tasks={t: fixed(t, c) for t, c in run.tasks.items()})
        for run in system.runs
    ]
    return msgspec.structs.replace(system, runs=runs)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in text.split("."))
