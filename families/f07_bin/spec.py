"""Numbers of f07: empty a bin of steel brackets onto a conveyor. Written once; units are in the names.

Sources: "published" is a number of the published benchmark task, "card" one that the family's card sets,
"ours" a choice of this project with its reason, "measured" a result of this scene on the pinned MuJoCo.
World frame: floor z = 0, x forward from the arm, y to its left, metres.
"""

import math

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

Vec3 = tuple[float, float, float]

# ---------------------------------------------------------------------------------------- time

TIMESTEP_S = 0.002
"""Physics step. Source: published."""
CONTROL_HZ = 20.0
"""Rate at which the policy is asked. Source: published."""
EPISODE_S = 120.0
"""Simulated time of one pile. Source: published."""
FRAME_EVERY_TICKS = 2
"""Cameras deliver on every second tick: 10 Hz. Source: published."""
SUBSTEPS = round(1.0 / (CONTROL_HZ * TIMESTEP_S))
TICKS = round(EPISODE_S * CONTROL_HZ)
IMPRATIO = 10.0
"""Friction to normal constraint impedance. Source: published."""
SOLVER_ITERATIONS, SOLVER_TOLERANCE = 100, 1.0e-8
"""Newton solver. Source: published."""
GRAVITY_M_S2 = 9.81
"""Source: MuJoCo default."""

# ---------------------------------------------------------------------------------------- cell

ARM_BASE_POS_M: Vec3 = (0.0, 0.0, 0.04)
"""Base of the arm, on top of the pedestal. Source: published."""
PEDESTAL_RADIUS_M = 0.10
"""Pedestal of the arm, drawn only. Source: published."""
ARM_HOME_RAD = (-0.10, -0.45, 0.0, -2.25, 0.0, 1.85, 0.70)
"""Joint angles at the start of every pile. Source: published."""
N_JOINTS = len(ARM_HOME_RAD)
N_CTRL = N_JOINTS + 1
"""Seven joint targets and the magnet."""

BIN_CENTRE_M: Vec3 = (0.47, -0.27, 0.10)
"""Centre of the outer bottom of the bin. Source: published."""
BIN_INTERIOR_M: Vec3 = (0.36, 0.26, 0.19)
"""Inner length, width and depth. Source: published."""
BIN_WALL_M = 0.012
"""Thickness of walls and bottom as drawn. Source: published."""
BIN_WALL_COLLISION_M = 0.050
"""Thickness of the colliding walls, outward. Source: ours: a thin wall lets a pressed part through."""
BIN_LO_M: Vec3 = (
    BIN_CENTRE_M[0] - BIN_INTERIOR_M[0] / 2,
    BIN_CENTRE_M[1] - BIN_INTERIOR_M[1] / 2,
    BIN_CENTRE_M[2] + BIN_WALL_M,
)
BIN_HI_M: Vec3 = (
    BIN_CENTRE_M[0] + BIN_INTERIOR_M[0] / 2,
    BIN_CENTRE_M[1] + BIN_INTERIOR_M[1] / 2,
    BIN_CENTRE_M[2] + BIN_WALL_M + BIN_INTERIOR_M[2],
)
BIN_TOP_Z_M = BIN_HI_M[2]

BELT_CENTRE_M: Vec3 = (0.58, 0.46, 0.10)
"""Centre of the belt's box. Source: published."""
BELT_HALF_M: Vec3 = (0.55, 0.16, 0.02)
"""Half size of the belt's box. Source: published."""
BELT_TOP_Z_M = BELT_CENTRE_M[2] + BELT_HALF_M[2]
BELT_FRICTION: Vec3 = (0.9, 0.01, 0.001)
"""Sliding, torsional, rolling friction of the belt. Source: published."""
RAIL_OFFSET_Y_M = 0.168
"""Distance of each rail's centre from the belt's centre line. Source: published."""
RAIL_HALF_M: Vec3 = (0.55, 0.008, 0.0175)
"""Half size of a rail. Source: ours (height)."""
RAIL_TOP_Z_M = 0.135
"""Top of the rails, 15 mm above the belt. Source: ours."""
ZONE_LO_M: Vec3 = (0.38, 0.31, 0.115)
ZONE_HI_M: Vec3 = (0.52, 0.45, 0.42)
"""Drop zone (the nest): a part's origin inside this box. Source: published."""
FLOOR_Z_M = 0.05
"""An unheld part below this has fallen to the floor. Source: published."""
FRICTION: Vec3 = (0.55, 0.005, 0.0001)
"""Friction of everything but the belt. Source: published."""

# --------------------------------------------------------------------------------------- parts

WEB_HALF_M: Vec3 = (0.036, 0.021, 0.0025)
"""Half size of a bracket's web. Source: published."""
FLANGE_HALF_M: Vec3 = (0.036, 0.017, 0.0025)
"""Half size of each of its two flanges. Source: published."""
FLARE_RAD = math.radians(14.0)
"""Outward lean of the flanges, which makes brackets nest and hook. Source: published."""
FLANGE_GAP_M = 0.001
"""Distance of the flange's foot from the web's edge. Source: published."""
FLANGE_Z_M = 0.015
"""Height of a flange's centre above the web's centre plane. Source: published."""
FLANGE_Y_M = WEB_HALF_M[1] + FLANGE_HALF_M[1] * math.sin(FLARE_RAD) + FLANGE_GAP_M
STEEL_KG_M3 = 7800.0
"""Density. Source: published."""
PART_MASS_KG = 8.0 * STEEL_KG_M3 * (math.prod(WEB_HALF_M) + 2.0 * math.prod(FLANGE_HALF_M))
PART_WEIGHT_N = PART_MASS_KG * GRAVITY_M_S2
N_PARTS_MIN, N_PARTS_MAX = 12, 16
"""Parts of a pile, uniform, both included. Source: card."""
DESIGN_PILES = {35: 12, 16: 13, 307: 14, 211: 15, 101: 16}
"""Seed and number of parts of the five published piles. Source: published."""

# ---------------------------------------------------------------------------------------- piles

PILE_GRID = (4, 2)
"""Parts of one dropped layer along x and y. Source: card."""
PILE_PITCH_M = (0.066, 0.090)
"""Distance of neighbours in a layer. Source: card."""
PILE_JITTER_M = (0.012, 0.015)
"""Half width of the uniform displacement of each part. Source: card."""
PILE_FIRST_Z_M, PILE_LAYER_Z_M = 0.18, 0.06
"""Height of the first layer, and of each next one above it. Source: card."""
SETTLE_S = 2.5
"""Time that a dropped pile gets to settle. Source: card."""
SETTLE_EXTRA_S = 2.0
"""Longest extra time until every part is slower than `SETTLE_SPEED_M_S`. Source: card."""
SETTLE_SPEED_M_S = 0.01
"""Speed at which a settled pile is taken over into the cell. Source: card."""
REDROP_Z_M, REDROP_S = 0.35, 1.0
"""A part outside the bin is dropped once more, at the bin's centre. Source: card."""
MAX_PILE_ATTEMPTS = 20
"""Redraws of a pile that leaves a part outside. Source: card."""
ARM_SETTLE_S = 0.2
"""Time between putting the pile under the arm and tick 0. Source: card."""

# ----------------------------------------------------------------------------- tool and magnet

COLLAR_RADIUS_M, COLLAR_Z_M, COLLAR_KG = 0.026, (0.0, 0.012), 0.15
SHAFT_RADIUS_M, SHAFT_Z_M, SHAFT_KG = 0.014, (0.012, 0.167), 0.12
HEAD_RADIUS_M, HEAD_Z_M, HEAD_KG = 0.020, (0.167, 0.197), 0.40
"""Cylinders of the tool along the flange's z, and their masses. Source: card."""
MAG_CTRL_RANGE = (0.0, 255.0)
"""Range of the magnet's command. Source: published."""
MAG_ON_THRESHOLD = 128.0
"""The magnet is on at and above this command. Source: published."""
MAG_GAP_M = 0.0015
"""A part within this distance of the head is attracted onto it. Source: published."""
MAG_PULL_N = 150.0
"""Pull along the tool that frees one part: a 40 mm magnet rated about 400 N on thick plate, derated for
5 mm sheet and its gap. Source: ours."""
MAG_SHEAR_N = 60.0
"""Force across the tool that frees one part: 0.4 x the pull. Source: ours."""
MAG_REATTACH_S = 0.25
"""A part that slipped off is not attracted again for this time. Source: ours."""

# ----------------------------------------------------------------------------- forces and events

FORCE_WINDOW_SUBSTEPS = 5
"""Physics steps over which every judged force is averaged, so that one-step solver peaks do not count.
Source: ours."""
DAMAGE_FORCE_N = 700.0
"""Force that bends a flange: sigma_y t^2 / 6 x (effective width / arm = 1) = 170 MPa x 25 mm2 / 6 =
708 N for a local load at its edge (deep-drawing steel). Source: ours."""
BIN_HIT_FORCE_N = 700.0
"""Force of robot and held parts on the bin that counts as a hit; about a 0.75 m/s slam. Source: published
value."""
BIN_HIT_REARM_S = 0.25
"""A hit is over when the force has stayed below its limit for this time. Source: ours."""
CLEAR_SPEED_M_S, CLEAR_REST_S = 0.02, 0.5
"""A part is cleared after resting slower than this in the nest for this time. Source: published."""
CLEAR_TICKS = round(CLEAR_REST_S * CONTROL_HZ)
CLEARED_POS_M: Vec3 = (2.0, -3.0, 0.5)
CLEARED_PITCH_M = 0.3
"""Where cleared part k waits, weightless and without contact: CLEARED_POS_M + (0.3 k, 0, 0). Source: card."""

# -------------------------------------------------------------------------------------- sensors

FT_FORCE_SIGMA_N, FT_TORQUE_SIGMA_NM = 0.25, 0.01
"""Noise of the force-torque sensor per axis. Source: published."""
OVERHEAD_POS_M: Vec3 = (0.47, -0.27, 0.98)
"""Overhead camera, straight down, image up = +y. Source: published."""
OVERHEAD_WH_PX, OVERHEAD_VFOV_DEG = (640, 480), 48.0
WRIST_POS_M: Vec3 = (0.055, 0.0, 0.02)
"""Wrist camera in the flange frame, looking along the approach axis. Source: published."""
WRIST_QUAT_WXYZ = (0.0, 1.0, 0.0, 0.0)
"""Half a turn about x: the camera looks along its -z, the tool along its +z."""
WRIST_WH_PX, WRIST_VFOV_DEG = (320, 240), 58.0
CHANNELS = ("overhead_rgb", "overhead_depth", "wrist_rgb", "wrist_depth")
"""What a policy may ask for; all four by default. Source: card."""
OVERVIEW_WH_PX, OVERVIEW_HZ = (640, 480), 10.0
"""Camera of videos. Source: card."""

KEY_ELEVATION_DEG, KEY_DISTANCE_M, KEY_DIFFUSE = (45.0, 80.0), (1.6, 2.4), (0.55, 0.85)
"""Key light of a pile: uniform ranges; its azimuth is uniform over the full turn. Source: published."""
FILL_DIFFUSE, AMBIENT, FLOOR_GREY = (0.20, 0.45), (0.30, 0.48), (0.24, 0.38)
"""Fill light from above, ambient light and grey of the floor: uniform ranges. Source: published."""


def focal_px(height_px: int, vfov_deg: float) -> float:
    """f = (h / 2) / tan(vfov / 2), equal in x and y (square pixels)."""
    return 0.5 * height_px / math.tan(math.radians(vfov_deg) / 2.0)


# ------------------------------------------------------------------------------ protocol and score

N_HIDDEN = 8
"""Scored piles. Source: card."""
QUICK_S = 40.0
"""Length of the one pile that `--profile quick` plays instead; it is no result. Source: ours."""
SMOKE_S = 20.0
"""Length of the smoke pile, run twice. Source: published."""
QUICK_TICKS = round(QUICK_S * CONTROL_HZ)
SMOKE_TICKS = round(SMOKE_S * CONTROL_HZ)
SMOKE_FAULT_SHARE = 0.10
"""Largest share of faulty ticks in the smoke pile. Source: published."""
SMOKE_CAP = 0.1
"""Largest reward when a gate other than `load` is false. Source: card."""
ACT_CAP_S, RESET_CAP_S = 30.0, 120.0
"""Longest charged time of one act and of reset. Source: card; reset: published."""
POLICY_TOTAL_S = 360.0
"""Charged time of reset and act in one pile. Source: card."""
LOAD_CAP_S = 60.0
"""Import and `make_policy`. Source: card."""
DIGEST_ROUND = 9
"""Decimals of qpos in the determinism digest. Source: card."""

WEIGHT_CLEAN, WEIGHT_CLEARED, WEIGHT_RATE, WEIGHT_CLEAN_RATE = 0.30, 0.35, 0.20, 0.15
"""Weights of I, h, min(p/10, 1) and I min(p/15, 1). Source: card."""
RATE_FULL_PPM, CLEAN_RATE_FULL_PPM = 10.0, 15.0
"""Parts per minute that earn the rate terms in full. Source: card."""
DEDUCT_FLOOR, DEDUCT_DAMAGE, DEDUCT_BIN = 0.03, 0.05, 0.05
"""Deduction per event. Source: card."""
H_KNEE, H_AT_KNEE = 0.6, 0.1
"""Credit for partial clearing: linear to 0.1 at 60 % cleared, then cubic to 1. Source: card."""

AGENT_WALL_S, VERIFY_WALL_S = 14_400, 10_800
"""Source: card."""
MAX_FILES, MAX_TOTAL_BYTES = 64, 32 * 2**20
"""Files of a submission. Source: card."""

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
