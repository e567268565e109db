"""One trial of f04: reset, observe, step, and named measurements. It measures; metrics.py judges.

`Trial` and `play` are the one loop that scoring, the design evaluator and the oracles share.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import mujoco
import numpy as np

from families.f04_tracking import metrics, scene, spec
from families.f04_tracking.draws import TrialDraws, trial_draws
from families.f04_tracking.policy import History, Robot, Target, observe, targets
from families.f04_tracking.reference import Reference, load_clip
from rle import rotations, seeds
from rle.envs.single import Step, TrialEnv
from rle.errors import SimulationError
from rle.sim import guard
from rle.spec import TaskSpec
from rle.verify_api import TrialFault

Array = Any
"""A numpy array or a torch tensor."""
Act = Callable[[np.ndarray], np.ndarray]
"""Policy: observation history, float32 (1, 160 H), to action, shape (1, 29) or (29,)."""

_ANCHOR = spec.ANCHOR_INDEX
_HEIGHTS = np.array([_ANCHOR, *spec.END_EFFECTOR_INDEX])
FALL_LIMITS = (spec.FALLS.anchor_z_m, spec.FALLS.tilt, spec.FALLS.end_effector_z_m)
FALL_NAMES = ("anchor_z", "tilt", "ee_z")
"""Ending that each fall measure gives when it passes its limit."""


def fall_measures(robot: Robot, target: Target, xp: Any = np) -> tuple[Array, Array, Array]:
    """What the fall rules compare with `FALL_LIMITS`. Three arrays of shape (N,).

    |anchor z - reference z| (m), |difference of the z components of unit gravity in the two torso
    frames|, largest |z - reference z| of the end effectors (m). Re-anchoring moves the reference in the
    plane and about z only, so none of the three depends on it.
    """
    z_off = xp.abs(robot.body_pos[:, _HEIGHTS, 2] - target.body_pos[:, _HEIGHTS, 2])
    xy = robot.body_quat_wxyz[:, _ANCHOR, 1:3]
    ref_xy = target.body_quat_wxyz[:, _ANCHOR, 1:3]
    tilt = 2.0 * xp.abs((xy * xy - ref_xy * ref_xy).sum(-1))
    return z_off[:, 0], tilt, xp.amax(z_off[:, 1:], 1)


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
    reference_pos: np.ndarray
    """Re-anchored reference of the tracked bodies, shape (n, 14, 3), m."""
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


class _Views:
    """Views of a data's arrays with a leading batch axis; making one costs more than using it."""

    def __init__(self, data: mujoco.MjData) -> None:
        self.qpos, self.qvel = data.qpos[None], data.qvel[None]
        self.xpos, self.xquat = data.xpos[None], data.xquat[None]
        self.sensordata = data.sensordata[None]
        self.warnings = data.warning.number


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
        self._substeps = round(spec.CONTROL_PERIOD_S / self.model.opt.timestep)
        self.steps = min(reference.frames - 1 - first_frame, len(draws.noise))
        """Longest length of this trial, control steps."""
        self._targets = targets(reference)
        self._views = _Views(self.data)
        self._target_frame = -1
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
        first, clip = self.first_frame, self.reference
        qpos, qvel = clip.qpos[first].copy(), clip.qvel[first].copy()
        qpos[:3] += start.pos_m
        qpos[3:7] = rotations.product(rotations.from_rpy(*start.rpy_rad), qpos[3:7])
        qpos[7:] = np.clip(qpos[7:] + start.joint_rad, self._low, self._high)
        qvel[:6] += start.vel
        handles = self.g1.handles
        data.qpos[:7], data.qpos[handles.qpos] = qpos[:7], qpos[7:]
        data.qvel[:6], data.qvel[handles.qvel] = qvel[:6], qvel[6:]
        scene.lift_out_of_floor(self.g1, data)
        self.step_index = 0
        """Executed control steps so far."""
        self.ended: str | None = None
        """None while the trial runs."""
        self._allocate()
        self._measure()

    def _allocate(self) -> None:
        """Room for the longest trial, so that a step allocates next to nothing."""
        n, joints = self.steps, spec.N_JOINTS
        self._falls = np.zeros((n, len(FALL_NAMES)))
        self._action, self._ctrl = np.zeros((n, joints)), np.zeros((n, joints))
        self._body_pos = np.zeros((n, spec.N_TRACKED, 3))
        self._anchor_quat = np.zeros((n, 4))
        self._qpos = np.zeros((n + 1, self.model.nq))
        self._qpos[0] = self.data.qpos
        self._qvel_start = self.data.qvel.copy()

    @property
    def frame(self) -> int:
        """Reference frame of the present time."""
        return self.first_frame + self.step_index

    def target(self) -> Target:
        """Reference frame of the present time, as a batch of one."""
        frame = self.frame
        if frame != self._target_frame:
            self._target = self._targets.at(slice(frame, frame + 1))
            self._target_frame = frame
        return self._target

    def observe(self) -> np.ndarray:
        """Observation frame of the present time, with noise. Shape (1, 160), float64."""
        k = self.step_index
        last = self._action[k - 1 : k] if k else np.zeros((1, spec.N_JOINTS))
        return observe(self.robot, self.target(), self._offset, last) + self.draws.noise[k]

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
        try:
            self._simulate(self._ctrl[k])
        except SimulationError:
            return self._fall("sim_unstable", k)
        self.step_index = k + 1
        self._qpos[k + 1] = self.data.qpos
        return self._judge(k)

    def _simulate(self, joint_target: np.ndarray) -> None:
        """One control period of physics; poses and sensors are brought up to its end."""
        self.data.ctrl[self.g1.handles.ctrl] = joint_target
        guard.step(self.model, self.data, steps=self._substeps)
        scene.refresh(self.model, self.data)

    def _measure(self) -> None:
        """Reads the robot's present state."""
        views, handles = self._views, self.g1.handles
        self.robot = Robot(
            joint_pos=views.qpos.take(handles.qpos, 1),
            joint_vel=views.qvel.take(handles.qvel, 1),
            imu_lin_vel=views.sensordata[:, handles.imu_lin_vel].copy(),
            imu_ang_vel=views.sensordata[:, handles.imu_ang_vel].copy(),
            body_pos=views.xpos.take(handles.tracked, 1),
            body_quat_wxyz=views.xquat.take(handles.tracked, 1),
        )
        """State at the present time, as a batch of one."""

    def _judge(self, k: int) -> str | None:
        """Fall rules after step k; keeps what is measured from it."""
        if self._has_diverged():
            return self._fall("sim_unstable", k)
        self._measure()
        self._body_pos[k] = self.robot.body_pos[0]
        self._anchor_quat[k] = self.robot.body_quat_wxyz[0, _ANCHOR]
        falls = self._falls[k]
        falls[0], falls[1], falls[2] = fall_measures(self.robot, self.target())
        if np.count_nonzero(falls > FALL_LIMITS):
            return self._fall(FALL_NAMES[int(np.argmax(falls > FALL_LIMITS))], k)
        if self.step_index == self.steps:
            self.ended = "done"
        return self.ended

    def _has_diverged(self) -> bool:
        """A MuJoCo warning, a non-finite state, or |qvel| above the limit."""
        views, limit = self._views, spec.FALLS.max_qvel
        slow = views.qvel.max() <= limit and views.qvel.min() >= -limit  # false for NaN
        return (
            not slow or not math.isfinite(views.qpos.sum()) or np.count_nonzero(views.warnings) > 0
        )

    def _fall(self, name: str, k: int) -> str:
        """Ends the trial in step k, which does not count as executed."""
        self.step_index = k
        return self.end(name)

    def end(self, ended: str) -> str:
        """Ends the trial from outside (a failed policy), before the next step."""
        guard.take_warnings()  # counted by this trial's data; the texts are of no more use
        self.ended = ended
        return ended

    def error_m(self) -> float:
        """e of the present state against the present reference frame, m."""
        target, robot = self.target(), self.robot
        moved = metrics.anchoring(
            target.body_pos[:, _ANCHOR],
            target.body_quat_wxyz[:, _ANCHOR],
            robot.body_pos[:, _ANCHOR],
            robot.body_quat_wxyz[:, _ANCHOR],
        )
        return float(
            metrics.body_error(robot.body_pos, metrics.re_anchor(moved, target.body_pos))[0]
        )

    def record(self) -> Record:
        """The measurements of the executed steps (copies)."""
        n = self.step_index
        tried = n + (self.ended in (*FALL_NAMES, "sim_unstable"))
        start = self.first_frame + 1
        target = self._targets.at(slice(start, start + n))
        moved = metrics.anchoring(
            target.body_pos[:, _ANCHOR],
            target.body_quat_wxyz[:, _ANCHOR],
            self._body_pos[:n, _ANCHOR],
            self._anchor_quat[:n],
        )
        re_anchored = metrics.re_anchor(moved, target.body_pos)
        joint_off = self._qpos[1 : n + 1, self.g1.handles.qpos] - target.joint_pos
        return Record(
            ended=self.ended or "running",
            error_m=metrics.body_error(self._body_pos[:n], re_anchored),
            action=self._action[:n].copy(),
            drift_m=moved.drift_m,
            yaw_drift_rad=moved.yaw_drift_rad,
            reference_pos=re_anchored,
            joint_error_rad=np.sqrt(np.square(joint_off).mean(axis=1)),
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


class EpisodeTrial:
    """A trial as a Gymnasium episode; reward is the tracking kernel of the step, in [0, 1]."""

    def __init__(self, trial: Trial, history: int) -> None:
        self.model, self.data = trial.model, trial.data
        self._trial, self._window = trial, History(1, history)

    def start(self) -> tuple[np.ndarray, dict[str, bool]]:
        """First observation and claims."""
        return self._window.push(self._trial.observe())[0].copy(), {"fallen": False, "done": False}

    def advance(self, action: np.ndarray) -> Step:
        """One control step; after a fall the last observation is given again."""
        trial = self._trial
        ended = trial.step(action)
        earned, fallen = 0.0, ended not in (None, "done")
        if not fallen:
            earned = metrics.tracking(np.array([trial.error_m()]), steps=1)
            if ended is None:
                self._window.push(trial.observe())
        claims = {"fallen": fallen, "done": ended == "done"}
        return Step(self._window.array[0].copy(), earned, fallen, ended == "done", claims)


def make_env(
    task: TaskSpec,
    *,
    profile: str = spec.SCORED_PROFILE,
    history: int = 1,
    render_mode: str | None = None,
) -> TrialEnv:
    """The scored loop on public draws, `rle/f04-dance-v1`.

    Args:
        task: One of the five tasks.
        profile: Which perturbations are drawn.
        history: Observation frames per observation.
        render_mode: None or "rgb_array".
    """
    clip = load_clip(task.slug)

    def trial(seed: int) -> EpisodeTrial:
        key = seeds.trial_key(task.family, task.draw_key, "public", seed)
        drawn = trial_draws(lambda name: seeds.stream(key, name), clip.body_pos_w, profile)
        return EpisodeTrial(Trial(clip, drawn), history)

    box = gymnasium.spaces.Box
    return TrialEnv(
        trial,
        box(-np.inf, np.inf, (history * spec.OBS_DIM,), np.float32),
        box(-spec.GYM_ACTION_LIMIT, spec.GYM_ACTION_LIMIT, (spec.ACTION_DIM,), np.float32),
        render_mode=render_mode,
    )


def make_vector_env(
    task: TaskSpec, *, num_envs: int = 1, history: int = 1, **options: Any
) -> gymnasium.vector.VectorEnv:
    """The training environment, batched (`gymnasium.make_vec`). Needs the extra `train`.

    Args:
        task: One of the five tasks.
        num_envs: Robots.
        history: Observation frames per observation.
        options: Passed to `batch_env.TrackingEnv` (`backend`, `randomise`, ...).
    """
    from families.f04_tracking.batch_env import TrackingEnv
    from rle.envs.vector import TorchVectorEnv

    def batch(seed: int) -> TrackingEnv:
        return TrackingEnv(task.slug, num_envs, seed=seed, history=history, **options)

    return TorchVectorEnv(batch, history * spec.OBS_DIM, spec.GYM_ACTION_LIMIT)
