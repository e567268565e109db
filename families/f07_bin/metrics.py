"""M of f07. Pure functions, plain numbers in and float out; each docstring is the card's equation."""

from typing import NamedTuple

from families.f07_bin import spec
from rle.scoring import clip01


class Outcome(NamedTuple):
    """What was measured on one pile."""

    n: int
    """Parts drawn."""
    cleared: int
    """Parts cleared, n_c."""
    last_clear_s: float
    """Time of the last clearing; only read when all parts were cleared."""
    floor: int
    """Parts that fell to the floor, N_floor."""
    damage: int
    """Parts that were bent, N_damage."""
    bin_hits: int
    """Hits of the bin, N_bin."""


class Terms(NamedTuple):
    """The score of one pile with everything it is made of."""

    f: float
    h: float
    den_s: float
    p: float
    clean: float
    score: float


def cleared_share(n: int, cleared: int) -> float:
    """f = n_c / n.

    Raises:
        ValueError: No parts, or more cleared than there are.
    """
    if n < 1 or not 0 <= cleared <= n:
        raise ValueError(f"cleared_share needs 0 <= cleared <= n and n >= 1, got {cleared} of {n}")
    return cleared / n


def partial_credit(f: float) -> float:
    """h(f) = f / 6 for f <= 0.6, else 0.1 + 0.9 ((f - 0.6) / 0.4)^3: the last parts count most."""
    if f <= spec.H_KNEE:
        return spec.H_AT_KNEE * f / spec.H_KNEE
    return spec.H_AT_KNEE + (1.0 - spec.H_AT_KNEE) * ((f - spec.H_KNEE) / (1.0 - spec.H_KNEE)) ** 3


def denominator_s(f: float, last_clear_s: float) -> float:
    """den = last clear time if f = 1, else the whole episode, also when it stopped early."""
    return last_clear_s if f == 1.0 else spec.EPISODE_S


def throughput_ppm(cleared: int, den_s: float) -> float:
    """p = 60 n_c / den, parts per minute."""
    return 60.0 * cleared / den_s


def is_clean(f: float, floor: int, damage: int, bin_hits: int) -> float:
    """I = 1[f = 1 and N_floor = N_damage = N_bin = 0]."""
    return float(f == 1.0 and floor == damage == bin_hits == 0)


def score(outcome: Outcome) -> Terms:
    """s = clip(0.30 I + 0.35 h + 0.20 min(p/10, 1) + 0.15 I min(p/15, 1) - deductions, 0, 1),

    deductions = 0.03 N_floor + 0.05 N_damage + 0.05 N_bin.
    """
    f = cleared_share(outcome.n, outcome.cleared)
    h = partial_credit(f)
    den_s = denominator_s(f, outcome.last_clear_s)
    p = throughput_ppm(outcome.cleared, den_s)
    clean = is_clean(f, outcome.floor, outcome.damage, outcome.bin_hits)
    earned = (
        spec.WEIGHT_CLEAN * clean
        + spec.WEIGHT_CLEARED * h
        + spec.WEIGHT_RATE * min(p / spec.RATE_FULL_PPM, 1.0)
        + spec.WEIGHT_CLEAN_RATE * clean * min(p / spec.CLEAN_RATE_FULL_PPM, 1.0)
    )
    deducted = (
        spec.DEDUCT_FLOOR * outcome.floor
        + spec.DEDUCT_DAMAGE * outcome.damage
        + spec.DEDUCT_BIN * outcome.bin_hits
    )
    return Terms(f, h, den_s, p, clean, clip01(earned - deducted))
