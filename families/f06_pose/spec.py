"""Numbers of f06: the pose of a pushed block from one camera. Written once; units are in the names.

World, camera and pushes stand in `numbers/world.py`, protocol and score in `numbers/protocol.py`; both
are re-exported here. World frame = table frame: origin at the centre of the table top, z up, metres.
"""

from families.f06_pose.numbers.protocol import *  # noqa: F403  (re-exported)
from families.f06_pose.numbers.protocol import (
    AGENT_WALL_S,
    AGNOSTIC,
    CHANNELS,
    DEDUCTION_MAX,
    EVALUATION_CALLS,
    FRAMES_PER_GROUP_A,
    FRAMES_PER_PUSH_B,
    GROUP_WORST_N,
    KERNEL_XY_M,
    KERNEL_YAW_RAD,
    LEARNED,
    MAX_FILES,
    MAX_MODEL_BYTES,
    MAX_TENSOR_ELEMENTS,
    MAX_TOTAL_BYTES,
    MAX_TOTAL_BYTES_AGNOSTIC,
    MODEL_CHANNELS,
    MODEL_OUTPUTS,
    N_GROUPS_A,
    N_PUSHES_B,
    POSE_LIMIT_M,
    RATE_FULL_HZ,
    VERIFY_WALL_S,
)
from families.f06_pose.numbers.world import *  # noqa: F403
from families.f06_pose.numbers.world import FRAME_HZ, IMAGE_WH_PX, TIMESTEP_S
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
"""Version of physics, thresholds and agent-visible bytes. Its first number ends the Gymnasium id."""

# ---------------------------------------------------------------------------------------- tasks

_SCENE = f"""\
A stick held by a robot arm pushes a red block across a table. There are three blocks, shaped like the \
letters T (id 0), C (id 1) and F (id 2), and one fixed oblique camera, {IMAGE_WH_PX[0]} x \
{IMAGE_WH_PX[1]} px at {FRAME_HZ:g} Hz. The pose is x and y of the block's own origin on the table and \
theta, its yaw. You get no model of block or scene: where the origin lies, which way theta = 0 points, \
and what the blocks measure must be learned from rendered examples with noisy labels.
"""
_FRAMES = f"""\
Scored are {N_GROUPS_A} groups of {FRAMES_PER_GROUP_A} single frames (30 %) and {N_PUSHES_B} pushes of \
{FRAMES_PER_PUSH_B} frames (70 %), during which the arm hides the block while it turns. A group earns \
0.5 exp(-(e_xy/{1e3 * KERNEL_XY_M:g} mm)^2) + 0.5 exp(-(e_theta/{KERNEL_YAW_RAD:g} rad)^2) of its \
{GROUP_WORST_N} worst errors each, and nothing when one shape id of the group is wrong. All inference \
runs on one CPU thread; below {RATE_FULL_HZ:g} frames per second up to {DEDUCTION_MAX:g} is deducted.
"""


def _develop(slug: str) -> str:
    return f"""\
`rle dev f06/{slug}` starts the renderer; `rle_client.f06.connect()` gives `single_frame(seed)`, \
`push_episode(seed)` and `evaluate(folder)`, an evaluation on hidden design scenes that may be called \
{EVALUATION_CALLS} times. `rle dev f06/{slug} generate --n 20000 --out data` writes data sets.
"""


def _code(slug: str, images: str, method: str) -> str:
    return f"""\
Write a program that tells, frame by frame, where a block on a table is, how it is turned and which of \
three blocks it is, from {images}.

{_SCENE}
Hand in `estimator.py` (helpers beside it) with `make_estimator()` returning an object with `reset()` \
and `update(*, rgb, K, T_cam_table, t, depth=None) -> (x, y, theta, shape_id)`: metres, metres, radians \
and an integer. Frames arrive one at a time; between two `reset()` calls the estimator may keep what it \
saw. {method}

{_FRAMES}
{_develop(slug)}"""


_LEARNED_TEXT = f"""\
Train a network from scratch that tells where a block on a table is, how it is turned and which of three \
blocks it is, from one colour and depth picture.

{_SCENE}
Hand in `model.pt`, TorchScript, stateless, `forward(x: float32 [1, {MODEL_CHANNELS}, {IMAGE_WH_PX[1]}, \
{IMAGE_WH_PX[0]}]) -> float32 [1, {MODEL_OUTPUTS}]`: in are R, G, B in [0, 1], depth in metres (0 where \
missing) and validity; out are x, y, cos, sin and three logits. At most {MAX_TENSOR_ELEMENTS:,} tensor \
elements may be stored in it, constants included.

{_FRAMES}
{_develop(LEARNED)}"""


def _task(
    slug: str, title: str, instruction: str, bar: float, artifact: ArtifactContract, oracle: str,
    gpus: int = 0, cpus: int = 4,
) -> TaskSpec:  # fmt: skip
    return TaskSpec(
        id=f"f06/{slug}",
        title=title,
        workflow="perception and estimation",
        version=FAMILY_VERSION,
        instruction=instruction,
        budget=Budget(
            agent_wall_s=AGENT_WALL_S,
            verify_wall_s=VERIFY_WALL_S,
            calls=EVALUATION_CALLS,
            gpus=gpus,
            cpus=cpus,
            memory_mib=6144,
        ),
        artifact=artifact,
        profiles=("torchscript",) if slug == LEARNED else ("python",),
        n_trials=N_GROUPS_A + N_PUSHES_B,
        hidden_tokens=("f06_pose.scene", "SPAWN_X_M", "BLOCKS"),
        draw_key="pose",
        floor=0.05,
        bar=bar,
        oracle=oracle,
        options=(
            VerifyOption(
                name="profile",
                choices=("scored", "quick", "design"),
                default="scored",
                help="scored: the hidden trials; quick: one of each stage, not scored; design: the "
                "metered evaluation's, not scored",
            ),
        ),
        in_demo=slug == "rgb",
        gym_id=f"rle/f06-{slug}-v1",
    )


def _package(max_total_bytes: int, max_bytes: int) -> ArtifactContract:
    return ArtifactContract(
        entries=(
            ArtifactEntry(path="estimator.py", kind="python", max_bytes=2**20, is_text=True),
            ArtifactEntry(path="**", kind="python", max_bytes=max_bytes, required=False),
        ),
        max_files=MAX_FILES,
        max_total_bytes=max_total_bytes,
    )


_TRACKER = "train_baselines/f06_tracker"
TASKS = (
    _task(
        "rgb",
        "Pose of a pushed block from colour pictures",
        _code("rgb", "colour pictures alone", "Python with numpy, scipy and OpenCV."),
        0.27,
        _package(MAX_TOTAL_BYTES, MAX_TOTAL_BYTES),
        _TRACKER,
    ),
    _task(
        "rgbd",
        "Pose of a pushed block from colour and depth pictures",
        _code("rgbd", "colour and depth pictures", "Python with numpy, scipy and OpenCV."),
        0.65,
        _package(MAX_TOTAL_BYTES, MAX_TOTAL_BYTES),
        _TRACKER,
    ),
    _task(
        LEARNED,
        "Pose of a pushed block by a network trained from scratch",
        _LEARNED_TEXT,
        0.10,
        ArtifactContract(
            entries=(
                ArtifactEntry(path="model.pt", kind="torchscript", max_bytes=MAX_MODEL_BYTES),
            ),
            max_files=1,
            max_total_bytes=MAX_MODEL_BYTES,
        ),
        "oracles/f06/learned-rgbd",
        gpus=1,
        cpus=16,
    ),
    _task(
        AGNOSTIC,
        "Pose of a pushed block from colour and depth pictures, by any method",
        _code(
            AGNOSTIC,
            "colour and depth pictures",
            "Any method: numpy, scipy, OpenCV, scikit-learn and torch are there; `.pt` state "
            "dictionaries are accepted, `.pkl` is not.",
        ),
        0.65,
        _package(MAX_TOTAL_BYTES_AGNOSTIC, MAX_TOTAL_BYTES_AGNOSTIC),
        _TRACKER,
        gpus=1,
    ),
)
"""The four tasks. The floor is what a colour centroid with its principal axis may earn; the bars are what
the reference estimators must reach on the practice salt."""

CARD = FamilyCard(
    summary="A program says frame by frame where a pushed block is, how it is turned and which block it "
    "is, also while the arm hides it; measured are the worst errors of each group, the shape ids and the "
    "rate of inference.",
    robot="Panda arm (seven joints, position servos) with a stick; it follows its own pushes",
    rate=f"Camera at {FRAME_HZ:g} Hz, physics at {1e3 * TIMESTEP_S:g} ms. A push lasts "
    f"{FRAMES_PER_PUSH_B} frames ({FRAMES_PER_PUSH_B / FRAME_HZ:g} s), a single frame one.",
    observations=(
        Channel(
            name="rgb", meaning="picture, uint8, row 0 at the top",
            shape="(480, 640, 3)", unit="-", range="0 to 255",
        ),
        Channel(
            name="depth", meaning="float32, NaN where missing", tasks=tuple(slug for slug, given in CHANNELS.items() if "depth" in given),
            shape="(480, 640)", unit="m", frame="along the optical axis",
            noise="1.5 mm + 4 mm tan^2 of incidence, at most 30 mm; dropout at grazing view",
        ),
        Channel(name="K", meaning="pinhole matrix, float64", shape="(3, 3)", unit="px"),
        Channel(
            name="T_cam_table",
            meaning="pose of the camera: columns right, up, backward, position; it looks along -z",
            shape="(4, 4)", unit="-, m", frame="table",
        ),
        Channel(name="t", meaning="time since the first frame of the episode", shape="()", unit="s"),
    ),
    actions=(
        Channel(
            name="x, y", meaning="the block's origin", shape="(2,)", unit="m", frame="table",
            range=f"+-{POSE_LIMIT_M:g}",
        ),
        Channel(name="theta", meaning="yaw, any wrap", shape="()", unit="rad", frame="table"),
        Channel(name="shape_id", meaning="0 T, 1 C, 2 F", shape="()", unit="-", range="0, 1, 2"),
    ),
    score_equation=(
        "e_xy = hypot(x - x*, y - y*), e_theta = |wrap(theta - theta*)|; no answer: both infinite",
        "g    = [all shape ids of the group right] (0.5 exp(-(exy_bar / 10 mm)^2)",
        "       + 0.5 exp(-(eth_bar / 0.1 rad)^2)), bars = mean of the 5 largest errors of the group",
        "nu   = answered frames / charged seconds over them,   D = 0.2 clip((10 - nu) / 9, 0, 1)",
        "reward = max(0, 0.3 mean g_A + 0.7 mean g_B - D), 0 if the artifact fails its gates",
    ),
    dev="`rle dev f06/rgb` serves a renderer (single frames and pushes of public seeds, noisy pose "
    "labels, six metered evaluations) to `rle_client.f06`; `rle dev f06/rgb generate` writes data sets "
    "in shards and resumes; `rle dev f06/rgb evaluate DIR` is a metered evaluation.",
    history=(("1.0.0", "first version"),),
)  # fmt: skip
"""What the generated card shows."""
