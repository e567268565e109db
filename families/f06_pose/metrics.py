"""M of f06. Pure functions, numbers in and float out; each docstring is the card's equation."""

import math
from collections.abc import Sequence

import numpy as np

from families.f06_pose import spec
from rle.report import Row

Pose = Sequence[float]
"""x and y in m, theta in rad."""
STAGE_A, STAGE_B = "a", "b"


def errors(answer: Pose | None, truth: Pose) -> tuple[float, float]:
    """e_xy = hypot(x - x*, y - y*), e_theta = |wrap(theta - theta*)|; both inf without an answer.

    Args:
        answer: The estimate; None, a non-finite number, or |x| or |y| > 0.45 m is no answer.
        truth: The block's pose.

    Returns:
        Errors in m and rad.
    """
    if answer is None or not all(map(math.isfinite, answer)):
        return math.inf, math.inf
    x, y, theta = answer
    if max(abs(x), abs(y)) > spec.POSE_LIMIT_M:
        return math.inf, math.inf
    yaw = abs(math.remainder(theta - truth[2], 2.0 * math.pi))
    return math.hypot(x - truth[0], y - truth[1]), yaw


def worst_mean(values: Sequence[float]) -> float:
    """bar(e) = mean of the 5 largest values, or of all where there are fewer: >= the mean of all."""
    return float(np.mean(sorted(values)[-spec.GROUP_WORST_N :]))


def kernel(value: float, width: float) -> float:
    """k = exp(-(value / width)^2), in [0, 1]; exp(-inf) = 0."""
    return math.exp(-((value / width) ** 2)) if math.isfinite(value) else 0.0


def group_score(
    xy_m: Sequence[float], yaw_rad: Sequence[float], ids_right: Sequence[bool]
) -> float:
    """g = [all ids right] (0.5 k(bar(e_xy), 10 mm) + 0.5 k(bar(e_theta), 0.1 rad)).

    Args:
        xy_m: Position errors of a group's frames.
        yaw_rad: Yaw errors, ranked on their own.
        ids_right: Whether each frame's shape id is right; False for an unanswered frame.

    Raises:
        ValueError: No frame, or sequences of different length.
    """
    if not 0 < len(xy_m) == len(yaw_rad) == len(ids_right):
        raise ValueError(f"a group has {len(xy_m)}, {len(yaw_rad)} and {len(ids_right)} frames")
    if not all(ids_right):
        return 0.0
    position = kernel(worst_mean(xy_m), spec.KERNEL_XY_M)
    yaw = kernel(worst_mean(yaw_rad), spec.KERNEL_YAW_RAD)
    return spec.WEIGHT_XY * position + spec.WEIGHT_YAW * yaw


def rate_hz(answered: int, charged_s: float) -> float:
    """nu = answered frames / charged seconds over them; 0 where nothing was answered."""
    if answered == 0:
        return 0.0
    return answered / charged_s if charged_s > 0.0 else math.inf


def deduction(nu_hz: float) -> float:
    """D = 0.2 clip((10 - nu) / 9, 0, 1)."""
    span = spec.RATE_FULL_HZ - spec.RATE_ZERO_HZ
    return spec.DEDUCTION_MAX * min(max((spec.RATE_FULL_HZ - nu_hz) / span, 0.0), 1.0)


def resampled_scores(rows: Sequence[Row], picks: np.ndarray) -> np.ndarray:
    """R* = max(0, 0.3 mean g_A + 0.7 mean g_B - D) of resampled rows, each stage over its own draws.

    A draw is taken modulo the size of its stage, so that no stage is ever empty; D is drawn from the
    same rows' frames and charged times.

    Args:
        rows: Of one run.
        picks: Row numbers, shape (B, n).

    Returns:
        Shape (B,).
    """
    values = np.zeros(len(picks))
    answered, charged = np.zeros(len(picks)), np.zeros(len(picks))
    for stage, weight in ((STAGE_A, spec.WEIGHT_A), (STAGE_B, spec.WEIGHT_B)):
        where = [i for i, row in enumerate(rows) if row.group == stage]
        if not where:
            continue
        drawn = np.array(where)[picks[:, where] % len(where)]
        values += weight * np.array([row.score for row in rows])[drawn].mean(axis=1)
        answered += np.array([row.metrics.get("answered") or 0.0 for row in rows])[drawn].sum(1)
        charged += np.array([row.metrics.get("update_s") or 0.0 for row in rows])[drawn].sum(1)
    rates = [rate_hz(int(n), s) for n, s in zip(answered, charged, strict=True)]
    return np.maximum(values - np.array([deduction(nu) for nu in rates]), 0.0)


def score(g_a: Sequence[float], g_b: Sequence[float], nu_hz: float) -> float:
    """R = max(0, 0.3 mean g_A + 0.7 mean g_B - D).

    Args:
        g_a: Scores of stage A's groups.
        g_b: Scores of stage B's pushes.
        nu_hz: Rate of inference.
    """
    mean_a = float(np.mean(g_a)) if len(g_a) else 0.0
    mean_b = float(np.mean(g_b)) if len(g_b) else 0.0
    return max(0.0, spec.WEIGHT_A * mean_a + spec.WEIGHT_B * mean_b - deduction(nu_hz))
