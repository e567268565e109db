"""Support polygon, static margin, force-angle margin and wheel support, on arrays. No simulator.

Frames: points and forces are in one right-handed frame whose z axis is the terrain normal (world frame
on level ground); support polygons live in its x-y plane. Lengths in m, forces in N, angles in rad.
"""

import numpy as np

from families.f08_mobile_base import spec


def convex_hull(points_m: np.ndarray) -> np.ndarray:
    """Convex hull by monotone chain.

    Args:
        points_m: Shape (n, 2).

    Returns:
        Corners counter-clockwise, shape (k, 2). Fewer than three where the points are collinear.
    """
    ordered = sorted(np.asarray(points_m, dtype=float).tolist())
    if len(ordered) > 1:
        ordered = _chain(ordered) + _chain(ordered[::-1])
    return np.array(ordered).reshape(-1, 2)


def _chain(ordered: list[list[float]]) -> list[list[float]]:
    """Lower hull of points sorted by x (upper hull if reversed), without its last point."""
    hull: list[list[float]] = []
    for x, y in ordered:
        while len(hull) > 1:
            (ax, ay), (bx, by) = hull[-2:]
            if (bx - ax) * (y - ay) - (by - ay) * (x - ax) > 0.0:
                break
            hull.pop()
        hull.append([x, y])
    return hull[:-1]


def hull_loops(points_m: np.ndarray) -> np.ndarray:
    """Corners of the convex hulls, seen along z, of many sets of points at once.

    From the leftmost point the next corner of the lower hull is the one of least slope (of equals, the
    farthest), and so on to the rightmost point; the upper hull is the lower one of the mirrored points.
    All sets and both hulls advance together.

    Args:
        points_m: Shape (..., n, 3), n > 0; points with a NaN are none.

    Returns:
        Counter-clockwise, shape (k, ..., 3). A set with fewer than k corners repeats some of them.
    """
    points = np.asarray(points_m, dtype=float)
    sets, n = points.shape[:-2], points.shape[-2]
    x, y = (points[..., k].reshape(-1, n) for k in (0, 1))
    x, y = np.concatenate([x, x]), np.concatenate([y, -y])
    row = np.arange(len(x))
    leftmost = np.where(np.isnan(x), np.inf, x).min(axis=1)
    here = np.where(x == leftmost[:, None], y, np.inf).argmin(axis=1)
    path = [here]
    while True:
        run, rise = x - x[row, here][:, None], y - y[row, here][:, None]
        slope = np.full(run.shape, np.inf)
        np.divide(rise, run, out=slope, where=run > 0.0)
        least = slope.min(axis=1)
        goes_on = least < np.inf
        if not goes_on.any():
            break
        there = np.where(slope == least[:, None], run, -1.0).argmax(axis=1)
        here = np.where(goes_on, there, here)
        path.append(here)
    lower, upper = np.split(np.stack(path), 2, axis=1)
    loop = np.concatenate([lower, upper[::-1]])
    corners = points.reshape(-1, n, 3)[np.arange(loop.shape[1]), loop]
    return corners.reshape(-1, *sets, 3)


def _edges(contacts_m: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start and end of every hull edge, shape (k, ..., 3), and which are edges, shape (k, ...)."""
    start = hull_loops(contacts_m)
    end = np.roll(start, -1, axis=0)
    return start, end, (np.abs(end - start)[..., :2] > 0.0).any(axis=-1)


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
    edge = np.concatenate([corners_m[1:], corners_m[:1]]) - corners_m
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
    centre_m: np.ndarray, gravity: np.ndarray, height_m: np.ndarray | float = 0.0
) -> np.ndarray:
    """Where the line through the mass centre along gravity meets the plane z = height_m.

    Args:
        centre_m: Shape (..., 3).
        gravity: Shape (3,); only its direction counts.
        height_m: Shape (...).

    Returns:
        Shape (..., 2).
    """
    step = (height_m - centre_m[..., 2]) / gravity[2]
    return centre_m[..., :2] + np.asarray(step)[..., None] * gravity[:2]


def static_margin(centre_m: np.ndarray, gravity: np.ndarray, contacts_m: np.ndarray) -> np.ndarray:
    """SSM: signed distance of the mass centre's projection to the hull of the contacts.

    Args:
        centre_m: Mass centre, shape (..., 3).
        gravity: Gravity vector, shape (3,); only its direction counts.
        contacts_m: Loaded contact points, shape (..., n, 3); NaN for none.

    Returns:
        Shape (...): positive inside; minus infinity without a contact.
    """
    some = np.isfinite(contacts_m[..., 0])
    count = some.sum(axis=-1)
    ground_z = np.where(some, contacts_m[..., 2], 0.0).sum(axis=-1) / np.maximum(count, 1)
    point = project_along_gravity(np.asarray(centre_m), gravity, ground_z)
    away = np.linalg.norm(contacts_m[..., :2] - point[..., None, :], axis=-1)
    outside = np.where(some, away, np.inf).min(axis=-1, initial=np.inf)
    if not some.any():
        return -outside
    start, end, is_edge = _edges(contacts_m)
    edge, offset = (end - start)[..., :2], (point - start[..., :2])
    length2 = np.where(is_edge, (edge**2).sum(axis=-1), 1.0)
    along = np.clip((offset * edge).sum(axis=-1) / length2, 0.0, 1.0)
    apart = np.linalg.norm(offset - along[..., None] * edge, axis=-1)
    outside = np.minimum(outside, np.where(is_edge, apart, np.inf).min(axis=0))
    cross = edge[..., 0] * offset[..., 1] - edge[..., 1] * offset[..., 0]
    inside = np.where(is_edge, cross / np.sqrt(length2), np.inf).min(axis=0)
    return np.where((is_edge.sum(axis=0) > 2) & (inside >= 0.0), inside, -outside)[()]


def force_angle_margin(
    centre_m: np.ndarray, net_n: np.ndarray, contacts_m: np.ndarray
) -> np.ndarray:
    """FASM = min over hull edges of theta |f_a| |l|, theta = atan2((l x f_a) . a, f_a . l).

    a is the unit edge (counter-clockwise), l the shortest vector from the mass centre to the edge's
    line (normalised inside atan2), f_a the part of f orthogonal to a. Negative: f points past the edge
    and the robot tips over it.

    Args:
        centre_m: Mass centre, shape (..., 3).
        net_n: f = -(sum of contact forces on the robot), shape (..., 3), N.
        contacts_m: Loaded contact points, shape (..., n, 3); NaN for none.

    Returns:
        Shape (...), N m rad. 0 where the contacts span no edge longer than `MIN_EDGE_M` or no area.
    """
    if not np.isfinite(contacts_m).any():
        return np.zeros(contacts_m.shape[:-2])
    start, end, is_edge = _edges(contacts_m)
    length = np.linalg.norm(end - start, axis=-1)
    counts = is_edge & (length > spec.MIN_EDGE_M)
    a = (end - start) / np.where(counts, length, 1.0)[..., None]
    to_edge = start - centre_m
    lever = to_edge - (to_edge * a).sum(axis=-1, keepdims=True) * a
    force = net_n - (net_n * a).sum(axis=-1, keepdims=True) * a
    sine = (np.cross(lever, force) * a).sum(axis=-1)
    theta = np.arctan2(sine, (force * lever).sum(axis=-1))
    size = np.linalg.norm(force, axis=-1) * np.linalg.norm(lever, axis=-1)
    worst = np.where(counts, theta * size, np.inf).min(axis=0)
    return np.where((is_edge.sum(axis=0) > 2) & np.isfinite(worst), worst, 0.0)[()]


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
