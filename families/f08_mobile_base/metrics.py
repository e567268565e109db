"""M of f08. Pure functions, numpy in and float out; each docstring is the card's equation.

Rows carry one trial each. `Row.group` is "<arm>/<test>"; a test's credit is the mean of its rows, except
the row of the test "design", whose `metrics` hold the credits that follow from the chassis alone.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from families.f08_mobile_base import spec
from rle.report import Row
from rle.scoring import clip01, gate

DESIGN = "design"
TEST_OF = {
    "S1.mecanum": "mecanum", "S1.equilibrium": "equilibrium", "S3.reach_preserved": "reach",
    "S3.static_margin": "static", **{f"S5.{name}": name for name in spec.SCENARIOS},
    "S7.pick_compat": "shelf-1kg", "S7.payload_margin": "shelf-2kg",
}  # fmt: skip
"""Test whose rows give a checkpoint's credit."""
REPEAT = "repeat"
"""Test whose row is 1 if the first shelf trial repeated itself."""
SHELF = ("S7.pick_compat", "S7.payload_margin")
VALIDITY = spec.STAGES["validity"]
STILL_VALID = "S3.still_valid"
BY_DESIGN = tuple(cp for cp in spec.WEIGHTS if cp not in TEST_OF and cp != STILL_VALID)
"""Checkpoints that follow from the chassis and the arm without a trial."""


def capped_credit(ratio: float, band: float = spec.CREDIT_BAND) -> float:
    """cc(r, band) = 1 for r <= 1, (band - r) / (band - 1) up to r = band, 0 beyond or not finite."""
    if not math.isfinite(ratio):
        return 0.0
    return clip01((band - ratio) / (band - 1.0)) if ratio > 1.0 + 1e-12 else 1.0


def equilibrium(measured: Mapping[str, float]) -> float:
    """c = min over drift, rise, tilt, end speed and penetration of cc(value / limit, 1.5)."""
    return min(capped_credit(abs(measured[k]) / v) for k, v in spec.EQUILIBRIUM_LIMITS.items())


def mecanum(measured: np.ndarray, commanded: np.ndarray) -> float:
    """Share of twists with |m_i - c_i| <= .25 |c_i| where c_i != 0, |m_i| <= .25 max |c| elsewhere.

    Args:
        measured: Mean twist of the last second, shape (n, 3).
        commanded: Same shape.
    """
    largest = np.abs(commanded).max(axis=1, keepdims=True)
    allowed = spec.MECANUM_TOLERANCE * np.where(commanded != 0.0, np.abs(commanded), largest)
    error = np.abs(measured - commanded)
    return float(np.mean(((error <= allowed) & np.isfinite(error)).all(axis=1)))


def resource_constraints(
    footprint_m: tuple[float, float], mass_kg: float, length_m: float, clean_member_share: float
) -> float:
    """c = mean of cc(x/.56, 1.1), cc(y/.56, 1.1), cc(mass/60, 1.1), cc(length/12, 1.1), clean share."""
    ratios = (
        footprint_m[0] / spec.FOOTPRINT_LIMIT_M,
        footprint_m[1] / spec.FOOTPRINT_LIMIT_M,
        mass_kg / spec.MASS_LIMIT_KG,
        length_m / spec.LENGTH_LIMIT_M,
    )
    credits = [capped_credit(r, spec.RESOURCE_BAND) for r in ratios]
    return float(np.mean([*credits, clip01(clean_member_share)]))


def efficiency_terms(base_kg: float, length_m: float, area_m2: float) -> tuple[float, ...]:
    """terms = (1 - m_base/38, 1 - length/12, 1 - area/.3136), each clipped to [0, 1]."""
    return (
        clip01(1.0 - base_kg / spec.BASE_MASS_REFERENCE_KG),
        clip01(1.0 - length_m / spec.LENGTH_LIMIT_M),
        clip01(1.0 - area_m2 / spec.FOOTPRINT_LIMIT_M**2),
    )


def design_efficiency(
    base_kg: float, length_m: float, area_m2: float, resource: float, structure: float
) -> float:
    """min(1, E/.48), E = mean of the efficiency terms; 0 unless resource = structure = 1."""
    if min(resource, structure) < 1.0 - 1e-12:
        return 0.0
    efficiency = float(np.mean(efficiency_terms(base_kg, length_m, area_m2)))
    return clip01(efficiency / spec.DESIGN_EFFICIENCY_BEST)


def reach_preserved(simulated_m: float, kinematic_m: float) -> float:
    """1[simulated >= .99 kinematic]."""
    return float(math.isfinite(simulated_m) and simulated_m >= spec.REACH_SHARE * kinematic_m)


def reach_beyond(distance_m: float) -> float:
    """cc(.29 / d, 1.5), d = smallest distance of the tool outside the footprint; 0 for d <= 0."""
    return capped_credit(spec.REACH_BEYOND_M / distance_m) if distance_m > 0.0 else 0.0


def static_margin(ssm_min_m: Sequence[float | None]) -> float:
    """c = clip((min over dwells of SSM - .015) / .030, 0, 1); 0 if a dwell is never quiet (None)."""
    if not ssm_min_m or any(m is None or not math.isfinite(m) for m in ssm_min_m):
        return 0.0
    worst = min(m for m in ssm_min_m if m is not None)
    return clip01((worst - spec.SSM_ZERO_M) / (spec.SSM_FULL_M - spec.SSM_ZERO_M))


def margin_credit(fasm: float) -> float:
    """Tests B and E: c = clip((FASM - 5) / 30, 0, 1)."""
    offset, span = spec.FASM_BE
    return clip01((fasm - offset) / span)


def test_c(fasm: float, tilt_max_deg: float) -> float:
    """c = min(clip((10 - tilt) / 8, 0, 1), clip(FASM / 8, 0, 1))."""
    limit, span = spec.C_TILT_DEG
    return min(clip01((limit - tilt_max_deg) / span), clip01(fasm / spec.FASM_C))


def test_d1(fasm: float) -> float:
    """c = clip(FASM / 10, 0, 1)."""
    return clip01(fasm / spec.FASM_D1)


def test_d2(n_events: int, longest_event_s: float, tilt_max_deg: float) -> float:
    """c = clip((8 - n) / 5, 0, 1); 0 if an event lasts > 1.0 s or tilt > 15 deg."""
    if longest_event_s > spec.D2_EVENT_LIMIT_S or not tilt_max_deg <= spec.D2_TILT_LIMIT_DEG:
        return 0.0
    most, span = spec.D2_EVENTS
    return clip01((most - n_events) / span)


def dynamic(name: str, measured: Mapping[str, float]) -> float:
    """One draw: 0 if tracking > .304 (D2: .5) or tilt > 30 deg (B, C, D1, E: or an event), else the test's credit.

    Args:
        name: `testB` ... `testE`.
        measured: `tracking`, `tilt_max_deg`, `n_events`, `longest_event_s`, `fasm_min`.
    """
    limit = spec.D2_TRACKING_LIMIT if name == "testD2" else spec.TRACKING_LIMIT
    if not measured["tracking"] <= limit:
        return 0.0
    if not measured["tilt_max_deg"] <= spec.TILT_LIMIT_DEG:
        return 0.0
    n_events, tilt, fasm = int(measured["n_events"]), measured["tilt_max_deg"], measured["fasm_min"]
    if name == "testD2":
        return test_d2(n_events, measured["longest_event_s"], tilt)
    if n_events:
        return 0.0
    if name == "testC":
        return test_c(fasm, tilt)
    return test_d1(fasm) if name == "testD1" else margin_credit(fasm)


def arm_credits(rows: Sequence[Row], arm: str) -> dict[str, float]:
    """Every checkpoint of one arm: mean of its rows = sum_i s_i / n; shelf x 1[first trial repeated].

    still_valid = 1[min of the S1 credits = 1]. A test without rows earns 0.
    """
    by_test: dict[str, list[Row]] = {}
    for row in rows:
        owner, _, test = row.group.partition("/")
        if owner == arm:
            by_test.setdefault(test, []).append(row)
    credits = {cp: _mean(by_test.get(test, ())) for cp, test in TEST_OF.items()}
    known = by_test[DESIGN][0].metrics if DESIGN in by_test else {}
    credits.update({cp: float(known.get(cp) or 0.0) for cp in BY_DESIGN})
    if _mean(by_test.get(REPEAT, ())) < 1.0:
        credits.update(dict.fromkeys(SHELF, 0.0))
    credits[STILL_VALID] = float(min(credits[cp] for cp in VALIDITY) >= 1.0 - 1e-12)
    return {cp: credits[cp] for cp in spec.WEIGHTS}


def _mean(rows: Sequence[Row]) -> float:
    return float(np.mean([row.score for row in rows])) if rows else 0.0


def worst_credits(
    rows: Sequence[Row], arms: Sequence[str] = spec.ARM_NAMES
) -> tuple[dict[str, float], dict[str, str]]:
    """c = min over arms of c_arm, and the arm that limits each checkpoint."""
    per_arm = {arm: arm_credits(rows, arm) for arm in arms}
    limiting = {cp: min(arms, key=lambda a: per_arm[a][cp]) for cp in spec.WEIGHTS}
    return {cp: per_arm[limiting[cp]][cp] for cp in spec.WEIGHTS}, limiting


def stage_total(credits: Mapping[str, float], stage: str) -> float:
    """T_stage = sum over its checkpoints of w c."""
    return math.fsum(spec.WEIGHTS[cp] * credits[cp] for cp in spec.STAGES[stage])


def resampled_scores(rows: Sequence[Row], picks: np.ndarray) -> np.ndarray:
    """Totals before the gate when rows are drawn again: each test's mean = sum w s / sum w.

    Chassis rows and tests that a draw leaves out keep their measured value; min over arms as always.

    Args:
        rows: All rows of a run.
        picks: Row indices, shape (B, n).

    Returns:
        Shape (B,).
    """
    n_draws, n = picks.shape
    flat = picks + n * np.arange(n_draws)[:, None]
    weight = np.bincount(flat.ravel(), minlength=n_draws * n).reshape(n_draws, n)
    score_of = np.array([row.score for row in rows])
    total = np.zeros(n_draws)
    measured = {arm: arm_credits(rows, arm) for arm in spec.ARM_NAMES}
    drawn: dict[str, dict[str, np.ndarray]] = {arm: {} for arm in spec.ARM_NAMES}
    for arm in spec.ARM_NAMES:
        for cp in spec.WEIGHTS:
            group = f"{arm}/{TEST_OF.get(cp, '')}"
            mine = np.array([row.group == group for row in rows])
            count = weight[:, mine].sum(axis=1)
            mean = weight[:, mine] @ score_of[mine] / np.maximum(count, 1)
            kept = measured[arm][cp]
            voided = cp in SHELF and kept == 0.0
            drawn[arm][cp] = np.where((count > 0) & (not voided), mean, kept)
        valid = np.min([drawn[arm][cp] for cp in VALIDITY], axis=0) >= 1.0 - 1e-12
        drawn[arm][STILL_VALID] = valid.astype(float)
    for cp, w in spec.WEIGHTS.items():
        total += w * np.min([drawn[arm][cp] for arm in spec.ARM_NAMES], axis=0)
    return total


def score(credits: Mapping[str, float]) -> tuple[float, float]:
    """total = sum w c; reward = total, or min(total, .15) if S1.load or S1.structure is below 1.

    Returns:
        (reward, total).
    """
    total = math.fsum(w * credits[cp] for cp, w in spec.WEIGHTS.items())
    is_open = all(credits[cp] >= 1.0 - 1e-12 for cp in spec.GATES)
    return gate(total, is_open, spec.GATE_CAP), total
