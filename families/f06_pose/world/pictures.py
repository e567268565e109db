"""Pictures for people: frames with the estimate drawn into them, as a film and one by one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image

from families.f06_pose import scene, spec
from rle.sim.video import VideoWriter

_LINE_RGB, _ORIGIN_RGB = (0, 158, 115), (0, 114, 178)
_THICK_PX = 2
_STRIP_FRAMES, _STRIP_WIDTH_PX = 5, 480


def mark(obs: dict[str, Any], pose: tuple[float, float, float] | None, shape_id: int) -> np.ndarray:
    """A frame with the outline of the estimated block, its origin, and the direction of its y axis.

    Args:
        obs: With `rgb`, `K` and `T_cam_table`.
        pose: Estimated x and y in m and yaw in rad; None draws nothing.
        shape_id: Estimated shape.

    Returns:
        Shape (480, 640, 3), uint8.
    """
    picture = np.ascontiguousarray(obs["rgb"]).copy()
    if pose is None or not np.isfinite(pose).all():
        return picture
    x, y, yaw = pose
    c, s = np.cos(yaw), np.sin(yaw)
    turn = np.array([[c, -s], [s, c]])
    for box in scene.footprint_m(shape_id).reshape(-1, 4, 2):
        corners = np.array([x, y]) + box @ turn.T
        _line(picture, _pixels(obs, corners), _LINE_RGB, closed=True)
    axis = np.array([[x, y], [x - s * spec.CELL_M, y + c * spec.CELL_M]])
    _line(picture, _pixels(obs, axis), _ORIGIN_RGB, closed=False)
    return picture


def _pixels(obs: dict[str, Any], points_m: np.ndarray) -> np.ndarray:
    """Pixels of points on the block's top face. Shape (n, 2) to (n, 2)."""
    pose = np.asarray(obs["T_cam_table"])
    top = np.column_stack((points_m, np.full(len(points_m), spec.BLOCK_HEIGHT_M)))
    right, up, backward = ((top - pose[:3, 3]) @ pose[:3, :3]).T
    K = np.asarray(obs["K"])
    return np.stack(
        (K[0, 2] + K[0, 0] * right / -backward, K[1, 2] - K[1, 1] * up / -backward), axis=1
    )


def _line(picture: np.ndarray, points_px: np.ndarray, rgb, *, closed: bool) -> None:
    whole = np.clip(np.round(points_px), -10_000, 10_000).astype(np.int32)
    cv2.polylines(picture, [whole], closed, rgb, _THICK_PX, cv2.LINE_AA)


def film(path: Path, frames: Sequence[np.ndarray]) -> None:
    """Writes an MP4 and its poster at the camera's rate."""
    width, height = spec.IMAGE_WH_PX
    with VideoWriter(path, spec.FRAME_HZ, width, height, poster_frame=len(frames) // 2) as video:
        for frame in frames:
            video.add(frame)


def strip(folder: Path, trial_id: str, frames: Sequence[np.ndarray]) -> None:
    """Writes frames spread over a trial as `<trial>_seen_frame_<k>.jpg`."""
    chosen = np.linspace(0, len(frames) - 1, min(_STRIP_FRAMES, len(frames))).round().astype(int)
    height = round(_STRIP_WIDTH_PX * spec.IMAGE_WH_PX[1] / spec.IMAGE_WH_PX[0])
    for k in chosen.tolist():
        small = cv2.resize(frames[k], (_STRIP_WIDTH_PX, height), interpolation=cv2.INTER_AREA)
        Image.fromarray(small).save(folder / f"{trial_id}_seen_frame_{k:02d}.jpg", quality=85)
