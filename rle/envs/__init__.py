"""Gymnasium ids of the tasks that have an environment to step.

    import rle.envs                                      # registers the ids
    env = gymnasium.make("rle/f04-dance-v1")             # or gymnasium.make("rle.envs:rle/f04-dance-v1")
    envs = gymnasium.make_vec("rle/f04-dance-v1", num_envs=64, vectorization_mode="vector_entry_point")

A family offers `make_env(task, **options) -> gymnasium.Env` in its `task` room. The environment uses public
draws (`reset(seed=...)` names one), has `unwrapped.model` and `unwrapped.data` (MuJoCo) and puts
`info["claims"]`, a dict of named booleans ("fallen", "solved"), none of which is true at reset.
"""

import importlib

import gymnasium

from rle import registry
from rle.errors import UserError


def register_all() -> None:
    """Registers every landed task that has a Gymnasium id; safe to call twice."""
    for task_id in registry.landed_tasks():
        gym_id = registry.get(task_id).gym_id
        if gym_id and gym_id not in gymnasium.registry:
            gymnasium.register(
                id=gym_id,
                entry_point="rle.envs:make",
                vector_entry_point="rle.envs:make_vector",
                kwargs={"task_id": task_id},
            )


def make(task_id: str, **options: object) -> gymnasium.Env:
    """Builds the task's environment; the entry point behind every id."""
    importlib.import_module("rle.sim")  # chooses the GL backend before MuJoCo is imported
    task = registry.get(task_id)
    return registry.room(task.family, "task").make_env(task, **options)


def make_vector(task_id: str, num_envs: int = 1, **options: object) -> gymnasium.vector.VectorEnv:
    """Builds the task's batched environment (`gymnasium.make_vec`), where the family has one.

    Raises:
        UserError: The family has no batched environment.
    """
    task = registry.get(task_id)
    room = registry.room(task.family, "task")
    if not hasattr(room, "make_vector_env"):
        raise UserError(
            f"{task_id} has no batched environment; use gymnasium.make_vec(..., vectorization_mode='sync')"
        )
    return room.make_vector_env(task, num_envs=num_envs, **options)


register_all()
