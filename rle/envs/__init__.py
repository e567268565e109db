"""Gymnasium ids of the tasks that have an environment to step: `gymnasium.make("rle/f04-dance-v1")`.

A family offers `make_env(task, **options) -> gymnasium.Env` in its `task` room. The environment uses public
draws (`reset(seed=...)` names one), has `unwrapped.model` (the compiled MuJoCo model) and puts
`info["claims"]`, a dict of named booleans ("fallen", "solved"), none of which is true at reset.
"""

import gymnasium

from rle import registry


def register_all() -> None:
    """Registers every landed task that has a Gymnasium id; safe to call twice.

    Gymnasium calls this by itself through the package's `gymnasium.envs` entry point.
    """
    for task_id in registry.landed_tasks():
        gym_id = registry.get(task_id).gym_id
        if gym_id and gym_id not in gymnasium.registry:
            gymnasium.register(
                id=gym_id,
                entry_point="rle.envs:make",
                kwargs={"task_id": task_id},
                order_enforce=True,
            )


def make(task_id: str, **options: object) -> gymnasium.Env:
    """Builds the task's environment; the entry point behind every id."""
    task = registry.get(task_id)
    return registry.room(task.family, "task").make_env(task, **options)
