"""The three blocks as silhouettes: their boxes, projected and filled at half resolution."""

import cv2
import numpy as np

CELL_M, HEIGHT_M = 0.050, 0.040
BOXES = (
    ((0.0, 0.0, 4.0, 1.0), (0.0, -2.0, 1.0, 3.0)),
    ((0.0, 0.5, 4.0, 1.0), (-1.5, -1.5, 1.0, 3.0), (1.5, -1.5, 1.0, 3.0)),
    ((0.0, 0.5, 4.0, 1.0), (-1.5, -1.5, 1.0, 3.0), (0.5, -1.5, 1.0, 3.0)),
)
"""Centre and size of each box in cells: T, C, F."""
SCALE = 2
"""Pictures are used at this fraction of their size."""
SHIFT = 4
"""Fractional bits of polygon corners."""


def _corners(shape_id: int) -> np.ndarray:
    """Corners of the boxes in the block frame. Shape (n_boxes, 8, 3), m."""
    found = []
    for x, y, w, h in BOXES[shape_id]:
        flat = [(x + sx * w / 2, y + sy * h / 2) for sx in (-1, 1) for sy in (-1, 1)]
        found.append([(a * CELL_M, b * CELL_M, z) for a, b in flat for z in (0.0, HEIGHT_M)])
    return np.array(found)


def _centre(shape_id: int) -> np.ndarray:
    """Centre of the footprint in the block frame, at half height. Shape (3,), m."""
    boxes = np.array(BOXES[shape_id])
    area = boxes[:, 2] * boxes[:, 3]
    x, y = CELL_M * (area @ boxes[:, :2]) / area.sum()
    return np.array([x, y, HEIGHT_M / 2])


class Camera:
    """Projection of table points into the small picture, pixel centres at integers.

    Args:
        K: Pinhole matrix of the full picture, px.
        pose: T_cam_table: columns right, up, backward, position.
    """

    def __init__(self, K: np.ndarray, pose: np.ndarray) -> None:
        self.fx, self.fy = K[0, 0] / SCALE, K[1, 1] / SCALE
        self.cx, self.cy = K[0, 2] / SCALE - 0.5, K[1, 2] / SCALE - 0.5
        self._turn, self._eye = pose[:3, :3], pose[:3, 3]

    def pixels(self, points_m: np.ndarray) -> np.ndarray:
        """Shape (..., 3), m, table frame, to (..., 2), px."""
        local = (points_m - self._eye) @ self._turn
        far = -local[..., 2]
        return np.stack(
            (self.cx + self.fx * local[..., 0] / far, self.cy - self.fy * local[..., 1] / far), -1
        )

    def on_plane(self, pixel: np.ndarray, height_m: float) -> np.ndarray:
        """Point of the plane z = height that a pixel shows. Shape (2,), m."""
        ray = self._turn @ np.array(
            [(pixel[0] - self.cx) / self.fx, -(pixel[1] - self.cy) / self.fy, -1.0]
        )
        return (self._eye + ray * (height_m - self._eye[2]) / ray[2])[:2]

    def heights(self, depth_m: np.ndarray) -> np.ndarray:
        """Height above the table of what each small pixel shows. Shape of the depth, m."""
        v, u = np.indices(depth_m.shape, dtype=np.float32)
        z = self._turn[2]
        along = z[0] * (u - self.cx) / self.fx - z[1] * (v - self.cy) / self.fy - z[2]
        return (self._eye[2] + depth_m * along).astype(np.float32)


class Silhouettes:
    """Filled outlines of the blocks in one camera."""

    def __init__(self, camera: Camera) -> None:
        self.camera = camera
        self._corners = [_corners(i) for i in range(len(BOXES))]
        self._centres = [_centre(i) for i in range(len(BOXES))]

    def centre_pixel(self, shape_id: int, pose: np.ndarray) -> np.ndarray:
        """Where the middle of a posed block shows. Shape (2,), px."""
        return self.camera.pixels(_place(self._centres[shape_id], pose))

    def fill(
        self, mask: np.ndarray, shape_id: int, pose: np.ndarray, origin: tuple[int, int]
    ) -> None:
        """Writes 1 where a posed block shows.

        Args:
            mask: Window to write into, zeros. Shape (h, w), uint8 or float32.
            shape_id: 0 T, 1 C, 2 F.
            pose: x and y in m, yaw in rad.
            origin: Column and row of the window's first pixel.
        """
        for box in self.camera.pixels(_place(self._corners[shape_id], pose)) - origin:
            points = np.round(box * (1 << SHIFT)).astype(np.int32)
            cv2.fillConvexPoly(mask, cv2.convexHull(points), 1, cv2.LINE_8, SHIFT)


def _place(points_m: np.ndarray, pose: np.ndarray) -> np.ndarray:
    x, y, yaw = pose
    c, s = np.cos(yaw), np.sin(yaw)
    a, b = points_m[..., 0], points_m[..., 1]
    return np.stack((x + c * a - s * b, y + s * a + c * b, points_m[..., 2]), -1)
