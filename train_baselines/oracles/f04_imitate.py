"""Scored oracle of f04: a network that imitates a privileged controller from noisy observations.

Imitation on the network's own rollouts: robots under the full evaluation draws are driven by the
network; every state they reach is labelled with what the controller would have done, and the network is
fitted to all labels. The controller is the tracker of `f04_tracker.py`, which keeps its feet where they are;
`f04_student.py` learns to step. With `--base` the network does not start from nothing: it corrects the action of
the Kalman window and LQR gains of `f04_lqg.py`, which know neither latency, nor drawn dynamics, nor that feet slip.

    python -m train_baselines.oracles.f04_imitate f04/run --base --out assets/oracles/f04

`--out` receives a folder named after the task.
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
import torch
import tyro
from torch import nn

from families.f04_tracking import spec
from families.f04_tracking.draws import trial_draws
from families.f04_tracking.export import export_policy
from families.f04_tracking.reference import Reference, load_clip
from families.f04_tracking.task import Trial
from rle import seeds
from train_baselines.oracles.f04_lqg import MEASURED, KalmanLqr
from train_baselines.oracles.f04_lqg import Settings as LqgSettings
from train_baselines.oracles.f04_tracker import NV, Tracker
from train_baselines.oracles.f04_tracker import Settings as TrackerSettings

BASE_FEATURES = spec.ACTION_DIM + 2 * NV
"""The base's action and estimate."""


@dataclass(frozen=True)
class Settings:
    """Choices of the imitation."""

    history: int = 16
    """Observation frames that the network sees."""
    hidden: tuple[int, ...] = (256, 128)
    expert: TrackerSettings = TrackerSettings()
    base: LqgSettings | None = None
    """What the network corrects; None is nothing."""
    base_limit: float = 10.0
    """The corrected actions are clipped to this first."""
    profile: str = spec.SCORED_PROFILE
    """Perturbations of the rollouts."""
    robots: int = 24
    """Rollouts that run side by side."""
    rounds: int = 22
    steps_per_round: int = 250
    """Control steps of each robot per round: 6,000 new samples."""
    expert_share: tuple[float, ...] = (1.0, 0.6, 0.3)
    """Probability that a step executes the tracker's action, by round; 0 afterwards."""
    episode_steps: int = 250
    """Longest rollout."""
    start_share: float = 0.2
    """Rollouts that start at frame 0; the others start anywhere."""
    label_limit: float = 8.0
    """Labels are clipped to this. A state where the tracker wants more is lost and teaches nothing."""
    arm_weight: float = 0.2
    """Weight of the arms' label errors; legs and waist have 1."""
    huber_beta: float = 0.5
    """Error from which the loss grows linearly."""
    updates_per_round: int = 200
    final_updates: int = 1500
    """Updates after the last round, with the step size falling to a tenth."""
    batch: int = 512
    learning_rate: float = 1e-3
    average_decay: float = 0.995
    """Decay of the moving average of the weights, which drives the robots and is exported."""
    input_limit: float = 5.0
    """Standardised inputs are clipped to this."""


class Student(nn.Module):
    """actions = base(obs) + linear(x) + mlp(x), where x are standardised inputs.

    x holds the measured numbers of all frames, the newest frame's clip (it is noise-free and smooth, so
    older ones add nothing), and, with a base, its action and estimate.

    Args:
        base: Policy that is corrected; has no trained parameter. None is nothing.
        settings: Sizes.
    """

    def __init__(self, base: KalmanLqr | None, settings: Settings) -> None:
        super().__init__()
        self.base, self.settings = base, settings
        size, last = spec.OBS_DIM, settings.history - 1
        old = [f * size + i for f in range(last) for i in range(MEASURED.start, size)]
        self.register_buffer("index", torch.tensor([*old, *range(last * size, last * size + size)]))
        n = len(self.index) + (BASE_FEATURES if base else 0)
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("std", torch.ones(n))
        self.linear = nn.Linear(n, spec.ACTION_DIM)
        widths = (n, *settings.hidden)
        layers: list[nn.Module] = []
        for i, width in enumerate(settings.hidden):
            layers += [nn.Linear(widths[i], width), nn.ELU()]
        out = nn.Linear(widths[-1], spec.ACTION_DIM)
        for layer in (self.linear, out):  # starts as the base
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.mlp = nn.Sequential(*layers, out)

    def features(self, obs: torch.Tensor) -> torch.Tensor:
        """The base's clipped action (29) and estimate (70), shape (N, 99); (N, 0) without a base."""
        if self.base is None:
            return obs[:, :0]
        actions, error = self.base.estimate(obs)
        limit = self.settings.base_limit
        return torch.cat([actions.clamp(-limit, limit), error], dim=1)

    def correct(self, obs: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        """Actions (N, 29) from observation histories and the base's features of them."""
        x = (torch.cat([obs[:, self.index], features], dim=1) - self.mean) / self.std
        x = x.clamp(-self.settings.input_limit, self.settings.input_limit)
        correction = self.linear(x) + self.mlp(x)
        return correction if self.base is None else features[:, : spec.ACTION_DIM] + correction

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Actions (N, 29) of observation histories (N, 160 H)."""
        return self.correct(obs, self.features(obs))

    def standardise(self, obs: torch.Tensor, features: torch.Tensor) -> None:
        """Takes mean and spread of the inputs from visited states."""
        x = torch.cat([obs[:, self.index], features], dim=1)
        self.mean.copy_(x.mean(dim=0))
        self.std.copy_(x.std(dim=0).clamp(min=1e-2))


class Robots:
    """Persistent rollouts under the evaluation draws, and all that was seen and labelled in them.

    Args:
        reference: The clip.
        expert: The tracker of that clip.
        settings: Numbers of rollouts and steps.
        key: Key of the random streams of this training run.
    """

    def __init__(
        self, reference: Reference, expert: Tracker, settings: Settings, key: bytes
    ) -> None:
        self.reference, self.expert, self.settings, self.key = reference, expert, settings, key
        self.rng = seeds.stream(key, "rollouts")
        self.n_trials, self.t = 0, 0
        n, total = settings.robots, settings.rounds * settings.steps_per_round
        self.frames = np.zeros((n, total, spec.OBS_DIM), np.float32)
        self.labels = np.zeros((n, total, spec.ACTION_DIM), np.float32)
        n_features = BASE_FEATURES if settings.base else 0
        self.features = torch.zeros(n, total, n_features)
        """The base's features of every visited state; the base is fixed, so they never change."""
        self.age = np.zeros((n, total), np.int64)
        """Control steps since the rollout's start."""
        self.lost = np.zeros((n, total), bool)
        self.trials = [self._start() for _ in range(n)]
        self.lengths: list[int] = []
        """Steps of the rollouts that ended since the last report."""

    def _start(self) -> Trial:
        """A new rollout."""
        steps, number = self.settings.episode_steps, self.n_trials
        self.n_trials += 1
        last = self.reference.frames - 2
        from_start = self.rng.random() < self.settings.start_share
        first = 0 if from_start else int(self.rng.integers(0, last))
        draws = trial_draws(
            lambda name: seeds.stream(self.key, name, number),
            self.reference.body_pos_w,
            self.settings.profile,
            steps,
        )
        return Trial(self.reference, draws, first_frame=first)

    def windows(self, robot: np.ndarray, t: np.ndarray) -> torch.Tensor:
        """Observation histories at the given places, shape (N, 160 H); zeros before a rollout's start."""
        back = np.arange(self.settings.history - 1, -1, -1)
        alive = back <= self.age[robot, t][:, None]
        picked = self.frames[robot[:, None], np.maximum(t[:, None] - back, 0)]
        picked *= alive[:, :, None]
        return torch.from_numpy(picked.reshape(len(robot), -1))

    def collect(self, student: Student, expert_share: float) -> None:
        """Advances every rollout by one round and labels each state that it visits."""
        everyone = np.arange(len(self.trials))
        for _ in range(self.settings.steps_per_round):
            for i, trial in enumerate(self.trials):
                if trial.ended is not None:
                    self.lengths.append(trial.step_index)
                    trial = self.trials[i] = self._start()
                self.age[i, self.t] = trial.step_index
                self.frames[i, self.t] = trial.observe()[0]
                bias = np.array(trial.draws.dynamics.encoder_bias_rad)
                self.labels[i, self.t] = self.expert.action(trial.frame, trial.data, bias)
            limit = self.settings.label_limit
            self.lost[:, self.t] = np.abs(self.labels[:, self.t]).max(axis=1) > limit
            np.clip(self.labels[:, self.t], -limit, limit, out=self.labels[:, self.t])
            with torch.no_grad():
                obs = self.windows(everyone, np.full(len(everyone), self.t))
                features = student.features(obs)
                own = student.correct(obs, features).numpy()
            self.features[:, self.t] = features
            expert = self.rng.random(len(everyone)) < expert_share
            actions = np.where(expert[:, None], self.labels[:, self.t], own)
            for trial, action in zip(self.trials, actions, strict=True):
                trial.step(action)
            self.t += 1

    def sample(self, n: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Histories, features and labels of up to `n` random states of all rounds so far that are not lost."""
        robot = self.rng.integers(0, len(self.trials), n)
        t = self.rng.integers(0, self.t, n)
        kept = ~self.lost[robot, t]
        robot, t = robot[kept], t[kept]
        labels = torch.from_numpy(self.labels[robot, t])
        features = self.features
        assert features is not None, "collect() comes first"
        return self.windows(robot, t), features[robot, t], labels


def train(
    slug: str, reference: Reference, settings: Settings, seed: int, out: Path, max_minutes: float
) -> None:
    """Trains the student of one clip and exports it after every fifth round and at the end.

    Args:
        slug: Task without the family.
        reference: The clip.
        settings: All choices.
        seed: Seed of weights and rollouts.
        out: Folder of the artifact.
        max_minutes: Wall time after which no further round starts; a run that meets it is not
            reproducible, and says so.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    began = time.monotonic()
    key = seeds.trial_key("f04", slug, "public", f"imitation-{seed}")
    robots = Robots(reference, Tracker(reference, settings.expert), settings, key)
    base = None if settings.base is None else KalmanLqr(reference, settings.base)
    student = Student(base, settings)
    average = copy.deepcopy(student)
    optimizer = torch.optim.Adam(student.parameters(), lr=settings.learning_rate)
    weight = torch.ones(spec.ACTION_DIM)
    weight[[i for i, name in enumerate(spec.JOINT_NAMES) if _is_arm(name)]] = settings.arm_weight

    def update(count: int, final: bool) -> float:
        total = 0.0
        for i in range(count):
            rate = 0.1 ** (i / count) if final else 1.0
            optimizer.param_groups[0]["lr"] = settings.learning_rate * rate
            obs, features, label = robots.sample(settings.batch)
            loss = nn.functional.smooth_l1_loss(
                student.correct(obs, features), label, reduction="none", beta=settings.huber_beta
            )
            loss = (loss * weight).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            with torch.no_grad():
                for mean, now in zip(average.parameters(), student.parameters(), strict=True):
                    mean.lerp_(now, 1.0 - settings.average_decay)
        return total / count

    def stage(rounds: int) -> None:
        options = " --base" if settings.base else ""
        command = f"python -m train_baselines.oracles.f04_imitate f04/{slug}"
        meta = {
            "made_by": f"{command} --seed {seed} --rounds {settings.rounds}{options}",
            "reference": reference.kind,
            "reference_sha256": reference.sha256,
            "rounds": rounds,
            "samples": robots.t * settings.robots,
        }
        probes = robots.sample(spec.EXPORT_PROBES)[0].numpy()
        export_policy(average, out, settings.history, meta, probes)

    for number in range(settings.rounds):
        if (time.monotonic() - began) / 60.0 > max_minutes:
            print(f"stopped by --max-minutes after {number} rounds")
            break
        share = settings.expert_share[number] if number < len(settings.expert_share) else 0.0
        robots.collect(average, share)
        if number == 0:
            obs, features, _label = robots.sample(4096)
            student.standardise(obs, features)
            average.load_state_dict(student.state_dict())
        loss = update(settings.updates_per_round, final=False)
        lengths, robots.lengths = robots.lengths, []
        row = {
            "round": number,
            "loss": round(loss, 5),
            "lost": round(float(robots.lost[:, : robots.t].mean()), 4),
            "mean_steps": round(float(np.mean(lengths)), 1) if lengths else None,
            "wall_s": round(time.monotonic() - began, 1),
            "cpu_s": round(time.process_time(), 1),
        }
        print(json.dumps(row), flush=True)
        if number % 5 == 4:
            stage(number + 1)
    update(settings.final_updates, final=True)
    stage(robots.t // settings.steps_per_round)
    print(json.dumps({"done": True, "cpu_s": round(time.process_time(), 1)}), flush=True)


def _is_arm(joint: str) -> bool:
    return any(part in joint for part in ("shoulder", "elbow", "wrist"))


@dataclass(frozen=True)
class Arguments:
    """Train the imitation oracle of one task, without steps, and export it."""

    task: Annotated[str, tyro.conf.Positional]
    """Task id, f04/run."""
    out: Path
    """Receives a folder named after the task."""
    seed: int = 0
    rounds: int = Settings.rounds
    base: bool = False
    """Correct the Kalman and LQR policy of the task instead of starting from nothing."""
    max_minutes: float = float("inf")
    """Wall time after which no further round starts."""


def main(arguments: Arguments) -> None:
    """Command line entry point."""
    settings = replace(Settings(), rounds=arguments.rounds)
    if arguments.base:
        base = LqgSettings()
        settings = replace(
            settings, base=base, expert=base.tracker, hidden=(192, 96), expert_share=(0.5,)
        )
    print(json.dumps(asdict(settings)), flush=True)
    slug = arguments.task.removeprefix("f04/")
    reference, out = load_clip(arguments.task), arguments.out / slug
    train(slug, reference, settings, arguments.seed, out, arguments.max_minutes)


if __name__ == "__main__":
    main(tyro.cli(Arguments))
