"""One system's result: points from its cells, intervals from the bootstrap."""

import datetime
from collections import Counter
from collections.abc import Iterable

import numpy as np

from rle import registry
from rle.index.check import mixtures, reference_kind
from rle.index.confidence import Bootstrap
from rle.index.failures import category, marks_of
from rle.index.fold import TaskSet, fold_mean, lift, pass_at_k
from rle.index.model import FAILED_STATUS, Cell, System
from rle.index.result import (
    AtK,
    Counts,
    Estimate,
    GroupResult,
    Resources,
    RunCell,
    SystemResult,
    TaskResult,
    group_title,
)
from rle.stats import population_sd, sample_sd

_NOT_RUN = Cell(outcome="not_run")


def system_result(
    system: System, n_runs: int, boot: Bootstrap, index: int, over_tasks: np.ndarray
) -> SystemResult:
    """Folds one system.

    Args:
        system: Checked, and corrected where an audit says so.
        n_runs: Runs that count.
        boot: Replicates of all systems.
        index: This system's position in `boot`.
        over_tasks: Its family replicates with resampled tasks, shape (B, families).
    """
    task_set = boot.task_set
    by_run = {run.run: run.tasks for run in system.runs}
    cells = {
        task: [by_run.get(run, {}).get(task, _NOT_RUN) for run in range(1, n_runs + 1)]
        for task in task_set.tasks
    }
    scores = np.array([[c.reward or 0.0 for c in cells[t]] for t in task_set.tasks]).T
    exists = np.array([[c.reward is not None for c in cells[t]] for t in task_set.tasks]).T
    run_index = [float(v) for v in task_set.fold(scores)]
    available, group_available = task_set.available(_mean_existing(scores, exists))
    task_interval = np.percentile(boot.tasks[index], [2.5, 97.5], axis=1)
    tasks = [
        _task_result(
            t,
            cells[t],
            (float(task_interval[0, i]), float(task_interval[1, i])),
            constant=t in boot.constant[index],
        )
        for i, t in enumerate(task_set.tasks)
    ]
    over_trials = boot.over_trials(index)
    means = task_set.family_means(scores.mean(axis=0))
    workflows, families = _groups(task_set, means, over_trials, over_tasks, cells, group_available)
    everything = [c for found in cells.values() for c in found]
    return SystemResult(
        name=system.name,
        model=system.model,
        harness=system.harness,
        harness_version=system.harness_version,
        effort=system.effort,
        budget=system.budget,
        notes=system.notes,
        marks=_marks(system, everything),
        index=_estimate(
            float(np.mean(run_index)), task_set.index(over_trials), task_set.index(over_tasks)
        ),
        run_index=run_index,
        population_sd=population_sd(run_index),
        sample_sd=sample_sd(run_index),
        available=available,
        counts=_counts(everything),
        tasks_scored=sum(any(c.outcome == "scored" for c in found) for found in cells.values()),
        n_constant=len(boot.constant[index]),
        at_k=[_at_k(k, n_runs, run_index, tasks) for k in range(1, n_runs + 1)],
        workflows=workflows,
        families=families,
        tasks=tasks,
        resources=_resources(task_set, cells),
        versions=_versions(everything),
    )


def _mean_existing(scores: np.ndarray, exists: np.ndarray) -> np.ndarray:
    """Mean over the runs that exist; NaN where none does. Shapes (runs, tasks) -> (tasks,)."""
    n = exists.sum(axis=0)
    return np.where(n > 0, (scores * exists).sum(axis=0) / np.maximum(n, 1), np.nan)


def _estimate(value: float, trials: np.ndarray, tasks: np.ndarray) -> Estimate:
    low, high = np.percentile(trials, [2.5, 97.5])
    low_tasks, high_tasks = np.percentile(tasks, [2.5, 97.5])
    return Estimate(
        value=value,
        trials=(float(low), float(high)),
        tasks=(float(low_tasks), float(high_tasks)),
    )


def _task_result(
    task: str, cells: list[Cell], interval: tuple[float, float], *, constant: bool
) -> TaskResult:
    marks = marks_of(task)
    value = float(np.mean([c.reward or 0.0 for c in cells]))
    known = [c.reward for c in cells if c.reward is not None]
    items = [
        RunCell(run=run, category=category(task, cell), cell=cell, note=_note(cell))
        for run, cell in enumerate(cells, start=1)
    ]
    return TaskResult(
        id=task,
        score=Estimate(value=value, trials=interval),
        available=float(np.mean(known)) if known else None,
        lift=lift(value, marks[0]) if marks else None,
        pass_mark=marks[1] if marks else None,
        passes=sum(reward >= marks[1] for reward in known) if marks else 0,
        n_trials=sum(len(c.rows) for c in cells),
        constant=constant,
        cells=items,
    )


def _note(cell: Cell) -> str:
    if "awaits_regrade" in cell.flags:
        return "repaired after an audit: counts again after `rle regrade`"
    if cell.n_infra > 1:
        return f"{cell.n_infra} infrastructure errors: kept as missing"
    if cell.outcome == "infrastructure_error":
        return f"{_why(cell) or 'our side failed'}; run it again, it counts 0 until then"
    return _why(cell)


def _why(cell: Cell) -> str:
    return cell.errors[0].message if cell.errors else ""


def _groups(
    task_set: TaskSet,
    means: np.ndarray,
    over_trials: np.ndarray,
    over_tasks: np.ndarray,
    cells: dict[str, list[Cell]],
    available: dict[str, float | None],
) -> tuple[list[GroupResult], list[GroupResult]]:
    """Workflows and families, from family means and replicates."""

    def group(name: str, value, trials, tasks, members: list[str], of: list[str]) -> GroupResult:
        return GroupResult(
            id=name,
            title=group_title(name),
            score=_estimate(float(value), trials, tasks),
            available=available[name],
            counts=_counts(c for t in of for c in cells[t]),
            members=members,
        )

    def tasks_of(family: str) -> list[str]:
        return [task_set.tasks[i] for i in task_set.members[family]]

    families = [
        group(f, means[i], over_trials[:, i], over_tasks[:, i], tasks_of(f), tasks_of(f))
        for i, f in enumerate(task_set.families)
    ]
    values, trials, tasks = map(task_set.workflow_means, (means, over_trials, over_tasks))
    workflows = []
    for i, name in enumerate(task_set.workflows):
        members = [f for f in registry.WORKFLOWS[name] if f in task_set.families]
        below = [t for f in members for t in tasks_of(f)]
        workflows.append(group(name, values[i], trials[:, i], tasks[:, i], members, below))
    return workflows, families


def _counts(cells: Iterable[Cell]) -> Counts:
    by_outcome = Counter(cell.outcome for cell in cells)
    return Counts(
        n_cells=sum(by_outcome.values()),
        n_scored=by_outcome["scored"],
        n_invalid=by_outcome["invalid_submission"],
        n_budget=by_outcome["budget_exceeded"],
        n_infra=by_outcome["infrastructure_error"],
        n_not_run=by_outcome["not_run"],
    )


def _at_k(k: int, n_runs: int, run_index: list[float], tasks: list[TaskResult]) -> AtK:
    """mean@k: mean of the first k runs. pass@k: mean over tasks; a missing run did not pass.

    pass@k is None where a result has no pass mark to be held against.
    """
    mean = float(np.mean(run_index[:k]))
    if any(task.pass_mark is None and task.available is not None for task in tasks):
        return AtK(k=k, mean=mean, passed=None)
    passed = [pass_at_k(n_runs, task.passes, k) or 0.0 for task in tasks]
    return AtK(k=k, mean=mean, passed=float(np.mean(passed)))


def _marks(system: System, cells: list[Cell]) -> list[str]:
    cells = [c for c in cells if c.outcome not in ("not_run", "infrastructure_error")]
    found = {
        "practice": any(c.practice for c in cells),
        "reduced isolation": any(c.isolation == "reduced" for c in cells),
        "stand-in reference": any(
            c.reference is not None and reference_kind(c.reference) == "stand-in" for c in cells
        ),
        "lite": any(c.options.get("tier") == "lite" for c in cells),
        "oracle": any("oracle" in c.flags for c in cells),
        "validation": any(c.validation for c in cells),
        "mixed": bool(mixtures(system)),
    }
    return [name for name, on in found.items() if on]


# -------------------------------------------------------------------------------------- resources


def session_hours(cell: Cell) -> float | None:
    """Length of the agent's session in hours; None where there was none."""
    if cell.started_at is None or cell.finished_at is None:
        return None
    begin, end = (datetime.datetime.fromisoformat(t) for t in (cell.started_at, cell.finished_at))
    return (end - begin).total_seconds() / 3600.0


def _resources(task_set: TaskSet, cells: dict[str, list[Cell]]) -> Resources:
    everything = [c for found in cells.values() for c in found]
    usd = {t: _mean([c.cost_usd for c in found]) for t, found in cells.items()}
    hours = {t: _mean([session_hours(c) for c in found]) for t, found in cells.items()}
    return Resources(
        total_usd=_sum(c.cost_usd for c in everything),
        mean_usd=fold_mean(usd, task_set),
        total_hours=_sum(session_hours(c) for c in everything),
        mean_hours=fold_mean(hours, task_set),
        input_tokens=_sum(c.input_tokens for c in everything),
        cached_tokens=_sum(c.cached_tokens for c in everything),
        output_tokens=_sum(c.output_tokens for c in everything),
        coverage=sum(v is not None for v in usd.values()),
        failed=sum(c.status in FAILED_STATUS for c in everything),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return float(np.mean(known)) if known else None


def _sum(values: Iterable):
    """Sum of the known values; None where nothing is known."""
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def _versions(cells: list[Cell]) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for cell in cells:
        for name, version in cell.versions.items():
            if version:
                found.setdefault(name, set()).add(version)
    return {name: sorted(values) for name, values in sorted(found.items())}
