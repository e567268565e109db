"""Rotations in batches, for numpy arrays and torch tensors alike. Quaternions are `quat_wxyz`.

Both functions are one outer product and one constant matrix, so that a batch of one costs three array
operations and a batch of thousands runs on any device.
"""

import functools
from typing import Any

import numpy as np

Array = Any
"""A numpy array or a torch tensor; every function returns the kind it was given."""


def _bilinear(rows: tuple[str, ...]) -> np.ndarray:
    """Matrix (16, n) of bilinear forms in wxyz, written as "+ww -xz +xz"."""
    matrix = np.zeros((16, len(rows)))
    for column, row in enumerate(rows):
        for term in row.split():
            sign, first, second = term
            index = 4 * "wxyz".index(first) + "wxyz".index(second)
            matrix[index, column] += 1.0 if sign == "+" else -1.0
    return matrix


_TO_MATRIX = _bilinear(
    (
        "+ww +xx -yy -zz", "+xy +yx -wz -zw", "+xz +zx +wy +yw",
        "+xy +yx +wz +zw", "+ww -xx +yy -zz", "+yz +zy -wx -xw",
        "+xz +zx -wy -yw", "+yz +zy +wx +xw", "+ww -xx -yy +zz",
    )
)  # fmt: skip
_PRODUCT = _bilinear(("+ww -xx -yy -zz", "+wx +xw +yz -zy", "+wy -xz +yw +zx", "+wz +xy -yx +zw"))
_CONSTANTS = {"matrix": _TO_MATRIX, "product": _PRODUCT}


@functools.lru_cache(maxsize=32)
def _torch_constant(name: str, dtype: Any, device: Any) -> Array:
    import torch  # only reached with a tensor in hand

    return torch.as_tensor(_CONSTANTS[name], dtype=dtype, device=device)


def _constant(name: str, like: Array) -> Array:
    """The constant matrix in the kind, dtype and device of `like`."""
    if isinstance(like, np.ndarray):
        return _CONSTANTS[name]
    return _torch_constant(name, like.dtype, like.device)


def _outer(a: Array, b: Array) -> Array:
    """All products of components, shape (..., 16)."""
    table = a[..., :, None] * b[..., None, :]
    return table.reshape(*table.shape[:-2], 16)


def matrix(quat_wxyz: Array) -> Array:
    """R(q), which takes body vectors to the world. Shape (..., 4) to (..., 3, 3); |q| must be 1."""
    flat = _outer(quat_wxyz, quat_wxyz) @ _constant("matrix", quat_wxyz)
    return flat.reshape(*flat.shape[:-1], 3, 3)


def product(a_wxyz: Array, b_wxyz: Array) -> Array:
    """a b, the rotation b followed by a. Shapes (..., 4), broadcast."""
    return _outer(a_wxyz, b_wxyz) @ _constant("product", a_wxyz)


def from_rpy(roll_rad: Array, pitch_rad: Array, yaw_rad: Array, xp: Any = np) -> Array:
    """R_z(yaw) R_y(pitch) R_x(roll) as quaternions wxyz. Shapes (...) to (..., 4)."""
    cr, cp, cy = (xp.cos(angle / 2.0) for angle in (roll_rad, pitch_rad, yaw_rad))
    sr, sp, sy = (xp.sin(angle / 2.0) for angle in (roll_rad, pitch_rad, yaw_rad))
    return xp.stack(
        [
            cy * cp * cr + sy * sp * sr,
            cy * cp * sr - sy * sp * cr,
            cy * sp * cr + sy * cp * sr,
            sy * cp * cr - cy * sp * sr,
        ],
        -1,
    )
