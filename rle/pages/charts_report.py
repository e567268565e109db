"""Figures of the trial report: what earned and what cost, and one small multiple per trial."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rle.pages.hooks import TIME, Curve, Part
from rle.pages.svg import (
    COLOR,
    NARROW_PX,
    WIDE_PX,
    Drawing,
    bare,
    both,
    inline,
    label_width,
    row_text,
)
from rle.pages.text import signed, x100
from rle.report import Row

TRIAL_PX = 340
"""Width of a small multiple: one per line on a phone, three on a desk."""
_MAX_EVENTS = 12


def parts(terms: Sequence[Part], reward: float, color: str) -> Drawing:
    """A waterfall from 0 to the reward: terms that earned go right, terms that cost go left."""
    rows = [*terms, Part(label="score", value=reward)]
    starts, at = [], 0.0
    for term in terms:
        starts.append(at)
        at += term.value
    starts.append(0.0)
    ends = [start + row.value for start, row in zip(starts, rows)]
    label_px = label_width(row.label for row in rows)
    reach = 100 * max(max(ends), max(starts), 0.01) * 1.08

    def draw(figure: Figure, narrow: bool) -> None:
        row_px = 44 if narrow else 30
        width, height = (NARROW_PX if narrow else WIDE_PX), row_px * len(rows) + 34
        left, right = (6, 16) if narrow else (label_px, 190)
        axes = figure.add_axes(
            (left / width, 30 / height, (width - left - right) / width, 1 - 34 / height)
        )
        bare(axes)
        axes.set_xlim(min(0.0, 100 * min(ends)), reach)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_yticks([])
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        for i, (start, row) in enumerate(zip(starts, rows)):
            bar = _Bar(start, row, is_total=i == len(rows) - 1)
            _draw_bar(axes, i, bar, color, narrow, width - left - right)

    earned = [t for t in terms if t.value > 0]
    cost = [t for t in terms if t.value < 0]
    most = max(earned, key=lambda t: t.value, default=None)
    alt = f"The score of {x100(reward)} is made of {len(earned)} earning terms"
    if most is not None:
        alt += f", most of it {most.label} ({x100(most.value)})"
    if cost:
        worst = min(cost, key=lambda t: t.value)
        alt += f"; {worst.label} costs most ({x100(-worst.value)})"
    return both(draw, (30 * len(rows) + 34, 44 * len(rows) + 34), f"{alt}.")


@dataclass(frozen=True)
class _Bar:
    start: float
    part: Part
    is_total: bool


def _draw_bar(axes: Axes, i: int, bar: _Bar, color: str, narrow: bool, length: float) -> None:
    """Line `i` of the waterfall; `length` is the axis in pixels."""
    row, start, is_total = bar.part, bar.start, bar.is_total
    at = i + 0.2 if narrow else float(i)
    thick = 0.34 if narrow else 0.56
    costs = row.value < 0
    neutral = row.ceiling is None and not is_total
    edge = COLOR["bad"] if costs else COLOR["muted"] if neutral else color
    axes.barh(
        at, 100 * row.value, left=100 * start, height=thick,
        color="none" if costs or neutral else color, edgecolor=edge,
        hatch="////" if costs else None, linewidth=1.2,
    )  # fmt: skip
    most = "" if row.ceiling is None else f"of {signed(row.ceiling)}"
    value = x100(row.value) if is_total else signed(row.value)
    if narrow:
        row_text(axes, 0.0, i - 0.22, row.label, ha="left", strong=is_total, small=True)
        words = f"{value} {most}".strip()
        row_text(axes, 1.0, i - 0.22, words, ha="right", strong=is_total, small=True)
        return
    row_text(axes, -0.015, i, row.label, ha="right", strong=is_total)
    row_text(axes, 1.0 + 62 / length, i, value, ha="right", strong=True)
    row_text(axes, 1.0 + 70 / length, i, most, ha="left", quiet=True)


def trial(
    row: Row,
    curves: Sequence[Curve],
    span_s: float,
    ends: dict[str, tuple[float, float]],
    color: str,
    alt: str,
) -> str:
    """Small multiple of one trial: its curves over time, thresholds, event marks, and where it ended.

    Args:
        row: Has every series of `curves`, and `t_s`.
        curves: First one largest.
        span_s: Time axis, the same for all trials.
        ends: Ends of each curve's axis, the same for all trials.
        color: Placeholder of the workflow's hue.
        alt: The finding in words.
    """
    heights = [96, *[54] * (len(curves) - 1)]
    gap, bottom, top = 26, 26, 20
    total = sum(heights) + gap * (len(curves) - 1) + bottom + top

    def draw(figure: Figure) -> None:
        y = total - top
        for i, (curve, height) in enumerate(zip(curves, heights)):
            y -= height
            axes = figure.add_axes(
                (40 / TRIAL_PX, y / total, (TRIAL_PX - 52) / TRIAL_PX, height / total)
            )
            _curve(
                axes, row, curve, span_s, ends[curve.series], color, is_last=i == len(curves) - 1
            )
            y -= gap

    return inline(draw, TRIAL_PX, total, alt)


def _curve(
    axes: Axes,
    row: Row,
    curve: Curve,
    span_s: float,
    ends: tuple[float, float],
    color: str,
    *,
    is_last: bool,
) -> None:
    bare(axes, keep=("bottom", "left"))
    low, top = ends
    time_s = row.series[TIME]
    values = [curve.scale * v for v in row.series[curve.series]]
    axes.set_xlim(0, span_s)
    axes.set_ylim(low, top)
    axes.set_yticks([low, top])
    axes.set_yticklabels([f"{low:g}".replace("-", "−"), f"{top:g}"], fontsize=11)
    axes.set_xticks([0, span_s / 2, span_s])
    axes.set_xticklabels(
        ["0", f"{span_s / 2:g}", f"{span_s:g} s"] if is_last else ["", "", ""], fontsize=11
    )
    axes.get_xticklabels()[-1].set_horizontalalignment("right")
    unit = f", {curve.unit}" if curve.unit else ""
    axes.set_title(f"{curve.label}{unit}", loc="left", fontsize=12, color=COLOR["muted"], pad=5)
    for begin_s, end_s in spans(time_s, row.series.get(curve.shade, [])):
        axes.axvspan(begin_s, end_s, color=COLOR["muted"], alpha=0.22, lw=0, zorder=0)
    for event_s, _what in row.events[:_MAX_EVENTS]:
        axes.axvline(event_s, color=COLOR["muted"], lw=0.8, ls=(0, (2, 3)))
    for limit, _meaning in curve.limits:
        axes.axhline(limit, color=COLOR["bad"], lw=1.2, ls=(0, (6, 3)))
    axes.plot(time_s, values, color=color, lw=1.6, solid_joinstyle="round")
    if row.ended != "done" and time_s:
        axes.axvspan(time_s[-1], span_s, color=COLOR["surface"], lw=0, zorder=0)
        axes.plot(
            time_s[-1],
            min(max(values[-1], low), top),
            "x",
            color=COLOR["bad"],
            ms=7,
            mew=2,
            clip_on=False,
        )


def spans(time_s: Sequence[float], flags: Sequence[float]) -> list[tuple[float, float]]:
    """Where a series of 0 and 1 is 1: (begin, end) of each run, half a sample beyond its ends."""
    found: list[tuple[float, float]] = []
    half_s = (time_s[1] - time_s[0]) / 2 if len(time_s) > 1 else 0.0
    for at_s, flag in zip(time_s, flags):
        if flag and found and at_s - half_s <= found[-1][1] + 1e-9:
            found[-1] = (found[-1][0], at_s + half_s)
        elif flag:
            found.append((at_s - half_s, at_s + half_s))
    return found


def axis_ends(rows: Sequence[Row], curves: Sequence[Curve]) -> dict[str, tuple[float, float]]:
    """Round ends per curve that hold 0, every trial's values and every threshold."""
    ends = {}
    for curve in curves:
        values = [curve.scale * v for row in rows for v in row.series.get(curve.series, [])]
        limits = [1.2 * limit for limit, _ in curve.limits]
        low = min([*values, *limits, 0.0])
        ends[curve.series] = (
            -round_up(-low) if low < 0.0 else 0.0,
            min(round_up(max([*values, *limits, 1e-9])), curve.most or math.inf),
        )
    return ends


def round_up(value: float) -> float:
    """The next of 1, 1.5, 2, 3, 5, 8 x 10^n."""
    exponent = 0
    while value > 10.0:
        value, exponent = value / 10.0, exponent + 1
    while value <= 1.0:
        value, exponent = value * 10.0, exponent - 1
    step = next(s for s in (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 10.0) if value <= s + 1e-12)
    return float(f"{step * 10.0**exponent:.3g}")
