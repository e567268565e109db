"""What differs between two trials: dynamics, floor, start, pushes, sensor noise.

Each block has its own stream, so that changing one leaves the values of the others. All functions take
a generator; `trial_draws` takes the five of a trial by name.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import numpy as np
from scipy.ndimage import gaussian_filter

from families.f04_tracking import spec
from families.f04_tracking.scene import HeightMap, terrain_grid

RANGES = spec.EVAL_DRAWS
Streams = Callable[[str], np.random.Generator]
"""Generator of a named stream of one trial, names of `spec.DRAW_STREAMS`."""


class Draw(msgspec.Struct, frozen=True, kw_only=True):
    """Dynamics of one trial. The defaults are the nominal robot."""

    friction: float = spec.SCENE.robot_friction
    """Sliding friction of all robot collision geoms."""
    mass_scale: float = 1.0
    """Factor on mass and inertia of every body."""
    torso_com_offset_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Shift of the torso's centre of mass, torso frame."""
    kp_scale: float = 1.0
    kd_scale: float = 1.0
    encoder_bias_rad: tuple[float, ...] = (0.0,) * spec.N_JOINTS
    """Added to every measured joint position, and so taken from every target."""
    latency_steps: int = 0
    """Control steps between an action and its effect."""


@dataclass(frozen=True)
class Start:
    """Offsets of the start state from the reference's first frame."""

    pos_m: np.ndarray
    """Root position, shape (3,), world."""
    rpy_rad: np.ndarray
    """Roll, pitch, yaw about the world axes through the root, shape (3,)."""
    vel: np.ndarray
    """Root linear (m/s, world) and angular (rad/s, pelvis) velocity, shape (6,)."""
    joint_rad: np.ndarray
    """Joint positions, shape (29,); the sum is clipped to the joint's range."""


NO_OFFSET = Start(np.zeros(3), np.zeros(3), np.zeros(6), np.zeros(spec.N_JOINTS))


@dataclass(frozen=True)
class TrialDraws:
    """Everything that one trial draws."""

    dynamics: Draw
    terrain: HeightMap | None
    """None is a plane."""
    start: Start
    pushes: dict[int, np.ndarray]
    """By step: change of root linear (world) and angular (pelvis) velocity, shape (6,)."""
    noise: np.ndarray
    """Added to the observation frame of each step, shape (steps, 160)."""


def noise_half_width() -> np.ndarray:
    """Half-width of the uniform noise of each observation element, shape (160,)."""
    width = np.zeros(spec.OBS_DIM)
    for block in spec.OBS_BLOCKS:
        width[block.start : block.stop] = block.noise_half_width
    return width


def draw_dynamics(rng: np.random.Generator, ranges: spec.DrawRanges = RANGES) -> Draw:
    """Friction, inertia, gains, encoder bias and latency."""
    x, y, z = ranges.torso_com_offset_m
    return Draw(
        friction=rng.uniform(*ranges.friction),
        mass_scale=rng.uniform(*ranges.mass_scale),
        torso_com_offset_m=(rng.uniform(*x), rng.uniform(*y), rng.uniform(*z)),
        kp_scale=rng.uniform(*ranges.kp_scale),
        kd_scale=rng.uniform(*ranges.kd_scale),
        encoder_bias_rad=tuple(rng.uniform(*ranges.encoder_bias_rad, size=spec.N_JOINTS).tolist()),
        latency_steps=int(rng.choice(ranges.latency_steps)),
    )


def draw_terrain(
    rng: np.random.Generator, body_pos_w: np.ndarray, ranges: spec.DrawRanges = RANGES
) -> HeightMap:
    """Smoothed Gaussian noise, scaled to span exactly [-A/2, A/2], under the reference.

    Args:
        rng: Stream `terrain`.
        body_pos_w: Reference body positions, shape (T, J, 3), m; the field covers their xy box.
        ranges: A is drawn from `terrain_span_m`.
    """
    span_m = rng.uniform(*ranges.terrain_span_m)
    flat = body_pos_w.reshape(-1, body_pos_w.shape[-1])[:, :2]
    rows, columns, center = terrain_grid(flat.min(axis=0), flat.max(axis=0))
    noise = rng.standard_normal((rows, columns))
    smooth = gaussian_filter(noise, spec.SCENE.terrain_sigma_m / spec.SCENE.cell_m)
    unit = (smooth - smooth.min()) / np.ptp(smooth) - 0.5
    return HeightMap(heights_m=span_m * unit, center_xy_m=center)


def draw_start(rng: np.random.Generator, ranges: spec.DrawRanges = RANGES) -> Start:
    """Start offsets of root and joints."""
    return Start(
        pos_m=np.array([rng.uniform(*r) for r in (ranges.start_xy_m,) * 2 + (ranges.start_z_m,)]),
        rpy_rad=np.array(
            [
                rng.uniform(*r)
                for r in (ranges.start_roll_rad, ranges.start_pitch_rad, ranges.start_yaw_rad)
            ]
        ),
        vel=np.concatenate(
            [
                rng.uniform(*ranges.start_lin_vel_m_s, size=3),
                rng.uniform(*ranges.start_ang_vel_rad_s, size=3),
            ]
        ),
        joint_rad=rng.uniform(*ranges.start_joint_rad, size=spec.N_JOINTS),
    )


def draw_pushes(
    rng: np.random.Generator, steps: int = spec.STEPS, ranges: spec.DrawRanges = RANGES
) -> dict[int, np.ndarray]:
    """Pushes of an episode by step: each at the first control step not before its drawn time."""
    pushes = {}
    time_s = rng.uniform(*ranges.push_interval_s)
    while (step := math.ceil(time_s * spec.CONTROL_HZ)) < steps:
        linear = rng.uniform(*ranges.push_lin_vel_m_s, size=3)
        angular = rng.uniform(*ranges.push_ang_vel_rad_s, size=3)
        pushes[step] = np.concatenate([linear, angular])
        time_s += rng.uniform(*ranges.push_interval_s)
    return pushes


def draw_noise(rng: np.random.Generator, steps: int = spec.STEPS) -> np.ndarray:
    """Sensor noise of an episode, shape (steps, 160)."""
    width = noise_half_width()
    noise = np.zeros((steps, spec.OBS_DIM))
    noisy = width > 0.0
    noise[:, noisy] = rng.uniform(-width[noisy], width[noisy], size=(steps, int(noisy.sum())))
    return noise


def trial_draws(
    streams: Streams,
    body_pos_w: np.ndarray,
    profile: str = spec.SCORED_PROFILE,
    steps: int = spec.STEPS,
) -> TrialDraws:
    """All draws of a trial; what the profile leaves out is nominal.

    Args:
        streams: The trial's generators.
        body_pos_w: Reference body positions, shape (T, J, 3), m.
        profile: Key of `spec.PROFILES`.
        steps: Longest episode, for pushes and noise.
    """
    use = spec.PROFILES[profile]
    return TrialDraws(
        dynamics=draw_dynamics(streams("dynamics")) if use.dynamics else Draw(),
        terrain=draw_terrain(streams("terrain"), body_pos_w) if use.terrain else None,
        start=draw_start(streams("init")) if use.init else NO_OFFSET,
        pushes=draw_pushes(streams("push"), steps) if use.push else {},
        noise=draw_noise(streams("noise"), steps) if use.noise else np.zeros((steps, spec.OBS_DIM)),
    )
