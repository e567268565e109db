"""MuJoCo's warnings and non-finite states become named errors; nothing is clipped in silence.

MuJoCo prints warnings and goes on. Here a handler keeps their texts per thread (the callback runs
in the thread that stepped), and `check` turns a warning count or a non-finite state into a
`SimulationError` that names the buffer size or the element.
"""

import threading
from collections import deque
from typing import Any

import mujoco
import numpy as np

from rle.errors import SimulationError

_MAX_KEPT = 100
_local: Any = threading.local()


def install_warning_handler() -> None:
    """Routes MuJoCo's warnings into this module. Called once by `rle.sim`."""
    mujoco.set_mju_user_warning(_keep)


def _keep(text: str) -> None:
    if not hasattr(_local, "texts"):
        _local.texts = deque(maxlen=_MAX_KEPT)
    _local.texts.append(text)


def take_warnings() -> list[str]:
    """Returns and forgets the texts that MuJoCo reported in this thread, oldest first."""
    texts: list[str] = list(getattr(_local, "texts", ()))
    if texts:
        _local.texts.clear()
    return texts


def has_warning(data: mujoco.MjData) -> bool:
    """True if any of MuJoCo's seven warning counters of this data is above zero."""
    return bool(np.any(data.warning.number))


def is_finite(data: mujoco.MjData) -> bool:
    """True if every position and velocity is finite."""
    return bool(np.isfinite(data.qpos).all() and np.isfinite(data.qvel).all())


def step(
    model: mujoco.MjModel, data: mujoco.MjData, what: str = "simulation", steps: int = 1
) -> None:
    """`mj_step`, once or more; a solver that gives up on a diverged state is a named error, as in `check`.

    Raises:
        SimulationError: `sim_unstable`, where MuJoCo itself ends the step with a fatal error.
    """
    try:
        mujoco.mj_step(model, data, steps)
    except mujoco.FatalError as error:
        raise diverged(data, what, error) from error


def diverged(data: mujoco.MjData, what: str, error: Exception) -> SimulationError:
    """A solver's fatal error as the named one, for loops that cannot afford a call a step."""
    return SimulationError(f"{what} at {data.time:.3f} s: {error}")


def check(model: mujoco.MjModel, data: mujoco.MjData, what: str = "simulation") -> None:
    """Raises if the physics can no longer be trusted.

    Args:
        model: Compiled model, for sizes in the message.
        data: State after a step.
        what: Names the caller in the message ("trial t03").

    Raises:
        SimulationError: `sim_overflow` for a full buffer, `sim_unstable` for anything else.
    """
    texts = take_warnings()
    if not has_warning(data) and is_finite(data):
        return
    counts = data.warning.number
    if counts[mujoco.mjtWarning.mjWARN_CONTACTFULL] or counts[mujoco.mjtWarning.mjWARN_CNSTRFULL]:
        raise SimulationError(
            f"{what} filled MuJoCo's arena of {model.narena} bytes at {data.time:.3f} s; "
            f"raise the model's memory to {2 * model.narena} bytes",
            code="sim_overflow",
        )
    cause = texts[-1] if texts else "non-finite position or velocity"
    raise SimulationError(f"{what} at {data.time:.3f} s: {cause}")
