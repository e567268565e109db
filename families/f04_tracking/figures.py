"""What f04 says about its pages: curves, native metrics, one sentence per trial, terms of the score."""

from families.f04_tracking import spec
from rle.pages.hooks import Curve, Native, Part
from rle.report import Report, Row

CURVES = (
    Curve(series="error_m", label="tracking error", unit="cm", scale=100.0),
    Curve(
        series="fall_share",
        label="share of a fall limit",
        unit="",
        limits=((1.0, "a fall ends the trial above it"),),
    ),
)
NATIVE = (
    Native(key="mpjpe_m", label="MPJPE", unit="mm", scale=1000.0),
    Native(key="survival", label="survival", unit="%", scale=100.0),
    Native(key="tracking_multi", label="tracking T", unit="%", scale=100.0),
    Native(key="action_jerk", label="action jerk", unit="-", digits=3),
    Native(key="falls", label="trials with a fall", unit="%", scale=100.0, digits=0),
)
ENDED = {
    "anchor_z": "torso height off",
    "tilt": "torso tilted",
    "ee_z": "hand or foot height off",
}
VIDEO_NOTE = (
    "; the spheres are the reference: look for when the robot leaves them, and after which push"
)
_PUSH = "push"
_FALL = "fall: "


def sentence(row: Row) -> str:
    """What happened: "fell at 7.4 s: torso 0.26 m off its reference height, 0.5 s after a push"."""
    pushes = [at_s for at_s, what in row.events if what == _PUSH]
    if row.ended == "not_run":
        return "was not run: three trials before it lost their policy"
    if row.ended == "done":
        error_m = row.metrics.get("mpjpe_m")
        error = "" if error_m is None else f", {100 * error_m:.1f} cm off on average"
        return f"stayed up for {spec.STEPS / spec.CONTROL_HZ:.0f} s through {_count(pushes)}{error}"
    at_s, what = row.events[-1] if row.events else (row.metrics.get("survived_s") or 0.0, row.ended)
    before = [p for p in pushes if p <= at_s]
    after = f", {at_s - before[-1]:.1f} s after a push" if before else ", before any push"
    if what.startswith(_FALL):
        return f"fell at {at_s:.1f} s: {what.removeprefix(_FALL)}{after}"
    return f"ended at {at_s:.1f} s: {row.ended.replace('_', ' ')}{after}"


def _count(pushes: list[float]) -> str:
    return "1 push" if len(pushes) == 1 else f"{len(pushes)} pushes"


def parts(report: Report) -> list[Part]:
    """Terms of s = clip(0.7 T + 0.3 U - 0.15 min(J / J_max, 1) - 0.05 F, 0, 1), means of the trials.

    What the clip at 0 and a closed gate change stands as terms of its own, so that the terms add up.
    """
    limit = report.extra.get("jerk_limit")
    if report.reward is None or not report.rows or limit is None:
        return []
    w = spec.SCORE
    n = len(report.rows)

    def mean(key: str, missing: float) -> float:
        return sum(_known(row, key, missing) for row in report.rows) / n

    jerk = sum(min(_known(row, "J", 0.0) / limit, 1.0) for row in report.rows) / n
    terms = [
        Part("tracking, 0.7 T", w.tracking * mean("T", 0.0), w.tracking),
        Part("survival, 0.3 U", w.survival * mean("U", 0.0), w.survival),
        Part("jerk, −0.15 min(J / J_max, 1)", -w.jerk * jerk, -w.jerk),
        Part("falls, −0.05 F", -w.fall * mean("F", 1.0), -w.fall),
    ]
    raw = sum(row.score for row in report.rows) / n
    clipped = raw - sum(term.value for term in terms)
    if clipped > 1e-9:
        terms.append(Part("trials below 0 count 0", clipped))
    if report.reward < raw - 1e-9:
        terms.append(Part("a closed gate", report.reward - raw))
    return terms


def _known(row: Row, key: str, missing: float) -> float:
    value = row.metrics.get(key)
    return missing if value is None else value
