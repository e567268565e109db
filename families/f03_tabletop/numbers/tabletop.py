"""Numbers of tower, cantilever and balance. Sources as in `common.py`."""

import math

from families.f03_tabletop.numbers.common import DENSITY_KG_M3, Frozen, Table

TABLE = Table(size_m=(0.70, 1.60, 0.05), top_z_m=0.90)
"""Source: published."""
ROBOT_BASE_M = (-0.62, 0.0, 0.0)
"""Start of the mobile base. Source: published."""
TORSO_START_M = 0.20
"""Torso height at the start. Source: published."""
ELBOW_MOST_RAD = -0.8
"""Upper stop of the mobile robot's elbow. Source: ours. The Panda's own stop, -0.07, lies beyond the dead centre at
-atan(0.0825/0.316) - atan(0.0825/0.384) = -0.467, where the wrist is farthest from the shoulder: an elbow that has
passed it is held against its stop by whatever brings the hand back (measured). This one costs 10 mm of 0.72 m."""

TOP_DOWN_REACH_M = 0.75
"""From the base to the farthest top-down grasp at the table. Source: measured; a test compares."""
BASE_CREEPS_BELOW = 0.3
"""Base actions smaller than this hardly move it. Source: measured; a test compares."""


class Field(Frozen):
    """Where a scene's pieces may lie."""

    x_m: tuple[float, float]
    y_m: tuple[float, float]
    apart_m: float
    """Smallest distance between two centres."""


# ------------------------------------------------------------------------------------------- tower


class Piece(Frozen):
    """One tower piece at nominal size; the drawn scale multiplies every length."""

    name: str
    shape: str
    """box, cylinder, sphere, capsule, wedge."""
    size_m: tuple[float, ...]
    """box: half sizes; cylinder: radius, half height; sphere: radius; capsule: radius, half length;
    wedge: long leg, short leg, depth."""
    rgba: tuple[float, float, float, float]
    column_m: float
    """f: height in a single column of faces; 0 for a piece that carries nothing on top."""
    cap_m: float
    """E: height as the topmost piece."""
    density_kg_m3: float = DENSITY_KG_M3

    @property
    def rest_z_m(self) -> float:
        """Height of the centre above the table in the start pose."""
        match self.shape:
            case "box":
                return self.size_m[2]
            case "cylinder":
                return self.size_m[1]
            case "wedge":
                return self.size_m[0] * self.size_m[1] / math.hypot(*self.size_m[:2]) / 3.0
        return self.size_m[0]


def _box(name: str, half: tuple[float, float, float], rgba) -> Piece:
    return Piece(
        name=name, shape="box", size_m=half, rgba=rgba, column_m=2 * half[2], cap_m=2 * half[2]
    )


def _cylinder(name: str, radius: float, half: float, rgba) -> Piece:
    return Piece(
        name=name, shape="cylinder", size_m=(radius, half), rgba=rgba, column_m=2 * half,
        cap_m=2 * half,
    )  # fmt: skip


def _cap(name: str, shape: str, size: tuple[float, ...], cap_m: float, rgba, **more) -> Piece:
    return Piece(name=name, shape=shape, size_m=size, rgba=rgba, column_m=0.0, cap_m=cap_m, **more)


WEDGE_DENSITY_KG_M3 = 300.0
"""Source: published."""
PIECES: tuple[Piece, ...] = (
    _box("cube_a", (0.032, 0.032, 0.032), (0.80, 0.20, 0.16, 1.0)),
    _box("cube_b", (0.026, 0.026, 0.026), (0.90, 0.55, 0.13, 1.0)),
    _box("cube_c", (0.021, 0.021, 0.021), (0.95, 0.83, 0.25, 1.0)),
    _cylinder("cyl_a", 0.026, 0.041, (0.20, 0.55, 0.30, 1.0)),
    _cylinder("cyl_b", 0.030, 0.030, (0.35, 0.72, 0.55, 1.0)),
    _cylinder("rod", 0.011, 0.060, (0.15, 0.35, 0.55, 1.0)),
    _box("plate_a", (0.035, 0.035, 0.010), (0.20, 0.45, 0.80, 1.0)),
    _box("plate_b", (0.030, 0.030, 0.008), (0.45, 0.65, 0.90, 1.0)),
    _cap("sphere", "sphere", (0.030,), 0.060, (0.55, 0.30, 0.65, 1.0)),
    _cap("capsule", "capsule", (0.018, 0.030), 0.036, (0.75, 0.45, 0.70, 1.0)),
    _cap(
        "wedge_a", "wedge", (0.090, 0.050, 0.080), 0.090, (0.55, 0.40, 0.28, 1.0),
        density_kg_m3=WEDGE_DENSITY_KG_M3,
    ),
    _cap(
        "wedge_b", "wedge", (0.080, 0.045, 0.070), 0.080, (0.70, 0.55, 0.40, 1.0),
        density_kg_m3=WEDGE_DENSITY_KG_M3,
    ),
)  # fmt: skip
"""The twelve tower pieces. Source: card, section 2."""
PIECE_NAMES = tuple(piece.name for piece in PIECES)
OPTIMUM_NOMINAL_M = sum(p.column_m for p in PIECES) + max(
    p.cap_m for p in PIECES if p.column_m == 0.0
)
"""Height that scores 1 where every scale is 1: one column of all faces and the best cap."""
SCALE_RANGE = (0.9, 1.1)
"""Uniform scale factor of each piece. Source: card."""
TOWER_FRICTION = (0.95, 0.3, 0.1)
"""Sliding, torsional, rolling. Source: published."""
ROLLING_FRICTION = 0.001
"""Rolling friction of sphere and capsule. Source: ours."""
TOWER_FIELD = Field(x_m=(-0.30, 0.08), y_m=(-0.60, 0.10), apart_m=0.13)
"""Source: card."""

# -------------------------------------------------------------------------------------- cantilever

BLOCKS = 4
BLOCK_HALF_M = (0.030, 0.060, 0.015)
"""Half sizes; the long side is along local y. Source: card."""
BLOCK_LENGTH_M = 2 * BLOCK_HALF_M[1]
BLOCK_MASS_KG = 8 * math.prod(BLOCK_HALF_M) * DENSITY_KG_M3
BLOCK_FRICTION = (0.8, 0.3, 0.1)
"""Source: published."""
BLOCK_RGBA = (0.82, 0.62, 0.38, 1.0)
CANTILEVER_FIELD = Field(x_m=(-0.28, 0.05), y_m=(-0.55, -0.10), apart_m=0.16)
"""Source: card."""
CANTILEVER_OPT_BLOCKS = (15.0 - 4.0 * math.sqrt(2.0)) / 8.0
"""Largest overhang of four equal blocks, in block lengths. Source: known planar result (the harmonic
stack has 25/24)."""
CANTILEVER_OPT_M = CANTILEVER_OPT_BLOCKS * BLOCK_LENGTH_M
LOWEST_SUPPORTED_Z_M = 0.89
"""A block counts only when its lowest point is above this. Source: card."""

# ----------------------------------------------------------------------------------------- balance

CUBES = 9
CUBE_HALF_M = 0.016
"""Half edge. Source: card."""
CUBE_MASS_KG = 0.05898
"""Source: card: 0.032^3 m^3 at 1,800 kg/m^3, rounded."""
HEAVY_FACTOR = 1.2
"""Mass of the heavy cube over the others. Source: published."""
CUBE_FRICTION_RANGE = (0.8, 1.2)
"""Sliding friction, drawn for each cube so that pushing does not tell the mass. Source: card."""
CUBE_FRICTION_REST = (0.3, 0.1)
"""Torsional and rolling friction of the cubes. Source: as the tower's."""
CUBE_RGBA = (0.72, 0.72, 0.75, 1.0)
BALANCE_FIELD = Field(x_m=(-0.30, -0.02), y_m=(-0.40, 0.12), apart_m=0.075)
"""Source: card."""


class Mat(Frozen):
    """The green mat."""

    centre_m: tuple[float, float] = (-0.02, -0.55)
    half_m: tuple[float, float, float] = (0.07, 0.07, 0.002)
    rgba: tuple[float, float, float, float] = (0.15, 0.60, 0.25, 1.0)
    reach_m: float = 0.09
    """A cube is on the mat if its centre is within this of the mat's centre in x and in y."""
    gap_m: float = 0.01
    """... and its lowest point within this of the mat's top."""


class Beam(Frozen):
    """The beam balance. Source: card."""

    base_m: tuple[float, float] = (0.10, 0.42)
    """Post on the table, x and y."""
    post_radius_m: float = 0.015
    post_height_m: float = 0.2125
    disc_radius_m: float = 0.07
    disc_thickness_m: float = 0.006
    pivot_z_m: float = 0.2625
    """Above the table top."""
    range_rad: float = 0.10
    damping: float = 0.25
    beam_half_m: tuple[float, float, float] = (0.015, 0.25, 0.0075)
    bob_radius_m: float = 0.0275
    bob_drop_m: float = 0.0775
    """Bob below the pivot: this is what the beam's tilt weighs against."""
    bob_density_kg_m3: float = 12_000.0 / 1.25**3
    pan_drop_m: float = 0.12
    """Plate below its hinge."""
    pan_damping: float = 0.05
    plate_radius_m: float = 0.1125
    plate_thickness_m: float = 0.010
    plate_density_kg_m3: float = 8_000.0 / 1.25**3
    plate_friction: float = 1.0
    rim_boxes: int = 14
    rim_height_m: float = 0.006
    rim_thickness_m: float = 0.003
    """Half thickness of a rim box. Source: ours."""
    lock_steps: int = 20
    """Control steps over which the arrest brings the beam level."""
    rest_beam_rad_s: float = 0.01
    rest_pan_rad_s: float = 0.05
    rest_steps: int = 10
    """Beam and pans below both rates for this many control steps are at rest."""


MAT = Mat()
BEAM = Beam()
POSITION_NOISE_M = 0.001
"""Sigma of the observed positions of cubes and pans. Source: card for the cubes; ours for the pans: under lock the beam
sags by 1e-4 rad under three cubes, and 3 um more on the heavy side (measured) would be read without a weighing."""
JOINT_NOISE_RAD = 0.0002
"""Sigma of the observed joint positions in balance. Source: card."""
WEIGHINGS_FREE = 2
"""ceil(log3 9): weighings with which the heavy cube can always be found."""
