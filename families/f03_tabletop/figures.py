"""What f03 says about its pages: curves, native metrics, one sentence per trial."""

from rle.pages.hooks import Curve, Native
from rle.report import Row

CURVES = (
    Curve(series="weighings", label="weighings counted", unit=""),
    Curve(series="turns", label="quarter turns counted", unit=""),
    Curve(series="unclassified", label="unclassified transitions", unit=""),
)
NATIVE = (
    Native(key="height_m", label="tower", unit="mm", scale=1000.0, digits=0),
    Native(key="overhang_m", label="overhang", unit="mm", scale=1000.0, digits=0),
    Native(key="weighings", label="weighings", unit="", digits=0),
    Native(key="actual_qtm", label="quarter turns", unit="", digits=0),
    Native(key="correct", label="boxes right", unit="of 3", digits=0),
)
VIDEO_NOTE = "; the whole attempt by replay of its record, long ones shown faster"


def sentence(row: Row) -> str:
    """What was measured: "the tower stood 320 mm high, of 534 mm; 12 pieces were supported"."""
    m = {name: value or 0.0 for name, value in row.metrics.items()}
    if row.ended in ("not_run", "no_interaction"):
        return "nothing was done"
    if "height_m" in m:
        return (
            f"the tower stood {1000 * m['height_m']:.0f} mm high, of {1000 * m['optimum_m']:.0f} mm; "
            f"{m['pieces_supported']:.0f} pieces were supported"
        )
    if "overhang_m" in m:
        return (
            f"the overhang was {1000 * m['overhang_m']:.0f} mm, of {1000 * m['optimum_m']:.0f} mm; "
            f"{m['blocks_supported']:.0f} blocks were supported"
        )
    if "weighings" in m:
        heavy = "the heavy cube was" if m["heavy_on_mat"] else "the heavy cube was not"
        return (
            f"{heavy} on the mat, with {m['others_on_mat']:.0f} others, after {m['weighings']:.0f} "
            "weighings"
        )
    if "solved" in m:
        done = "solved" if m["solved"] else "not solved"
        return (
            f"{done} after {m['actual_qtm']:.0f} quarter turns (optimum {m['optimal_qtm']:.0f}), "
            f"{m['unclassified_transitions']:.0f} unclassified, {m['recoveries']:.0f} recoveries"
        )
    if "correct" in m:
        answer = "right" if m["correct"] else "wrong" if m["submitted"] else "missing"
        return f"the answer was {answer} after {m['control_steps']:.0f} control steps"
    return f"ended by {row.ended.replace('_', ' ')}"
