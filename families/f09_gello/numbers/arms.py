"""Physics, servos and the three stock arms with the springs of their reference twins."""

import math

import msgspec

# ---------------------------------------------------------------------------------- physics, servo


class Physics(msgspec.Struct, frozen=True, kw_only=True):
    """What every composed device is simulated with."""

    timestep_s: float = 0.002
    """Physics step. Source: published."""
    gravity_m_s2: float = 9.81
    """Standard gravity, along -z. Source: published."""
    joint_damping_n_m_s_per_rad: float = 0.01
    """Viscous friction of every joint. Source: published."""
    joint_frictionloss_n_m: float = 0.03
    """Dry friction of every joint. Source: published."""
    joint_armature_kg_m2: float = 0.002
    """Reflected rotor inertia of every joint. Source: published."""


class Servo(msgspec.Struct, frozen=True, kw_only=True):
    """tau = clip(kp (q_t - q) - kv qd + clip(ff, +-limit), +-limit)."""

    kp_n_m_per_rad: float = 8.0
    """Stiffness. Source: published."""
    kv_n_m_s_per_rad: float = 0.4
    """Damping. Source: published."""
    limit_n_m: float = 0.35
    """Largest torque of one servo, and of its feedforward. Source: published."""


PHYSICS = Physics()
SERVO = Servo()

# -------------------------------------------------------------------------------------- stock arms


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """Primitives that stand for the servos and printed parts of a stock arm."""

    servo_mass_kg: float = 0.018
    """One servo. Source: published."""
    servo_half_m: tuple[float, float, float] = (0.0091, 0.01105, 0.01599)
    """Half sizes of a servo box. Source: published."""
    printed_density_kg_m3: float = 1000.0
    """Printed stock parts. Source: ours, near solid PLA with some infill."""
    link_radius_m: float = 0.012
    """Capsule of a link. Source: ours."""
    last_link_end_m: tuple[float, float, float] = (0.0, 0.0, 0.03)
    """End of the last link's capsule, where the handle sits. Source: card."""
    base_radius_m: float = 0.03
    """Cylinder of the base. Source: ours."""
    base_half_length_m: float = 0.018
    """Half length of that cylinder. Source: ours."""
    handle_radius_m: float = 0.014
    """Capsule of the handle. Source: ours."""
    handle_end_m: tuple[float, float, float] = (-0.05765, 0.00302, -0.00008)
    """End of the handle's capsule and place of `lead_ee_site`. Source: published frames."""
    trigger_at_m: tuple[float, float, float] = (-0.02, 0.02, 0.0)
    """Trigger in the handle frame. Source: card."""
    trigger_end_m: tuple[float, float, float] = (-0.03, 0.0, 0.0)
    """End of the trigger's capsule. Source: card."""
    trigger_radius_m: float = 0.006
    """Capsule of the trigger. Source: ours."""
    payload_at_m: tuple[float, float, float] = (-0.0288, 0.0015, 0.0)
    """Point mass of the payload in the handle frame: the middle of the handle. Source: card."""
    payload_inertia_kg_m2: float = 1e-9
    """Inertia of that point mass; MuJoCo wants a positive number. Source: ours."""


PARTS = Parts()
ARM_NAMES = ("franka", "ur5e", "xarm7")
"""The three variants, in the order of every table."""


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """One lead arm: frames of its links and ranges of its joints. Source: published."""

    name: str
    base_at_m: tuple[float, float, float]
    base_quat_wxyz: tuple[float, float, float, float]
    """Normalised where it is used, like all quaternions of this table."""
    links: tuple[tuple[float, ...], ...]
    """Position (m) and quaternion (wxyz) of `lead_link1 ... N` in the parent's frame."""
    home_rad: tuple[float, ...]
    range_rad: tuple[tuple[float, float], ...]
    """Joint ranges of the follower robot."""

    @property
    def nv(self) -> int:
        """Number of joints."""
        return len(self.links)

    @property
    def half_width_rad(self) -> tuple[float, ...]:
        """Half-width of the teleoperation workspace around home, per joint."""
        return HALF_WIDTH_RAD[: self.nv]


HALF_WIDTH_RAD = (0.70, 0.45, 0.50, 0.50, 0.60, 0.50, 0.70)
"""Half-widths of the workspace, first N used. Source: published."""
_TURN = 6.28319
_FRANKA = Arm(
    name="franka",
    base_at_m=(0.0, 0.0, 0.0),
    base_quat_wxyz=(1.0, 0.0, 0.0, 0.0),
    links=(
        (-0.07225, 0.0, 0.0363, 1.0, 0.0, 0.0, 0.0),
        (0.0, 0.0, 0.1002, 0.27073, 0.65323, 0.27073, 0.65323),
        (0.0, 0.09725, -0.015, -0.5, 0.5, 0.5, 0.5),
        (0.0, 0.04125, 0.04575, 0.27066, 0.65326, 0.27066, 0.65326),
        (-0.04125, 0.0765, 0.0, -0.5, 0.5, 0.5, 0.5),
        (0.0, 0.0, 0.0855, -0.49995, 0.50005, -0.49995, 0.50005),
        (-0.05902, 0.0535, 0.0, 0.65334, -0.65334, -0.27047, -0.27047),
    ),
    home_rad=(0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785),
    range_rad=(
        (-2.8973, 2.8973), (-1.7628, 1.7628), (-2.8973, 2.8973), (-3.0718, -0.0698),
        (-2.8973, 2.8973), (-0.0175, 3.7525), (-2.8973, 2.8973),
    ),
)  # fmt: skip
_UR5E = Arm(
    name="ur5e",
    base_at_m=(0.0, 0.0, 0.008),
    base_quat_wxyz=(0.7071, 0.7071, 0.0, 0.0),
    links=(
        (0.0, 0.026, 0.0, 0.70711, -0.70711, 0.0, 0.0),
        (0.0675, 0.0, 0.0215795, 0.59731, -0.37845, 0.59731, -0.37845),
        (-0.2165, 0.0, -0.026, 0.0, -0.39774, 0.91750, 0.0),
        (0.1961, 0.0, 0.019975, 0.0, 0.85255, -0.52264, 0.0),
        (0.0, -0.0145, 0.040575, 0.56772, 0.56772, 0.42154, -0.42154),
        (0.0145, 0.0, 0.032825, -0.04639, 0.70558, -0.04639, 0.70558),
    ),
    home_rad=(0.0, 1.1295, 2.3889, 0.4709, -1.8642, -0.1313),
    range_rad=(
        (-_TURN, _TURN), (-_TURN, _TURN), (-3.14159, 3.14159),
        (-_TURN, _TURN), (-_TURN, _TURN), (-_TURN, _TURN),
    ),
)  # fmt: skip
_XARM7 = Arm(
    name="xarm7",
    base_at_m=(0.0, 0.0, 0.0),
    base_quat_wxyz=(0.7071, 0.7071, 0.0, 0.0),
    links=(
        (-0.07, 0.036, 0.0, 0.0, 0.0, 0.70711, 0.70711),
        (0.0, -0.0175, 0.0535, 0.08711, 0.08711, 0.70172, -0.70172),
        (0.0, -0.1053, -0.0015, 0.5, 0.5, -0.5, 0.5),
        (-0.0099, 0.01858, 0.04172, 0.63532, 0.31043, -0.63532, -0.31043),
        (0.03908, 0.08489, -0.036, 0.64846, -0.28196, 0.64846, 0.28196),
        (-0.0073, 0.0, 0.08375, -0.14254, 0.69259, 0.14254, -0.69259),
        (-0.03832, -0.0573, 0.0, 0.5, 0.5, -0.5, 0.5),
    ),
    home_rad=(0.0, -0.247, 0.0, 0.909, 0.0, 1.15644, 0.0),
    range_rad=(
        (-_TURN, _TURN), (-2.059, 2.0944), (-_TURN, _TURN), (-0.19198, 3.927),
        (-_TURN, _TURN), (-1.69297, 3.14159), (-_TURN, _TURN),
    ),
)  # fmt: skip
ARMS: dict[str, Arm] = {arm.name: arm for arm in (_FRANKA, _UR5E, _XARM7)}
"""The three arms by name."""


class SpringSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A torsion spring at a joint: tau = -k (q - q_home - preload)."""

    joint: int
    """1-based."""
    stiffness_n_m_per_rad: float
    preload_rad: float
    """springref minus the home angle."""


REFERENCE_SPRINGS: dict[str, tuple[SpringSpec, ...]] = {
    "franka": (
        SpringSpec(joint=2, stiffness_n_m_per_rad=0.516, preload_rad=0.760),
        SpringSpec(joint=4, stiffness_n_m_per_rad=0.350, preload_rad=1.2),
    ),
    "ur5e": (
        SpringSpec(joint=2, stiffness_n_m_per_rad=0.390, preload_rad=1.2),
        SpringSpec(joint=3, stiffness_n_m_per_rad=0.380, preload_rad=-1.2),
    ),
    "xarm7": (
        SpringSpec(joint=2, stiffness_n_m_per_rad=0.551, preload_rad=0.628),
        SpringSpec(joint=4, stiffness_n_m_per_rad=0.339, preload_rad=-1.2),
    ),
}
"""Springs around which the hidden reference arm is drawn. Source: card."""


def unit_quat_wxyz(quat_wxyz: tuple[float, ...]) -> tuple[float, ...]:
    """The quaternion divided by its norm."""
    norm = math.sqrt(sum(x * x for x in quat_wxyz))
    return tuple(x / norm for x in quat_wxyz)
