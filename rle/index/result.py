"""What an index is: typed numbers for every system, and their text, CSV and JSON."""

import csv
import io
from typing import Any

import msgspec

from rle import registry
from rle.index.failures import Category
from rle.index.model import Cell

RESULT_SCHEMA = "rle-index/1"


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A score in [0, 1] with its 95 % intervals."""

    value: float
    trials: tuple[float, float]
    """Had other trials of the same tasks been drawn."""
    tasks: tuple[float, float] | None = None
    """Had other tasks of the same families been drawn, too; None for a single task."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Cells (tasks x runs) by outcome."""

    n_cells: int
    n_scored: int
    n_invalid: int
    n_budget: int
    n_infra: int
    n_not_run: int


class RunCell(msgspec.Struct, frozen=True, kw_only=True):
    run: int
    category: Category
    cell: Cell
    note: str = ""
    """Why the cell counts otherwise than it came (a correction)."""


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """One task of one system, over its runs."""

    id: str
    score: Estimate
    available: float | None
    """Mean over the runs that exist; None where there is none."""
    lift: float | None
    """Share of what is above the task's floor; None where the family is not in this version."""
    pass_mark: float | None
    passes: int
    """Runs at or above the pass mark."""
    n_trials: int
    """Trials over all runs."""
    constant: bool
    """One run and one row: the interval is a point and says nothing."""
    cells: list[RunCell]


class GroupResult(msgspec.Struct, frozen=True, kw_only=True):
    """A family or a workflow."""

    id: str
    title: str
    score: Estimate
    available: float | None
    counts: Counts
    members: list[str]
    """Task ids of a family, family ids of a workflow."""


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """What the sessions cost. None where nobody measured it, never 0."""

    total_usd: float | None
    mean_usd: float | None
    """Mean over workflows of family means of task means, as the published table has it."""
    total_hours: float | None
    mean_hours: float | None
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    coverage: int
    """Tasks with a known cost."""
    failed: int
    """Cells whose session ended in a timeout or an error."""


class AtK(msgspec.Struct, frozen=True, kw_only=True):
    """mean@k and pass@k."""

    k: int
    mean: float
    passed: float | None


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """A system's Index before an audit's corrections."""

    set: str
    index: Estimate


class SystemResult(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    model: str
    harness: str
    harness_version: str
    effort: str
    budget: str
    notes: str
    marks: list[str]
    """Badges: practice, reduced isolation, stand-in reference, lite, oracle, validation, mixed."""
    index: Estimate
    run_index: list[float]
    """S of each run."""
    population_sd: float
    """sqrt(sum (S - m)^2 / R)."""
    sample_sd: float | None
    """sqrt(sum (S - m)^2 / (R - 1)); null for one run."""
    available: float | None
    counts: Counts
    tasks_scored: int
    """Tasks with at least one scored run: the coverage."""
    n_constant: int
    at_k: list[AtK]
    workflows: list[GroupResult]
    families: list[GroupResult]
    tasks: list[TaskResult]
    resources: Resources
    versions: dict[str, list[str]]
    before: Correction | None = None

    def task(self, task_id: str) -> TaskResult:
        return next(t for t in self.tasks if t.id == task_id)

    def group(self, group_id: str) -> GroupResult:
        return next(g for g in (*self.workflows, *self.families) if g.id == group_id)


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Paired bootstrap over the same tasks and trials: a minus b."""

    a: str
    b: str
    difference: float
    interval: tuple[float, float]
    share_above: float
    """Share of replicates with a above b."""
    differs: list[str] = []
    """Why the two are not comparable (marks, family versions); empty where they are."""


class PublishedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A published figure for comparison, in 0..100. Other physics: no rank, no interval."""

    name: str
    source: str
    date: str
    index: float | None = None
    families: dict[str, float] = {}
    tasks: dict[str, float] = {}


class AuditSummary(msgspec.Struct, frozen=True, kw_only=True):
    audited: int
    grader_errors: int
    grader_error_rate: float | None
    interval: tuple[float, float] | None
    """Wilson, 95 %."""
    excluded: list[str]
    repaired: list[str]


class IndexResult(msgspec.Struct, frozen=True, kw_only=True):
    """The RLE Index of one or more systems, best first."""

    schema: str = RESULT_SCHEMA
    set: str
    tier: str
    n_runs: int
    n_replicates: int
    date: str
    marks: list[str]
    """Findings that were accepted with `--allow-mixed`."""
    systems: list[SystemResult]
    comparisons: list[Comparison]
    published: list[PublishedRow] = []
    audit: AuditSummary | None = None

    @property
    def title(self) -> str:
        """`RLE Index`, or `RLE Index (f05 lite)`: a lite tier is said on every page."""
        return "RLE Index" if self.tier == "full" else f"RLE Index (f05 {self.tier})"

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return msgspec.to_builtins(self)

    def to_csv(self) -> str:
        """One line per cell with every native metric, unrounded; empty where nothing was measured."""
        cells = [(s.name, t.id, c) for s in self.systems for t in s.tasks for c in t.cells]
        metrics = sorted({name for _, _, c in cells for name in c.cell.metrics if name != "reward"})
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*_CSV_COLUMNS, *metrics])
        for system, task, item in cells:
            cell = item.cell
            known = (system, item.run, task, item.category, len(cell.rows))
            values = [getattr(cell, name) for name in _CSV_CELL]
            writer.writerow([*known, *values, *(cell.metrics.get(m) for m in metrics)])
        return out.getvalue()

    def summary(self) -> str:
        """A table for a terminal: the Index of each system, workflows and families below it."""
        return "\n\n".join(_system_text(self, s) for s in self.systems) + _comparison_text(self)


_CSV_CELL = (
    "outcome", "reward", "raw_total", "status", "cost_usd", "input_tokens", "cached_tokens",
    "output_tokens", "started_at", "finished_at", "verify_wall_s", "family_version", "practice",
    "isolation", "reference", "n_infra", "report",
)  # fmt: skip
_CSV_COLUMNS = ("system", "run", "task", "category", "n_rows", *_CSV_CELL)


def result_schema() -> dict[str, Any]:
    """JSON schema of `rle index --json`."""
    return msgspec.json.schema(IndexResult)


def _line(label: str, score: Estimate, counts: Counts) -> str:
    done = f"{counts.n_scored}/{counts.n_cells} scored"
    if counts.n_scored + counts.n_invalid + counts.n_budget == 0:
        return f"  {label:<47}{'-':>5}  {'not run':<14}  {done}"
    low, high = (100 * v for v in score.trials)
    return f"  {label:<47}{100 * score.value:5.1f}  [{low:5.1f}, {high:5.1f}]  {done}"


def _system_text(result: IndexResult, system: SystemResult) -> str:
    marks = f"   [{', '.join(system.marks)}]" if system.marks else ""
    lines = [f"{system.name}{marks}", _line(result.title, system.index, system.counts)]
    families = {f.id: f for f in system.families}
    for workflow in system.workflows:
        lines.append(_line(f"  {workflow.title}", workflow.score, workflow.counts))
        lines += [
            _line(f"    {f} {families[f].title}", families[f].score, families[f].counts)
            for f in workflow.members
        ]
    low, high = (100 * v for v in system.index.tasks or system.index.trials)
    c = system.counts
    lines.append(
        f"  x100; [95 % interval over trials]; over tasks too [{low:.1f}, {high:.1f}]. "
        f"{system.tasks_scored}/{len(system.tasks)} tasks scored; cells: {c.n_scored} scored, "
        f"{c.n_invalid} invalid, {c.n_budget} over budget, {c.n_infra} infrastructure errors, "
        f"{c.n_not_run} not run (count 0)."
    )
    if len(system.run_index) > 1:
        runs = ", ".join(f"{100 * v:.1f}" for v in system.run_index)
        lines.append(
            f"  runs {runs}: population SD {100 * system.population_sd:.1f}, "
            f"sample SD {100 * (system.sample_sd or 0.0):.1f}"
        )
    if system.before is not None:
        lines.append(
            f"  before corrections ({system.before.set}): {100 * system.before.index.value:.1f}"
        )
    return "\n".join(lines)


def _comparison_text(result: IndexResult) -> str:
    lines = [
        f"{c.a} - {c.b}: {100 * c.difference:+.1f} [{100 * c.interval[0]:+.1f}, "
        f"{100 * c.interval[1]:+.1f}], above in {100 * c.share_above:.0f} % of replicates"
        + (f"; NOT comparable: {'; '.join(c.differs)}" if c.differs else "")
        for c in result.comparisons
    ]
    return "\n\n" + "\n".join(lines) if lines else ""


def group_title(group_id: str) -> str:
    """Name of a family, or of a workflow with a capital letter."""
    return registry.FAMILY_TITLES.get(group_id, group_id.capitalize())
