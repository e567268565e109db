"""The one module that imports robosuite. It gives the robot's MJCF and the arm controllers; spec, model,
data, loop, cameras and observations are ours.

Facts of robosuite 1.5.2 that this module hides: the native action order; gripper commands that step by
sign; a base velocity that is turned the wrong way after a yaw; collision geoms drawn by default; macro
warnings at import; numba code that is compiled at the first step.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import mujoco
import numpy as np

from rle.paths import compiled_code_dir
from rle.sim import guard
from rle.sim import model as lookup
from rle.sim.arm_control import (
    ArmControl,
    JointControl,
    Kernels,
    MassMatrix,
    quat_xyzw,
    rotation_vector,
)
from rle.sim.contacts import touching

# robosuite sets MUJOCO_GL to egl unless it is osmesa or glx: `rle.sim` has chosen before. Its import
# prints warnings about macro files and optional models, which concern nobody here. numba, which compiles
# its controllers, raises at import where it finds no folder to keep compiled code in.
compiled_code_dir("robosuite")
logging.disable(logging.WARNING)
from robosuite.controllers import load_composite_controller_config  # noqa: E402
from robosuite.robots import ROBOT_CLASS_MAPPING  # noqa: E402
from robosuite.utils import binding_utils, control_utils  # noqa: E402

logging.disable(logging.NOTSET)
logging.getLogger("robosuite_logs").setLevel(logging.ERROR)

Kind = Literal["PandaOmron", "Panda"]
ACTION_DIM: dict[str, int] = {"PandaOmron": 12, "Panda": 7}
"""PandaOmron: 3 position, 3 rotation, 1 gripper, 3 base, 1 torso, 1 mode. Panda: the first seven."""
ARM = slice(0, 6)
GRIPPER = 6
BASE = slice(7, 10)
TORSO = 10
MODE = 11
POSITION_SCALE_M = 0.05
ROTATION_SCALE_RAD = 0.5
"""What 1 means in an arm action. Source: robosuite's OSC_POSE default."""
ELBOW = 3
"""Index of the elbow among the arm's joints; 0 rad is the straight forearm, bending is negative."""
GRIPPER_START_M = 0.020833
"""Finger joint position after a reset. Source: robosuite's Panda gripper."""
COLLISION_GROUP = 3
"""Group that the robot's collision geoms are moved to, which MuJoCo does not draw by default."""


@dataclass(frozen=True)
class RobotConfig:
    """Which robot stands where."""

    kind: Kind
    index: int
    base_pos_m: tuple[float, float, float]
    base_quat_wxyz: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    hz: int = 20
    osc_frame: Literal["base", "world"] = "base"
    init_qpos_rad: tuple[float, ...] | None = None
    """Arm joints after a reset; None: robosuite's."""
    torso_m: float | None = None
    """Torso height after a reset; None: robosuite's."""
    elbow_most_rad: float | None = None
    """Upper stop of the elbow; None: the Panda's own, which lies beyond its dead centre."""


@dataclass(frozen=True)
class RobotHandles:
    """Names of the robot's parts in the compiled model."""

    arm_joints: tuple[str, ...]
    finger_joints: tuple[str, ...]
    base_joints: tuple[str, ...]
    """Forward, side, yaw; empty for a fixed base."""
    torso_joint: str | None
    grip_site: str
    base_site: str
    """Origin of the frame that arm actions are given in."""
    root_body: str
    pads: tuple[str, str]
    """Pad geoms of the left and the right finger."""
    wrist_camera: str
    prefixes: tuple[str, ...]
    """What all names of this robot start with."""

    @property
    def joints(self) -> tuple[str, ...]:
        """Every joint of the robot."""
        torso = (self.torso_joint,) if self.torso_joint else ()
        return (*self.base_joints, *torso, *self.arm_joints, *self.finger_joints)


class RobosuiteRobot:
    """A robot of robosuite in a scene of ours.

    Order of use: `attach` (before the spec is compiled), `bind`, `reset`, then `drive`.
    """

    def __init__(self, config: RobotConfig) -> None:
        self.config = config
        composite = load_composite_controller_config(robot=config.kind)
        composite["body_parts"]["right"]["input_ref_frame"] = config.osc_frame
        base = {} if config.kind == "PandaOmron" else {"base_type": "NullBase"}
        initial = None if config.init_qpos_rad is None else np.array(config.init_qpos_rad)
        self._robot: Any = ROBOT_CLASS_MAPPING[config.kind](
            robot_type=config.kind, idn=config.index, composite_controller_config=composite,
            control_freq=config.hz, lite_physics=True, initial_qpos=initial, **base,
        )  # fmt: skip
        self._robot.load_model()
        self._robot.robot_model.mujoco_model = None  # a compiled copy, 60 MiB, that nobody asks for
        if config.torso_m is not None:
            self._robot.init_torso_qpos = np.array([config.torso_m])
        self._is_mobile = config.kind == "PandaOmron"
        self.handles = self._name_parts()
        self._model: Any = None
        self._data: Any = None

    @property
    def action_dim(self) -> int:
        return ACTION_DIM[self.config.kind]

    def _name_parts(self) -> RobotHandles:
        model = self._robot.robot_model
        gripper = self._robot.gripper["right"]
        mobile = f"mobilebase{self.config.index}_"
        prefixes = (model.naming_prefix, gripper.naming_prefix)
        return RobotHandles(
            arm_joints=tuple(model.arm_joints),
            finger_joints=tuple(gripper.joints),
            base_joints=tuple(f"{mobile}joint_mobile_{axis}" for axis in ("forward", "side", "yaw"))
            if self._is_mobile
            else (),
            torso_joint=f"{mobile}joint_torso_height" if self._is_mobile else None,
            grip_site=gripper.important_sites["grip_site"],
            base_site=f"{mobile}center"
            if self._is_mobile
            else f"{model.naming_prefix}right_center",
            root_body=model.root_body,
            pads=(
                gripper.important_geoms["left_fingerpad"][0],
                gripper.important_geoms["right_fingerpad"][0],
            ),
            wrist_camera=f"{model.naming_prefix}eye_in_hand",
            prefixes=(*prefixes, mobile) if self._is_mobile else prefixes,
        )

    def attach(self, spec: mujoco.MjSpec) -> RobotHandles:
        """Adds the robot to a scene that is not compiled yet; returns the names of its parts."""
        child = mujoco.MjSpec.from_string(self._robot.robot_model.get_xml())
        root = child.body(self.handles.root_body)
        root.pos = np.array(self.config.base_pos_m)
        root.quat = np.array(self.config.base_quat_wxyz)
        if self.config.elbow_most_rad is not None:
            elbow = child.joint(self.handles.arm_joints[ELBOW])
            elbow.range = np.array([elbow.range[0], self.config.elbow_most_rad])
        _name_all(child, self.handles.prefixes[0])
        for geom in child.geoms:
            if geom.group == 0:
                geom.group = COLLISION_GROUP
        frame = spec.worldbody.add_frame()
        spec.attach(child, frame=frame, prefix="")
        return self.handles

    def bind(self, model: mujoco.MjModel, data: mujoco.MjData | None = None) -> mujoco.MjData:
        """Ties the controllers to a compiled model.

        Args:
            model: Compiled scene that holds this robot.
            data: Data that an earlier robot of the scene returned; None makes it.
        """
        wrapped = binding_utils.MjModel(model)
        simulation = binding_utils.MjSim.__new__(binding_utils.MjSim)
        simulation.model = wrapped
        simulation.data = binding_utils.MjData(wrapped)
        if data is not None:
            simulation.data._data = data
        simulation._render_context_offscreen = None
        self._model, self._data = model, simulation.data._data
        self._robot.reset_sim(simulation)
        self._robot.setup_references()
        self._site = int(model.site(self.handles.grip_site).id)
        self._origin = int(model.site(self.handles.base_site).id)
        self._arm_qpos = lookup.qpos_addresses(model, self.handles.arm_joints)
        self._arm_dof = lookup.dof_addresses(model, self.handles.arm_joints)
        self._finger_qpos = lookup.qpos_addresses(model, self.handles.finger_joints)
        self.bodies = frozenset(
            i for i in range(1, model.nbody) if model.body(i).name.startswith(self.handles.prefixes)
        )
        """Ids of all bodies of the robot."""
        self._body_of = model.geom_bodyid.copy()
        self._is_mine = np.isin(self._body_of, list(self.bodies))
        self._pad_of = np.zeros(model.ngeom, dtype=np.uint8)
        for pad, name in enumerate(self.handles.pads, start=1):
            self._pad_of[model.geom(name).id] = pad
        return self._data

    def reset(self) -> None:
        """Start pose, open gripper as robosuite has it, fresh controllers, no velocity. Deterministic."""
        data = self._require()
        names = [*self.handles.joints]
        data.qvel[lookup.dof_addresses(self._model, names)] = 0.0
        if self._is_mobile:
            data.qpos[lookup.qpos_addresses(self._model, self.handles.base_joints)] = 0.0
        self._robot.reset(deterministic=False, rng=np.random.default_rng(0))
        mujoco.mj_forward(self._model, data)
        self._yaw_start = self._yaw()
        indexes = self._robot._ref_actuators_indexes_dict
        ranges = self._model.actuator_ctrlrange
        self._actuators = {part: (index, *ranges[index].T) for part, index in indexes.items()}
        self._split = self._robot._action_split_indexes
        self._control = self._controllers()
        self._native = np.zeros(max(stop for _, stop in self._split.values()) + self._is_mobile)
        # A goal in the base frame: robosuite's own reset leaves a world position where the mode
        # "follow the last goal" expects one in the base frame. The call of `control` compiles numba
        # code outside of the first metered step.
        self.set_action(np.zeros(self.action_dim))
        self.control()
        data.ctrl[:] = 0.0

    def _controllers(self) -> dict[str, ArmControl | JointControl]:
        """What runs at every physics step, over robosuite's controllers of this reset."""
        data = self._require()
        parts = self._robot.composite_controller.part_controllers
        self._mass = MassMatrix(self._model, data)
        origin = self._model.site(f"{self._robot.robot_model.naming_prefix}right_center").id
        arm = ArmControl(
            self._model, data, parts["right"], site=self._site, origin=int(origin),
            mass=self._mass, kernels=_KERNELS, is_mobile=self._is_mobile,
        )  # fmt: skip
        if not self._is_mobile:
            return {"right": arm}
        return {"right": arm, "torso": JointControl(data, parts["torso"], self._mass)}

    def set_action(self, action: np.ndarray) -> None:
        """New goal of the next control step. Shape (action_dim,), public order, inside [-1, 1]."""
        native = self._native
        native[:] = 0.0
        native[slice(*self._split["right"])] = action[ARM]
        if self._is_mobile:
            native[slice(*self._split["torso"])] = action[TORSO]
            native[-1] = action[MODE]
        self._robot.composite_controller.set_goal(native)
        opening = -1.0 if action[GRIPPER] <= 0.0 else 1.0
        wanted = {"right_gripper": opening * np.array([-1.0, 1.0])}
        if self._is_mobile:
            wanted["base"] = self._base_velocity(action[BASE])
        self._set_points = []
        for part, value in wanted.items():
            index, low, high = self._actuators[part]
            scaled = 0.5 * (low + high) + 0.5 * (high - low) * value
            self._set_points.append((index, np.clip(scaled, low, high)))

    def _base_velocity(self, velocity: np.ndarray) -> np.ndarray:
        """R(yaw - yaw at reset) (v_x, v_y), v_yaw: the base joints slide along the start axes."""
        turn = self._yaw() - self._yaw_start
        cosine, sine = np.cos(turn), np.sin(turn)
        vx, vy, vyaw = velocity
        return np.array([cosine * vx - sine * vy, sine * vx + cosine * vy, vyaw])

    def control(self) -> None:
        """Writes `ctrl`; once per physics step, between `mj_step1` and `mj_step2`."""
        ctrl = self._require().ctrl
        self._mass.update()
        for part, controller in self._control.items():
            index, low, high = self._actuators[part]
            ctrl[index] = np.minimum(np.maximum(controller.torques(), low), high)
        for index, value in self._set_points:
            ctrl[index] = value

    def proprio(self) -> dict[str, np.ndarray]:
        """Joint and grip-site state; quaternions xyzw. Keys as the card lists them."""
        data = self._require()
        position, rotation = self.site_pose()
        out = {
            "joint_pos": data.qpos[self._arm_qpos].copy(),
            "joint_vel": data.qvel[self._arm_dof].copy(),
            "eef_pos": position,
            "eef_quat": quat_xyzw(rotation),
            "gripper_pos": data.qpos[self._finger_qpos].copy(),
        }
        if self._is_mobile:
            base, turn = self.base_pose()
            out["base_pos"], out["base_quat"] = base, quat_xyzw(turn)
            out["eef_base_pos"] = turn.T @ (position - base)
            out["eef_base_quat"] = quat_xyzw(turn.T @ rotation)
        return out

    def site_pose(self) -> tuple[np.ndarray, np.ndarray]:
        """Grip site in the world: position (3,) m and rotation (3, 3); z approaches, x closes."""
        data = self._require()
        return (
            data.site_xpos[self._site].copy(),
            data.site_xmat[self._site].reshape(3, 3).copy(),
        )

    def base_pose(self) -> tuple[np.ndarray, np.ndarray]:
        """Frame of the arm actions in the world: position (3,) m and rotation (3, 3)."""
        data = self._require()
        return (
            data.site_xpos[self._origin].copy(),
            data.site_xmat[self._origin].reshape(3, 3).copy(),
        )

    def held(self) -> set[int]:
        """Ids of bodies that touch both pads."""
        pairs = touching(self._require())
        pads = self._pad_of[pairs]
        if not pads.any():
            return set()
        others = self._body_of[pairs[:, ::-1]]
        left, right = (set(others[pads == pad].tolist()) for pad in (1, 2))
        return (left & right) - self.bodies - {0}

    def touched(self) -> set[int]:
        """Ids of bodies that touch any geom of the robot."""
        pairs = touching(self._require())
        mine = self._is_mine[pairs]
        one = mine[:, 0] != mine[:, 1]
        if not one.any():
            return set()
        return set(self._body_of[pairs[one]][~mine[one]].tolist())

    def _yaw(self) -> float:
        if not self._is_mobile:
            return 0.0
        _, turn = self.base_pose()
        return float(np.arctan2(turn[1, 0], turn[0, 0]))

    def _require(self) -> mujoco.MjData:
        if self._data is None:
            raise RuntimeError("the robot is not bound to a model; call bind() first")
        return self._data


def _name_all(child: mujoco.MjSpec, prefix: str) -> None:
    """Names the bodies, geoms and sites that robosuite leaves unnamed."""
    for kind in ("bodies", "geoms", "sites"):
        for number, element in enumerate(getattr(child, kind)):
            if not element.name:
                element.name = f"{prefix}{kind}_{number}"


_KERNELS = Kernels(
    opspace=control_utils.opspace_matrices,
    nullspace=control_utils.nullspace_torques,
    orientation_error=control_utils.orientation_error,
)


def pose_action(
    robot: RobosuiteRobot, position_m: np.ndarray, rotation: np.ndarray, gripper: float
) -> np.ndarray:
    """The action of one control step towards a grip-site pose in the world; base and torso still.

    Position error over 0.05 m and rotation vector over 0.5 rad, in the base frame, each clipped.
    """
    here, now = robot.site_pose()
    _, turn = robot.base_pose()
    action = np.zeros(robot.action_dim)
    action[0:3] = turn.T @ (position_m - here) / POSITION_SCALE_M
    action[3:6] = turn.T @ rotation_vector(rotation @ now.T) / ROTATION_SCALE_RAD
    action[GRIPPER] = gripper
    if robot.action_dim > MODE:
        action[MODE] = -1.0
    return np.clip(action, -1.0, 1.0)


def drive(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    robots: list[RobosuiteRobot],
    substeps: int,
    each_substep: Callable[[mujoco.MjData], None] | None = None,
) -> None:
    """Runs one control step; `set_action` of each robot comes before.

    Args:
        each_substep: Called after every physics step, with contacts and state up to date.

    Raises:
        SimulationError: `sim_unstable`, where MuJoCo or the controllers' algebra give up on a diverged state.
    """
    try:
        for _ in range(substeps):
            mujoco.mj_step1(model, data)
            for robot in robots:
                robot.control()
            mujoco.mj_step2(model, data)
            if each_substep is not None:
                each_substep(data)
    except (mujoco.FatalError, np.linalg.LinAlgError) as error:
        raise guard.diverged(data, "control step", error) from error
