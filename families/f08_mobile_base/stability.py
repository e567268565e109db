"""Support polygon, static margin, force-angle margin and wheel support, on arrays. No simulator.

Frames: points and forces are in one right-handed frame whose z axis is the terrain normal (world frame
on level ground); support polygons live in its x-y plane. Lengths in m, forces in N, angles in rad.
"""

import math

import numpy as np

from families.f08_mobile_base import spec

_DIRECTIONS = np.array([[np.cos(a), np.sin(a)] for a in np.pi / 8 * np.arange(16)])
_PREFILTER_FROM = 80
"""From this many points on, points inside the polygon of the extremes are dropped first."""


def convex_hull(points_m: np.ndarray) -> np.ndarray:
    """Convex hull by monotone chain, seen along z.

    Args:
        points_m: Shape (n, 2), or (n, 3) to keep the height of every corner.

    Returns:
        Corners counter-clockwise, shape (k, 2) or (k, 3). Fewer than three where the points are
        collinear.
    """
    points = np.asarray(points_m, dtype=float)
    return np.array(_hull(points)).reshape(-1, points.shape[1])


def _hull(points: np.ndarray) -> list[list[float]]:
    if len(points) >= _PREFILTER_FROM:
        points = _outer(points)
    ordered = sorted(points.tolist())
    if len(ordered) < 2:
        return ordered
    return _chain(ordered) + _chain(ordered[::-1])


def _chain(ordered: list[list[float]]) -> list[list[float]]:
    """Lower hull of points sorted by x (upper hull if reversed), without its last point."""
    hull: list[list[float]] = []
    for point in ordered:
        px, py = point[0], point[1]
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (b[0] - a[0]) * (py - a[1]) - (b[1] - a[1]) * (px - a[0]) > 0.0:
                break
            hull.pop()
        hull.append(point)
    return hull[:-1]


def _outer(points: np.ndarray) -> np.ndarray:
    """Points that are not strictly inside the polygon of the extremes in sixteen directions."""
    flat = points[:, :2]
    extreme = flat[(flat @ _DIRECTIONS.T).argmax(axis=0)]
    edge = np.roll(extreme, -1, axis=0) - extreme
    edge = edge[(edge != 0.0).any(axis=1)]
    start = extreme[(np.roll(extreme, -1, axis=0) != extreme).any(axis=1)]
    side = np.outer(flat[:, 1], edge[:, 0]) - np.outer(flat[:, 0], edge[:, 1])
    side -= start[:, 1] * edge[:, 0] - start[:, 0] * edge[:, 1]
    return points[~(side > 1e-12).all(axis=1)] if len(edge) > 2 else points


def signed_distance(point_m: np.ndarray, corners_m: np.ndarray) -> np.ndarray:
    """Distance of points to the border of a convex polygon, positive inside.

    Args:
        point_m: Shape (..., 2).
        corners_m: Counter-clockwise, shape (k, 2).

    Returns:
        Shape (...): the smallest inward distance to an edge if inside, else minus the distance to the
        polygon. With fewer than three corners it has no inside; without any, minus infinity.
    """
    point = np.asarray(point_m, dtype=float)
    if len(corners_m) == 0:
        return np.full(point.shape[:-1], -np.inf)
    edge = np.roll(corners_m, -1, axis=0) - corners_m
    offset = point[..., None, :] - corners_m
    length2 = np.maximum((edge**2).sum(axis=-1), 1e-18)
    along = np.clip((offset * edge).sum(axis=-1) / length2, 0.0, 1.0)
    away = offset - along[..., None] * edge
    nearest = np.sqrt((away**2).sum(axis=-1).min(axis=-1))
    if len(corners_m) < 3:
        return -nearest
    cross = edge[:, 0] * offset[..., 1] - edge[:, 1] * offset[..., 0]
    inward = (cross / np.sqrt(length2)).min(axis=-1)
    return np.where(inward >= 0.0, inward, -nearest)


def project_along_gravity(
    centre_m: np.ndarray, gravity: np.ndarray, height_m: float = 0.0
) -> np.ndarray:
    """Where the line through the mass centre along gravity meets the plane z = height_m. Shape (2,)."""
    step = (height_m - centre_m[2]) / gravity[2]
    return np.asarray(centre_m[:2] + step * gravity[:2])


def static_margin(centre_m: np.ndarray, gravity: np.ndarray, contacts_m: np.ndarray) -> float:
    """SSM: signed distance of the mass centre's projection to the hull of the contacts.

    Args:
        centre_m: Mass centre, shape (3,).
        gravity: Gravity vector, shape (3,); only its direction counts.
        contacts_m: Loaded contact points, shape (n, 3).
    """
    if len(contacts_m) == 0:
        return -np.inf
    ground_z = float(contacts_m[:, 2].mean())
    point = project_along_gravity(centre_m, gravity, ground_z)
    return float(signed_distance(point, convex_hull(contacts_m[:, :2])))


def force_angle_margin(centre_m: np.ndarray, net_n: np.ndarray, contacts_m: np.ndarray) -> float:
    """FASM = min over hull edges of theta |f_a| |l|, theta = atan2((l x f_a) . a, f_a . l).

    a is the unit edge (counter-clockwise), l the shortest vector from the mass centre to the edge's
    line (normalised inside atan2), f_a the part of f orthogonal to a. Negative: f points past the edge
    and the robot tips over it.

    Args:
        centre_m: Mass centre, shape (3,).
        net_n: f = -(sum of contact forces on the robot), shape (3,), N.
        contacts_m: Loaded contact points, shape (n, 3).

    Returns:
        N m rad. 0 where the contacts span no edge longer than `MIN_EDGE_M` or no area.
    """
    corners = _hull(np.asarray(contacts_m, dtype=float)) if len(contacts_m) > 2 else []
    if len(corners) < 3:
        return 0.0
    cx, cy, cz = (float(v) for v in centre_m)
    fx, fy, fz = (float(v) for v in net_n)
    worst = math.inf
    for (x, y, z), (x1, y1, z1) in zip(corners, corners[1:] + corners[:1]):
        length = math.sqrt((x1 - x) ** 2 + (y1 - y) ** 2 + (z1 - z) ** 2)
        if length <= spec.MIN_EDGE_M:
            continue
        ax, ay, az = (x1 - x) / length, (y1 - y) / length, (z1 - z) / length
        lx, ly, lz = x - cx, y - cy, z - cz
        along = lx * ax + ly * ay + lz * az
        lx, ly, lz = lx - along * ax, ly - along * ay, lz - along * az
        along = fx * ax + fy * ay + fz * az
        gx, gy, gz = fx - along * ax, fy - along * ay, fz - along * az
        lever = math.sqrt(lx * lx + ly * ly + lz * lz)
        force = math.sqrt(gx * gx + gy * gy + gz * gz)
        sine = ax * (ly * gz - lz * gy) + ay * (lz * gx - lx * gz) + az * (lx * gy - ly * gx)
        theta = math.atan2(sine, gx * lx + gy * ly + gz * lz)
        worst = min(worst, theta * force * lever)
    return worst if math.isfinite(worst) else 0.0


def rolling_median(values: np.ndarray, window: int) -> np.ndarray:
    """Median of the last `window` samples at every sample (fewer at the start). Shape (n,)."""
    values = np.asarray(values, dtype=float)
    if window < 1:
        raise ValueError(f"rolling_median needs a window of at least 1 sample, got {window}")
    head = [np.median(values[: i + 1]) for i in range(min(window - 1, len(values)))]
    if len(values) < window:
        return np.array(head)
    windows = np.lib.stride_tricks.sliding_window_view(values, window)
    return np.concatenate([head, np.median(windows, axis=1)])


def moving_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Mean of the last `window` samples at every sample (fewer at the start). Shape as given."""
    values = np.asarray(values, dtype=float)
    total = np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)])
    last = np.arange(1, len(values) + 1)
    first = np.maximum(0, last - window)
    count = (last - first).reshape(-1, *(1,) * (values.ndim - 1))
    return (total[last] - total[first]) / count


def tilt_rad(base_rotation: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Angle between the base's z axis and the terrain normal.

    Args:
        base_rotation: Rotation base to world, shape (..., 3, 3).
        normal: Unit terrain normal, shape (3,).
    """
    cosine = base_rotation[..., :, 2] @ normal
    return np.arccos(np.clip(cosine, -1.0, 1.0))


def lift_off_events(wheel_load_n: np.ndarray, step_s: float) -> list[tuple[float, float]]:
    """Stretches with fewer than `MIN_LOADED_WHEELS` loaded wheels that last more than `LIFT_OFF_S`.

    Args:
        wheel_load_n: Normal force per wheel at every step, shape (n, 4).
        step_s: Time between samples.

    Returns:
        (start, length) of every event in s, in order.
    """
    few = (np.asarray(wheel_load_n) >= spec.WHEEL_LOAD_N).sum(axis=1) < spec.MIN_LOADED_WHEELS
    switch = np.flatnonzero(np.diff(np.concatenate([[0], few.astype(int), [0]])))
    pairs = zip(switch[::2].tolist(), switch[1::2].tolist())
    events = [(a * step_s, (b - a) * step_s) for a, b in pairs]
    return [(start, length) for start, length in events if length > spec.LIFT_OFF_S + 1e-9]


def tracking_error(actual: np.ndarray, command: np.ndarray) -> float:
    """RMS of (ex, ey, sqrt(.3) ew) over RMS of the command with the same weights; 0 / 0 = 0.

    Args:
        actual: Base twist in its own frame (vx, vy, yaw rate), shape (n, 3).
        command: Commanded twist, same shape.
    """
    weight = np.array([1.0, 1.0, spec.YAW_WEIGHT])
    error = float(np.sqrt(np.mean(((actual - command) ** 2) @ weight)))
    size = float(np.sqrt(np.mean((command**2) @ weight)))
    if size == 0.0:
        return 0.0 if error == 0.0 else np.inf
    return error / size
