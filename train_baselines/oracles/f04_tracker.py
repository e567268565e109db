"""Privileged tracker of f04: feed-forward torques and a time-varying LQR on the true state.

It never steps: both soles stay where the clip has them, and what balances is ankles, hips and arms.
In words: inverse dynamics along the clip gives the servo targets that would produce it; the simulator,
linearised along the clip, gives by a backward Riccati recursion the gains that hold it there. Before
the error is formed the clip is moved by the planar motion that puts its feet onto the robot's feet.
"""

import copy
from dataclasses import dataclass

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from families.f04_tracking import scene, spec
from families.f04_tracking.reference import Reference

NV = 6 + spec.N_JOINTS
"""Degrees of freedom; the error state has twice as many numbers."""


@dataclass(frozen=True)
class Settings:
    """Choices of the tracker."""

    wrench_weight: tuple[float, ...] = (0.3, 0.3, 1.0, 0.02, 0.03, 0.01)
    """How willingly a foot gives Fx, Fy, Fz (N), Mx, My, Mz (N m) about its sole's centre."""
    sink_m: float = 0.0004
    """Root lowered by this, so that the soles press on the floor; under weight they sink 0.3-0.4 mm."""
    contact_height_m: float = 0.0008
    """A sole lower than this in the clip is in contact."""
    min_load: float = 0.2
    """Share of the vertical load from which a foot is counted on: with less it may lift off."""
    release_height_m: float = 0.01
    """A sole this high or higher in the clip has no share in the anchor."""
    stride: int = 5
    """Frames between two linearisations."""
    root_pos_weight: tuple[float, float, float] = (20.0, 20.0, 100.0)
    """On m^2."""
    root_rot_weight: tuple[float, float, float] = (100.0, 100.0, 20.0)
    """On rad^2, roll, pitch, yaw."""
    joint_weight: float = 10.0
    """On rad^2."""
    root_lin_vel_weight: float = 10.0
    root_ang_vel_weight: float = 2.0
    joint_vel_weight: float = 0.2
    control_weight: float = 1.0
    """On rad^2 of servo target."""
    end_iterations: int = 30
    """Riccati steps at the last frame before the recursion starts."""
    fd_epsilon: float = 1e-6
    """Step of the finite differences."""


def state_weight(settings: Settings) -> np.ndarray:
    """Diagonal of Q, shape (70,): tangent of qpos, then qvel."""
    n = spec.N_JOINTS
    return np.concatenate(
        [
            settings.root_pos_weight,
            settings.root_rot_weight,
            np.full(n, settings.joint_weight),
            np.full(3, settings.root_lin_vel_weight),
            np.full(3, settings.root_ang_vel_weight),
            np.full(n, settings.joint_vel_weight),
        ]
    )


@dataclass(frozen=True)
class Plan:
    """What the tracker knows of a clip. T frames."""

    qpos: np.ndarray
    """The clip with the root sunk, shape (T, 36)."""
    qvel: np.ndarray
    """Shape (T, 35)."""
    feedforward_rad: np.ndarray
    """Servo targets along the clip, shape (T, 29)."""
    gains: np.ndarray
    """Target change per state error, shape (T, 29, 70)."""
    feet_m: np.ndarray
    """Ankle positions in the clip, left and right, shape (T, 2, 3)."""
    support: np.ndarray
    """Share of each foot in the anchor, shape (T, 2): a half each, or all of the one that stands."""
    firm: np.ndarray
    """Feet that the linearisation counts on, shape (T, 2)."""
    transition: np.ndarray
    """State map over one control period at every `stride`-th frame, shape (S, 70, 70)."""
    control: np.ndarray
    """Effect of a target over one control period, shape (S, 70, 29)."""


class Tracker:
    """Servo targets from the true state. Prepare once per clip (about 10 s), then ask per frame."""

    def __init__(self, reference: Reference, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._g1 = scene.build(spec.EVAL_TIMESTEP_S, frictionloss_n_m=0.0)
        self._feet = [self._g1.model.body(name).id for name in spec.FOOT_BODIES]
        self.plan = prepare(self._g1, reference, self.settings)

    def error(self, k: int, qpos: np.ndarray, qvel: np.ndarray, feet_m: np.ndarray) -> np.ndarray:
        """State error against frame k of the foot-anchored clip, shape (70,), in the clip's own heading.

        Args:
            k: Frame.
            qpos: Shape (36,).
            qvel: Shape (35,).
            feet_m: World positions of the ankles, left and right, shape (2, 3).
        """
        plan = self.plan
        ref_qpos, ref_qvel = plan.qpos[k].copy(), plan.qvel[k].copy()
        ours, clip = feet_m[0, :2] - feet_m[1, :2], plan.feet_m[k, 0, :2] - plan.feet_m[k, 1, :2]
        yaw_rad = np.arctan2(clip[0] * ours[1] - clip[1] * ours[0], clip @ ours)
        turn = Rotation.from_euler("z", yaw_rad)
        share = plan.support[k]
        arm_m = np.array([*(ref_qpos[:2] - share @ plan.feet_m[k, :, :2]), 0.0])
        ref_qpos[:2] = share @ feet_m[:, :2] + turn.apply(arm_m)[:2]
        root = turn * Rotation.from_quat(np.roll(ref_qpos[3:7], -1))
        ref_qpos[3:7] = np.roll(root.as_quat(), 1)
        ref_qvel[:3] = turn.apply(ref_qvel[:3])
        tangent = np.empty(NV)
        mujoco.mj_differentiatePos(self._g1.model, tangent, 1.0, ref_qpos, qpos)
        error = np.concatenate([tangent, qvel - ref_qvel])
        for world in (slice(0, 3), slice(NV, NV + 3)):  # the gains know the clip's heading only
            error[world] = turn.apply(error[world], inverse=True)
        return error

    def target(self, k: int, data: mujoco.MjData) -> np.ndarray:
        """Servo targets at frame k for a state whose kinematics are up to date, shape (29,), rad."""
        error = self.error(k, data.qpos, data.qvel, data.xpos[self._feet])
        return self.plan.feedforward_rad[k] + self.plan.gains[k] @ error

    def action(
        self, k: int, data: mujoco.MjData, encoder_bias_rad: np.ndarray | float = 0.0
    ) -> np.ndarray:
        """The action that makes `target` the true servo target, shape (29,)."""
        offset = self.target(k, data) + encoder_bias_rad - np.array(spec.DEFAULT_POSE_RAD)
        return offset / np.array(spec.ACTION_SCALE_RAD)


def prepare(g1: scene.G1, reference: Reference, settings: Settings) -> Plan:
    """Feed-forward, linearisation and gains along a clip."""
    foot_index = [spec.BODY_NAMES.index(name) for name in spec.FOOT_BODIES]
    feet_m = reference.body_pos_w[:, foot_index]
    height_m = np.maximum(feet_m[:, :, 2] + spec.FOOT_SOLE_Z_M, 0.0)
    contact = height_m < settings.contact_height_m
    contact |= ~contact.any(axis=1, keepdims=True)  # a flight phase keeps both, for want of a floor
    support = np.maximum(1.0 - height_m / settings.release_height_m, 1e-3)
    support /= support.sum(axis=1, keepdims=True)
    qpos, qvel = reference.qpos.copy(), reference.qvel.copy()
    qpos[:, 2] -= settings.sink_m
    feedforward, load = _feedforward(g1, qpos, qvel, contact, settings)
    firm = load >= settings.min_load
    transition, control = _linearise(g1, qpos, qvel, feedforward, firm, settings)
    gains = _riccati(transition, control, len(qpos), settings)
    return Plan(qpos, qvel, feedforward, gains, feet_m, support, firm, transition, control)


def _feedforward(
    g1: scene.G1, qpos: np.ndarray, qvel: np.ndarray, contact: np.ndarray, settings: Settings
) -> tuple[np.ndarray, np.ndarray]:
    """u = q_ref + (tau + kd qd_ref) / kp with tau from inverse dynamics and distributed foot wrenches.

    Returns:
        Targets, shape (T, 29), rad, and each foot's share of the vertical load, shape (T, 2).
    """
    model, data = g1.model, mujoco.MjData(g1.model)
    feet = [model.body(name).id for name in spec.FOOT_BODIES]
    qacc = np.gradient(qvel, spec.CONTROL_PERIOD_S, axis=0)
    kp, kd = np.array(spec.KP_N_M_PER_RAD), np.array(spec.KD_N_M_S_PER_RAD)
    inertia, jac = np.empty((NV, NV)), np.empty((6, NV))
    weight = np.array(settings.wrench_weight)
    targets, load = np.empty((len(qpos), spec.N_JOINTS)), np.zeros((len(qpos), 2))
    for k in range(len(qpos)):
        data.qpos[:], data.qvel[:] = qpos[k], qvel[k]
        mujoco.mj_forward(model, data)
        mujoco.mj_fullM(model, inertia, data.qM)
        need = inertia @ qacc[k] + data.qfrc_bias
        columns, standing = [], np.flatnonzero(contact[k])
        for foot in standing:
            sole_m = data.xpos[feet[foot]] + (spec.FOOT_CENTER_X_M, 0.0, spec.FOOT_SOLE_Z_M)
            mujoco.mj_jac(model, data, jac[:3], jac[3:], sole_m, feet[foot])
            columns.append(jac.T * weight)
        push = np.hstack(columns)
        wrench = np.linalg.lstsq(push[:6], need[:6], rcond=None)[0]
        tau = (need - push @ wrench)[6:]
        targets[k] = qpos[k, 7:] + (tau + kd * qvel[k, 6:]) / kp
        load[k, standing] = wrench[2::6] / wrench[2::6].sum()
    return targets, load


def _linearise(
    g1: scene.G1,
    qpos: np.ndarray,
    qvel: np.ndarray,
    targets: np.ndarray,
    firm: np.ndarray,
    settings: Settings,
) -> tuple[np.ndarray, np.ndarray]:
    """State and control maps over one control period, at every `stride`-th frame.

    A foot that is not `firm` touches nothing: where its load is small, a gain that counts on it would
    pull at a foot that can only push.
    """
    model, data = copy.copy(g1.model), mujoco.MjData(g1.model)
    soles = [np.flatnonzero(model.geom_bodyid == model.body(n).id) for n in spec.FOOT_BODIES]
    frames = range(0, len(qpos), settings.stride)
    transition = np.empty((len(frames), 2 * NV, 2 * NV))
    control = np.empty((len(frames), 2 * NV, spec.N_JOINTS))
    for i, k in enumerate(frames):
        for sole, holds in zip(soles, firm[k], strict=True):
            model.geom_contype[sole] = model.geom_conaffinity[sole] = int(holds)
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:], data.ctrl[g1.handles.ctrl] = qpos[k], qvel[k], targets[k]
        mujoco.mj_forward(model, data)
        a, b = np.zeros((2 * NV, 2 * NV)), np.zeros((2 * NV, spec.N_JOINTS))
        mujoco.mjd_transitionFD(model, data, settings.fd_epsilon, True, a, b, None, None)
        b = b[:, g1.handles.ctrl]
        a_all, b_all = np.eye(2 * NV), np.zeros_like(b)
        for _ in range(spec.EVAL_SUBSTEPS):
            a_all, b_all = a @ a_all, a @ b_all + b
        transition[i], control[i] = a_all, b_all
    return transition, control


def _riccati(
    transition: np.ndarray, control: np.ndarray, frames: int, settings: Settings
) -> np.ndarray:
    """Backward recursion; returns du / dx, shape (frames, 29, 70)."""
    q, r = np.diag(state_weight(settings)), settings.control_weight * np.eye(spec.N_JOINTS)
    gains = np.empty((frames, spec.N_JOINTS, 2 * NV))
    value = q.copy()

    def back(value: np.ndarray, i: int) -> tuple[np.ndarray, np.ndarray]:
        a, b = transition[i], control[i]
        gain = -np.linalg.solve(r + b.T @ value @ b, b.T @ value @ a)
        new = q + a.T @ value @ (a + b @ gain)
        return (new + new.T) / 2.0, gain

    for _ in range(settings.end_iterations):
        value, _gain = back(value, len(transition) - 1)
    for k in reversed(range(frames)):
        nearest = min(round(k / settings.stride), len(transition) - 1)
        value, gains[k] = back(value, nearest)
    return gains
