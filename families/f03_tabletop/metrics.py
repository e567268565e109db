"""M of f03. Pure functions; each docstring is the card's equation."""

import math
from collections.abc import Sequence

import numpy as np

from families.f03_tabletop import spec as s
from rle.scoring import clip01


def tower_optimum_m(scales: Sequence[float]) -> float:
    """H_opt = sum_i f_i + max_c E_c over the pieces c with f_c = 0, each length times its drawn scale.

    Args:
        scales: Scale of each piece, in the order of `spec.PIECES`. Shape (12,).

    Returns:
        Height of one column of all flat faces plus the best cap, m.
    """
    column = sum(scale * p.column_m for scale, p in zip(scales, s.PIECES, strict=True))
    caps = [scale * p.cap_m for scale, p in zip(scales, s.PIECES, strict=True) if p.column_m == 0.0]
    return column + max(caps)


def flat_stack_m(scales: Sequence[float]) -> float:
    """H_flat = sum_i f_i: boxes, flat plates and upright cylinders, the published normaliser, m."""
    return sum(scale * p.column_m for scale, p in zip(scales, s.PIECES, strict=True))


def tower(height_m: float, optimum_m: float) -> float:
    """R = clip(h / H_opt, 0, 1).

    Raises:
        ValueError: A non-finite height: a bug, not a zero.
    """
    return clip01(_finite("height_m", height_m) / optimum_m)


def cantilever(overhang_m: float) -> float:
    """R = clip(o / o_opt, 0, 1), o_opt = (15 - 4 sqrt 2)/8 L.

    Raises:
        ValueError: A non-finite overhang.
    """
    return clip01(_finite("overhang_m", overhang_m) / s.CANTILEVER_OPT_M)


def balance(on_mat: frozenset[int], heavy: int, weighings: int) -> float:
    """R = 0 unless the mat set == {heavy}; else 1 if w <= 2, else 2/w.

    Args:
        on_mat: Cubes on the mat.
        heavy: The heavy one.
        weighings: Counted weighings w.
    """
    if on_mat != {heavy}:
        return 0.0
    return 1.0 if weighings <= s.WEIGHINGS_FREE else s.WEIGHINGS_FREE / weighings


def pocket_cube(solved: bool, turns: object, optimum: int, unclassified: object) -> float:
    """g = 2^(-max(0, q/q* - 1)); R = 0 if not solved, min(g, 0.5) if unclassified > 0, else g.

    A counter that is missing, negative or not an integer is R = 0.

    Args:
        solved: The simulator confirmed the solve.
        turns: Counted quarter turns q.
        optimum: Exact optimum q* of the scramble, > 0.
        unclassified: Transitions that are no single turn.
    """
    counters = (turns, unclassified)
    if not solved or any(type(v) is not int or v < 0 for v in counters):
        return 0.0
    g = 2.0 ** -max(0.0, turns / optimum - 1.0)  # ty: ignore[unsupported-operator]
    return min(g, 0.5) if unclassified else g


def hidden_com(correct: Sequence[bool]) -> float:
    """R = (1/3) sum_i 1[answer i is right]; a box never answered is wrong.

    Args:
        correct: One entry per box that was answered.
    """
    return sum(bool(c) for c in correct) / s.BOXES


def _finite(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{name} is {value}: a measurement must be finite")
    return float(value)


def score(trial_scores: Sequence[float]) -> float:
    """reward = (1/n) sum_i R_i over the task's trials (one; three boxes for hidden-com); 0 without any."""
    return float(np.mean(trial_scores)) if len(trial_scores) else 0.0
