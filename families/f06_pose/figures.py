"""What f06 says about its pages: errors over time with the hidden frames shaded, native metrics, terms."""

import math

from families.f06_pose import spec
from rle.pages.hooks import Curve, Native, Part
from rle.report import Report, Row

CURVES = (
    Curve(
        series="xy_error_mm",
        label="position error",
        unit="mm",
        limits=((1e3 * spec.KERNEL_XY_M, "width of the kernel"),),
        most=50.0,
        shade="occluded",
        shade_label="the arm hides the block",
    ),
    Curve(
        series="yaw_error_deg",
        label="yaw error",
        unit="deg",
        limits=((math.degrees(spec.KERNEL_YAW_RAD), "width of the kernel"),),
        most=30.0,
        shade="occluded",
        shade_label="the arm hides the block",
    ),
)
NATIVE = (
    Native(key="median_xy_mm_a", label="median position, single", unit="mm"),
    Native(key="median_yaw_deg_a", label="median yaw, single", unit="deg"),
    Native(key="median_xy_mm_b", label="median position, push", unit="mm"),
    Native(key="median_yaw_deg_b", label="median yaw, push", unit="deg"),
    Native(key="shape_accuracy_b", label="shapes right, push", unit="%", scale=100.0),
    Native(key="rate_hz", label="rate", unit="Hz"),
)
VIDEO_NOTE = "; the green outline is the estimate, the blue line its origin and its y axis"


def sentence(row: Row) -> str:
    """What happened: "60 of 60 frames answered, all shapes right; worst five 3.1 mm and 1.4 deg"."""
    m = row.metrics
    if row.ended == "not_run" or not m:
        return "was not run"
    frames, answered, right = (int(m[key] or 0) for key in ("frames", "answered", "ids_right"))
    shapes = "all shapes right" if right == frames else f"{right} of {frames} shapes right"
    text = f"{answered} of {frames} frames answered, {shapes}"
    xy, yaw = m["xy_worst5_m"], m["yaw_worst5_rad"]
    if xy is not None and yaw is not None:
        text += f"; worst five {1e3 * xy:.1f} mm and {math.degrees(yaw):.1f} deg"
    if row.ended != "done":
        text += f"; ended by {row.ended.replace('_', ' ')}"
    return text


def parts(report: Report) -> list[Part]:
    """Terms of the score: both stages, and the deduction; where that goes below 0, what is forgiven."""
    m = report.metrics
    if report.reward is None or "g_a_mean" not in m:
        return []
    terms = [
        Part("single frames, 0.3 mean g_A", spec.WEIGHT_A * m["g_a_mean"], spec.WEIGHT_A),
        Part("pushes, 0.7 mean g_B", spec.WEIGHT_B * m["g_b_mean"], spec.WEIGHT_B),
    ]
    if m["deduction"] > 0.0:
        terms.append(Part("slow inference", -m["deduction"], -spec.DEDUCTION_MAX))
    rest = report.reward - sum(term.value for term in terms)
    if abs(rest) > 1e-9:
        terms.append(Part("below 0 counts 0", rest))
    return terms
