"""Numbers of f04: a 29-joint humanoid follows a 20 s motion. Written once, here; units are in the names.

Sources: "published" is a number of the published benchmark task, "card" one that the family's card sets,
"wheel" a fact read from the robot model named in `assets/unitree_g1/README.md`, "ours" a choice of
this project with its reason.
"""

import math

import msgspec

FAMILY_VERSION = "1.0.0"
"""Version of physics, thresholds and agent-visible bytes. Its first number ends the Gymnasium ids."""


class Frozen(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the groups of numbers below: immutable, keyword-only."""


# ---------------------------------------------------------------------------------------- time

CONTROL_HZ = 50.0
"""Rate of observations, actions and reference frames. Source: published."""
CONTROL_PERIOD_S = 1.0 / CONTROL_HZ
FRAMES = 1001
"""Reference frames, t = 0 ... 20.00 s with the end point. Source: card."""
STEPS = FRAMES - 1
"""Scored control steps of a trial."""
EVAL_TIMESTEP_S = 0.002
"""Physics step of scoring. Source: card."""
TRAIN_TIMESTEP_S = 0.005
"""Physics step of the training environment. Source: card."""
EVAL_SUBSTEPS = round(CONTROL_PERIOD_S / EVAL_TIMESTEP_S)
TRAIN_SUBSTEPS = round(CONTROL_PERIOD_S / TRAIN_TIMESTEP_S)
TRAIN_EPISODE_S = 10.0
"""Length of a training episode. Source: card."""

# -------------------------------------------------------------------- protocol, budget, artifact

N_HIDDEN = 8
"""Scored trials. Source: published."""
N_SMOKE_RUNS = 2
"""Runs of the one smoke draw, in two fresh policy processes. Source: published."""
DESIGN_SEEDS = (101, 211, 307)
"""Published seeds of the design evaluator. Source: published."""
AGENT_WALL_S = 14_400.0
"""Wall time of the agent, training and evaluation together. Source: published."""
VERIFY_WALL_S = 3_600.0
"""Wall time of the verifier. Source: published."""
MAX_PARAMS = 10_000_000
"""Parameters of a submitted graph in float32 equivalents. Source: card."""
HISTORY_MIN, HISTORY_MAX = 1, 16
"""Allowed observation history. Source: card."""
MAX_ONNX_BYTES = 67_108_864
"""Size of `policy.onnx`. Source: ours, 64 MiB: 10 M float32 parameters and room for the graph."""
MAX_META_BYTES = 65_536
"""Size of `policy_meta.json`. Source: card."""
OPSET_MIN, OPSET_MAX = 13, 21
"""Accepted opsets of domain "". Source: card."""
EXPORT_OPSET = 18
"""Opset of `export.export_policy`. Source: card."""
MAX_INFERENCE_S = 0.010
"""Median time of one call on one thread. Source: ours, half a control period."""
INFERENCE_WARMUP_CALLS, INFERENCE_CALLS, INFERENCE_TRIES = 20, 200, 3
"""Calls of the inference timing; the best of the tries counts. Source: card."""
MAX_ACTION = 1.0e4
"""Largest |action| that is applied; beyond it the trial ends as a fall. Source: card."""
PROBE_PAIRS = 8
"""Random observation pairs of the responsiveness probe. Source: card."""
MIN_RESPONSE = 1.0e-6
"""Output difference that counts as depending on obs. Source: card."""
MAX_CALL_S = 2.0
"""Time of one policy call in a trial. Source: card."""
MAX_CALLS_TOTAL_S = 60.0
"""Time of all policy calls of one trial. Source: card."""
MAX_POLICY_FAULTS = 3
"""Trials ended by a dead or slow policy process after which the rest is `not_run`. Source: card."""
GATE_CAP = 0.1
"""Largest reward when a gate is false. Source: card."""
PASS_MARK = 0.5
"""Reward from which a task is reported as passed. Source: ours; above every stored oracle, below a
controller that steps."""

# ------------------------------------------------------------------------------- motors and gains

SERVO_HZ = 10.0
"""Natural frequency of a joint servo with its armature alone. Source: card."""
SERVO_DAMPING_RATIO = 2.0
"""Damping ratio of that servo. Source: card."""
ACTION_EFFORT_FRACTION = 0.25
"""Share of the torque limit that a unit action commands at rest. Source: card."""


class Motor(Frozen):
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


class Joint(Frozen):
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

# ------------------------------------------------------------------------------------------ scene


class SceneSpec(Frozen):
    """Floor, contact and solver."""

    gravity_m_s2: float = 9.81
    """Standard gravity. Source: MuJoCo default."""
    solver_iterations: int = 10
    """Newton iterations. Source: card."""
    line_search_iterations: int = 20
    """Line-search iterations. Source: card."""
    robot_condim: int = 3
    """Contact dimension of every robot geom. Source: card."""
    robot_contact_priority: int = 1
    """Above the floor's 0, so that the robot geom's friction is the contact's. Source: card."""
    robot_friction: float = 1.0
    """Sliding friction of the robot geoms where no draw sets it. Source: ours, the floor's value."""
    floor_friction: float = 1.0
    """Sliding friction of the floor (overruled by the robot's priority). Source: card."""
    frictionloss_n_m: float = 0.3
    """Dry friction of every joint. Source: card."""
    cell_m: float = 0.1
    """Cell of the height field. Source: card."""
    terrain_margin_m: float = 3.0
    """Height field beyond the reference's xy box, on each side. Source: card."""
    terrain_min_side_m: float = 8.0
    """Shortest side of the height field. Source: card."""
    terrain_base_m: float = 0.05
    """Thickness under the lowest point of the height field. Source: card."""
    terrain_sigma_m: float = 0.2
    """Standard deviation of the Gaussian that smooths the height noise. Source: card."""
    start_penetration_m: float = 0.001
    """Robot-floor penetration that is left when a start state is lifted out of the floor. Source: card."""


SCENE = SceneSpec()


class VisualMesh(Frozen):
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
        VisualMesh(body=name, mesh=f"{name}_rev_1_0" if name in _REVISED else name, dark=name in _DARK)
        for name in BODY_NAMES
    ),
    VisualMesh(body="pelvis", mesh="pelvis_contour_link"),
    VisualMesh(body="torso_link", mesh="logo_link", dark=True, pos_m=(0.0039635, 0.0, -0.044)),
    VisualMesh(body="torso_link", mesh="head_link", dark=True, pos_m=(0.0039635, 0.0, -0.044)),
    VisualMesh(body="left_wrist_yaw_link", mesh="left_rubber_hand", dark=True, pos_m=(0.0415, 0.003, 0.0)),
    VisualMesh(body="right_wrist_yaw_link", mesh="right_rubber_hand", dark=True, pos_m=(0.0415, -0.003, 0.0)),
)
"""Every body's mesh carries the body's name; the others sit at the given place."""

# ------------------------------------------------------------------------------------ observation


class Block(Frozen):
    """One slice of the observation frame."""

    name: str
    start: int
    stop: int
    noise_half_width: float
    """Half-width of the uniform noise, drawn per step and element; 0 is none. Source: published."""
    unit: str


OBS_BLOCKS = (
    Block(name="ref_joint_pos", start=0, stop=29, noise_half_width=0.0, unit="rad"),
    Block(name="ref_joint_vel", start=29, stop=58, noise_half_width=0.0, unit="rad/s"),
    Block(name="anchor_pos_error", start=58, stop=61, noise_half_width=0.25, unit="m"),
    Block(name="anchor_rot_error", start=61, stop=67, noise_half_width=0.05, unit="-"),
    Block(name="imu_lin_vel", start=67, stop=70, noise_half_width=0.5, unit="m/s"),
    Block(name="imu_ang_vel", start=70, stop=73, noise_half_width=0.2, unit="rad/s"),
    Block(name="joint_pos", start=73, stop=102, noise_half_width=0.01, unit="rad"),
    Block(name="joint_vel", start=102, stop=131, noise_half_width=0.5, unit="rad/s"),
    Block(name="last_action", start=131, stop=160, noise_half_width=0.0, unit="-"),
)
"""One observation frame. Source: published layout and widths."""
OBS_DIM = OBS_BLOCKS[-1].stop
ACTION_DIM = N_JOINTS
REFERENCE_OBS_DIM = 67
"""Leading numbers of the critic's observation: reference and anchor errors, slices 0:67."""
CRITIC_DIM = OBS_DIM + N_TRACKED * (3 + 6)
"""Noise-free training observation: the 160 and, after slice 0:67, 14 positions and 6-D orientations."""

# ------------------------------------------------------------------------------------------ draws

Range = tuple[float, float]
Range3 = tuple[Range, Range, Range]


class DrawRanges(Frozen):
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


class Profile(Frozen):
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

# -------------------------------------------------------------------------------- falls and score


class FallRules(Frozen):
    """When a trial ends as a fall. Source: published unless said otherwise."""

    anchor_z_m: float = 0.25
    """Anchor height off its reference by more than this."""
    tilt: float = 0.80
    """Difference of the z components of unit gravity in the two torso frames."""
    end_effector_z_m: float = 0.25
    """Height of any end effector off its reference by more than this."""
    max_qvel: float = 200.0
    """Any |qvel| above this is divergence. Source: card."""


FALLS = FallRules()


class ScoreWeights(Frozen):
    """s = w_t T + w_u U - w_j min(J / J_max, 1) - w_f F. Source: published."""

    tracking: float = 0.70
    survival: float = 0.30
    jerk: float = 0.15
    fall: float = 0.05


SCORE = ScoreWeights()
KERNEL_SIGMA_M = (0.30, 0.10, 0.05)
"""Widths of the tracking kernel. Source: published."""
DRIFT_FREE_M = 0.50
"""Anchor drift in the plane that is not scored. Source: ours: the task is the world-frame trajectory."""
DRIFT_FREE_RAD = 0.50
"""Anchor yaw drift that is not scored. Source: ours, as DRIFT_FREE_M."""
J_FEEDBACK = 0.1201
"""Jerk allowance for feedback in J_max = 2 (J_ref + J_FEEDBACK). Source: ours: it makes J_max of the
published dance clip 0.3054, the one published calibrated value."""
JERK_LIMIT_FACTOR = 2.0
"""The factor of J_max above. Source: card."""

# ------------------------------------------------------------------------------- training reward


class RewardTerm(Frozen):
    """weight x exp(-error^2 / sigma^2)."""

    weight: float
    sigma: float


class TrainReward(Frozen):
    """Training reward per second, multiplied by the control period. Source: published."""

    anchor_pos: RewardTerm = RewardTerm(weight=0.5, sigma=0.3)
    """sigma in m."""
    anchor_ori: RewardTerm = RewardTerm(weight=0.5, sigma=0.4)
    """sigma in rad."""
    body_pos: RewardTerm = RewardTerm(weight=1.0, sigma=0.3)
    """sigma in m; body terms take the mean of squares over the tracked bodies."""
    body_ori: RewardTerm = RewardTerm(weight=1.0, sigma=0.4)
    """sigma in rad."""
    body_lin_vel: RewardTerm = RewardTerm(weight=1.0, sigma=1.0)
    """sigma in m/s."""
    body_ang_vel: RewardTerm = RewardTerm(weight=1.0, sigma=3.14)
    """sigma in rad/s."""
    action_rate_weight: float = -0.1
    """On |a_k - a_{k-1}|^2."""
    joint_limit_weight: float = -10.0
    """On the excess over `soft_limit_fraction` of the joint range, rad."""
    soft_limit_fraction: float = 0.9
    self_contact_weight: float = -0.1
    """On the number of bodies that are no end effector and feel a contact."""
    contact_force_n: float = 1.0
    """Force from which a contact counts."""


TRAIN_REWARD = TrainReward()


class StartSampling(Frozen):
    """Adaptive choice of the start frame of a training episode. Source: published."""

    bin_s: float = 1.0
    """Width of a bin of start frames."""
    ema_alpha: float = 0.001
    """Weight of a new failure count."""
    uniform_share: float = 0.1
    """Share of the uniform distribution in the mixture."""


START_SAMPLING = StartSampling()

# ------------------------------------------------------------------------------- reference clips


class Clip(Frozen):
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


class ReferenceRules(Frozen):
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
