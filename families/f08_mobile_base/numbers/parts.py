"""The catalogue of profiles and the three canonical arms."""

import msgspec


class Frozen(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the tables below: immutable, keyword-only."""


class Section(Frozen):
    """One catalogue profile."""

    name: str
    width_m: float
    """Smaller side."""
    height_m: float
    """Larger side."""
    kg_per_m: float
    bending_i_m4: float
    """Weak-axis second moment of area; typical, used in the report only."""


CATALOGUE = (
    Section(name="2020", width_m=0.02, height_m=0.02, kg_per_m=0.45, bending_i_m4=0.7e-8),
    Section(name="2040", width_m=0.02, height_m=0.04, kg_per_m=0.82, bending_i_m4=1.3e-8),
    Section(name="4040", width_m=0.04, height_m=0.04, kg_per_m=1.5, bending_i_m4=9.0e-8),
)
"""Source: published; second moments typical of the sections, report only."""
YIELD_MPA = 145.0
"""Yield strength of the profile, for the report's span stress. Source: published."""


class Arm(Frozen):
    """A canonical arm; its model is `assets/robots/<name>`."""

    name: str
    title: str
    n_joints: int
    stow_rad: tuple[float, ...]
    extended_rad: tuple[float, ...]
    tool_azimuth_rad: float
    """Azimuth of the extended tool at joint 1 = 0 (checked against the model)."""
    mass_kg: float
    """Checked against the model."""
    reach_m: float
    """Horizontal distance of the extended tool from the arm's axis (checked against the model)."""
    tool_height_m: float
    """Height of the extended tool over the arm's base (checked against the model)."""


ARMS = (
    Arm(
        name="panda", title="Franka Panda", n_joints=7,
        stow_rad=(0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785),
        extended_rad=(0.0, 1.35, 0.0, -0.4, 0.0, 2.5, 0.785),
        tool_azimuth_rad=0.0, mass_kg=16.69, reach_m=0.856, tool_height_m=0.316,
    ),
    Arm(
        name="ur5e", title="Universal Robots UR5e", n_joints=6,
        stow_rad=(-0.83943, -1.22370, -1.33717, -1.07738, -3.03934, 3.03382),
        extended_rad=(0.0, -0.10019, 0.11640, -0.66953, 1.51886, -0.71154),
        tool_azimuth_rad=0.1447, mass_kg=20.99, reach_m=0.963, tool_height_m=0.179,
    ),
    Arm(
        name="xarm7", title="UFACTORY xArm7", n_joints=7,
        stow_rad=(-2.26731, -0.62319, -0.00416, 0.22692, 0.02608, 2.72839, -0.08641),
        extended_rad=(0.0, 1.39471, -0.24112, 2.74108, 3.09956, 0.71877, 3.00779),
        tool_azimuth_rad=-0.0482, mass_kg=11.32, reach_m=0.770, tool_height_m=0.249,
    ),
)  # fmt: skip
"""Poses: published; masses, reach and azimuth: measured on our models."""
ARM_NAMES = tuple(arm.name for arm in ARMS)
