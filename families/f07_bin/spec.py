"""Numbers of f07: empty a bin of steel brackets onto a conveyor. Written once; units are in the names.

Cell, parts, tool and sensors stand in `numbers/cell.py`, events, protocol and score in
`numbers/protocol.py`; both are re-exported here. World frame: floor z = 0, x forward from the arm, y to
its left, metres.
"""

from families.f07_bin.numbers.cell import *  # noqa: F403  (re-exported)
from families.f07_bin.numbers.cell import (
    CHANNELS,
    CONTROL_HZ,
    DESIGN_PILES,
    EPISODE_S,
    FRAME_EVERY_TICKS,
    FT_FORCE_SIGMA_N,
    FT_TORQUE_SIGMA_NM,
    MAG_CTRL_RANGE,
    MAG_ON_THRESHOLD,
    N_PARTS_MAX,
    N_PARTS_MIN,
    OVERHEAD_VFOV_DEG,
    OVERHEAD_WH_PX,
    PART_MASS_KG,
    TICKS,
    TIMESTEP_S,
    WRIST_VFOV_DEG,
    WRIST_WH_PX,
    focal_px,
)
from families.f07_bin.numbers.protocol import *  # noqa: F403
from families.f07_bin.numbers.protocol import (
    AGENT_WALL_S,
    CLEAR_REST_S,
    CLEAR_SPEED_M_S,
    MAX_FILES,
    MAX_TOTAL_BYTES,
    N_HIDDEN,
    POLICY_TOTAL_S,
    QUICK_S,
    VERIFY_WALL_S,
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

FAMILY_VERSION = "1.0.0"
"""Version of physics, thresholds and agent-visible bytes. Its first number ends the Gymnasium id."""

# ---------------------------------------------------------------------------------------- task

INSTRUCTION = f"""\
Write a policy that empties a bin of loose steel brackets onto a conveyor with a robot arm and a \
magnet, as many and as fast as possible, without dropping or bending one and without hitting the bin.

A green bin holds {N_PARTS_MIN} to {N_PARTS_MAX} U-brackets ({PART_MASS_KG:.4f} kg each) in a heap. A \
seven-joint Panda arm carries a round contact electromagnet. The conveyor's drop zone is a nest that \
takes ONE part at a time: a part counts once it rests there alone, unheld, slower than \
{CLEAR_SPEED_M_S} m/s, for {CLEAR_REST_S} s; then it is taken away. Brackets hook into each other, \
several can stick to the magnet at once, and two parts in the nest block it until one is removed. No \
pose of any part is given: you have two RGB-D cameras, joint sensors and a force-torque sensor.

Hand in `policy/policy.py` (helpers beside it) with `make_policy()` returning an object with \
`reset(cell_spec, seed)` and `act(obs)`; `act` is asked at {CONTROL_HZ:g} Hz and returns 8 numbers: \
seven joint targets in rad and the magnet's command, on from {MAG_ON_THRESHOLD:g} of \
{MAG_CTRL_RANGE[1]:g}. `policy/channels.json`, a list out of {", ".join(CHANNELS)}, limits what is \
drawn for you. The family's README has every key with unit and frame, and the score.

The policy runs on {N_HIDDEN} hidden piles of {EPISODE_S:g} s simulated time each, CPU only, with \
{POLICY_TOTAL_S:g} s of computation per pile. Try it on public piles with \
`rle dev f07/bin-clearing run policy --pile 35 --video out.mp4 --events out.jsonl`.
"""

TASKS = (
    TaskSpec(
        id="f07/bin-clearing",
        title="Empty a bin of hooked steel brackets onto a conveyor",
        workflow="perception and estimation",
        version=FAMILY_VERSION,
        instruction=INSTRUCTION,
        budget=Budget(
            agent_wall_s=AGENT_WALL_S,
            verify_wall_s=VERIFY_WALL_S,
            cpus=4,
            memory_mib=6144,
            verify_cpus=8,
            verify_memory_mib=12_288,
        ),
        artifact=ArtifactContract(
            entries=(
                ArtifactEntry(
                    path="policy/policy.py", kind="python", max_bytes=2**20, is_text=True
                ),
                ArtifactEntry(
                    path="policy/channels.json",
                    kind="data",
                    max_bytes=4096,
                    required=False,
                    is_text=True,
                ),
                ArtifactEntry(
                    path="policy/**", kind="python", max_bytes=MAX_TOTAL_BYTES, required=False
                ),
            ),
            max_files=MAX_FILES,
            max_total_bytes=MAX_TOTAL_BYTES,
        ),
        profiles=("python",),
        n_trials=N_HIDDEN,
        agent_files=(
            "rle/**",
            "families/__init__.py",
            "families/f07_bin/**",
            "assets/robots/panda/**",
            "train_baselines/f07_scripted_alt/**",
        ),
        draw_key="bin-clearing",
        floor=0.03,
        bar=0.75,
        oracle="train_baselines/f07_depth_picker",
        oracle_bar=0.15,
        options=(
            VerifyOption(
                name="profile",
                choices=("full", "quick"),
                default="full",
                help=f"`quick` plays {QUICK_S:g} s of one pile and no gate: a look, not a score",
            ),
        ),
        gym_id="rle/f07-bin-clearing-v1",
    ),
)
"""The one task. The floor is what blind pushing may earn, the bar what the privileged picker must reach,
the oracle's bar what the picker with cameras must reach."""


def _pictures() -> tuple[Channel, ...]:
    rows = []
    for camera, (width, height), vfov, frame in (
        ("overhead", OVERHEAD_WH_PX, OVERHEAD_VFOV_DEG, "straight down, image up = +y"),
        ("wrist", WRIST_WH_PX, WRIST_VFOV_DEG, "along the tool"),
    ):
        f = f"f = {focal_px(height, vfov):.3f} px; even ticks only"
        rows += [
            Channel(
                name=f"{camera}_rgb", meaning=f"{camera} picture, uint8; {f}",
                shape=f"({height}, {width}, 3)", unit="-", frame=frame, range="0 to 255",
            ),
            Channel(
                name=f"{camera}_depth",
                meaning=f"{camera} distance along the optical axis, float32, NaN where missing; {f}",
                shape=f"({height}, {width})", unit="m", frame=frame,
                noise="1.5 mm + 4 mm tan^2 of incidence, at most 30 mm; dropout at grazing view",
            ),
        ]  # fmt: skip
    return tuple(rows)


_ACTIONS = (
    Channel(
        name="0:7", meaning="joint targets of the position servos, clamped to the joint ranges",
        shape="(7,)", unit="rad", range="joint ranges",
    ),
    Channel(
        name="7", shape="()", unit="-", range=f"{MAG_CTRL_RANGE[0]:g} to {MAG_CTRL_RANGE[1]:g}",
        meaning=f"magnet, on from {MAG_ON_THRESHOLD:g}; attracts what touches the head, lets go of all at once",
    ),
)  # fmt: skip

CARD = FamilyCard(
    summary="A policy empties a bin of hooked steel brackets onto a conveyor that takes one part at a "
    "time; measured are the share and rate of parts cleared, and what it drops, bends or hits.",
    robot="Panda arm (seven joints, position servos) with a round contact electromagnet",
    rate=f"Control at {CONTROL_HZ:g} Hz, cameras at {CONTROL_HZ / FRAME_EVERY_TICKS:g} Hz, physics at "
    f"{1e3 * TIMESTEP_S:g} ms. A pile lasts at most {EPISODE_S:g} s ({TICKS} ticks).",
    observations=(
        Channel(name="t", meaning="time since tick 0", shape="()", unit="s"),
        Channel(name="qpos", meaning="joint positions", shape="(7,)", unit="rad"),
        Channel(name="qvel", meaning="joint velocities", shape="(7,)", unit="rad/s"),
        Channel(name="tau", meaning="torques of the joint motors", shape="(7,)", unit="N m"),
        Channel(
            name="ft",
            meaning="force and torque between flange and tool",
            shape="(6,)",
            unit="N, N m",
            frame="flange (`ft`), z along the tool",
            noise=f"N(0, {FT_FORCE_SIGMA_N:g} N), N(0, {FT_TORQUE_SIGMA_NM:g} N m)",
        ),
        Channel(
            name="mag_on",
            meaning="1 where the magnet is commanded on, not whether something is held",
            shape="()",
            unit="-",
        ),
        Channel(name="frame", meaning="1 on ticks with pictures (even ones)", shape="()", unit="-"),
        Channel(
            name="wrist_T_world_cam",
            meaning="pose of the wrist camera: columns right, up, backward, position; even ticks only",
            shape="(4, 4)",
            unit="-, m",
            frame="world",
        ),
        *_pictures(),
    ),
    actions=_ACTIONS,
    score_equation=(
        "f   = parts cleared / parts,   den = last clear time if f = 1, else 120 s",
        "p   = 60 x parts cleared / den   (parts per minute)",
        "I   = 1 if f = 1 and nothing fell to the floor, was bent, or hit the bin, else 0",
        "h   = f / 6 for f <= 0.6, else 0.1 + 0.9 ((f - 0.6) / 0.4)^3",
        "s   = clip(0.30 I + 0.35 h + 0.20 min(p/10, 1) + 0.15 I min(p/15, 1)",
        "           - 0.03 N_floor - 0.05 N_damage - 0.05 N_bin, 0, 1)",
        "reward = mean of 8 piles; 0 if the policy never answers in the smoke pile, at most 0.1 if it",
        "         faults there on over 10 % of the ticks, behaves differently the second time, or the",
        "         physics diverges",
    ),
    dev=f"`rle dev f07/bin-clearing run policy --pile {'|'.join(map(str, DESIGN_PILES))} [--public-seed N] "
    "[--seconds 120] [--video out.mp4] [--events out.jsonl]` plays a public pile through the scored loop "
    "and prints every score term; the scene and its physics are plain files under `families/f07_bin/`. "
    "Nothing is metered.",
    history=(("1.0.0", "first version"),),
)
"""What the generated card shows."""
