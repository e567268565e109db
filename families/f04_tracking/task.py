"""One trial of f04: reset, observe, step, and named measurements. It measures; metrics.py judges.

Observation, fall measures and history are pure functions of batches, with numpy arrays or torch tensors,
so that training, oracles and scoring see the same numbers. `Trial` is the one loop that is scored.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import mujoco
import numpy as np

from families.f04_tracking import metrics, scene, spec
from families.f04_tracking.draws import TrialDraws
from families.f04_tracking.reference import Reference
from rle import rotations
from rle.sim import guard
from rle.verify_api import TrialFault

Array = Any
"""A numpy array or a torch tensor."""
Act = Callable[[np.ndarray], np.ndarray]
"""Policy: observation history, float32 (1, 160 H), to action, shape (1, 29) or (29,)."""

FALL_LIMITS = (spec.FALLS.anchor_z_m, spec.FALLS.tilt, spec.FALLS.end_effector_z_m)
FALL_NAMES = ("anchor_z", "tilt", "ee_z")
"""Ending that each fall measure gives when it passes its limit."""


class Robot(NamedTuple):
    """Measured state of N robots."""

    joint_pos: Array
    """Shape (N, 29), rad, without encoder bias."""
    joint_vel: Array
    """Shape (N, 29), rad/s."""
    imu_lin_vel: Array
    """Shape (N, 3), m/s, IMU frame."""
    imu_ang_vel: Array
    """Shape (N, 3), rad/s, IMU frame."""
    body_pos: Array
    """Tracked bodies, shape (N, 14, 3), m, world."""
    body_quat_wxyz: Array
    """Tracked bodies, shape (N, 14, 4), world."""


class Target(NamedTuple):
    """Reference frames, one per robot; the tracked bodies only."""

    joint_pos: Array
    joint_vel: Array
    body_pos: Array
    body_quat_wxyz: Array
    body_lin_vel: Array
    body_ang_vel: Array

    def at(self, frames: Any) -> "Target":
        """Selects frames: a slice, or an index array of shape (N,)."""
        return Target(*(array[frames] for array in self))


def targets(reference: Reference) -> Target:
    """All frames of a clip as a batch."""
    tracked = list(spec.TRACKED_INDEX)
    return Target(
        joint_pos=reference.joint_pos,
        joint_vel=reference.joint_vel,
        body_pos=reference.body_pos_w[:, tracked],
        body_quat_wxyz=reference.body_quat_w[:, tracked],
        body_lin_vel=reference.body_lin_vel_w[:, tracked],
        body_ang_vel=reference.body_ang_vel_w[:, tracked],
    )


def observe(
    robot: Robot, target: Target, joint_offset_rad: Array, last_action: Array, xp: Any = np
) -> Array:
    """Noise-free observation frames, layout of `spec.OBS_BLOCKS`. Shape (N, 160).

    Args:
        robot: State at time k.
        target: Reference frame k.
        joint_offset_rad: Encoder bias minus default pose, shape (N, 29) or (29,).
        last_action: Raw action of step k - 1, zeros at step 0, shape (N, 29).
        xp: `numpy` or `torch`.
    """
    anchor = spec.ANCHOR_INDEX
    to_world = rotations.matrix(robot.body_quat_wxyz[:, anchor])
    ref_to_world = rotations.matrix(target.body_quat_wxyz[:, anchor])
    offset = target.body_pos[:, anchor] - robot.body_pos[:, anchor]
    offset_torso = (offset[:, None, :] @ to_world)[:, 0]
    turn = to_world.swapaxes(-1, -2) @ ref_to_world
    parts = [
        target.joint_pos,
        target.joint_vel,
        offset_torso,
        turn[:, :, :2].reshape(-1, 6),
        robot.imu_lin_vel,
        robot.imu_ang_vel,
        robot.joint_pos + joint_offset_rad,
        robot.joint_vel,
        last_action,
    ]
    return xp.concatenate(parts, 1)


def observe_critic(frame: Array, robot: Robot, xp: Any = np) -> Array:
    """Privileged training observation. Shape (N, 286).

    Slices 0:67 of the noise-free frame, position (m) and first two columns (row-major) of the
    orientation of the 14 bodies in the torso frame, then slices 67:160 of the frame.

    Args:
        frame: Result of `observe` for the same state, shape (N, 160).
        robot: That state.
        xp: `numpy` or `torch`.
    """
    anchor, n = spec.ANCHOR_INDEX, len(frame)
    rotation = rotations.matrix(robot.body_quat_wxyz)
    to_world = rotation[:, anchor]
    position = (robot.body_pos - robot.body_pos[:, anchor, None]) @ to_world
    turn = to_world.swapaxes(-1, -2)[:, None] @ rotation
    split = spec.REFERENCE_OBS_DIM
    parts = [
        frame[:, :split],
        position.reshape(n, -1),
        turn[..., :2].reshape(n, -1),
        frame[:, split:],
    ]
    return xp.concatenate(parts, 1)


def fall_measures(robot: Robot, target: Target, xp: Any = np) -> Array:
    """What the fall rules compare with `FALL_LIMITS`. Shape (N, 3).

    |anchor z - reference z| (m), |difference of the z components of unit gravity in the two torso
    frames|, largest |z - reference z| of the end effectors (m). Re-anchoring moves the reference in the
    plane and about z only, so none of the three depends on it.
    """
    anchor, ends = spec.ANCHOR_INDEX, list(spec.END_EFFECTOR_INDEX)
    z_off = xp.abs(robot.body_pos[:, :, 2] - target.body_pos[:, :, 2])
    xy, ref_xy = robot.body_quat_wxyz[:, anchor, 1:3], target.body_quat_wxyz[:, anchor, 1:3]
    tilt = 2.0 * xp.abs((xy * xy).sum(-1) - (ref_xy * ref_xy).sum(-1))
    worst_end = xp.amax(z_off[:, ends], 1)
    return xp.stack([z_off[:, anchor], tilt, worst_end], 1)


class History:
    """The last H observation frames of N robots, oldest first; zeros before an episode's start.

    Args:
        n: Robots.
        length: H, frames that a policy sees.
        like: An array of the wanted kind, dtype and device (torch); None is numpy float32.
    """

    def __init__(self, n: int, length: int, like: Array | None = None) -> None:
        shape = (n, length * spec.OBS_DIM)
        self.array = np.zeros(shape, np.float32) if like is None else like.new_zeros(shape)
        """Shape (N, 160 H); the newest frame is the last 160 numbers."""

    def push(self, frames: Array) -> Array:
        """Appends a frame per robot, shape (N, 160), drops the oldest, and returns the window."""
        width = spec.OBS_DIM
        if isinstance(self.array, np.ndarray):
            self.array[:, :-width] = self.array[:, width:]
        else:
            self.array = self.array.roll(-width, 1)  # torch cannot move overlapping memory in place
        self.array[:, -width:] = frames
        return self.array

    def clear(self, robots: Any = slice(None)) -> None:
        """Forgets the frames of the given robots."""
        self.array[robots] = 0.0


@dataclass(frozen=True)
class Record:
    """What was measured in one trial; n executed steps."""

    ended: str
    """`done`, or what ended it."""
    error_m: np.ndarray
    """e_t, shape (n,)."""
    action: np.ndarray
    """Raw actions, shape (n, 29)."""
    drift_m: np.ndarray
    """Planar anchor drift, shape (n,)."""
    yaw_drift_rad: np.ndarray
    """Shape (n,)."""
    joint_error_rad: np.ndarray
    """Root mean square of the 29 joints, shape (n,)."""
    fall_measures: np.ndarray
    """After every step, the failing one included, shape (n or n + 1, 3)."""
    push_steps: tuple[int, ...]
    """Steps at whose start a push was added."""
    ctrl: np.ndarray
    """Joint targets sent to the servos in every step, rad, shape (n or n + 1, 29)."""
    qpos: np.ndarray
    """Start state and state after every step, shape (n + 1 or n + 2, 36)."""
    qvel_start: np.ndarray
    """Start velocity, shape (35,)."""

    @property
    def executed(self) -> int:
        return len(self.error_m)

    @property
    def is_fall(self) -> bool:
        """F: everything but the end of the clip."""
        return self.ended != "done"


class Trial:
    """One robot that is asked to follow one clip under one set of draws.

    Args:
        reference: The clip.
        draws: Dynamics, floor, start, pushes and noise of this trial.
        first_frame: Frame to start from; scoring starts at 0.
        g1: A model that already carries the draws; None builds it.
    """

    def __init__(
        self,
        reference: Reference,
        draws: TrialDraws,
        *,
        first_frame: int = 0,
        g1: scene.G1 | None = None,
    ) -> None:
        self.reference, self.draws, self.first_frame = reference, draws, first_frame
        self.g1 = g1 or scene.build(spec.EVAL_TIMESTEP_S, draws.dynamics, draws.terrain)
        self.model, self.data = self.g1.model, mujoco.MjData(self.g1.model)
        self.steps = min(reference.frames - 1 - first_frame, len(draws.noise))
        """Longest length of this trial, control steps."""
        self._targets = targets(reference)
        self._bias = np.array(draws.dynamics.encoder_bias_rad)
        self._default = np.array(spec.DEFAULT_POSE_RAD)
        self._scale = np.array(spec.ACTION_SCALE_RAD)
        self._offset = self._bias - self._default
        self._low, self._high = self.g1.handles.joint_range_rad.T
        self.reset()

    def reset(self) -> None:
        """Puts the robot at the first frame plus the start offsets and out of the floor."""
        data, start = self.data, self.draws.start
        mujoco.mj_resetData(self.model, data)
        qpos, qvel = (
            a[self.first_frame].copy() for a in (self.reference.qpos, self.reference.qvel)
        )
        qpos[:3] += start.pos_m
        qpos[3:7] = rotations.product(rotations.from_rpy(*start.rpy_rad), qpos[3:7])
        qpos[7:] = np.clip(qpos[7:] + start.joint_rad, self._low, self._high)
        qvel[:6] += start.vel
        handles = self.g1.handles
        data.qpos[:7], data.qpos[handles.qpos] = qpos[:7], qpos[7:]
        data.qvel[:6], data.qvel[handles.qvel] = qvel[:6], qvel[6:]
        scene.lift_out_of_floor(self.g1, data)
        guard.take_warnings()
        self.step_index = 0
        """Executed control steps so far."""
        self.ended: str | None = None
        """None while the trial runs."""
        self._allocate()
        self._measure()

    def _allocate(self) -> None:
        """Room for the longest trial, so that a step allocates next to nothing."""
        n, joints = self.steps, spec.N_JOINTS
        self._error, self._drift, self._yaw, self._joint_error = np.zeros((4, n))
        self._falls = np.zeros((n, len(FALL_NAMES)))
        self._action, self._ctrl = np.zeros((n, joints)), np.zeros((n, joints))
        self._qpos = np.zeros((n + 1, self.model.nq))
        self._qpos[0] = self.data.qpos
        self._qvel_start = self.data.qvel.copy()

    @property
    def frame(self) -> int:
        """Reference frame of the present time."""
        return self.first_frame + self.step_index

    def target(self) -> Target:
        """Reference frame of the present time, as a batch of one."""
        return self._targets.at(slice(self.frame, self.frame + 1))

    def observe(self) -> np.ndarray:
        """Observation frame of the present time, with noise. Shape (1, 160), float64."""
        k = self.step_index
        last = self._action[k - 1 : k] if k else np.zeros((1, spec.N_JOINTS))
        clean = observe(self.robot, self.target(), self._offset, last)
        return clean + self.draws.noise[k]

    def joint_target(self, step: int) -> np.ndarray:
        """Servo targets of a step: clip(default + scale a - bias), latency applied. Shape (29,), rad."""
        source = step - self.draws.dynamics.latency_steps
        if source < 0:
            wanted = self.reference.joint_pos[self.first_frame] - self._bias
        else:
            wanted = self._action[source] * self._scale - self._offset
        return np.minimum(np.maximum(wanted, self._low), self._high)

    def step(self, action: np.ndarray) -> str | None:
        """Holds an action for one control period and compares with the next reference frame.

        Args:
            action: Raw action, shape (29,) or (1, 29).

        Returns:
            How the trial ended, None while it runs. A failing step is not an executed step.

        Raises:
            RuntimeError: The trial has ended; call `reset`.
        """
        if self.ended is not None:
            raise RuntimeError(f"the trial has ended ({self.ended}); call reset()")
        k = self.step_index
        action = np.asarray(action, dtype=float).reshape(-1)
        if action.shape != (spec.ACTION_DIM,) or not np.abs(action).max() <= spec.MAX_ACTION:
            return self.end("bad_action")
        self._action[k] = action
        push = self.draws.pushes.get(k)
        if push is not None:
            self.data.qvel[:6] += push
        self._ctrl[k] = self.joint_target(k)
        self._simulate(self._ctrl[k])
        self.step_index = k + 1
        self._qpos[k + 1] = self.data.qpos
        return self._judge(k)

    def _simulate(self, joint_target: np.ndarray) -> None:
        """One control period of physics; poses and sensors are brought up to its end."""
        self.data.ctrl[self.g1.handles.ctrl] = joint_target
        mujoco.mj_step(self.model, self.data, nstep=spec.EVAL_SUBSTEPS)
        scene.refresh(self.model, self.data)

    def _measure(self) -> None:
        """Reads the robot's present state."""
        data, handles = self.data, self.g1.handles
        self.robot = Robot(
            joint_pos=data.qpos[None, handles.qpos],
            joint_vel=data.qvel[None, handles.qvel],
            imu_lin_vel=data.sensordata[None, handles.imu_lin_vel].copy(),
            imu_ang_vel=data.sensordata[None, handles.imu_ang_vel].copy(),
            body_pos=data.xpos[None, handles.tracked],
            body_quat_wxyz=data.xquat[None, handles.tracked],
        )
        """State at the present time, as a batch of one."""

    def _judge(self, k: int) -> str | None:
        """Fall rules after step k, then its measurements."""
        if self._has_diverged():
            return self._fall("sim_unstable", k)
        self._measure()
        robot, target = self.robot, self.target()
        falls = self._falls[k] = fall_measures(robot, target)[0]
        for name, value, limit in zip(FALL_NAMES, falls, FALL_LIMITS):
            if value > limit:
                return self._fall(name, k)
        anchor = spec.ANCHOR_INDEX
        moved = metrics.anchoring(
            target.body_pos[:, anchor],
            target.body_quat_wxyz[:, anchor],
            robot.body_pos[:, anchor],
            robot.body_quat_wxyz[:, anchor],
        )
        self._error[k] = metrics.body_error(
            robot.body_pos, metrics.re_anchor(moved, target.body_pos)
        )[0]
        self._drift[k], self._yaw[k] = moved.drift_m[0], moved.yaw_drift_rad[0]
        off = robot.joint_pos[0] - target.joint_pos[0]
        self._joint_error[k] = (off @ off / spec.N_JOINTS) ** 0.5
        if self.step_index == self.steps:
            self.ended = "done"
        return self.ended

    def _has_diverged(self) -> bool:
        """A MuJoCo warning, a non-finite state, or |qvel| above the limit."""
        data = self.data
        fastest = np.abs(data.qvel).max()
        finite = fastest <= spec.FALLS.max_qvel and np.isfinite(data.qpos).all()
        warned = bool(guard.take_warnings()) or guard.has_warning(data)
        return warned or not finite

    def _fall(self, name: str, k: int) -> str:
        """Ends the trial in step k, which does not count as executed."""
        self.step_index = k
        return self.end(name)

    def end(self, ended: str) -> str:
        """Ends the trial from outside (a failed policy), before the next step."""
        self.ended = ended
        return ended

    def record(self) -> Record:
        """The measurements of the executed steps (copies)."""
        n = self.step_index
        tried = n + (self.ended in (*FALL_NAMES, "sim_unstable"))
        return Record(
            ended=self.ended or "running",
            error_m=self._error[:n].copy(),
            action=self._action[:n].copy(),
            drift_m=self._drift[:n].copy(),
            yaw_drift_rad=self._yaw[:n].copy(),
            joint_error_rad=self._joint_error[:n].copy(),
            fall_measures=self._falls[:tried].copy(),
            push_steps=tuple(step for step in self.draws.pushes if step < max(tried, 1)),
            ctrl=self._ctrl[:tried].copy(),
            qpos=self._qpos[: tried + 1].copy(),
            qvel_start=self._qvel_start.copy(),
        )


def play(trial: Trial, act: Act, history: int = 1) -> Record:
    """Runs a trial to its end and returns its measurements.

    A policy that fails (`TrialFault`) ends the trial. A privileged policy is a function that ignores
    its argument and reads `trial.data`; only tests and oracles have one.

    Args:
        trial: Trial at its start.
        act: Policy.
        history: Observation frames that the policy sees.
    """
    window = History(1, history)
    while trial.ended is None:
        frames = window.push(trial.observe())
        try:
            action = act(frames)
        except TrialFault as fault:
            trial.end(fault.ended)
        else:
            trial.step(action)
    return trial.record()
