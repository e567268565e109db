"""Depth pictures into height maps, and height maps into spots where the head meets one part well."""

import warnings

import cv2
import numpy as np

CELL_M = 0.003
FLANGE_RISE_M = 0.034
SLACK_M = 0.0015  # the head slides this far into the channel between two flanges
FACE_RANGE_M = (
    0.008  # depth range in 3 x 3 pixels beyond which a pixel shows an edge or a steep face
)


class HeightMap:
    """Top heights on a grid over a box of the world.

    Args:
        low_m: Lower corner x, y.
        high_m: Upper corner x, y.
        floor_m: Height of what nothing lies on.
        ceiling_m: What is higher belongs to the arm.
    """

    def __init__(self, low_m, high_m, floor_m, ceiling_m):
        self.low_m, self.high_m = np.array(low_m), np.array(high_m)
        self.floor_m, self._ceiling_m = floor_m, ceiling_m
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
        rows, columns = self._window(depth_m.shape, matrix, pose)
        depth_m = depth_m[rows, columns]
        if depth_m.size == 0:
            return
        smooth = cv2.medianBlur(np.nan_to_num(depth_m, nan=0.0).astype(np.float32), 5)
        square = np.ones((3, 3), np.uint8)
        # Steep surfaces and edges are where the camera is noisy; what is left are faces.
        is_face = cv2.dilate(smooth, square) - cv2.erode(smooth, square) < FACE_RANGE_M
        v, u = np.nonzero(is_face & (smooth > 0.0))
        z = smooth[v, u]
        u, v = u + columns.start, v + rows.start
        x = (u + 0.5 - matrix[0, 2]) / matrix[0, 0] * z
        y = (v + 0.5 - matrix[1, 2]) / matrix[1, 1] * z
        points = np.stack((x, -y, -z)).T @ pose[:3, :3].T + pose[:3, 3]
        cell = np.floor((points[:, :2] - self.low_m) / CELL_M).astype(int)
        inside = ((cell >= 0) & (cell < self._shape)).all(axis=1)
        inside &= points[:, 2] < self._ceiling_m
        index = np.ravel_multi_index(tuple(cell[inside].T), self._shape)
        n_cells = self._shape[0] * self._shape[1]
        count = np.bincount(index, minlength=n_cells)
        total = np.bincount(index, points[inside, 2], n_cells)
        heights = np.where(count > 0, total / np.maximum(count, 1), np.nan).reshape(self._shape)
        self._frames.append(heights)

    def _window(self, shape, matrix, pose):
        """Rows and columns of the picture that can show this box."""
        x, y, z = np.meshgrid(
            *zip(self.low_m, self.high_m), (self.floor_m, self._ceiling_m), indexing="ij"
        )
        corners = (np.stack((x, y, z), axis=-1).reshape(-1, 3) - pose[:3, 3]) @ pose[:3, :3]
        depth = np.maximum(-corners[:, 2], 0.05)
        u = matrix[0, 2] + matrix[0, 0] * corners[:, 0] / depth
        v = matrix[1, 2] - matrix[1, 1] * corners[:, 1] / depth
        (rows, columns) = (
            slice(int(np.clip(w.min(), 0, n)), int(np.clip(w.max() + 1, 0, n)))
            for w, n in ((v, shape[0]), (u, shape[1]))
        )
        return rows, columns

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
    kernel = disc(head_radius_m - SLACK_M)
    top = cv2.dilate(heights, kernel)
    reach = kernel.shape[0] // 2
    padded = np.pad(heights, reach, constant_values=floor_m)
    level = np.zeros_like(heights)
    n, m = heights.shape
    for i, j in np.argwhere(kernel):
        level += padded[i : i + n, j : j + m] > top - 0.004
    level /= kernel.sum()
    # Flanges of the same part rise this much beside its web; what is higher still lies on it.
    wide = cv2.dilate(heights, disc(0.045))
    higher = np.clip((wide - top - FLANGE_RISE_M) / 0.03, 0.0, 1.0)
    score = 2.0 * level + 6.0 * (top - floor_m) - higher - penalty
    usable = allowed & (top > floor_m + 0.004)
    if not usable.any():
        return None
    i, j = np.unravel_index(np.argmax(np.where(usable, score, -np.inf)), score.shape)
    return int(i), int(j), float(top[i, j]), float(score[i, j])
