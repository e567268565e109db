"""What a family may say about its own pages. Plain data and small functions; nothing here draws.

A family that wants more than the defaults has a module `figures.py` with any of these names:

    CURVES: tuple[Curve, ...]
        Which of `Row.series` to draw per trial over `t_s`, first one largest. Default: the first series.
    NATIVE: tuple[Native, ...]
        Columns of native metrics on the Index page. Default: none.
    CREDITS: tuple[Native, ...]
        Metrics of `reward.json`, in 0..1 after `scale`, that the family's figure shows in place of its
        tasks (a family of one task: its stages, its arms). Default: the tasks.
    ENDED: dict[str, str]
        Words for the family's own values of `Row.ended`. Default: the value itself.
    TASK_GROUPS: dict[str, str]
        Band of each task (level, difficulty) for the family's figure. Default: no bands.
    VIDEO_NOTE: str
        What to look for in a video, after "The trial as the verifier saw it". Default: nothing.
    def sentence(row: Row) -> str
        What happened in a trial, in one sentence without a full stop. Default: from `ended`, the last
        event and the score.
    def parts(report: Report) -> list[Part]
        What earned and what cost: shares of the reward that add up to it. Default: no bar.

Pictures and films need no hook: in a verification's folder, or in `media/` below it, `<trial>.mp4` with its
poster `<trial>.jpg` is the film of a trial, `<trial>_seen_<what>.jpg` what the agent saw in it, and
`picture_<what>.png` a picture of the submission, shown on both pages.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType

from rle import registry
from rle.errors import NotAvailable
from rle.report import Report, Row

TIME = "t_s"
"""Key of the time axis in `Row.series`."""


@dataclass(frozen=True)
class Curve:
    """One line of a trial's small multiple."""

    series: str
    """Key of `Row.series`; shape as `t_s`."""
    label: str
    unit: str
    limits: tuple[tuple[float, str], ...] = ()
    """Thresholds to draw: (value, what it means)."""
    scale: float = 1.0
    """Factor from the stored unit to the shown one."""
    most: float | None = None
    """The axis ends here at the latest, in the shown unit; what lies beyond is cut."""
    shade: str = ""
    """Key of a series of 0 and 1: the time where it is 1 is shaded."""
    shade_label: str = ""
    """What the shading means."""


@dataclass(frozen=True)
class Native:
    """One native metric of `reward.json` on the Index page."""

    key: str
    label: str
    unit: str
    scale: float = 1.0
    digits: int = 1


@dataclass(frozen=True)
class Part:
    """One term of a score: positive earns, negative costs."""

    label: str
    value: float
    """Its share of the reward, mean over the trials."""
    ceiling: float | None = None
    """The most that it can earn (or cost, negative)."""


@dataclass(frozen=True)
class Hooks:
    """A family's hooks, defaults filled in."""

    sentence: Callable[[Row], str]
    parts: Callable[[Report], list[Part]]
    curves: tuple[Curve, ...] = ()
    native: tuple[Native, ...] = ()
    credits: tuple[Native, ...] = ()
    task_groups: dict[str, str] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    video_note: str = ""


def default_sentence(row: Row) -> str:
    """`ended` and the last event: "anchor_z at 7.4 s: fell"."""
    if row.ended == "done":
        return "ran to the end"
    if row.ended == "not_run":
        return "was not run"
    words = row.ended.replace("_", " ")
    if not row.events:
        return f"ended by {words}"
    at_s, what = row.events[-1]
    return f"ended by {words} at {at_s:.1f} s: {what}"


def no_parts(_report: Report) -> list[Part]:
    """A family that does not decompose its score."""
    return []


@functools.cache
def hooks_of(family: str) -> Hooks:
    """The hooks of a family; defaults where it has none or is not in this version."""
    try:
        module = _figures(family)
    except NotAvailable:
        module = None
    return Hooks(
        sentence=getattr(module, "sentence", default_sentence),
        parts=getattr(module, "parts", no_parts),
        curves=getattr(module, "CURVES", ()),
        native=getattr(module, "NATIVE", ()),
        credits=getattr(module, "CREDITS", ()),
        task_groups=getattr(module, "TASK_GROUPS", {}),
        ended=getattr(module, "ENDED", {}),
        video_note=getattr(module, "VIDEO_NOTE", ""),
    )


def _figures(family: str) -> ModuleType | None:
    """`families/fNN_x/figures.py`, if the family has one. A broken one raises its own error."""
    try:
        return registry.room(family, "figures")
    except ModuleNotFoundError as error:
        if error.name == f"{registry.PACKAGES[family]}.figures":
            return None
        raise


def curves_of(row: Row, hooks: Hooks) -> list[Curve]:
    """The curves that a row really has; the first series where the family names none."""
    named = [c for c in hooks.curves if row.series.get(c.series)]
    if named or hooks.curves or not row.series.get(TIME):
        return named
    first = next((name for name in row.series if name != TIME), None)
    return [] if first is None else [Curve(series=first, label=first.replace("_", " "), unit="")]
