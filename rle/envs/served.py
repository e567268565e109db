"""The adapter of a served task as a Gymnasium environment: no broker, no budget, public draws. Never scored."""

from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium
import mujoco
import numpy as np

from rle import seeds
from rle.service.adapter import BadRequest, SessionSpec, TrialPlan
from rle.service.protocol import Ended, ObserveSpec, Scalar

MAX_SEED = 2**31 - 1
Scorer = Callable[[str, Any, dict, dict | None], tuple[float, dict]]
"""(task, instance, evidence, answer) to (score, measurements)."""


class AdapterEnv(gymnasium.Env):
    """One trial per episode. (`spec` is Gymnasium's own attribute; the task's declaration is `session`.)

    Reward is 0 until the episode is closed, by the trial's own end, `finish()` or `submit(...)`; then it is
    the score. Extra operations are `call(name, ...)`.

    Args:
        spec: Session declaration of the task.
        adapter: Its simulator side; has `ready.model` and `instance`.
        score: Scores the evidence of a closed trial.
        render_images: Puts pictures of all cameras into the observation.
        image_px: Side of those pictures.
        render_mode: None or "rgb_array" (first camera).
    """

    metadata: ClassVar[dict] = {"render_modes": ["rgb_array"], "render_fps": 20}

    def __init__(
        self, spec: SessionSpec, adapter: Any, score: Scorer, *, render_images: bool = False,
        image_px: int = 128, render_mode: str | None = None,
    ) -> None:  # fmt: skip
        self.session, self.adapter = spec, adapter
        self.render_mode = render_mode
        self._score = score
        self._look = ObserveSpec(
            cameras=spec.cameras if render_images else (), width_px=image_px, height_px=image_px
        )
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (spec.action_dim,), np.float32)
        self.observation_space = self._space(render_images, image_px)
        self._closed = True

    def _space(self, render_images: bool, image_px: int) -> gymnasium.spaces.Dict:
        spaces: dict[str, gymnasium.Space] = {}
        for key in self.session.observation:
            if key.dtype == "bool":
                spaces[key.name] = gymnasium.spaces.MultiBinary(key.shape or 1)
            else:
                spaces[key.name] = gymnasium.spaces.Box(-np.inf, np.inf, key.shape, np.float64)
        if render_images:
            shape = (image_px, image_px, 3)
            for camera in self.session.cameras:
                spaces[f"{camera}_image"] = gymnasium.spaces.Box(0, 255, shape, np.uint8)
        return gymnasium.spaces.Dict(spaces)

    @property
    def model(self) -> mujoco.MjModel:
        """Compiled model of the present trial."""
        return self.adapter.ready.model

    @property
    def data(self) -> mujoco.MjData:
        """State of the present trial."""
        return self.adapter.ready.data

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        """Draws the instance of a public seed."""
        super().reset(seed=seed)
        drawn = seed if seed is not None else int(self.np_random.integers(MAX_SEED))
        family = self.session.task.split("/")[0]
        key = seeds.trial_key(family, self.session.draw_key, "public", drawn)
        phase = self.session.phases[0]
        self.adapter.open_trial(TrialPlan(phase=phase.name, kind=phase.kind, trial=0, key=key))
        self._closed = False
        info = {"claims": {"closed": False}, "seed": drawn}
        return self._observe(), info

    def step(self, action: np.ndarray) -> tuple[dict, float, bool, bool, dict]:
        """One control step."""
        self._need_open()
        values = np.clip(np.asarray(action, dtype=float), -1.0, 1.0)
        outcome = self.adapter.step(values)
        return self._after(outcome.ended, outcome.events)

    def call(self, name: str, **args: Scalar) -> tuple[dict, float, bool, bool, dict]:
        """An extra operation; returns what `step` returns.

        Raises:
            BadRequest: The state does not allow it.
        """
        self._need_open()
        op = self.session.extra(name)
        if op is None:
            known = ", ".join(o.name for o in self.session.extra_ops) or "none"
            raise BadRequest(f"{name} is not an operation of {self.session.task}; known: {known}")
        if op.is_answer:
            return self._close("submitted", dict(args))
        outcome = self.adapter.extra(name, dict(args))
        return self._after(outcome.ended, outcome.events)

    def submit(self, quadrant: str) -> tuple[dict, float, bool, bool, dict]:
        """Answers the episode's box (hidden-com)."""
        return self.call("submit", quadrant=quadrant)

    def finish(self) -> tuple[dict, float, bool, bool, dict]:
        """Takes the final measurement and closes the episode."""
        self._need_open()
        return self._close("finished", None)

    def render(self) -> np.ndarray | None:
        """A picture from the first camera, shape (480, 480, 3), uint8."""
        if self.render_mode != "rgb_array":
            return None
        camera = self.session.cameras[0]
        look = ObserveSpec(cameras=(camera,), width_px=480, height_px=480)
        return self.adapter.observe(look)[f"{camera}_image"]

    def close(self) -> None:
        self.adapter.close()

    # -------------------------------------------------------------------------------------- inside

    def _after(self, ended: Ended | None, events: dict) -> tuple[dict, float, bool, bool, dict]:
        if ended is not None:
            return self._close(ended, None)
        return self._observe(), 0.0, False, False, {"claims": {"closed": False}, **events}

    def _close(self, ended: Ended, answer: dict | None) -> tuple[dict, float, bool, bool, dict]:
        evidence = self.adapter.finish()
        score, measured = self._score(self.session.task, self.adapter.instance, evidence, answer)
        self._closed = True
        info = {"claims": {"closed": True}, "ended": ended, **measured}
        return self._observe(), score, True, False, info

    def _observe(self) -> dict[str, np.ndarray]:
        observation = dict(self.adapter.observe(self._look))
        for key in self.session.observation:
            if key.dtype == "bool":
                bits = np.atleast_1d(observation[key.name])
                observation[key.name] = bits.astype(np.int8)
        return observation

    def _need_open(self) -> None:
        if self._closed:
            raise gymnasium.error.ResetNeeded("the episode is closed; call reset()")
