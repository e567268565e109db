"""`rle train`: runs the family's training baseline with its own options."""

import dataclasses
import subprocess
import sys

import tyro

from rle import registry
from rle.errors import UserError

BASELINES: dict[str, str] = {"f04": "train_baselines.f04_ppo"}
"""Baseline of each family that trains; one readable file each."""


@dataclasses.dataclass
class Train:
    """Trains a task's baseline, with its options. Example: rle train f04/dance --backend mjc --minutes 60"""

    task: tyro.conf.Positional[str]
    """Task id, as in `rle list`."""
    extra: tyro.conf.Suppress[tuple[str, ...]] = ()

    def run(self) -> int:
        task = registry.get(self.task)
        if task.family not in BASELINES:
            trained = ", ".join(BASELINES)
            raise UserError(f"{task.id} has no training baseline; families with one: {trained}")
        argv = [sys.executable, "-m", BASELINES[task.family], "--task", task.id, *self.extra]
        return subprocess.run(argv, check=False).returncode
