"""M of f04. Pure functions; each docstring is the card's equation.

The geometry (`anchoring`, `re_anchor`, `body_error`) works on batches of N robots, with numpy arrays or
torch tensors (`xp` is the array module), because training and scoring must measure the same error.
"""

from typing import Any, NamedTuple

import numpy as np

from families.f04_tracking import spec
from rle import rotations
from rle.scoring import clip01

Array = Any
"""A numpy array or a torch tensor."""


class Anchoring(NamedTuple):
    """The planar motion that takes the reference to the robot, as far as drift is free."""

    from_m: Array
    """Reference anchor p_r, shape (N, 3)."""
    to_m: Array
    """(p_r,xy + d', p_r,z), shape (N, 3)."""
    yaw_rad: Array
    """psi', shape (N,)."""
    drift_m: Array
    """|d|, all of it, shape (N,)."""
    yaw_drift_rad: Array
    """psi, all of it, shape (N,)."""


def anchoring(
    ref_pos: Array, ref_quat_wxyz: Array, pos: Array, quat_wxyz: Array, xp: Any = np
) -> Anchoring:
    """d = p_xy - p_r,xy;  d' = d min(1, DRIFT_FREE_M / |d|);  psi = yaw(q q_r^-1);  psi' = clip(psi).

    Args:
        ref_pos: Reference anchor p_r, shape (N, 3), m, world.
        ref_quat_wxyz: Reference anchor q_r, shape (N, 4).
        pos: Robot anchor p, shape (N, 3), m, world.
        quat_wxyz: Robot anchor q, shape (N, 4).
        xp: `numpy` or `torch`.
    """
    offset = pos[:, :2] - ref_pos[:, :2]
    drift = (offset * offset).sum(-1) ** 0.5
    kept = offset * (spec.DRIFT_FREE_M / drift.clip(spec.DRIFT_FREE_M, None))[:, None]
    to = xp.concatenate([ref_pos[:, :2] + kept, ref_pos[:, 2:]], 1)
    turn = rotations.matrix(quat_wxyz) @ rotations.matrix(ref_quat_wxyz).swapaxes(-1, -2)
    yaw = xp.arctan2(turn[:, 1, 0], turn[:, 0, 0])
    free = yaw.clip(-spec.DRIFT_FREE_RAD, spec.DRIFT_FREE_RAD)
    return Anchoring(from_m=ref_pos, to_m=to, yaw_rad=free, drift_m=drift, yaw_drift_rad=yaw)


def re_anchor(anchor: Anchoring, ref_body_pos: Array, xp: Any = np) -> Array:
    """p_ref'_j = R_z(psi') (p_j - p_r) + (p_r,xy + d', p_r,z). Shapes (N, J, 3), m, world."""
    cos, sin = xp.cos(anchor.yaw_rad)[:, None], xp.sin(anchor.yaw_rad)[:, None]
    arm = ref_body_pos - anchor.from_m[:, None, :]
    x, y = arm[..., 0], arm[..., 1]
    turned = xp.stack([cos * x - sin * y, sin * x + cos * y, arm[..., 2]], -1)
    return turned + anchor.to_m[:, None, :]


def body_error(body_pos: Array, re_anchored_pos: Array) -> Array:
    """e_t = (1/J) sum_j |p_j - p_ref'_j|, m. Shapes (N, J, 3) to (N,)."""
    offset = body_pos - re_anchored_pos
    return ((offset * offset).sum(-1) ** 0.5).mean(-1)


def tracking(
    error_m: np.ndarray,
    steps: int = spec.STEPS,
    sigmas_m: tuple[float, ...] = spec.KERNEL_SIGMA_M,
) -> float:
    """T = (1/1000) sum over executed t of mean over sigma in (.30, .10, .05) m of exp(-e_t^2/sigma^2).

    A step that was not executed earns nothing.

    Args:
        error_m: e_t of the executed steps, shape (n,), n <= steps.
        steps: Length of a full trial.
        sigmas_m: Widths of the kernel.

    Raises:
        ValueError: A non-finite or negative error, or more errors than steps. Unstable physics ends a
            trial before it is measured; here it would be a bug.
    """
    error_m = np.asarray(error_m, dtype=float)
    if len(error_m) > steps:
        raise ValueError(f"{len(error_m)} errors for {steps} steps")
    if not (np.isfinite(error_m).all() and (error_m >= 0.0).all()):
        raise ValueError("error_m has a non-finite or negative value")
    kernel = np.exp(-np.square(error_m[:, None] / np.array(sigmas_m))).mean(axis=1)
    return float(kernel.sum() / steps)


def survival(executed: int, steps: int = spec.STEPS) -> float:
    """U = executed steps / 1000.

    Raises:
        ValueError: More executed steps than there are.
    """
    if not 0 <= executed <= steps:
        raise ValueError(f"{executed} executed steps of {steps}")
    return executed / steps


def jerk(action: np.ndarray) -> float:
    """J = mean over executed steps and joints of |a_k - 2 a_{k-1} + a_{k-2}|; 0 with less than 3.

    Args:
        action: Raw actions of the executed steps, shape (n, 29).

    Raises:
        ValueError: A non-finite action; it ends a trial and is never executed.
    """
    if not np.isfinite(action).all():
        raise ValueError("action has a non-finite value")
    if len(action) < 3:
        return 0.0
    return float(np.abs(np.diff(np.asarray(action, dtype=float), n=2, axis=0)).mean())


def reference_jerk(joint_pos: np.ndarray) -> float:
    """J_ref = J of the actions (q_ref - q_default) / scale, which command the clip's own angles.

    Args:
        joint_pos: Reference joint positions, shape (T, 29), rad.
    """
    return jerk((joint_pos - np.array(spec.DEFAULT_POSE_RAD)) / np.array(spec.ACTION_SCALE_RAD))


def jerk_limit(joint_pos: np.ndarray) -> float:
    """J_max = 2 (J_ref + J_FEEDBACK). Args: reference joint positions, shape (T, 29), rad."""
    return spec.JERK_LIMIT_FACTOR * (reference_jerk(joint_pos) + spec.J_FEEDBACK)


def recovery_s(error_m: np.ndarray, push_step: int) -> float | None:
    """Time from a push until e_t <= RECOVERY_FACTOR x mean e of the second before it.

    Args:
        error_m: e_t of the executed steps, shape (n,); error_m[k] is measured at the end of step k.
        push_step: Step at whose start the push was added.

    Returns:
        Seconds; 0 where the error never grew past that level, None where it did not come back.
    """
    window = round(spec.RECOVERY_WINDOW_S * spec.CONTROL_HZ)
    before, after = error_m[max(push_step - window, 0) : push_step], error_m[push_step:]
    if len(before) == 0 or len(after) == 0:
        return None
    calm = after <= spec.RECOVERY_FACTOR * before.mean()
    if calm.all():
        return 0.0
    first_excess = int(np.argmin(calm))
    back = np.flatnonzero(calm[first_excess:])
    return float(first_excess + back[0] + 1) / spec.CONTROL_HZ if len(back) else None


def training_reward(
    robot: Any,
    state: Any,
    target: Any,
    moved: Anchoring,
    action: Array,
    previous_action: Array,
    joint_range_rad: tuple[Array, Array],
    xp: Any = np,
) -> tuple[Array, dict[str, Array]]:
    """r = dt (sum_i w_i exp(-e_i^2 / s_i^2) + sum_j w_j c_j), weights of `spec.TRAIN_REWARD`. Not scored.

    e_i: position and angle of the anchor in the world; root of the mean of squares over the 14 bodies of
    position, angle, linear and angular velocity against the re-anchored reference. c_j: |a_k - a_{k-1}|^2,
    excess over the soft joint range (rad), counted bodies in contact.

    Args:
        robot: `policy.Robot` of N robots.
        state: Has `body_lin_vel`, `body_ang_vel` (N, 14, 3) in the world, and `contact_bodies` (N,).
        target: `policy.Target` of the same instant.
        moved: Anchoring of the reference to the robots.
        action: a_k, shape (N, 29).
        previous_action: a_{k-1}, shape (N, 29).
        joint_range_rad: Lower and upper limits, shape (29,) each.
        xp: `numpy` or `torch`.

    Returns:
        Reward, shape (N,), and its terms before the factor dt.
    """
    r, anchor = spec.TRAIN_REWARD, spec.ANCHOR_INDEX
    zero = xp.zeros_like(moved.yaw_rad)
    turn = rotations.from_rpy(zero, zero, moved.yaw_rad, xp=xp)[:, None]
    turn_matrix = rotations.matrix(turn)

    def mean_square(error: Array) -> Array:
        return (error * error).sum(-1).mean(-1)

    def turned(vectors: Array) -> Array:
        return (turn_matrix @ vectors[..., None])[..., 0]

    def angle_square(a: Array, b: Array) -> Array:
        return (2.0 * xp.arccos(abs((a * b).sum(-1)).clip(0.0, 1.0))) ** 2

    quat, ref_quat = robot.body_quat_wxyz, target.body_quat_wxyz
    place = (robot.body_pos[:, anchor] - target.body_pos[:, anchor]) ** 2
    body_off = robot.body_pos - re_anchor(moved, target.body_pos, xp)
    squares = {
        "anchor_pos": (r.anchor_pos, place.sum(-1)),
        "anchor_ori": (r.anchor_ori, angle_square(quat[:, anchor], ref_quat[:, anchor])),
        "body_pos": (r.body_pos, mean_square(body_off)),
        "body_ori": (r.body_ori, angle_square(quat, rotations.product(turn, ref_quat)).mean(-1)),
        "body_lin_vel": (
            r.body_lin_vel,
            mean_square(state.body_lin_vel - turned(target.body_lin_vel)),
        ),
        "body_ang_vel": (
            r.body_ang_vel,
            mean_square(state.body_ang_vel - turned(target.body_ang_vel)),
        ),
    }
    terms = {k: t.weight * xp.exp(-e / t.sigma**2) for k, (t, e) in squares.items()}
    low, high = joint_range_rad
    middle, half = (low + high) / 2.0, (high - low) / 2.0 * r.soft_limit_fraction
    excess = (abs(robot.joint_pos - middle) - half).clip(0.0, None).sum(-1)
    terms["action_rate"] = r.action_rate_weight * ((action - previous_action) ** 2).sum(-1)
    terms["joint_limit"] = r.joint_limit_weight * excess
    terms["self_contact"] = r.self_contact_weight * state.contact_bodies
    return spec.CONTROL_PERIOD_S * sum(terms.values()), terms


def score(tracking: float, survival: float, jerk: float, jerk_limit: float, fall: bool) -> float:
    """s = clip(0.7 T + 0.3 U - 0.15 min(J / J_max, 1) - 0.05 F, 0, 1)."""
    w = spec.SCORE
    cost = w.jerk * min(jerk / jerk_limit, 1.0) + w.fall * float(fall)
    return clip01(w.tracking * tracking + w.survival * survival - cost)
