"""The agent's side of the renderer service of f06: `rle_client.f06`.

    r = rle_client.f06.connect()
    frame = r.single_frame(3)            # frame.obs["rgb"], frame.label = (x_m, y_m, theta_rad), noisy
    for episode in r.map("push", range(100), max_frames=60): ...
    print(r.evaluate("my_submission"))   # metered

Lengths are metres, angles radians, poses in the table frame. Needs numpy and msgspec alone.
"""

import os
import socket
import uuid
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import msgspec
import numpy as np

from rle.service.frames import ProtocolError, recv_frame, send_frame
from rle.service.protocol import (
    Array,
    Wire,
    encode,
    from_array,
)

SOCKET_VARIABLE, DEFAULT_SOCKET = "RLE_F06_SOCKET", "/run/rle/f06.sock"
MAX_REPLY_BYTES = 32 * 1024 * 1024
PIPELINE = 16
"""Requests that one connection may have open."""
Kind = Literal["single", "push"]
ErrorKind = Literal[
    "bad_request", "busy", "budget_exhausted", "sim_error", "invalid_submission", "internal"
]  # fmt: skip

# -------------------------------------------------------------------------------------- messages


class Hello(Wire, tag="hello"):
    """Greeting of the server."""

    protocol: int
    task: str
    family_version: str


class Info(Wire, tag="info"):
    """Asks for `Facts`."""

    request_id: str


class Render(Wire, tag="render"):
    """Asks for a single frame, or for the frames of a push, one `Shown` each."""

    request_id: str
    kind: Kind
    seed: int
    n_strokes: int = 5
    max_frames: int = 100
    render: bool = True


class Evaluate(Wire, tag="evaluate"):
    """Asks for a metered evaluation of a folder on the server's machine."""

    request_id: str
    folder: str


Request = Info | Render | Evaluate


class Facts(Wire, tag="facts"):
    request_id: str
    task: str
    channels: tuple[str, ...]
    K: Array
    T_cam_table: Array
    image_wh_px: tuple[int, int]
    frame_hz: float
    label_sigma: tuple[float, float, float]
    """Standard deviations of the labels: m, m, rad."""
    workers: int
    calls_left: int
    backend: str
    """Renderer of the pictures."""


class Shown(Wire, tag="shown"):
    """Frame `number` of `total` of a request."""

    request_id: str
    number: int
    total: int
    obs: dict[str, Array]
    t: float
    label: tuple[float, float, float]
    occluded: bool


class Interval(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Errors over answered frames; all None where there are none."""

    n: int
    mean: float | None
    std: float | None
    median: float | None
    low: float | None
    """95 % interval of the mean, resampled by seed."""
    high: float | None


class Evaluation(Wire, tag="evaluation"):
    """Errors against true poses on the design set, rounded to 0.1."""

    request_id: str
    xy_mm: dict[Kind, Interval]
    theta_deg: dict[Kind, Interval]
    rate_hz: float
    calls_left: int


class Failed(Wire, tag="failed"):
    request_id: str
    kind: ErrorKind
    message: str


Reply = Hello | Facts | Shown | Evaluation | Failed
_decoder = msgspec.msgpack.Decoder(Reply)

# ---------------------------------------------------------------------------------------- client


class RendererError(Exception):
    """The service refused or failed.

    Args:
        kind: `bad_request`, `busy`, `budget_exhausted`, `sim_error`, `invalid_submission`, `internal`.
        message: What failed, what was given, what is allowed.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Frame:
    """One frame. `label` is (x_m, y_m, theta_rad) with noise."""

    obs: dict[str, Any]
    """`rgb` (480, 640, 3) uint8, `depth` (480, 640) float32 in m with NaN where missing (if granted), `K`,
    `T_cam_table`, `t` in s."""
    label: tuple[float, float, float]
    occluded: bool
    t_s: float
    frame: int


@dataclass(frozen=True)
class Episode:
    """Frames of one push."""

    seed: int
    frames: list[Frame]


def connect(path: str | None = None, timeout_s: float = 600.0) -> "Renderer":
    """Connects to the service.

    Args:
        path: Socket; default `$RLE_F06_SOCKET`, else /run/rle/f06.sock.
        timeout_s: Longest wait for one reply.

    Raises:
        RendererError: Nobody listens there.
    """
    return Renderer(path or os.environ.get(SOCKET_VARIABLE) or DEFAULT_SOCKET, timeout_s)


class Renderer:
    """A connection; a context manager. Requests of one connection may overlap (`map`)."""

    def __init__(self, path: str, timeout_s: float) -> None:
        self._sock = socket.socket(socket.AF_UNIX)
        self._timeout_s = timeout_s
        self._waiting: dict[str, list[Shown]] = {}
        try:
            self._sock.connect(path)
        except OSError as error:
            raise RendererError(
                "internal", f"no renderer at {path} ({error}); start it with `rle dev f06/rgb`"
            ) from None
        hello = self._receive()
        if not isinstance(hello, Hello):
            raise RendererError("internal", f"{path} did not greet: {hello}")
        self.task = hello.task
        self._facts: Facts | None = None

    def info(self) -> Facts:
        """Granted channels, K, T_cam_table, image size, evaluation calls left."""
        self._facts = self._ask(Info(request_id=_new_id()), Facts)
        return self._facts

    def single_frame(self, seed: int, render: bool = True) -> Frame:
        """A block at rest, nothing hidden; 0 <= seed < 2^31."""
        request = Render(request_id=_new_id(), kind="single", seed=seed, render=render)
        self._send(request)
        return self._frames(request.request_id)[0]

    def push_episode(
        self, seed: int, n_strokes: int = 5, max_frames: int = 100, render: bool = True
    ) -> Episode:
        """The first frames of a push; a shorter request is a prefix of a longer one.

        Args:
            seed: 0 <= seed < 2^31; another scene than the single frame of this seed.
            n_strokes: 1 to 5.
            max_frames: 1 to 100.
            render: False leaves the pictures out.
        """
        request = Render(
            request_id=_new_id(), kind="push", seed=seed, n_strokes=n_strokes,
            max_frames=max_frames, render=render,
        )  # fmt: skip
        self._send(request)
        return Episode(seed, self._frames(request.request_id))

    def map(self, kind: Kind, seeds: Iterable[int], **options: Any) -> Iterator[Frame | Episode]:
        """Frames (`single`) or episodes (`push`) in the order of the seeds, all workers busy."""
        seeds, sent = iter(seeds), deque()
        while True:
            while len(sent) < PIPELINE and (seed := next(seeds, None)) is not None:
                request = Render(request_id=_new_id(), kind=kind, seed=seed, **options)
                self._send(request)
                sent.append((seed, request.request_id))
            if not sent:
                return
            seed, request_id = sent.popleft()
            frames = self._frames(request_id)
            yield frames[0] if kind == "single" else Episode(seed, frames)

    def evaluate(self, folder: str | Path) -> Evaluation:
        """A metered evaluation on the design set; at most 6 per deployment.

        Raises:
            RendererError: `budget_exhausted`, or `invalid_submission` with the reason.
        """
        path = str(Path(folder).resolve())
        return self._ask(Evaluate(request_id=_new_id(), folder=path), Evaluation)

    def close(self) -> None:
        """Ends the connection."""
        self._sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------------ inside

    def _send(self, request: Request) -> None:
        self._waiting[request.request_id] = []
        send_frame(self._sock, encode(request), self._timeout_s)

    def _receive(self) -> Reply:
        body = recv_frame(self._sock, MAX_REPLY_BYTES, idle_s=self._timeout_s)
        if body is None:
            raise RendererError("internal", "the renderer closed the connection")
        try:
            return _decoder.decode(body)
        except msgspec.DecodeError as error:
            raise ProtocolError(f"not a message of the renderer: {error}") from None

    def _ask(self, request: Request, kind: type) -> Any:
        self._send(request)
        while True:
            reply = self._receive()
            if isinstance(reply, Shown):
                self._waiting[reply.request_id].append(reply)
                continue
            if isinstance(reply, Failed):
                raise RendererError(reply.kind, reply.message)
            if isinstance(reply, kind) and not isinstance(reply, Hello):
                self._waiting.pop(request.request_id)
                return reply

    def _frames(self, request_id: str) -> list[Frame]:
        """All frames of a request; those of others that arrive meanwhile are kept."""
        facts = self._facts or self.info()
        mine = self._waiting[request_id]
        while not mine or len(mine) < mine[0].total:
            reply = self._receive()
            if isinstance(reply, Failed):
                self._waiting.pop(reply.request_id, None)
                raise RendererError(reply.kind, reply.message)
            if isinstance(reply, Shown):
                self._waiting[reply.request_id].append(reply)
        del self._waiting[request_id]
        static = {"K": from_array(facts.K), "T_cam_table": from_array(facts.T_cam_table)}
        return [_frame(shown, static) for shown in mine]


def _frame(shown: Shown, static: dict[str, np.ndarray]) -> Frame:
    pictures = {name: from_array(array) for name, array in shown.obs.items()}
    obs = {**pictures, **static, "t": shown.t}
    return Frame(obs, shown.label, shown.occluded, shown.t, shown.number)


def _new_id() -> str:
    return uuid.uuid4().hex
