"""Depth pictures into height maps, and height maps into spots where the head meets one part well."""

import warnings

import cv2
import numpy as np

CELL_M = 0.003


class HeightMap:
    """Top heights on a grid over a box of the world.

    Args:
        low_m: Lower corner x, y.
        high_m: Upper corner x, y.
        floor_m: Height of what nothing lies on.
    """

    def __init__(self, low_m, high_m, floor_m):
        self.low_m, self.high_m, self.floor_m = np.array(low_m), np.array(high_m), floor_m
        self._shape = tuple(np.ceil((self.high_m - self.low_m) / CELL_M).astype(int))
        self._frames = []

    def clear(self):
        """Forgets the pictures: what they showed has changed."""
        self._frames = []

    @property
    def n_frames(self):
        return len(self._frames)

    def add(self, depth_m, matrix, pose):
        """Adds a picture.

        Args:
            depth_m: Distance along the optical axis, NaN where missing. Shape (height, width).
            matrix: Pinhole matrix, 3 x 3, px.
            pose: Camera pose, columns right, up, backward, position. Shape (4, 4).
        """
        smooth = cv2.medianBlur(np.nan_to_num(depth_m, nan=0.0).astype(np.float32), 3)
        v, u = np.nonzero(smooth > 0.0)
        z = smooth[v, u]
        x = (u + 0.5 - matrix[0, 2]) / matrix[0, 0] * z
        y = (v + 0.5 - matrix[1, 2]) / matrix[1, 1] * z
        points = np.stack((x, -y, -z)).T @ pose[:3, :3].T + pose[:3, 3]
        cell = np.floor((points[:, :2] - self.low_m) / CELL_M).astype(int)
        inside = ((cell >= 0) & (cell < self._shape)).all(axis=1)
        heights = np.full(self._shape, -np.inf)
        np.maximum.at(heights, tuple(cell[inside].T), points[inside, 2])
        heights[np.isinf(heights)] = np.nan
        self._frames = [*self._frames[-3:], heights]

    def heights_m(self):
        """Mean over the pictures; holes take the height of their surroundings. Shape (nx, ny)."""
        if not self._frames:
            return np.full(self._shape, self.floor_m)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # cells that no picture shows
            mean = np.nanmean(self._frames, axis=0)
        hole = np.isnan(mean)
        filled = np.where(hole, -1.0, mean).astype(np.float32)
        around = cv2.dilate(filled, np.ones((5, 5), np.uint8))
        filled[hole] = np.maximum(around[hole], self.floor_m)
        return np.maximum(filled, self.floor_m)

    def cells_xy(self):
        """World x of each row and y of each column of the map."""
        nx, ny = self._shape
        return (
            self.low_m[0] + (np.arange(nx) + 0.5) * CELL_M,
            self.low_m[1] + (np.arange(ny) + 0.5) * CELL_M,
        )


def disc(radius_m):
    """Kernel of a disc, uint8."""
    reach = int(np.ceil(radius_m / CELL_M))
    grid = np.arange(-reach, reach + 1) * CELL_M
    return (np.hypot(*np.meshgrid(grid, grid)) <= radius_m).astype(np.uint8)


def best_spot(heights_m, floor_m, allowed, penalty, head_radius_m):
    """Cell where the head should come down, and the height at which it meets something.

    The head meets the highest point of its disc. A good disc is level near that height (much of one
    face), lies high in the heap (little on top of it), and has nothing much higher close by.

    Args:
        heights_m: Height map, shape (nx, ny).
        floor_m: Height of the empty floor.
        allowed: Cells where the head fits. Shape (nx, ny), bool.
        penalty: Subtracted from the score of each cell (failures). Shape (nx, ny).
        head_radius_m: Radius of the head.

    Returns:
        (i, j, contact height in m, score), or None where nothing lies.
    """
    heights = heights_m.astype(np.float32)
    kernel = disc(head_radius_m)
    top = cv2.dilate(heights, kernel)
    reach = kernel.shape[0] // 2
    padded = np.pad(heights, reach, constant_values=floor_m)
    level = np.zeros_like(heights)
    n, m = heights.shape
    for i, j in np.argwhere(kernel):
        level += padded[i : i + n, j : j + m] > top - 0.004
    level /= kernel.sum()
    around = disc(0.045)
    wide = cv2.dilate(heights, around)
    higher = np.clip((wide - top) / 0.03, 0.0, 1.0)
    score = level + 6.0 * (top - floor_m) - 0.5 * higher - penalty
    usable = allowed & (top > floor_m + 0.004)
    if not usable.any():
        return None
    i, j = np.unravel_index(np.argmax(np.where(usable, score, -np.inf)), score.shape)
    return int(i), int(j), float(top[i, j]), float(score[i, j])
