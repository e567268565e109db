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

from families.f08_mobile_base import spec, stability
from families.f08_mobile_base.scene import FLAT, Robot, Terrain
from rle.errors import SimulationError
from rle.sim import guard


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


@dataclass(frozen=True)
class Contacts:
    """Robot-world contacts of one step."""

    points_m: np.ndarray
    """World positions, shape (n, 3)."""
    normal_n: np.ndarray
    """Normal forces, shape (n,)."""
    wheel: np.ndarray
    """Wheel index of the touching roller, -1 for other parts. Shape (n,)."""
    net_n: np.ndarray
    """Sum of contact forces on the robot, world frame, shape (3,)."""
    shelf_n: float
    """Sum of normal forces between robot and shelf."""
    shelf_geom: int
    """Robot geom of the strongest shelf contact, -1 for none."""
    depth_m: float
    """Deepest penetration."""

    @property
    def wheel_load_n(self) -> np.ndarray:
        """Normal force per wheel, shape (4,)."""
        on_wheel = self.wheel >= 0
        return np.bincount(self.wheel[on_wheel], self.normal_n[on_wheel], minlength=4)

    @property
    def support_m(self) -> np.ndarray:
        """Roller contacts that carry load, shape (k, 3)."""
        return self.points_m[(self.wheel >= 0) & (self.normal_n > spec.SUPPORT_FORCE_N)]


_THREE = np.arange(3)


def read_contacts(robot: Robot, data: mujoco.MjData) -> Contacts:
    """Contacts of the last step in one vectorised pass over the solver's forces."""
    contact = data.contact
    geom, address = contact.geom, contact.efc_address
    world = robot.is_world[geom]
    keep = (world[:, 0] != world[:, 1]) & (address >= 0)
    geom, world, address = geom[keep], world[keep, 0], address[keep]
    force = data.efc_force[address[:, None] + _THREE]
    frame = contact.frame[keep].reshape(-1, 3, 3)
    # MuJoCo's force acts on the second geom, along the normal from the first one.
    sign = np.where(world, 1.0, -1.0)
    net = ((force * sign[:, None])[:, :, None] * frame).sum(axis=(0, 1))
    mine = np.where(world, geom[:, 1], geom[:, 0])
    other = np.where(world, geom[:, 0], geom[:, 1])
    normal = force[:, 0]
    on_shelf = robot.is_shelf[other]
    touching = mine[on_shelf][np.argmax(normal[on_shelf])] if on_shelf.any() else -1
    return Contacts(
        points_m=contact.pos[keep],
        normal_n=normal,
        wheel=robot.wheel_of_geom[mine],
        net_n=net,
        shelf_n=float(normal[on_shelf].sum()),
        shelf_geom=int(touching),
        depth_m=float(-contact.dist.min(initial=0.0)),
    )


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
    support_m: list[np.ndarray] = field(default_factory=list)
    """Loaded roller contacts of every step, each (k, 3)."""
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

    def support(self, step: int) -> np.ndarray:
        """Loaded contacts of the last `SUPPORT_WINDOW_S`, shape (n, 3)."""
        first = max(-1, step - steps(spec.SUPPORT_WINDOW_S))
        return np.concatenate(
            self.support_m[step : first if first >= 0 else None : -spec.SUPPORT_STRIDE]
        )

    def static_margin_m(self, step: int) -> float:
        """SSM at a step."""
        gravity = self.robot.terrain.rotation.T @ self.robot.terrain.gravity
        return stability.static_margin(self.centre_m[step], gravity, self.support(step))

    @functools.cached_property
    def force_angle(self) -> np.ndarray:
        """FASM at every step: median over `SUPPORT_WINDOW_S`. Shape (T,), N m rad."""
        raw = [
            stability.force_angle_margin(self.centre_m[k], self.net_n[k], self.support(k))
            for k in range(self.n_steps)
        ]
        return stability.rolling_median(np.array(raw), steps(spec.SUPPORT_WINDOW_S))

    def lift_offs(self) -> list[tuple[float, float]]:
        """(start, length) in s of every lift-off; a wheel's load is its mean over the window."""
        load = stability.moving_mean(self.wheel_load_n, steps(spec.SUPPORT_WINDOW_S))
        return stability.lift_off_events(load, spec.TIMESTEP_S)

    def tracking(self) -> float:
        """Normalised tracking error of the base twist, both averaged over the window."""
        window = steps(spec.SUPPORT_WINDOW_S)
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


def simulate(robot: Robot, program: Program, start_rad: np.ndarray | None = None) -> Trace:
    """Runs a program from stow (or `start_rad`) and records every physics step.

    A tilt beyond `TILT_LIMIT_DEG` or physics that cannot be trusted ends it early.
    """
    model, data = robot.model, robot.stowed()
    if start_rad is not None:
        data.qpos[robot.arm_qpos] = start_rad
        mujoco.mj_forward(model, data)
    n = len(program.twist)
    wheel_rad_s = np.array([robot.wheel_speeds(twist) for twist in program.twist])
    turn, normal = robot.terrain.rotation, robot.terrain.normal
    position, centre, net, tool = (np.empty((n, 3)) for _ in range(4))
    twist, tilt, rate, speed = np.empty((n, 3)), np.empty(n), np.empty(n), np.empty(n)
    load = np.empty((n, 4))
    trace = Trace(program, robot)
    limit = np.radians(spec.TILT_LIMIT_DEG)
    every, shots = round(1.0 / (spec.VIDEO_HZ * spec.TIMESTEP_S)), []
    done = n
    guard.take_warnings()
    for k in range(n):
        data.ctrl[robot.wheel_ctrl] = wheel_rad_s[k]
        data.ctrl[robot.arm_ctrl] = program.arm_rad[k]
        mujoco.mj_step(model, data)
        try:
            guard.check(model, data, program.name)
        except SimulationError as error:
            trace.ended, trace.cause, done = "sim_unstable", str(error), k
            break
        contacts = read_contacts(robot, data)
        rotation = data.xmat[robot.base].reshape(3, 3)
        position[k], centre[k] = data.xpos[robot.base], data.subtree_com[robot.base]
        tool[k], net[k] = data.site_xpos[robot.ee], -contacts.net_n
        body_v = rotation.T @ data.qvel[:3]
        twist[k] = body_v[0], body_v[1], data.qvel[5]
        speed[k] = np.sqrt(data.qvel[:3] @ data.qvel[:3])
        rate[k] = np.sqrt(data.qvel[3:6] @ data.qvel[3:6])
        tilt[k] = np.arccos(min(1.0, rotation[:, 2] @ normal))
        load[k] = contacts.wheel_load_n
        trace.support_m.append(contacts.support_m @ turn)
        trace.depth_m = max(trace.depth_m, contacts.depth_m)
        if k % every == 0:
            shots.append(data.qpos.copy())
        if tilt[k] > limit:
            trace.ended, done = "tilt", k + 1
            break
    trace.position_m, trace.centre_m = position[:done] @ turn, centre[:done] @ turn
    trace.net_n, trace.tool_m = net[:done] @ turn, tool[:done] @ turn
    trace.twist, trace.tilt_rad, trace.rate_rad_s = twist[:done], tilt[:done], rate[:done]
    trace.speed_m_s, trace.wheel_load_n = speed[:done], load[:done]
    trace.qpos, trace.last_qpos = np.array(shots).reshape(-1, model.nq), data.qpos.copy()
    return trace
