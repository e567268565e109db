"""The cell as a compiled model with named handles. No numbers of its own.

Groups: 0 arm and tool, 1 what is drawn of the cell, 3 colliding blocks that are not drawn, 4 the nest.
"""

import functools
import math
from dataclasses import dataclass

import mujoco
import numpy as np

from families.f07_bin import spec
from rle.paths import assets_dir
from rle.sim import model as lookup

_BOX, _CYLINDER = mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CYLINDER
_DRAWN, _SOLID, _NEST = 1, 3, 4
_GREEN, _STEEL, _BELT = (0.10, 0.42, 0.20, 1.0), (0.62, 0.64, 0.67, 1.0), (0.13, 0.13, 0.14, 1.0)
_FRAME, _TOOL, _HEAD = (0.45, 0.47, 0.50, 1.0), (0.25, 0.25, 0.27, 1.0), (0.75, 0.35, 0.10, 1.0)
_OVERVIEW_POS_M, _OVERVIEW_AIM_M = (1.45, -0.75, 0.95), (0.42, 0.06, 0.22)
BIN_GEOMS = ("bin_block", "bin_wall_-x", "bin_wall_+x", "bin_wall_-y", "bin_wall_+y")
JOINTS = tuple(f"joint{i + 1}" for i in range(spec.N_JOINTS))


@dataclass(frozen=True)
class Lights:
    """Light and floor of one pile. Diffuse and ambient are grey levels in [0, 1]."""

    key_pos_m: tuple[float, float, float] = (0.47, -1.5, 1.8)
    key_diffuse: float = 0.7
    fill_diffuse: float = 0.3
    ambient: float = 0.4
    floor_grey: float = 0.3


@dataclass(frozen=True)
class Cell:
    """A compiled model and where its named things are. Part arrays are in part order."""

    model: mujoco.MjModel
    n_parts: int
    part_bodies: np.ndarray
    """Body id of each part. Shape (n,), int."""
    part_qpos: np.ndarray
    """First qpos index of each part: position, quat_wxyz. Shape (n,), int."""
    part_qvel: np.ndarray
    """First qvel index of each part: linear in the world, angular in the part. Shape (n,), int."""
    part_of_geom: np.ndarray
    """Part index of each geom, -1 for none. Shape (ngeom,), int."""
    holds: np.ndarray
    """Weld id of each part; empty without the arm."""
    tool_body: int
    """Body id of the tool; -1 without the arm."""

    @functools.cached_property
    def ft_force(self) -> slice:
        """Force sensor in sensordata: tool on flange, N, `ft` frame."""
        return lookup.sensor_slice(self.model, "ft_force")

    @functools.cached_property
    def ft_torque(self) -> slice:
        """Torque sensor in sensordata: tool on flange, N m, `ft` frame."""
        return lookup.sensor_slice(self.model, "ft_torque")


def build(n_parts: int, lights: Lights | None = None, *, arm: bool = True) -> Cell:
    """Builds the cell with `n_parts` parts at the origin and all welds off.

    Args:
        n_parts: Parts; 0 is the cell that agents get.
        lights: Light of the pile; None is a fixed one.
        arm: False leaves out arm and tool, for settling a pile.
    """
    cell = _cell_spec(n_parts, lights or Lights(), arm)
    model = cell.compile()
    names = part_names(n_parts)
    bodies = lookup.ids(model, mujoco.mjtObj.mjOBJ_BODY, names)
    part_of_body = np.full(model.nbody, -1)
    part_of_body[bodies] = np.arange(n_parts)
    free = [f"{name}_free" for name in names]
    holds = [model.equality(f"{name}_hold").id for name in names] if arm else []
    return Cell(
        model=model,
        n_parts=n_parts,
        part_bodies=bodies,
        part_qpos=lookup.qpos_addresses(model, free) if n_parts else np.zeros(0, int),
        part_qvel=lookup.dof_addresses(model, free) if n_parts else np.zeros(0, int),
        part_of_geom=part_of_body[model.geom_bodyid],
        holds=np.array(holds, dtype=int),
        tool_body=int(model.body("tool").id) if arm else -1,
    )


@functools.cache
def model_xml() -> str:
    """The cell without parts as MJCF text: what agents compile for kinematics and gravity torques."""
    cell = _cell_spec(0, Lights(), arm=True)
    cell.compile()
    return cell.to_xml()


def part_names(n_parts: int) -> list[str]:
    """Body names of the parts, in part order."""
    return [f"part{i:02d}" for i in range(n_parts)]


def part_boxes() -> list[dict[str, list[float]]]:
    """The three boxes of a bracket in its own frame: `pos` m, `quat_wxyz`, `half` m; web first."""
    boxes = [
        {"pos": [0.0, 0.0, 0.0], "quat_wxyz": [1.0, 0.0, 0.0, 0.0], "half": [*spec.WEB_HALF_M]}
    ]
    for side in (1, -1):
        angle = math.radians(90.0) - side * spec.FLARE_RAD
        boxes.append(
            {
                "pos": [0.0, side * spec.FLANGE_Y_M, spec.FLANGE_Z_M],
                "quat_wxyz": [math.cos(angle / 2), math.sin(angle / 2), 0.0, 0.0],
                "half": [*spec.FLANGE_HALF_M],
            }
        )
    return boxes


def _cell_spec(n_parts: int, lights: Lights, arm: bool) -> mujoco.MjSpec:
    panda = assets_dir() / "robots" / "panda" / "panda.xml"
    cell = mujoco.MjSpec.from_file(str(panda)) if arm else mujoco.MjSpec()
    cell.modelname = "bin_cell"
    cell.compiler.degree = False
    cell.memory = 64 * 2**20
    option = cell.option
    option.timestep = spec.TIMESTEP_S
    option.gravity = (0.0, 0.0, -spec.GRAVITY_M_S2)
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.impratio = spec.IMPRATIO
    option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    option.iterations = spec.SOLVER_ITERATIONS
    option.tolerance = spec.SOLVER_TOLERANCE
    # A diverged state must be seen, not silently restarted.
    option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    default = cell.default.geom
    default.contype, default.conaffinity = 1, 3
    default.friction = spec.FRICTION
    _add_surroundings(cell, lights)
    _add_bin(cell)
    _add_belt(cell)
    if arm:
        _add_arm(cell)
    for name in part_names(n_parts):
        _add_part(cell, name, arm)
    return cell


def _look_at(eye_m, aim_m) -> np.ndarray:
    """quat_wxyz of a camera at `eye_m` that looks at `aim_m` with +z up."""
    backward = np.array(eye_m) - np.array(aim_m)
    backward /= np.linalg.norm(backward)
    right = np.cross((0.0, 0.0, 1.0), backward)
    right /= np.linalg.norm(right)
    frame, quat = np.stack((right, np.cross(backward, right), backward), axis=1), np.zeros(4)
    mujoco.mju_mat2Quat(quat, frame.ravel())
    return quat


def _drawn(cell: mujoco.MjSpec, name: str, kind, size, pos, rgba) -> None:
    """Adds a geom of the world that is only drawn."""
    cell.worldbody.add_geom(
        name=name, type=kind, size=size, pos=pos, rgba=rgba, contype=0, conaffinity=0, group=_DRAWN
    )


def _solid(cell: mujoco.MjSpec, name: str, half, pos) -> None:
    """Adds a colliding box of the world that is not drawn."""
    cell.worldbody.add_geom(name=name, type=_BOX, size=half, pos=pos, group=_SOLID)


def _add_surroundings(cell: mujoco.MjSpec, lights: Lights) -> None:
    visual = cell.visual
    visual.headlight.ambient = [lights.ambient] * 3
    visual.headlight.diffuse = visual.headlight.specular = [0.0] * 3
    visual.quality.offsamples = 0
    visual.global_.offwidth, visual.global_.offheight = spec.OVERHEAD_WH_PX
    visual.map.znear, visual.map.zfar = 0.01, 10.0
    cell.stat.extent, cell.stat.center = 1.0, (0.4, 0.0, 0.2)
    aim = np.array(spec.BIN_CENTRE_M) - np.array(lights.key_pos_m)
    cell.worldbody.add_light(
        name="key", type=mujoco.mjtLightType.mjLIGHT_POINT, pos=lights.key_pos_m,
        dir=aim / np.linalg.norm(aim), diffuse=[lights.key_diffuse] * 3, castshadow=False,
    )  # fmt: skip
    cell.worldbody.add_light(
        name="fill", type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, pos=(0, 0, 3), dir=(0, 0, -1),
        diffuse=[lights.fill_diffuse] * 3, specular=(0, 0, 0), castshadow=False,
    )  # fmt: skip
    cell.worldbody.add_geom(
        name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=(3, 3, 0.1), group=_DRAWN,
        rgba=(*[lights.floor_grey] * 3, 1.0),
    )  # fmt: skip
    x, y, z = spec.OVERHEAD_POS_M
    cell.worldbody.add_camera(name="overhead", pos=(x, y, z), fovy=spec.OVERHEAD_VFOV_DEG)
    # Seen from beyond the far corner, so that arm, bin and belt are all in the picture.
    cell.worldbody.add_camera(
        name="overview", pos=_OVERVIEW_POS_M, fovy=45.0,
        quat=_look_at(_OVERVIEW_POS_M, _OVERVIEW_AIM_M),
    )  # fmt: skip
    low, high = np.array(spec.ZONE_LO_M), np.array(spec.ZONE_HI_M)
    cell.worldbody.add_site(
        name="zone", type=_BOX, pos=(low + high) / 2, size=(high - low) / 2, group=_NEST,
        rgba=(0.9, 0.6, 0.0, 0.2),
    )  # fmt: skip


def _add_bin(cell: mujoco.MjSpec) -> None:
    x, y, bottom = spec.BIN_CENTRE_M
    hx, hy = spec.BIN_INTERIOR_M[0] / 2, spec.BIN_INTERIOR_M[1] / 2
    inside_z, top = spec.BIN_LO_M[2], spec.BIN_TOP_Z_M
    drawn, thick = spec.BIN_WALL_M, spec.BIN_WALL_COLLISION_M
    # One solid block down to the floor: a part pressed into the soft contact of a thin plate passes
    # its mid-plane and stays stuck below.
    _solid(cell, "bin_block", (hx + drawn, hy + drawn, inside_z / 2), (x, y, inside_z / 2))
    _drawn(cell, "stand", _BOX, (hx, hy, bottom / 2), (x, y, bottom / 2), _FRAME)
    plate = (bottom + inside_z) / 2
    _drawn(cell, "bin_bottom", _BOX, (hx + drawn, hy + drawn, drawn / 2), (x, y, plate), _GREEN)
    half_z, mid_z = (top - bottom) / 2, (top + bottom) / 2
    for axis, sign in ((0, -1), (0, 1), (1, -1), (1, 1)):
        name = f"{'-+'[sign > 0]}{'xy'[axis]}"
        for add, thickness in ((_solid, thick), (_drawn, drawn)):
            reach = (hx, hy)[axis] + thickness / 2
            centre = (x + sign * reach, y, mid_z) if axis == 0 else (x, y + sign * reach, mid_z)
            across = (hy, hx)[axis] + thickness
            half = (thickness / 2, across, half_z) if axis == 0 else (across, thickness / 2, half_z)
            if add is _solid:
                _solid(cell, f"bin_wall_{name}", half, centre)
            else:
                _drawn(cell, f"bin_side_{name}", _BOX, half, centre, _GREEN)


def _add_belt(cell: mujoco.MjSpec) -> None:
    x, y, _ = spec.BELT_CENTRE_M
    cell.worldbody.add_geom(
        name="belt", type=_BOX, size=spec.BELT_HALF_M, pos=spec.BELT_CENTRE_M, group=_DRAWN,
        friction=spec.BELT_FRICTION, rgba=_BELT,
    )  # fmt: skip
    for side, sign in (("-y", -1), ("+y", 1)):
        cell.worldbody.add_geom(
            name=f"rail_{side}", type=_BOX, size=spec.RAIL_HALF_M, group=_DRAWN, rgba=_FRAME,
            pos=(x, y + sign * spec.RAIL_OFFSET_Y_M, spec.RAIL_TOP_Z_M - spec.RAIL_HALF_M[2]),
        )  # fmt: skip


def _add_arm(cell: mujoco.MjSpec) -> None:
    x, y, z = spec.ARM_BASE_POS_M
    _drawn(cell, "pedestal", _CYLINDER, (spec.PEDESTAL_RADIUS_M, z / 2, 0), (x, y, z / 2), _FRAME)
    base = cell.body("link0")
    base.pos = spec.ARM_BASE_POS_M
    for geom in base.find_all("geom"):
        geom.friction = spec.FRICTION
    flange = cell.site("flange")
    tool = cell.body("link7").add_body(name="tool", pos=flange.pos, quat=flange.quat)
    for name, radius, (low, high), mass, rgba in (
        ("collar", spec.COLLAR_RADIUS_M, spec.COLLAR_Z_M, spec.COLLAR_KG, _TOOL),
        ("shaft", spec.SHAFT_RADIUS_M, spec.SHAFT_Z_M, spec.SHAFT_KG, _TOOL),
        ("head", spec.HEAD_RADIUS_M, spec.HEAD_Z_M, spec.HEAD_KG, _HEAD),
    ):
        gap = spec.MAG_GAP_M if name == "head" else 0.0
        tool.add_geom(
            name=name, type=_CYLINDER, size=(radius, (high - low) / 2, 0), mass=mass, rgba=rgba,
            pos=(0, 0, (low + high) / 2), contype=2, conaffinity=0, margin=gap, gap=gap,
        )  # fmt: skip
    tool.add_site(name="ft", size=(0.005, 0, 0), group=_NEST)
    tool.add_site(name="grip", pos=(0, 0, spec.HEAD_Z_M[1]), size=(0.005, 0, 0), group=_NEST)
    tool.add_camera(
        name="wrist", pos=spec.WRIST_POS_M, quat=spec.WRIST_QUAT_WXYZ, fovy=spec.WRIST_VFOV_DEG
    )
    for name, kind in (
        ("ft_force", mujoco.mjtSensor.mjSENS_FORCE),
        ("ft_torque", mujoco.mjtSensor.mjSENS_TORQUE),
    ):
        cell.add_sensor(name=name, type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname="ft")


def _add_part(cell: mujoco.MjSpec, name: str, arm: bool) -> None:
    body = cell.worldbody.add_body(name=name)
    body.add_freejoint(name=f"{name}_free")
    for box, label in zip(part_boxes(), ("web", "flange_+y", "flange_-y"), strict=True):
        body.add_geom(
            name=f"{name}_{label}", type=_BOX, size=box["half"], pos=box["pos"], rgba=_STEEL,
            quat=box["quat_wxyz"], density=spec.STEEL_KG_M3, group=_DRAWN,
        )  # fmt: skip
    if arm:
        # data: anchor 0, relative pose written at the grab, torque scale 1.
        cell.add_equality(
            name=f"{name}_hold", type=mujoco.mjtEq.mjEQ_WELD, name1="tool", name2=name,
            objtype=mujoco.mjtObj.mjOBJ_BODY, active=False, data=[0] * 6 + [1, 0, 0, 0, 1],
        )  # fmt: skip
