"""The robot in numbers: motors, joints, bodies, meshes. Part of `spec.py`, which re-exports every name.

Sources: "published" is a number of the published benchmark task, "card" one that the family's card sets,
"wheel" a fact read from the robot model named in `assets/unitree_g1/README.md`.
"""

import math

import msgspec


class Frozen(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the groups of numbers below: immutable, keyword-only."""


# ------------------------------------------------------------------------------- motors and gains

SERVO_HZ = 10.0
"""Natural frequency of a joint servo with its armature alone. Source: card."""
SERVO_DAMPING_RATIO = 2.0
"""Damping ratio of that servo. Source: card."""
ACTION_EFFORT_FRACTION = 0.25
"""Share of the torque limit that a unit action commands at rest. Source: card."""


class Motor(Frozen, frozen=True):
    """A two-stage planetary drive; what a joint needs of it is derived."""

    rotor_inertia_kg_m2: tuple[float, float, float]
    """Inertia of rotor, first and second stage, each about its own axis."""
    ratios: tuple[float, float]
    """Gear ratio of the second and the third stage."""
    effort_n_m: float
    """Torque limit at the joint."""
    count: int = 1
    """Motors that drive the joint in parallel."""

    @property
    def armature_kg_m2(self) -> float:
        """Inertia reflected to the joint: count (J1 (g2 g3)^2 + J2 g3^2 + J3)."""
        j1, j2, j3 = self.rotor_inertia_kg_m2
        g2, g3 = self.ratios
        return self.count * (j1 * (g2 * g3) ** 2 + j2 * g3**2 + j3)

    @property
    def kp_n_m_per_rad(self) -> float:
        """Position gain, armature w^2."""
        return self.armature_kg_m2 * (2.0 * math.pi * SERVO_HZ) ** 2

    @property
    def kd_n_m_s_per_rad(self) -> float:
        """Velocity gain, 2 zeta armature w."""
        return 2.0 * SERVO_DAMPING_RATIO * self.armature_kg_m2 * 2.0 * math.pi * SERVO_HZ

    @property
    def action_scale_rad(self) -> float:
        """Target offset of a unit action: 0.25 effort / kp."""
        return ACTION_EFFORT_FRACTION * self.effort_n_m / self.kp_n_m_per_rad


_J5020 = (0.139e-4, 0.017e-4, 0.169e-4)
_R5020 = (1 + 46 / 18, 1 + 56 / 16)
MOTORS: dict[str, Motor] = {
    "7520-14": Motor(
        rotor_inertia_kg_m2=(0.489e-4, 0.098e-4, 0.533e-4),
        ratios=(4.5, 1 + 48 / 22),
        effort_n_m=88.0,
    ),
    "7520-22": Motor(
        rotor_inertia_kg_m2=(0.489e-4, 0.109e-4, 0.738e-4), ratios=(4.5, 5.0), effort_n_m=139.0
    ),
    "2x5020": Motor(rotor_inertia_kg_m2=_J5020, ratios=_R5020, effort_n_m=50.0, count=2),
    "5020": Motor(rotor_inertia_kg_m2=_J5020, ratios=_R5020, effort_n_m=25.0),
    "4010": Motor(rotor_inertia_kg_m2=(0.068e-4, 0.0, 0.0), ratios=(5.0, 5.0), effort_n_m=5.0),
}
"""Drives of the robot. Source: card; rotor inertias and ratios as published with the wheel."""

_LEG = (
    ("hip_pitch", "7520-14", -0.312),
    ("hip_roll", "7520-22", 0.0),
    ("hip_yaw", "7520-14", 0.0),
    ("knee", "7520-22", 0.669),
    ("ankle_pitch", "2x5020", -0.363),
    ("ankle_roll", "2x5020", 0.0),
)
_WAIST = (
    ("waist_yaw", "7520-14", 0.0),
    ("waist_roll", "2x5020", 0.0),
    ("waist_pitch", "2x5020", 0.0),
)
_ARM = (
    ("shoulder_pitch", "5020", 0.2),
    ("shoulder_roll", "5020", 0.2),
    ("shoulder_yaw", "5020", 0.0),
    ("elbow", "5020", 0.6),
    ("wrist_roll", "5020", 0.0),
    ("wrist_pitch", "4010", 0.0),
    ("wrist_yaw", "4010", 0.0),
)


class Joint(Frozen, frozen=True):
    """One actuated joint."""

    name: str
    motor: str
    """Key of `MOTORS`."""
    default_rad: float
    """Angle in the default pose; a zero action commands it. Source: published."""


def _joints() -> tuple[Joint, ...]:
    rows = [(f"{side}_{n}", m, q) for side in ("left", "right") for n, m, q in _LEG]
    rows += _WAIST
    for side in ("left", "right"):
        mirrored = {"shoulder_roll"} if side == "right" else set()
        rows += [(f"{side}_{n}", m, -q if n in mirrored else q) for n, m, q in _ARM]
    return tuple(Joint(name=f"{n}_joint", motor=m, default_rad=q) for n, m, q in rows)


JOINTS = _joints()
"""The 29 joints in the order of every array of this family. Source: card."""
JOINT_NAMES = tuple(joint.name for joint in JOINTS)
N_JOINTS = len(JOINTS)
DEFAULT_POSE_RAD = tuple(joint.default_rad for joint in JOINTS)
KP_N_M_PER_RAD = tuple(MOTORS[joint.motor].kp_n_m_per_rad for joint in JOINTS)
KD_N_M_S_PER_RAD = tuple(MOTORS[joint.motor].kd_n_m_s_per_rad for joint in JOINTS)
ARMATURE_KG_M2 = tuple(MOTORS[joint.motor].armature_kg_m2 for joint in JOINTS)
EFFORT_N_M = tuple(MOTORS[joint.motor].effort_n_m for joint in JOINTS)
ACTION_SCALE_RAD = tuple(MOTORS[joint.motor].action_scale_rad for joint in JOINTS)
DEFAULT_PELVIS_Z_M = 0.76
"""Pelvis height of the default pose. Source: card."""

# ----------------------------------------------------------------------------------------- bodies

_SIDES = ("left", "right")
_LEG_LINKS = ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
_ARM_LINKS = (
    "shoulder_pitch",
    "shoulder_roll",
    "shoulder_yaw",
    "elbow",
    "wrist_roll",
    "wrist_pitch",
    "wrist_yaw",
)
BODY_NAMES = (
    "pelvis",
    *(f"{side}_{link}_link" for side in _SIDES for link in _LEG_LINKS),
    "waist_yaw_link",
    "waist_roll_link",
    "torso_link",
    *(f"{side}_{link}_link" for side in _SIDES for link in _ARM_LINKS),
)
"""The 30 bodies, depth first, without the world: order of `Reference.body_*`. Source: wheel."""
TRACKED_BODIES = (
    "pelvis",
    *(f"{side}_{link}_link" for side in _SIDES for link in ("hip_roll", "knee", "ankle_roll")),
    "torso_link",
    *(f"{side}_{link}_link" for side in _SIDES for link in ("shoulder_roll", "elbow", "wrist_yaw")),
)
"""The 14 bodies whose position is scored. Source: published."""
N_TRACKED = len(TRACKED_BODIES)
TRACKED_INDEX = tuple(BODY_NAMES.index(name) for name in TRACKED_BODIES)
"""Index of each tracked body in `BODY_NAMES`."""
ANCHOR_INDEX = TRACKED_BODIES.index("torso_link")
"""The anchor among the tracked bodies."""
END_EFFECTOR_INDEX = tuple(
    TRACKED_BODIES.index(f"{side}_{link}_link")
    for link in ("ankle_roll", "wrist_yaw")
    for side in _SIDES
)
"""Feet and hands among the tracked bodies."""
FOOT_BODIES = ("left_ankle_roll_link", "right_ankle_roll_link")
FOOT_SOLE_Z_M = -0.035
"""Lowest point of a foot's collision geoms below its link origin (capsule axis -0.025 m, radius
0.010 m): the ankle height of a flat foot. Source: wheel."""
FOOT_CENTER_X_M = 0.04
"""Middle of a sole ahead of its link origin. Source: wheel (its foot site)."""

# ----------------------------------------------------------------------------------------- meshes


class VisualMesh(Frozen, frozen=True):
    """A surface mesh of the `mjlab` wheel, for pictures only. Source: wheel."""

    body: str
    mesh: str
    dark: bool = False
    pos_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quat_wxyz: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)


_REVISED = {"waist_yaw_link", "waist_roll_link", "torso_link"}
_DARK = {"pelvis", *FOOT_BODIES, *(f"{side}_hip_pitch_link" for side in _SIDES)}
VISUAL_MESHES = (
    *(
        VisualMesh(
            body=name, mesh=f"{name}_rev_1_0" if name in _REVISED else name, dark=name in _DARK
        )
        for name in BODY_NAMES
    ),
    VisualMesh(body="pelvis", mesh="pelvis_contour_link"),
    VisualMesh(body="torso_link", mesh="logo_link", dark=True, pos_m=(0.0039635, 0.0, -0.044)),
    VisualMesh(body="torso_link", mesh="head_link", dark=True, pos_m=(0.0039635, 0.0, -0.044)),
    VisualMesh(
        body="left_wrist_yaw_link", mesh="left_rubber_hand", dark=True, pos_m=(0.0415, 0.003, 0.0)
    ),
    VisualMesh(
        body="right_wrist_yaw_link",
        mesh="right_rubber_hand",
        dark=True,
        pos_m=(0.0415, -0.003, 0.0),
    ),
)
"""Every body's mesh carries the body's name; the others sit at the given place."""
