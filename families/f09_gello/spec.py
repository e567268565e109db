"""Numbers of f09: three hand-held lead arms and what may be added to them. Written once, here.

Sources: "published" is a number of the published benchmark task, "card" one that the family's card
sets, "measured" a figure of this project's own runs, "ours" a choice of this project with its reason.
Units are in the names; frames are those of the owning body unless said otherwise.
"""

import math

import msgspec

from rle.spec import ArtifactContract, ArtifactEntry, Budget, Channel, FamilyCard, TaskSpec

FAMILY_VERSION = "1.0.0"
"""Version of physics, thresholds and agent-visible bytes. Its first number ends the Gymnasium id."""


class Frozen(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the groups of numbers below: immutable, keyword-only."""


# ---------------------------------------------------------------------------------- physics, servo


class Physics(Frozen):
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


class Servo(Frozen):
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


class Parts(Frozen):
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


class Arm(Frozen):
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

# --------------------------------------------------------------------------- hidden copies, probes


class Devices(Frozen):
    """How built copies differ from the drawing."""

    mass_scale_half: float = 0.05
    """Mass and inertia of every body x (1 + U(-h, h)), independently. Source: published."""
    payload_low_kg: float = 0.020
    """Lightest payload in the handle. Source: published."""
    payload_high_kg: float = 0.076
    """Heaviest payload. Source: published."""
    payload_nominal_kg: float = 0.048
    """Payload of the nominal model. Source: published."""
    per_arm: int = 3
    """Copies of each arm; copy k draws its payload from the k-th third. Source: card."""
    probe_settle_s: float = 1.2
    """Time from the start of a probe to its reading. Source: published."""
    probe_noise_rad: float = 0.005
    """Standard deviation of a joint reading. Source: published."""
    probe_chosen: int = 15
    """Probes that the submission chooses, beside the one at home. Source: published."""
    probe_bound_tol_rad: float = 1e-9
    """Excess over the probe bounds that is rounding. Source: card."""
    spring_spread: float = 0.1
    """Stiffness and preload of the reference arm x U(1 - s, 1 + s), independently. Source: published."""


class SpringSpec(Frozen):
    """A torsion spring at a joint: tau = -k (q - q_home - preload)."""

    joint: int
    """1-based."""
    stiffness_n_m_per_rad: float
    preload_rad: float
    """springref minus the home angle."""


DEVICES = Devices()
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

# ------------------------------------------------------------------------------------ legal parts


class PartRules(Frozen):
    """What an added part or spring must satisfy; one that does not is dropped."""

    stiffness_max_n_m_per_rad: float = 2.0
    """Of one spring. Source: card."""
    preload_max_rad: float = 1.2
    """|springref - home|: beyond it a spring is a constant-torque source. Source: card."""
    fill_density_kg_m3: tuple[float, float] = (248.0, 1240.0)
    """`sup_*`: PLA of 1240 kg/m^3 at 20 to 100 % fill. Source: card."""
    metal_density_kg_m3: tuple[float, float] = (7850.0, 8500.0)
    """`cw_*`: steel or brass. Source: card."""
    metal_density_tol: float = 0.005
    """Relative. Source: card."""
    geoms_max: int = 40
    """Added geoms of one arm. Source: card."""
    meshes_max: int = 8
    """STL files of one arm. Source: card."""
    mesh_bytes_max: int = 2 * 2**20
    """One STL file. Source: card."""
    mesh_faces_max: int = 20_000
    """One STL file. Source: card."""
    geom_volume_max_m3: float = 1.0e-4
    """One added geom. Source: card."""
    total_volume_max_m3: float = 6.0e-4
    """All added geoms of one arm. Source: card."""
    reach_max_m: float = 0.30
    """|position| + bounding radius. Source: published."""
    thickness_min_m: float = 0.002
    """Smallest full dimension. Source: card."""
    touch_gap_m: float = 0.001
    """Largest gap between two parts that count as touching. Source: card."""
    overlap_max_m: float = 0.001
    """Depth up to which metal may sink into metal or into its own body's stock parts. Source: card."""
    shared_volume_max: float = 0.5
    """Share of a printed part that may lie inside other added parts of its body. Source: ours: without it
    forty supports in one place would be a material denser than steel."""
    device_mass_max_kg: float = 2.30
    """All bodies, payload excluded. Source: card."""


class Structure(Frozen):
    """How far a submitted file may differ from the stock arm (rounding by an exporter)."""

    frame_tol_m: float = 0.002
    """Positions and sizes. Source: published."""
    frame_tol_rad: float = 0.002
    """Orientation of a frame. Source: ours: 2 mm at a metre, beyond any rounding of a quaternion."""
    axis_tol: float = 1e-5
    """Per component of a joint axis. Source: published."""
    other_rtol: float = 1e-3
    """Relative, for density, mass and range. Source: ours."""


class Clearance(Frozen):
    """When parts of different bodies are too close."""

    gap_m: float = 0.002
    """Smallest accepted signed distance. Source: card."""
    joint_exempt_m: float = 0.030
    """Parent and child may meet within this distance of their common joint. Source: card."""
    table_z_m: float = -0.020
    """Height of the table in the base frame of the world. Source: card."""
    paths: int = 3
    """Hidden paths; the share of clear ones counts. Source: published."""
    dt_s: float = 0.05
    """Sampling of a path: 481 poses. Source: card."""


PART_RULES = PartRules()
STRUCTURE = Structure()
CLEARANCE = Clearance()

# ----------------------------------------------------------------------------------- measurements


class Protocol(Frozen):
    """Trials of the battery."""

    hold_s: float = 1.5
    """Length of a hold. Source: published."""
    hold_poses: int = 12
    """home, home + hw alt, home - hw alt, then hidden ones. Source: published."""
    settle_s: float = 1.0
    """Passive hold at home of the settle check. Source: card."""
    settle_full_rad_s: float = 0.10
    """Largest joint speed at its end that is full credit. Source: card."""
    settle_zero_rad_s: float = 0.15
    """Speed that is none. Source: card."""
    leg_s: float = 6.0
    """One leg of a path, cosine easing. Source: published."""
    waypoints: int = 3
    """Drawn between home and home: four legs. Source: published."""
    backdrive_dt_s: float = 0.1
    """Sampling of the backdrive path: 241 poses. Source: published."""
    push_n: float = 2.0
    """Force on the handle along world +x. Source: published."""
    push_from_s: float = 0.5
    push_to_s: float = 0.8
    """Window of the force. Source: published."""
    push_s: float = 1.8
    """Length of a push trial. Source: published."""
    push_hold_poses: int = 3
    """First hold poses that are pushed, beside the hardest grid pose. Source: card."""
    push_peak_divisor: float = 20.0
    """Peak displacement counts this much less than the final one. Source: card."""
    grid_levels: int = 3
    """Per joint 2 ... N, joint 1 at home. Source: published."""
    headroom_stride: int = 9
    """Every n-th grid pose is asked of the trim. Source: published."""
    random_residual_poses: int = 96
    """Hidden poses beside the grid. Source: published."""

    @property
    def path_s(self) -> float:
        """Length of a path."""
        return self.leg_s * (self.waypoints + 1)


class SoftwareLimits(Frozen):
    """What `trim.py` may use, per (arm, device) pair."""

    load_s: float = 30.0
    """Import. Source: card."""
    call_s: float = 60.0
    """One call. Source: card."""
    cpu_s: float = 120.0
    """All calls together. Source: card."""
    memory_bytes: int = 2 * 2**30
    """Address space. Source: card."""


PROTOCOL = Protocol()
SOFTWARE_LIMITS = SoftwareLimits()
DESIGN_SEEDS = (101, 102, 103)
"""Public devices of the development battery, by default. Source: card."""

# ------------------------------------------------------------------------------------------ credit


class Marks(Frozen):
    """x that earns 0, 0.6 and 1."""

    zero: float
    bar: float
    best: float


BAR_CREDIT = 0.6
"""Credit at the bar. Source: card."""
HEADROOM_BACKDRIVE_CREDIT = BAR_CREDIT
"""Backdrive credit from which headroom is paid in full. Source: card."""
CHECKPOINTS = ("C1", "H1", "H2", "H3", "S2a", "S2b", "B1", "B2", "B3", "B4")
"""Ids of the ten checkpoints."""
OWN_CHECKPOINTS = tuple(c for c in CHECKPOINTS if not c.startswith("S"))
"""Checkpoints that are measured on the submitted arm; the others on the reference arm."""
CHECKPOINT_WEIGHT = 0.10
"""Weight of each. Source: card."""
VALIDITY_WEIGHTS: dict[str, float] = {
    "load": 0.010, "structure": 0.020, "printability": 0.020, "settle": 0.020,
    "budget": 0.010, "springs_legal": 0.010, "buildable": 0.010,
}  # fmt: skip
"""Deduction of each validity item at full shortfall; 0.10 in all. Source: card."""
_UNITS = {
    "H1": "N m", "H2": "m", "H3": "N m", "S2a": "m", "S2b": "N m",
    "B1": "m", "B2": "N m", "B3": "N m", "B4": "m",
}  # fmt: skip
UNITS: dict[str, str] = {"C1": "share", **_UNITS}
"""Unit of each checkpoint's x."""


def _marks(rows: dict[str, tuple[float, float, float]]) -> dict[str, Marks]:
    return {key: Marks(zero=z, bar=b, best=t) for key, (z, b, t) in rows.items()}


MARKS: dict[str, dict[str, Marks]] = {
    "franka": _marks({
        "H1": (1.06, 0.20, 0.11), "H2": (0.80, 0.012, 0.006), "H3": (0.89, 0.18, 0.12),
        "S2a": (0.10, 0.004, 0.001), "S2b": (0.30, 0.080, 0.055), "B1": (0.020, 0.004, 0.001),
        "B2": (0.25, 0.080, 0.045), "B3": (0.0, 0.19, 0.26), "B4": (0.15, 0.020, 0.010),
    }),
    "ur5e": _marks({
        "H1": (1.07, 0.13, 0.09), "H2": (0.58, 0.006, 0.004), "H3": (0.76, 0.15, 0.10),
        "S2a": (0.02, 0.004, 0.001), "S2b": (0.25, 0.070, 0.040), "B1": (0.008, 0.002, 0.0005),
        "B2": (0.16, 0.075, 0.045), "B3": (0.0, 0.20, 0.26), "B4": (0.10, 0.007, 0.0045),
    }),
    "xarm7": _marks({
        "H1": (0.93, 0.16, 0.10), "H2": (0.69, 0.008, 0.004), "H3": (0.67, 0.14, 0.095),
        "S2a": (0.016, 0.0025, 0.0007), "S2b": (0.25, 0.070, 0.042), "B1": (0.016, 0.003, 0.0006),
        "B2": (0.20, 0.080, 0.045), "B3": (0.0, 0.20, 0.27), "B4": (0.10, 0.006, 0.0045),
    }),
}  # fmt: skip
"""(zero, bar, best) of each checkpoint and arm, in `UNITS`. Source: measured, three devices per design."""
REFUSED = ("load", "structure", "budget")
"""Validity items whose failure leaves the submitted arm unmeasured; the reference arm is still run."""

# ------------------------------------------------------------------------------------ the one task

XML_BYTES_MAX = 256 * 1024
"""`lead.xml`. Source: card."""
TRIM_BYTES_MAX = 256 * 1024
"""`trim.py`. Source: card."""
SUBMISSION_BYTES_MAX = 24 * 2**20
"""Whole submission. Source: card."""
SUBMISSION_FILES_MAX = 200
"""Files below the submission folder. Source: ours."""
TRIM_FUNCTIONS = ("plan_probe", "adapt", "make_trim", "make_trim_adapted")
"""Functions of `trim.py`."""

_INSTRUCTION = f"""\
Make three hand-held GELLO lead arms (franka, ur5e, xarm7) feel weightless, by mechanism and software together.

A lead arm is a small copy of a robot that a person moves by its handle to drive the real one. The stock arms need up to
0.9 N m at the shoulder, but a servo gives at most {SERVO.limit_n_m} N m: let go, and they fall. Add torsion springs,
steel or brass counterweights and printed supports to `<arm>/lead.xml`, and write `<arm>/trim.py`, whose four functions
(plan_probe, adapt, make_trim, make_trim_adapted) compute the feedforward torque of the servos for the nominal device
and, from {DEVICES.probe_chosen + 1} noisy probes, for the very copy at hand: masses differ by
+-{DEVICES.mass_scale_half:.0%} and the payload in the handle lies between {DEVICES.payload_low_kg * 1e3:.0f} g and
{DEVICES.payload_high_kg * 1e3:.0f} g. Everything about the rules and the score is in the card; `starter/` holds three
legal arms without any compensation; `rle dev f09/gello --submission DIR` measures a submission on public devices with
every metric, picture and finding. Put the three folders into /submission.
"""

_ARTIFACT = ArtifactContract(
    entries=tuple(
        entry
        for arm in ARM_NAMES
        for entry in (
            ArtifactEntry(
                path=f"{arm}/lead.xml",
                kind="mjcf",
                max_bytes=XML_BYTES_MAX,
                required=False,
                is_text=True,
            ),
            ArtifactEntry(
                path=f"{arm}/trim.py",
                kind="python",
                max_bytes=TRIM_BYTES_MAX,
                required=False,
                is_text=True,
            ),
            ArtifactEntry(
                path=f"{arm}/*.stl",
                kind="mjcf",
                max_bytes=PART_RULES.mesh_bytes_max,
                required=False,
            ),
        )
    ),
    max_files=SUBMISSION_FILES_MAX,
    max_total_bytes=SUBMISSION_BYTES_MAX,
    extra="ignore",
)

TASKS: tuple[TaskSpec, ...] = (
    TaskSpec(
        id="f09/gello",
        title="GELLO gravity-compensation co-design",
        workflow="mechanical design",
        version=FAMILY_VERSION,
        instruction=_INSTRUCTION,
        budget=Budget(agent_wall_s=10_800, verify_wall_s=3_600, cpus=4, memory_mib=4096, verify_memory_mib=4096),
        artifact=_ARTIFACT,
        profiles=("mjcf", "python"),
        n_trials=len(ARM_NAMES),
        agent_files=(
            *(
                f"families/f09_gello/{room}.py"
                for room in (
                    "__init__", "spec", "scene", "task", "mechanism", "devices", "clearance",
                    "software", "metrics", "figures",
                )
            ),
            "families/__init__.py",
            "assets/gello/**",
        ),
        draw_key="gello",
        floor=0.02,
        bar=0.70,
        oracle="gello/oracle",
        gym_id="rle/f09-gello-v1",
    ),
)  # fmt: skip
"""The family's tasks."""

CARD = FamilyCard(
    summary=(
        "Three lead arms are made weightless with springs, counterweights and model-based software; "
        "residual torque, hold, backdrive, headroom and recovery from a push are measured on hidden copies."
    ),
    robot="GELLO lead arms for a Franka (7 joints), a UR5e (6) and an xArm7 (7), rebuilt from primitives",
    rate=(
        f"Physics step {PHYSICS.timestep_s * 1e3:g} ms, implicitfast; a hold lasts {PROTOCOL.hold_s:g} s, "
        f"a push {PROTOCOL.push_s:g} s, a path {PROTOCOL.path_s:g} s."
    ),
    observations=(
        Channel(name="target", meaning="commanded pose of a probe", shape="(nv,)", unit="rad", frame="joint"),
        Channel(
            name="q", meaning=f"pose {DEVICES.probe_settle_s:g} s later, feedforward off", shape="(nv,)",
            unit="rad", frame="joint", noise=f"N(0, {DEVICES.probe_noise_rad:g})",
        ),
        Channel(
            name="model", meaning="nominal MjModel of the arm (own, or the hidden reference arm)",
            shape="-", unit="SI",
        ),
    ),
    actions=(
        Channel(
            name="plan_probe(model, sample, lower, upper)", meaning="poses to probe",
            shape=f"({DEVICES.probe_chosen}, nv)", unit="rad", frame="joint", range="lower .. upper",
        ),
        Channel(
            name="adapt(model, probes)", meaning="anything; it stays in the worker", shape="-", unit="-"
        ),
        Channel(
            name="make_trim(model)(q)", meaning="nominal feedforward", shape="(nv,)", unit="N m",
            frame="joint", range=f"used within +-{SERVO.limit_n_m:g}",
        ),
        Channel(
            name="make_trim_adapted(model, params)(q)", meaning="feedforward of this copy", shape="(nv,)",
            unit="N m", frame="joint", range=f"used within +-{SERVO.limit_n_m:g}",
        ),
    ),
    score_equation=(
        "c(x) = 1                                        x <= best",
        "       0.6 + 0.4 ln(bar/x) / ln(bar/best)       best < x <= bar",
        "       0.6 ln(zero/x) / ln(zero/bar)            bar < x < zero",
        "       0                                        x >= zero, or x not finite",
        "C1 = s min(1, 2 c_H1), s = share of clear paths",
        "B3 = min(1, c_B2 / 0.6) piecewise(h; 0 -> 0, bar -> 0.6, best -> 1), h = 0.35 N m - max|ff|",
        "S2 is measured on the hidden reference arm, the other checkpoints on the submitted arm",
        "reward_arm = max(0, sum of 0.10 c_i - validity deductions)",
        "reward = mean of reward_arm over franka, ur5e, xarm7",
    ),
    dev=(
        "`rle dev f09/gello --submission DIR [--arm A] [--seed 101]` measures a submission on public devices: "
        "every finding, metric and credit, with pictures and videos. The functions behind it are in "
        "`families/f09_gello/task.py`: `load_lead`, `compose`, `gravity_torque`, `residual`, `simulate_hold`, "
        "`simulate_push`, `run_probe`, `sample_device`, `reference_arm`. Nothing is metered but wall time."
    ),
    history=(("1.0.0", "first version"),),
)  # fmt: skip
"""What the generated card shows."""


def payload_band_kg(device: int) -> tuple[float, float]:
    """Payload range of copy `device`: the device-th of `DEVICES.per_arm` equal parts of the whole range."""
    if not 0 <= device < DEVICES.per_arm:
        raise ValueError(
            f"device {device}; an arm has {DEVICES.per_arm} copies, 0 .. {DEVICES.per_arm - 1}"
        )
    step = (DEVICES.payload_high_kg - DEVICES.payload_low_kg) / DEVICES.per_arm
    return DEVICES.payload_low_kg + device * step, DEVICES.payload_low_kg + (device + 1) * step


def unit_quat_wxyz(quat_wxyz: tuple[float, ...]) -> tuple[float, ...]:
    """The quaternion divided by its norm."""
    norm = math.sqrt(sum(x * x for x in quat_wxyz))
    return tuple(x / norm for x in quat_wxyz)
