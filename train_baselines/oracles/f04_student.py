"""Scored oracle of f04 that takes steps: a network that imitates the stepping controller from noisy frames.

Robots under the full evaluation draws are driven by the network; in the states that they reach, every other
control step is labelled with what `f04_stepper.py`, which sees the true state, would do, and the network is fitted
to all labels so far. What makes labels go further:

- the network sees the features of `f04_senses.py`, not frames;
- sensor noise and encoder bias decide nothing about a label, so each is used under several draws of both;
- the robot is symmetric: what it should do seen in a mirror is what the mirrored robot should do;
- one network learns several clips: what is to be tracked is in the observation.

    python -m train_baselines.oracles.f04_student f04/dance f04/fight --out assets/oracles/f04

`--out` receives one folder per task.
"""

import copy
import json
import os
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import tyro
from torch import nn

from families.f04_tracking import scene, spec
from families.f04_tracking.draws import draw_noise, trial_draws
from families.f04_tracking.export import export_policy
from families.f04_tracking.reference import Reference, load_clip
from families.f04_tracking.task import Trial
from rle import seeds
from train_baselines.oracles.f04_pendulum import Frames, frames_of
from train_baselines.oracles.f04_senses import (
    HISTORY,
    JOINT_POS,
    LAST_ACTION,
    Senses,
    mirror,
    mirror_joints,
)
from train_baselines.oracles.f04_stepper import Stepper

SCALE = np.array(spec.ACTION_SCALE_RAD)


@dataclass(frozen=True)
class Settings:
    """Choices of the imitation."""

    hidden: tuple[int, ...] = (512, 256)
    profile: str = spec.SCORED_PROFILE
    """Perturbations of the rollouts."""
    robots: int = 48
    """Rollouts that run side by side."""
    rounds: int = 60
    steps_per_round: int = 100
    """Control steps of each robot per round."""
    label_every: int = 2
    """Control steps between two labels of a robot; the controller's memory follows all of them."""
    variants: int = 4
    """Draws of noise and bias per label; every second one in the mirror."""
    expert_rounds: int = 2
    """Rounds in which the controller drives."""
    handover_share: float = 0.4
    """Later rollouts that the controller drives for the first steps,"""
    handover_steps: int = 200
    """up to this many."""
    episode_steps: int = 500
    """Longest rollout."""
    start_share: float = 0.4
    """Rollouts that start at frame 0; the others start anywhere."""
    label_limit: float = 8.0
    """Labels are clipped to this. A state where the controller wants more is lost and teaches nothing."""
    lost_labels: int = 4
    """Rollouts end after so many lost states in a row."""
    arm_weight: float = 0.2
    """Weight of the arms' label errors; legs and waist have 1."""
    huber_beta: float = 0.5
    """Error from which the loss grows linearly."""
    updates_per_round: int = 250
    final_updates: int = 3000
    """Updates after the last round, with the step size falling to a hundredth."""
    batch: int = 512
    learning_rate: float = 1e-3
    average_decay: float = 0.995
    """Decay of the moving average of the weights, which drives the robots and is exported."""
    input_limit: float = 5.0
    """Standardised inputs are clipped to this."""


class Student(nn.Module):
    """actions = linear(x) + mlp(x), where x are the standardised features of `Senses`.

    Args:
        settings: Sizes.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.senses, self.limit = Senses(), settings.input_limit
        n = self.senses.size
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("std", torch.ones(n))
        self.linear = nn.Linear(n, spec.ACTION_DIM)
        widths = (n, *settings.hidden)
        layers: list[nn.Module] = []
        for i, width in enumerate(settings.hidden):
            layers += [nn.Linear(widths[i], width), nn.ELU()]
        self.mlp = nn.Sequential(*layers, nn.Linear(widths[-1], spec.ACTION_DIM))
        for layer in (self.linear, self.mlp[-1]):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def act(self, features: torch.Tensor) -> torch.Tensor:
        """Actions (N, 29) of features (N, F)."""
        x = ((features - self.mean) / self.std).clamp(-self.limit, self.limit)
        return self.linear(x) + self.mlp(x)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Actions (N, 29) of observation histories (N, 160 H)."""
        return self.act(self.senses(obs))

    def standardise(self, features: torch.Tensor) -> None:
        """Takes mean and spread of the inputs from visited states."""
        self.mean.copy_(features.mean(dim=0))
        self.std.copy_(features.std(dim=0).clamp(min=1e-2))


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
    """

    def __init__(self, courses: list[Course], settings: Settings, key: bytes) -> None:
        self.courses, self.settings, self.key = courses, settings, key
        self.rng = seeds.stream(key, "rollouts")
        self.senses, self.mirror, self.mirror_joints = Senses(), mirror(), mirror_joints()
        self.n_trials, self.is_expert = 0, True
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
        from_start = self.rng.random() < s.start_share
        first = 0 if from_start else int(self.rng.integers(0, clip.frames - 100))
        draws = trial_draws(
            lambda name: seeds.stream(self.key, name, number),
            clip.body_pos_w,
            s.profile,
            s.episode_steps,
        )
        g1 = scene.build(spec.TRAIN_TIMESTEP_S, draws.dynamics, draws.terrain)
        handed = self.rng.random() < s.handover_share
        handover = int(self.rng.integers(1, s.handover_steps)) if handed else 0
        trial = Trial(clip, draws, first_frame=first, g1=g1)
        return Rollout(course, trial, s.episode_steps if self.is_expert else handover)

    def collect(self, student: Student) -> None:
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
                actions = student(torch.from_numpy(self.seen.reshape(s.robots, -1))).numpy()
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
        exists = np.abs(windows[:, :, :58]).max(axis=2) > 0.0
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


def joint_weight(settings: Settings) -> torch.Tensor:
    """Weight of each action's error, shape (29,)."""
    arms = ("shoulder", "elbow", "wrist")
    return torch.tensor(
        [
            settings.arm_weight if any(part in name for part in arms) else 1.0
            for name in spec.JOINT_NAMES
        ]
    )


class Teacher:
    """Fits a student and its moving average to the labels of a school."""

    def __init__(self, school: School, settings: Settings) -> None:
        self.school, self.settings = school, settings
        self.student = Student(settings)
        self.average = copy.deepcopy(self.student)
        self.optimizer = torch.optim.Adam(self.student.parameters(), lr=settings.learning_rate)
        self.weight = joint_weight(settings)

    def loss(self, features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Weighted smooth L1 of the actions."""
        off = nn.functional.smooth_l1_loss(
            self.student.act(features), labels, reduction="none", beta=self.settings.huber_beta
        )
        return (off * self.weight).mean()

    def update(self, count: int, falls_to: float = 1.0) -> float:
        """Does `count` updates with a step size that falls to a share of the first; the mean loss."""
        s, total = self.settings, 0.0
        for i in range(count):
            self.optimizer.param_groups[0]["lr"] = s.learning_rate * falls_to ** (i / count)
            loss = self.loss(*self.school.sample(s.batch))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
            with torch.no_grad():
                pairs = zip(self.average.parameters(), self.student.parameters(), strict=True)
                for mean, now in pairs:
                    mean.lerp_(now, 1.0 - s.average_decay)
        return total / count


def train(
    courses: list[Course],
    settings: Settings,
    seed: int,
    out: Path,
    max_minutes: float = float("inf"),
) -> None:
    """Trains one student and exports it for every clip after every tenth round and at the end.

    Args:
        courses: The clips.
        settings: All choices.
        seed: Seed of weights and rollouts.
        out: Receives a folder per clip.
        max_minutes: Wall time after which no further round starts. The result is that of as many
            `rounds`, and says so.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    began = time.monotonic()
    key = seeds.trial_key("f04", "+".join(c.slug for c in courses), "public", f"student-{seed}")
    school = School(courses, settings, key)
    teacher = Teacher(school, settings)

    def stage(rounds: int) -> None:
        named = " ".join(f"f04/{course.slug}" for course in courses)
        command = f"python -m train_baselines.oracles.f04_student {named}"
        probes = school.seen.reshape(settings.robots, -1)
        for course in courses:
            meta = {
                "made_by": f"{command} --seed {seed} --rounds {rounds}",
                "reference": course.reference.kind,
                "reference_sha256": course.reference.sha256,
                "rounds": rounds,
                "samples": school.n_labels,
            }
            export_policy(teacher.average, out / course.slug, HISTORY, meta, probes)

    rounds = 0
    for number in range(settings.rounds):
        if (time.monotonic() - began) / 60.0 > max_minutes:
            print(f"stopped by --max-minutes after {number} rounds")
            break
        rounds = number + 1
        school.is_expert = number < settings.expert_rounds
        school.collect(teacher.average)
        if number == 0:
            teacher.student.standardise(torch.cat(school.features))
            teacher.average.load_state_dict(teacher.student.state_dict())
        collected = time.process_time()
        loss = teacher.update(settings.updates_per_round)
        lengths, school.lengths = school.lengths, []
        row = {
            "round": number,
            "loss": round(loss, 5),
            "labels": school.n_labels,
            "lost": int(school.n_lost),
            "ended": len(lengths),
            "mean_steps": round(float(np.mean(lengths)), 1) if lengths else None,
            "wall_s": round(time.monotonic() - began, 1),
            "cpu_s": round(time.process_time(), 1),
            "learn_cpu_s": round(time.process_time() - collected, 1),
        }
        print(json.dumps(row), flush=True)
        if number % 10 == 9:
            stage(rounds)
    teacher.update(settings.final_updates, falls_to=0.01)
    stage(rounds)
    print(json.dumps({"done": True, "cpu_s": round(time.process_time(), 1)}), flush=True)


@dataclass(frozen=True)
class Arguments:
    """Train one network that follows one or more tasks and takes steps; export it for each."""

    tasks: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Task ids, f04/dance."""
    out: Path
    """Receives a folder per task."""
    seed: int = 0
    rounds: int = Settings.rounds
    max_minutes: float = float("inf")
    """Wall time after which no further round starts."""


def main(arguments: Arguments) -> None:
    """Command line entry point."""
    settings = replace(Settings(), rounds=arguments.rounds)
    print(json.dumps(asdict(settings)), flush=True)
    courses = [course_of(task) for task in arguments.tasks]
    train(courses, settings, arguments.seed, arguments.out, arguments.max_minutes)


if __name__ == "__main__":
    main(tyro.cli(Arguments))
