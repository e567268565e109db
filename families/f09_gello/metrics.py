"""M of f09. Pure functions, numbers in and floats out; each docstring is the card's equation."""

import math
from collections.abc import Mapping

from families.f09_gello.spec import (
    BAR_CREDIT,
    CHECKPOINT_WEIGHT,
    CHECKPOINTS,
    HEADROOM_BACKDRIVE_CREDIT,
    MARKS,
    PROTOCOL,
    SERVO,
    VALIDITY_WEIGHTS,
    Marks,
)
from rle.scoring import clip01, linear_credit


def log_credit(x: float, marks: Marks) -> float:
    """Credit of a smaller-is-better x, piecewise linear in ln x.

        c = 1                                     x <= best
            0.6 + 0.4 ln(bar/x) / ln(bar/best)    best < x <= bar
            0.6 ln(zero/x) / ln(zero/bar)         bar < x < zero
            0                                     x >= zero, or x not finite

    Args:
        x: Measurement, in the unit of `marks`; not negative.
        marks: zero > bar > best > 0.
    """
    if not math.isfinite(x) or x >= marks.zero:
        return 0.0
    if x <= marks.best:
        return 1.0
    if x <= marks.bar:
        return BAR_CREDIT + (1 - BAR_CREDIT) * math.log(marks.bar / x) / math.log(
            marks.bar / marks.best
        )
    return BAR_CREDIT * math.log(marks.zero / x) / math.log(marks.zero / marks.bar)


def clearance_credit(share_clear: float, residual_credit: float) -> float:
    """C1 = s min(1, 2 c_H1): clearance is paid only for a mechanism that compensates."""
    return clip01(share_clear) * min(1.0, 2.0 * residual_credit)


def headroom_n_m(largest_ff_n_m: float) -> float:
    """h = limit - max |ff|, N m; negative where the feedforward asks more than a servo gives."""
    return SERVO.limit_n_m - largest_ff_n_m


def headroom_credit(h_n_m: float, backdrive_credit: float, marks: Marks) -> float:
    """B3 = min(1, c_B2 / 0.6) p(h), p piecewise linear through (0, 0), (bar, 0.6), (best, 1)."""
    if not math.isfinite(h_n_m) or h_n_m <= 0:
        return 0.0
    if h_n_m <= marks.bar:
        p = BAR_CREDIT * h_n_m / marks.bar
    else:
        p = BAR_CREDIT + (1 - BAR_CREDIT) * clip01((h_n_m - marks.bar) / (marks.best - marks.bar))
    return min(1.0, backdrive_credit / HEADROOM_BACKDRIVE_CREDIT) * p


def push_m(peak_m: float, final_m: float) -> float:
    """x_B4 = max(final, peak / 20): a violent swing is no recovery, even if it ends where it began."""
    return max(final_m, peak_m / PROTOCOL.push_peak_divisor)


def settle_shortfall(speed_rad_s: float) -> float:
    """v = clip((speed - 0.10) / (0.15 - 0.10), 0, 1), rad/s; 1 for a non-finite speed."""
    return 1.0 - linear_credit(speed_rad_s, PROTOCOL.settle_full_rad_s, PROTOCOL.settle_zero_rad_s)


def checkpoint_credits(arm: str, x: Mapping[str, float]) -> dict[str, float]:
    """c_i of the ten checkpoints: C1 = s min(1, 2 c_H1), B3 from h and c_B2, the others c(x_i).

    Args:
        arm: Name of the arm, which chooses the marks.
        x: Measurement of each checkpoint in `spec.UNITS`; a missing one was not measured and earns 0.
            C1 is the share of clear paths, B3 the headroom h.
    """
    marks = MARKS[arm]
    c = {
        key: log_credit(x.get(key, math.inf), marks[key])
        for key in CHECKPOINTS
        if key not in ("C1", "B3")
    }
    c["C1"] = clearance_credit(x.get("C1", 0.0), c["H1"])
    c["B3"] = headroom_credit(x.get("B3", 0.0), c["B2"], marks["B3"])
    return {key: c[key] for key in CHECKPOINTS}


def deductions(shortfall: Mapping[str, float]) -> dict[str, float]:
    """d_v = w_v x shortfall_v of each validity item, shortfall in [0, 1]; a missing one counts as 1."""
    return {
        item: weight * clip01(shortfall.get(item, 1.0)) for item, weight in VALIDITY_WEIGHTS.items()
    }


def arm_reward(credit: Mapping[str, float], deduction: Mapping[str, float]) -> float:
    """r = max(0, sum_i 0.10 c_i - sum_v d_v)."""
    raw = sum(CHECKPOINT_WEIGHT * credit[key] for key in CHECKPOINTS)
    return max(0.0, raw - sum(deduction[item] for item in VALIDITY_WEIGHTS))


def score(arm_rewards: Mapping[str, float]) -> float:
    """reward = (1/3) sum_arm r_arm; an arm that was not submitted counts as 0."""
    return sum(arm_rewards.get(arm, 0.0) for arm in MARKS) / len(MARKS)
