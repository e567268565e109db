"""Bootstrap of the Index. Everything is drawn from one generator seeded by the input.

`trials`: rows are resampled within each task and run. One draw serves all systems, because they meet the
same hidden trials: differences between systems are then paired.
`tasks`: tasks are resampled within each family as well.
"""

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rle import registry
from rle.errors import NotAvailable
from rle.index.fold import TaskSet
from rle.index.model import Cell
from rle.report import Row

Resampler = Callable[[Sequence[Row], np.ndarray], np.ndarray]
"""`metrics.resampled_scores(rows, picks) -> scores before gates`, picks of shape (B, n), result (B,)."""


def generator(seed: bytes, *names: object) -> np.random.Generator:
    """A generator named by the input's digest and by what is drawn."""
    digest = hashlib.sha256(seed + "|".join(map(str, names)).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))


@functools.cache
def family_resampler(family: str) -> Resampler | None:
    """`metrics.resampled_scores` of a family whose reward is not the mean of its rows; else None."""
    try:
        return getattr(registry.room(family, "metrics"), "resampled_scores", None)
    except NotAvailable:
        return None


def is_mean_of_rows(cell: Cell) -> bool:
    """Whether the reward before gates is the mean of the row scores, to 1e-9."""
    total = cell.raw_total if cell.raw_total is not None else cell.reward
    return (
        total is not None
        and len(cell.rows) > 0
        and abs(float(np.mean([row.score for row in cell.rows])) - total) < 1e-9
    )


def can_resample(cell: Cell, resampler: Resampler | None) -> bool:
    """Whether a cell's trials tell how far its reward would move."""
    if cell.reward is None or len(cell.rows) < 2:
        return False
    return resampler is not None or is_mean_of_rows(cell)


class Draw:
    """B draws of n from n with replacement.

    Attributes:
        picks: Indices, shape (B, n).
    """

    def __init__(self, rng: np.random.Generator, n: int, size: int) -> None:
        self.picks = rng.integers(0, n, size=(size, n), dtype=np.int32)

    @functools.cached_property
    def weights(self) -> np.ndarray:
        """How often each index was drawn, over n: a mean of draws is a product. Shape (B, n)."""
        size, n = self.picks.shape
        flat = self.picks + n * np.arange(size, dtype=np.int32)[:, None]
        return np.bincount(flat.ravel(), minlength=size * n).reshape(size, n) / n


def cell_replicates(cell: Cell, draw: Draw, resampler: Resampler | None = None) -> np.ndarray:
    """Reward of a cell with its rows resampled. A gate that capped the reward caps every replicate.

    Args:
        cell: With at least two rows.
        draw: Of as many rows as the cell has.
        resampler: The family's composition; None: mean of the rows.

    Returns:
        Shape (B,).
    """
    if resampler is not None:
        values = resampler(cell.rows, draw.picks)
    else:
        values = draw.weights @ np.array([row.score for row in cell.rows])
    if cell.raw_total is not None and cell.reward is not None and cell.reward < cell.raw_total:
        return np.minimum(values, cell.reward)
    return values


class Bootstrap:
    """Replicates of every task score of every system.

    Args:
        systems: Per system: run -> task -> cell; missing ones count 0.
        n_runs: Runs of every system.
        task_set: The denominator.
        seed: Digest of the input.
        size: Number of replicates B.
    """

    def __init__(
        self,
        systems: Sequence[Mapping[int, Mapping[str, Cell]]],
        n_runs: int,
        task_set: TaskSet,
        seed: bytes,
        size: int,
    ) -> None:
        self.task_set = task_set
        self.size = size
        self.constant: list[set[str]] = [set() for _ in systems]
        """Per system: scored tasks with nothing to resample (one run, one row)."""
        self.tasks = np.zeros((len(systems), len(task_set.tasks), size))
        """Task scores, mean over the runs. Shape (systems, tasks, B)."""
        self._seed = seed
        self._draws: dict[tuple[object, ...], Draw] = {}
        for row, task in enumerate(task_set.tasks):
            for s, runs in enumerate(systems):
                cells = [runs.get(run, {}).get(task) for run in range(1, n_runs + 1)]
                if any(cell is not None for cell in cells):
                    self._fill(s, row, task, cells, family_resampler(task.split("/")[0]))

    def _fill(
        self, s: int, row: int, task: str, cells: Sequence[Cell | None], resampler: Resampler | None
    ) -> None:
        """Replicates of one task of one system: its rows, or its runs where no run has rows."""
        rewards = np.array([(c.reward or 0.0) if c is not None else 0.0 for c in cells])
        usable = [c is not None and can_resample(c, resampler) for c in cells]
        if any(usable):
            parts = [
                cell_replicates(cell, self._draw(len(cell.rows), task, run), resampler)
                if cell is not None and usable[run]
                else rewards[run]
                for run, cell in enumerate(cells)
            ]
            self.tasks[s, row] = sum(parts) / len(cells)
        elif len(cells) > 1:
            self.tasks[s, row] = self._draw(len(cells), task, "runs").weights @ rewards
        else:
            self.tasks[s, row] = rewards[0]
            if cells[0] is not None and cells[0].outcome == "scored":
                self.constant[s].add(task)

    def _draw(self, n: int, *names: object) -> Draw:
        """One draw for all systems."""
        key = (n, *names)
        if key not in self._draws:
            self._draws[key] = Draw(generator(self._seed, *key), n, self.size)
        return self._draws[key]

    def over_trials(self, system: int) -> np.ndarray:
        """Family scores with resampled rows, shape (B, families)."""
        return self.task_set.family_means(self.tasks[system].T)

    def over_tasks(self, system: int) -> np.ndarray:
        """Family scores with resampled rows and tasks, shape (B, families).

        A family of one task keeps it. The tasks drawn are the same for all systems.
        """
        columns = []
        for family in self.task_set.families:
            members = self.task_set.members[family]
            weights = self._draw(len(members), "tasks", family).weights
            columns.append(np.einsum("bt,tb->b", weights, self.tasks[system][members]))
        return np.stack(columns, axis=-1)
