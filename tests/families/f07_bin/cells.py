"""Small cells for tests: a few parts put where a test needs them, and hosts that answer as told."""

from collections.abc import Callable, Sequence

import mujoco
import numpy as np

from families.f07_bin import piles, scene, spec
from families.f07_bin.episode import Episode
from rle.verify_api import TrialFault

UPRIGHT = (1.0, 0.0, 0.0, 0.0)
FAR = [(0.35 + 0.1 * (i % 3), -0.33 + 0.1 * (i // 3), 0.1146) for i in range(6)]
"""Places on the bin's bottom, web down, that touch nothing else."""
NEST = (0.45, 0.38, spec.BELT_TOP_Z_M + spec.WEB_HALF_M[2])


def streams(name: str, *ids: int) -> np.random.Generator:
    """Streams of a public pile."""
    return piles.public_streams("public", 0)(name, *ids)


def episode(n_parts: int = 1, channels: Sequence[str] = ()) -> Episode:
    """A pile of parts that lie apart on the bottom of the bin."""
    poses = np.array([(*FAR[i], *UPRIGHT) for i in range(n_parts)])
    return Episode(piles.Pile(poses, scene.Lights(), 1), streams, channels)


def put(e: Episode, part: int, position, quat_wxyz=UPRIGHT, velocity=(0.0, 0.0, 0.0)) -> None:
    """Moves a part, without spin."""
    address, dof = e.cell.part_qpos[part], e.cell.part_qvel[part]
    e.data.qpos[address : address + 3], e.data.qpos[address + 3 : address + 7] = position, quat_wxyz
    e.data.qvel[dof : dof + 6] = (*velocity, 0.0, 0.0, 0.0)
    mujoco.mj_forward(e.cell.model, e.data)


def under_head(e: Episode, gap_m: float, part: int = 0, offset_m=(0.0, 0.0)) -> None:
    """Puts a part with its web's lower face square to the head, `gap_m` away, flanges pointing away."""
    mujoco.mj_forward(e.cell.model, e.data)
    site = e.cell.model.site("grip").id
    frame = e.data.site_xmat[site].reshape(3, 3)
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, frame.ravel())
    shift = frame[:, :2] @ np.array(offset_m)
    below = frame[:, 2] * (gap_m + spec.WEB_HALF_M[2])
    put(e, part, e.data.site_xpos[site] + below + shift, quat)


def command(magnet: float = 0.0) -> np.ndarray:
    """Home posture."""
    return np.append(spec.ARM_HOME_RAD, magnet)


ON, OFF = command(255.0), command(0.0)


def grab(e: Episode) -> None:
    """Holds part 0 under the head."""
    under_head(e, 0.0005)
    e.step(ON)
    assert e.held == (0,)


class Host:
    """A policy behind the worker's interface.

    Args:
        answer: Called with the name of the function and the arrays; returns a command or raises.
        reset: What `reset` does.
    """

    def __init__(
        self,
        answer: Callable[..., np.ndarray] = lambda name, *arrays: OFF,
        reset: Callable[[], None] = lambda: None,
    ) -> None:
        self.wall_s = 0.0
        self.calls: list[str] = []
        self.fields: dict = {}
        self._answer, self._reset = answer, reset

    def reset(self, **fields) -> None:
        self.fields = fields
        self._reset()

    def call(self, name: str, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        self.calls.append(name)
        self.wall_s += 0.001
        return (self._answer(name, *arrays),)


def fault(ended: str):
    """Something that raises a fault when it is called."""

    def act(*_):
        raise TrialFault(ended, "test")

    return act
