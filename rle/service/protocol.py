"""The wire of the metered simulator service, version 1: messages, arrays, frames and their limits.

A message is the MessagePack body of one frame of `frames.py`. Both sides decode strictly into the
structs below, and never unpickle anything. This module is also the agent's: it imports the standard
library, msgspec and numpy alone.
"""

from typing import Any, Literal

import msgspec
import numpy as np

from .frames import ProtocolError

PROTOCOL = 1
"""Version named in the greeting."""
MAX_REQUEST_BYTES = 256 * 1024
"""Largest request frame. Source: a batch of 200 actions is 23 KiB."""
MAX_REPLY_BYTES = 32 * 1024 * 1024
"""Largest reply frame. Source: four 512 px images with depth are 8 MiB."""
MAX_BATCH = 200
"""Actions of one `step`, steps of one `move`."""
MAX_IMAGE_PX = 512
"""Largest image side."""
MAX_CAMERAS = 4
"""Cameras of one request."""
MAX_ARGS = 16
"""Arguments of one extra operation."""

Scalar = bool | int | float | str


class Wire(msgspec.Struct, tag_field="op", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Base of every message."""


# ------------------------------------------------------------------------------------------ arrays

DTYPES: dict[str, np.dtype] = {
    name: np.dtype(name).newbyteorder("<")
    for name in ("uint8", "float32", "float64", "int64", "bool")
}
"""Element types that cross the wire, little endian, C order."""
_NAMES = {np.dtype(name): name for name in DTYPES}
"""Name of each native element type; asking the dtype itself is slow."""


class Array(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A numeric array: C order, little endian."""

    dtype: Literal["uint8", "float32", "float64", "int64", "bool"]
    shape: tuple[int, ...]
    data: bytes


def to_array(value: Any) -> Array:
    """Packs an array-like of one of `DTYPES`; other dtypes are a TypeError."""
    array = np.asarray(value)
    name = _NAMES.get(array.dtype)
    if name is None:  # another byte order or type
        name = array.dtype.name
        if name not in DTYPES:
            raise TypeError(f"dtype {name} does not cross the wire; allowed: {', '.join(DTYPES)}")
        array = array.astype(DTYPES[name])
    return Array(name, array.shape, array.tobytes())  # ty: ignore[invalid-argument-type]


def check_size(array: Array) -> None:
    """Raises ProtocolError when the number of bytes does not fit the shape."""
    dtype = DTYPES[array.dtype]
    count = 1
    for n in array.shape:
        if n < 0 or len(array.shape) > 8:
            raise ProtocolError(f"array shape {array.shape} is not one")
        count *= n
    if count * dtype.itemsize != len(array.data):
        raise ProtocolError(
            f"array of shape {array.shape} and {array.dtype} needs {count * dtype.itemsize} bytes, "
            f"{len(array.data)} given"
        )


def from_array(array: Array) -> np.ndarray:
    """Read-only view on the bytes of an `Array`.

    Raises:
        ProtocolError: The number of bytes does not fit the shape.
    """
    check_size(array)
    return np.ndarray(array.shape, DTYPES[array.dtype], array.data)


# ---------------------------------------------------------------------------------------- requests


class ObserveSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What to look at. A size of 0 means the task's default; one given side copies to the other."""

    cameras: tuple[str, ...] = ()
    width_px: int = 0
    height_px: int = 0
    depth: bool = False


class Auth(Wire, tag="auth"):
    """First frame of a TCP client: the token of the file that the server printed."""

    token: str


class Request(Wire):
    """Base of the requests."""

    request_id: str
    """1-64 characters of [A-Za-z0-9_-], used once."""


class GetStatus(Request, tag="status"):
    """The counters alone."""


class TaskInfo(Request, tag="task_info"):
    """Instruction, action layout, cameras, observation keys, budgets and extra operations."""


class ListTasks(Request, tag="list_tasks"):
    """Names of the tasks that `reset` may open in development."""


class Observe(Request, tag="observe"):
    """The present observation. Free; asking twice shows the same."""

    spec: ObserveSpec = ObserveSpec()


class Step(Request, tag="step"):
    """Executes up to 200 actions, one control step each, and stops at the one that ends the trial."""

    actions: Array
    """float64, shape (n, A)."""
    observe: ObserveSpec | None = None
    """An observation after the last action comes with the reply."""
    trial: int | None = None
    """Refused when it is not the live trial."""


class Move(Request, tag="move"):
    """Drives the gripper site towards a pose for exactly `steps` control steps."""

    position_m: tuple[float, float, float]
    """Target of the grip site in the world."""
    quat_xyzw: tuple[float, float, float, float]
    """Unit quaternion of the grip site in the world."""
    gripper: float
    """<= 0 opens, > 0 closes."""
    steps: int = 40
    observe: ObserveSpec | None = None
    trial: int | None = None


class Reset(Request, tag="reset"):
    """Starts again, as the task's rules say."""

    task: str | None = None
    seed: int | None = None


class Finish(Request, tag="finish"):
    """Closes the live trial and takes the final measurement."""

    trial: int | None = None


class EndDevelopment(Request, tag="end_development"):
    """Closes the development phase for good."""


class Call(Request, tag="call"):
    """An extra operation that the task declares."""

    name: str
    args: dict[str, Scalar] = {}
    observe: ObserveSpec | None = None
    trial: int | None = None


AnyRequest = (
    GetStatus | TaskInfo | ListTasks | Observe | Step | Move | Reset | Finish
    | EndDevelopment | Call
)  # fmt: skip
MUTATING = (Step, Move, Reset, Finish, EndDevelopment, Call)
"""Requests that change the scene or the session; their ids are remembered."""

# ----------------------------------------------------------------------------------------- replies

Ended = Literal[
    "success", "horizon", "finished", "submitted", "forfeited", "budget", "wall_time",
    "sim_error", "phase_closed",
]  # fmt: skip
ErrorKind = Literal[
    "bad_request", "duplicate_request", "wrong_phase", "trial_over", "stale_trial",
    "budget_exhausted", "busy", "unauthorised", "protocol", "sim_error", "handoff_refused",
    "ledger_full", "internal",
]  # fmt: skip


class Status(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What is left. Comes with every reply."""

    phase: str
    trial: int | None
    """Number of the live or last trial, from 0; None before the first."""
    trials: int
    """Trials of this phase; 0 where it has none."""
    live: bool
    """True while there is a scene to act on."""
    steps_used: int
    steps_left: int | None
    """None: not limited in this phase."""
    trial_steps_used: int
    trial_steps_left: int | None
    seconds_used: float
    seconds_left: float | None
    ended: Ended | None
    """How the last trial ended; None while one is live."""
    last_request_id: str | None
    """The last mutating request that was charged."""
    last_request_done: bool
    """False when that request was charged but its effect is unknown (a failure)."""


class Ok(Wire, tag="ok"):
    request_id: str
    result: msgspec.Raw
    status: Status


class Error(Wire, tag="error"):
    request_id: str
    kind: ErrorKind
    message: str
    status: Status


class Hello(Wire, tag="hello"):
    """Greeting of the server."""

    protocol: int
    task: str
    family_version: str
    session_public_id: str
    phase: str


class Refused(Wire, tag="refused"):
    """The server will not talk on this connection."""

    kind: ErrorKind
    message: str


class StepResult(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Result of `step`, `move`, `reset`, `finish` and extra operations."""

    executed: int
    """Control steps that ran."""
    clipped_values: int = 0
    """Finite action values outside [-1, 1] that were clipped."""
    success: bool | None = None
    """The task's own predicate where it has one."""
    observation: dict[str, Array] | None = None
    events: dict[str, Scalar] = {}


Reply = Ok | Error
Greeting = Hello | Refused

_encoder = msgspec.msgpack.Encoder()
_request_decoder = msgspec.msgpack.Decoder(AnyRequest, strict=True)


def encode(message: Any) -> bytes:
    """MessagePack bytes of a message, without the length."""
    return _encoder.encode(message)


def raw(value: Any) -> msgspec.Raw:
    """Encoded value that is passed on without decoding."""
    return msgspec.Raw(_encoder.encode(value))


def decode_request(body: bytes) -> AnyRequest:
    """Decodes one request.

    Raises:
        msgspec.ValidationError: Wrong types, unknown fields or operation; says which.
        msgspec.DecodeError: Not MessagePack.
    """
    return _request_decoder.decode(body)


def request_id_of(body: bytes) -> str:
    """Request id of a request that does not decode, for the answer; "" where there is none."""

    class Probe(msgspec.Struct):
        request_id: str = ""

    try:
        return msgspec.msgpack.decode(body, type=Probe).request_id[:64]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
