"""The shelf trial: a submitted controller drives the base up and holds a load at one target.

The same loop serves development (controller in this process) and verification (controller in a worker).
Limits are checked for every physics step, ten at a time, success at every control tick.
"""

import contextlib
import hashlib
import importlib.util
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import mujoco
import numpy as np

from families.f08_mobile_base import chassis, spec, stability
from families.f08_mobile_base.contacts import WINDOW_STEPS, Contacts, Recorder, joined, windows
from families.f08_mobile_base.scene import Robot, Terrain, compose
from rle.contracts import Arg, ArraySpec, Function, PythonContract
from rle.errors import SimulationError, UserError
from rle.exits import exits_raise, line_of
from rle.sim import guard
from rle.verify_api import TrialFault

SHELF = Terrain(shelf=True)
SUBSTEPS = round(1.0 / (spec.CONTROL_HZ * spec.TIMESTEP_S))
TICKS = round(spec.SHELF_TRIAL_S * spec.CONTROL_HZ)
NEAR_M = 0.07
"""Force-angle margins are computed from this tool distance on; further out they decide nothing."""


class Controller(Protocol):
    """What `make_controller()` of a submission returns."""

    def reset(self, context: dict[str, Any], seed: int) -> None: ...

    def act(self, obs: dict[str, Any]) -> Any: ...


@dataclass
class ShelfTrial:
    """What one trial measured."""

    target_index: int
    payload_kg: float
    ended: str = "horizon"
    """`success`, `horizon`, `shelf_contact`, `tilt`, `wheels_lifted`, `sim_unstable`, or a fault of
    the controller."""
    detail: str = ""
    elapsed_s: float = 0.0
    ee_err_m: float = float("inf")
    """Tool to target at the end."""
    min_ee_err_m: float = float("inf")
    min_fasm: float | None = None
    """Smallest median margin near the target, None if it never came near."""
    shelf_force_max_n: float = 0.0
    tilt_max_deg: float = 0.0
    hold_s: float = 0.0
    """Longest hold."""
    action_sha256: str = ""
    series: dict[str, list[float]] = field(default_factory=dict)
    qpos: list[np.ndarray] = field(default_factory=list)
    """Configurations at `VIDEO_HZ`, for pictures."""

    @property
    def ok(self) -> bool:
        return self.ended == "success"


class Hold:
    """Longest unbroken stretch of good ticks."""

    def __init__(self) -> None:
        self._since: float | None = None
        self.longest_s = 0.0

    def tick(self, time_s: float, is_good: bool) -> bool:
        """Adds one control tick; True once the stretch has lasted `SHELF_HOLD_S`."""
        if not is_good:
            self._since = None
            return False
        if self._since is None:
            self._since = time_s
        self.longest_s = max(self.longest_s, time_s - self._since)
        return time_s - self._since >= spec.SHELF_HOLD_S - 1e-9


class Support:
    """Wheel loads and force-angle margin over the last `SUPPORT_WINDOW_S`."""

    def __init__(self) -> None:
        self._load_n = np.empty((0, len(spec.WHEELS)))
        self._support_m = np.empty((0, 0, 3))
        self._margins = np.empty(0)
        self._few_s = 0.0

    def add(self, touch: Contacts) -> np.ndarray:
        """Adds n physics steps; True for those at which too few wheels carry load for too long."""
        n = len(touch.wheel_load_n)
        loads = np.concatenate([self._load_n, touch.wheel_load_n])
        mean_n = stability.moving_mean(loads, WINDOW_STEPS)[-n:]
        self._load_n = loads[-WINDOW_STEPS:]
        self._support_m = joined(self._support_m, touch.support_m)
        lifted = np.empty(n, dtype=bool)
        for k, loaded in enumerate((mean_n >= spec.WHEEL_LOAD_N).sum(axis=1)):
            few = loaded < spec.MIN_LOADED_WHEELS
            self._few_s = self._few_s + spec.TIMESTEP_S if few else 0.0
            lifted[k] = self._few_s > spec.LIFT_OFF_S + 1e-9
        return lifted

    def margins(self, centre_m: np.ndarray, net_n: np.ndarray, back: np.ndarray) -> np.ndarray:
        """Median force-angle margins over the steps at which they were asked for.

        Args:
            centre_m: Mass centres, shape (m, 3).
            net_n: Minus the contact forces, shape (m, 3).
            back: How many steps before the last one added each is, shape (m,).
        """
        points = windows(self._support_m, len(self._support_m) - 1 - back)
        raw = stability.force_angle_margin(centre_m, net_n, points)
        known = np.concatenate([self._margins, raw])
        self._margins = known[-WINDOW_STEPS:]
        last = range(len(known) - len(raw) + 1, len(known) + 1)
        return np.array([np.median(known[max(0, k - WINDOW_STEPS) : k]) for k in last])


def contract(arm: spec.Arm) -> PythonContract:
    """`make_controller()` with `reset(context, seed)` and `act(obs)`, array sizes of one arm."""
    wheels = len(spec.WHEELS)
    joints = wheels * (1 + spec.N_ROLLERS) + arm.n_joints
    obs = (
        ArraySpec("time"), ArraySpec("qpos", (7 + joints,)), ArraySpec("qvel", (6 + joints,)),
        ArraySpec("ctrl", (wheels + arm.n_joints,)),
    )  # fmt: skip
    act = Function(
        name="act",
        args=(Arg(kind="dict", arrays=obs),),
        returns=(ArraySpec("ctrl", (wheels + arm.n_joints,)),),
    )
    return PythonContract(
        entry=spec.CONTROLLER_PY,
        factory="make_controller",
        required=("reset", "act"),
        functions=(act,),
        suffixes=(),
        modules=("numpy", "mujoco"),
    )


def make_robot(design: chassis.Chassis, arm: spec.Arm, payload_kg: float) -> Robot:
    """The robot in front of the shelf."""
    return compose(design, arm, payload_kg, SHELF)


def context(robot: Robot, data: mujoco.MjData, target_index: int) -> dict[str, Any]:
    """What `reset` of a controller is given."""
    names = [robot.model.actuator(i).name for i in range(robot.model.nu)]
    motors = [names[i] for i in robot.wheel_ctrl]
    joints = [names[i] for i in robot.arm_ctrl]
    return {
        "model_xml": robot.xml,
        "arm": robot.arm.name,
        "target": np.array(spec.TARGETS_M[target_index]),
        "target_name": spec.TARGET_NAMES[target_index],
        "target_index": target_index,
        "shelf_face_x": spec.SHELF_FACE_X_M,
        "payload_kg": robot.payload_kg,
        "actuator_names": names,
        "arm_joint_names": joints,
        "arm_actuator_names": joints,
        "wheel_actuator_names": motors,
        "base_joint": spec.FREE_JOINT,
        "ee_site": f"arm_{robot.arm.name}_ee",
        "qpos": data.qpos.copy(),
        "qvel": data.qvel.copy(),
        "ctrl": data.ctrl.copy(),
        "control_dt": 1.0 / spec.CONTROL_HZ,
        "duration": spec.SHELF_TRIAL_S,
    }


def checked_action(action: Any, nu: int) -> np.ndarray:
    """The action as finite float64, shape (nu,).

    Raises:
        TrialFault: `bad_action`.
    """
    try:
        values = np.asarray(action, dtype=float)
    except (TypeError, ValueError) as error:
        got = type(action).__name__
        raise TrialFault(
            "bad_action", "action.type", f"expected {nu} numbers, got {got}"
        ) from error
    if values.shape != (nu,):
        said = f"expected {nu} numbers, got shape {values.shape}"
        raise TrialFault("bad_action", "action.shape", said)
    if not np.isfinite(values).all():
        raise TrialFault("bad_action", "action.nonfinite", "expected finite numbers")
    return values


def run_trial(robot: Robot, controller: Controller, target_index: int) -> ShelfTrial:
    """Runs one trial to success, a limit or the end of `SHELF_TRIAL_S`.

    Args:
        robot: From `make_robot`.
        controller: Fresh; asked once per control tick.
        target_index: 0 ... 11.
    """
    model, data = robot.model, robot.stowed(np.array(spec.SHELF_START_M))
    trial = ShelfTrial(target_index, robot.payload_kg)
    target = np.array(spec.TARGETS_M[target_index])
    series: dict[str, list[float]] = {
        k: [] for k in ("t_s", "ee_err_m", "fasm", "tilt_deg", "shelf_force_n", "min_wheel_load_n")
    }
    digest, hold, support = hashlib.sha256(), Hold(), Support()
    low, high = model.actuator_ctrlrange.T
    every, shot = round(spec.CONTROL_HZ / spec.SERIES_HZ), round(spec.CONTROL_HZ / spec.VIDEO_HZ)
    guard.take_warnings()
    asked = "reset"
    try:
        controller.reset(context(robot, data, target_index), spec.CONTROLLER_SEED)
        for tick in range(TICKS):
            asked = f"act, tick {tick}"
            obs = {
                "time": float(data.time), "qpos": data.qpos.copy(), "qvel": data.qvel.copy(),
                "ctrl": data.ctrl.copy(),
            }  # fmt: skip
            action = np.clip(checked_action(controller.act(obs), model.nu), low, high)
            digest.update(action.astype("<f8").tobytes())
            data.ctrl[:] = action
            now = advance(robot, data, trial, support, target)
            if tick % every == 0:
                values = (
                    data.time, now.error_m, now.margin, trial.tilt_max_deg, now.shelf_n,
                    now.wheel_load_n,
                )  # fmt: skip
                for name, value in zip(series, values, strict=True):
                    series[name].append(round(float(value), 5))
            if tick % shot == 0:
                trial.qpos.append(data.qpos.copy())
            if hold.tick(float(data.time), now.is_good):
                trial.ended = "success"
                break
            if trial.ended != "horizon":
                break
    except TrialFault as fault:
        trial.ended, trial.detail = fault.ended, f"{asked}: {fault.detail or fault.code}"
    except SimulationError as error:
        trial.ended, trial.detail = "sim_unstable", str(error)
    trial.hold_s = hold.longest_s
    trial.action_sha256, trial.series = digest.hexdigest(), series
    return trial


class Tick(NamedTuple):
    """The end of one control tick."""

    error_m: float
    """Tool to target."""
    margin: float
    """Median force-angle margin, 0 far from the target."""
    shelf_n: float
    wheel_load_n: float
    """Of the least loaded wheel."""

    @property
    def is_good(self) -> bool:
        """At the target and standing firmly."""
        return self.error_m <= spec.SHELF_TOLERANCE_M and self.margin > 0.0


def advance(
    robot: Robot, data: mujoco.MjData, trial: ShelfTrial, support: Support, target: np.ndarray
) -> Tick:
    """One control tick of physics; the first broken limit is written into the trial and ends the tick."""
    model, recorder = robot.model, Recorder(robot)
    tool, centre, upright = (np.empty((SUBSTEPS, n)) for n in (3, 3, 1))
    seen = (data.site_xpos[robot.ee], data.subtree_com[robot.base], data.xmat[robot.base, 8:])
    for k in range(SUBSTEPS):
        guard.step(model, data, f"shelf target {trial.target_index}")
        recorder.add(data)
        tool[k], centre[k], upright[k] = seen
    trial.elapsed_s = float(data.time)
    guard.check(model, data, f"shelf target {trial.target_index}")
    touch = recorder.take()
    error_m = np.linalg.norm(tool - target, axis=1)
    tilt_deg = np.degrees(np.arccos(np.minimum(1.0, upright[:, 0])))
    broken = {
        "shelf_contact": touch.shelf_n > spec.SHELF_FORCE_LIMIT_N,
        "tilt": tilt_deg > spec.TILT_LIMIT_DEG,
        "wheels_lifted": support.add(touch),
    }
    ends = np.flatnonzero(np.any(list(broken.values()), axis=0))
    n = int(ends[0]) + 1 if len(ends) else SUBSTEPS
    if len(ends):
        trial.ended = next(name for name, at in broken.items() if at[n - 1])
        trial.elapsed_s -= (SUBSTEPS - n) * spec.TIMESTEP_S
    if trial.ended == "shelf_contact":
        trial.detail = f"{model.geom(int(touch.shelf_geom[n - 1])).name} touched the shelf"
    trial.tilt_max_deg = max(trial.tilt_max_deg, float(tilt_deg[:n].max()))
    trial.shelf_force_max_n = max(trial.shelf_force_max_n, float(touch.shelf_n[:n].max()))
    trial.min_ee_err_m = min(trial.min_ee_err_m, float(error_m[:n].min()))
    trial.ee_err_m, margin = float(error_m[n - 1]), 0.0
    near = np.flatnonzero(error_m[:n] <= NEAR_M)
    if len(near):
        margins = support.margins(centre[near], -touch.net_n[near], SUBSTEPS - 1 - near)
        margin, lowest = float(margins[-1]), float(margins.min())
        trial.min_fasm = lowest if trial.min_fasm is None else min(trial.min_fasm, lowest)
    least_n = float(touch.wheel_load_n[n - 1].min())
    return Tick(trial.ee_err_m, margin, float(touch.shelf_n[n - 1]), least_n)


class LocalController:
    """A controller of a submission in this process, for development.

    Args:
        path: `controller.py`; what it raises is shown with its traceback.

    Raises:
        UserError: It has no `make_controller`, or it ends the process.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        described = importlib.util.spec_from_file_location(f"f08_controller_{path.stem}", path)
        assert described is not None and described.loader is not None
        module = importlib.util.module_from_spec(described)
        with self._staying():
            described.loader.exec_module(module)
        if not callable(getattr(module, "make_controller", None)):
            raise UserError(
                f"{path} has no make_controller(); it returns an object with reset(context, seed) and act(obs)"
            )
        with self._staying():
            self._inner = module.make_controller()

    def reset(self, context: dict[str, Any], seed: int) -> None:
        with self._staying():
            self._inner.reset(context, seed)

    def act(self, obs: dict[str, Any]) -> Any:
        with self._staying():
            return self._inner.act(obs)

    @contextlib.contextmanager
    def _staying(self) -> Generator[None]:
        try:
            with exits_raise():
                yield
        except SystemExit as error:
            raise UserError(
                f"{self._path} ended its own process at line {line_of(error)}; a controller returns from every "
                "call, and the verifier counts a trial whose controller left as failed"
            ) from None
