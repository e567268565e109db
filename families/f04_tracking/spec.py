"""Numbers of f04: a 29-joint humanoid follows a 20 s motion. Written once, here; units are in the names.

Sources: "published" is a number of the published benchmark task, "card" one that the family's card sets,
"wheel" a fact read from the robot model named in `assets/unitree_g1/README.md`, "ours" a choice of
this project with its reason.
"""

from families.f04_tracking.numbers.clips import *  # noqa: F403  (re-exported)
from families.f04_tracking.numbers.clips import CLIPS
from families.f04_tracking.numbers.perturbations import *  # noqa: F403
from families.f04_tracking.numbers.perturbations import PROFILES, SCORED_PROFILE
from families.f04_tracking.numbers.robot import *  # noqa: F403
from families.f04_tracking.numbers.robot import N_JOINTS, N_TRACKED, Frozen
from families.f04_tracking.numbers.texts import *  # noqa: F403
from families.f04_tracking.numbers.texts import (
    AGENT_FILES,
    CHANNEL_FRAMES,
    CHANNEL_MEANINGS,
    INSTRUCTION,
    TITLES,
)
from families.f04_tracking.numbers.training import *  # noqa: F403
from rle.spec import (
    ArtifactContract,
    ArtifactEntry,
    Budget,
    Channel,
    FamilyCard,
    TaskSpec,
    VerifyOption,
)

FAMILY_VERSION = "1.0.0"
"""Version of physics, thresholds and agent-visible bytes. Its first number ends the Gymnasium ids."""


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
EVAL_SUBSTEPS = round(CONTROL_PERIOD_S / EVAL_TIMESTEP_S)

# -------------------------------------------------------------------- protocol, budget, artifact

N_HIDDEN = 8
"""Scored trials. Source: published."""
N_SMOKE_RUNS = 2
"""Runs of the one smoke draw, in two fresh policy processes. Source: published."""
DESIGN_SEEDS = (101, 211, 307)
"""Published seeds of the design evaluator. Source: published."""
AGENT_WALL_S = 14_400
"""Wall time of the agent, training and evaluation together. Source: published."""
VERIFY_WALL_S = 3_600
"""Wall time of the verifier. Source: published."""
MAX_PARAMS = 10_000_000
"""Parameters of a submitted graph in float32 equivalents. Source: card."""
HISTORY_MIN, HISTORY_MAX = 1, 16
"""Allowed observation history. Source: card."""
ONNX_FILE, META_FILE = "policy.onnx", "policy_meta.json"
"""The two files of a submission. Source: published."""
MAX_ONNX_BYTES = 67_108_864
"""Size of `policy.onnx`. Source: ours, 64 MiB: 10 M float32 parameters and room for the graph."""
MAX_META_BYTES = 65_536
"""Size of `policy_meta.json`. Source: card."""
OPSET_MIN, OPSET_MAX = 13, 21
"""Accepted opsets of domain "". Source: card."""
EXPORT_OPSET = 18
"""Opset of `export.export_policy`. Source: card."""
EXPORT_PROBES, EXPORT_TOLERANCE = 64, 1.0e-4
"""Random inputs on which an exported graph must answer like its module, and how closely. Source: card."""
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

# ------------------------------------------------------------------------------------------ scene


class SceneSpec(Frozen, frozen=True):
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


# ------------------------------------------------------------------------------------ observation


class Block(Frozen, frozen=True):
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

# -------------------------------------------------------------------------------- falls and score


class FallRules(Frozen, frozen=True):
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


class ScoreWeights(Frozen, frozen=True):
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
RECOVERY_FACTOR, RECOVERY_WINDOW_S = 1.5, 1.0
"""A push is recovered from when e_t is back at this factor of its mean over the window before it.
Source: ours; a diagnostic, not scored."""


class VideoSpec(Frozen, frozen=True):
    """Videos of trials; no score depends on them."""

    fps: float = 25.0
    """Half the control rate. Source: card."""
    distance_m: float = 2.3
    """Camera to the robot. Source: ours: the robot fills two thirds of the height."""
    azimuth_deg: float = 130.0
    elevation_deg: float = -12.0
    look_at_z_m: float = 0.70
    """Height that the camera looks at, about the pelvis."""
    marker_radius_m: float = 0.035
    """Sphere at each tracked body of the re-anchored reference."""
    marker_rgba: tuple[float, float, float, float] = (0.0, 0.62, 0.45, 0.45)
    """Translucent bluish green of the Okabe-Ito palette."""


VIDEO = VideoSpec()

# ------------------------------------------------------------------------------------------ tasks

FLOOR = 0.005
"""Reward that no trivial submission passes, on any clip. Source: measured, 29 November 2026: zero action,
open loop, frozen pose, huge actions and a random network score 0, but zero action on sprint 0.003."""
BARS: dict[str, float] = {
    "dance": 0.13,
    "fight": 0.03,
    "fall-and-get-up": 0.08,
    "run": 0.03,
    "sprint": 0.15,
}
"""Reward that the stored imitation policy must reach: full profile, stand-in clips, practice trials.
Source: 0.8 x its reward, rounded down to 0.01; rewards, seeds and dates in docs/design/f04_results.md."""
NO_PUSH_BARS: dict[str, float] = {
    "dance": 0.73,
    "fight": 0.37,
    "fall-and-get-up": 0.62,
    "run": 0.03,
    "sprint": 0.65,
}
"""The same for the profile without pushes."""


def _task(slug: str) -> TaskSpec:
    title = TITLES[slug]
    return TaskSpec(
        id=f"f04/{slug}",
        title=title,
        workflow="policy learning",
        version=FAMILY_VERSION,
        instruction=INSTRUCTION.format(title=title, slug=slug),
        budget=Budget(
            agent_wall_s=AGENT_WALL_S,
            verify_wall_s=VERIFY_WALL_S,
            gpus=1,
            cpus=8,
            memory_mib=32_768,
            disk_mib=30_720,
        ),
        artifact=ArtifactContract(
            entries=(
                ArtifactEntry(path=ONNX_FILE, kind="onnx", max_bytes=MAX_ONNX_BYTES),
                ArtifactEntry(path=META_FILE, kind="data", max_bytes=MAX_META_BYTES, is_text=True),
            ),
            max_files=64,
            max_total_bytes=2 * MAX_ONNX_BYTES,
            extra="ignore",
        ),
        profiles=("onnx",),
        n_trials=N_HIDDEN,
        agent_files=AGENT_FILES,
        draw_key=slug,
        ended=("anchor_z", "tilt", "ee_z"),
        floor=FLOOR,
        bar=BARS[slug],
        oracle=f"oracles/f04/{slug}",
        options=(
            VerifyOption(
                name="profile",
                choices=tuple(PROFILES),
                default=SCORED_PROFILE,
                help="perturbations of the trials; any but `full` is a diagnosis without a score",
            ),
        ),
        gym_id=f"rle/f04-{slug}-v{FAMILY_VERSION.split('.')[0]}",
    )


TASKS = tuple(_task(slug) for slug in CLIPS)
"""The five tasks."""

CARD = FamilyCard(
    summary="A graph trained by the agent makes a humanoid follow a 20 s motion at 50 Hz; measured is "
    "whether it still does on another simulator step, with drawn dynamics, noise, terrain and pushes.",
    robot="Unitree G1, 29 actuated joints, floating base, 33.34 kg",
    rate="Control at 50 Hz; scoring steps physics at 2 ms, training at 5 ms. A trial has 1000 steps (20 s).",
    observations=tuple(
        Channel(
            name=f"{b.start}:{b.stop}",
            meaning=CHANNEL_MEANINGS[b.name],
            shape=f"({b.stop - b.start},)",
            unit=b.unit,
            frame=CHANNEL_FRAMES.get(b.name, "-"),
            noise=f"U(-{b.noise_half_width:g}, {b.noise_half_width:g})"
            if b.noise_half_width
            else "-",
        )
        for b in OBS_BLOCKS
    )
    + (
        Channel(
            name="history",
            meaning="the last H frames, oldest first, zeros before the start; the graph's input",
            shape="(160 H,)",
            unit="-",
            range=f"H {HISTORY_MIN} to {HISTORY_MAX}",
        ),
    ),
    actions=(
        Channel(
            name="actions",
            meaning="servo target = clip(default + scale x action - encoder bias, joint range)",
            shape=f"({ACTION_DIM},)",
            unit="0.25 effort / kp rad",
            range=f"|a| <= {MAX_ACTION:g}",
        ),
    ),
    score_equation=(
        "e_t = mean over 14 bodies of |p_body - p_ref'|, reference re-anchored within 0.5 m and 0.5 rad",
        "T   = (1/1000) sum over executed t of mean over sigma in (.30, .10, .05) m of exp(-e_t^2/sigma^2)",
        "U   = executed steps / 1000",
        "J   = mean |a_k - 2 a_{k-1} + a_{k-2}|,  J_max = 2 (J_ref + 0.1201)",
        "F   = 1 if the trial ended before the clip, else 0",
        "s   = clip(0.7 T + 0.3 U - 0.15 min(J/J_max, 1) - 0.05 F, 0, 1)",
        "reward = mean of 8 trials; at most 0.1 if a gate (stable, deterministic) is false",
    ),
    dev="`rle dev f04/dance --submission DIR` (the same as `python -m families.f04_tracking.dev f04/dance "
    "--submission DIR`) evaluates a submission on the published seeds 101, 211, 307 with the scored loop; the scene, the training environment, the PPO baseline and the reference are "
    "plain files to use and to change.",
    history=(("1.0.0", "first version"),),
)
"""Content of the generated card."""
