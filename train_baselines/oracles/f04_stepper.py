"""Privileged stepping controller of f04: it follows a clip, and takes a step when it is pushed.

What decides is the capture point xi = c + c' / omega, the place over which the robot would come to rest
(c centre of mass, omega^2 = g / height). Inside the soles it is steered by where the soles press; once it
leaves them, a foot is put down where it will be. Every control period a least-squares problem turns the
wanted accelerations (centre of mass, trunk, feet, posture) into joint accelerations and contact forces
that obey the equations of motion and the friction cone; inverse dynamics and the servo's law turn
those into targets.
"""

from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np
from scipy.optimize import nnls
from scipy.spatial.transform import Rotation

from families.f04_tracking import scene, spec
from families.f04_tracking.reference import Reference

NV = 6 + spec.N_JOINTS
GRAVITY_M_S2 = spec.SCENE.gravity_m_s2
SOLE_X_M = (-0.05, 0.125)
"""Heel and toe of the sole, foot frame."""
SOLE_Y_M = 0.018
"""Half width of the sole that the ankle can load."""
_CORNERS = np.array(
    [(x, y, spec.FOOT_SOLE_Z_M) for x in SOLE_X_M for y in (-SOLE_Y_M, SOLE_Y_M)]
)
_SOLE_CENTER = np.array([spec.FOOT_CENTER_X_M, 0.0, spec.FOOT_SOLE_Z_M])


@dataclass(frozen=True)
class Settings:
    """Choices of the controller. Weights are on accelerations (m/s^2, rad/s^2)."""

    com_weight: float = 60.0
    height_weight: float = 10.0
    trunk_weight: float = 2.0
    posture_weight: tuple[float, float, float] = (0.3, 0.7, 0.5)
    """Legs, waist, arms."""
    swing_posture_weight: float = 0.02
    stance_weight: float = 50.0
    swing_weight: float = 5.0
    dynamics_weight: float = 100.0
    force_weight: float = 3e-3
    """On N; keeps the forces of many corners small and even."""
    capture_gain: float = 1.5
    """Decay of the capture point's error, times omega."""
    trunk_gain: tuple[float, float] = (100.0, 20.0)
    posture_gain: tuple[float, float] = (100.0, 20.0)
    height_gain: tuple[float, float] = (100.0, 20.0)
    swing_gain: tuple[float, float] = (500.0, 45.0)
    stance_damping: float = 20.0
    swing_s: float = 0.30
    lift_m: float = 0.05
    edge_m: float = 0.010
    """A capture point nearer to the edge of the soles than this asks for a step."""
    max_spread_m: float = 0.40
    """Largest sideways distance of the feet after a step."""
    min_spread_m: float = 0.17
    max_stride_m: float = 0.45
    square_m: float = 0.04
    """Feet that stand this far from where the clip has them are put right when all is calm."""
    square_rad: float = 0.15
    shift_s: float = 0.8
    """Longest shift of weight before a step."""
    hurry_s: float = 0.14
    hurry_m: float = 0.12
    capture_spread_m: float = 0.24
    over_foot_m: float = 0.05
    calm_m: float = 0.03
    freeze: float = 0.75
    """Share of the swing after which the foot's goal stays."""
    front_m: float = 0.04
    back_m: float = 0.04
    """A capture point further ahead (behind) of where the clip has it than this at landing moves the step."""
    capture_share: float = 0.6
    max_share: float = 0.8
    over_m: float = 0.03
    """How much further the foot is then put."""
    press_out_m: float = 0.1
    """How far outside of the soles the wanted pressure may be: trunk and arms give the rest."""


class Frames(NamedTuple):
    """What the controller knows of a clip; T frames."""

    qpos: np.ndarray
    qvel: np.ndarray
    qacc: np.ndarray
    com_m: np.ndarray
    com_vel_m_s: np.ndarray
    feet_m: np.ndarray
    """Shape (T, 2, 3)."""
    trunk: np.ndarray
    """Rotation of pelvis and torso, shape (2, T, 3, 3)."""
    trunk_vel_rad_s: np.ndarray
    """Shape (2, T, 3)."""


def frames_of(reference: Reference) -> Frames:
    """Centre of mass, feet and trunk along a clip."""
    g1 = scene.build(spec.EVAL_TIMESTEP_S)
    model, data = g1.model, mujoco.MjData(g1.model)
    com = np.empty((len(reference.qpos), 3))
    for k, qpos in enumerate(reference.qpos):
        data.qpos[:] = qpos
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        com[k] = data.subtree_com[1]
    index = [spec.BODY_NAMES.index(n) for n in ("pelvis", "torso_link")]
    feet = [spec.BODY_NAMES.index(n) for n in spec.FOOT_BODIES]
    gradient = np.gradient
    return Frames(
        qpos=reference.qpos,
        qvel=reference.qvel,
        qacc=gradient(reference.qvel, spec.CONTROL_PERIOD_S, axis=0),
        com_m=com,
        com_vel_m_s=gradient(com, spec.CONTROL_PERIOD_S, axis=0),
        feet_m=np.asarray(reference.body_pos_w[:, feet], float),
        trunk=np.array(
            [
                Rotation.from_quat(np.roll(np.asarray(reference.body_quat_w[:, i], float), -1, axis=1)).as_matrix()
                for i in index
            ]
        ),
        trunk_vel_rad_s=np.asarray(reference.body_ang_vel_w[:, index], float).swapaxes(0, 1),
    )


class Robot:
    """Dynamics of one robot in its present state; scratch arrays of one model."""

    def __init__(self, g1: scene.G1) -> None:
        self.model, self.data, self.handles = g1.model, mujoco.MjData(g1.model), g1.handles
        self.feet = [g1.model.body(n).id for n in spec.FOOT_BODIES]
        self.trunk = [g1.model.body(n).id for n in ("pelvis", "torso_link")]
        self.floor = g1.handles.floor_geom
        self.mass = float(g1.model.body_subtreemass[1])
        self.inertia = np.empty((NV, NV))
        self.bias = np.empty(NV)
        self.sole_geoms = [np.flatnonzero(g1.model.geom_bodyid == f) for f in self.feet]
        self.friction = float(g1.model.geom_friction[g1.handles.robot_geoms[0], 0])
        self.kp = g1.model.actuator_gainprm[g1.handles.ctrl, 0].copy()
        self.kd = -g1.model.actuator_biasprm[g1.handles.ctrl, 2].copy()

    def update(self, qpos: np.ndarray, qvel: np.ndarray) -> None:
        model, data = self.model, self.data
        data.qpos[:], data.qvel[:] = qpos, qvel
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_makeM(model, data)
        mujoco.mj_comVel(model, data)
        mujoco.mj_fullM(model, self.inertia, data.qM)
        mujoco.mj_rne(model, data, 0, self.bias)
        self.com_m = data.subtree_com[1].copy()
        self.com_vel = self.inertia[:3] @ data.qvel / self.mass
        self.feet_m = data.xpos[self.feet].copy()
        self.foot_rot = data.xmat[self.feet].reshape(2, 3, 3).copy()

    def jacobian(self, body: int, point_m: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Linear and angular Jacobian (6, NV) and their time derivative times qvel (6,)."""
        jac, dot = np.empty((6, NV)), np.empty((6, NV))
        mujoco.mj_jac(self.model, self.data, jac[:3], jac[3:], point_m, body)
        mujoco.mj_jacDot(self.model, self.data, dot[:3], dot[3:], point_m, body)
        return jac, dot @ self.data.qvel


def _flat(yaw_rad: float) -> np.ndarray:
    c, s = np.cos(yaw_rad), np.sin(yaw_rad)
    return np.array([[c, -s], [s, c]])


def _soles(feet_m: np.ndarray, yaw: np.ndarray) -> np.ndarray:
    """Corners of both soles in the plane, shape (2, 4, 2)."""
    corners = np.array([(x, y) for x in SOLE_X_M for y in (-SOLE_Y_M, SOLE_Y_M)])
    return np.array([f[:2] + corners @ _flat(a).T for f, a in zip(feet_m, yaw)])


_DIRECTIONS = np.array([(np.cos(a), np.sin(a)) for a in np.linspace(0, 2 * np.pi, 33)[:-1]])


def depth_in_hull(points: np.ndarray, at: np.ndarray) -> float:
    """Smallest distance of a point to the supporting lines of points in 32 directions, negative outside."""
    return float(((points - at) @ _DIRECTIONS.T).max(axis=0).min())


def _rotation_error(wanted: np.ndarray, now: np.ndarray) -> np.ndarray:
    """sin(angle) times axis of the rotation from `now` to `wanted`, world frame."""
    r = wanted @ now.T
    return 0.5 * np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]])


def _turn3(yaw_rad: float) -> np.ndarray:
    c, s = np.cos(yaw_rad), np.sin(yaw_rad)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


class Stepper:
    """One robot's controller: remembers which foot is in the air and where it goes."""

    def __init__(self, frames: Frames, g1: scene.G1, settings: Settings | None = None) -> None:
        self.frames, self.robot, self.s = frames, Robot(g1), settings or Settings()
        self.low, self.high = g1.handles.joint_range_rad.T
        self.swing: int | None = None
        self.shift: int | None = None
        """Foot that is about to swing while the weight goes to the other."""
        self.since = 0
        self.calm = 0
        self.is_squaring = False
        self.steps = 0
        self.depth_m = np.inf

    # ------------------------------------------------------------------------------- state

    def action(
        self, k: int, data: mujoco.MjData, bias_rad: np.ndarray | float = 0.0
    ) -> np.ndarray:
        target = self.target(k, data)
        return (target + bias_rad - np.array(spec.DEFAULT_POSE_RAD)) / np.array(
            spec.ACTION_SCALE_RAD
        )

    def target(self, k: int, data: mujoco.MjData) -> np.ndarray:
        """Servo targets, shape (29,), rad."""
        robot, f = self.robot, self.frames
        robot.update(data.qpos, data.qvel)
        self.k = k
        self.yaw = np.array([np.arctan2(r[1, 0], r[0, 0]) for r in robot.foot_rot])
        self.omega = np.sqrt(GRAVITY_M_S2 / max(robot.com_m[2] - robot.feet_m[:, 2].min() + 0.035, 0.3))
        self.xi = robot.com_m[:2] + robot.com_vel[:2] / self.omega
        stance = [0, 1] if self.swing is None else [1 - self.swing]
        self.heading = float(np.arctan2(np.sin(self.yaw[stance]).mean(), np.cos(self.yaw[stance]).mean()))
        self.turn = _flat(self.heading)
        mid_ref = f.feet_m[k, :, :2].mean(0)
        omega_ref = np.sqrt(GRAVITY_M_S2 / f.com_m[k, 2])
        self.xi_off = self.turn @ (
            f.com_m[k, :2] - mid_ref + f.com_vel_m_s[k, :2] / omega_ref
        )
        self.xi_off_x = float(f.com_m[k, 0] - mid_ref[0])
        self.gap_ref = self.turn @ (f.feet_m[k, 0, :2] - f.feet_m[k, 1, :2])
        """Left minus right foot where the clip has them."""
        touching = self._touching(data)
        self._advance(touching)
        p_des = self._pressure()
        return self._solve(p_des)

    def _touching(self, data: mujoco.MjData) -> list[bool]:
        geoms = data.contact.geom
        floor = (geoms == self.robot.floor).any(1)
        body = self.robot.model.geom_bodyid[geoms]
        return [bool((floor & (body == foot).any(1)).any()) for foot in self.robot.feet]

    def _advance(self, touching: list[bool]) -> None:
        """Moves the state machine on by one control period."""
        s, robot = self.s, self.robot
        self.since += 1
        t = self.since * spec.CONTROL_PERIOD_S
        if self.swing is not None:
            landed = touching[self.swing] and t > 0.6 * s.swing_s
            if landed or t > s.swing_s + 0.15:
                self.swing, self.since, self.calm = None, 0, 0
            else:
                self._aim(t)
                return
        soles = _soles(robot.feet_m, self.yaw)
        depth = depth_in_hull(soles.reshape(-1, 2), self.xi)
        if self.shift is not None:
            gap = self._inner_gap(1 - self.shift, self.xi)
            wanted = self._wanted_gap()
            hurry = not self.is_squaring and (t >= s.hurry_s or depth < -s.hurry_m)
            ahead = (self.turn.T @ (self.xi - robot.feet_m[1 - self.shift, :2]))[0]
            over = not self.is_squaring or abs(ahead - self.xi_off_x) < s.over_foot_m
            if (gap < wanted and over) or hurry:
                self._lift(self.shift)
            elif t > s.shift_s:
                self.shift, self.since, self.calm = None, 0, -25
            return
        is_leaving = depth <= self.depth_m
        self.depth_m = depth
        if depth < s.edge_m and (is_leaving or depth < -s.edge_m):
            self.is_squaring = False
            costs = [self._plan(foot, s.swing_s)[2] for foot in (0, 1)]
            self._begin(int(np.argmin(costs)))
            return
        mid = robot.feet_m[:, :2].mean(0)
        off = np.linalg.norm(self.xi - mid - self.xi_off)
        self.calm = self.calm + 1 if off < s.calm_m else min(self.calm, 0)
        wrong = np.linalg.norm(robot.feet_m[0, :2] - robot.feet_m[1, :2] - self.gap_ref)
        twist = abs(np.arctan2(np.sin(self.yaw[0] - self.yaw[1]), np.cos(self.yaw[0] - self.yaw[1])))
        if self.calm > 5 and (wrong > s.square_m or twist > s.square_rad):
            self.is_squaring = True
            away = [np.linalg.norm(self.xi - robot.feet_m[1 - foot, :2]) for foot in (0, 1)]
            self._begin(int(np.argmin(away)))

    def _begin(self, foot: int) -> None:
        self.shift, self.since = foot, 0
        gap = self._inner_gap(1 - foot, self.xi)
        if not self.is_squaring and gap < self._wanted_gap():
            self._lift(foot)

    def _lift(self, foot: int) -> None:
        self.swing, self.shift, self.since = foot, None, 0
        self.steps += 1
        self.start_m = self.robot.feet_m[foot].copy()
        self.aim_xy = self.start_m[:2].copy()
        self.aim_yaw = self.heading
        self._aim(0.0)

    def _inner_gap(self, stance: int, xi: np.ndarray) -> float:
        """How far the capture point is inside of the inner edge of the standing foot, m."""
        side = 1.0 if stance == 0 else -1.0
        local = self.turn.T @ (self.robot.feet_m[stance, :2] - xi)
        return float(side * local[1] - SOLE_Y_M)

    def _wanted_gap(self) -> float:
        """Gap at lift-off from which the foot can land where it should."""
        s = self.s
        grow = np.exp(self.omega * s.swing_s)
        if self.is_squaring:
            return float((abs((self.turn.T @ self.gap_ref)[1]) / 2 - SOLE_Y_M) / grow)
        return float((s.capture_spread_m - SOLE_Y_M) / grow)

    def _aim(self, t: float) -> None:
        """Where the swinging foot goes: where the clip has it, moved to where the capture point will be."""
        self.press, landing_aim, _cost = self._plan(self.swing, max(self.s.swing_s - t, 0.0))
        if t <= self.s.freeze * self.s.swing_s:
            self.aim_xy, self.aim_yaw = landing_aim, self.heading

    def _plan(self, foot: int, left_s: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Pressure point, place of the foot, and cost of swinging `foot` down in `left_s`."""
        s, robot = self.s, self.robot
        stance, side = 1 - foot, 1.0 if foot == 0 else -1.0
        stance_xy = robot.feet_m[stance, :2]
        nominal = side * self.gap_ref
        share = 0.5 if self.is_squaring else s.capture_share
        goal = stance_xy + nominal * share + self.xi_off
        grow = np.exp(self.omega * left_s)
        p = (goal - self.xi * grow) / (1 - grow) if left_s > 0.04 else self.xi
        press = self._into_sole(stance, p)
        landing = press + (self.xi - press) * grow
        local = self.turn.T @ (landing - stance_xy)  # capture point at landing, from the standing foot
        wish = self.turn.T @ nominal
        aim = wish.copy()
        aim[1] = side * max(side * aim[1], side * local[1] / s.max_share)
        part = np.clip(local[1] / aim[1], 0.35, 1.0)
        middle = self.xi_off_x
        if local[0] > part * aim[0] + middle + s.front_m:
            aim[0] = (local[0] - middle - s.front_m + s.over_m) / part
        elif local[0] < part * aim[0] + middle - s.back_m:
            aim[0] = (local[0] - middle + s.back_m - s.over_m) / part
        reach = np.array(
            [
                np.clip(aim[0], -s.max_stride_m, s.max_stride_m),
                side * np.clip(side * aim[1], s.min_spread_m, s.max_spread_m),
            ]
        )
        outside = max(0.0, -side * local[1] - SOLE_Y_M)  # beyond the standing foot, away from this one
        cost = np.abs(aim - reach).sum() + 1.5 * outside + 0.2 * np.abs(reach - wish).sum()
        return press, stance_xy + self.turn @ reach, float(cost)

    def _into_sole(self, foot: int, p: np.ndarray) -> np.ndarray:
        turn = _flat(self.yaw[foot])
        local = turn.T @ (p - self.robot.feet_m[foot, :2])
        local = np.clip(local, (SOLE_X_M[0] + 0.01, -SOLE_Y_M), (SOLE_X_M[1] - 0.01, SOLE_Y_M))
        return self.robot.feet_m[foot, :2] + turn @ local

    def _pressure(self) -> np.ndarray:
        """Where the soles should press, m."""
        s, robot, f, k = self.s, self.robot, self.frames, self.k
        if self.swing is not None:
            return self.press
        mid = robot.feet_m[:, :2].mean(0)
        goal = mid + self.xi_off
        gain = s.capture_gain
        if self.shift is not None:
            stance = 1 - self.shift
            side = 1.0 if stance == 0 else -1.0
            inner = self._wanted_gap() * 0.6 + SOLE_Y_M
            local = self.turn.T @ (goal - robot.feet_m[stance, :2])
            local[1] = -side * inner
            if self.is_squaring:
                local[0] = self.xi_off_x
            goal = robot.feet_m[stance, :2] + self.turn @ local
            gain = 2.0
        rate = np.zeros(2)
        if self.shift is None:
            n = min(k + 1, len(f.com_m) - 1)
            omega_ref = np.sqrt(GRAVITY_M_S2 / f.com_m[k, 2])
            nxt = f.com_m[n, :2] + f.com_vel_m_s[n, :2] / omega_ref
            now = f.com_m[k, :2] + f.com_vel_m_s[k, :2] / omega_ref
            rate = self.turn @ (nxt - now) / spec.CONTROL_PERIOD_S
        return self._near_soles(self.xi + gain * (self.xi - goal) - rate / self.omega)

    def _near_soles(self, p: np.ndarray) -> np.ndarray:
        """A point moved to within `press_out_m` of the soles, on the line to the middle of the feet."""
        soles = _soles(self.robot.feet_m, self.yaw).reshape(-1, 2)
        middle = soles.mean(axis=0)
        reach = ((soles - middle) @ _DIRECTIONS.T).max(axis=0) + self.s.press_out_m
        along = (p - middle) @ _DIRECTIONS.T
        return middle + (p - middle) / max(1.0, (along / reach).max())

    # ------------------------------------------------------------------------------- solve

    def _solve(self, p_des: np.ndarray) -> np.ndarray:
        s, robot, f, k = self.s, self.robot, self.frames, self.k
        data = robot.data
        qvel = data.qvel
        rows: list[np.ndarray] = []
        rhs: list[np.ndarray] = []

        def add(weight, matrix, value):
            rows.append(np.atleast_2d(matrix) * np.atleast_1d(weight)[:, None])
            rhs.append(np.atleast_1d(value) * weight)

        turn3 = _turn3(self.heading)
        # centre of mass: c'' = (M[:3] q'' + h[:3]) / m - g
        jac_com = robot.inertia[:3] / robot.mass
        bias_com = robot.bias[:3] / robot.mass - np.array([0, 0, GRAVITY_M_S2])
        acc_xy = self.omega**2 * (robot.com_m[:2] - p_des)
        ground = robot.feet_m[:, 2].mean() if self.swing is None else robot.feet_m[1 - self.swing, 2]
        z_ref = f.com_m[k, 2] - f.feet_m[k, :, 2].mean() + ground
        acc_z = s.height_gain[0] * (z_ref - robot.com_m[2]) + s.height_gain[1] * (
            f.com_vel_m_s[k, 2] - robot.com_vel[2]
        )
        add(np.array([s.com_weight, s.com_weight, s.height_weight]), jac_com, np.array([*acc_xy, acc_z]) - bias_com)
        # trunk
        for body, rot, vel in zip(robot.trunk, f.trunk, f.trunk_vel_rad_s, strict=True):
            jac, dot = robot.jacobian(body, data.xpos[body])
            error = _rotation_error(turn3 @ rot[k], data.xmat[body].reshape(3, 3))
            acc = s.trunk_gain[0] * error + s.trunk_gain[1] * (turn3 @ vel[k] - jac[3:] @ qvel)
            add(np.full(3, s.trunk_weight), jac[3:], acc - dot[3:])
        # posture
        legs, waist, arms = s.posture_weight
        weight = np.repeat([legs, waist, arms], [12, 3, 14])
        if self.swing is not None:
            weight[6 * self.swing : 6 * self.swing + 6] = s.swing_posture_weight
        select = np.zeros((spec.N_JOINTS, NV))
        select[:, 6:] = np.eye(spec.N_JOINTS)
        acc = (
            f.qacc[k, 6:]
            + s.posture_gain[0] * (f.qpos[k, 7:] - data.qpos[7:])
            + s.posture_gain[1] * (f.qvel[k, 6:] - qvel[6:])
        )
        add(weight, select, acc)
        # feet and forces
        generators = []
        for foot in (0, 1):
            body = robot.feet[foot]
            center = robot.feet_m[foot] + robot.foot_rot[foot] @ _SOLE_CENTER
            if foot == self.swing:
                jac, dot = robot.jacobian(body, robot.feet_m[foot])
                acc = self._swing_acceleration(jac @ qvel)
                add(np.full(6, s.swing_weight), jac, acc - dot)
                continue
            jac, dot = robot.jacobian(body, center)
            acc = -s.stance_damping * (jac @ qvel)
            add(np.full(6, s.stance_weight), jac, acc - dot)
            mu = 0.7 * robot.friction
            edges = np.array([(mu, 0.0, 1.0), (-mu, 0.0, 1.0), (0.0, mu, 1.0), (0.0, -mu, 1.0)])
            lever = (_CORNERS - _SOLE_CENTER) @ robot.foot_rot[foot].T
            torque = np.cross(lever[:, None], edges[None]).reshape(-1, 3)
            wrench = np.hstack([np.tile(edges, (4, 1)), torque])
            generators.append(jac.T @ wrench.T)
        push = np.hstack(generators)
        n = push.shape[1]
        scale = s.dynamics_weight / robot.mass
        a = np.vstack([*rows, robot.inertia[:6] * scale])
        b = np.concatenate([*rhs, -robot.bias[:6] * scale])
        g = np.zeros((len(a), n))
        g[-6:] = -push[:6] * scale
        q, r = np.linalg.qr(a, mode="complete")
        rest = q[:, NV:].T
        stacked = np.vstack([rest @ g, s.force_weight * np.eye(n)])
        force, _ = nnls(stacked, np.concatenate([rest @ b, np.zeros(n)]))
        qacc = np.linalg.solve(r[:NV], (q.T @ (b - g @ force))[:NV])
        self.want, self.qacc, self.qpcom = np.array([*acc_xy, acc_z]), qacc, jac_com @ qacc + bias_com
        tau = (robot.inertia @ qacc + robot.bias - push @ force)[6:]
        self.tau = tau
        effort = np.array(spec.EFFORT_N_M)
        tau = np.clip(tau, -effort, effort)
        dt = spec.CONTROL_PERIOD_S
        joint_q, joint_v, joint_a = data.qpos[7:], qvel[6:], np.clip(qacc[6:], -200, 200)
        ahead_v = joint_v + joint_a * dt / 2
        ahead_q = joint_q + joint_v * dt / 2 + joint_a * dt * dt / 6
        target = ahead_q + (tau + robot.kd * ahead_v) / robot.kp
        return np.clip(target, self.low, self.high)

    def _swing_acceleration(self, velocity: np.ndarray) -> np.ndarray:
        s, robot, foot = self.s, self.robot, self.swing
        t = self.since * spec.CONTROL_PERIOD_S
        x = min(t / s.swing_s, 1.0)
        blend = x**3 * (10 - 15 * x + 6 * x * x)
        rate = 30 * x**2 * (1 - x) ** 2 / s.swing_s
        bend = 60 * x * (1 - x) * (1 - 2 * x) / s.swing_s**2
        way = np.array([*(self.aim_xy - self.start_m[:2]), 0.0])
        pos = self.start_m + blend * way
        vel, acc = rate * way, bend * way
        h = s.lift_m
        pos[2] += h * 16 * x * x * (1 - x) ** 2
        vel[2] += h * 32 * x * (1 - x) * (1 - 2 * x) / s.swing_s
        acc[2] += h * 32 * (1 - 6 * x + 6 * x * x) / s.swing_s**2
        late = t - s.swing_s
        if late > -0.04:
            pos[2] -= 0.3 * (late + 0.04)
            vel[2] -= 0.3
        kp, kd = s.swing_gain
        linear = acc + kp * (pos - robot.feet_m[foot]) + kd * (vel - velocity[:3])
        error = _rotation_error(_turn3(self.aim_yaw), robot.foot_rot[foot])
        angular = kp * error - kd * velocity[3:]
        return np.concatenate([linear, angular])
