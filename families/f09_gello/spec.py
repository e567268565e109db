"""Numbers of f09: three hand-held lead arms and what may be added to them. Written once, here.

Sources: "published" is a number of the published benchmark task, "card" one that the family's card
sets, "measured" a figure of this project's own runs, "ours" a choice of this project with its reason.
Units are in the names; frames are those of the owning body unless said otherwise.
"""

import msgspec

from families.f09_gello.numbers.arms import *  # noqa: F403  (re-exported)
from families.f09_gello.numbers.arms import ARM_NAMES, PHYSICS, SERVO
from families.f09_gello.numbers.credit import *  # noqa: F403
from rle.spec import ArtifactContract, ArtifactEntry, Budget, Channel, FamilyCard, TaskSpec

FAMILY_VERSION = "1.0.0"
"""Version of physics, thresholds and agent-visible bytes. Its first number ends the Gymnasium id."""


# --------------------------------------------------------------------------- hidden copies, probes


class Devices(msgspec.Struct, frozen=True, kw_only=True):
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


DEVICES = Devices()
# ------------------------------------------------------------------------------------ legal parts


class PartRules(msgspec.Struct, frozen=True, kw_only=True):
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


class Structure(msgspec.Struct, frozen=True, kw_only=True):
    """How far a submitted file may differ from the stock arm (rounding by an exporter)."""

    frame_tol_m: float = 0.002
    """Positions and sizes. Source: published."""
    frame_tol_rad: float = 0.002
    """Orientation of a frame. Source: ours: 2 mm at a metre, beyond any rounding of a quaternion."""
    axis_tol: float = 1e-5
    """Per component of a joint axis. Source: published."""
    other_rtol: float = 1e-3
    """Relative, for density, mass and range. Source: ours."""


class Clearance(msgspec.Struct, frozen=True, kw_only=True):
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


class Protocol(msgspec.Struct, frozen=True, kw_only=True):
    """Trials of the battery."""

    hold_s: float = 1.5
    """Length of a hold. Source: published."""
    hold_poses: int = 12
    """home, home + hw alt, home - hw alt, then hidden ones. Source: published."""
    reference_hold_share: float = 0.9
    """Share of the servo limit that holding the reference arm may need. Source: ours: with +-10 % springs
    its residual often exceeds the limit, and no software could hold it."""
    reference_hold_candidates: int = 400
    """Random poses among which its hold poses are found. Source: ours."""
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


class SoftwareLimits(msgspec.Struct, frozen=True, kw_only=True):
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
{DEVICES.payload_high_kg * 1e3:.0f} g. Put the three folders into /submission; `starter/` holds three legal arms without any compensation, and
`rle dev f09/gello --submission DIR` measures a submission on public devices with every metric, picture and finding.

What may be added to the starter's `lead.xml`, and nothing else:
- `stiffness` (0 to {PART_RULES.stiffness_max_n_m_per_rad:g} N m/rad) and `springref` (within {PART_RULES.preload_max_rad:g} rad of home) on `lead_joint*`;
- geoms `cw_*` (steel {PART_RULES.metal_density_kg_m3[0]:g} or brass {PART_RULES.metal_density_kg_m3[1]:g} kg/m^3, +-{PART_RULES.metal_density_tol:.1%}) and `sup_*` (printed, \
{PART_RULES.fill_density_kg_m3[0]:g} to {PART_RULES.fill_density_kg_m3[1]:g} kg/m^3) in any
  `lead_*` body: box, sphere, capsule, cylinder, ellipsoid or mesh, with `density` and without `mass`; at most {PART_RULES.geoms_max}, each up to
  {PART_RULES.geom_volume_max_m3 * 1e6:g} cm^3 ({PART_RULES.total_volume_max_m3 * 1e6:g} cm^3 in all), within {PART_RULES.reach_max_m:g} m of the body's origin, at least {PART_RULES.thickness_min_m * 1e3:g} mm thick;
- meshes: up to {PART_RULES.meshes_max} closed binary STL files in metres, scale 1, {PART_RULES.mesh_faces_max:,} faces, beside `lead.xml`.
Every part must be joined to a stock part of its body by a chain of parts with gaps of at most {PART_RULES.touch_gap_m * 1e3:g} mm. Metal may sink at most
{PART_RULES.overlap_max_m * 1e3:g} mm into other metal or into stock parts of its body, and at most half of a printed part may lie inside other added parts. A part
that breaks a rule is left out and costs validity. The device may weigh {PART_RULES.device_mass_max_kg:g} kg without its payload. On a path, added
parts must stay {CLEARANCE.gap_m * 1e3:g} mm from parts of other bodies (parent and child may meet within {CLEARANCE.joint_exempt_m * 1e3:g} mm of their joint) and above
z = {CLEARANCE.table_z_m:g} m. The servos: tau = clip({SERVO.kp_n_m_per_rad:g} (target - q) - {SERVO.kv_n_m_s_per_rad:g} qd + clip(ff, +-{SERVO.limit_n_m:g}), +-{SERVO.limit_n_m:g}) N m. `trim` is asked pose by pose before anything
moves, and its answers are frozen. `plan_probe` gets {{"target": (nv,), "q": (nv,)}} of a probe at home and answers with {DEVICES.probe_chosen} poses within its bounds; `adapt`
gets all {DEVICES.probe_chosen + 1} such dicts; what it returns is passed to `make_trim_adapted`. Per copy the four functions have {SOFTWARE_LIMITS.cpu_s:g} s and
{SOFTWARE_LIMITS.memory_bytes / 2**30:g} GiB. Home poses, joint ranges and the marks of every checkpoint stand in `families/f09_gello/numbers/`.
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
    by_part=True,
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
            "rle/**/*", "families/f09_gello/**/*",
            "families/__init__.py",
            *(f"assets/gello/{name}" for name in (*(f"{arm}/*" for arm in ARM_NAMES), "README.md")),
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
