"""A batched torch environment as a `gymnasium.vector.VectorEnv`; finished episodes restart in the same step."""

from typing import Any, ClassVar, Protocol

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv


class TorchBatch(Protocol):
    """The part of rsl-rl's `VecEnv` that is needed."""

    num_envs: int
    num_actions: int

    def reset(self) -> Any: ...
    def step(self, actions: torch.Tensor) -> tuple[Any, torch.Tensor, torch.Tensor, dict]: ...
    def close(self) -> None: ...


class TorchVectorEnv(VectorEnv):
    """Gymnasium adapter; observations are the group `policy`, numpy float32.

    Args:
        make_batch: Called with a seed, builds the batch.
        observation_dim: Width of the `policy` group.
        action_limit: Half-width of the action box.
        seed: Seed of the first build; `reset(seed=...)` builds anew.
    """

    metadata: ClassVar[dict] = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self, make_batch: Any, observation_dim: int, action_limit: float, seed: int = 0
    ) -> None:
        self._make, self._batch = make_batch, make_batch(seed)
        self.num_envs = self._batch.num_envs
        box = gymnasium.spaces.Box
        self.single_observation_space = box(-np.inf, np.inf, (observation_dim,), np.float32)
        self.single_action_space = box(
            -action_limit, action_limit, (self._batch.num_actions,), np.float32
        )
        self.observation_space = gymnasium.vector.utils.batch_space(
            self.single_observation_space, self.num_envs
        )
        self.action_space = gymnasium.vector.utils.batch_space(
            self.single_action_space, self.num_envs
        )

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        if seed is not None:
            self._batch.close()
            self._batch = self._make(seed)
        return self._numpy(self._batch.reset()), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        observation, reward, dones, extras = self._batch.step(torch.as_tensor(actions))
        truncated = extras["time_outs"].cpu().numpy().astype(bool)
        terminated = dones.cpu().numpy().astype(bool) & ~truncated
        info = {k.strip("/"): float(v) for k, v in extras["log"].items()}
        return self._numpy(observation), reward.cpu().numpy(), terminated, truncated, info

    @staticmethod
    def _numpy(observation: Any) -> np.ndarray:
        return observation["policy"].cpu().numpy()

    def close_extras(self, **_: Any) -> None:
        self._batch.close()
