"""Numbers that all five tasks of f03 share. "card": set by this family's page; "published": of the
published benchmark task; "measured": measured with this project's scenes; "ours": a choice with its reason."""

import msgspec

FAMILY_VERSION = "1.0.0"
"""Version of physics, thresholds and agent-visible bytes."""


class Frozen(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the groups of numbers."""


CONTROL_HZ = 20.0
"""Rate of actions. Source: published."""
TIMESTEP_S = 0.002
"""Physics step. Source: published."""
SUBSTEPS = round(1.0 / (CONTROL_HZ * TIMESTEP_S))
"""Physics steps per control step."""
SOLVER_ITERATIONS = 100
"""Newton iterations. Source: card."""
LINE_SEARCH_ITERATIONS = 50
"""Line-search iterations. Source: card."""
IMPRATIO = 1.0
"""Friction over normal impedance; with the elliptic cone. Source: card."""

BUDGET_STEPS = 50_000
"""Charged steps of tower, cantilever, balance and pocket-cube. Source: card."""
WALL_S = 32_400
"""Wall time of those four. Source: card."""
HIDDEN_COM_STEPS = 12_000
"""Control steps per box. Source: card."""
HIDDEN_COM_WALL_S = 3_600
"""Wall time of hidden-com in all. Source: card."""

IMAGE_PX = 512
"""Default and largest image side. Source: published."""
GRIPPER_NOTE = "<= 0 opens, > 0 closes"

QUIET_LIN_M_S = 0.002
"""Speed below which a piece is at rest. Source: card (measured at rest: <= 0.0006, a piece that loses its contact for one step has 0.0196)."""
QUIET_ANG_RAD_S = 0.02
"""Turning rate below which a piece is at rest. Source: card (measured at rest: <= 0.013)."""
QUIET_WINDOW_S = 0.5
"""Both limits hold over this window. Source: card."""
SETTLE_MIN_S = 5.0
"""Shortest settling time of the final measurement. Source: published."""
SETTLE_MAX_S = 30.0
"""Longest settling time. Source: card."""
HOLD_S = 5.0
"""Time between the two readings; the lower one counts. Source: card."""


class Table(Frozen):
    """A table top."""

    size_m: tuple[float, float, float]
    """Length, width, thickness."""
    top_z_m: float
    centre_m: tuple[float, float] = (0.0, 0.0)
    friction: tuple[float, float, float] = (0.9, 0.005, 0.0001)
    """Sliding, torsional, rolling. Source: published."""

    @property
    def half_m(self) -> tuple[float, float, float]:
        x, y, z = self.size_m
        return x / 2, y / 2, z / 2


class Contact(Frozen):
    """Contact parameters of a kind of geom."""

    solref: tuple[float, float]
    solimp: tuple[float, float, float, float, float]
    condim: int


PRIMITIVE_CONTACT = Contact(solref=(0.001, 1.0), solimp=(0.998, 0.998, 0.001, 0.5, 2.0), condim=4)
"""Pieces, blocks and cubes. Source: published; condim ours."""
CONVEX_CONTACT = Contact(solref=(0.01, 1.0), solimp=(0.99, 0.99, 0.001, 0.5, 2.0), condim=4)
"""The tower's cylinders and wedges, which MuJoCo collides by a general convex collider. Source: ours; they rest 10 um deep,
above that collider's tolerance of 1 um. As hard as the boxes, a wedge on any piece lost its contact for a step every few
and was never quiet (0.0196 m/s = g x timestep, measured)."""
CONVEX_SOLMIX = 1000.0
"""Weight of that contact against a partner's; frictions mix as everywhere."""
CONVEX_GAP_M = 0.001
"""Its contacts are looked for from this distance on, and bear from 0 on. Source: ours; without it now and then two of
four contacts are found for a step, and a wedge at rest twitches with 0.014 m/s and 0.34 rad/s (measured)."""
ROLLING_CONDIM = 6
"""Condim of spheres and capsules, so that they stop rolling. Source: ours."""
DENSITY_KG_M3 = 1000.0
"""Density of the primitives. Source: published."""
FREE_JOINT_DAMPING = 0.0005
"""Damping of the pieces' free joints, N s/m and N m s/rad. Source: published."""
MAX_PLACEMENTS = 500
"""Whole scenes tried before `PlacementError`. Source: card."""
TRIES_PER_PIECE = 200
"""Places tried for one piece before the whole scene is drawn anew. Source: ours; 12 pieces 0.13 m apart
in the tower's field are near the random packing limit, so piecewise tries are needed."""
START_STEPS = 80
"""Physics steps with the robot's joints held, after the pieces are placed. Source: card."""

LEFT_CAMERA_WXYZ = (0.55623853, 0.29935253, -0.37678665, -0.6775092)
RIGHT_CAMERA_WXYZ = (0.67750919, 0.37678668, -0.29935256, -0.55623859)
SIDE_CAMERA_XYZ_M = (-0.5, 0.35, 1.05)
"""Left camera in the frame of the robot's fixed support; the right one has -y. Source: published."""
SIDE_FOVY_DEG = 60.0
MOVE_PACE_M = 0.13
"""Way of the mobile robot's hand in ten steps of `move`. Source: measured; a test compares."""
WRIST_CAMERA_XYZ_M = (0.0, 0.05, -0.097)
"""Of the wrist camera in the grip site's frame. Source: the Panda hand's model; a test compares."""
WRIST_CAMERA_WXYZ = (0.0, 0.0, 1.0, 0.0)
WRIST_FOVY_DEG = 75.0
"""Both: as the position."""
"""Source: published."""


class Film(Frozen):
    """How the film of a trial is drawn from a replay of its record. Source: ours."""

    target_m: tuple[float, float, float]
    distance_m: float
    azimuth_deg: float
    elevation_deg: float = -20.0
    fps: float = 20.0
    max_frames: int = 400
    """Longer attempts are shown faster."""
    seen_px: int = 256
    """Side of the pictures of what the cameras saw."""
