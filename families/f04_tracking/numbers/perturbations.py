"""What trials draw, in numbers, and the evaluation profiles. Part of `spec.py`, which re-exports it."""

from families.f04_tracking.numbers.robot import Frozen

Range = tuple[float, float]
Range3 = tuple[Range, Range, Range]


class DrawRanges(Frozen, frozen=True):
    """What one trial draws; every range is uniform. Source: published unless said otherwise."""

    friction: Range = (0.3, 1.6)
    """Sliding friction of all robot collision geoms, one value."""
    terrain_span_m: Range = (0.0, 0.02)
    """Highest minus lowest point of the height field. Source: card."""
    mass_scale: Range = (0.9, 1.1)
    """Mass and inertia of all bodies, one value."""
    torso_com_offset_m: Range3 = ((-0.025, 0.025), (-0.05, 0.05), (-0.05, 0.05))
    """Shift of the torso's centre of mass, x, y, z in the torso frame."""
    kp_scale: Range = (0.9, 1.1)
    """Position gain of all joints, one value."""
    kd_scale: Range = (0.9, 1.1)
    """Velocity gain of all joints, one value."""
    encoder_bias_rad: Range = (-0.01, 0.01)
    """Joint-position bias, one per joint."""
    latency_steps: tuple[int, ...] = (0, 1)
    """Control steps between an action and its effect, equally likely. Source: card."""
    push_interval_s: Range = (1.0, 3.0)
    """Time before the first push and between pushes."""
    push_lin_vel_m_s: Range = (-0.5, 0.5)
    """Added root linear velocity on x, y, z, world frame."""
    push_ang_vel_rad_s: Range = (-0.78, 0.78)
    """Added root angular velocity on each axis, body frame."""
    start_xy_m: Range = (-0.05, 0.05)
    """Start offset of the root on x and y."""
    start_z_m: Range = (-0.01, 0.01)
    """Start offset of the root on z."""
    start_roll_rad: Range = (-0.1, 0.1)
    start_pitch_rad: Range = (-0.1, 0.1)
    start_yaw_rad: Range = (-0.2, 0.2)
    """Start rotation offsets of the root."""
    start_lin_vel_m_s: Range = (-0.2, 0.2)
    """Start offset of the root linear velocity on each axis."""
    start_ang_vel_rad_s: Range = (-0.2, 0.2)
    """Start offset of the root angular velocity on each axis."""
    start_joint_rad: Range = (-0.1, 0.1)
    """Start offset of each joint, clipped to its range."""


EVAL_DRAWS = DrawRanges()
DRAW_STREAMS = ("dynamics", "terrain", "init", "push", "noise")
"""Child streams of a trial: changing one block of draws leaves the others' values. Source: card."""


class Profile(Frozen, frozen=True):
    """Which perturbations an evaluation applies. Only `full` is scored."""

    dynamics: bool
    """Friction, mass, COM, gains, encoder bias, latency."""
    terrain: bool
    init: bool
    push: bool
    noise: bool


PROFILES: dict[str, Profile] = {
    "full": Profile(dynamics=True, terrain=True, init=True, push=True, noise=True),
    "no_push": Profile(dynamics=True, terrain=True, init=True, push=False, noise=True),
    "noise": Profile(dynamics=False, terrain=False, init=False, push=False, noise=True),
    "nominal": Profile(dynamics=False, terrain=False, init=False, push=False, noise=False),
}
"""Evaluation profiles. Source: card, section 9."""
SCORED_PROFILE = "full"
