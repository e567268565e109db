"""E_dev and E_eval of f08: simulates scenarios and names what is measured. It never judges."""

from dataclasses import dataclass, field

import mujoco
import numpy as np

from families.f08_mobile_base import battery, spec, stability
from families.f08_mobile_base.scene import Robot
from rle.errors import SimulationError
from rle.sim import guard


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
        """FASM at every step: median over `SUPPORT_WINDOW_S`. Shape (T,), N m rad."""
        raw = np.array(
            [
                stability.force_angle_margin(centre, net, support)
                for centre, net, support in zip(self.centre_m, self.net_n, self.support_m)
            ]
        )
        return stability.rolling_median(raw, battery.steps(spec.SUPPORT_WINDOW_S))

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
