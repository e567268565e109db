"""Numbers of f08: a chassis of aluminium profile for three arms. Written once; units are in the names.

Sources: "published" is a number of the published benchmark task, "card" one that the family's card
sets, "measured" one that the card derives from its own runs, "ours" a choice of this project with its
reason. Lengths are in metres, x forward, y left, z up; the base origin lies midway between the wheel
centres at axle height.
"""

from pathlib import Path

from families.f08_mobile_base.numbers.parts import (
    ARM_NAMES,
    ARMS,
    CATALOGUE,
    YIELD_MPA,
    Arm,
    Section,
)
from rle.spec import (
    ArtifactContract,
    ArtifactEntry,
    Budget,
    Channel,
    FamilyCard,
    TaskSpec,
    VerifyOption,
)

__all__ = ["ARMS", "ARM_NAMES", "CATALOGUE", "YIELD_MPA", "Arm", "Section"]

FAMILY_VERSION = "1.0.0"
"""Version of physics, thresholds and agent-visible bytes."""

# ------------------------------------------------------------------------------------- physics

TIMESTEP_S, IMPRATIO, SOLVER_ITERATIONS, GRAVITY_M_S2 = 0.002, 10.0, 100, 9.81
"""Physics step, friction-to-normal impedance ratio, most Newton iterations, gravity. Source: published."""
TERRAIN_FRICTION = (0.9, 0.005, 0.0001)
"""Floor, curb, bumps and ramp: sliding, torsional (m), rolling (m). Source: published."""
TERRAIN_PRIORITY, CONTACT_DIM = 2, 3
"""Priority above every geom of the robot, so that no submission changes the friction; condim of all
contacts. Source: published."""
MASK_TERRAIN, MASK_ROLLER, MASK_CHASSIS, MASK_ARM = (1, 14), (2, 1), (4, 9), (8, 5)
"""(contype, conaffinity) of terrain and shelf; rollers; profiles, battery, hubs, adapter; arm and
payload. Source: card."""

# --------------------------------------------------------------------------- trusted parts

WHEELS = ("FL", "FR", "RL", "RR")
"""Wheel names; actuator order. Source: card."""
WHEEL_SIGN = {"FL": 1.0, "FR": -1.0, "RL": -1.0, "RR": 1.0}
"""Handedness s of the rollers. Source: card, measured: the other one does not follow a twist."""
WHEEL_QUADRANT = {"FL": (1, 1), "FR": (1, -1), "RL": (-1, 1), "RR": (-1, -1)}
"""Signs of x and y of each wheel centre. Source: card."""
HUB_RADIUS_M, HUB_HALF_WIDTH_M, HUB_MASS_KG = 0.052, 0.02, 1.2
"""Source: published."""
N_ROLLERS, ROLLER_CIRCLE_M, ROLLER_MASS_KG = 16, 0.06, 0.04
"""Rollers per wheel, radius of the circle of their centres, mass of one. Source: published."""
ROLLER_RADIUS_M, ROLLER_HALF_LENGTH_M = 0.016, 0.0194
"""Capsule, half length without its caps. Source: published."""
ROLLER_ARMATURE_KG_M2, ROLLER_DAMPING_N_M_S, ROLLER_FRICTIONLOSS_N_M = 1e-5, 5e-4, 0.002
"""Source: published."""
WHEEL_RADIUS_M = ROLLER_CIRCLE_M + ROLLER_RADIUS_M
"""Contact radius, derived: 0.076."""
WHEEL_MASS_KG = HUB_MASS_KG + N_ROLLERS * ROLLER_MASS_KG
"""Derived: 1.84."""
DRIVE_ARMATURE_KG_M2, DRIVE_DAMPING_N_M_S = 0.002, 0.01
"""Source: published."""
MOTOR_GAIN_N_M_S, MOTOR_CTRL_RAD_S, MOTOR_TORQUE_N_M = 12.0, 45.0, 15.0
"""Velocity servo: torque = gain (ctrl - speed); largest command and torque. Source: published."""
WHEEL_ENVELOPE_RADIUS_M = WHEEL_RADIUS_M
WHEEL_ENVELOPE_HALF_WIDTH_M = 0.030
"""Cylinder about y that nothing may enter and that counts for the footprint. Source: card."""
BATTERY_HALF_M, BATTERY_MASS_KG = (0.14, 0.09, 0.04), 10.0
"""Source: published."""
ADAPTER_HALF_M, ADAPTER_MASS_KG = (0.09, 0.09, 0.005), 0.875
"""Plate between `arm_mount_site` (its underside) and the arm. Source: published."""
ARM_LIFT_M = 2 * ADAPTER_HALF_M[2]
"""Arm base above `arm_mount_site`: the thickness of the plate. Source: published."""
PAYLOAD_RADIUS_M, PAYLOAD_OFFSET_M = 0.04, 0.05
"""Sphere, and its centre on the tool axis. Source: published."""
IMMUTABLE_BASE_KG = len(WHEELS) * WHEEL_MASS_KG + BATTERY_MASS_KG
"""Derived: 17.36."""

# ------------------------------------------------------------------------------- the chassis

BASE, FREE_JOINT, MOUNT_SITE = "base", "base_free", "arm_mount_site"
BATTERY_BODY, BATTERY_GEOM = "battery", "battery_geom"
"""Names that `robot.xml` must hold, beside wheel_W, drive_W and motor_W. Source: published."""
SECTION_TOLERANCE_M = 0.0005
"""A side matches a section within this. Source: card."""
MAX_MEMBERS, MEMBER_LENGTH_M = 48, (0.04, 0.80)
"""Most members; shortest and longest one. Source: card."""
FOOTPRINT_LIMIT_M, MASS_LIMIT_KG, LENGTH_LIMIT_M = 0.56, 60.0, 12.0
"""Footprint in x and in y, assembled mass without payload, sum of profile lengths. Source: published."""
BASE_MASS_REFERENCE_KG = 38.0
"""Normaliser of the mass term of E. Source: published."""
DESIGN_EFFICIENCY_BEST = 0.48
"""E that earns full credit. Source: measured, a coarse search tops out at .46 and `light` at .479."""
GROUND_CLEARANCE_M = 0.030
"""Lowest part but the wheels above the floor. Source: card."""
JOIN_GAP_M = 0.002
"""Two parts this close count as joined. Source: card."""
BRACKET_REACH_M = 0.040
"""A massless bracket joins an axle point to a member this close. Source: card."""
AXLE_INSET_M = 0.035
"""The axle point is the wheel centre moved this far inwards along y. Source: card."""
OVERLAP_M = 0.001
"""Deeper than this counts as one part inside another. Source: card."""
WHEEL_Z_TOLERANCE_M = 0.001
"""Wheel centres at the height of the base origin. Source: card."""
MOUNT_TILT_TOLERANCE_RAD, ORIENTATION_TOLERANCE_RAD = 1e-3, 1e-3
"""Mount z axis against base z (card); wheel bodies against the identity (ours, the same)."""
ROBOT_XML_MAX_BYTES, CONTROLLER_MAX_BYTES = 2**20, 2**20
"""Source: card."""

# ----------------------------------------------------------------------------------- the shelf

SHELF_FACE_X_M = 0.40
"""Front face. Source: published."""
SHELF_WIDTH_M = 0.50
SHELF_DEPTH_M = 0.38
SHELF_PANEL_M = 0.02
SHELF_FLOOR_TOPS_Z_M = (0.20, 0.66, 1.02)
SHELF_TOP_Z_M = 1.46
"""Source: published. Side walls, back wall and a plinth closed down to the floor: card."""
TARGET_X_M = (0.50, 0.68)
TARGET_Y_M = (0.15, -0.15)
TARGET_Z_M = (0.34, 0.80, 1.16)
"""Tool-site targets, ordered by z, then x, then y. Source: published."""
TARGETS_M = tuple((x, y, z) for z in TARGET_Z_M for x in TARGET_X_M for y in TARGET_Y_M)
"""Index 0 ... 11. Derived."""
TARGET_NAMES = tuple(
    f"{z}-{x}-{y}" for z in ("low", "mid", "high") for x in ("front", "back")
    for y in ("left", "right")
)  # fmt: skip
SHELF_START_M = (-0.60, 0.0, 0.08)
"""Base at the start of a shelf trial, identity orientation, arm stowed, at rest. Source: published."""
SHELF_TRIAL_S, CONTROL_HZ = 30.0, 50.0
"""Length of a trial and rate of the submitted controller. Source: published."""
SHELF_TOLERANCE_M, SHELF_HOLD_S = 0.06, 1.0
"""Tool to target, held for so long. Source: published."""
SHELF_FORCE_LIMIT_N = 2.0
"""Sum of robot-shelf normal forces, checked at each physics step. Source: published."""
SHELF_PAYLOADS_KG = (1.0, 2.0)
"""Required and margin. Source: published."""
TILT_LIMIT_DEG = 30.0
"""Source: published."""
CONTROLLER_STARTUP_S, CONTROLLER_CALL_S = 30.0, 2.0
"""Wall time of import and reset, and of one reply. Source: published."""
CONTROLLER_TOTAL_S, CONTROLLER_MEMORY_BYTES = 30.0, 2 * 2**30
"""CPU time of one trial (card), memory (published)."""
CONTROLLER_SEED = 0
"""`seed` of every `reset`. Source: card."""

# ------------------------------------------------------------------------- stability measures

SUPPORT_FORCE_N = 0.5
"""Roller contacts above this normal force span the support polygon. Source: card."""
WHEEL_LOAD_N = 1.0
"""A wheel that carries this much is loaded. Source: published."""
MIN_LOADED_WHEELS = 3
LIFT_OFF_S = 0.3
"""Fewer loaded wheels for longer than this is a lift-off. Source: published."""
SUPPORT_WINDOW_S, SUPPORT_STRIDE = 0.06, 3
"""Contacts of this long span the support polygon, sampled at every third step; also the window of
the medians and means of all stability measures. Source: card; stride ours, at most 64 points."""
ROLLING_WINDOW_S = 0.2
"""Window of the rolling median. Source: card."""
MARGIN_START_S = 0.5
"""Margins count from here on, after the drop onto the wheels. Source: card."""
MIN_EDGE_M = 0.03
"""Shorter hull edges have no force-angle margin. Source: card."""
YAW_WEIGHT = 0.3
"""Weight of the squared yaw-rate error, m2/rad2. Source: card."""
TRACKING_LIMIT, D2_TRACKING_LIMIT = 0.304, 0.5
"""Normalised tracking error above which a scenario scores 0. Source: published; on the bumps of D2
measured: sound frames have .15 to .35 there by the draw alone, one that stays at the curb .92."""

# ------------------------------------------------------------------ validity and static battery

START_HEIGHT_M = 0.077
"""Base origin at the start of a scenario. Source: card."""
EQUILIBRIUM_SETTLE_S, EQUILIBRIUM_S = 0.5, 2.0
"""Source: card."""
MECANUM_SETTLE_S, MECANUM_TWIST_S, MECANUM_MEAN_S = 1.0, 2.0, 1.0
MECANUM_TWISTS = ((0.4, 0.0, 0.0), (0.0, 0.4, 0.0), (0.0, 0.0, 0.8), (0.3, 0.3, 0.0))
"""(vx m/s, vy m/s, yaw rate rad/s). Source: published."""
MECANUM_TOLERANCE = 0.25
"""Share of the commanded (else of the largest) component. Source: published."""
N_DRAWS = 3
"""Hidden draws per test. Source: card."""
STATIC_PAYLOAD_KG = 2.0
STATIC_STOW_S, STATIC_FIRST_MOVE_S, STATIC_MOVE_S, STATIC_DWELL_S = 1.2, 3.0, 1.5, 0.8
"""Source: card."""
STATIC_POSES = 8
"""Azimuths per draw. Source: published."""
QUIET_SPEED_M_S, QUIET_RATE_RAD_S, QUIET_TILT_DEG = 0.02, 0.05, 5.0
"""A dwell sample counts as quiet below these. Source: card."""
DYNAMIC_PAYLOAD_KG = (1.0, 2.0)
"""Uniform per draw. Source: card."""
AZIMUTH_JITTER_RAD = 0.2
"""Arm azimuth, uniform +-. Source: card."""
DESIGN_SEEDS = (11, 23, 37)
"""Published draws of the development battery. Source: card."""
D1_TILT_DEG, D1_TILT_SHARE = 10.0, (0.6, 1.0)
"""Gravity tilt about y. Source: card."""
CURB_SIZE_M, CURB_X_M = (0.12, 2.4, 0.02), 0.96
"""Box across the path. Source: card."""
N_BUMPS, BUMP_RADIUS_M, BUMP_PROUD_M, BUMP_START_X_M, BUMP_SPACING_M = 14, 0.06, 0.012, 1.8, 0.2
BUMP_SPACING_SHARE, BUMP_YAW_RAD = (0.8, 1.4), 0.15
"""Capsules across the path. Source: card."""
RAMP_DEG = 6.0
"""Slope of test E, uphill along +x. Source: published."""
D2_EVENT_LIMIT_S, D2_TILT_LIMIT_DEG = 1.0, 15.0
"""Longest event and largest tilt of test D2. Source: card."""

# ----------------------------------------------------------------------------- credits and score

SSM_FULL_M, SSM_ZERO_M = 0.045, 0.015
"""Static margin with full and without credit. Source: card, measured reachable by a light frame."""
FASM_BE = (5.0, 30.0)
"""Offset and span of tests B and E, N m rad. Source: card."""
FASM_C, FASM_D1 = 8.0, 10.0
"""Full credit of tests C and D1, N m rad. Source: card."""
C_TILT_DEG = (10.0, 8.0)
"""Tilt without credit, and its span, of test C. Source: published."""
D2_EVENTS = (8.0, 5.0)
"""Events without credit, and their span, of test D2. Source: published."""
EQUILIBRIUM_LIMITS = {
    "drift_m": 0.005, "rise_m": 0.005, "tilt_deg": 1.0, "speed_m_s": 0.01, "penetration_m": 0.004,
}  # fmt: skip
"""Full credit of the equilibrium test. Source: published."""
CREDIT_BAND, RESOURCE_BAND = 1.5, 1.1
"""Ratio to the limit at which a credit is 0. Source: published."""
REACH_SHARE, REACH_SETTLE_S = 0.99, 2.0
"""Simulated over kinematic reach (published), after this time (card)."""
REACH_BEYOND_M, REACH_ANGLES = 0.29, 12
"""Tool distance outside the footprint (published), over so many slew angles (card)."""

WEIGHTS = {
    "S1.load": 0.03, "S1.inertia": 0.03, "S1.structure": 0.03, "S1.mecanum": 0.03,
    "S1.equilibrium": 0.03,
    "S3.still_valid": 0.03, "S3.resource_constraints": 0.02, "S3.design_efficiency": 0.22,
    "S3.reach_preserved": 0.025, "S3.reach_beyond": 0.025, "S3.battery_onboard": 0.03,
    "S3.static_margin": 0.15,
    "S5.testB": 0.04, "S5.testC": 0.04, "S5.testD1": 0.04, "S5.testD2": 0.04, "S5.testE": 0.04,
    "S7.pick_compat": 0.10, "S7.payload_margin": 0.05,
}  # fmt: skip
"""Checkpoint weights; they sum to 1. Source: card."""
STAGES = {
    "validity": ("S1.load", "S1.inertia", "S1.structure", "S1.mecanum", "S1.equilibrium"),
    "design": (
        "S3.still_valid", "S3.resource_constraints", "S3.design_efficiency",
        "S3.reach_preserved", "S3.reach_beyond", "S3.battery_onboard",
    ),
    "static": ("S3.static_margin",),
    "dynamic": ("S5.testB", "S5.testC", "S5.testD1", "S5.testD2", "S5.testE"),
    "integration": ("S7.pick_compat", "S7.payload_margin"),
}  # fmt: skip
GATES = ("S1.load", "S1.structure")
"""Checkpoints that must have full credit, else the reward is capped. Source: published."""
GATE_CAP = 0.15
SCENARIOS = ("testB", "testC", "testD1", "testD2", "testE")
"""Dynamic tests, in order."""

# -------------------------------------------------------------------------------- pictures, time

PICTURE_PX, VIDEO_HZ, MAX_FILMS_PER_ARM, LOOK_AT_Z_M = (640, 480), 25.0, 12, 0.4
"""Pictures and films (card); height over the base that the cameras look at (ours)."""
CAMERAS = {
    "front": (180.0, -5.0, 2.2), "side": (90.0, -5.0, 2.2), "top": (90.0, -89.9, 2.2),
    "integration": (115.0, -15.0, 3.0), "scenario": (130.0, -18.0, 2.6),
}  # fmt: skip
"""Fixed views: azimuth deg, elevation deg, distance m. Source: ours."""
PLAN_HEIGHT_M = 1.3
"""Height of the picture in the view from above, which is a parallel projection. Source: ours."""
FILM_FLOOR_M = 100.0
"""Half side of the floor that pictures show: one without an edge takes two fifths of a frame. Source: measured."""
SERIES_HZ = 10.0
"""Rate of the curves in the report. Source: ours."""
SERIES_SSM_FLOOR_M, SERIES_FASM_FLOOR = -0.05, -25.0
"""Least margins, m and N m rad, that a curve shows: one further out, or without a contact, is as lost, and
would hide the bars. Source: ours."""

# ----------------------------------------------------------------------------------------- task

AGENT_WALL_S, VERIFY_WALL_S = 7200, 5400
"""Wall time of the agent and of the verifier. Source: published."""
ROBOT_XML, CONTROLLER_PY = "robot.xml", "controller.py"
FLOOR, BAR = 0.55, 0.80
"""Most that a trivial submission scores; least that the oracle scores. Source: card."""
QUICK_DRAWS, QUICK_TARGETS = 1, (0, 11)
"""Draws and shelf targets (the lowest and nearest, the highest and farthest) of `--profile quick`, which
is no result. Source: ours."""
N_TRIALS = len(ARMS) * (1 + 3 + N_DRAWS * (1 + len(SCENARIOS)) + 2 * len(TARGETS_M) + 1)
"""Rows of a run: per arm the design, validity, draws, shelf trials and one repeat."""
INSTRUCTION = (Path(__file__).parent / "instruction.md").read_text()
"""I: the plain text an agent gets; a test compares its numbers with this file."""
AGENT_FILES = (
    "rle/**/*", "families/__init__.py", "families/f08_mobile_base/**/*",
    "assets/f08/*", "assets/robots/*/*.xml",
)  # fmt: skip

TASKS = (
    TaskSpec(
        id="f08/mobile-base",
        title="Universal mobile-manipulator base",
        workflow="mechanical design",
        version=FAMILY_VERSION,
        instruction=INSTRUCTION,
        budget=Budget(
            agent_wall_s=AGENT_WALL_S, verify_wall_s=VERIFY_WALL_S, cpus=4, memory_mib=4096,
            verify_memory_mib=4096,
        ),
        artifact=ArtifactContract(
            entries=(
                ArtifactEntry(
                    path=ROBOT_XML, kind="mjcf", max_bytes=ROBOT_XML_MAX_BYTES, is_text=True
                ),
                ArtifactEntry(
                    path=CONTROLLER_PY, kind="python", max_bytes=CONTROLLER_MAX_BYTES,
                    required=False, is_text=True,
                ),
            ),
            max_files=16,
            max_total_bytes=4 * 2**20,
            extra="ignore",
            by_part=True,
        ),
        profiles=("mjcf", "python"),
        n_trials=N_TRIALS,
        agent_files=AGENT_FILES,
        draw_key="mobile-base",
        ended=("success", "horizon", "shelf_contact", "tilt", "wheels_lifted"),
        floor=FLOOR,
        bar=BAR,
        oracle="oracles/f08/oracle",
        options=(
            VerifyOption(
                name="profile", choices=("full", "quick"), default="full",
                help="`quick` plays one draw and two shelf targets of each kind: a look, not a score",
            ),
        ),
        gym_id="rle/f08-mobile-base-v1",
    ),
)  # fmt: skip
"""The one task."""

CARD = FamilyCard(
    summary="One chassis of aluminium profile on mecanum wheels must carry three arms unchanged; measured "
    "are mass, footprint, stability at rest and in motion, and a shelf task with the agent's controller.",
    robot="four mecanum wheels, a 10 kg battery, and in turn a Franka Panda, a UR5e and an xArm7",
    rate="Physics at 2 ms; the submitted controller is asked at 50 Hz in shelf trials of 30 s.",
    observations=(
        Channel(name="time", meaning="simulated time", shape="()", unit="s"),
        Channel(name="qpos", meaning="base position and quat_wxyz, drives, rollers, arm joints",
                shape="(78,), UR5e (77,)", unit="m, rad", frame="world"),
        Channel(name="qvel", meaning="base velocity (linear in the world, angular in the base), joints",
                shape="(81,), UR5e (80,)", unit="m/s, rad/s", frame="world, base"),
        Channel(name="ctrl", meaning="last command", shape="(11,), UR5e (10,)", unit="rad/s, rad"),
    ),
    actions=(
        Channel(name="0:4", meaning="wheel speeds FL, FR, RL, RR", shape="(4,)", unit="rad/s",
                range=f"+-{MOTOR_CTRL_RAD_S:g}"),
        Channel(name="4:", meaning="arm servo targets", shape="(7,), UR5e (6,)", unit="rad",
                range="joint range"),
    ),
    score_equation=(
        "c   = min over the three arms of every checkpoint's credit in [0, 1]",
        "T   = sum over 19 checkpoints of w c  (validity .15, design .35, static .15, dynamic .20, integration .15)",
        "reward = T, or min(T, .15) if S1.load or S1.structure has less than full credit",
    ),
    dev="`rle dev f08/mobile-base --submission DIR [--arm A] [--only static]` runs the whole battery "
    "on the published seeds 11, 23, 37 through the scored loops, with all credits and pictures.",
    history=(("1.0.0", "first version"),),
)  # fmt: skip
"""Content of the generated card."""
