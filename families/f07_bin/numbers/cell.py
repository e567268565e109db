"""Time, cell, parts, piles, tool and sensors of f07. Part of `spec.py`, which re-exports every name.

Sources: "published" is a number of the published benchmark task, "card" one that the family's card sets,
"ours" a choice of this project with its reason, "measured" a result of this scene on the pinned MuJoCo.
World frame: floor z = 0, x forward from the arm, y to its left, metres.
"""

import math

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
