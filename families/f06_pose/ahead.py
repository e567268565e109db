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


def shoot(scenes: Scenes) -> list[Shot]:
    """Draws all frames of a trial.

    Raises:
        SimulationError: A push that cannot be planned.
    """
    studio = _studio()
    if scenes.kind == "single":
        return [task.single_frame(studio, s, scenes.channels) for s in scenes.streams]
    (streams,) = scenes.streams
    push = task.plan_push(streams)
    return list(task.push_frames(studio, streams, push, scenes.frames, scenes.channels))


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
        self._waiting: dict[int, Future[list[Shot]]] = {}
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
                self._waiting[k] = self._pool.submit(shoot, self._scenes[k])
        try:
            self._present = (number, self._waiting.pop(number).result())
        except BrokenProcessPool as error:
            raise InfrastructureError(
                "a renderer process was killed (memory, or a person)", code="render.process"
            ) from error
        return self._present[1]

    def __enter__(self) -> "Ahead":
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
