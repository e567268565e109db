"""The agent's side of the metered simulator service.

    with rle_client.connect() as sim:
        info = sim.task_info()
        out = sim.step([[0.0] * info["action_dim"]])
        print(sim.status.steps_left)

No request is repeated behind your back: after a lost reply ask `sim.fetch_status()` whether
`last_request_done` is true. Quaternions are xyzw.
"""

import operator
import os
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec
import numpy as np

from .errors import (
    ERRORS,
    BadRequestError,
    BudgetExhaustedError,
    BusyError,
    ConnectionLostError,
    DuplicateRequestError,
    ForkedClientError,
    HandoffRefusedError,
    LedgerFullError,
    ServiceError,
    SimError,
    StaleTrialError,
    TrialOverError,
    UnauthorisedError,
    WrongPhaseError,
)
from .frames import ProtocolError, recv_frame, send_frame
from .protocol import (
    MAX_REPLY_BYTES,
    MAX_REQUEST_BYTES,
    Array,
    Auth,
    Call,
    EndDevelopment,
    Finish,
    GetStatus,
    Greeting,
    Hello,
    ListTasks,
    Move,
    Observe,
    ObserveSpec,
    Ok,
    Refused,
    Reply,
    Request,
    Reset,
    Scalar,
    Status,
    Step,
    TaskInfo,
    encode,
    from_array,
    to_array,
)
from .protocol import StepResult as _WireResult

__all__ = [
    "BadRequestError",
    "BudgetExhaustedError",
    "BusyError",
    "Client",
    "ConnectionLostError",
    "DuplicateRequestError",
    "ForkedClientError",
    "HandoffRefusedError",
    "LedgerFullError",
    "Observation",
    "ObserveSpec",
    "ServiceError",
    "SimError",
    "StaleTrialError",
    "Status",
    "StepResult",
    "TrialOverError",
    "UnauthorisedError",
    "WrongPhaseError",
    "connect",
]
DEFAULT_SOCKET = "/run/rle/sim.sock"
_reply_decoder = msgspec.msgpack.Decoder(Reply)
_greeting_decoder = msgspec.msgpack.Decoder(Greeting)
_step_decoder = msgspec.msgpack.Decoder(_WireResult)
_arrays_decoder = msgspec.msgpack.Decoder(dict[str, Array])
_info_decoder = msgspec.msgpack.Decoder(dict[str, Any])
_names_decoder = msgspec.msgpack.Decoder(list[str])
_any_decoder = msgspec.msgpack.Decoder()
Observation = dict[str, np.ndarray]


class StepResult:
    """What a mutating request led to.

    Attributes:
        executed: Control steps that ran.
        clipped_values: Action values that were outside [-1, 1].
        success: The task's own predicate; None where it has none.
        observation: Arrays (read-only views) when `observe` was asked for.
        events: What happened, by name.
    """

    __slots__ = ("clipped_values", "events", "executed", "observation", "success")

    def __init__(self, wire: _WireResult) -> None:
        self.executed = wire.executed
        self.clipped_values = wire.clipped_values
        self.success = wire.success
        self.events: dict[str, Scalar] = wire.events
        self.observation: Observation | None = (
            None if wire.observation is None else _unpack(wire.observation)
        )

    def __repr__(self) -> str:
        return f"StepResult(executed={self.executed}, success={self.success}, events={self.events})"


class Transport(Protocol):
    """Carries one request body to the service and its reply back."""

    def round_trip(self, body: bytes) -> bytes: ...

    def close(self) -> None: ...


class SocketTransport:
    """Frames over a connected stream socket; `timeout_s` is the longest wait for a reply."""

    def __init__(self, sock: socket.socket, timeout_s: float) -> None:
        self._sock = sock
        # the kernel's own limit: nothing has to be asked before each read
        seconds, fraction = divmod(timeout_s, 1.0)
        limit = struct.pack("@ll", int(seconds), int(1e6 * fraction))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

    def round_trip(self, body: bytes) -> bytes:
        try:
            send_frame(self._sock, body)
            reply = recv_frame(self._sock, MAX_REPLY_BYTES)
        except (OSError, ProtocolError) as error:
            late = "the time for it is over" if isinstance(error, BlockingIOError) else error
            raise ConnectionLostError(
                f"no reply ({late}); reconnect and ask fetch_status()"
            ) from error
        if reply is None:
            raise ConnectionLostError("the service closed the connection; reconnect")
        return reply

    def close(self) -> None:
        self._sock.close()


class Client:
    """One connection to one session.

    Args:
        transport: Carries frames.
        hello: Greeting of the service; None for an embedded session.
    """

    def __init__(self, transport: Transport, hello: Hello | None = None) -> None:
        self.hello = hello
        self._transport = transport
        self._pid = os.getpid()
        self._status: Status | None = None

    @property
    def status(self) -> Status:
        """Counters of the last reply; asks once when there was none."""
        return self._status or self.fetch_status()

    def fetch_status(self) -> Status:
        """Asks for the counters."""
        self._ask(GetStatus(request_id=_new_id()), _any_decoder)
        assert self._status is not None
        return self._status

    def task_info(self) -> dict[str, Any]:
        """Instruction, action layout, cameras, calibration, budgets, operations."""
        return self._ask(TaskInfo(request_id=_new_id()), _info_decoder)

    def list_tasks(self) -> list[str]:
        """Names that `reset(task=...)` accepts in development."""
        return self._ask(ListTasks(request_id=_new_id()), _names_decoder)

    def observe(
        self, cameras: str | Sequence[str] = (), *, width_px: int = 0, height_px: int = 0,
        depth: bool = False,
    ) -> Observation:  # fmt: skip
        """The present observation; images as `NAME_image` uint8 (H, W, 3), `NAME_depth` float32 (H, W) m.

        Args:
            cameras: Names, or one name; none: the numbers alone.
            width_px: Width of the images; 0: as `height_px`, else the task's default.
            height_px: Height of the images.
            depth: Also depth, of cameras that offer it.
        """
        look = ObserveSpec(
            cameras=_cameras(cameras), width_px=width_px, height_px=height_px, depth=depth
        )
        wire = self._ask(Observe(request_id=_new_id(), spec=look), _arrays_decoder)
        return _unpack(wire)

    def step(
        self, actions: Any, observe: ObserveSpec | str | Sequence[str] | None = None, *,
        trial: int | None = None,
    ) -> StepResult:  # fmt: skip
        """Executes one action (A,) or a batch (n, A), n <= 200.

        Args:
            actions: Values in [-1, 1].
            observe: An observation comes with the reply: cameras, `()` for the numbers alone, or a full
                `ObserveSpec`. None: no observation.
            trial: Refused when it is not the live trial.

        Raises:
            ServiceError: By kind of refusal; nothing was charged unless it says so.
        """
        values = _numbers("actions", actions)
        if values.ndim < 2:
            values = values.reshape(1, -1)
        return self._mutate(
            Step(
                request_id=_new_id(), actions=to_array(values), observe=_look(observe), trial=trial
            )
        )

    def move(
        self, position_m: Any, quat_xyzw: Any, gripper: float = 0.0, steps: int = 40, *,
        observe: ObserveSpec | str | Sequence[str] | None = None, trial: int | None = None,
    ) -> StepResult:  # fmt: skip
        """Drives the grip site towards a world pose for exactly `steps` control steps.

        Args:
            position_m: Target of the grip site in the world. Shape (3,).
            quat_xyzw: Unit quaternion of the grip site in the world. Shape (4,).
            gripper: <= 0 opens, > 0 closes.
            steps: 1 to 200; it neither stops early nor waits until the pose is reached.
            observe: As in `step`.
            trial: Refused when it is not the live trial.
        """
        x, y, z = _numbers("position_m", position_m, (3,)).tolist()
        qx, qy, qz, qw = _numbers("quat_xyzw", quat_xyzw, (4,)).tolist()
        return self._mutate(
            Move(
                request_id=_new_id(),
                position_m=(x, y, z),
                quat_xyzw=(qx, qy, qz, qw),
                gripper=float(_numbers("gripper", gripper, ())),
                steps=_whole("steps", steps),
                observe=_look(observe),
                trial=trial,
            )  # fmt: skip
        )

    def reset(self, task: str | None = None, seed: int | None = None) -> StepResult:
        """Starts again, as the task's rules say."""
        return self._mutate(Reset(request_id=_new_id(), task=task, seed=seed))

    def finish(self, *, trial: int | None = None) -> StepResult:
        """Takes the final measurement and closes the live trial."""
        return self._mutate(Finish(request_id=_new_id(), trial=trial))

    def end_development(self) -> StepResult:
        """Closes development for good."""
        return self._mutate(EndDevelopment(request_id=_new_id()))

    def call(
        self, name: str, *, observe: ObserveSpec | str | Sequence[str] | None = None,
        trial: int | None = None, **args: Scalar,
    ) -> StepResult:  # fmt: skip
        """An extra operation of the task, e.g. `call("beam", locked=False)`."""
        plain = {key: v.item() if isinstance(v, np.generic) else v for key, v in args.items()}
        return self._mutate(
            Call(request_id=_new_id(), name=name, args=plain, observe=_look(observe), trial=trial)
        )

    def privileged_state(self) -> Observation:
        """True poses; only in a validation session, for the reference solvers."""
        wire = self._ask(Call(request_id=_new_id(), name="privileged_state"), _arrays_decoder)
        return _unpack(wire)

    def close(self) -> None:
        """Ends the connection; the session goes on."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    # -------------------------------------------------------------------------------------- inside

    def _mutate(self, request: Request) -> StepResult:
        return StepResult(self._ask(request, _step_decoder))

    def _ask(self, request: Request, decoder: msgspec.msgpack.Decoder) -> Any:
        if os.getpid() != self._pid:
            raise ForkedClientError("this client was made before fork(); connect in this process")
        body = encode(request)
        if len(body) > MAX_REQUEST_BYTES:
            raise BadRequestError(
                f"the request has {len(body)} bytes, at most {MAX_REQUEST_BYTES} are accepted; "
                "nothing was sent",
                self._status,
            )
        reply = _reply_decoder.decode(self._transport.round_trip(body))
        self._status = reply.status
        if isinstance(reply, Ok):
            return decoder.decode(reply.result)
        raise ERRORS.get(reply.kind, ServiceError)(reply.message, reply.status)


def connect(path: str | None = None, *, timeout_s: float = 600.0) -> Client:
    """Connects to the service.

    Args:
        path: Socket path, or "tcp://127.0.0.1:PORT"; default $RLE_SOCKET, else /run/rle/sim.sock.
            A TCP server's token is read from the file named by $RLE_TOKEN_FILE.
        timeout_s: Longest wait for a reply.

    Raises:
        ConnectionLostError: Nobody answers there.
        BusyError, UnauthorisedError: The service refused the connection.
    """
    address = path or os.environ.get("RLE_SOCKET") or DEFAULT_SOCKET
    try:
        sock = _dial(address)
        greeting = recv_frame(sock, MAX_REPLY_BYTES, idle_s=timeout_s)
    except (OSError, ProtocolError) as error:
        raise ConnectionLostError(
            f"no simulator service at {address} ({error}); start one with `rle serve TASK`, "
            "or set RLE_SOCKET"
        ) from error
    if greeting is None:
        raise ConnectionLostError(f"the service at {address} closed the connection")
    hello = _greeting_decoder.decode(greeting)
    if isinstance(hello, Refused):
        sock.close()
        raise ERRORS.get(hello.kind, ServiceError)(hello.message)
    return Client(SocketTransport(sock, timeout_s), hello)


def _dial(address: str) -> socket.socket:
    if not address.startswith("tcp://"):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(address)
        return sock
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    sock = socket.create_connection((host, int(port)))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    token = Path(os.environ["RLE_TOKEN_FILE"]).read_text().strip()
    send_frame(sock, encode(Auth(token=token)))
    return sock


def _unpack(wire: dict[str, Any]) -> Observation:
    return {name: from_array(array) for name, array in wire.items()}


def _look(observe: ObserveSpec | str | Sequence[str] | None) -> ObserveSpec | None:
    if observe is None or isinstance(observe, ObserveSpec):
        return observe
    return ObserveSpec(cameras=_cameras(observe))


def _cameras(names: str | Sequence[str]) -> tuple[str, ...]:
    """Camera names from one name or several."""
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise BadRequestError(
            f"cameras is {names!r}; a name, several names, or () for the numbers alone is expected"
        )
    return tuple(names)


def _whole(name: str, value: Any) -> int:
    """A whole number of any integer type."""
    try:
        return operator.index(value)
    except TypeError:
        raise BadRequestError(f"{name} is {value!r}; a whole number is expected") from None


def _numbers(name: str, value: Any, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """float64 array of an argument; raises BadRequestError for what is none, before it is sent."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadRequestError(f"{name} is not an array of numbers ({error})") from None
    if shape is not None and array.shape != shape:
        raise BadRequestError(f"{name} has shape {array.shape}; {shape} is expected")
    return array


def _new_id() -> str:
    """A fresh id: uuid4 without the cost of its class."""
    return os.urandom(16).hex()
