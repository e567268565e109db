"""Silhouette tracker: red pixels inside the block's outline, table pixels outside of it.

    cost(pose) = red pixels outside + free pixels inside + prior

Pixels that are neither (the arm, and without depth anything that looks unlike the table) count nothing.
The first frame is searched over shapes and yaws, later ones from the last pose by a pattern search.
"""

from typing import Any

import numpy as np
from block import BOXES, Camera, Silhouettes
from evidence import Bare, free_by_depth, red_share, small, spread, table_mask

N_YAWS = 16
"""Yaws of the first search."""
N_REFINED = 2
"""Of them, those that are refined."""
STEPS = (
    (0.016, 0.12),
    (0.008, 0.06),
    (0.004, 0.03),
    (0.002, 0.015),
    (0.001, 0.007),
    (0.0004, 0.003),
)
"""Steps of the pattern search, m and rad; each is left when nothing improves."""
MARGIN_PX = 12
PRIOR_PX, PRIOR_M, PRIOR_RAD = 6.0, 0.010, 0.06
"""A move of `PRIOR_M` or a turn of `PRIOR_RAD` from the prediction costs this many pixels."""
VISIBLE_MIN = 0.10
"""Below this share of the block nothing is changed."""
SURE = 0.5
"""The shape is settled when the best one costs less than this share of the next."""
VOTES = 5
"""Frames after which the shape is settled in any case."""
LOST = 0.35
"""Cost over visible pixels from which the pose is searched anew."""


class Evidence:
    """Red and free pixels in a window around what may belong to the block."""

    def __init__(self, red: np.ndarray, free: np.ndarray, centre: np.ndarray, reach: int) -> None:
        height, width = red.shape
        u0, v0 = (int(max(0, c - reach)) for c in centre)
        self.origin = (min(u0, width - 2), min(v0, height - 2))
        rows = slice(self.origin[1], int(min(height, centre[1] + reach)) + 1)
        cols = slice(self.origin[0], int(min(width, centre[0] + reach)) + 1)
        self.weight = np.ascontiguousarray(red[rows, cols] - free[rows, cols], np.float32)
        self.n_red = float(red.sum())
        self.mask = np.zeros(self.weight.shape, np.float32)


class Estimator:
    """Pose and shape of the block, frame by frame."""

    def __init__(self) -> None:
        self._silhouettes: Any = None
        """Made from the camera of the first frame."""
        self.reset()

    def reset(self) -> None:
        """Starts a new episode."""
        self._pose: Any = None
        self._velocity = np.zeros(3)
        self._shape_id: Any = None
        self._votes = np.zeros(len(BOXES))
        self._n_votes = 0
        self._bare: Bare | None = None

    def update(self, *, rgb, K, T_cam_table, t, depth=None):
        """x and y in m, theta in rad, shape id."""
        if self._silhouettes is None:
            self._silhouettes = Silhouettes(Camera(np.asarray(K), np.asarray(T_cam_table)))
        picture = small(rgb)
        share = red_share(rgb)
        red = share > 0.5
        free = (1.0 - share) * spread(self._free(picture, red, depth), share)
        visible = float(share.sum())
        if self._pose is None:
            self._search(share, free, visible)
        elif visible >= VISIBLE_MIN * self._area():
            self._track(share, free, visible)
        else:
            self._velocity[:] = 0.0
        if self._pose is None:
            return 0.0, 0.0, 0.0, 0
        x, y, yaw = self._pose
        return float(x), float(y), float(yaw), int(self._best_shape())

    # ------------------------------------------------------------------------------- evidence

    def _free(self, picture, red, depth):
        camera = self._silhouettes.camera
        if depth is not None:
            return free_by_depth(camera, depth, red)
        if self._bare is None:
            on_table = table_mask(camera, red.shape)
            self._bare = Bare(picture, on_table, red)
            return on_table & ~red  # the arm is parked in the first frame
        return self._bare.free(picture, red)

    def _best_shape(self) -> int:
        return int(np.argmin(self._votes)) if self._shape_id is None else self._shape_id

    def _area(self) -> float:
        mask = np.zeros((240, 320), np.uint8)
        self._silhouettes.fill(mask, self._best_shape(), self._pose, (0, 0))
        return float(mask.sum())

    # ------------------------------------------------------------------------------- fitting

    def _cost(self, seen: Evidence, shape_id: int, pose: np.ndarray) -> float:
        seen.mask[:] = 0
        self._silhouettes.fill(seen.mask, shape_id, pose, seen.origin)
        return seen.n_red - float(np.vdot(seen.weight, seen.mask))

    def _fit(self, seen, shape_id, pose, prior=None, steps=STEPS):
        """Pattern search. Returns the pose and its cost, prior left out."""

        def total(p):
            extra = 0.0
            if prior is not None:
                d = p - prior
                extra = PRIOR_PX * ((d[0] ** 2 + d[1] ** 2) / PRIOR_M**2 + d[2] ** 2 / PRIOR_RAD**2)
            return self._cost(seen, shape_id, p) + min(extra, 20 * PRIOR_PX)

        best, value = pose.copy(), total(pose)
        for step_m, step_rad in steps:
            improved, rounds = True, 0
            while improved and rounds < 12:
                improved, rounds = False, rounds + 1
                for axis, step in ((0, step_m), (1, step_m), (2, step_rad)):
                    for sign in (1.0, -1.0):
                        trial = best.copy()
                        trial[axis] += sign * step
                        cost = total(trial)
                        if cost < value:
                            best, value, improved = trial, cost, True
                            break
        return best, self._cost(seen, shape_id, best)

    def _search(self, red, free, visible):
        """Searches shapes and yaws around the red pixels."""
        if visible < 40:
            return
        v, u = np.nonzero(red > 0.5)
        centre = np.array([u.mean(), v.mean()])
        seen = Evidence(red, free, centre, 90)
        costs = np.full(len(BOXES), np.inf)
        poses: list[Any] = [None] * len(BOXES)
        for shape_id in range(len(BOXES)):
            starts = []
            for yaw in np.arange(N_YAWS) * (2 * np.pi / N_YAWS):
                pose = np.array([*self._silhouettes.camera.on_plane(centre, 0.02), yaw])
                shown = self._silhouettes.centre_pixel(shape_id, pose)
                at = self._silhouettes.camera.on_plane(shown, 0.02)
                pose[:2] += pose[:2] - at
                starts.append((self._cost(seen, shape_id, pose), pose))
            starts.sort(key=lambda item: item[0])
            for _, pose in starts[:N_REFINED]:
                found, cost = self._fit(seen, shape_id, pose, steps=STEPS[1:3])
                if cost < costs[shape_id]:
                    costs[shape_id], poses[shape_id] = cost, found
        self._vote(costs, visible)
        chosen = self._best_shape()
        if poses[chosen] is not None:
            self._pose, _ = self._fit(seen, chosen, poses[chosen], steps=STEPS[2:])
            self._velocity[:] = 0.0

    def _vote(self, costs, visible):
        if self._shape_id is not None:
            return
        self._votes += np.minimum(costs, 10.0 * visible)
        self._n_votes += 1
        first, second = np.sort(self._votes)[:2]
        if first < SURE * second or self._n_votes >= VOTES:
            self._shape_id = int(np.argmin(self._votes))

    def _track(self, red, free, visible):
        if self._shape_id is None:
            self._search(red, free, visible)
            return
        last = self._pose
        centre = self._silhouettes.centre_pixel(self._shape_id, last)
        seen = Evidence(red, free, centre, 100 + MARGIN_PX)
        predicted = last + self._velocity
        starts = [last] if not self._velocity.any() else [last, predicted]
        fits = [self._fit(seen, self._shape_id, p, prior=last, steps=STEPS[1:]) for p in starts]
        pose, cost = min(fits, key=lambda item: item[1])
        if cost > LOST * visible:
            pose, cost = self._recover(seen, pose, cost, last)
        self._velocity = np.clip(pose - last, -0.03, 0.03) * (1.0, 1.0, 4.0)
        self._velocity[2] = np.clip(pose[2] - last[2], -0.2, 0.2)
        self._pose = pose

    def _recover(self, seen, pose, cost, last):
        """Wider start poses around the last one."""
        best = (pose, cost)
        for yaw in (-0.5, -0.25, 0.25, 0.5):
            for dx, dy in ((0.0, 0.0), (-0.03, 0.0), (0.03, 0.0), (0.0, -0.03), (0.0, 0.03)):
                start = last + (dx, dy, yaw)
                if self._cost(seen, self._shape_id, start) < 1.5 * cost:
                    best = min(
                        best,
                        self._fit(seen, self._shape_id, start, prior=last, steps=STEPS[1:]),
                        key=lambda item: item[1],
                    )
        return best


def make_estimator() -> Estimator:
    """The estimator."""
    return Estimator()
