"""The agent's side of the metered simulator service.

    with rle_client.connect() as sim:
        info = sim.task_info()
        out = sim.step([[0.0] * info["action_dim"]])
        print(sim.status.steps_left)

No request is repeated behind your back: after a lost reply ask `sim.fetch_status()` whether
`last_request_done` is true. Quaternions are xyzw.
"""

import os
import socket
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec
import numpy as np

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
    ProtocolError,
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
    recv_frame,
    send_frame,
    to_array,
)
from .protocol import StepResult as _WireResult

DEFAULT_SOCKET = "/run/rle/sim.sock"
_reply_decoder = msgspec.msgpack.Decoder(Reply)
_greeting_decoder = msgspec.msgpack.Decoder(Greeting)
Observation = dict[str, np.ndarray]


class ServiceError(Exception):
    """The service refused a request.

    Attributes:
        kind: Stable name of the reason.
        status: Counters when it was refused; None at connection level.
    """

    kind = "internal"

    def __init__(self, message: str, status: Status | None = None) -> None:
        super().__init__(message)
        self.status = status


class BadRequestError(ServiceError):
    kind = "bad_request"


class DuplicateRequestError(ServiceError):
    kind = "duplicate_request"


class WrongPhaseError(ServiceError):
    kind = "wrong_phase"


class TrialOverError(ServiceError):
    kind = "trial_over"


class StaleTrialError(ServiceError):
    kind = "stale_trial"


class BudgetExhaustedError(ServiceError):
    kind = "budget_exhausted"


class BusyError(ServiceError):
    kind = "busy"


class UnauthorisedError(ServiceError):
    kind = "unauthorised"


class SimError(ServiceError):
    kind = "sim_error"


class HandoffRefusedError(ServiceError):
    kind = "handoff_refused"


class LedgerFullError(ServiceError):
    kind = "ledger_full"


class ConnectionLostError(ServiceError):
    """The connection ended before the reply: ask `fetch_status()` on a new one."""

    kind = "protocol"


class ForkedClientError(RuntimeError):
    """A client object is used in a child process; connect there anew."""


_ERRORS = {cls.kind: cls for cls in ServiceError.__subclasses__()}


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
    """Frames over a connected stream socket."""

    def __init__(self, sock: socket.socket, timeout_s: float) -> None:
        self._sock = sock
        self._timeout_s = timeout_s

    def round_trip(self, body: bytes) -> bytes:
        try:
            send_frame(self._sock, body)
            reply = recv_frame(self._sock, MAX_REPLY_BYTES, idle_s=self._timeout_s)
        except (OSError, ProtocolError) as error:
            raise ConnectionLostError(
                f"no reply ({error}); reconnect and ask fetch_status()"
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
        self._ask(GetStatus(request_id=_new_id()), Any)
        assert self._status is not None
        return self._status

    def task_info(self) -> dict[str, Any]:
        """Instruction, action layout, cameras, calibration, budgets, operations."""
        return self._ask(TaskInfo(request_id=_new_id()), dict[str, Any])

    def list_tasks(self) -> list[str]:
        """Names that `reset(task=...)` accepts in development."""
        return self._ask(ListTasks(request_id=_new_id()), list[str])

    def observe(
        self, cameras: Sequence[str] = (), *, width_px: int = 0, height_px: int = 0,
        depth: bool = False,
    ) -> Observation:  # fmt: skip
        """The present observation; images as `NAME_image` uint8 (H, W, 3), `NAME_depth` float32 (H, W) m."""
        look = ObserveSpec(
            cameras=tuple(cameras), width_px=width_px, height_px=height_px, depth=depth
        )
        wire = self._ask(Observe(request_id=_new_id(), spec=look), _Arrays)
        return _unpack(wire)

    def step(
        self, actions: Any, observe: ObserveSpec | Sequence[str] | None = None, *,
        trial: int | None = None,
    ) -> StepResult:  # fmt: skip
        """Executes one action (A,) or a batch (n, A), n <= 200.

        Args:
            actions: Values in [-1, 1].
            observe: Cameras, or a full `ObserveSpec`, of an observation after the last action.
            trial: Refused when it is not the live trial.
        """
        values = np.atleast_2d(np.asarray(actions, dtype=np.float64))
        return self._mutate(
            Step(
                request_id=_new_id(), actions=to_array(values), observe=_look(observe), trial=trial
            )
        )

    def move(
        self, position_m: Any, quat_xyzw: Any, gripper: float = 0.0, steps: int = 40, *,
        observe: ObserveSpec | Sequence[str] | None = None, trial: int | None = None,
    ) -> StepResult:  # fmt: skip
        """Drives the grip site towards a world pose for exactly `steps` control steps."""
        x, y, z = (float(v) for v in position_m)
        qx, qy, qz, qw = (float(v) for v in quat_xyzw)
        return self._mutate(
            Move(
                request_id=_new_id(),
                position_m=(x, y, z),
                quat_xyzw=(qx, qy, qz, qw),
                gripper=float(gripper),
                steps=steps,
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
        self, name: str, *, observe: ObserveSpec | Sequence[str] | None = None,
        trial: int | None = None, **args: Scalar,
    ) -> StepResult:  # fmt: skip
        """An extra operation of the task, e.g. `call("beam", locked=False)`."""
        return self._mutate(
            Call(request_id=_new_id(), name=name, args=args, observe=_look(observe), trial=trial)
        )

    def privileged_state(self) -> Observation:
        """True poses; only in a validation session, for the reference solvers."""
        wire = self._ask(Call(request_id=_new_id(), name="privileged_state"), _Arrays)
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
        return StepResult(self._ask(request, _WireResult))

    def _ask(self, request: Request, kind: Any) -> Any:
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
            return msgspec.msgpack.decode(reply.result, type=kind)
        raise _ERRORS.get(reply.kind, ServiceError)(reply.message, reply.status)


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
        raise _ERRORS.get(hello.kind, ServiceError)(hello.message)
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


_Arrays = dict[str, Array]


def _unpack(wire: dict[str, Any]) -> Observation:
    return {name: from_array(array) for name, array in wire.items()}


def _look(observe: ObserveSpec | Sequence[str] | None) -> ObserveSpec | None:
    if observe is None or isinstance(observe, ObserveSpec):
        return observe
    return ObserveSpec(cameras=tuple(observe))


def _new_id() -> str:
    return uuid.uuid4().hex
