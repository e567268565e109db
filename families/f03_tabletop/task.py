"""What the five tasks share: control steps, observations, start, and the settled final measurement. It
measures; `metrics.py` judges."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import mujoco
import numpy as np

from families.f03_tabletop import instances
from families.f03_tabletop import spec as s
from families.f03_tabletop.scene import TABLE, Scene
from rle.service.adapter import (
    BadRequest,
    Evidence,
    ExtraOutcome,
    StepOutcome,
    TaskAdapter,
    TrialPlan,
)
from rle.service.protocol import ObserveSpec, Scalar
from rle.sim import guard
from rle.sim.arm_control import rotation_of, rotation_vector
from rle.sim.contacts import touching
from rle.sim.model import dof_addresses, qpos_addresses
from rle.sim.render import Frames
from rle.sim.robosuite_robot import drive, pose_action
from rle.spec import TaskSpec


class RobotTask:
    """Base of the adapters: one scene, one or two robots, twenty control steps per second.

    A subclass builds its scene in `build` and adds what it measures.
    """

    action_dim = 12
    camera_names: Mapping[str, str] = {}
    """Public camera name to name in the model; absent names are the same."""

    def __init__(self, task: str) -> None:
        self.task = task
        self.instance: instances.Instance | None = None
        self.scene: Scene | None = None
        self.plan: TrialPlan | None = None
        self._frames: Frames | None = None
        self._frame_size = (0, 0)
        self._option = mujoco.MjvOption()
        self._option.sitegroup[:] = 0
        self._gripper = np.zeros(2)

    # ------------------------------------------------------------------------- for the subclasses

    def build(self, instance) -> Scene:
        """The compiled scene of an instance."""
        raise NotImplementedError

    def restore(self, counters: dict[str, Scalar]) -> None:
        """Takes up the counters of a trial that starts again."""

    def after_reset(self) -> None:
        """The scene has been put back."""

    def each_substep(self, data: mujoco.MjData) -> None:
        """After every physics step of a control step."""

    def after_step(self) -> StepOutcome:
        """After every control step."""
        return StepOutcome()

    # --------------------------------------------------------------------------- the adapter's part

    @property
    def ready(self) -> Scene:
        if self.scene is None:
            raise RuntimeError("no trial is open; call open_trial() first")
        return self.scene

    def open_trial(self, plan: TrialPlan) -> str:
        """Draws the instance, builds its scene, puts everything at its start."""
        instance = instances.draw(self.task, plan.rng(instances.STREAM))
        self.open_instance(instance, plan)
        return instance.digest

    def open_instance(self, instance: instances.Instance, plan: TrialPlan | None = None) -> None:
        """As `open_trial`, for a given instance."""
        if self.scene is None or instance != self.instance:
            self._close_frames()
            self.scene = self.build(instance)
            self.instance = instance
        self.plan = plan
        self.restore(plan.resume if plan else {})
        self.reset()

    def reset(self) -> None:
        """The start scene: pieces at rest where they were drawn, robots at their start pose."""
        scene = self.ready
        mujoco.mj_resetData(scene.model, scene.data)
        for robot in scene.robots:
            robot.reset()
        HeldRobots(scene).step(s.START_STEPS)
        mujoco.mj_forward(scene.model, scene.data)
        scene.data.ctrl[:] = 0.0
        self._gripper[:] = 0.0
        self.after_reset()

    def step(self, action: np.ndarray) -> StepOutcome:
        """One control step."""
        scene = self.ready
        width = self.action_dim // len(scene.robots)
        for i, robot in enumerate(scene.robots):
            part = action[i * width : (i + 1) * width]
            robot.set_action(part)
            self._gripper[i] = part[6]
        drive(scene.model, scene.data, scene.robots, s.SUBSTEPS, self.each_substep)
        guard.check(scene.model, scene.data, self.task)
        return self.after_step()

    def hold(self) -> StepOutcome:
        """One control step in which arms, base and fingers keep what they do."""
        action = np.zeros(self.action_dim)
        width = self.action_dim // len(self.ready.robots)
        for i in range(len(self.ready.robots)):
            action[i * width + 6] = self._gripper[i]
        return self.step(action)

    def move_action(
        self, position_m: np.ndarray, quat_xyzw: np.ndarray, gripper: float
    ) -> np.ndarray:
        """One step of `move`: pose error over the action scales, in the base frame, clipped."""
        return pose_action(self.ready.robots[0], position_m, rotation_of(quat_xyzw), gripper)

    def move_error(self, position_m: np.ndarray, quat_xyzw: np.ndarray) -> tuple[float, float]:
        """Distance, m, and angle, rad, of the grip site from a world pose."""
        here, now = self.ready.robots[0].site_pose()
        turn = rotation_vector(rotation_of(quat_xyzw) @ now.T)
        return float(np.linalg.norm(position_m - here)), float(np.linalg.norm(turn))

    def observe(self, spec: ObserveSpec) -> dict[str, np.ndarray]:
        """State of the robots and the asked pictures; changes nothing."""
        return {**self.state(), **self.pictures(spec)}

    def state(self) -> dict[str, np.ndarray]:
        """The observation without pictures."""
        return self.ready.robots[0].proprio()

    def pictures(self, spec: ObserveSpec) -> dict[str, np.ndarray]:
        """`NAME_image` uint8 (H, W, 3) and, on request, `NAME_depth` float32 (H, W) m."""
        scene = self.ready
        out: dict[str, np.ndarray] = {}
        for name in spec.cameras:
            frames = self._frames_of(spec.width_px, spec.height_px)
            camera = self.camera_names.get(name, name)
            out[f"{name}_image"] = frames.rgb(scene.data, camera, self._option)
            if spec.depth:
                out[f"{name}_depth"] = frames.depth_m(scene.data, camera, self._option)
        return out

    def extra(self, op: str, args: dict[str, Scalar]) -> ExtraOutcome:
        raise BadRequest(f"{op} is not an operation of {self.task}")

    def counters(self) -> dict[str, Scalar]:
        return {}

    def finish(self) -> Evidence:
        raise NotImplementedError

    def privileged(self) -> dict[str, np.ndarray]:
        """True poses (position, quat_wxyz) of the measured bodies, shape (7,) each."""
        scene = self.ready
        return {
            name: np.concatenate([scene.data.body(name).xpos, scene.data.body(name).xquat])
            for name in scene.pieces
        }

    def close(self) -> None:
        self._close_frames()

    def _frames_of(self, width_px: int, height_px: int) -> Frames:
        if self._frames is None or self._frame_size != (width_px, height_px):
            self._close_frames()
            self._frames = Frames(self.ready.model, width_px, height_px)
            self._frame_size = (width_px, height_px)
        return self._frames

    def _close_frames(self) -> None:
        if self._frames is not None:
            self._frames.close()
            self._frames = None


class HeldRobots:
    """Steps the physics with every robot joint and velocity put back after each step."""

    def __init__(self, scene: Scene) -> None:
        self._model, self._data = scene.model, scene.data
        names = [name for robot in scene.robots for name in robot.handles.joints]
        at = _span(qpos_addresses(scene.model, names))
        self._joints = scene.data.qpos[at]
        self._rates = scene.data.qvel[_span(dof_addresses(scene.model, names))]
        self._kept = self._joints.copy()

    def step(self, count: int = 1) -> None:
        """Physics steps.

        Raises:
            SimulationError: MuJoCo gives up on a diverged state.
        """
        step, model, data = mujoco.mj_step, self._model, self._data
        joints, rates, kept = self._joints, self._rates, self._kept
        try:
            for _ in range(count):
                step(model, data)
                joints[:] = kept
                rates[:] = 0.0
        except mujoco.FatalError as error:
            raise guard.diverged(data, "held scene", error) from error


def _span(addresses: np.ndarray) -> slice:
    """The slice that holds exactly these addresses: a scene's robots come first, joint by joint."""
    low, high = int(addresses.min()), int(addresses.max()) + 1
    if sorted(addresses) != list(range(low, high)):
        raise ValueError(f"the robots' addresses {sorted(addresses)} are not one block")
    return slice(low, high)


# ------------------------------------------------------------------------------ final measurement


@dataclass(frozen=True)
class Reading:
    """Contacts of the pieces at one moment."""

    edges: frozenset[tuple[str, str]]
    """Touching pairs among pieces and the table."""
    on_robot: frozenset[str]
    """Pieces that touch a robot."""
    values: dict[str, float]
    """A number per piece (highest point, overhang)."""


@dataclass(frozen=True)
class Settled:
    """The final scene."""

    readings: tuple[Reading, Reading]
    excluded: dict[str, str]
    """Piece to reason: moving, touches_robot."""
    settle_s: float

    def supported(self, reading: Reading) -> frozenset[str]:
        """Pieces connected to the table through contacts of pieces that are not excluded."""
        found, queue = set(), [TABLE]
        while queue:
            here = queue.pop()
            for a, b in reading.edges:
                other = b if a == here else a if b == here else None
                if other and other != TABLE and other not in found and other not in self.excluded:
                    found.add(other)
                    queue.append(other)
        return frozenset(found)


def settle(scene: Scene, value: Callable[[str], float]) -> Settled:
    """The final measurement of section 6: settle, read, hold, read.

    Args:
        scene: Final scene; the robots are held as they are.
        value: Number to read for a piece.
    """
    hold = HeldRobots(scene)
    window = round(s.QUIET_WINDOW_S / s.TIMESTEP_S)
    hold.step(round(s.SETTLE_MIN_S / s.TIMESTEP_S) - window)
    moving = _moving(scene, hold, window)
    settle_s = s.SETTLE_MIN_S
    while moving and settle_s < s.SETTLE_MAX_S - 1e-9:
        moving = _moving(scene, hold, window)
        settle_s += s.QUIET_WINDOW_S
    first = read(scene, value)
    hold.step(round(s.HOLD_S / s.TIMESTEP_S))
    second = read(scene, value)
    guard.check(scene.model, scene.data, "final measurement")
    excluded = {name: "touches_robot" for name in first.on_robot | second.on_robot}
    excluded |= {name: "moving" for name in moving}
    return Settled(readings=(first, second), excluded=excluded, settle_s=settle_s)


def is_quiet(speed_m_s: float, rate_rad_s: float) -> bool:
    """A piece is at rest when both its largest speeds over the window are below the limits."""
    return speed_m_s < s.QUIET_LIN_M_S and rate_rad_s < s.QUIET_ANG_RAD_S


def _moving(scene: Scene, hold: HeldRobots, steps: int) -> frozenset[str]:
    """Pieces that were not at rest during the next `steps` physics steps."""
    dofs = dof_addresses(scene.model, [f"{name}_joint" for name in scene.pieces])
    linear = dofs[:, None] + np.arange(3)
    both = np.stack([linear, linear + 3])
    fastest = np.zeros((2, len(scene.pieces)))
    for _ in range(steps):
        hold.step()
        squares = np.square(scene.data.qvel[both]).sum(axis=2)
        np.maximum(fastest, squares, out=fastest)
    fastest = np.sqrt(fastest)
    return frozenset(
        name
        for name, speed, rate in zip(scene.pieces, *fastest, strict=True)
        if not is_quiet(speed, rate)
    )


def read(scene: Scene, value: Callable[[str], float]) -> Reading:
    """Contacts and values now."""
    model, data = scene.model, scene.data
    mujoco.mj_forward(model, data)
    edges: set[tuple[str, str]] = set()
    for geoms in touching(data):
        first, second = (
            TABLE if model.geom(g).name == TABLE else model.body(model.geom_bodyid[g]).name
            for g in geoms
        )
        edges.add((first, second))
    touched = set().union(*(robot.touched() for robot in scene.robots))
    on_robot = {name for name in scene.pieces if model.body(name).id in touched}
    kept = {*scene.pieces, TABLE}
    return Reading(
        edges=frozenset(e for e in edges if set(e) <= kept),
        on_robot=frozenset(on_robot),
        values={name: value(name) for name in scene.pieces},
    )


# ------------------------------------------------------------------------------------- factories

_ADAPTERS = {
    "f03/tower": ("tabletop", "Tower"),
    "f03/cantilever": ("tabletop", "Cantilever"),
    "f03/balance": ("tabletop", "Balance"),
    "f03/pocket-cube": ("cube", "PocketCube"),
    "f03/hidden-com": ("hidden_com", "HiddenCom"),
}


def make(task: str) -> TaskAdapter:
    """The adapter of a task; called in the worker process."""
    module, name = _ADAPTERS[task]
    return getattr(importlib.import_module(f"families.f03_tabletop.{module}"), name)(task)


def make_env(task: TaskSpec, **options: Any) -> gymnasium.Env:
    """The task as an unmetered Gymnasium environment on public draws."""
    from families.f03_tabletop.verify import score_evidence
    from rle.envs.served import AdapterEnv

    adapter = make(task.id)
    assert isinstance(adapter, RobotTask)
    return AdapterEnv(s.SESSIONS[task.id], adapter, score_evidence, **options)
