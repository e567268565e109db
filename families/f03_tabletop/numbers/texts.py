"""The agent's instructions, generated from the numbers. They state every rule of scene, measurement and
score; only the drawn instance is withheld."""

import math

from families.f03_tabletop.numbers import common as c
from families.f03_tabletop.numbers import others as o
from families.f03_tabletop.numbers import tabletop as t

_SETTLE = (
    f"Final measurement (at `finish()`, or when steps or time run out): the robot is held still as it "
    f"is, nothing is opened. The scene runs {c.SETTLE_MIN_S:g} s, then on in {c.QUIET_WINDOW_S:g} s pieces up to "
    f"{c.SETTLE_MAX_S:g} s until every object was slower than {c.QUIET_LIN_M_S:g} m/s and {c.QUIET_ANG_RAD_S:g} rad/s "
    f"over the last {c.QUIET_WINDOW_S:g} s. It is read, held {c.HOLD_S:g} s more, read again; the lower reading counts. "
    "An object that still moves, or touches the robot at either reading, is excluded and supports nothing."
)
_ATTEMPT = (
    f"You have one continuous attempt: {c.BUDGET_STEPS:,} control steps ({c.CONTROL_HZ:g} per second of simulated time) "
    f"and {c.WALL_S:,} s of wall time. "
)
_RESET = "`reset()` costs 1 step and puts the same scene back; steps used stay used. "
_ROBOT = (
    f"The robot is a Panda arm on a mobile base beside the table (top at z {t.TABLE.top_z_m:.2f} m, x {-t.TABLE.half_m[0]:.2f} to "
    f"{t.TABLE.half_m[0]:.2f}, y {-t.TABLE.half_m[1]:.2f} to {t.TABLE.half_m[1]:.2f}). "
    f"From its start it reaches about {t.TOP_DOWN_REACH_M:g} m for top-down grasps; drive the base for more (values below about {t.BASE_CREEPS_BELOW:g} "
    "hardly move it; after a zero it coasts, by several centimetres from full speed). `move` drives the gripper site towards a world pose with base and torso still; as `quat_xyzw`, "
    "(0.7071, 0.7071, 0, 0) points the gripper straight down, fingers closing along y. "
    f"The hand covers about {c.MOVE_PACE_M:g} m in ten steps. For a target beyond reach it stretches as far as the elbow's stop lets "
    "it, with the hand off the wanted rotation; the events `move_error_m` and `move_error_rad` of the reply say how far off it ended. The way there is straight and knows no obstacle: "
    "go around the robot's own column, not through it."
)
TITLES = {
    "tower": "Build the tallest tower",
    "cantilever": "Greatest overhang of four blocks",
    "balance": "Find the heavy cube with a beam balance",
    "pocket-cube": "Solve a physical 2x2x2 cube with two arms",
    "hidden-com": "Find the ballast of sealed boxes",
}
TOWER = (
    "Build a stable, unsupported tower from twelve mixed pieces on a table; its settled height is scored. "
    + _ROBOT
    + "\n\nPieces (nominal; each has its own scale factor from "
    f"{t.SCALE_RANGE[0]:g} to {t.SCALE_RANGE[1]:g}): "
    + "; ".join(
        f"{p.name} ({p.shape}, {' x '.join(f'{v:g}' for v in p.size_m)} m)" for p in t.PIECES
    )
    + ". Boxes are given by half sizes, cylinders by radius and half height, the capsule by radius and half length, "
    "wedges (right prisms) by long leg, short leg and depth.\n\n"
    + _ATTEMPT
    + _RESET
    + _SETTLE
    + "\n\nSupported: connected to the table through contacts of pieces that are not excluded. Height h: highest point "
    "of a supported piece above the table. Score: clip(h / H, 0, 1), where H is the height of all flat faces stacked in "
    "one column (boxes, plates, upright cylinders and rod, with their drawn scales) plus the best cap (the tallest of "
    "sphere, lying capsule, and wedges standing on their small leg face); "
    f"nominally {t.OPTIMUM_NOMINAL_M:g} m."
)
CANTILEVER = (
    "Stack four equal blocks so that one reaches as far as possible past an edge of the table. "
    + _ROBOT
    + f"\n\nBlocks: {2 * t.BLOCK_HALF_M[0]:g} x {2 * t.BLOCK_HALF_M[1]:g} x {2 * t.BLOCK_HALF_M[2]:g} m, {t.BLOCK_MASS_KG:g} kg; the long side "
    f"(L = {t.BLOCK_LENGTH_M:g} m) is the one that counts.\n\n"
    + _ATTEMPT
    + _RESET
    + _SETTLE
    + "\n\nOverhang o: over the supported blocks (connected to the table through contacts of blocks that are not "
    f"excluded) whose lowest point is above z {t.LOWEST_SUPPORTED_Z_M:g} m, the largest distance of an end-face centre past one of the "
    "four table edges, along that edge's outward normal. A block laid diagonally gains nothing from its corner. "
    f"Score: clip(o / o_opt, 0, 1) with o_opt = (15 - 4 sqrt 2)/8 L = {t.CANTILEVER_OPT_M:.6f} m, the largest overhang of four blocks."
)
BALANCE = (
    "One of nine equal-looking cubes is heavier: find it with a beam balance and put it, and only it, on the green mat. "
    + _ROBOT
    + f"\n\nThe cubes have an edge of {2 * t.CUBE_HALF_M:g} m; eight weigh {t.CUBE_MASS_KG:g} kg, one {t.HEAVY_FACTOR:g} times that. The "
    f"balance stands at ({t.BEAM.base_m[0]:g}, {t.BEAM.base_m[1]:g}); its pans hang at y {t.BEAM.base_m[1] - t.BEAM.beam_half_m[1]:g} and "
    f"{t.BEAM.base_m[1] + t.BEAM.beam_half_m[1]:g}, round plates of radius {t.BEAM.plate_radius_m:g} m with a rim of {t.BEAM.rim_height_m:g} m, "
    f"which collide; post, beam and what the pans hang by are drawn and touch nothing. The mat is centred at ({t.MAT.centre_m[0]:g}, {t.MAT.centre_m[1]:g}), {2 * t.MAT.half_m[0]:g} m wide, its top "
    f"{1000 * 2 * t.MAT.half_m[2]:g} mm above the table.\n\n"
    "The beam has a lock and starts locked. `call('beam', locked=False)` releases it, `locked=True` brings it level over "
    f"{t.BEAM.lock_steps} steps; each costs 1 step, in which the robot holds still. Release is refused while the robot touches the balance or a cube "
    "on it; such a touch while it is released locks it at once. Once the beam is released and `pan_at_rest` is true (beam and pans slow "
    f"for {t.BEAM.rest_steps} steps since the release) the lower of `pan_positions` is the heavier; locked, the pans hang level whatever lies on them. The arm cannot weigh: a held cube's weight is compensated. "
    f"Positions of cubes and pans are observed with {1000 * t.POSITION_NOISE_M:g} mm noise; what lies on the pans is refreshed only while the beam is locked or at rest.\n\n"
    "A weighing is counted when the beam is released, or when the contents change while it is released, with pan contents "
    "(cubes connected to each plate by contact) that are not both empty and differ from the last counted pair. Loading under "
    "lock is free. Unequal counts are weighings too.\n\n"
    + _ATTEMPT
    + "`reset()` costs 1 step and puts the same scene back; steps, weighings and the last counted pair stay. "
    + _SETTLE
    + f"\n\nOn the mat: centre within {t.MAT.reach_m:g} m of the mat's centre in x and in y, lowest point within {t.MAT.gap_m:g} m of its top, "
    f"and not touching the robot. Score: 0 unless exactly the heavy cube is on the mat; else 1 with at most {t.WEIGHINGS_FREE} weighings, "
    f"{t.WEIGHINGS_FREE}/w with w more."
)
POCKET_CUBE = (
    f"Solve a scrambled physical {2000 * o.MECHANISM.outer_m:g} mm 2x2x2 cube that stands on a fork between two fixed Panda arms, in few quarter turns. "
    "Actions of each arm are in its own base frame (`arm0_base_pos`, `arm0_base_quat` and so on give it).\n\n"
    f"The cube's centre starts at {o.CUBE_START_M}. A face is turned by gripping two halves and rolling one hand; lift at least "
    f"{1000 * o.LIFT_M:g} mm before turning about x, so that corners pass the fork. Centre the cube before each grip.\n\n"
    + _ATTEMPT
    + "`reset()` gives the attempt up: score 0. "
    f"`call('recover_drop')` costs 1 step, is allowed only while the cube's centre is below z {o.TURNS.rescue_z_m:g} m and slower than "
    f"{o.TURNS.rescue_m_s:g} m/s, and puts the cube back upright in the last legal aligned state seen at or above that height, with both arms "
    "at their start; counted turns stay.\n\n"
    f"Turns are read {1 / (c.TIMESTEP_S * o.TURNS.check_every):g} times a second. Aligned: every cubie within {math.degrees(o.TURNS.align_rad):g} degrees of one of the 24 rotations (lost again only above "
    f"{math.degrees(o.TURNS.lose_rad):g} degrees). From one aligned legal state to the next: nothing changed counts 0, one face by 90 degrees 1, by 180 degrees 2, "
    "anything else 1 and marks the run `unclassified`. Solved: all 24 stickers match under one rotation, the core above z "
    f"{o.TURNS.solved_z_m:g} m and slower than {o.TURNS.solved_lin_m_s:g} m/s and {o.TURNS.solved_ang_rad_s:g} rad/s, each cubie slower than "
    f"{o.TURNS.solved_ang_rad_s:g} rad/s, for {o.TURNS.solved_steps} control steps; hands may hold it. That ends the attempt.\n\n"
    "Score: 0 if not solved; else g = 2^(-max(0, q/q* - 1)) with q counted quarter turns and q* the exact optimum of your scramble; "
    "min(g, 0.5) if any transition was unclassified."
)
HIDDEN_COM = (
    f"Each of {o.BOXES} sealed boxes has a hidden ballast in one quadrant of its lid, A, B, C or D: name it. A Panda arm and three cameras "
    "are what you have; there is no force or contact sensing.\n\n"
    "The boxes come one after the other; each has a handle across its top, along x, whose bar turns freely in its posts. Letters on the lid mark the quadrants: "
    "A (-x, +y), B (+x, +y), C (-x, -y), D (+x, -y). Lifting a box by its handle and looking at how it leans, or pushing it, tells "
    "where the weight is.\n\n"
    f"For each box {c.HIDDEN_COM_STEPS:,} control steps, and {c.HIDDEN_COM_WALL_S:,} s of wall time in all. `call('submit', quadrant='A', trial=n)` answers "
    "box n for good and opens the next; it costs nothing and tells nothing. A box never answered is wrong.\n\n"
    f"Score: correct answers / {o.BOXES}."
)
INSTRUCTIONS = {
    "tower": TOWER,
    "cantilever": CANTILEVER,
    "balance": BALANCE,
    "pocket-cube": POCKET_CUBE,
    "hidden-com": HIDDEN_COM,
}
