"""Whole-body inverse dynamics of the robot of f04: from wanted accelerations to servo targets.

Unknown are the accelerations q'' and the forces f >= 0 along the edges of the friction cones at the
corners of the standing soles. They minimise

    sum over tasks |w (J q'' + J' q' - a)|^2 + |w_d (M q'' + h - J_c^T f)_root / m|^2 + |w_f f|^2,

a least-squares problem in which q'' is free: it is eliminated by a QR decomposition, and what is left
in f is a small problem with non-negative unknowns. Torques follow from the joint rows of the equation
of motion, targets from the servo's law at the middle of the control period.
"""

from typing import NamedTuple

import mujoco
import numpy as np
from scipy.optimize import nnls

from families.f04_tracking import scene, spec

NV = 6 + spec.N_JOINTS
SOLE_X_M = (-0.05, 0.125)
"""Heel and toe of the sole that carry, foot frame; the capsules reach 0.004 to 0.007 m further."""
SOLE_Y_M = 0.018
"""Half width of the sole that the ankle can load: 7 N m of its roll servo over the weight."""
CORNERS_M = np.array([(x, y, spec.FOOT_SOLE_Z_M) for x in SOLE_X_M for y in (-SOLE_Y_M, SOLE_Y_M)])
SOLE_CENTER_M = np.array([spec.FOOT_CENTER_X_M, 0.0, spec.FOOT_SOLE_Z_M])
CONE_SHARE = 0.7
"""Friction that is used; a pyramid inside of the cone has 1 / sqrt(2)."""
DYNAMICS_WEIGHT = 100.0
"""w_d, far above the tasks: the equation of motion is no wish."""
FORCE_WEIGHT_1_N = 3e-3
"""w_f: keeps the forces of many corners small and even."""
MAX_JOINT_ACC_RAD_S2 = 200.0
"""Accelerations beyond this are not extrapolated over a control period."""


class Task(NamedTuple):
    """Wanted acceleration of something that moves with J q'' + J' q'."""

    weight: np.ndarray | float
    """w, per row or for all."""
    jacobian: np.ndarray
    """J, shape (n, 35)."""
    acceleration: np.ndarray
    """a - J' q', shape (n,)."""


class Robot:
    """Dynamics of one robot (its drawn masses, gains and friction) at one state.

    Args:
        g1: Model with the draw of the trial.
    """

    def __init__(self, g1: scene.G1) -> None:
        model, handles = g1.model, g1.handles
        self.model, self._data = model, mujoco.MjData(model)
        self.feet = [model.body(name).id for name in spec.FOOT_BODIES]
        self.trunk = [model.body(name).id for name in ("pelvis", "torso_link")]
        self.floor = handles.floor_geom
        self.mass_kg = float(model.body_subtreemass[1])
        self._friction = float(model.geom_friction[handles.robot_geoms[0], 0])
        self._kp = model.actuator_gainprm[handles.ctrl, 0].copy()
        self._kd = -model.actuator_biasprm[handles.ctrl, 2]
        self._low, self._high = handles.joint_range_rad.T
        self._inertia, self._bias = np.empty((NV, NV)), np.empty(NV)

    def update(self, qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Takes in a state, shapes (36,) and (35,)."""
        model, data = self.model, self._data
        data.qpos[:], data.qvel[:] = qpos, qvel
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_makeM(model, data)
        mujoco.mj_comVel(model, data)
        mujoco.mj_fullM(model, self._inertia, data.qM)
        mujoco.mj_rne(model, data, 0, self._bias)
        self.joint_pos, self.qvel = data.qpos[7:].copy(), data.qvel.copy()
        self.com_m = data.subtree_com[1].copy()
        self.com_vel_m_s = self._inertia[:3] @ data.qvel / self.mass_kg
        self.feet_m = data.xpos[self.feet].copy()
        self.foot_rot = data.xmat[self.feet].reshape(2, 3, 3).copy()
        self.trunk_rot = data.xmat[self.trunk].reshape(2, 3, 3).copy()

    def touching(self, data: mujoco.MjData) -> list[bool]:
        """Feet that touch the floor in the data of the trial."""
        geoms = data.contact.geom
        on_floor = (geoms == self.floor).any(axis=1)
        body = self.model.geom_bodyid[geoms]
        return [bool((on_floor & (body == foot).any(axis=1)).any()) for foot in self.feet]

    # --------------------------------------------------------------------------------- tasks

    def move_com(self, weight: np.ndarray, acceleration: np.ndarray) -> Task:
        """Centre of mass: c'' = (M[:3] q'' + h[:3]) / m - g, world frame."""
        jacobian = self._inertia[:3] / self.mass_kg
        offset = self._bias[:3] / self.mass_kg - (0.0, 0.0, spec.SCENE.gravity_m_s2)
        return Task(weight, jacobian, acceleration - offset)

    def move_joints(self, weight: np.ndarray, acceleration: np.ndarray) -> Task:
        """All joints, shape (29,) rad/s^2."""
        return Task(weight, np.eye(NV)[6:], acceleration)

    def turn_trunk(self, part: int, weight: float, wanted: "Turn", gain: "Gain") -> Task:
        """Rotation of the pelvis (0) or the torso (1)."""
        body = self.trunk[part]
        jacobian, offset = self._jacobian(body, self._data.xpos[body])
        error = rotation_error(wanted.rotation, self.trunk_rot[part])
        rate = wanted.rate_rad_s - jacobian[3:] @ self.qvel
        return Task(weight, jacobian[3:], gain.p * error + gain.d * rate - offset[3:])

    def hold_foot(self, foot: int, weight: float, damping_1_s: float) -> Task:
        """A standing sole does not move."""
        jacobian, offset = self._jacobian(self.feet[foot], self._sole_m(foot))
        return Task(weight, jacobian, -damping_1_s * (jacobian @ self.qvel) - offset)

    def move_foot(self, foot: int, weight: float, wanted: "Path", gain: "Gain") -> Task:
        """A foot in the air follows a path with a flat sole."""
        jacobian, offset = self._jacobian(self.feet[foot], self.feet_m[foot])
        velocity = jacobian @ self.qvel
        linear = wanted.acc + gain.p * (wanted.pos_m - self.feet_m[foot])
        linear += gain.d * (wanted.vel - velocity[:3])
        error = rotation_error(turn_z(wanted.yaw_rad), self.foot_rot[foot])
        angular = gain.p * error - gain.d * velocity[3:]
        return Task(weight, jacobian, np.concatenate([linear, angular]) - offset)

    # --------------------------------------------------------------------------------- solve

    def targets(self, tasks: list[Task], standing: list[int]) -> np.ndarray:
        """Servo targets that come closest to the tasks with the given feet on the floor, (29,), rad."""
        forces = np.hstack([self._force_directions(foot) for foot in standing])
        scale = DYNAMICS_WEIGHT / self.mass_kg
        left = [t.jacobian * np.reshape(t.weight, (-1, 1)) for t in tasks]
        right = [t.acceleration * t.weight for t in tasks]
        a = np.vstack([*left, self._inertia[:6] * scale])
        b = np.concatenate([*right, -self._bias[:6] * scale])
        effect = np.zeros((len(a), forces.shape[1]))
        effect[-6:] = -forces[:6] * scale
        q, r = np.linalg.qr(a, mode="complete")
        rest = q[:, NV:].T
        small = FORCE_WEIGHT_1_N * np.eye(forces.shape[1])
        force_n, _ = nnls(
            np.vstack([rest @ effect, small]), np.concatenate([rest @ b, np.zeros(len(small))])
        )
        qacc = np.linalg.solve(r[:NV], (q.T @ (b - effect @ force_n))[:NV])
        torque = (self._inertia @ qacc + self._bias - forces @ force_n)[6:]
        effort = np.array(spec.EFFORT_N_M)
        return self._servo(np.clip(torque, -effort, effort), qacc[6:])

    def _servo(self, torque: np.ndarray, acc: np.ndarray) -> np.ndarray:
        """u with kp (u - q) - kd q' = torque for q and q' in the middle of the coming period."""
        half_s = spec.CONTROL_PERIOD_S / 2.0
        acc = np.clip(acc, -MAX_JOINT_ACC_RAD_S2, MAX_JOINT_ACC_RAD_S2)
        velocity = self.qvel[6:] + acc * half_s
        position = self.joint_pos + self.qvel[6:] * half_s + acc * half_s**2 / 2.0
        target = position + (torque + self._kd * velocity) / self._kp
        return np.clip(target, self._low, self._high)

    def _force_directions(self, foot: int) -> np.ndarray:
        """Generalised force of a unit force along each cone edge at each corner, shape (35, 16)."""
        mu = CONE_SHARE * self._friction
        edges = np.array([(mu, 0.0, 1.0), (-mu, 0.0, 1.0), (0.0, mu, 1.0), (0.0, -mu, 1.0)])
        lever = (CORNERS_M - SOLE_CENTER_M) @ self.foot_rot[foot].T
        torque = np.cross(lever[:, None], edges[None]).reshape(-1, 3)
        wrench = np.hstack([np.tile(edges, (len(CORNERS_M), 1)), torque])
        return self._jacobian(self.feet[foot], self._sole_m(foot))[0].T @ wrench.T

    def _sole_m(self, foot: int) -> np.ndarray:
        return self.feet_m[foot] + self.foot_rot[foot] @ SOLE_CENTER_M

    def _jacobian(self, body: int, point_m: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """J of a point's linear and a body's angular velocity, shape (6, 35), and J' q', shape (6,)."""
        jac, dot = np.empty((6, NV)), np.empty((6, NV))
        mujoco.mj_jac(self.model, self._data, jac[:3], jac[3:], point_m, body)
        mujoco.mj_jacDot(self.model, self._data, dot[:3], dot[3:], point_m, body)
        return jac, dot @ self.qvel


class Gain(NamedTuple):
    """Acceleration per error and per error of the rate."""

    p: float
    """1/s^2."""
    d: float
    """1/s."""


class Turn(NamedTuple):
    """A wanted rotation."""

    rotation: np.ndarray
    """Shape (3, 3), world."""
    rate_rad_s: np.ndarray
    """Shape (3,), world."""


class Path(NamedTuple):
    """A wanted foot motion at one instant, world frame; the sole stays level."""

    pos_m: np.ndarray
    vel: np.ndarray
    """m/s."""
    acc: np.ndarray
    """m/s^2."""
    yaw_rad: float


def swing_path(
    start_m: np.ndarray,
    place_m: np.ndarray,
    t: float,
    swing_s: float,
    lift_m: float,
    descent_m_s: float,
    yaw_rad: float,
) -> Path:
    """A foot's swing at time t: quintic in the plane, a bump upwards, then down until it finds the floor.

    Args:
        start_m: Ankle at lift-off, shape (3,).
        place_m: Where it goes, shape (2,).
        t: Time since lift-off, s.
        swing_s: Duration.
        lift_m: Height of the bump.
        descent_m_s: Speed of the last two control periods and of the search for the floor.
        yaw_rad: Heading of the foot.
    """
    x = min(t / swing_s, 1.0)
    way = np.array([*(place_m - start_m[:2]), 0.0])
    pos = start_m + way * x**3 * (10.0 - 15.0 * x + 6.0 * x * x)
    vel = way * 30.0 * x**2 * (1.0 - x) ** 2 / swing_s
    acc = way * 60.0 * x * (1.0 - x) * (1.0 - 2.0 * x) / swing_s**2
    pos[2] += lift_m * 16.0 * (x * (1.0 - x)) ** 2
    vel[2] += lift_m * 32.0 * x * (1.0 - x) * (1.0 - 2.0 * x) / swing_s
    acc[2] += lift_m * 32.0 * (1.0 - 6.0 * x + 6.0 * x * x) / swing_s**2
    late_s = t - swing_s + 2.0 * spec.CONTROL_PERIOD_S
    if late_s > 0.0:
        pos[2] -= descent_m_s * late_s
        vel[2] -= descent_m_s
    return Path(pos, vel, acc, yaw_rad)


def turn_z(yaw_rad: float) -> np.ndarray:
    """Rotation about the vertical, shape (3, 3)."""
    c, s = np.cos(yaw_rad), np.sin(yaw_rad)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def rotation_error(wanted: np.ndarray, now: np.ndarray) -> np.ndarray:
    """sin(angle) times axis of the rotation from `now` to `wanted`, both (3, 3), world frame."""
    r = wanted @ now.T
    return 0.5 * np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]])
