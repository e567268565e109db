"""The depth camera's noise against closed forms: a plane under a known angle, and a far wall."""

import numpy as np
import pytest

from rle.sim.depth import NOISE, incidence_cos, noisy_depth_m, sigma_m

F, H, W = 300.0, 120, 160


def rays() -> np.ndarray:
    """Viewing rays (a, b, 1). Shape (H, W, 3)."""
    a, b = np.meshgrid((np.arange(W) + 0.5 - W / 2) / F, (np.arange(H) + 0.5 - H / 2) / F)
    return np.stack((a, b, np.ones_like(a)), axis=-1)


def plane(normal, distance_m: float) -> np.ndarray:
    """Depth along the axis of the plane n . p = d."""
    return (distance_m / (rays() @ np.asarray(normal))).astype(np.float32)


@pytest.mark.parametrize("tilt_deg", [0.0, 30.0, 60.0])
def test_cosine_of_a_plane_is_the_angle_between_ray_and_normal(tilt_deg):
    tilt = np.radians(tilt_deg)
    normal = np.array((np.sin(tilt), 0.0, np.cos(tilt)))
    cos = incidence_cos(plane(normal, 0.5), F)
    r = rays()
    expected = np.abs(r @ normal) / np.linalg.norm(r, axis=-1)
    assert cos[1:-1, 1:-1] == pytest.approx(expected[1:-1, 1:-1], abs=3e-3)


def test_sigma_is_the_formula_and_is_bounded():
    # c = 1: 1.5 mm. c = 1/sqrt 2: tan^2 = 1, 1.5 + 4 mm. Grazing: 1.5 + 28.5 mm.
    cos = np.array((1.0, np.sqrt(0.5), 1e-4))
    assert sigma_m(cos) == pytest.approx([0.0015, 0.0055, 0.030], abs=1e-6)


def test_measured_spread_is_sigma():
    depth = plane((0.0, 0.0, 1.0), 0.8)
    rng = np.random.default_rng(1)
    error = np.stack([noisy_depth_m(depth, F, rng) - depth for _ in range(30)])
    centre = error[:, 50:70, 70:90]
    expected = float(sigma_m(incidence_cos(depth, F))[50:70, 70:90].mean())
    # 12,000 draws: the standard error of the spread is 0.65 %.
    assert centre.std() == pytest.approx(expected, rel=0.05)
    assert abs(centre.mean()) < 4 * expected / np.sqrt(centre.size)


def test_grazing_pixels_drop_out_with_their_probability_and_far_ones_always():
    # A plane 85 degrees off: c about 0.09 at the centre, below 0.18.
    tilt = np.radians(85.0)
    depth = plane((0.0, np.sin(tilt), np.cos(tilt)), 0.1)
    cos = incidence_cos(depth, F)
    grazing = (cos < NOISE.dropout_cos) & (depth > 0) & (depth < NOISE.depth_max_m)
    missing = np.isnan(noisy_depth_m(depth, F, np.random.default_rng(2)))
    n = int(grazing.sum())
    assert n > 1000
    share = missing[grazing].mean()
    assert abs(share - NOISE.dropout_p) < 3 * np.sqrt(0.75 * 0.25 / n)
    far = np.full((H, W), 3.001, np.float32)
    assert np.isnan(noisy_depth_m(far, F, np.random.default_rng(3))).all()
    near = np.full((H, W), 2.9, np.float32)
    assert np.isfinite(noisy_depth_m(near, F, np.random.default_rng(3))).all()


def test_same_stream_same_picture_whatever_was_drawn():
    depth = plane((0.3, 0.0, 0.95), 0.5)
    first, again = (noisy_depth_m(depth, F, np.random.default_rng(4)) for _ in range(2))
    assert np.array_equal(first, again, equal_nan=True) and first.dtype == np.float32
    assert not np.array_equal(first, noisy_depth_m(depth, F, np.random.default_rng(5)))
    a, b = np.random.default_rng(6), np.random.default_rng(6)
    noisy_depth_m(depth, F, a)
    noisy_depth_m(depth + 1.0, F, b)
    assert a.random() == b.random(), "the number of draws depends on the picture's size alone"
