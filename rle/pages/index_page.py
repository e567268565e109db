"""The Index page: what it shows, computed from an `IndexResult`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from rle.index.assemble import session_hours
from rle.index.failures import MEANING, Category, endings
from rle.index.result import GroupResult, IndexResult, RunCell, SystemResult, TaskResult
from rle.pages import charts_index, media, text
from rle.pages.hooks import Native, hooks_of
from rle.pages.render import write_page
from rle.pages.svg import WORKFLOW_COLOR
from rle.pages.verdict import NEVER_RANKED, verdict

_FULL_EVIDENCE_ROWS = 400
"""Rows up to which the page holds every metric of each; beyond, scores and endings alone."""
REPORT_PAGE = "index.html"
"""Name of the trial report beside a `report.json`."""


def write(result: IndexResult, path: Path, looked_at: Mapping[str, Path]) -> None:
    """Writes the page, and the result as JSON beside it."""
    data = path.with_suffix(".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    data.write_text(json.dumps(result.to_json(), indent=1) + "\n", encoding="utf-8")
    write_page(
        path,
        "index.html.j2",
        **context(result, path.parent),
        json_href=data.name,
        looked_at=_looked_at(looked_at, path.parent),
    )


def context(result: IndexResult, folder: Path) -> dict[str, Any]:
    """Everything that the template shows; the first system is the one the page is about.

    Args:
        result: At least one system.
        folder: Of the page; links to reports are relative to it.
    """
    system, *others = result.systems
    tree = _tree(system, folder)
    rows = [row for workflow in tree for family in workflow["families"] for row in family["tasks"]]
    failures = _failures(system)
    shown = [f for f in system.families if text.ran(f)]
    compared = [*(o.name for o in others), *(f"{p.name} (published)" for p in result.published)]
    return {
        "title": f"{system.name}: {result.title}",
        "result": result,
        "s": system,
        "rank": _rank(result),
        "n_trials": sum(task.n_trials for task in system.tasks),
        "facts": _facts(system),
        "verdict": verdict(system.marks, f"{_isolation(system)} {_coverage(system)}"),
        "comparisons": [c for c in result.comparisons if system.name in (c.a, c.b)],
        "profile": charts_index.profile(system, others, result.published),
        "profile_note": f" In grey: {', '.join(compared[: charts_index.MAX_COMPARED])}."
        if compared
        else "",
        "tree": tree,
        "outcomes": [o for o in text.OUTCOME_TEXT if any(o in row["outcomes"] for row in rows)],
        "families": [_family(result, family, folder) for family in shown],
        "cost": charts_index.cost_against_score(result.systems),
        "failures": [row for row in failures if any(row["cells"])],
        "absent": [row["category"].replace("_", " ") for row in failures if not any(row["cells"])],
    }


def _looked_at(folders: Mapping[str, Path], folder: Path) -> list[dict[str, Any]]:
    """Tasks that were looked at without a score: the page of each, and pictures of what was handed in."""
    return [
        {
            "id": task,
            "href": media.href(out / REPORT_PAGE, folder),
            "pictures": media.pictures(out, folder),
        }
        for task, out in folders.items()
    ]


def _rank(result: IndexResult) -> str:
    """Place of the first system among those that are ranked; empty where there is nothing to rank."""
    ranked = [s for s in result.systems if not set(s.marks) & set(NEVER_RANKED)]
    if len(ranked) < 2 or result.systems[0] not in ranked:
        return ""
    return f"rank 1 of {len(ranked)}"


def _isolation(system: SystemResult) -> str:
    """What protected the runs, as far as it was recorded."""
    cells = [item.cell for task in system.tasks for item in task.cells if _has_result(item)]
    modes = sorted({cell.isolation or "unrecorded" for cell in cells})
    return f"Isolation: {' and '.join(modes)}." if modes else "Nothing was run."


def _coverage(system: SystemResult) -> str:
    missing = len(system.tasks) - sum(t.available is not None for t in system.tasks)
    if missing == 0:
        return "Every task of the set has a result."
    share = f"{missing} of {len(system.tasks)} tasks have no result and count 0"
    infra = system.counts.n_infra
    repeat = f"; {text.plural(infra, 'infrastructure error')} to repeat" if infra else ""
    return f"{share}{repeat}."


def _facts(system: SystemResult) -> list[tuple[str, str]]:
    harness = " ".join(p for p in (system.harness, system.harness_version) if p)
    given = {
        "Model": system.model,
        "Harness": harness,
        "Effort": system.effort,
        "Budget": system.budget,
        "Notes": system.notes,
    }
    if system.n_constant:
        given["Constant"] = (
            f"{text.plural(system.n_constant, 'task')} with one trial in one run: "
            "without width in every interval"
        )
    return [(name, value) for name, value in given.items() if value]


# ------------------------------------------------------------------------------------------ tasks


def _tree(system: SystemResult, folder: Path) -> list[dict[str, Any]]:
    """Workflows with their families with their task rows, in the order of the set."""
    families = {f.id: f for f in system.families}
    full = sum(t.n_trials for t in system.tasks) <= _FULL_EVIDENCE_ROWS

    def family(group: GroupResult) -> dict[str, Any]:
        tasks = [system.task(t) for t in group.members]
        return {"group": group, "tasks": [_task_row(t, folder, full) for t in tasks]}

    return [
        {
            "group": workflow,
            "hue": WORKFLOW_COLOR[workflow.id],
            "families": [family(families[f]) for f in workflow.members],
        }
        for workflow in system.workflows
    ]


def _task_row(task: TaskResult, folder: Path, full: bool) -> dict[str, Any]:
    outcomes = [item.cell.outcome for item in task.cells]
    best = next((o for o in text.OUTCOME_TEXT if o in outcomes), "not_run")
    value = task.score.value if task.available is not None else None
    n_best = outcomes.count(best)
    return {
        "id": task.id,
        "result": task,
        "value": value,
        "sort": "" if value is None else value,
        "outcome": best,
        "outcomes": outcomes,
        "runs": f"{n_best} of {len(outcomes)} runs" if len(outcomes) > 1 else "",
        "note": next((item.note for item in task.cells if item.note), ""),
        "flags": sorted({flag for item in task.cells for flag in _flags(item)}),
        "has_interval": task.n_trials > 1,
        "lift": task.lift if value is not None else None,
        "verify_s": _mean([item.cell.verify_wall_s for item in task.cells]),
        "hours": _mean([session_hours(item.cell) for item in task.cells]),
        "usd": _mean([item.cell.cost_usd for item in task.cells]),
        "href": next((href for item in task.cells if (href := _href(item, folder))), None),
        "evidence": "\n".join(_evidence(item, full) for item in task.cells if _has_result(item)),
    }


def _flags(item: RunCell) -> list[str]:
    """Flags of a cell, and suspicions that a family raised as a metric (`suspect_...: 1`)."""
    suspicions = [k for k, v in item.cell.metrics.items() if k.startswith("suspect_") and v > 0]
    return [*item.cell.flags, *suspicions]


def _has_result(item: RunCell) -> bool:
    return item.cell.outcome != "not_run"


def _mean(values: list[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return float(np.mean(known)) if known else None


def _href(item: RunCell, folder: Path) -> str | None:
    """The trial report beside the cell's `report.json`, else the JSON itself, relative to the page."""
    if item.cell.report is None:
        return None
    report = Path(item.cell.report)
    page = report.with_name(REPORT_PAGE)
    for target in (page, report):
        if target.is_file():
            return media.href(target, folder)
    return None


def _evidence(item: RunCell, full: bool) -> str:
    """The cell as it came: one line for it, one line per trial."""
    cell = item.cell
    errors = [msgspec.to_builtins(e) for e in cell.errors]
    head = {
        "run": item.run,
        "outcome": cell.outcome,
        "reward": cell.reward,
        "category": item.category,
    }
    if full and cell.metrics:
        head["metrics"] = cell.metrics
    if errors:
        head["errors"] = errors
    lines = [json.dumps(head)]
    for row in cell.rows:
        short = {"id": row.id, "score": row.score, "ended": row.ended}
        lines.append(json.dumps(short | row.metrics if full else short))
    return "\n".join(lines)


# ---------------------------------------------------------------------------- families, failures


def _family(result: IndexResult, group: GroupResult, folder: Path) -> dict[str, Any]:
    """Native metrics, figure and pictures of one family.

    One system alone: a line per task and their mean. Several: a line per system, its mean over the tasks.
    """
    hooks = hooks_of(group.id)
    system, *others = result.systems
    rows = [(s.name, [s.task(t) for t in group.members]) for s in result.systems]
    if not others:
        every = rows[0][1]
        rows = [(task.id, [task]) for task in every]
        rows += [("mean of the tasks", every)] if len(every) > 1 else []
    credits = [
        (n.label, _native([system.task(t) for t in group.members], n), n.scale)
        for n in hooks.credits
    ]
    return {
        "id": group.id,
        "title": group.title,
        "native": hooks.native,
        "rows": [
            {"name": name, "cells": [(_native(tasks, n), n) for n in hooks.native]}
            for name, tasks in rows
        ],
        "drawing": charts_index.credits(group.id, credits)
        if credits
        else charts_index.family_tasks(group.id, system, others, hooks),
        "pictures": [
            {**picture, "system": s.name}
            for s in result.systems
            for picture in _pictures(s, group, folder)
        ],
    }


def _pictures(system: SystemResult, group: GroupResult, folder: Path) -> list[dict[str, str]]:
    """Pictures of a system's submissions to a family, from the first run that has some."""
    for item in (item for t in group.members for item in system.task(t).cells):
        if item.cell.report is not None:
            found = media.pictures(Path(item.cell.report).parent, folder)
            if found:
                return found
    return []


def _native(tasks: list[TaskResult], native: Native) -> float | None:
    """Mean over the tasks of the mean over the runs that measured it; None where none did."""
    return _mean(
        [_mean([item.cell.metrics.get(native.key) for item in task.cells]) for task in tasks]
    )


def _failures(system: SystemResult) -> list[dict[str, Any]]:
    """Attempts by how they ended, per family; each is one line of the list behind a number."""
    found: dict[Category, dict[str, list[str]]] = {
        category: {family.id: [] for family in system.families} for category in MEANING
    }
    for task in system.tasks:
        for item in task.cells:
            rows = ", ".join(f"{n} {ended}" for ended, n in endings(item.cell))
            line = f"{task.id} run {item.run}: {text.x100(item.cell.reward)}"
            found[item.category][task.id.split("/")[0]].append(f"{line} ({rows})" if rows else line)
    return [
        {"category": category, "meaning": MEANING[category], "cells": list(families.values())}
        for category, families in found.items()
    ]
