"""A policy and a pile: the one loop that plays them, and the pile as a Gymnasium environment."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium
import numpy as np

from families.f07_bin import piles, scene, spec
from families.f07_bin.episode import Episode
from families.f07_bin.sensors import cell_spec
from rle.contracts import ArraySpec
from rle.envs.single import Step, TrialEnv
from rle.spec import TaskSpec
from rle.verify_api import TrialFault

STATE = (
    ArraySpec("t"),
    ArraySpec("qpos", (spec.N_JOINTS,)),
    ArraySpec("qvel", (spec.N_JOINTS,)),
    ArraySpec("tau", (spec.N_JOINTS,)),
    ArraySpec("ft", (6,)),
    ArraySpec("mag_on"),
    ArraySpec("frame"),
)
"""What every observation holds."""


def picture_arrays(channels: Collection[str]) -> tuple[ArraySpec, ...]:
    """What a frame tick adds, in the order in which it travels."""
    arrays = [ArraySpec("wrist_T_world_cam", (4, 4))]
    for name in spec.CHANNELS:
        if name in channels:
            overhead = name.startswith("overhead")
            width, height = spec.OVERHEAD_WH_PX if overhead else spec.WRIST_WH_PX
            if name.endswith("rgb"):
                arrays.append(ArraySpec(name, (height, width, 3), "uint8"))
            else:
                arrays.append(ArraySpec(name, (height, width), "float32"))
    return tuple(arrays)


class Host(Protocol):
    """What plays a pile: `rle.verify_api.Worker`, or the development side's own process."""

    wall_s: float

    def reset(self, **fields: Any) -> None: ...
    def call(self, name: str, *arrays: np.ndarray) -> tuple[np.ndarray, ...]: ...


@dataclass(frozen=True)
class Played:
    """How the policy behaved in an episode."""

    ended: str
    """`done`, or the ending of `rle.report` that took the policy or the physics away."""
    faults: int
    """Ticks without a valid answer of a living policy."""
    reset_s: float
    act_s: float
    """Charged times."""


def play(
    episode: Episode,
    host: Host,
    seed: int,
    ticks: int = spec.TICKS,
    on_tick: Callable[[Episode], None] = lambda episode: None,
) -> Played:
    """Plays an episode in lock-step: observe, act, clamp, 25 physics steps, and so on.

    Args:
        episode: A fresh episode.
        host: The policy; loaded, not reset.
        seed: The policy's own random stream, 63 bits.
        ticks: Length.
        on_tick: Told of the episode before every tick and once at the end.

    Returns:
        How it went; what was measured is in the episode.
    """
    faults, gone, before_s = 0, "", host.wall_s
    try:
        host.reset(cell_spec=cell_spec(), seed=seed)
    except TrialFault as fault:
        faults, gone = (1, "") if fault.ended == "bad_action" else (0, fault.ended)
    reset_s = host.wall_s - before_s
    while not episode.is_done and episode.tick < ticks and gone != "timeout_total":
        on_tick(episode)
        command = None
        if not gone:
            try:
                command = _ask(host, episode)
            except TrialFault as fault:
                faults += fault.ended == "bad_action"
                gone = "" if fault.ended == "bad_action" else fault.ended
                if gone == "timeout_total":
                    break
        episode.step(command)
    on_tick(episode)
    ended = "sim_unstable" if episode.is_unstable else gone or "done"
    return Played(ended, faults, reset_s, host.wall_s - before_s - reset_s)


def _ask(host: Host, episode: Episode) -> np.ndarray:
    """One observation to the policy; its command, shape (8,)."""
    obs = episode.observe()
    name, arrays = "act", STATE
    if obs["frame"]:
        name, arrays = "act_frame", (*STATE, *picture_arrays(episode.sensors.channels))
    return host.call(name, *(np.asarray(obs[array.name], array.dtype) for array in arrays))[0]


class EpisodeTrial:
    """A public pile as a Gymnasium trial. Missing depth is 0 here, and odd ticks repeat the pictures.

    Args:
        seed: Public seed of the pile.
        channels: Picture channels in the observation.
    """

    def __init__(self, seed: int, channels: Collection[str]) -> None:
        streams = piles.public_streams("public", seed)
        self._episode = Episode(piles.draw(streams), streams, channels)
        self.model, self.data = self._episode.cell.model, self._episode.data
        self._pictures: dict[str, np.ndarray] = {}

    def start(self) -> tuple[dict[str, np.ndarray], dict[str, bool]]:
        """First observation and claims."""
        return self._observe(), self._claims()

    def advance(self, action: np.ndarray) -> Step:
        """One tick. The reward is what its events are worth: 1/n per part cleared, less deductions."""
        episode = self._episode
        before = self._worth()
        episode.step(np.asarray(action, dtype=float))
        over = episode.tick >= spec.TICKS
        return Step(
            observation=self._observe(),
            reward=self._worth() - before,
            terminated=episode.is_done and not over,
            truncated=over,
            claims=self._claims(),
        )

    def close(self) -> None:
        self._episode.close()

    def _worth(self) -> float:
        e = self._episode
        return float(
            e.n_cleared / e.n_parts
            - spec.DEDUCT_FLOOR * e.is_dropped.sum()
            - spec.DEDUCT_DAMAGE * e.is_damaged.sum()
            - spec.DEDUCT_BIN * e.n_bin_hits
        )

    def _observe(self) -> dict[str, np.ndarray]:
        obs = self._episode.observe()
        self._pictures |= {k: np.nan_to_num(v) for k, v in obs.items() if k in spec.CHANNELS}
        state = {a.name: np.asarray(obs[a.name], a.dtype) for a in STATE}
        return state | {name: picture.copy() for name, picture in self._pictures.items()}

    def _claims(self) -> dict[str, bool]:
        e = self._episode
        return {
            "part_cleared": e.n_cleared > 0,
            "all_cleared": e.n_cleared == e.n_parts,
            "part_on_floor": bool(e.is_dropped.any()),
            "part_bent": bool(e.is_damaged.any()),
            "bin_hit": e.n_bin_hits > 0,
        }


def make_env(
    task: TaskSpec,
    *,
    channels: Collection[str] = ("overhead_depth",),
    render_mode: str | None = None,
) -> TrialEnv:
    """Public piles as a Gymnasium environment, `rle/f07-bin-clearing-v1`; a step is a tick.

    Args:
        task: The one task.
        channels: Picture channels in the observation, out of `spec.CHANNELS`.
        render_mode: None or "rgb_array", the overview camera.
    """
    box = gymnasium.spaces.Box
    spaces: dict[str, gymnasium.Space] = {
        a.name: box(-np.inf, np.inf, a.shape, np.float64) for a in STATE
    }
    for array in picture_arrays(channels)[1:]:
        high = 255 if array.dtype == "uint8" else np.inf
        spaces[array.name] = box(0, high, array.shape, np.dtype(array.dtype).type)
    low, high = scene.build(0).model.actuator_ctrlrange.T
    actions = box(
        np.append(low, spec.MAG_CTRL_RANGE[0]),
        np.append(high, spec.MAG_CTRL_RANGE[1]),
        dtype=np.float64,
    )
    return TrialEnv(
        lambda seed: EpisodeTrial(seed, channels),
        gymnasium.spaces.Dict(spaces),
        actions,
        camera="overview",
        render_mode=render_mode,
    )
