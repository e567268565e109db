"""Refuses results that must not be folded into one number, with the whole list at once."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator

from rle import registry
from rle.errors import UserError
from rle.index.model import Cell, System

_SHOWN = 8
"""Findings that a message lists before it counts the rest."""


def check(
    systems: list[System], *, tier: str, allow_mixed: bool, allow_validation: bool
) -> list[str]:
    """Refuses what cannot be an index.

    Never accepted: unknown ids, two systems of one name, two runs of one number, impossible rewards,
    diagnostic profiles, one session used twice, another tier than asked for, and rehearsals without
    `allow_validation`. Mixtures inside one system are refused unless `allow_mixed`.

    Returns:
        Marks: what was mixed and accepted, or must be shown beside the numbers.

    Raises:
        UserError: With every finding.
    """
    errors = [*_names(systems), *_sessions(systems)]
    for system in systems:
        errors += _system_errors(system, tier, allow_validation)
    if errors:
        raise UserError(
            _message("these results cannot be indexed", errors, ""), code="index.refused"
        )
    mixed = [finding for system in systems for finding in mixtures(system)]
    if mixed and not allow_mixed:
        raise UserError(
            _message(
                "these results must not share one number",
                mixed,
                "\nIndex them apart, or pass --allow-mixed to get a marked result.",
            ),
            code="index.mixed",
        )
    return mixed


def _message(head: str, findings: list[str], tail: str) -> str:
    rest = len(findings) - _SHOWN
    more = [f"... and {rest} more"] if rest > 0 else []
    return "\n  ".join([f"{head}:", *findings[:_SHOWN], *more]) + tail


def _cells(system: System) -> Iterator[tuple[int, str, Cell]]:
    return ((run.run, task, cell) for run in system.runs for task, cell in run.tasks.items())


def _repeated(values: list) -> list:
    return sorted({v for v in values if values.count(v) > 1})


def _names(systems: list[System]) -> list[str]:
    found = [f"system {n!r} is given twice" for n in _repeated([s.name for s in systems])]
    for system in systems:
        for run in _repeated([r.run for r in system.runs]):
            found.append(f"{system.name}: run {run} is given twice")
        if any(r.run < 1 for r in system.runs):
            found.append(f"{system.name}: runs are numbered from 1")
    return found


def _sessions(systems: list[System]) -> list[str]:
    """A signed session counts once, whoever hands it in."""
    seen: dict[str, list[str]] = defaultdict(list)
    for system in systems:
        for run, task, cell in _cells(system):
            if cell.session_id:
                seen[cell.session_id].append(f"{system.name} {task} (run {run})")
    return [
        f"index.replayed_session: session {session} is used by {' and '.join(places)}"
        for session, places in seen.items()
        if len(places) > 1
    ]


def _system_errors(system: System, tier: str, allow_validation: bool) -> list[str]:
    found = []
    for run, task, cell in _cells(system):
        where = f"{system.name} {task} (run {run})"
        if task not in registry.TASK_IDS:
            found.append(f"{where}: no such task; see `rle list`")
        found += [f"{where}: {fault}" for fault in _reward_faults(cell)]
        if "digest_mismatch" in cell.flags:
            found.append(
                f"{where}: digest_mismatch: the kept submission is not the one that was scored"
            )
        if not cell.ranked:
            profile = cell.options.get("profile", "diagnostic")
            found.append(
                f"{where}: profile {profile!r} is a diagnosis and has no place in an index"
            )
        if cell.validation and not allow_validation:
            found.append(f"{where}: a rehearsal (validation); --allow-validation shows it marked")
        if cell.options.get("tier", tier) != tier:
            found.append(
                f"{where}: tier {cell.options['tier']!r}, but this index folds {tier!r}; see --tier"
            )
    return found


def _reward_faults(cell: Cell) -> list[str]:
    faults = []
    if cell.outcome in ("scored", "budget_exceeded"):
        if cell.reward is None:
            faults.append(f"outcome {cell.outcome} without a reward")
        elif not (math.isfinite(cell.reward) and 0.0 <= cell.reward <= 1.0):
            faults.append(f"reward {cell.reward} is outside 0..1")
    elif cell.outcome == "invalid_submission":
        if cell.reward not in (0.0, None):
            faults.append(f"an invalid submission has reward 0, not {cell.reward}")
    elif cell.reward is not None:
        faults.append(f"outcome {cell.outcome} has no reward, but {cell.reward} is given")
    bad = [r.id for r in cell.rows if not (math.isfinite(r.score) and 0.0 <= r.score <= 1.0)]
    if bad:
        faults.append(f"rows with a score outside 0..1: {', '.join(bad)}")
    if names := _repeated([row.id for row in cell.rows]):
        faults.append(f"rows given twice: {', '.join(names)}")
    return faults


# --------------------------------------------------------------------------------------- mixtures


def reference_kind(reference: str) -> str:
    """`stand-in` or `published`: data that we made, or the data that the paper names."""
    return "stand-in" if reference.startswith("stand-in") else "published"


_KINDS: dict[str, Callable[[Cell], str | None]] = {
    "practice and hidden trials": lambda c: "practice" if c.practice else "hidden",
    "isolation modes": lambda c: c.isolation,
    "reference data": lambda c: reference_kind(c.reference) if c.reference else None,
    "simulator backends": lambda c: c.options.get("backend"),
    "agent kinds": lambda c: c.options.get("kind"),
    "tiers": lambda c: c.options.get("tier"),
    "rehearsals and results": lambda c: "rehearsal" if c.validation else "result",
}


def mixtures(system: System) -> list[str]:
    """Everything that one system mixes, one sentence each; empty for a clean system."""
    values: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for run, task, cell in _cells(system):
        if cell.outcome in ("not_run", "infrastructure_error"):
            continue
        where = f"{task} (run {run})"
        for name, kind_of in _KINDS.items():
            if (kind := kind_of(cell)) is not None:
                values[name][kind].append(where)
        if cell.family_version:
            values[f"versions of {task.split('/')[0]}"][cell.family_version].append(where)
    found = []
    for name, kinds in values.items():
        if len(kinds) > 1:
            parts = (f"{kind} in {_few(places)}" for kind, places in sorted(kinds.items()))
            found.append(f"{system.name} mixes {name}: {'; '.join(parts)}")
    return found


def _few(places: list[str], shown: int = 3) -> str:
    rest = len(places) - shown
    return ", ".join(places[:shown]) + (f" and {rest} more" if rest > 0 else "")
