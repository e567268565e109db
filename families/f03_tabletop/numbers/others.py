"""Numbers of pocket-cube and hidden-com. Sources as in `common.py`."""

import math

from families.f03_tabletop.numbers.common import Contact, Frozen, Table

# ------------------------------------------------------------------------------------- pocket cube

CUBE_TABLE = Table(size_m=(1.7, 1.12, 0.05), top_z_m=0.75)
"""Source: card."""
CUBE_START_M = (0.0, 0.0, 1.04)
"""Centre of the cube on its fork. Source: card."""
_HALF_LEAN = math.radians(22.5)
ARM_BASES_M = ((-0.40, 0.20, 0.86), (0.40, 0.20, 0.86))
ARM_QUATS_WXYZ = (
    (math.cos(_HALF_LEAN), 0.0, -math.sin(_HALF_LEAN), 0.0),
    (0.0, math.sin(_HALF_LEAN), 0.0, math.cos(_HALF_LEAN)),
)
"""Both arms lean back by 45 degrees; arm 1 is the mirror of arm 0. Source: card."""
ARM_START_RAD = (
    (-0.6307, 0.6464, -0.0730, -2.5760, 2.4656, 2.2668, -0.8067),
    (0.9147, 0.6584, -0.1463, -2.5541, -2.4575, 2.3681, -0.6280),
)
"""Hands point at the cube from 0.136 m, fingers opening along z. Source: card, measured."""


class Fork(Frozen):
    """What carries the cube: four box posts on a thin pedestal. Source: card; box posts because
    MuJoCo's convex collider reports false penetrations of a cylinder and a cubie."""

    post_half_m: float = 0.004
    post_xy_m: float = 0.019
    post_z_m: tuple[float, float] = (0.935, 1.008)
    pedestal_half_m: tuple[float, float, float] = (0.024, 0.024, 0.005)
    pedestal_z_m: float = 0.930
    stem_radius_m: float = 0.008


class Mechanism(Frozen):
    """The 64 mm pocket cube: eight boxes on ball joints about one core. Source: card."""

    core_radius_m: float = 0.006
    core_mass_kg: float = 0.010
    inner_m: float = 0.00005
    """A cubie spans from here ..."""
    outer_m: float = 0.032
    """... to here on each axis."""
    cubie_mass_kg: float = 0.008
    contact: Contact = Contact(
        solref=(0.004, 1.0), solimp=(0.999, 0.9999, 0.001, 0.5, 2.0), condim=1
    )
    solmix: float = 1000.0
    frictionloss: float = 1e-3
    """Dry friction of each cubie's joint, N m. Source: ours; a layer of four resists its turning with 4 mN m, 0.13 N
    at its 32 mm edge, and stops within 5 degrees of where a hand leaves it. With 5e-5 a freed layer kept up to
    0.3 mJ and coasted: drawn scrambles were not solved; with this one a whole 12-turn solve played (measured)."""
    armature: float = 5e-6
    sticker_margin_m: float = 0.001
    sticker_thickness_m: float = 0.0004
    """Half thickness of a sticker plate. Source: ours, visual only."""


class TurnRules(Frozen):
    """How the state of the cube is read. Source: card."""

    align_rad: float = math.radians(4.0)
    """Aligned: every cubie within this of one of the 24 rotations."""
    lose_rad: float = math.radians(10.0)
    """Alignment is lost only above this."""
    check_every: int = 5
    """Physics steps between readings (100 Hz)."""
    solved_z_m: float = 0.82
    solved_lin_m_s: float = 0.02
    solved_ang_rad_s: float = 0.15
    solved_steps: int = 5
    """Consecutive control steps that a solve must hold."""
    rescue_z_m: float = 0.90
    """`recover_drop` only below this height."""
    rescue_m_s: float = 0.05
    """... and slower than this."""


FORK = Fork()
MECHANISM = Mechanism()
LIFT_M = (
    math.ceil(1000 * (math.sqrt(2.0) * MECHANISM.outer_m - (CUBE_START_M[2] - FORK.post_z_m[1])))
    / 1000
)
"""Lift, in whole millimetres, from which a half clears the posts while it turns about a level axis: its corners sweep
sqrt(2) times half the cube."""
TURNS = TurnRules()
CUBE_PAD_FRICTION = (2.0, 0.006, 0.0001)
CUBE_PAD_CONDIM = 4
"""Finger pads on the cube. Source: card."""
STICKER_RGBA: dict[str, tuple[float, float, float, float]] = {
    "+x": (0.80, 0.08, 0.08, 1.0),
    "-x": (0.95, 0.45, 0.05, 1.0),
    "+y": (0.08, 0.20, 0.75, 1.0),
    "-y": (0.05, 0.55, 0.15, 1.0),
    "+z": (0.95, 0.95, 0.95, 1.0),
    "-z": (0.95, 0.85, 0.10, 1.0),
}
"""Red, orange, blue, green, white, yellow. Source: card."""
SCRAMBLE_TURNS = 20
"""Random face turns of a scramble, consecutive ones on different axes. Source: card."""
OPTIMUM_RANGE = (10, 12)
"""A drawn scramble's exact optimum in quarter turns. Source: card (83 % of all states)."""
FRONT_CAMERA_M = (0.0, -0.85, 1.40)
FRONT_TARGET_M = (0.0, 0.0, 1.055)
FRONT_FOVY_DEG = 42.0
"""Source: card."""

# -------------------------------------------------------------------------------------- hidden com

HIDDEN_TABLE = Table(size_m=(1.2, 0.9, 0.05), top_z_m=0.75)
"""Source: card."""
HIDDEN_BASE_M = (-0.48, 0.0, 0.775)
BOXES = 3
QUADRANTS: dict[str, tuple[int, int]] = {
    "A": (-1, 1),
    "B": (1, 1),
    "C": (-1, -1),
    "D": (1, -1),
}
"""Signs of x and y. Source: card."""


class Box(Frozen):
    """The sealed box with its handle. Source: card."""

    half_m: tuple[float, float, float] = (0.075, 0.075, 0.025)
    friction: float = 0.7
    friction_rest: tuple[float, float] = (0.005, 0.0001)
    """Torsional and rolling friction. Source: MuJoCo's defaults."""
    condim: int = 3
    """No torsional friction: the box turns about the pads' axis when it is lifted. Source: ours; with
    the pads' torsional friction a lifted box leans by 2 degrees instead of 16 (measured)."""
    start_m: tuple[float, float, float] = (0.0, 0.0, 0.779)
    mat_half_m: float = 0.30
    mat_thickness_m: float = 0.004
    post_half_m: tuple[float, float, float] = (0.006, 0.008, 0.025)
    post_x_m: float = 0.034
    post_mass_kg: float = 0.006
    bar_half_m: tuple[float, float, float] = (0.040, 0.008, 0.006)
    bar_z_m: float = 0.081
    """Centre of the bar above the box's centre."""
    bar_mass_kg: float = 0.018
    bar_range_rad: float = 1.2
    bar_damping: float = 0.08
    """Damping of the hinge that the bar turns on, N m s/rad: near critical, 2 sqrt(m g d I) = 0.08 for a box
    of 0.48 kg that hangs d = 84 mm below it. Source: ours; with a bar fixed to its posts the pads held
    some boxes level about it (measured)."""
    handle_friction: float = 1.0
    letter_xy_m: float = 0.039
    letter_dot_m: float = 0.0045
    """Side of a dot of the inked letters, which are 3 x 5 dots. Source: ours; 14 x 23 mm, read from above at 256 px."""
    rgba: tuple[float, float, float, float] = (0.62, 0.47, 0.30, 1.0)


class Ballast(Frozen):
    """What is drawn for each box. Source: card; smaller shifts cannot be read by lifting."""

    shell_kg: tuple[float, float] = (0.10, 0.24)
    mass_kg: tuple[float, float] = (0.25, 0.34)
    offset_m: tuple[float, float] = (0.030, 0.045)
    """|offset| from the box's centre on each axis."""
    half_sizes_m: tuple[tuple[float, float, float], ...] = (
        (0.015, 0.015, 0.015),
        (0.010, 0.020, 0.012),
        (0.022, 0.010, 0.016),
    )
    shift_m: tuple[float, float] = (0.019, 0.030)
    """|shift| of the whole box's centre of mass on each axis."""


BOX = Box()
BALLAST = Ballast()


class LookAt(Frozen):
    """A fixed camera."""

    name: str
    target_m: tuple[float, float, float]
    distance_m: float
    azimuth_deg: float
    elevation_deg: float
    fovy_deg: float


HIDDEN_CAMERAS = (
    LookAt(
        name="workspace", target_m=(0.0, 0.0, 1.0), distance_m=1.95, azimuth_deg=-55.0,
        elevation_deg=-40.0, fovy_deg=48.0,
    ),
    LookAt(
        name="closeup", target_m=(0.03, 0.0, 0.79), distance_m=0.80, azimuth_deg=-70.0,
        elevation_deg=-55.0, fovy_deg=42.0,
    ),
    LookAt(
        name="top", target_m=(0.03, 0.0, 0.0), distance_m=1.71, azimuth_deg=90.0,
        elevation_deg=-90.0, fovy_deg=43.0,
    ),
)  # fmt: skip
"""Source: card. `top` looks straight down from z 1.71."""
