"""A family's trial as a Gymnasium environment: the same loop that is scored, one episode at a time."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import gymnasium
import mujoco
import numpy as np

MAX_SEED = 2**31 - 1


class Step(NamedTuple):
    """What one step of a trial gives."""

    observation: Any
    reward: float
    terminated: bool
    """The trial failed or succeeded for good."""
    truncated: bool
    """The trial's time is over."""
    claims: dict[str, bool]
    """Named facts ("fallen", "solved"); none is true at reset."""


class SteppedTrial(Protocol):
    """A trial that can be stepped from outside."""

    model: mujoco.MjModel
    data: mujoco.MjData

    def start(self) -> tuple[Any, dict[str, bool]]:
        """First observation and claims."""
        ...

    def advance(self, action: np.ndarray) -> Step: ...


class TrialEnv(gymnasium.Env):
    """Gymnasium adapter.

    Args:
        make_trial: Builds the trial of a public seed.
        observation_space: Space of its observations.
        action_space: Space of its actions.
        camera: Camera for `render_mode="rgb_array"`; None is a free camera on the model's centre.
        render_mode: None or "rgb_array".
    """

    metadata: ClassVar[dict] = {"render_modes": ["rgb_array"], "render_fps": 50}

    def __init__(
        self,
        make_trial: Callable[[int], SteppedTrial],
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
        camera: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self.render_mode = render_mode
        self._make_trial, self._camera = make_trial, camera
        self._trial: SteppedTrial | None = None
        self._frames: Any = None

    @property
    def model(self) -> mujoco.MjModel:
        """Compiled model of the present trial."""
        return self._running().model

    @property
    def data(self) -> mujoco.MjData:
        """State of the present trial."""
        return self._running().data

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        """Starts the trial of a seed; without one, the next seed of this environment's generator."""
        super().reset(seed=seed)
        self._close_frames()
        drawn = seed if seed is not None else int(self.np_random.integers(MAX_SEED))
        self._trial = self._make_trial(drawn)
        observation, claims = self._trial.start()
        return observation, {"claims": claims, "seed": drawn}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict]:
        done = self._running().advance(action)
        return (
            done.observation,
            done.reward,
            done.terminated,
            done.truncated,
            {"claims": done.claims},
        )

    def render(self) -> np.ndarray | None:
        """A picture of the present state, shape (480, 640, 3), uint8."""
        if self.render_mode != "rgb_array":
            return None
        from rle.sim.render import Frames

        trial = self._running()
        if self._frames is None:
            self._frames = Frames(trial.model, 640, 480)
        view = self._camera
        if view is None:
            view = mujoco.MjvCamera()
            mujoco.mjv_defaultFreeCamera(trial.model, view)
        return self._frames.rgb(trial.data, view)

    def close(self) -> None:
        self._close_frames()

    def _close_frames(self) -> None:
        if self._frames is not None:
            self._frames.close()
            self._frames = None

    def _running(self) -> SteppedTrial:
        if self._trial is None:
            raise gymnasium.error.ResetNeeded("call reset() before this")
        return self._trial
