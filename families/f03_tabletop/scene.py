"""Builds the scenes of tower, cantilever and balance, and what all five scenes share. No numbers of its own."""

import math
from dataclasses import dataclass, field

import mujoco
import numpy as np

from families.f03_tabletop import spec as s
from families.f03_tabletop.instances import (
    BalanceInstance,
    CantileverInstance,
    Pose2,
    TowerInstance,
)
from rle.sim.robosuite_robot import RobosuiteRobot, RobotConfig

GEOM = mujoco.mjtGeom
TABLE = "table"
MAT = "mat"


@dataclass
class Scene:
    """A compiled scene with its robots."""

    model: mujoco.MjModel
    data: mujoco.MjData
    robots: list[RobosuiteRobot]
    pieces: tuple[str, ...] = ()
    """Bodies that are measured, in the task's order."""
    starts: dict[str, np.ndarray] = field(default_factory=dict)
    """Start position and quaternion wxyz of each free body. Shape (7,)."""


def new_spec() -> mujoco.MjSpec:
    """Empty scene with the family's options, a floor and a light."""
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    option = spec.option
    option.timestep = s.TIMESTEP_S
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    option.iterations = s.SOLVER_ITERATIONS
    option.ls_iterations = s.LINE_SEARCH_ITERATIONS
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.impratio = s.IMPRATIO
    spec.visual.headlight.ambient = (0.20, 0.20, 0.20)
    spec.visual.headlight.diffuse = (0.25, 0.25, 0.25)
    spec.visual.global_.offwidth = s.IMAGE_PX
    spec.visual.global_.offheight = s.IMAGE_PX
    world = spec.worldbody
    world.add_light(name="lamp", pos=(0.0, 0.0, 3.0), dir=(0.0, 0.0, -1.0), diffuse=(0.3, 0.3, 0.3))
    world.add_light(
        name="side_lamp", pos=(-2.0, -2.0, 2.5), dir=(1.0, 1.0, -1.0), diffuse=(0.2, 0.2, 0.2)
    )
    world.add_geom(
        name="floor", type=GEOM.mjGEOM_PLANE, size=(3.0, 3.0, 0.1), rgba=(0.75, 0.75, 0.72, 1.0)
    )
    return spec


def add_table(spec: mujoco.MjSpec, table: s.Table) -> None:
    """A box whose top is at `top_z_m`, with MuJoCo's default contact: on a top as hard as the pieces,
    stacked pieces chatter at g x timestep = 0.02 m/s and never come to rest (measured)."""
    x, y = table.centre_m
    spec.worldbody.add_geom(
        name=TABLE, type=GEOM.mjGEOM_BOX, size=table.half_m,
        pos=(x, y, table.top_z_m - table.half_m[2]), friction=table.friction,
        rgba=(0.86, 0.80, 0.70, 1.0),
    )  # fmt: skip


def add_free_body(
    spec: mujoco.MjSpec, name: str, position_m: tuple[float, float, float], yaw_rad: float = 0.0
) -> mujoco.MjsBody:
    """A body on a free joint."""
    quat = (math.cos(yaw_rad / 2), 0.0, 0.0, math.sin(yaw_rad / 2))
    body = spec.worldbody.add_body(name=name, pos=position_m, quat=quat)
    joint = body.add_freejoint(name=f"{name}_joint")
    joint.damping = [s.FREE_JOINT_DAMPING, 0.0, 0.0]
    return body


def primitive(**more) -> dict:
    """Contact fields of the pieces, for `add_geom`."""
    contact = s.PRIMITIVE_CONTACT
    base = {"solref": contact.solref, "solimp": contact.solimp, "condim": contact.condim}
    return {**base, "density": s.DENSITY_KG_M3, **more}


def add_camera(
    body: mujoco.MjsBody, name: str, position_m, rotation: np.ndarray, fovy_deg: float
) -> None:
    """A camera by position and rotation columns (right, up, back). `fovy` is degrees in MuJoCo."""
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(rotation).reshape(-1))
    body.add_camera(name=name, pos=position_m, quat=quat, fovy=fovy_deg)


def finish_scene(
    spec: mujoco.MjSpec, robots: list[RobosuiteRobot], pieces: tuple[str, ...]
) -> Scene:
    """Compiles, binds the robots, and remembers the start poses of the free bodies."""
    model = spec.compile()
    data: mujoco.MjData | None = None
    for robot in robots:
        data = robot.bind(model, data)
    assert data is not None
    starts = {
        name: model.qpos0[model.joint(f"{name}_joint").qposadr[0] :][:7].copy() for name in pieces
    }
    return Scene(model=model, data=data, robots=robots, pieces=pieces, starts=starts)


def mobile_robot(spec: mujoco.MjSpec) -> RobosuiteRobot:
    """The mobile Panda with its two side cameras."""
    robot = RobosuiteRobot(
        RobotConfig(
            kind="PandaOmron",
            index=0,
            base_pos_m=s.ROBOT_BASE_M,
            hz=round(s.CONTROL_HZ),
            torso_m=s.TORSO_START_M,
            elbow_most_rad=s.ELBOW_MOST_RAD,
        )  # fmt: skip
    )
    robot.attach(spec)
    support = spec.body("mobilebase0_support")
    x, y, z = s.SIDE_CAMERA_XYZ_M
    support.add_camera(name="left", pos=(x, y, z), quat=s.LEFT_CAMERA_WXYZ, fovy=s.SIDE_FOVY_DEG)
    support.add_camera(name="right", pos=(x, -y, z), quat=s.RIGHT_CAMERA_WXYZ, fovy=s.SIDE_FOVY_DEG)
    return robot


def _tabletop() -> tuple[mujoco.MjSpec, RobosuiteRobot]:
    spec = new_spec()
    add_table(spec, s.TABLE)
    return spec, mobile_robot(spec)


# ------------------------------------------------------------------------------------------- tower


def wedge_vertices(long_m: float, short_m: float, depth_m: float) -> np.ndarray:
    """Corners of a right prism lying on its largest face, about its centroid. Shape (6, 3), m.

    x runs along the hypotenuse, y along the depth, z up; the long leg starts at -x.
    """
    hypotenuse = math.hypot(long_m, short_m)
    triangle = np.array(
        [(0.0, 0.0), (hypotenuse, 0.0), (long_m**2 / hypotenuse, long_m * short_m / hypotenuse)]
    )
    triangle -= triangle.mean(axis=0)
    return np.array([(x, y, z) for y in (-depth_m / 2, depth_m / 2) for x, z in triangle])


def add_piece(spec: mujoco.MjSpec, piece: s.Piece, scale: float, pose: Pose2) -> None:
    """One tower piece at rest on the table."""
    size = tuple(scale * v for v in piece.size_m)
    z = s.TABLE.top_z_m + scale * piece.rest_z_m
    body = add_free_body(spec, piece.name, (pose.x_m, pose.y_m, z), pose.yaw_rad)
    fields = primitive(
        name=f"{piece.name}_geom", friction=s.TOWER_FRICTION, rgba=piece.rgba,
        density=piece.density_kg_m3,
    )  # fmt: skip
    if piece.shape in ("sphere", "capsule"):
        sliding, torsional, _ = s.TOWER_FRICTION
        fields |= {
            "friction": (sliding, torsional, s.ROLLING_FRICTION),
            "condim": s.ROLLING_CONDIM,
        }
    if piece.shape in ("cylinder", "wedge"):
        contact = s.CONVEX_CONTACT
        fields |= {
            "solref": contact.solref, "solimp": contact.solimp, "condim": contact.condim,
            "solmix": s.CONVEX_SOLMIX, "gap": s.CONVEX_GAP_M,
        }  # fmt: skip
    match piece.shape:
        case "box":
            body.add_geom(type=GEOM.mjGEOM_BOX, size=size, **fields)
        case "cylinder":
            body.add_geom(type=GEOM.mjGEOM_CYLINDER, size=(*size, 0.0), **fields)
        case "sphere":
            body.add_geom(type=GEOM.mjGEOM_SPHERE, size=(size[0], 0.0, 0.0), **fields)
        case "capsule":
            radius, half = size
            body.add_geom(
                type=GEOM.mjGEOM_CAPSULE, size=(radius, 0.0, 0.0),
                fromto=(-half, 0.0, 0.0, half, 0.0, 0.0), **fields,
            )  # fmt: skip
        case "wedge":
            mesh = spec.add_mesh(name=f"{piece.name}_mesh")
            mesh.uservert = wedge_vertices(*size).reshape(-1)
            body.add_geom(type=GEOM.mjGEOM_MESH, meshname=mesh.name, **fields)


def build_tower(instance: TowerInstance) -> Scene:
    """The twelve drawn pieces on the table, with the mobile robot.

    Without MuJoCo 3.9's own convex collider: it found a rod that stood on a plate 39 mm deep for one step, and the
    tower flew apart (measured); its older one does not.
    """
    spec, robot = _tabletop()
    spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_NATIVECCD)
    for piece, scale, pose in zip(s.PIECES, instance.scales, instance.poses, strict=True):
        add_piece(spec, piece, scale, pose)
    return finish_scene(spec, [robot], s.PIECE_NAMES)


# -------------------------------------------------------------------------------------- cantilever


def build_cantilever(instance: CantileverInstance) -> Scene:
    """Four blocks on the table, with the mobile robot."""
    spec, robot = _tabletop()
    names = tuple(f"block_{i}" for i in range(s.BLOCKS))
    for name, pose in zip(names, instance.poses, strict=True):
        z = s.TABLE.top_z_m + s.BLOCK_HALF_M[2]
        body = add_free_body(spec, name, (pose.x_m, pose.y_m, z), pose.yaw_rad)
        body.add_geom(
            type=GEOM.mjGEOM_BOX, size=s.BLOCK_HALF_M,
            **primitive(name=f"{name}_geom", friction=s.BLOCK_FRICTION, rgba=s.BLOCK_RGBA),
        )  # fmt: skip
    return finish_scene(spec, [robot], names)


# ----------------------------------------------------------------------------------------- balance

PANS = ("pan_low", "pan_high")
"""The pan at smaller y first."""
BEAM_HINGE = "beam_hinge"
BEAM_LOCK = "beam_lock"


def add_balance(spec: mujoco.MjSpec) -> None:
    """Post, beam with its bob, and two hanging pans. Only plates and rims collide."""
    b = s.BEAM
    x, y = b.base_m
    visual = {"contype": 0, "conaffinity": 0, "rgba": (0.45, 0.47, 0.52, 1.0)}
    world = spec.worldbody
    world.add_geom(
        name="balance_disc", type=GEOM.mjGEOM_CYLINDER, **visual,
        size=(b.disc_radius_m, b.disc_thickness_m / 2, 0.0),
        pos=(x, y, s.TABLE.top_z_m + b.disc_thickness_m / 2),
    )  # fmt: skip
    world.add_geom(
        name="balance_post", type=GEOM.mjGEOM_CYLINDER, **visual,
        size=(b.post_radius_m, b.post_height_m / 2, 0.0),
        pos=(x, y, s.TABLE.top_z_m + b.post_height_m / 2),
    )  # fmt: skip
    beam = world.add_body(name="beam", pos=(x, y, s.TABLE.top_z_m + b.pivot_z_m))
    hinge = beam.add_joint(
        name=BEAM_HINGE, type=mujoco.mjtJoint.mjJNT_HINGE, axis=(1.0, 0.0, 0.0),
        range=(-b.range_rad, b.range_rad), limited=True,
    )  # fmt: skip
    hinge.damping = [b.damping, 0.0, 0.0]
    beam.add_geom(
        name="beam_bar", type=GEOM.mjGEOM_BOX, size=b.beam_half_m, density=s.DENSITY_KG_M3, **visual
    )
    beam.add_geom(
        name="beam_bob", type=GEOM.mjGEOM_SPHERE, size=(b.bob_radius_m, 0.0, 0.0),
        pos=(0.0, 0.0, -b.bob_drop_m), density=b.bob_density_kg_m3, **visual,
    )  # fmt: skip
    for name, side in zip(PANS, (-1.0, 1.0), strict=True):
        _add_pan(beam, name, side * b.beam_half_m[1])
    lock = spec.add_equality(
        name=BEAM_LOCK, type=mujoco.mjtEq.mjEQ_JOINT, name1=BEAM_HINGE, active=True
    )
    lock.objtype = mujoco.mjtObj.mjOBJ_JOINT
    lock.data = np.zeros(11)


def _add_pan(beam: mujoco.MjsBody, name: str, y_m: float) -> None:
    b = s.BEAM
    pan = beam.add_body(name=name, pos=(0.0, y_m, 0.0))
    hinge = pan.add_joint(
        name=f"{name}_hinge", type=mujoco.mjtJoint.mjJNT_HINGE, axis=(1.0, 0.0, 0.0)
    )
    hinge.damping = [b.pan_damping, 0.0, 0.0]
    friction = (b.plate_friction, *s.CUBE_FRICTION_REST)
    rgba = (0.80, 0.72, 0.35, 1.0)
    pan.add_geom(
        type=GEOM.mjGEOM_CYLINDER, size=(b.plate_radius_m, b.plate_thickness_m / 2, 0.0),
        pos=(0.0, 0.0, -b.pan_drop_m),
        **primitive(
            name=f"{name}_plate", friction=friction, density=b.plate_density_kg_m3, rgba=rgba
        ),
    )  # fmt: skip
    top = -b.pan_drop_m + b.plate_thickness_m / 2
    half_width = b.plate_radius_m * math.tan(math.pi / b.rim_boxes)
    for i in range(b.rim_boxes):
        angle = 2 * math.pi * i / b.rim_boxes
        pan.add_geom(
            type=GEOM.mjGEOM_BOX, size=(b.rim_thickness_m, half_width, b.rim_height_m / 2),
            pos=(
                b.plate_radius_m * math.cos(angle), b.plate_radius_m * math.sin(angle),
                top + b.rim_height_m / 2,
            ),
            quat=(math.cos(angle / 2), 0.0, 0.0, math.sin(angle / 2)),
            **primitive(name=f"{name}_rim_{i}", friction=friction, rgba=rgba, mass=0.0),
        )  # fmt: skip
    for side in (-1.0, 1.0):
        pan.add_geom(
            name=f"{name}_wire_{'low' if side < 0 else 'high'}", type=GEOM.mjGEOM_CAPSULE,
            size=(0.002, 0.0, 0.0), contype=0, conaffinity=0, mass=0.0,
            fromto=(0.0, 0.0, 0.0, 0.0, side * b.plate_radius_m, -b.pan_drop_m),
            rgba=(0.45, 0.47, 0.52, 1.0),
        )  # fmt: skip


def build_balance(instance: BalanceInstance) -> Scene:
    """Nine cubes, the mat and the beam balance, with the mobile robot."""
    spec, robot = _tabletop()
    mat = s.MAT
    spec.worldbody.add_geom(
        name=MAT, type=GEOM.mjGEOM_BOX, size=mat.half_m, rgba=mat.rgba,
        pos=(*mat.centre_m, s.TABLE.top_z_m + mat.half_m[2]), friction=s.TABLE.friction,
    )  # fmt: skip
    add_balance(spec)
    names = tuple(f"cube_{i}" for i in range(s.CUBES))
    for i, (name, pose) in enumerate(zip(names, instance.poses, strict=True)):
        z = s.TABLE.top_z_m + s.CUBE_HALF_M
        body = add_free_body(spec, name, (pose.x_m, pose.y_m, z), pose.yaw_rad)
        mass = s.CUBE_MASS_KG * (s.HEAVY_FACTOR if i == instance.heavy else 1.0)
        fields = primitive(
            name=f"{name}_geom", rgba=s.CUBE_RGBA, mass=mass,
            friction=(instance.frictions[i], *s.CUBE_FRICTION_REST),
        )  # fmt: skip
        body.add_geom(type=GEOM.mjGEOM_BOX, size=(s.CUBE_HALF_M,) * 3, **fields)
    return finish_scene(spec, [robot], names)
