"""Where the stepping student of f04 learns: rollouts that it drives, and what the controller says to them.

Robots under the full evaluation draws are driven by the student; in the states that they reach, every other
control step is labelled with what `f04_stepper.py`, which sees the true state, would do. Two things make a label go
further: sensor noise and encoder bias decide nothing about it, so it is kept under several draws of both; and the
robot is symmetric, so what it should do seen in a mirror is what the mirrored robot should do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from families.f04_tracking import scene, spec
from families.f04_tracking.draws import draw_noise, trial_draws
from families.f04_tracking.reference import Reference, load_clip
from families.f04_tracking.task import Trial
from rle import seeds
from train_baselines.oracles.f04_pendulum import Frames, frames_of
from train_baselines.oracles.f04_senses import (
    HISTORY,
    JOINT_POS,
    LAST_ACTION,
    REFERENCE,
    Senses,
    mirror,
    mirror_joints,
)
from train_baselines.oracles.f04_stepper import Stepper

SCALE = np.array(spec.ACTION_SCALE_RAD)
Act = Callable[[torch.Tensor], torch.Tensor]
"""Actions (N, 29) of observation histories (N, 160 H)."""


@dataclass(frozen=True)
class Settings:
    """Choices of the rollouts and labels."""

    profile: str = spec.SCORED_PROFILE
    """Perturbations of the rollouts."""
    robots: int = 48
    """Rollouts that run side by side."""
    steps_per_round: int = 100
    """Control steps of each robot per round."""
    label_every: int = 2
    """Control steps between two labels of a robot; the controller's memory follows all of them."""
    variants: int = 4
    """Draws of noise and bias per label; every second one in the mirror."""
    handover_share: float = 0.4
    """Later rollouts that the controller drives for the first steps,"""
    handover_steps: int = 200
    """up to this many."""
    episode_steps: int = 500
    """Longest rollout."""
    start_share: float = 0.4
    """Rollouts that start at frame 0; the others start anywhere."""
    short_share: float = 0.0
    """Rollouts that start at frame 0, are driven by the student, and end after `short_steps`."""
    short_steps: int = 120
    label_limit: float = 8.0
    """Labels are clipped to this. A state where the controller wants more is lost and teaches nothing."""
    lost_labels: int = 4
    """Rollouts end after so many lost states in a row."""


class Course(NamedTuple):
    """One clip to learn."""

    slug: str
    reference: Reference
    frames: Frames


def course_of(task: str) -> Course:
    """The course of a task id."""
    reference = load_clip(task)
    return Course(task.removeprefix("f04/"), reference, frames_of(reference))


class Rollout:
    """One robot on its way: the trial, the controller that labels it, and who drives.

    Args:
        course: What it follows.
        trial: At its start.
        handover: Steps that the controller drives.
    """

    def __init__(self, course: Course, trial: Trial, handover: int) -> None:
        self.trial, self.handover, self.lost = trial, handover, 0
        self.expert = Stepper(course.frames, trial.g1)
        self.bias = np.array(trial.draws.dynamics.encoder_bias_rad)
        self.window = np.zeros((HISTORY, spec.OBS_DIM), np.float32)
        """The last frames without noise and bias, oldest first; zeros before the start."""

    def look(self) -> np.ndarray:
        """The present frame as the robot sees it, shape (160,); keeps it without noise and bias."""
        trial, k = self.trial, self.trial.step_index
        frame = trial.observe()[0]
        clean = frame - trial.draws.noise[k]
        clean[JOINT_POS] -= self.bias
        if k:
            clean[LAST_ACTION] -= self.bias / SCALE
        self.window[:-1] = self.window[1:]
        self.window[-1] = clean
        return frame

    def label(self) -> np.ndarray:
        """What the controller would do if there were no encoder bias, shape (29,)."""
        return self.expert.action(self.trial.frame, self.trial.data)


class School:
    """Persistent rollouts under the evaluation draws, and all labels that were given in them.

    Args:
        courses: The clips; robot i follows clip i modulo their number.
        settings: Numbers of rollouts and steps.
        key: Key of the random streams of this training run.
        is_expert: The controller drives the rollouts that start now, to their end.
    """

    def __init__(
        self, courses: list[Course], settings: Settings, key: bytes, is_expert: bool = True
    ) -> None:
        self.courses, self.settings, self.key = courses, settings, key
        self.rng = seeds.stream(key, "rollouts")
        self.senses, self.mirror, self.mirror_joints = Senses(), mirror(), mirror_joints()
        self.n_trials, self.is_expert = 0, is_expert
        self.rollouts = [self._start(i) for i in range(settings.robots)]
        self.seen = np.zeros((settings.robots, HISTORY, spec.OBS_DIM), np.float32)
        """What the robots see."""
        self.features: list[torch.Tensor] = []
        self.labels: list[torch.Tensor] = []
        """Of every round, shapes (n, F) and (n, 29)."""
        self.lengths: list[int] = []
        """Steps of the student's rollouts that ended since the last report."""
        self.n_labels, self.n_lost = 0, 0

    def _start(self, robot: int) -> Rollout:
        """A new rollout of a robot."""
        course, s = self.courses[robot % len(self.courses)], self.settings
        number = self.n_trials
        self.n_trials += 1
        clip = course.reference
        is_short = self.rng.random() < s.short_share
        from_start = self.rng.random() < s.start_share or is_short
        first = 0 if from_start else int(self.rng.integers(0, clip.frames - 100))
        draws = trial_draws(
            lambda name: seeds.stream(self.key, name, number),
            clip.body_pos_w,
            s.profile,
            s.short_steps if is_short else s.episode_steps,
        )
        g1 = scene.build(spec.TRAIN_TIMESTEP_S, draws.dynamics, draws.terrain)
        handed = self.rng.random() < s.handover_share and not is_short
        handover = int(self.rng.integers(1, s.handover_steps)) if handed else 0
        trial = Trial(clip, draws, first_frame=first, g1=g1)
        return Rollout(course, trial, s.episode_steps if self.is_expert else handover)

    def collect(self, act: Act) -> None:
        """Advances every rollout by one round and labels the states that it visits."""
        s = self.settings
        windows, labels = [], []
        for t in range(s.steps_per_round):
            for i, rollout in enumerate(self.rollouts):
                if rollout.trial.ended is not None:
                    if rollout.handover < rollout.trial.step_index:
                        self.lengths.append(rollout.trial.step_index)
                    rollout = self.rollouts[i] = self._start(i)
                    self.seen[i] = 0.0
                self.seen[i, :-1] = self.seen[i, 1:]
                self.seen[i, -1] = rollout.look()
            with torch.no_grad():
                actions = act(torch.from_numpy(self.seen.reshape(s.robots, -1))).numpy()
            for i, (rollout, action) in enumerate(zip(self.rollouts, actions, strict=True)):
                trial = rollout.trial
                drives = trial.step_index < rollout.handover
                if drives or (t + i) % s.label_every == 0:
                    label = rollout.label()
                    is_lost = np.abs(label).max() > s.label_limit
                    self.n_lost += is_lost
                    rollout.lost = rollout.lost + 1 if is_lost else 0
                    if not is_lost:
                        windows.append(rollout.window.copy())
                        labels.append(label)
                    if drives:
                        action = np.clip(label, -s.label_limit, s.label_limit)
                        action += rollout.bias / SCALE
                else:
                    rollout.expert.watch(trial.frame, trial.data)
                trial.step(action)
                if rollout.lost >= s.lost_labels and trial.ended is None:
                    trial.end("lost")
        self._file(np.array(windows), np.array(labels))

    def _file(self, windows: np.ndarray, labels: np.ndarray) -> None:
        """Keeps the features of clean windows, each under several draws of noise and bias."""
        self.n_labels += len(labels)
        bias_range = spec.EVAL_DRAWS.encoder_bias_rad
        index, sign = self.mirror
        joint, flip = self.mirror_joints
        exists = np.abs(windows[:, :, REFERENCE]).max(axis=2) > 0.0
        has_acted = exists.copy()
        has_acted[:, 1:] &= exists[:, :-1]  # the first frame of a rollout knows no action
        has_acted[:, 0] = exists[:, 0]
        for variant in range(self.settings.variants):
            frames, label = windows, labels
            if variant % 2:
                frames, label = frames[:, :, index] * sign, label[:, joint] * flip
            bias = self.rng.uniform(*bias_range, size=label.shape)
            frames = frames + draw_noise(self.rng, exists.size).reshape(frames.shape)
            frames[:, :, JOINT_POS] += bias[:, None]
            frames[:, :, LAST_ACTION] += (bias / SCALE)[:, None] * has_acted[:, :, None]
            frames *= exists[:, :, None]
            obs = torch.from_numpy(frames.astype(np.float32)).flatten(1)
            with torch.no_grad():
                features = torch.cat([self.senses(part) for part in obs.split(512)])
            self.features.append(features)
            self.labels.append(torch.from_numpy((label + bias / SCALE).astype(np.float32)))

    def sample(self, n: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Features and labels of `n` random states of all rounds so far."""
        sizes = np.array([len(labels) for labels in self.labels])
        share = self.rng.multinomial(n, sizes / sizes.sum())
        features, labels = [], []
        for part, count in enumerate(share):
            if count:
                index = torch.from_numpy(self.rng.integers(0, sizes[part], count))
                features.append(self.features[part][index])
                labels.append(self.labels[part][index])
        return torch.cat(features), torch.cat(labels)
