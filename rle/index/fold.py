"""The arithmetic of the Index. Scores come in as arrays over the tasks of a set, missing ones as 0.

S_{j,k} = mean of the task scores of family j
S_k     = mean of the family scores of workflow k
S_RLE   = mean of the workflow scores
"""

import math
from collections.abc import Sequence

import numpy as np

from rle import registry
from rle.scoring import clip01


def _family(task: str) -> str:
    return task.split("/")[0]


class TaskSet:
    """The fixed denominator: a named list of tasks, and the weights that follow from it.

    Args:
        name: `rle-51`, or a corrected set `rle-51+cN`.
        tasks: Ids in the registry's order.
    """

    def __init__(self, name: str, tasks: Sequence[str]) -> None:
        self.name = name
        self.tasks = tuple(tasks)
        self.families = tuple(f for f in registry.PACKAGES if any(_family(t) == f for t in tasks))
        self.workflows = tuple(
            w for w, members in registry.WORKFLOWS.items() if set(members) & set(self.families)
        )
        self.members = {
            f: np.array([i for i, t in enumerate(self.tasks) if _family(t) == f])
            for f in self.families
        }
        """Columns of each family's tasks."""
        self._to_workflow = np.array(
            [[float(registry.workflow_of(f) == w) for w in self.workflows] for f in self.families]
        )
        self._to_workflow /= self._to_workflow.sum(axis=0)

    def family_means(self, scores: np.ndarray) -> np.ndarray:
        """S_{j,k} = mean of the task scores of family j. Shape (..., tasks) -> (..., families)."""
        return np.stack(
            [scores[..., self.members[f]].mean(axis=-1) for f in self.families], axis=-1
        )

    def workflow_means(self, family_scores: np.ndarray) -> np.ndarray:
        """S_k = mean of the family scores of workflow k. Shape (..., families) -> (..., workflows)."""
        return family_scores @ self._to_workflow

    def index(self, family_scores: np.ndarray) -> np.ndarray:
        """S_RLE = mean of the workflow scores. Shape (..., families) -> (...)."""
        return self.workflow_means(family_scores).mean(axis=-1)

    def fold(self, scores: np.ndarray) -> np.ndarray:
        """S_RLE of task scores. Shape (..., tasks) -> (...)."""
        return self.index(self.family_means(scores))

    def available(self, scores: np.ndarray) -> tuple[float | None, dict[str, float | None]]:
        """The same means over what exists (NaN: no result), for the index and for each group.

        Args:
            scores: Shape (tasks,), NaN where there is no result.
        """
        families = {f: _mean(scores[self.members[f]]) for f in self.families}
        groups: dict[str, float | None] = dict(families)
        for w in self.workflows:
            groups[w] = _mean([families[f] for f in registry.WORKFLOWS[w] if f in families])
        return _mean([groups[w] for w in self.workflows]), groups


FULL_SET = TaskSet("rle-51", registry.TASK_IDS)


def _mean(values: Sequence[float | None] | np.ndarray) -> float | None:
    known = [float(v) for v in values if v is not None and math.isfinite(v)]
    return float(np.mean(known)) if known else None


def fold_mean(values: dict[str, float | None], task_set: TaskSet = FULL_SET) -> float | None:
    """Mean over workflows of family means of task values, over what is known (costs, hours)."""
    array = np.array([np.nan if (v := values.get(t)) is None else v for t in task_set.tasks])
    return task_set.available(array)[0]


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """1 - C(n - c, k) / C(n, k): chance that one of k runs drawn from n passes, c of which did.

    None for n < k.
    """
    if n < k:
        return None
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def lift(score: float, floor: float) -> float:
    """clip((s - floor) / (1 - floor), 0, 1): what is above the score that comes for free."""
    return clip01((score - floor) / (1.0 - floor)) if floor < 1.0 else 0.0
