"""Scenes of f06 by their streams: single frames, pushes, and a public push as a Gymnasium environment.

Every draw comes from a named stream of (namespace, kind, id): `shape`, `scene` (+ attempt), `light`,
`strokes` (+ attempt, candidate), `sensor` (+ frame), `label` (+ frame). Single frames and pushes with
one id are different scenes.
"""

import functools
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Literal

import gymnasium
import mujoco
import numpy as np

from families.f06_pose import metrics, scene, spec
from families.f06_pose.world import pushes
from families.f06_pose.world.frames import Shot, Studio
from rle import seeds
from rle.envs.single import Step, TrialEnv
from rle.errors import SimulationError
from rle.spec import TaskSpec

Kind = Literal["single", "push"]


def trial_name(kind: Kind, number: int) -> str:
    """Name of a scene among the trials of its namespace."""
    return f"{kind}-{number}"


def open_streams(
    namespace: Literal["public", "design"], kind: Kind, number: int
) -> seeds.TrialStreams:
    """Streams of a scene in one of the namespaces without a salt."""
    key = seeds.trial_key("f06", "pose", namespace, trial_name(kind, number))
    return seeds.TrialStreams(key)


def draw_shape(streams: pushes.Streams) -> int:
    """Shape id of a scene, uniform over the blocks."""
    return int(streams("shape").integers(len(spec.SHAPES)))


def draw_pose(streams: pushes.Streams, attempt: int = 0) -> tuple[float, float, float]:
    """Start pose of a scene: x and y in m, yaw in rad."""
    rng = streams("scene", attempt)
    return (
        float(rng.uniform(*spec.SPAWN_X_M)),
        float(rng.uniform(*spec.SPAWN_Y_M)),
        float(rng.uniform(*spec.SPAWN_YAW_RAD)),
    )


def single_frame(studio: Studio, streams: pushes.Streams, channels: Collection[str]) -> Shot:
    """A single frame: arm parked, block settled, nothing hidden."""
    built = scene.build(draw_shape(streams))
    state = pushes.Simulation(built, draw_pose(streams)).state()
    return studio.shot(built, state, streams, 0, False, channels)


def plan_push(streams: pushes.Streams) -> pushes.Push:
    """Plans the push of a scene: the first candidate with q >= 1, else the best one.

    It always has `spec.FRAMES_MAX` frames and `spec.N_STROKES_MAX` strokes, so that every shorter
    request is a prefix of a longer one.

    Raises:
        SimulationError: Every redraw of the scene was dead.
    """
    built = scene.build(draw_shape(streams))
    probe = pushes.Probe(built)
    for attempt in range(spec.MAX_SCENE_ATTEMPTS):
        pose = draw_pose(streams, attempt)
        best, chosen = -1.0, -1
        for candidate in range(spec.SELECT_CANDIDATES):
            rng = streams("strokes", attempt, candidate)
            quality = pushes.record(built, pose, rng, spec.SELECT_FRAMES, probe, best)[3]
            if quality > best:
                best, chosen = quality, candidate
            if best >= 1.0:
                break
        if chosen >= 0:
            rng = streams("strokes", attempt, chosen)
            states, occluded, ends, _ = pushes.record(built, pose, rng, spec.FRAMES_MAX, probe)
            alive = [not pushes.is_dead(built, state) for state in states]
            whole = len(states) if all(alive) else alive.index(False)
            return pushes.Push(
                shape_id=built.shape_id,
                qpos=states[:whole],
                occluded=occluded[:whole],
                stroke_ends=tuple(end for end in ends if end <= whole),
                quality=best,
                attempt=attempt,
                candidate=chosen,
            )
    raise SimulationError(f"no live push in {spec.MAX_SCENE_ATTEMPTS} scenes of one seed")


def n_frames(push: pushes.Push, n_strokes: int, max_frames: int) -> int:
    """Frames of a request: up to `max_frames`, and up to the end of stroke `n_strokes`."""
    ends = push.stroke_ends
    last = ends[n_strokes - 1] if n_strokes <= len(ends) else len(push.qpos)
    return min(max_frames, last, len(push.qpos))


def push_frames(
    studio: Studio,
    streams: pushes.Streams,
    push: pushes.Push,
    frames: Iterable[int],
    channels: Collection[str],
) -> Iterator[Shot]:
    """Frames of a planned push by their numbers, drawn one by one."""
    built = scene.build(push.shape_id)
    for k in frames:
        yield studio.shot(built, push.qpos[k], streams, k, bool(push.occluded[k]), channels)


# ------------------------------------------------------------------------------------ Gymnasium


@functools.lru_cache(maxsize=64)
def _public_push(seed: int) -> pushes.Push:
    """The four tasks share their scenes."""
    return plan_push(open_streams("public", "push", seed))


class PushTrial:
    """A public push as a Gymnasium trial: an action is the answer to the frame that was seen last.

    Args:
        seed: Public seed.
        channels: Picture channels in the observation; missing depth is 0.
    """

    def __init__(self, seed: int, channels: Collection[str]) -> None:
        self._streams = open_streams("public", "push", seed)
        self._push, self._channels = _public_push(seed), channels
        self._built = scene.build(self._push.shape_id)
        self._studio, self._frame = Studio(), 0
        self.model, self.data = self._built.model, mujoco.MjData(self._built.model)

    def start(self) -> tuple[dict[str, Any], dict[str, bool]]:
        """First frame and claims."""
        return self._observe(), {"id_right": False, "pose_right": False}

    def advance(self, action: np.ndarray) -> Step:
        """Scores x, y, theta and shape id for the present frame, and shows the next one."""
        x, y, theta, shape = np.asarray(action, dtype=float)
        truth = pushes.block_pose(self._built, self._push.qpos[self._frame])
        xy, yaw = metrics.errors((x, y, theta), truth)
        is_right = round(float(shape)) == self._push.shape_id
        self._frame += 1
        over = self._frame >= spec.FRAMES_PER_PUSH_B
        return Step(
            observation=self._observe(),
            reward=metrics.group_score([xy], [yaw], [is_right]),
            terminated=False,
            truncated=over,
            claims={
                "id_right": is_right,
                "pose_right": xy <= spec.KERNEL_XY_M and yaw <= spec.KERNEL_YAW_RAD,
            },
        )

    def close(self) -> None:
        self._studio.close()

    def _observe(self) -> dict[str, Any]:
        k = min(self._frame, len(self._push.qpos) - 1)
        self.data.qpos[:] = self._push.qpos[k]
        mujoco.mj_forward(self.model, self.data)
        shot = self._studio.shot(
            self._built, self._push.qpos[k], self._streams, k, False, self._channels
        )
        obs = {name: np.array(value) for name, value in shot.obs.items()}
        return obs | {n: np.nan_to_num(obs[n]) for n in self._channels}


def make_env(task: TaskSpec, *, render_mode: str | None = None) -> TrialEnv:
    """Public pushes as a Gymnasium environment; a step is a frame, an action the answer to it.

    Args:
        task: One of the four; its granted channels are in the observation.
        render_mode: None or "rgb_array", the task's own camera.
    """
    channels = spec.CHANNELS[task.slug]
    width, height = spec.IMAGE_WH_PX
    box = gymnasium.spaces.Box
    spaces: dict[str, gymnasium.Space] = {
        "K": box(-np.inf, np.inf, (3, 3), np.float64),
        "T_cam_table": box(-np.inf, np.inf, (4, 4), np.float64),
        "t": box(0.0, np.inf, (), np.float64),
        "rgb": box(0, 255, (height, width, 3), np.uint8),
    }
    if "depth" in channels:
        spaces["depth"] = box(0.0, np.inf, (height, width), np.float32)
    limit = spec.POSE_LIMIT_M
    actions = box(
        np.array([-limit, -limit, -np.pi, 0.0]),
        np.array([limit, limit, np.pi, len(spec.SHAPES) - 1.0]),
        dtype=np.float64,
    )
    return TrialEnv(
        lambda seed: PushTrial(seed, channels),
        gymnasium.spaces.Dict(spaces),
        actions,
        camera=scene.CAMERA,
        render_mode=render_mode,
    )
