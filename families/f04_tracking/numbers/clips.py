"""Reference clips in numbers: sources and format. Part of `spec.py`, which re-exports every name."""

from families.f04_tracking.numbers.robot import N_JOINTS, Frozen


class Clip(Frozen, frozen=True):
    """The reference of one task, published or stand-in."""

    source: str
    """Stem of the published CSV file."""
    rows: tuple[int, int]
    """First and last CSV row, 1-based, both included. Source: published."""
    standin: str
    """Stem of the clip that is shipped under `assets/motions/`."""


CLIPS: dict[str, Clip] = {
    "dance": Clip(source="dance1_subject2", rows=(122, 722), standin="standin_dance"),
    "fight": Clip(source="fight1_subject2", rows=(650, 1250), standin="standin_fight"),
    "fall-and-get-up": Clip(
        source="fallAndGetUp2_subject2", rows=(1, 601), standin="standin_crouch"
    ),
    "run": Clip(source="run1_subject2", rows=(3266, 3866), standin="standin_step"),
    "sprint": Clip(source="sprint1_subject2", rows=(1525, 2125), standin="standin_tread"),
}
"""Clip of each task, by the task's slug."""


class ReferenceRules(Frozen, frozen=True):
    """Conversion of a CSV and checks of an npz. Source: card, section 4.2."""

    csv_columns: int = 7 + N_JOINTS
    """Root position, root quaternion xyzw, joint positions."""
    csv_fps: float = 30.0
    """Frame rate of the published files."""
    quat_norm_tolerance: float = 1.0e-3
    fk_tolerance_m: float = 1.0e-3
    """Stored body positions against forward kinematics, at the first, middle and last frame."""
    joint_vel_tolerance_rad_s: float = 0.5
    """Median difference of joint_vel from the central difference."""
    joint_range_tolerance_rad: float = 0.01
    lowest_geom_error_m: float = -0.15
    """A collision geom below this is an error."""
    lowest_geom_warning_m: float = -0.03
    """A collision geom below this is a warning."""
    joint_vel_warning_rad_s: float = 40.0


REFERENCE_RULES = ReferenceRules()
