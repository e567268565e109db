"""A second, different valid submission of f04: Kalman window and LQR gains as one ONNX graph.

Nothing is trained. The graph finds the reference frame from the noise-free slices of the newest
observation, takes 16 frames of measured deviations and commanded targets, estimates the state error
with a linear window filter, and multiplies it with that frame's gain of the privileged tracker. There
is one filter per contact pattern of the clip, and one per age of an episode that has not yet 16 frames.

    python -m train_baselines.oracles.f04_lqg f04/dance --out /tmp/lqg
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import mujoco
import numpy as np
import torch
import tyro
from torch import nn

from families.f04_tracking import draws, policy, scene, spec
from families.f04_tracking.export import export_policy
from families.f04_tracking.reference import Reference, load_clip
from train_baselines.oracles.f04_tracker import NV, Plan, Tracker
from train_baselines.oracles.f04_tracker import Settings as TrackerSettings

MEASURED = slice(spec.OBS_BLOCKS[2].start, spec.OBS_BLOCKS[-1].start)
"""The 73 measured numbers of a frame."""
REFERENCE = slice(0, MEASURED.start)
"""The 58 noise-free numbers of a frame."""


@dataclass(frozen=True)
class Settings:
    """Choices of the estimator; standard deviations."""

    history: int = 16
    ages: tuple[int, ...] = (1, 2, 4, 8)
    """Numbers of frames for which a young episode has a filter; with others the next lower is used."""
    tracker: TrackerSettings = TrackerSettings(control_weight=10.0)
    velocity_weight_s: float = 0.1
    """Weight of joint velocity against joint position where the frame is looked up."""
    prior_position: float = 0.05
    """Of every position error (m, rad) before the window."""
    prior_velocity: float = 0.3
    """Of every velocity error (m/s, rad/s) before the window."""
    process_position: float = 5e-4
    """Added to every position error per control step."""
    process_root_velocity: float = 0.02
    process_joint_velocity: float = 0.1
    """Added to every velocity error per control step."""
    linearised_frames: int = 20
    """Frames over which the measurement matrix is averaged."""
    fd_epsilon: float = 1e-5


def measure(g1: scene.G1, target: policy.Target, qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
    """The 73 noise-free measured numbers of a state against one reference frame."""
    data, handles = mujoco.MjData(g1.model), g1.handles
    data.qpos[:], data.qvel[:] = qpos, qvel
    scene.refresh(g1.model, data)
    robot = policy.Robot(
        joint_pos=data.qpos[None, handles.qpos],
        joint_vel=data.qvel[None, handles.qvel],
        imu_lin_vel=data.sensordata[None, handles.imu_lin_vel],
        imu_ang_vel=data.sensordata[None, handles.imu_ang_vel],
        body_pos=data.xpos[None, handles.tracked],
        body_quat_wxyz=data.xquat[None, handles.tracked],
    )
    offset = -np.array(spec.DEFAULT_POSE_RAD)
    return policy.observe(robot, target, offset, np.zeros((1, spec.N_JOINTS)))[0, MEASURED]


def measurement_model(
    g1: scene.G1, reference: Reference, tracker: Tracker, settings: Settings
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Measured numbers along the clip and their derivative.

    Returns:
        Shape (T, 73); frames where the derivative was taken, shape (S,); derivatives, shape (S, 73, 70).
    """
    frames, plan = policy.targets(reference), tracker.plan
    on_clip = np.array(
        [
            measure(g1, frames.at(slice(k, k + 1)), plan.qpos[k], plan.qvel[k])
            for k in range(reference.frames)
        ]
    )
    picked = np.linspace(0, reference.frames - 1, settings.linearised_frames).astype(int)
    derivative = np.zeros((len(picked), on_clip.shape[1], 2 * NV))
    for j, k in enumerate(picked):
        target = frames.at(slice(k, k + 1))
        for i in range(2 * NV):
            moved = []
            for sign in (1.0, -1.0):
                qpos, qvel, step = plan.qpos[k].copy(), plan.qvel[k].copy(), np.zeros(2 * NV)
                step[i] = sign * settings.fd_epsilon
                mujoco.mj_integratePos(g1.model, qpos, step[:NV], 1.0)
                moved.append(measure(g1, target, qpos, qvel + step[NV:]))
            derivative[j, :, i] = (moved[0] - moved[1]) / (2.0 * settings.fd_epsilon)
    return on_clip, picked, derivative


def window_filter(
    transition: np.ndarray, control: np.ndarray, output: np.ndarray, age: int, settings: Settings
) -> np.ndarray:
    """Kalman filter over the newest frames of a window, written as one linear map.

    Args:
        transition: A, shape (70, 70).
        control: B, shape (70, 29).
        output: C, shape (73, 70).
        age: Frames that exist, 1 to H; older ones get zeros.

    Returns:
        State error per measured deviation and per target deviation commanded before each frame, shape
        (70, H (73 + 29)); all measured first, oldest frame first.
    """
    width = np.concatenate(
        [np.full(b.stop - b.start, b.noise_half_width) for b in spec.OBS_BLOCKS[2:-1]]
    )
    noise = np.diag(width**2 / 3.0)  # variance of a uniform distribution
    prior = np.repeat([settings.prior_position, settings.prior_velocity], NV)
    process = np.concatenate(
        [
            np.full(NV, settings.process_position),
            np.full(6, settings.process_root_velocity),
            np.full(spec.N_JOINTS, settings.process_joint_velocity),
        ]
    )
    covariance = np.diag(prior**2)
    missing = settings.history - age
    per_output = [np.zeros(output.T.shape)] * missing
    per_control = [np.zeros(control.shape)] * missing
    for i in range(age):
        if i > 0:
            covariance = transition @ covariance @ transition.T + np.diag(process**2)
        innovation = output @ covariance @ output.T + noise
        gain = np.linalg.solve(innovation, output @ covariance).T
        keep = np.eye(2 * NV) - gain @ output
        covariance = keep @ covariance
        carried = keep @ transition
        per_output = [carried @ m for m in per_output] + [gain]
        per_control = [carried @ m for m in per_control]
        per_control.append(keep @ control if i > 0 else np.zeros_like(control))
    return np.hstack(per_output + per_control)


def filters(
    plan: Plan, picked: np.ndarray, derivative: np.ndarray, settings: Settings
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One filter per contact pattern of the clip, then one per age of a young episode.

    Returns:
        Filters, shape (F, 70, H 102); index by frame for full windows, shape (T,); index by the number
        of frames that exist, shape (H + 1,), where the last entry is not used.
    """
    pattern = plan.firm @ np.array([2, 1])
    stride = len(plan.qpos) // (len(plan.transition) - 1)
    linearised = pattern[::stride]
    made, by_frame = [], np.zeros(len(plan.qpos), np.int64)
    for value in np.unique(pattern):
        here = linearised == value
        outputs = derivative[pattern[picked] == value]
        model = (
            plan.transition[here].mean(axis=0),
            plan.control[here].mean(axis=0),
            (outputs if len(outputs) else derivative).mean(axis=0),
        )
        by_frame[pattern == value] = len(made)
        made.append(window_filter(*model, settings.history, settings))
    by_age = np.zeros(settings.history + 1, np.int64)
    for age in settings.ages:
        by_age[age:] = len(made)
        made.append(
            window_filter(plan.transition[0], plan.control[0], derivative[0], age, settings)
        )
    return np.array(made), by_frame, by_age


class KalmanLqr(nn.Module):
    """actions = feed-forward(k) + gain(k) estimate(window), all of it linear but the look-up of k.

    Args:
        reference: The clip.
        settings: Choices of estimator and tracker.
    """

    def __init__(self, reference: Reference, settings: Settings) -> None:
        super().__init__()
        tracker = Tracker(reference, settings.tracker)
        plan, g1 = tracker.plan, scene.build(spec.EVAL_TIMESTEP_S)
        on_clip, picked, derivative = measurement_model(g1, reference, tracker, settings)
        made, by_frame, by_age = filters(plan, picked, derivative, settings)
        default, scale = np.array(spec.DEFAULT_POSE_RAD), np.array(spec.ACTION_SCALE_RAD)
        forward = (plan.feedforward_rad - default) / scale  # targets as actions
        weight = np.repeat([1.0, settings.velocity_weight_s], spec.N_JOINTS)
        stride = settings.tracker.stride
        made[:, :, -settings.history * spec.N_JOINTS :] *= np.tile(scale, settings.history)
        self.history, self.n_filters = settings.history, len(made)
        for name, array in {
            "lookup": np.hstack([reference.joint_pos, reference.joint_vel]),
            "lookup_weight": weight,
            "measured": on_clip,
            "feedforward": forward,
            "before": np.vstack([forward[:1], forward[:-1]]),
            "gains": (plan.gains[::stride] / scale[:, None]).reshape(-1, spec.N_JOINTS * 2 * NV),
            "filters": made.reshape(len(made) * 2 * NV, -1).T.copy(),
        }.items():
            self.register_buffer(name, torch.tensor(array, dtype=torch.float32))
        for name, array in {
            "gain_of_frame": (np.arange(reference.frames) + stride // 2) // stride,
            "filter_of_frame": by_frame,
            "filter_of_age": by_age,
            "back": np.arange(settings.history - 1, -1, -1),
            "number": np.arange(len(made)),
        }.items():
            self.register_buffer(name, torch.tensor(array, dtype=torch.int64))
        self.gain_of_frame.clamp_(max=len(self.gains) - 1)

    def estimate(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Actions (N, 29) and estimated state errors (N, 70) of observation histories (N, 160 H)."""
        frames = obs.reshape(-1, self.history, spec.OBS_DIM)
        clip = frames[:, :, REFERENCE]
        # differences, not products: the true frame is exactly 0 away, in every runtime
        k = (((clip[:, -1:] - self.lookup) * self.lookup_weight) ** 2).sum(dim=2).argmin(dim=1)
        window = (k[:, None] - self.back).clamp(min=0).reshape(-1)
        exists = (clip.abs().amax(dim=2, keepdim=True) > 0.0).to(obs.dtype)
        age = exists.sum(dim=(1, 2)).to(torch.int64)
        n_y, n_u = self.measured.shape[1], spec.N_JOINTS
        on_clip = self.measured.index_select(0, window).reshape(-1, self.history, n_y)
        before = self.before.index_select(0, window).reshape(-1, self.history, n_u)
        dy = ((frames[:, :, MEASURED] - on_clip) * exists).reshape(-1, self.history * n_y)
        du = ((frames[:, :, MEASURED.stop :] - before) * exists).reshape(-1, self.history * n_u)
        young = self.filter_of_age.index_select(0, age)
        index = torch.where(age < self.history, young, self.filter_of_frame.index_select(0, k))
        every = (torch.cat([dy, du], dim=1) @ self.filters).reshape(-1, self.n_filters, 2 * NV)
        chosen = (index[:, None] == self.number).to(obs.dtype)
        error = (every * chosen[:, :, None]).sum(dim=1)
        gain = self.gains.index_select(0, self.gain_of_frame.index_select(0, k))
        feedback = gain.reshape(-1, n_u, 2 * NV) @ error[:, :, None]
        return self.feedforward.index_select(0, k) + feedback[:, :, 0], error

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Actions (N, 29) of observation histories (N, 160 H)."""
        return self.estimate(obs)[0]


@dataclass(frozen=True)
class Arguments:
    """Write the Kalman and LQR submission of one task."""

    task: Annotated[str, tyro.conf.Positional]
    """Task id, f04/dance."""
    out: Path
    """Folder of the artifact."""


def write(reference: Reference, out: Path, settings: Settings | None = None) -> None:
    """Writes `policy.onnx` and `policy_meta.json`."""
    settings = settings or Settings()
    module = KalmanLqr(reference, settings)
    meta = {"made_by": "python -m train_baselines.oracles.f04_lqg", "reference": reference.kind}
    export_policy(module, out, settings.history, meta, probes_on(reference, module))


def probes_on(reference: Reference, module: KalmanLqr) -> np.ndarray:
    """Noisy observation histories along the clip, shape (n, 160 H): ages 1 to H, then full windows."""
    history, rng = module.history, np.random.default_rng(0)
    clip = np.hstack([reference.joint_pos, reference.joint_vel])
    frames = np.hstack([clip, module.measured.numpy(), module.before.numpy()]).astype(np.float32)
    noise = draws.draw_noise(rng, reference.frames).astype(np.float32)
    padded = np.vstack([np.zeros((history - 1, spec.OBS_DIM), np.float32), frames + noise])
    last = np.linspace(0, reference.frames - 1, spec.EXPORT_PROBES - history).astype(int)
    newest = np.concatenate([np.arange(history), last])
    return np.array([padded[k : k + history].reshape(-1) for k in newest])


if __name__ == "__main__":
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    write(load_clip(arguments.task), arguments.out)
