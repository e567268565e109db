"""Time, scene, pictures and pushes of f06. Part of `spec.py`, which re-exports every name.

Sources: "published" is a number of the published benchmark task, "card" one that the family's card sets,
"ours" a choice of this project with its reason, "measured" a result of this scene on the pinned MuJoCo.
"""

import math

Vec3 = tuple[float, float, float]
Range = tuple[float, float]

# ---------------------------------------------------------------------------------------- time

TIMESTEP_S = 0.002
"""Physics step. Source: published."""
FRAME_HZ = 10.0
"""Rate of the camera. Source: published."""
WAYPOINT_HZ = 50.0
"""Rate of the joint targets that drive a push. Source: published."""
STEPS_PER_FRAME = round(1.0 / (FRAME_HZ * TIMESTEP_S))
STEPS_PER_WAYPOINT = round(1.0 / (WAYPOINT_HZ * TIMESTEP_S))
WAYPOINTS_PER_FRAME = STEPS_PER_FRAME // STEPS_PER_WAYPOINT
SETTLE_S = 0.4
"""Simulated time before frame 0. Source: card."""
SETTLE_STEPS = round(SETTLE_S / TIMESTEP_S)
IMPRATIO = 10.0
"""Friction to normal constraint impedance. Source: published; the cone is elliptic (ours: sliding
friction then does not depend on the axes)."""
GRAVITY_M_S2 = 9.81
"""Source: MuJoCo default."""

# --------------------------------------------------------------------------------------- scene

TABLE_HALF_M = (0.45, 0.35)
"""Half length and width of the table top, whose upper face is z = 0. Source: published."""
TABLE_THICKNESS_M, FLOOR_Z_M = 0.04, -0.75
"""Source: published."""
FRICTION: Vec3 = (0.35, 0.005, 0.0001)
"""Friction of table, block and stick. Source: published."""
CELL_M = 0.050
"""Side of the square cells that the blocks are made of. Source: published."""
BLOCK_HEIGHT_M, BLOCK_DENSITY_KG_M3 = 0.040, 500.0
"""Source: published."""
BLOCK_RGBA = (0.80, 0.13, 0.10, 1.0)
"""Source: card."""
BLOCKS: dict[str, tuple[tuple[float, float, float, float], ...]] = {
    "T": ((0.0, 0.0, 4.0, 1.0), (0.0, -2.0, 1.0, 3.0)),
    "C": ((0.0, 0.5, 4.0, 1.0), (-1.5, -1.5, 1.0, 3.0), (1.5, -1.5, 1.0, 3.0)),
    "F": ((0.0, 0.5, 4.0, 1.0), (-1.5, -1.5, 1.0, 3.0), (0.5, -1.5, 1.0, 3.0)),
}
"""Boxes of each block in its own frame: centre x, y and size x, y, in cells; they share faces without
overlap. The origin is the point that the pose tells. Source: published."""
SHAPES = tuple(BLOCKS)
"""Shape ids 0, 1, 2."""
SPAWN_X_M: Range = (-0.25, 0.25)
SPAWN_Y_M: Range = (-0.175, 0.175)
SPAWN_YAW_RAD: Range = (-math.pi, math.pi)
"""Uniform ranges of the start pose. Source: published."""
SPAWN_Z_M = 0.0005
"""Height of the block's lower face at spawn. Source: card."""

ARM_BASE_POS_M: Vec3 = (-0.44, 0.12, 0.0)
ARM_BASE_YAW_RAD = -0.35
ARM_PARK_RAD = (0.0, -1.1, 0.0, -2.4, 0.0, 1.4, 0.785)
"""Source: published."""
N_JOINTS = len(ARM_PARK_RAD)
MOUNT_RADIUS_M, MOUNT_Z_M, MOUNT_KG = 0.03, (0.0, 0.05), 0.06
SHAFT_RADIUS_M, SHAFT_Z_M, SHAFT_KG = 0.0125, (0.05, 0.185), 0.06
"""Stick along the flange's z: a mount without contact and the pushing shaft. Source: card."""
TIP_Z_M = 0.1916
"""Site `tip` along the flange's z. Source: card."""

# ------------------------------------------------------------------------------------- pictures

CAMERA_POS_M: Vec3 = (0.50, -0.25, 0.72)
CAMERA_AIM_M: Vec3 = (0.0, 0.0, 0.02)
"""Eye and aim, +z up. Source: published."""
IMAGE_WH_PX, CAMERA_VFOV_DEG = (640, 480), 42.0
"""Source: published."""
FOCAL_PX = 0.5 * IMAGE_WH_PX[1] / math.tan(math.radians(CAMERA_VFOV_DEG) / 2.0)
SHADOW_SIZE_PX = 1024
"""Shadow map; no multisampling, no reflection. Source: card (measured: 4096 with 4 samples costs 5 x)."""
KEY_ELEVATION_DEG: Range = (35.0, 70.0)
KEY_DISTANCE_M: Range = (1.4, 2.2)
KEY_DIFFUSE: Range = (0.55, 0.90)
"""Key light, aimed at the origin, casts shadows; its azimuth is uniform over the full turn. Source: published."""
FILL_DIFFUSE: Range = (0.12, 0.32)
"""Fill light from above, no shadow. Source: published."""
AMBIENT: Range = (0.18, 0.38)
"""Headlight. Source: published."""
HEADLIGHT_DIFFUSE = 0.1
"""Source: published."""
TABLE_GREY: Range = (0.55, 0.90)
TABLE_TINT: Range = (-0.05, 0.05)
"""Grey of the table and tint of each channel. Source: published."""
DEPTH_SIGMA0_M, DEPTH_SIGMA_TAN2_M, DEPTH_SIGMA_EXTRA_MAX_M = 0.0015, 0.004, 0.0285
DROPOUT_COS, DROPOUT_P, DEPTH_MAX_M = 0.18, 0.75, 3.0
"""Depth noise; the formula stands in `rle.sim.depth`. Source: published."""
LABEL_SIGMA_XY_M, LABEL_SIGMA_YAW_RAD = 0.005, math.radians(3.0)
"""Noise of the labels that the renderer gives. Source: published."""
OCCLUDED_AT = 0.4
"""Share of hidden probe rays from which a frame counts as occluded. Source: published."""
PROBE_SPREAD, PROBE_LIFT_M, PROBE_SLACK_M = 0.75, 0.0001, 0.004
"""Probe points of a box's top face: its centre, and the four at this share of its half sizes, raised by
this; a hit this much before the point hides it. Source: card."""

# --------------------------------------------------------------------------------------- pushes

LIFT_Z_M, PUSH_Z_M = 0.12, 0.025
"""Height of the tip between strokes, and while it pushes. Source: card."""
TRAVEL_SPEED_M_S, PUSH_SPEED_M_S = 0.45, 0.18
"""Speed of the tip. Source: card."""
PUSH_LENGTH_M = 0.18
"""Source: card."""
PUSH_START_GAP_M = 0.025
"""Distance of the shaft from the footprint before a push. Source: card."""
PUSH_AZIMUTH_RAD: Range = (-0.5, 0.5)
"""Azimuth of the start, about that of the camera seen from the block. Source: card."""
PUSH_OFFSET: Range = (0.45, 0.65)
"""Lateral offset from the centre of mass over the footprint's half extent, random sign. Source: card."""
PUSH_TILT_SIN = 0.55
"""Tilt of the stick towards the camera: the arm crosses the line of sight. Source: card."""
PUSH_DRAWS = 32
"""Draws of (azimuth, offset, sign) of a stroke; the one with the least violation is used. Source: card."""
PUSH_AREA_M = (0.33, 0.26)
"""Largest |x| and |y| of a stroke's ends. Source: card."""
PUSH_REACH_M: Range = (0.30, 0.80)
"""Distance of a stroke's ends from the arm's base. Source: card."""
IK_AXIS_WEIGHT, IK_DAMPING = 0.12, 1.0e-4
"""Weight of the stick's axis beside the tip (1), and damping. Source: card."""
IK_ITERATIONS = 3
"""Steps per waypoint, started at the waypoint before. Source: ours (test_pushes: 1 mm)."""
N_STROKES_MAX, FRAMES_MAX = 5, 100
"""Strokes and frames that every push is planned with. Source: card."""

SELECT_CANDIDATES, SELECT_FRAMES = 12, 60
"""Stroke streams tried per scene, and the frames that are judged. Source: card."""
SELECT_HIDDEN_RAD, SELECT_TURN_RAD = math.radians(30.0), math.radians(1.0)
SELECT_TURN_FRAMES, SELECT_RANGE_RAD = 6, math.radians(60.0)
"""q = min(hidden rotation / 30 deg, occluded frames that turn more than 1 deg / 6, yaw range / 60 deg).
Source: card."""
DEAD_TILT_RAD, DEAD_Z_M, DEAD_XY_M = math.radians(15.0), 0.020, 0.45
"""Beyond these a candidate is dead. Source: card."""
MAX_SCENE_ATTEMPTS = 20
"""Redraws of a scene whose candidates are all dead. Source: card."""
