"""What f07 says about its pages: curves, native metrics, one sentence per pile, terms of the score."""

from families.f07_bin import spec
from rle.pages.hooks import Curve, Native, Part
from rle.report import Report, Row

CURVES = (
    Curve(series="cleared", label="parts cleared", unit=""),
    Curve(
        series="peak_part_n",
        label="force on a part, peak per second",
        unit="N",
        limits=((spec.DAMAGE_FORCE_N, "a flange bends above it"),),
    ),
    Curve(
        series="peak_bin_n",
        label="force on the bin, peak per second",
        unit="N",
        limits=((spec.BIN_HIT_FORCE_N, "a bin hit above it"),),
    ),
)
NATIVE = (
    Native(key="clear_frac", label="parts cleared", unit="%", scale=100.0),
    Native(key="throughput_ppm", label="throughput", unit="parts/min", digits=2),
    Native(key="clean_complete_share", label="clean and complete", unit="%", scale=100.0, digits=0),
    Native(key="floor_drops", label="floor drops", unit="", digits=0),
    Native(key="damage_events", label="bent parts", unit="", digits=0),
    Native(key="bin_hits", label="bin hits", unit="", digits=0),
)
VIDEO_NOTE = "; look for parts that come up together, and for a nest that two parts block"


def sentence(row: Row) -> str:
    """What happened: "cleared 11 of 14 parts in 120 s; 1 fell to the floor"."""
    m = row.metrics
    if row.ended == "not_run" or not m:
        return "was not run"
    whole = m["f"] == 1.0
    span = m["den_s"] if whole else (m["ticks"] or 0.0) / spec.CONTROL_HZ
    text = f"cleared {m['cleared']:.0f} of {m['n']:.0f} parts in {span:.1f} s"
    troubles = [
        f"{m[key]:.0f} {words}"
        for key, words in (
            ("floor", "fell to the floor"),
            ("damage", "bent"),
            ("bin_hits", "bin hits"),
            ("faults", "ticks without a valid answer"),
        )
        if m[key]
    ]
    if row.ended != "done":
        troubles.append(f"ended by {row.ended.replace('_', ' ')}")
    return "; ".join([text, *troubles])


def parts(report: Report) -> list[Part]:
    """Terms of the score, means of the piles; what clips and gates change stands as terms of its own."""
    if report.reward is None or not report.rows:
        return []
    n = len(report.rows)

    def mean(value) -> float:
        return sum(value(row.metrics) for row in report.rows if row.metrics) / n

    def share(metrics, full_ppm: float) -> float:
        return min(metrics["p"] / full_ppm, 1.0)

    terms = [
        Part(
            "clean and complete, 0.30 I",
            spec.WEIGHT_CLEAN * mean(lambda m: m["clean"]),
            spec.WEIGHT_CLEAN,
        ),
        Part("cleared, 0.35 h", spec.WEIGHT_CLEARED * mean(lambda m: m["h"]), spec.WEIGHT_CLEARED),
        Part(
            "rate, 0.20 min(p/10, 1)",
            spec.WEIGHT_RATE * mean(lambda m: share(m, spec.RATE_FULL_PPM)),
            spec.WEIGHT_RATE,
        ),
        Part(
            "clean rate, 0.15 I min(p/15, 1)",
            spec.WEIGHT_CLEAN_RATE
            * mean(lambda m: m["clean"] * share(m, spec.CLEAN_RATE_FULL_PPM)),
            spec.WEIGHT_CLEAN_RATE,
        ),
        Part("floor drops", -spec.DEDUCT_FLOOR * mean(lambda m: m["floor"])),
        Part("bent parts", -spec.DEDUCT_DAMAGE * mean(lambda m: m["damage"])),
        Part("bin hits", -spec.DEDUCT_BIN * mean(lambda m: m["bin_hits"])),
    ]
    raw = sum(row.score for row in report.rows) / n
    clipped = raw - sum(term.value for term in terms)
    if abs(clipped) > 1e-9:
        terms.append(Part("piles below 0 count 0", clipped))
    if report.reward < raw - 1e-9:
        terms.append(Part("a closed gate", report.reward - raw))
    return terms
