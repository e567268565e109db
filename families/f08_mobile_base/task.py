"""E_dev and E_eval of f08: simulates scenarios and names what is measured. It never judges."""

from dataclasses import dataclass, field

import mujoco
import numpy as np

from families.f08_mobile_base import battery, spec, stability
from families.f08_mobile_base.scene import Robot, read_contacts
from rle.errors import SimulationError
from rle.sim import guard


@dataclass
class Trace:
    """What a scenario left behind, at every physics step; vectors in the terrain frame."""

    program: battery.Program
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
    """Configuration at `spec.SERIES_HZ`, for pictures."""

    @property
    def n_steps(self) -> int:
        return len(self.tilt_rad)

    def time_s(self) -> np.ndarray:
        return np.arange(self.n_steps) * spec.TIMESTEP_S

    def static_margin_m(self, step: int) -> float:
        """SSM at a step, over the loaded contacts of the last `SUPPORT_WINDOW_S`."""
        first = max(0, step + 1 - battery.steps(spec.SUPPORT_WINDOW_S))
        points = np.concatenate(self.support_m[first : step + 1])
        gravity = self.robot.terrain.rotation.T @ self.robot.terrain.gravity
        return stability.static_margin(self.centre_m[step], gravity, points)

    def force_angle(self) -> np.ndarray:
        """FASM at every step: median over `SUPPORT_WINDOW_S` of the margin over the hull of the
        contacts of that window. Shape (T,), N m rad."""
        window = battery.steps(spec.SUPPORT_WINDOW_S)
        raw = [
            stability.force_angle_margin(
                self.centre_m[k],
                self.net_n[k],
                np.concatenate(self.support_m[max(0, k + 1 - window) : k + 1]),
            )
            for k in range(self.n_steps)
        ]
        return stability.rolling_median(np.array(raw), window)

    def lift_offs(self) -> list[tuple[float, float]]:
        """(start, length) in s of every lift-off; a wheel's load is its mean over the window."""
        load = stability.moving_mean(self.wheel_load_n, battery.steps(spec.SUPPORT_WINDOW_S))
        return stability.lift_off_events(load, spec.TIMESTEP_S)

    def tracking(self) -> float:
        """Normalised tracking error of the base twist, both averaged over the window."""
        window = battery.steps(spec.SUPPORT_WINDOW_S)
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


def simulate(robot: Robot, program: battery.Program, start_rad: np.ndarray | None = None) -> Trace:
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
    every, shots = round(1.0 / (spec.SERIES_HZ * spec.TIMESTEP_S)), []
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
    trace.qpos = np.array(shots).reshape(-1, model.nq)
    return trace
