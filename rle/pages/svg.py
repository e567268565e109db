"""matplotlib figures as inline SVG that takes its colours and its font from the page.

A figure is drawn with placeholder colours, one per CSS variable; the written SVG then refers to the
variables, so that one figure serves light, dark and print. One figure unit is one CSS pixel.
"""

import io
import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

_NAMES = (
    "ink", "muted", "line", "surface", "page",
    "interactive", "policy", "perception", "mechanical", "good", "bad",
)  # fmt: skip
COLOR: dict[str, str] = {name: f"#0102{i:02x}" for i, name in enumerate(_NAMES, start=1)}
"""Placeholder of each CSS variable `--<name>`."""
WORKFLOW_COLOR: dict[str, str] = {
    "interactive control": "interactive",
    "policy learning": "policy",
    "perception and estimation": "perception",
    "mechanical design": "mechanical",
}
"""CSS variable of each workflow; the same hue everywhere."""

WIDE_PX, NARROW_PX = 1184, 350
"""Drawing widths; the page shows the one that fits its screen."""
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "rle",
    "font.size": 13,
    "text.color": COLOR["ink"],
    "axes.edgecolor": COLOR["line"],
    "axes.labelcolor": COLOR["muted"],
    "axes.linewidth": 1.0,
    "axes.titlesize": 13,
    "xtick.color": COLOR["muted"],
    "ytick.color": COLOR["muted"],
    "xtick.labelsize": 12,
    "ytick.labelsize": 12,
    "grid.color": COLOR["line"],
    "grid.linewidth": 1.0,
    "lines.linewidth": 1.6,
}
_counter = itertools.count()


@dataclass(frozen=True)
class Drawing:
    """A figure of the page: markup for wide and for narrow screens, and what it shows in words."""

    wide: str
    narrow: str
    alt: str


def inline(draw: Callable[[Figure], None], width_px: float, height_px: float, alt: str) -> str:
    """Draws one SVG element.

    Args:
        draw: Fills an empty figure.
        width_px: Drawing width; shown no wider than that.
        height_px: Drawing height.
        alt: The finding, for those who do not see it.
    """
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width_px / 72, height_px / 72), dpi=72)
        figure.patch.set_alpha(0.0)
        draw(figure)
        out = io.StringIO()
        FigureCanvasSVG(figure).print_svg(out, metadata={"Date": None, "Creator": None})
    return _clean(out.getvalue(), width_px, height_px, alt)


def both(
    draw: Callable[[Figure, bool], None], heights_px: tuple[float, float], alt: str
) -> Drawing:
    """Draws the wide and the narrow version; `draw` is told whether it is the narrow one."""
    return Drawing(
        wide=inline(lambda f: draw(f, False), WIDE_PX, heights_px[0], alt),
        narrow=inline(lambda f: draw(f, True), NARROW_PX, heights_px[1], alt),
        alt=alt,
    )


def bare(axes: Axes, *, keep: tuple[str, ...] = ("bottom",)) -> None:
    """Removes all frame lines but those named."""
    for side, spine in axes.spines.items():
        spine.set_visible(side in keep)
    axes.patch.set_alpha(0.0)
    axes.tick_params(length=0)


def row_text(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    *,
    ha: Literal["left", "right"],
    strong: bool = False,
    quiet: bool = False,
    small: bool = False,
) -> None:
    """Words beside a row: x as a share of the axis, y as data."""
    axes.text(
        x, y, text, ha=ha, va="center", transform=axes.get_yaxis_transform(),
        fontweight="bold" if strong else "normal", fontsize=12 if small or quiet else 13,
        color=COLOR["muted" if quiet else "ink"],
    )  # fmt: skip


def label_width(labels: Iterable[str]) -> float:
    """Room for the longest label left of an axis, px."""
    return 8.4 * max((len(label) for label in labels), default=0) + 24.0


def _clean(text: str, width_px: float, height_px: float, alt: str) -> str:
    """Keeps the drawing alone: variables for colours and font, ids of its own, no fixed size."""
    prefix = f"g{next(_counter)}-"
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    used = set(re.findall(r'url\(#([^)]+)\)|xlink:href="#([^"]+)"', text))
    used = {name for pair in used for name in pair if name}
    text = re.sub(r' id="([^"]+)"', lambda m: f' id="{prefix}{m[1]}"' if m[1] in used else "", text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}\1)", text)
    text = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{prefix}\1"', text)
    for name, value in COLOR.items():
        text = text.replace(value, f"var(--{name})")
    text = text.replace("#000000", "var(--ink)")
    text = re.sub(r"<style.*?</style>\n?", "", text, flags=re.DOTALL)
    text = re.sub(r" font-family: [^;\"]+;", "", text)
    text = re.sub(r' transform="rotate\(-0 [^"]*\)"', "", text)
    text = re.sub(r"(\d+\.\d\d)\d+", r"\1", text)
    text = re.sub(r"\s*\n\s*", " ", text).replace("> <", "><")
    opening = (
        f'<svg role="img" aria-label="{escape(alt)}" viewBox="0 0 {width_px:g} {height_px:g}" '
        f'style="max-width:{width_px:g}px">'
    )
    return opening + text[text.index(">") + 1 :]
