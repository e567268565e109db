"""What a picture says about each pixel: the block (red), the table beside it (free), or nothing.

With depth, a pixel is free where its point lies on the table. Without, it is free where it looks as the
bare table does, which the first frame of an episode shows: a cubic surface per colour channel.
"""

import cv2
import numpy as np
from block import SCALE, Camera

RED_RATIO, RED_MIN = 1.7, 36.0
"""A pixel is red when red is this many times the other channels, and bright enough to tell."""
FREE_BELOW_M = 0.022
"""Height under which a point belongs to the table."""
LOOK_ALIKE = 9.0
"""Largest difference from the bare table's colour, of 255."""
SHADE_MIN = 0.35
"""A shadowed table has at least this share of its light."""
DEGREE = 3


def small(picture: np.ndarray) -> np.ndarray:
    """A picture at half size, by area."""
    height, width = picture.shape[:2]
    return cv2.resize(picture, (width // SCALE, height // SCALE), interpolation=cv2.INTER_AREA)


def red_share(rgb: np.ndarray) -> np.ndarray:
    """Share of each small pixel that is red. Shape (h, w), float32, 0 to 1."""
    r, g, b = cv2.split(np.ascontiguousarray(rgb))
    other = cv2.convertScaleAbs(cv2.max(g, b), alpha=RED_RATIO)
    mask = cv2.min(cv2.compare(r, other, cv2.CMP_GT), cv2.compare(r, RED_MIN, cv2.CMP_GT))
    mask = cv2.morphologyEx(mask, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    return small(mask).astype(np.float32) / np.float32(255.0)


def spread(free: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The table's pixels, and those on the block's edge that touch one."""
    touching = cv2.dilate(free.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    return free | (touching & (share > 0.0) & (share < 1.0))


def free_by_depth(camera: Camera, depth_m: np.ndarray, red: np.ndarray) -> np.ndarray:
    """Where the table shows, by height. Missing pixels say nothing."""
    height = camera.heights(small(depth_m))
    return (height < FREE_BELOW_M) & ~red


class Bare:
    """Colour of the bare table over the picture, fitted to the first frame of an episode."""

    def __init__(self, rgb: np.ndarray, on_table: np.ndarray, red: np.ndarray) -> None:
        near = cv2.dilate(red.astype(np.uint8), np.ones((9, 9), np.uint8)) > 0
        use = on_table & ~near
        v, u = np.nonzero(use)
        step = max(1, len(u) // 6000)
        u, v = u[::step], v[::step]
        colours = rgb[v, u].astype(np.float64)
        height, width = red.shape
        basis = _basis(u / width, v / height)
        keep = np.ones(len(u), bool)
        for _ in range(6):  # shadows and the arm leave the fit
            weights = np.linalg.lstsq(basis[keep], colours[keep], rcond=None)[0]
            off = np.abs(colours - basis @ weights).max(axis=1)
            keep = off < max(LOOK_ALIKE, 1.5 * float(np.median(off)))
        vs, us = np.indices(red.shape)
        full = _basis((us / width).ravel(), (vs / height).ravel()) @ weights
        self._colour = full.reshape(height, width, 3).astype(np.float32)
        self._on_table = on_table

    def free(self, rgb: np.ndarray, red: np.ndarray) -> np.ndarray:
        """Where the table shows, by colour; what looks otherwise says nothing."""
        off = np.abs(rgb.astype(np.float32) - self._colour).max(axis=2)
        alike = (off < LOOK_ALIKE) & self._on_table & ~red
        kernel = np.ones((3, 3), np.uint8)
        return cv2.morphologyEx(alike.astype(np.uint8), cv2.MORPH_OPEN, kernel) > 0


def _basis(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    terms = [u**i * v**j for i in range(DEGREE + 1) for j in range(DEGREE + 1 - i)]
    return np.stack(terms, axis=1)


def table_mask(camera: Camera, shape: tuple[int, int]) -> np.ndarray:
    """Pixels of the table top. Shape (h, w), bool."""
    hx, hy = 0.45, 0.35
    corners = np.array([(-hx, -hy, 0.0), (hx, -hy, 0.0), (hx, hy, 0.0), (-hx, hy, 0.0)])
    mask = np.zeros(shape, np.uint8)
    cv2.fillConvexPoly(mask, np.round(camera.pixels(corners)).astype(np.int32), 1)
    return mask > 0
