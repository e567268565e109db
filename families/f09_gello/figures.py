"""What f09 says about its pages: curves, native metrics, one sentence per arm, terms of the score."""

from families.f09_gello import spec
from rle.pages.hooks import Curve, Native, Part
from rle.report import Report, Row

CURVES = (
    Curve(
        series="path_passive_n_m",
        label="largest torque, mechanism alone",
        unit="N m",
        limits=((spec.SERVO.limit_n_m, "what a servo gives"),),
    ),
    Curve(series="path_assisted_n_m", label="the same with the submission's software", unit="N m"),
)
NATIVE = (
    *(Native(key=f"{arm}_reward", label=arm, unit="", scale=100.0) for arm in spec.ARM_NAMES),
    *(
        Native(key=f"{arm}_mass_kg", label=f"{arm} mass", unit="kg", digits=2)
        for arm in spec.ARM_NAMES
    ),
)
VIDEO_NOTE = (
    "; left the stock arm, right the submitted one, both without software: look for which one stays"
)
TITLES: dict[str, str] = {
    "C1": "clear of itself", "H1": "residual torque", "H2": "holds alone", "H3": "backdrives alone",
    "S2a": "adapts: hold", "S2b": "adapts: backdrive", "B1": "holds with software",
    "B2": "backdrives with software", "B3": "servo headroom", "B4": "recovers from a push",
}  # fmt: skip
"""Plain names of the checkpoints."""


def sentence(row: Row) -> str:
    """ "franka weighs 1.96 kg, leaves 0.18 N m and holds within 10.6 mm; weakest: servo headroom (0.64)"."""
    if row.ended == "no_submission":
        return f"{row.group} was not submitted"
    values = row.metrics
    weakest = min(spec.CHECKPOINTS, key=lambda key: values.get(f"cp_{key}") or 0.0)
    weak = f"weakest: {TITLES[weakest]} ({values.get(f'cp_{weakest}') or 0.0:.2f})"
    residual, hold = values.get("x_H1"), values.get("x_H2")
    if residual is None:
        why = next((t.partition(": ")[2] for _, t in row.events if t.startswith("refused: ")), "")
        told = f" ({why})" if why else ""
        return f"{row.group} was refused{told}; only its software was measured; {weak}"
    n_dropped = sum(text.startswith("dropped: ") for _, text in row.events)
    weak += f"; {n_dropped} of its parts and springs were left out" if n_dropped else ""
    held = "does not hold" if hold is None else f"holds within {1e3 * hold:.1f} mm alone"
    return f"{row.group} weighs {values['mass_kg']:.2f} kg, leaves {residual:.2f} N m and {held}; {weak}"


def parts(report: Report) -> list[Part]:
    """Terms of the reward: ten checkpoints and the deductions, means over the three arms."""
    if report.reward is None or not report.rows:
        return []
    n = len(spec.ARM_NAMES)

    def mean(key: str) -> float:
        return sum(row.metrics.get(key) or 0.0 for row in report.rows) / n

    weight = spec.CHECKPOINT_WEIGHT
    terms = [
        Part(f"{key} {TITLES[key]}", weight * mean(f"cp_{key}"), weight) for key in spec.CHECKPOINTS
    ]
    cost = mean("validity_deduction")
    if cost:
        terms.append(Part("validity", -cost, -sum(spec.VALIDITY_WEIGHTS.values())))
    rest = report.reward - sum(term.value for term in terms)
    if rest > 1e-9:
        terms.append(Part("arms below 0 count 0", rest))
    return terms
