"""Figures of the Index page: capability profile, tasks of a family, cost against score."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rle import registry
from rle.index.result import GroupResult, PublishedRow, SystemResult, TaskResult
from rle.pages.hooks import Hooks
from rle.pages.svg import (
    COLOR,
    NARROW_PX,
    WIDE_PX,
    WORKFLOW_COLOR,
    Drawing,
    bare,
    both,
    label_width,
    row_text,
)
from rle.pages.text import DASH, interval, ran, x100

MAX_COMPARED = 3
"""Comparison systems drawn into one figure; more than that hides the first."""
_MARKERS = ("s", "^", "D")
_ROW_PX, _NARROW_ROW_PX = 30, 46


@dataclass(frozen=True)
class Mark:
    """One system's score in a row."""

    value: float | None
    interval: tuple[float, float] | None
    published: bool = False


@dataclass(frozen=True)
class Line:
    """One row of a dot-and-interval plot, in 0..1."""

    label: str
    color: str
    marks: list[Mark]
    """First the system that the page is about."""
    strong: bool = False
    gap: float = 0.0
    """Extra space above, in rows."""


def color_of(family: str) -> str:
    """Placeholder of the hue of a family's workflow."""
    return COLOR[WORKFLOW_COLOR[registry.workflow_of(family)]]


def _mark(group: GroupResult | TaskResult, exists: bool) -> Mark:
    if not exists:
        return Mark(value=None, interval=None)
    few = isinstance(group, TaskResult) and group.n_trials < 2
    return Mark(value=group.score.value, interval=None if few else group.score.trials)


def _published(value: float | None) -> Mark:
    return Mark(value=None if value is None else value / 100, interval=None, published=True)


def profile(
    system: SystemResult, others: Sequence[SystemResult], published: Sequence[PublishedRow]
) -> Drawing:
    """Four workflows, then nine families, on one axis 0..100, comparison rows on the same lines."""
    others, published = others[:MAX_COMPARED], published[:MAX_COMPARED]

    def line(group: GroupResult, color: str, strong: bool, gap: float) -> Line:
        marks = [_mark(s.group(group.id), ran(s.group(group.id))) for s in (system, *others)]
        marks += [_published(row.families.get(group.id)) for row in published]
        return Line(
            label=group.title if strong else f"{group.id} {group.title}",
            color=color,
            marks=marks,
            strong=strong,
            gap=gap,
        )

    lines = [line(w, COLOR[WORKFLOW_COLOR[w.id]], True, 0.0) for w in system.workflows]
    for i, family in enumerate(system.families):
        lines.append(line(family, color_of(family.id), False, 0.7 if i == 0 else 0.0))
    run = [f for f in system.families if ran(f)]
    best = max(run, key=lambda f: f.score.value, default=None)
    alt = f"{len(run)} of {len(system.families)} families have results"
    if best is not None:
        alt += f"; the best is {best.title} with {x100(best.score.value)} of 100"
    names = [*_legend_names(system, others), *(f"× {row.name} (published)" for row in published)]
    return dots(lines, names, f"Capability profile of {system.name}: {alt}.")


def family_tasks(
    family: str, system: SystemResult, others: Sequence[SystemResult], hooks: Hooks
) -> Drawing:
    """All tasks of a family, in bands where the family has them."""
    others = others[:MAX_COMPARED]
    found = [t for t in system.tasks if t.id.startswith(f"{family}/")]
    bands = list(dict.fromkeys(hooks.task_groups.get(t.id, "") for t in found))
    lines: list[Line] = []
    for number, band in enumerate(bands):
        members = [t for t in found if hooks.task_groups.get(t.id, "") == band]
        for i, task in enumerate(members):
            marks = [_mark(s.task(task.id), s.task(task.id).available is not None)
                     for s in (system, *others)]  # fmt: skip
            slug = task.id.split("/")[1]
            lines.append(
                Line(
                    label=f"{band}: {slug}" if band else slug,
                    color=color_of(family),
                    marks=marks,
                    gap=0.5 if i == 0 and number > 0 else 0.0,
                )
            )
    scored = [t for t in found if t.available is not None]
    alt = f"{len(scored)} of {len(found)} tasks of {registry.FAMILY_TITLES[family]} have results"
    if scored:
        values = sorted(t.score.value for t in scored)
        alt += f"; scores run from {x100(values[0])} to {x100(values[-1])} of 100"
    return dots(lines, _legend_names(system, others), f"{alt}.")


def credits(family: str, found: Sequence[tuple[str, float | None, float]]) -> Drawing:
    """The credits of a family of one task, each (label, value, scale): its stages, its arms."""
    lines = [
        Line(
            label=label,
            color=color_of(family),
            marks=[Mark(value=None if value is None else scale * value, interval=None)],
        )
        for label, value, scale in found
    ]
    known = ", ".join(f"{line.label} {x100(line.marks[0].value)}" for line in lines)
    return dots(lines, [""], f"Credits of {registry.FAMILY_TITLES[family]}, of 100: {known}.")


def _legend_names(system: SystemResult, others: Sequence[SystemResult]) -> list[str]:
    return [f"● {system.name}", *(f"{sign} {s.name}" for sign, s in zip("□△◇", others))]


def dots(lines: list[Line], names: Sequence[str], alt: str) -> Drawing:
    """Dot and interval per row and system. Wide: labels left; narrow: labels above."""
    wide_places = _places(lines, 1.0)
    narrow_places = _places(lines, 0.55)
    legend = len(names) > 1
    label_px = label_width(line.label for line in lines)

    def sizes(narrow: bool) -> tuple[float, float]:
        """Height of the axis and of the figure, px."""
        last, size = (narrow_places if narrow else wide_places)[-1]
        height = (last + size / 2) * (_NARROW_ROW_PX if narrow else _ROW_PX)
        top = 12 + (20 * (len(names) if narrow else 1) if legend else 0)
        return height, height + top + 34

    def draw(figure: Figure, narrow: bool) -> None:
        width = NARROW_PX if narrow else WIDE_PX
        places = narrow_places if narrow else wide_places
        span = places[-1][0] + places[-1][1] / 2
        height, total = sizes(narrow)
        left, right = (6, 16) if narrow else (label_px, 190)
        axes = figure.add_axes(
            (left / width, 34 / total, (width - left - right) / width, height / total)
        )
        bare(axes)
        axes.set_xlim(0, 100)
        axes.set_ylim(span, 0.0)
        axes.set_xticks([0, 25, 50, 75, 100])
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        axes.set_yticks([])
        for (y, size), line in zip(places, lines):
            half = 0.36 * size
            axes.plot(
                [0, 0], [y - half, y + half], color=line.color, lw=4, solid_capstyle="butt",
                clip_on=False,
            )  # fmt: skip
            lift = 0.22 if narrow and size == 1.0 else 0.0
            _draw_line(axes, line, y, lift, narrow, width - left - right)
        if legend:
            _legend(figure, names, narrow, total, label_px)

    return both(draw, (sizes(False)[1], sizes(True)[1]), alt)


def _places(lines: list[Line], empty: float) -> list[tuple[float, float]]:
    """Centre and height of each row, in rows; one without any score takes `empty` of a row."""
    found, end = [], 0.0
    for line in lines:
        size = 1.0 if any(mark.value is not None for mark in line.marks) else empty
        found.append((end + line.gap + size / 2, size))
        end += line.gap + size
    return found


def _draw_line(axes: Axes, line: Line, y: float, lift: float, narrow: bool, length: float) -> None:
    """One row of an axis `length` px long; words stand `lift` rows above the dots."""
    main = line.marks[0]
    at = y + lift
    for i, mark in enumerate(line.marks[1:]):
        if mark.value is None:
            continue
        shift = at + (0.16 if i % 2 else -0.16) * (0.6 if narrow else 1.0)
        if mark.interval is not None:
            axes.plot([100 * v for v in mark.interval], [shift] * 2, color=COLOR["muted"], lw=1)
        axes.plot(
            100 * mark.value, shift, _MARKERS[i % len(_MARKERS)] if not mark.published else "x",
            color=COLOR["muted"], markersize=6, fillstyle="none", clip_on=False,
        )  # fmt: skip
    if main.interval is not None:
        low, high = (100 * v for v in main.interval)
        axes.plot(
            [low, high], [at, at], color=line.color, lw=4 if line.strong else 3,
            solid_capstyle="butt", alpha=0.55, clip_on=False,
        )  # fmt: skip
    if main.value is not None:
        axes.plot(
            100 * main.value, at, "o", color=line.color, markersize=10 if line.strong else 8,
            markeredgecolor=COLOR["page"], markeredgewidth=1.2, clip_on=False,
        )  # fmt: skip
    value = DASH if main.value is None else x100(main.value)
    detail = "not run" if main.value is None else ""
    if main.interval is not None:
        detail = f"[{interval(main.interval)}]"
    if narrow:
        row_text(axes, 0.02, y - lift, line.label, ha="left", strong=line.strong, small=True)
        row_text(axes, 1.0, y - lift, value, ha="right", strong=True, small=True)
        return
    row_text(axes, -0.015, y, line.label, ha="right", strong=line.strong)
    row_text(axes, 1.0 + 62 / length, y, value, ha="right", strong=True)
    row_text(axes, 1.0 + 70 / length, y, detail, ha="left", quiet=True)


def _legend(figure: Figure, names: Sequence[str], narrow: bool, total: float, left: float) -> None:
    width = NARROW_PX if narrow else WIDE_PX
    x, y = (6.0 if narrow else left), total - 10.0
    for i, text in enumerate(names):
        figure.text(
            x / width, y / total, text, va="center", fontsize=12,
            color=COLOR["ink"] if i == 0 else COLOR["muted"],
        )  # fmt: skip
        if narrow:
            y -= 20.0
        else:
            x += 7.2 * len(text) + 24.0


def cost_against_score(systems: Sequence[SystemResult]) -> Drawing | None:
    """Mean cost per task against the Index, the frontier drawn; None where no cost is known."""
    points = [
        (s.resources.mean_usd, 100 * s.index.value, s.name)
        for s in systems
        if s.resources.mean_usd is not None
    ]
    if not points:
        return None
    frontier: list[tuple[float, float]] = []
    for usd, value, _ in sorted(points, key=lambda p: (p[0], -p[1])):
        if not frontier or value > frontier[-1][1]:
            frontier.append((usd, value))

    def draw(figure: Figure, narrow: bool) -> None:
        width, height = (NARROW_PX, 300) if narrow else (WIDE_PX, 340)
        axes = figure.add_axes(
            (52 / width, 48 / height, (width - 76) / width, (height - 66) / height)
        )
        bare(axes, keep=("left", "bottom"))
        axes.grid()
        axes.set_axisbelow(True)
        axes.set_xlabel("mean cost per task, $")
        axes.set_ylabel("RLE Index")
        axes.plot(*zip(*frontier), color=COLOR["muted"], drawstyle="steps-post", lw=1.2)
        for usd, value, name in points:
            axes.plot(usd, value, "o", color=COLOR["policy"], markersize=8)
            axes.annotate(
                name, (usd, value), (8, 6), textcoords="offset points", fontsize=12,
                ha="left",
            )  # fmt: skip
        axes.set_xlim(0, 1.35 * max(p[0] for p in points) or 1.0)
        axes.set_ylim(0, max(1.25 * max(p[1] for p in points), 1.0))

    best = max(points, key=lambda p: p[1])
    alt = f"Cost against score of {len(points)} systems: {best[2]} scores most, {best[1]:.1f}, at "
    return both(draw, (340, 300), f"{alt}{best[0]:.2f} $ per task on average.")
