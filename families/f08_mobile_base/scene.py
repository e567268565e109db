"""Composes the robot from a record and the trusted parts. No numbers of its own.

The submission contributes a `Record` and nothing else: wheels, battery, adapter, arm, masses,
gains, contact masks and solver options are built here from `spec.py` and `assets/robots`.
"""

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from families.f08_mobile_base import spec
from rle.paths import assets_dir
from rle.sim.model import all_names, dof_addresses, ids, qpos_addresses

if TYPE_CHECKING:
    from families.f08_mobile_base.chassis import Chassis, Record

_GEOM = mujoco.mjtGeom
_COLOURS = {
    "profile": (0.72, 0.74, 0.77, 1.0), "battery": (0.16, 0.29, 0.45, 1.0),
    "adapter": (0.35, 0.35, 0.38, 1.0), "hub": (0.20, 0.20, 0.22, 1.0),
    "roller": (0.10, 0.10, 0.11, 1.0), "payload": (0.84, 0.37, 0.0, 1.0),
    "floor": (0.88, 0.89, 0.91, 1.0), "obstacle": (0.55, 0.50, 0.42, 1.0),
    "shelf": (0.80, 0.72, 0.58, 0.45),
}  # fmt: skip


@dataclass(frozen=True)
class Terrain:
    """What the robot stands on."""

    gravity_tilt_rad: float = 0.0
    """Gravity leans by this about y, so that the robot seems to drive uphill for a positive value."""
    ramp_rad: float = 0.0
    """The floor climbs along +x by this."""
    curb: bool = False
    bumps: tuple[tuple[float, float], ...] = ()
    """(x in m, yaw in rad) of every capsule."""
    shelf: bool = False

    @property
    def normal(self) -> np.ndarray:
        """Unit normal of the floor in the world frame."""
        return np.array([-math.sin(self.ramp_rad), 0.0, math.cos(self.ramp_rad)])

    @property
    def gravity(self) -> np.ndarray:
        """Gravity vector, m/s2."""
        a = self.gravity_tilt_rad
        return spec.GRAVITY_M_S2 * np.array([-math.sin(a), 0.0, -math.cos(a)])

    @property
    def rotation(self) -> np.ndarray:
        """World from terrain frame (z along the normal, x uphill), shape (3, 3)."""
        c, s = math.cos(self.ramp_rad), math.sin(self.ramp_rad)
        return np.array([[c, 0.0, -s], [0.0, 1.0, 0.0], [s, 0.0, c]])


FLAT = Terrain()


@dataclass(frozen=True)
class Robot:
    """A composed model with named handles; all index arrays are int."""

    model: mujoco.MjModel
    xml: str
    """The model as text, for a controller."""
    arm: spec.Arm
    terrain: Terrain
    payload_kg: float
    base: int
    """Body id of `base`; its subtree is the whole robot."""
    arm_qpos: np.ndarray
    arm_qvel: np.ndarray
    arm_ctrl: np.ndarray
    wheel_ctrl: np.ndarray
    ee: int
    """Site id of the tool."""
    wheel_pos_m: np.ndarray
    """Wheel centres in the base frame, shape (4, 3)."""
    wheel_of_geom: np.ndarray
    """Index of the wheel a roller belongs to, -1 for other geoms. Shape (ngeom,)."""
    is_world: np.ndarray
    """True for geoms of the surroundings. Shape (ngeom,)."""
    is_shelf: np.ndarray
    """True for geoms of the shelf. Shape (ngeom,)."""

    def stowed(self, position_m: np.ndarray | None = None) -> mujoco.MjData:
        """State at rest with the arm stowed and its servos set to that pose.

        Args:
            position_m: Base origin in the terrain frame; default: start height over the origin.
        """
        data = mujoco.MjData(self.model)
        start = (0.0, 0.0, spec.START_HEIGHT_M) if position_m is None else position_m
        turn = self.terrain.rotation
        data.qpos[:3] = turn @ np.asarray(start, dtype=float)
        mujoco.mju_mat2Quat(data.qpos[3:7], turn.ravel())
        data.qpos[self.arm_qpos] = self.arm.stow_rad
        data.ctrl[self.arm_ctrl] = self.arm.stow_rad
        mujoco.mj_forward(self.model, data)
        return data

    def wheel_speeds(self, twist: np.ndarray) -> np.ndarray:
        """Wheel speeds in rad/s for base twists (vx, vy, yaw rate): shape (..., 4) for (..., 3).

        (vx - s vy - (y + s x) w) / r, with s the handedness of the wheel at (x, y).
        """
        sign = np.array([spec.WHEEL_SIGN[w] for w in spec.WHEELS])
        x, y = self.wheel_pos_m[:, 0], self.wheel_pos_m[:, 1]
        vx, vy, rate = np.moveaxis(np.asarray(twist, dtype=float)[..., None], -2, 0)
        return (vx - sign * vy - (y + sign * x) * rate) / spec.WHEEL_RADIUS_M


def rotation(quat_wxyz: np.ndarray) -> np.ndarray:
    """Rotation matrix of a quaternion, shape (3, 3)."""
    flat = np.empty(9)
    mujoco.mju_quat2Mat(flat, np.asarray(quat_wxyz, dtype=float))
    return flat.reshape(3, 3)


def find_arm(name: str) -> spec.Arm:
    """The canonical arm of that name."""
    return spec.ARMS[spec.ARM_NAMES.index(name)]


@functools.cache
def _arm_text(name: str) -> str:
    return (assets_dir() / "robots" / name / f"{name}.xml").read_text()


def compose(
    design: "Chassis",
    arm: spec.Arm,
    payload_kg: float = 0.0,
    terrain: Terrain = FLAT,
) -> Robot:
    """Builds one robot on its terrain.

    Args:
        design: The submission; boxes that are no catalogue member are left out.
        arm: Canonical arm on `arm_mount_site`.
        payload_kg: Mass of the sphere at the tool; 0 for none.
        terrain: Floor, obstacles and gravity.

    Raises:
        ValueError: MuJoCo refuses the composition; its words name the element.
    """
    world = mujoco.MjSpec()
    world.modelname = f"f08-{arm.name}"
    world.compiler.degree = False
    option = world.option
    option.timestep, option.impratio = spec.TIMESTEP_S, spec.IMPRATIO
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.iterations = spec.SOLVER_ITERATIONS
    disabled = mujoco.mjtDisableBit
    # The robot is one kinematic tree, hence one island: finding it costs a sixth of a step.
    option.disableflags |= disabled.mjDSBL_AUTORESET | disabled.mjDSBL_ISLAND
    option.gravity = terrain.gravity
    world.worldbody.add_light(name="sun", pos=(0.5, -1.5, 4.0), dir=(0, 0.35, -1), type=1)
    _add_terrain(world, terrain)
    base = _add_chassis(world, design)
    _add_arm(world, base, design.record, arm, payload_kg)
    return _handles(world, design.record, arm, terrain, payload_kg)


def _solid(body, name: str, kind, size, mask, colour: str, **fields):
    """Adds a geom with our contact numbers."""
    return body.add_geom(
        name=name, type=kind, size=np.resize(np.append(size, (0.0, 0.0)), 3),
        contype=mask[0], conaffinity=mask[1], condim=spec.CONTACT_DIM,
        rgba=_COLOURS[colour], **fields,
    )  # fmt: skip


def _add_terrain(world: mujoco.MjSpec, terrain: Terrain) -> None:
    surface = {"friction": spec.TERRAIN_FRICTION, "priority": spec.TERRAIN_PRIORITY}
    body, mask = world.worldbody, spec.MASK_TERRAIN
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, terrain.rotation.ravel())
    _solid(body, "floor", _GEOM.mjGEOM_PLANE, (0, 0, 0.5), mask, "floor", quat=quat, **surface)
    if terrain.curb:
        half = 0.5 * np.array(spec.CURB_SIZE_M)
        pos = (spec.CURB_X_M, 0.0, half[2])
        _solid(body, "curb", _GEOM.mjGEOM_BOX, half, mask, "obstacle", pos=pos, **surface)
    for k, (x, yaw) in enumerate(terrain.bumps):
        half_y = 0.5 * spec.CURB_SIZE_M[1]
        across = np.array([-math.sin(yaw), math.cos(yaw), 0.0]) * half_y
        middle = np.array([x, 0.0, spec.BUMP_PROUD_M - spec.BUMP_RADIUS_M])
        _solid(
            body, f"bump_{k}", _GEOM.mjGEOM_CAPSULE, (spec.BUMP_RADIUS_M,), mask, "obstacle",
            fromto=np.concatenate([middle - across, middle + across]), **surface,
        )  # fmt: skip
    if terrain.shelf:
        for name, lower, upper in shelf_boxes():
            lo, hi = np.array(lower), np.array(upper)
            _solid(
                body, f"shelf_{name}", _GEOM.mjGEOM_BOX, 0.5 * (hi - lo), mask, "shelf",
                pos=0.5 * (lo + hi), **surface,
            )  # fmt: skip


def shelf_boxes() -> list[tuple[str, tuple[float, ...], tuple[float, ...]]]:
    """(name, lower corner, upper corner) of every box of the shelf, m."""
    front, back = spec.SHELF_FACE_X_M, spec.SHELF_FACE_X_M + spec.SHELF_DEPTH_M
    half, panel, top = 0.5 * spec.SHELF_WIDTH_M, spec.SHELF_PANEL_M, spec.SHELF_TOP_Z_M
    plinth, *floors = spec.SHELF_FLOOR_TOPS_Z_M
    boxes = [("plinth", (front, -half, 0.0), (back, half, plinth))]
    for name, z in (*zip(("mid", "high"), floors, strict=True), ("top", top)):
        boxes.append((name, (front, -half, z - panel), (back, half, z)))
    boxes.append(("left", (front, half - panel, plinth), (back, half, top)))
    boxes.append(("right", (front, -half, plinth), (back, -half + panel, top)))
    boxes.append(("back", (back - panel, -half, plinth), (back, half, top)))
    return boxes


def shelf_text() -> str:
    """The shelf and the floor alone, as MJCF."""
    world = mujoco.MjSpec()
    world.modelname = "f08-shelf"
    _add_terrain(world, Terrain(shelf=True))
    world.compile()
    return world.to_xml()


def _add_chassis(world: mujoco.MjSpec, design: "Chassis"):
    mask, record = spec.MASK_CHASSIS, design.record
    base = world.worldbody.add_body(name=spec.BASE, pos=(0, 0, spec.START_HEIGHT_M))
    base.add_freejoint(name=spec.FREE_JOINT)
    for member in design.members:
        _solid(
            base, f"profile_{member.index}", _GEOM.mjGEOM_BOX, member.half_m, mask, "profile",
            pos=member.pos_m, quat=member.quat_wxyz, mass=member.mass_kg,
        )  # fmt: skip
    battery = base.add_body(
        name=spec.BATTERY_BODY, pos=record.battery_pos_m, quat=record.battery_quat_wxyz
    )
    _solid(
        battery, spec.BATTERY_GEOM, _GEOM.mjGEOM_BOX, spec.BATTERY_HALF_M, mask, "battery",
        mass=spec.BATTERY_MASS_KG,
    )  # fmt: skip
    for k, wheel in enumerate(spec.WHEELS):
        _add_wheel(world, base, wheel, record.wheel_pos_m[k])
    return base


def _add_wheel(world: mujoco.MjSpec, base, wheel: str, pos_m: np.ndarray) -> None:
    hinge = mujoco.mjtJoint.mjJNT_HINGE
    hub = base.add_body(name=f"wheel_{wheel}", pos=pos_m)
    hub.add_joint(
        name=f"drive_{wheel}", type=hinge, axis=(0, 1, 0),
        armature=spec.DRIVE_ARMATURE_KG_M2, damping=spec.DRIVE_DAMPING_N_M_S,
    )  # fmt: skip
    _solid(
        hub, f"hub_{wheel}", _GEOM.mjGEOM_CYLINDER, (spec.HUB_RADIUS_M, spec.HUB_HALF_WIDTH_M),
        spec.MASK_CHASSIS, "hub", mass=spec.HUB_MASS_KG,
        quat=(math.sqrt(0.5), -math.sqrt(0.5), 0, 0),
    )  # fmt: skip
    sign = spec.WHEEL_SIGN[wheel]
    for i in range(spec.N_ROLLERS):
        angle = 2.0 * math.pi * i / spec.N_ROLLERS
        radial = np.array([math.sin(angle), 0.0, math.cos(angle)])
        axis = np.array([math.cos(angle), sign, -math.sin(angle)]) / math.sqrt(2.0)
        roller = hub.add_body(name=f"roller_{wheel}_{i}", pos=spec.ROLLER_CIRCLE_M * radial)
        roller.add_joint(
            name=f"spin_{wheel}_{i}", type=hinge, axis=axis,
            armature=spec.ROLLER_ARMATURE_KG_M2, damping=spec.ROLLER_DAMPING_N_M_S,
            frictionloss=spec.ROLLER_FRICTIONLOSS_N_M,
        )  # fmt: skip
        reach = spec.ROLLER_HALF_LENGTH_M * axis
        _solid(
            roller, f"roller_{wheel}_{i}", _GEOM.mjGEOM_CAPSULE, (spec.ROLLER_RADIUS_M,),
            spec.MASK_ROLLER, "roller", mass=spec.ROLLER_MASS_KG,
            fromto=np.concatenate([-reach, reach]),
        )  # fmt: skip
    motor = world.add_actuator(
        name=f"motor_{wheel}", target=f"drive_{wheel}", trntype=mujoco.mjtTrn.mjTRN_JOINT
    )
    motor.gaintype, motor.biastype = mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_AFFINE
    motor.gainprm[0] = spec.MOTOR_GAIN_N_M_S
    motor.biasprm[2] = -spec.MOTOR_GAIN_N_M_S
    motor.ctrllimited, motor.ctrlrange = True, (-spec.MOTOR_CTRL_RAD_S, spec.MOTOR_CTRL_RAD_S)
    motor.forcelimited, motor.forcerange = True, (-spec.MOTOR_TORQUE_N_M, spec.MOTOR_TORQUE_N_M)


def _add_arm(
    world: mujoco.MjSpec, base, record: "Record", arm: spec.Arm, payload_kg: float
) -> None:
    half = spec.ADAPTER_HALF_M
    adapter = base.add_body(name="arm_adapter", pos=record.mount_pos_m, quat=record.mount_quat_wxyz)
    _solid(
        adapter, "arm_adapter", _GEOM.mjGEOM_BOX, half, spec.MASK_CHASSIS, "adapter",
        pos=(0, 0, half[2]), mass=spec.ADAPTER_MASS_KG,
    )  # fmt: skip
    robot = mujoco.MjSpec.from_string(_arm_text(arm.name))
    links = [robot.body(f"link{k}") for k in range(arm.n_joints + 1)]
    for depth, link in enumerate(links):
        for geom in link.geoms:
            # The arm's foot and first link stand on the adapter: they meet the shelf only.
            mask = spec.MASK_ARM if depth > 1 else (0, spec.MASK_TERRAIN[0])
            geom.contype, geom.conaffinity, geom.condim = *mask, spec.CONTACT_DIM
    tool = robot.sites[0]
    tool.name = "ee"
    axis, end = rotation(tool.quat)[:, 2], np.array(tool.pos)
    prefix = f"arm_{arm.name}_"
    frame = adapter.add_frame(pos=(0, 0, spec.ARM_LIFT_M))
    frame.attach_body(links[0], prefix, "")
    if payload_kg > 0.0:
        held = world.body(f"{prefix}link{arm.n_joints}").add_body(
            name="payload", pos=end + spec.PAYLOAD_OFFSET_M * axis
        )
        inertia = 0.4 * payload_kg * spec.PAYLOAD_RADIUS_M**2
        held.mass, held.inertia, held.explicitinertial = payload_kg, np.full(3, inertia), True
        size = (spec.PAYLOAD_RADIUS_M,)
        _solid(held, "payload", _GEOM.mjGEOM_SPHERE, size, spec.MASK_ARM, "payload", mass=0.0)


def _handles(
    world: mujoco.MjSpec, record: "Record", arm: spec.Arm, terrain: Terrain, payload_kg: float
) -> Robot:
    model = world.compile()
    joints = [f"arm_{arm.name}_joint{k + 1}" for k in range(arm.n_joints)]
    motors = [f"motor_{w}" for w in spec.WHEELS]
    actuator = mujoco.mjtObj.mjOBJ_ACTUATOR
    names = all_names(model, mujoco.mjtObj.mjOBJ_GEOM)
    wheel_of_geom = np.full(model.ngeom, -1)
    for geom, name in enumerate(names):
        if name.startswith("roller_"):
            wheel_of_geom[geom] = spec.WHEELS.index(name.split("_")[1])
    return Robot(
        model=model,
        xml=world.to_xml(),
        arm=arm,
        terrain=terrain,
        payload_kg=payload_kg,
        base=model.body(spec.BASE).id,
        arm_qpos=qpos_addresses(model, joints),
        arm_qvel=dof_addresses(model, joints),
        arm_ctrl=ids(model, actuator, joints),
        wheel_ctrl=ids(model, actuator, motors),
        ee=model.site(f"arm_{arm.name}_ee").id,
        wheel_pos_m=record.wheel_pos_m.copy(),
        wheel_of_geom=wheel_of_geom,
        is_world=model.geom_bodyid == 0,
        is_shelf=np.array([name.startswith("shelf_") for name in names]),
    )
