"""The scenario programs: what the base and the arm are told at every physics step, and on which ground.

A program is drawn from one stream; the same stream gives the same draw for every arm. Base twists are
linear between the listed times, arm moves follow a cosine.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import mujoco
import numpy as np

from families.f08_mobile_base import contacts, spec, stability
from families.f08_mobile_base.scene import FLAT, Robot, Terrain
from rle.errors import SimulationError
from rle.sim import guard

CHECK_STEPS = 10
"""Steps between looks at MuJoCo's warnings and at the tilt."""
SHOT_STEPS = round(1.0 / (spec.VIDEO_HZ * spec.TIMESTEP_S))
BLOCK_STEPS = 250
"""Steps whose margins are computed at once."""


@dataclass(frozen=True)
class Program:
    """Commands of one scenario at every physics step."""

    name: str
    twist: np.ndarray
    """Base twist (vx m/s, vy m/s, yaw rate rad/s), shape (T, 3)."""
    arm_rad: np.ndarray
    """Arm servo targets, shape (T, n)."""
    terrain: Terrain
    payload_kg: float
    dwells: tuple[tuple[int, int], ...] = ()
    """(first, last + 1) step of every dwell of the static test."""
    twists: tuple[tuple[int, int], ...] = ()
    """Averaging window of every twist of the mecanum test."""

    @property
    def seconds(self) -> float:
        return len(self.twist) * spec.TIMESTEP_S


def steps(seconds: float) -> int:
    """Physics steps in a time."""
    return round(seconds / spec.TIMESTEP_S)


def extended(arm: spec.Arm, azimuth_rad: float) -> np.ndarray:
    """Extended pose with the tool at an azimuth: joint 1 = azimuth - the arm's own. Shape (n,)."""
    pose = np.array(arm.extended_rad)
    pose[0] = azimuth_rad - arm.tool_azimuth_rad
    return pose


def _twist(seconds: float, knots: dict[str, Sequence[tuple[float, float]]]) -> np.ndarray:
    """Piecewise linear twist; `knots` gives (time, value) for "vx", "vy" and "w". Shape (T, 3)."""
    t = np.arange(steps(seconds)) * spec.TIMESTEP_S
    twist = np.zeros((len(t), 3))
    for column, name in enumerate(("vx", "vy", "w")):
        if name in knots:
            times, values = zip(*knots[name])
            twist[:, column] = np.interp(t, times, values)
    return twist


def _arm(
    arm: spec.Arm, seconds: float, moves: Sequence[tuple[float, float, np.ndarray]]
) -> np.ndarray:
    """Stow, then cosine moves (start, end, target pose), holding between them. Shape (T, n)."""
    t = np.arange(steps(seconds)) * spec.TIMESTEP_S
    pose = np.array(arm.stow_rad)
    path = np.tile(pose, (len(t), 1))
    for start, end, target in moves:
        share = 0.5 - 0.5 * np.cos(np.pi * np.clip((t - start) / (end - start), 0.0, 1.0))
        path += share[:, None] * (target - pose)
        pose = target
    return path


def equilibrium(arm: spec.Arm) -> Program:
    """Stow, no payload, no command."""
    seconds = spec.EQUILIBRIUM_SETTLE_S + spec.EQUILIBRIUM_S
    return Program("equilibrium", _twist(seconds, {}), _arm(arm, seconds, ()), FLAT, 0.0)


def mecanum(arm: spec.Arm) -> Program:
    """Four twists one after the other from rest, no payload."""
    rest, hold = steps(spec.MECANUM_SETTLE_S), steps(spec.MECANUM_TWIST_S)
    twist = np.zeros((rest + hold * len(spec.MECANUM_TWISTS), 3))
    windows = []
    for k, command in enumerate(spec.MECANUM_TWISTS):
        end = rest + (k + 1) * hold
        twist[end - hold : end] = command
        windows.append((end - steps(spec.MECANUM_MEAN_S), end))
    seconds = len(twist) * spec.TIMESTEP_S
    return Program(
        "mecanum", twist, _arm(arm, seconds, ()), FLAT, 0.0, twists=tuple(windows)
    )  # fmt: skip


def reach(arm: spec.Arm) -> Program:
    """Extended pose at joint 1 = 0, held, no payload: how far gravity pulls it in."""
    seconds = spec.REACH_SETTLE_S
    pose = np.tile(np.array(arm.extended_rad), (steps(seconds), 1))
    return Program("reach", _twist(seconds, {}), pose, FLAT, 0.0)


def static(
    arm: spec.Arm, joint1_range_rad: tuple[float, float], rng: np.random.Generator
) -> Program:
    """Test A: eight extended poses around the base, each reached by a cosine move and held.

    Args:
        arm: Canonical arm.
        joint1_range_rad: Range of joint 1; poses span +-min(pi, range).
        rng: Draws the shift of the eight poses, then the direction of the sweep.
    """
    limit = min(math.pi, -joint1_range_rad[0], joint1_range_rad[1])
    shift = rng.uniform(0.0, 1.0 / spec.STATIC_POSES)
    share = np.arange(spec.STATIC_POSES) / spec.STATIC_POSES + shift
    joint1 = limit * (2.0 * share - 1.0)
    return sweep(arm, joint1[::-1] if rng.integers(2) else joint1)


def sweep(arm: spec.Arm, joint1_rad: np.ndarray) -> Program:
    """From stow through extended poses with these values of joint 1, each held for a dwell."""
    moves, dwells, now = [], [], spec.STATIC_STOW_S
    for k, angle in enumerate(joint1_rad):
        pose = np.array(arm.extended_rad)
        pose[0] = angle
        move = spec.STATIC_MOVE_S if k else spec.STATIC_FIRST_MOVE_S
        moves.append((now, now + move, pose))
        now += move + spec.STATIC_DWELL_S
        dwells.append((steps(now - spec.STATIC_DWELL_S), steps(now)))
    return Program(
        "static", _twist(now, {}), _arm(arm, now, moves), FLAT, spec.STATIC_PAYLOAD_KG,
        dwells=tuple(dwells),
    )  # fmt: skip


def dynamic(name: str, arm: spec.Arm, rng: np.random.Generator) -> Program:
    """One moving test with its hidden draws: payload, azimuth, side, then what the test adds."""
    payload = float(rng.uniform(*spec.DYNAMIC_PAYLOAD_KG))
    jitter = float(rng.uniform(-spec.AZIMUTH_JITTER_RAD, spec.AZIMUTH_JITTER_RAD))
    side = 1.0 if rng.integers(2) else -1.0
    forward = extended(arm, jitter)
    sideways = extended(arm, side * 0.5 * math.pi + jitter)
    if name == "testB":
        knots = {"vx": ((2.5, 0), (3.1, 1.2), (5.1, 1.2), (5.6, 0))}
        return _program(name, arm, 7.0, knots, [(0.0, 2.0, sideways)], FLAT, payload)
    if name == "testC":
        v, w = 0.5 * side, 0.7 * side
        knots = {
            "vx": ((6.8, 0), (7.6, 0.5), (9.0, 0.5), (9.8, 0)),
            "vy": ((2.5, 0), (3.3, v), (4.0, v), (5.2, -v), (5.8, -v), (6.6, 0)),
            "w": ((6.8, 0), (7.6, w), (9.0, w), (9.8, 0)),
        }
        return _program(name, arm, 10.0, knots, [(0.0, 2.0, forward)], FLAT, payload)
    if name == "testD1":
        share = float(rng.uniform(*spec.D1_TILT_SHARE))
        terrain = Terrain(gravity_tilt_rad=math.radians(spec.D1_TILT_DEG) * share)
        knots = {
            "vx": ((0.5, 0), (1.0, 0.8), (3.3, 0.8), (4.0, 0)),
            "vy": ((4.2, 0), (4.6, 0.6 * side), (6.2, 0.6 * side), (6.8, 0)),
        }
        return _program(name, arm, 7.2, knots, [], terrain, payload)
    if name == "testD2":
        gaps = spec.BUMP_SPACING_M * rng.uniform(*spec.BUMP_SPACING_SHARE, size=spec.N_BUMPS - 1)
        x = spec.BUMP_START_X_M + np.concatenate([[0.0], np.cumsum(gaps)])
        yaw = rng.uniform(-spec.BUMP_YAW_RAD, spec.BUMP_YAW_RAD, size=spec.N_BUMPS)
        terrain = Terrain(curb=True, bumps=tuple(zip(x.tolist(), yaw.tolist())))
        knots = {"vx": ((0.5, 0), (0.9, 0.4), (4.6, 0.4), (5.0, 0.65), (8.5, 0.65), (9.0, 0))}
        return _program(name, arm, 9.0, knots, [], terrain, payload)
    if name == "testE":
        terrain = Terrain(ramp_rad=math.radians(spec.RAMP_DEG))
        knots = {"vx": ((1.0, 0), (1.8, 1.0), (4.5, 1.0), (5.0, 0))}
        moves = [(0.0, 2.0, forward), (2.0, 4.0, sideways)]
        return _program(name, arm, 6.0, knots, moves, terrain, payload)
    raise ValueError(f"unknown scenario {name!r}; known: {', '.join(spec.SCENARIOS)}")


def _program(name, arm, seconds, knots, moves, terrain, payload_kg) -> Program:
    return Program(
        name, _twist(seconds, knots), _arm(arm, seconds, moves), terrain, payload_kg
    )  # fmt: skip


@dataclass
class Trace:
    """What a scenario left behind, at every physics step; vectors in the terrain frame."""

    program: Program
    robot: Robot
    ended: str = "done"
    """`done`, `tilt`, or `sim_unstable` with its cause in `cause`."""
    cause: str = ""
    tilt_rad: np.ndarray = field(default_factory=lambda: np.empty(0))
    twist: np.ndarray = field(default_factory=lambda: np.empty((0, 3)))
    """Base twist in its own frame, shape (T, 3)."""
    rate_rad_s: np.ndarray = field(default_factory=lambda: np.empty(0))
    """Magnitude of the base's angular velocity."""
    speed_m_s: np.ndarray = field(default_factory=lambda: np.empty(0))
    position_m: np.ndarray = field(default_factory=lambda: np.empty((0, 3)))
    centre_m: np.ndarray = field(default_factory=lambda: np.empty((0, 3)))
    """Mass centre of the robot with its payload."""
    wheel_load_n: np.ndarray = field(default_factory=lambda: np.empty((0, 4)))
    net_n: np.ndarray = field(default_factory=lambda: np.empty((0, 3)))
    """Minus the sum of contact forces on the robot."""
    tool_m: np.ndarray = field(default_factory=lambda: np.empty((0, 3)))
    support_m: np.ndarray = field(default_factory=lambda: np.empty((0, 0, 3)))
    """Loaded roller contacts of every step, NaN for none. Shape (T, k, 3)."""
    depth_m: float = 0.0
    qpos: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    """Configuration at `spec.VIDEO_HZ`, for pictures."""
    last_qpos: np.ndarray | None = None
    """Configuration at the end."""

    @property
    def n_steps(self) -> int:
        return len(self.tilt_rad)

    def time_s(self) -> np.ndarray:
        return np.arange(self.n_steps) * spec.TIMESTEP_S

    def static_margin_m(self, at: np.ndarray) -> np.ndarray:
        """SSM at the given steps, shape (n,)."""
        gravity = self.robot.terrain.rotation.T @ self.robot.terrain.gravity
        margins = [
            stability.static_margin(self.centre_m[k], gravity, contacts.windows(self.support_m, k))
            for k in _blocks(at)
        ]
        return np.concatenate([np.empty(0), *margins])

    @functools.cached_property
    def force_angle(self) -> np.ndarray:
        """FASM at every step: median over `SUPPORT_WINDOW_S`. Shape (T,), N m rad."""
        raw = [
            stability.force_angle_margin(
                self.centre_m[k], self.net_n[k], contacts.windows(self.support_m, k)
            )
            for k in _blocks(np.arange(self.n_steps))
        ]
        return stability.rolling_median(np.concatenate([np.empty(0), *raw]), contacts.WINDOW_STEPS)

    def lift_offs(self) -> list[tuple[float, float]]:
        """(start, length) in s of every lift-off; a wheel's load is its mean over the window."""
        load = stability.moving_mean(self.wheel_load_n, contacts.WINDOW_STEPS)
        return stability.lift_off_events(load, spec.TIMESTEP_S)

    def tracking(self) -> float:
        """Normalised tracking error of the base twist, both averaged over the window."""
        window = contacts.WINDOW_STEPS
        command = self.program.twist[: self.n_steps]
        return stability.tracking_error(
            stability.moving_mean(self.twist, window), stability.moving_mean(command, window)
        )

    def quiet(self) -> np.ndarray:
        """Steps at which the robot stands still on all wheels. Shape (T,), bool."""
        return (
            (self.speed_m_s < spec.QUIET_SPEED_M_S)
            & (self.rate_rad_s < spec.QUIET_RATE_RAD_S)
            & (self.tilt_rad < np.radians(spec.QUIET_TILT_DEG))
            & (self.wheel_load_n >= spec.WHEEL_LOAD_N).all(axis=1)
        )


def _blocks(at: np.ndarray) -> list[np.ndarray]:
    """Steps in blocks that fit the processor's cache."""
    return np.split(at, np.arange(BLOCK_STEPS, len(at), BLOCK_STEPS))


def simulate(robot: Robot, program: Program, start_rad: np.ndarray | None = None) -> Trace:
    """Runs a program from stow (or `start_rad`) and records every physics step.

    A tilt beyond `TILT_LIMIT_DEG` or physics that cannot be trusted ends it early.
    """
    model, data = robot.model, robot.stowed()
    if start_rad is not None:
        data.qpos[robot.arm_qpos] = start_rad
        mujoco.mj_forward(model, data)
    n = len(program.twist)
    ctrl = np.empty((n, model.nu))
    ctrl[:, robot.wheel_ctrl] = robot.wheel_speeds(program.twist)
    ctrl[:, robot.arm_ctrl] = program.arm_rad
    seen = {
        "position": data.xpos[robot.base], "centre": data.subtree_com[robot.base],
        "tool": data.site_xpos[robot.ee], "turn": data.xmat[robot.base], "qvel": data.qvel[:6],
    }  # fmt: skip
    kept = {name: np.empty((n, len(view))) for name, view in seen.items()}
    pairs = [(kept[name], view) for name, view in seen.items()]
    trace, recorder = Trace(program, robot), contacts.Recorder(robot)
    shots, done = [], n
    upright = np.cos(np.radians(spec.TILT_LIMIT_DEG))
    guard.take_warnings()
    for k in range(n):
        data.ctrl[:] = ctrl[k]
        try:
            guard.step(model, data, program.name)
        except SimulationError as error:
            trace.ended, trace.cause, done = "sim_unstable", str(error), k - k % CHECK_STEPS
            break
        for array, view in pairs:
            array[k] = view
        recorder.add(data)
        if k % SHOT_STEPS == 0:
            shots.append(data.qpos.copy())
        if (k + 1) % CHECK_STEPS and k + 1 < n:
            continue
        try:
            guard.check(model, data, program.name)
        except SimulationError as error:
            trace.ended, trace.cause, done = "sim_unstable", str(error), k + 1 - CHECK_STEPS
            break
        if kept["turn"][k, 2::3] @ robot.terrain.normal < upright:
            trace.ended, done = "tilt", k + 1
            break
    _fill(trace, {name: array[:done] for name, array in kept.items()}, recorder.take())
    trace.qpos, trace.last_qpos = np.array(shots).reshape(-1, model.nq), data.qpos.copy()
    return trace


def _fill(trace: Trace, kept: dict[str, np.ndarray], touch: contacts.Contacts) -> None:
    """Writes what was recorded into the trace, vectors in the terrain frame."""
    n, turn = len(kept["qvel"]), trace.robot.terrain.rotation
    linear, angular = kept["qvel"][:, :3], kept["qvel"][:, 3:]
    base = kept["turn"].reshape(n, 3, 3)
    body_v = (linear[:, None, :] @ base)[:, 0]
    trace.twist = np.column_stack([body_v[:, :2], angular[:, 2]])
    trace.speed_m_s, trace.rate_rad_s = (np.linalg.norm(v, axis=1) for v in (linear, angular))
    trace.tilt_rad = stability.tilt_rad(base, trace.robot.terrain.normal)
    trace.position_m, trace.centre_m = kept["position"] @ turn, kept["centre"] @ turn
    trace.tool_m, trace.net_n = kept["tool"] @ turn, -touch.net_n[:n] @ turn
    trace.wheel_load_n, trace.support_m = touch.wheel_load_n[:n], touch.support_m[:n] @ turn
    trace.depth_m = touch.depth_m
