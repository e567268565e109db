"""Noise of a depth camera: grows with the angle of incidence, and drops out at grazing view.

Shared by f06 and f07. With the pixel's ray r = (a, b, 1), a = (u - cx)/f, b = (v - cy)/f, a surface
point is P = z r. Its normal is the cross product of the image gradients of P, which by the product
rule is

    n  ~  (-f z_u, -f z_v, z + f (a z_u + b z_v)),        n . r = z

so that the cosine of the angle of incidence is c = z / (|n| |r|). Then

    sigma = sigma_0 + clip(k tan^2, 0, sigma_max),        tan^2 = (1 - c^2) / max(c^2, 1e-6)
"""

import functools
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class DepthNoise:
    """Parameters of the model. Source of all: the published benchmark's depth camera."""

    sigma0_m: float = 0.0015
    """Standard deviation at perpendicular view."""
    sigma_tan2_m: float = 0.004
    """Added standard deviation per tan^2 of the angle of incidence."""
    sigma_extra_max_m: float = 0.0285
    """Largest added standard deviation."""
    dropout_cos: float = 0.18
    """Below this cosine a pixel may be missing."""
    dropout_p: float = 0.75
    """Probability that such a pixel is missing."""
    depth_max_m: float = 3.0
    """Beyond this a pixel is always missing."""
    tan2_min_cos2: float = 1.0e-6
    """Floor of c^2 in tan^2."""


NOISE = DepthNoise()


def incidence_cos(
    depth_m: np.ndarray, focal_px: float, out: np.ndarray | None = None
) -> np.ndarray:
    """Cosine between viewing ray and surface normal, in (0, 1].

    Args:
        depth_m: Exact distance along the optical axis, principal point at the image centre. Shape
            (height, width), float32, m.
        focal_px: Focal length in pixels, equal in x and y.
        out: Where the result goes; same shape, float32.

    Returns:
        Shape (height, width), float32. Central differences inside, one-sided at the border.
    """
    height, width = depth_m.shape
    a, b, ray_norm = _rays(height, width, focal_px)
    fz_u, fz_v, term = _scratch(height, width)[:3]
    z = depth_m.astype(np.float32, copy=False)
    f = np.float32(focal_px)
    _gradient(z, axis=1, out=fz_u)
    _gradient(z, axis=0, out=fz_v)
    fz_u *= f
    fz_v *= f
    n_z = np.add(z, np.multiply(a, fz_u, out=term), out=out)
    n_z += np.multiply(b, fz_v, out=term)
    fz_u *= fz_u
    fz_u += np.multiply(fz_v, fz_v, out=fz_v)
    n_z *= n_z
    n_z += fz_u
    np.sqrt(n_z, out=n_z)
    n_z *= ray_norm
    return np.divide(z, n_z, out=n_z)


def sigma_m(
    cos: np.ndarray, noise: DepthNoise = NOISE, out: np.ndarray | None = None
) -> np.ndarray:
    """Standard deviation of the depth for given cosines of incidence. Same shape, m."""
    cos2 = np.multiply(cos, cos)
    tan2 = np.subtract(1.0, cos2, out=out)
    np.maximum(cos2, np.float32(noise.tan2_min_cos2), out=cos2)
    tan2 /= cos2
    tan2 *= np.float32(noise.sigma_tan2_m)
    np.clip(tan2, 0.0, noise.sigma_extra_max_m, out=tan2)
    tan2 += np.float32(noise.sigma0_m)
    return tan2


def noisy_depth_m(
    depth_m: np.ndarray,
    focal_px: float,
    rng: np.random.Generator,
    noise: DepthNoise = NOISE,
) -> np.ndarray:
    """What the camera reports: noisy distances, NaN where a pixel is missing.

    Args:
        depth_m: Exact distance along the optical axis. Shape (height, width), float32, m.
        focal_px: Focal length in pixels.
        rng: Stream of this camera and frame; always the same number of draws per frame size.
        noise: Parameters.

    Returns:
        Shape (height, width), float32, m.
    """
    cos, sigma, chance = _scratch(*depth_m.shape)[3:]
    incidence_cos(depth_m, focal_px, out=cos)
    reported = rng.standard_normal(depth_m.shape, dtype=np.float32)
    rng.random(dtype=np.float32, out=chance)
    reported *= sigma_m(cos, noise, out=sigma)
    reported += depth_m.astype(np.float32, copy=False)
    missing = cos < noise.dropout_cos
    missing &= chance < noise.dropout_p
    missing |= depth_m > noise.depth_max_m
    np.copyto(reported, np.nan, where=missing)
    return reported


@functools.lru_cache(maxsize=4)
def _rays(height: int, width: int, focal_px: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """a of each column (1, width), b of each row (height, 1), and |r| of each pixel, float32."""
    a = ((np.arange(width) + 0.5 - width / 2) / focal_px)[None, :]
    b = ((np.arange(height) + 0.5 - height / 2) / focal_px)[:, None]
    norm = np.sqrt(1.0 + a * a + b * b)
    return a.astype(np.float32), b.astype(np.float32), norm.astype(np.float32)


@functools.lru_cache(maxsize=4)
def _scratch(height: int, width: int) -> list[np.ndarray]:
    """Room for one picture at a time: fresh arrays of this size cost more than what is computed in them."""
    return [np.empty((height, width), np.float32) for _ in range(6)]


def _gradient(z: np.ndarray, axis: int, out: np.ndarray) -> None:
    """Difference per pixel along an axis; like `numpy.gradient` with unit spacing, in float32."""
    z, out = np.moveaxis(z, axis, 0), np.moveaxis(out, axis, 0)
    np.subtract(z[2:], z[:-2], out=out[1:-1])
    out[1:-1] *= np.float32(0.5)
    out[0], out[-1] = z[1] - z[0], z[-1] - z[-2]
