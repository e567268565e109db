"""What f08 says about its pages: curves, native metrics, one sentence per trial, terms of the score."""

from families.f08_mobile_base import metrics, spec
from rle.pages.hooks import Curve, Native, Part
from rle.report import Report, Row

CURVES = (
    Curve(
        series="ssm_m", label="static margin", unit="mm", scale=1000.0,
        limits=((1000.0 * spec.SSM_ZERO_M, "no credit"), (1000.0 * spec.SSM_FULL_M, "full credit")),
    ),
    Curve(series="fasm", label="force-angle margin", unit="N m rad", limits=((0.0, "tips over"),)),
    Curve(
        series="ee_err_m", label="tool to target", unit="mm", scale=1000.0,
        limits=((1000.0 * spec.SHELF_TOLERANCE_M, "holds below it"),),
    ),
    Curve(series="tilt_deg", label="tilt", unit="deg"),
    Curve(
        series="min_wheel_load_n", label="least loaded wheel", unit="N",
        limits=((spec.WHEEL_LOAD_N, "counts as lifted below it"),),
    ),
)  # fmt: skip
NATIVE = (
    Native(key="design_base_mass_kg", label="base mass", unit="kg"),
    Native(key="design_profile_length_m", label="profile", unit="m", digits=2),
    Native(key="design_area_m2", label="footprint", unit="m2", digits=3),
    Native(key="design_efficiency", label="design efficiency E", unit="-", digits=3),
)
CREDITS = tuple(
    Native(
        key=f"stage_{stage}", label=stage, unit="%",
        scale=1.0 / sum(spec.WEIGHTS[cp] for cp in checkpoints),
    )
    for stage, checkpoints in spec.STAGES.items()
)  # fmt: skip
ENDED = {
    "success": "held the load",
    "horizon": "ran out of time",
    "shelf_contact": "touched the shelf",
    "tilt": "tilted over",
    "wheels_lifted": "lifted two wheels",
}
VIDEO_NOTE = "; look at the wheels when the arm is out, and at the gap between arm and shelf"
WORDS = {
    "static": "static test", "testB": "test B", "testC": "test C", "testD1": "test D1",
    "testD2": "test D2", "testE": "test E",
}  # fmt: skip


def sentence(row: Row) -> str:
    """What happened: "UR5e lifts two wheels at 6.9 s of test E"."""
    arm, _, test = row.group.partition("/")
    name = next((a.title for a in spec.ARMS if a.name == arm), arm)
    values = row.metrics
    if test == metrics.DESIGN:
        lost = [cp for cp in metrics.BY_DESIGN if (values.get(cp) or 0.0) < 1.0]
        return f"{name}: " + (f"the chassis loses {', '.join(lost)}" if lost else "a sound chassis")
    if test.startswith("shelf") or test == metrics.REPEAT:
        target = spec.TARGET_NAMES[int(values.get("target_index") or 0)]
        load = f"{values.get('payload_kg') or 0:g} kg"
        at = f"at {values.get('elapsed_s') or 0.0:.1f} s"
        what = ENDED.get(row.ended, row.ended.replace("_", " "))
        if test == metrics.REPEAT:
            same = "repeated" if row.score == 1.0 else "did not repeat"
            return f"{name} {same} its first shelf trial"
        why = "" if row.ended == "success" or not row.events else f": {row.events[0][1]}"
        return f"{name} {what} {at} at {target} with {load}{why}"
    words = WORDS.get(test, test)
    if row.ended not in ("done", "success"):
        at_s = row.events[-1][0] if row.events else 0.0
        return f"{name}: {ENDED.get(row.ended, row.ended.replace('_', ' '))} at {at_s:.1f} s of {words}"
    if row.events:
        return f"{name} lifts two wheels at {row.events[0][0]:.1f} s of {words}"
    if test == "testD2" and row.score > 0.0:
        return f"{name} crosses the curb and the bumps with never two wheels lifted for long"
    margin_m, fasm = values.get("ssm_min_m"), values.get("fasm_min")
    if margin_m is not None:
        return f"{name} keeps {1000 * margin_m:.0f} mm of static margin"
    if fasm is not None:
        return f"{name} keeps {fasm:.1f} N m rad of margin in {words}"
    return f"{name}: {words} earns {row.score:.2f}"


def parts(report: Report) -> list[Part]:
    """T = sum of the five stages; what a closed gate takes stands as a term of its own."""
    if report.reward is None or "raw_total" not in report.metrics:
        return []
    terms = [
        Part(
            stage,
            report.metrics[f"stage_{stage}"],
            sum(spec.WEIGHTS[cp] for cp in checkpoints),
        )
        for stage, checkpoints in spec.STAGES.items()
    ]
    lost = report.reward - report.metrics["raw_total"]
    return [*terms, Part("a closed gate", lost)] if lost < -1e-9 else terms
