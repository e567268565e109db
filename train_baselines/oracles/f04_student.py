"""Scored oracle of f04 that takes steps: a network that imitates the stepping controller from noisy frames.

Round by round it drives the robots of `f04_school.py` and is fitted to all labels that it got there so far. It
sees the features of `f04_senses.py`, not frames, and learns several clips at once: what is to be tracked is in
the observation.

    python -m train_baselines.oracles.f04_student f04/dance f04/fight --out assets/oracles/f04

`--out` receives one folder per task.
"""

import copy
import json
import os
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import onnx
import torch
import tyro
from torch import nn

from families.f04_tracking import spec
from families.f04_tracking.export import export_policy
from rle import seeds
from train_baselines.oracles import f04_school
from train_baselines.oracles.f04_school import Course, School, course_of
from train_baselines.oracles.f04_senses import HISTORY, LAST_ACTION, REFERENCE, Senses


@dataclass(frozen=True)
class Settings:
    """Choices of network and training."""

    school: f04_school.Settings = f04_school.Settings()
    hidden: tuple[int, ...] = (512, 256)
    rounds: int = 60
    expert_rounds: int = 2
    """Rounds in which the controller drives."""
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
    smoothing: float = 0.5
    """Weight of the last two actions, carried on in a straight line, in the exported graph."""


class Student(nn.Module):
    """actions = linear(x) + mlp(x), where x are the standardised features of `Senses`.

    What is exported also minimises |a - actions|^2 + smoothing |a - 2 a_1 + a_2|^2 with the last two actions
    a_1 and a_2: noise that passes through the network costs jerk.

    Args:
        settings: Sizes.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.senses, self.limit = Senses(), settings.input_limit
        self.smoothing = settings.smoothing
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

    def drive(self, obs: torch.Tensor) -> torch.Tensor:
        """Actions (N, 29) of observation histories (N, 160 H), as they come: these visit more states."""
        return self.act(self.senses(obs))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Smoothed actions (N, 29); those of a rollout's first two steps are not."""
        actions = self.drive(obs)
        frames = obs.reshape(-1, HISTORY, spec.OBS_DIM)
        exists = (frames[:, -3, REFERENCE].abs().amax(dim=1, keepdim=True) > 0.0).to(obs.dtype)
        straight = 2.0 * frames[:, -1, LAST_ACTION] - frames[:, -2, LAST_ACTION]
        return actions + self.smoothing / (1.0 + self.smoothing) * exists * (straight - actions)

    def load(self, data: bytes) -> None:
        """Takes over the trained numbers of an exported student of the same sizes."""
        stored = {t.name: t for t in onnx.load_model_from_string(data).graph.initializer}
        # the two last biases add up and have always had the same value: the graph holds one
        stored[f"mlp.{len(self.mlp) - 1}.bias"] = stored["linear.bias"]
        state = self.state_dict()
        for name in state:
            if not name.startswith("senses."):
                state[name] = torch.from_numpy(onnx.numpy_helper.to_array(stored[name]).copy())
        self.load_state_dict(state)

    def standardise(self, features: torch.Tensor) -> None:
        """Takes mean and spread of the inputs from visited states."""
        self.mean.copy_(features.mean(dim=0))
        self.std.copy_(features.std(dim=0).clamp(min=1e-2))


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
    first: Path | None = None,
) -> None:
    """Trains one student and exports it for every clip after every tenth round and at the end.

    Args:
        courses: The clips.
        settings: All choices.
        seed: Seed of weights and rollouts.
        out: Receives a folder per clip.
        max_minutes: Wall time after which no further round starts. The result is that of as many
            `rounds`, and says so.
        first: Folder of an exported student to go on from; None starts from nothing.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    began = time.monotonic()
    key = seeds.trial_key("f04", "+".join(c.slug for c in courses), "public", f"student-{seed}")
    school = School(courses, settings.school, key, settings.expert_rounds > 0)
    teacher = Teacher(school, settings)
    if first is not None:
        stored = (first / spec.ONNX_FILE).read_bytes()
        teacher.student.load(stored)
        teacher.average.load(stored)

    def stage(rounds: int) -> None:
        named = " ".join(f"f04/{course.slug}" for course in courses)
        options = "" if first is None else " --starts FIRST"
        command = f"python -m train_baselines.oracles.f04_student {named}{options}"
        probes = school.seen.reshape(len(school.seen), -1)
        for course in courses:
            meta = {
                "made_by": f"{command} --seed {seed} --rounds {rounds}",
                "reference": course.reference.kind,
                "reference_sha256": course.reference.sha256,
                "rounds": rounds,
                "samples": school.n_labels,
            }
            if first is not None:
                meta["first"] = json.loads((first / spec.META_FILE).read_text())["made_by"]
            export_policy(teacher.average, out / course.slug, HISTORY, meta, probes)

    rounds = 0
    for number in range(settings.rounds):
        if (time.monotonic() - began) / 60.0 > max_minutes:
            print(f"stopped by --max-minutes after {number} rounds")
            break
        rounds = number + 1
        school.is_expert = number < settings.expert_rounds
        school.collect(teacher.average.drive)
        if number == 0 and first is None:
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
    starts: Path | None = None
    """Go on from the student in this folder, mostly with short rollouts from the start of the clips."""
    max_minutes: float = float("inf")
    """Wall time after which no further round starts."""


def main(arguments: Arguments) -> None:
    """Command line entry point."""
    settings = replace(Settings(), rounds=arguments.rounds)
    if arguments.starts is not None:
        settings = replace(
            settings,
            school=replace(settings.school, short_share=0.7),
            expert_rounds=0,
            learning_rate=3e-4,
            final_updates=1000,
        )
    print(json.dumps(asdict(settings)), flush=True)
    courses = [course_of(task) for task in arguments.tasks]
    train(courses, settings, arguments.seed, arguments.out, arguments.max_minutes, arguments.starts)


if __name__ == "__main__":
    main(tyro.cli(Arguments))
