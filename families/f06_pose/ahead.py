"""Frames of trials, drawn ahead of their turn by processes that leave the last CPU to the estimator."""

import ctypes
import functools
import multiprocessing
import os
import signal
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from families.f06_pose import spec, task
from families.f06_pose.world.frames import Shot, Studio
from families.f06_pose.world.pushes import Push
from rle.errors import InfrastructureError
from rle.seeds import TrialStreams

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Scenes:
    """What a trial shows. Holds the streams of its scenes and nothing of the salt."""

    kind: task.Kind
    streams: tuple[TrialStreams, ...]
    """One per single frame; one for a push."""
    frames: int
    """Of a push; the number of streams for single frames."""
    channels: tuple[str, ...]


@functools.cache
def _studio() -> Studio:
    """The one studio of this process; renderers are closed at its exit."""
    return Studio()


@functools.lru_cache(maxsize=spec.RENDER_AHEAD)
def _planned(streams: TrialStreams) -> Push:
    """The push of a scene; a process that draws it in pieces plans it once."""
    return task.plan_push(streams)


def shoot(scenes: Scenes, first: int = 0, last: int | None = None) -> list[Shot]:
    """Draws frames of a trial.

    Args:
        scenes: The trial.
        first: Number of the first frame.
        last: Number after the last frame; None: all that follow.

    Raises:
        SimulationError: A push that cannot be planned.
    """
    studio = _studio()
    if scenes.kind == "single":
        return [task.single_frame(studio, s, scenes.channels) for s in scenes.streams[first:last]]
    (streams,) = scenes.streams
    frames = range(scenes.frames)[first:last]
    return list(task.push_frames(studio, streams, _planned(streams), frames, scenes.channels))


def cpus() -> tuple[set[int], set[int]]:
    """CPUs of the renderers and of the estimator; with one CPU they share it."""
    *others, last = sorted(os.sched_getaffinity(0))
    return set(others) or {last}, {last}


def _enter(ppid: int, affinity: set[int]) -> None:
    """Start of a renderer process: it ends with its parent, and leaves signals to it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != ppid:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.sched_setaffinity(0, affinity)


class Ahead:
    """Frames of trials in their order. A context manager.

    Args:
        scenes: What each trial shows, in order.
        processes: Renderer processes; 0 draws each trial in this process when it is asked for.
    """

    def __init__(self, scenes: Sequence[Scenes], processes: int) -> None:
        self._scenes = scenes
        self._pool: ProcessPoolExecutor | None = None
        if processes > 0:
            self._pool = ProcessPoolExecutor(
                min(processes, spec.RENDER_AHEAD),
                multiprocessing.get_context("spawn"),
                _enter,
                (os.getpid(), cpus()[0]),
            )
        self._waiting: dict[int, list[Future[list[Shot]]]] = {}
        self._present: tuple[int, list[Shot]] = (-1, [])

    def shots(self, number: int) -> list[Shot]:
        """Frames of trial `number`; asking again for the present one gives the same frames.

        Raises:
            InfrastructureError: A renderer process was lost.
        """
        if self._present[0] == number:
            return self._present[1]
        self._present = (-1, [])
        if self._pool is None:
            self._present = (number, shoot(self._scenes[number]))
            return self._present[1]
        for k in range(number, min(number + spec.RENDER_AHEAD, len(self._scenes))):
            if k not in self._waiting:
                self._waiting[k] = self._submit(self._pool, self._scenes[k])
        try:
            pieces = [piece.result() for piece in self._waiting.pop(number)]
        except BrokenProcessPool as error:
            raise InfrastructureError(
                "a renderer process was killed (memory, or a person)", code="render.process"
            ) from error
        self._present = (number, [shot for piece in pieces for shot in piece])
        return self._present[1]

    @staticmethod
    def _submit(pool: ProcessPoolExecutor, scenes: Scenes) -> list[Future[list[Shot]]]:
        """Draws a trial in pieces, so that no renderer ever holds all of its frames."""
        step = spec.RENDER_PIECE_FRAMES
        return [pool.submit(shoot, scenes, k, k + step) for k in range(0, scenes.frames, step)]

    def __enter__(self) -> "Ahead":
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
