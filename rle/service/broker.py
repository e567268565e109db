"""The broker process: two sockets, one session, no simulator.

Three long-lived threads: the main one accepts (and turns a second client away at once), one serves the
client that holds the lease, one serves the control socket. They live as long as the process, because
the worker is tied to the thread that starts it. The clock ticks in the main thread.
"""

import contextlib
import hmac
import logging
import os
import queue
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from rle.errors import UserError
from rle.service.adapter import BadRequest
from rle.service.frames import (
    FRAME_S,
    FrameTooLong,
    ProtocolError,
    recv_frame,
    send_frame,
    skip_frame,
)
from rle.service.protocol import (
    MAX_REPLY_BYTES,
    MAX_REQUEST_BYTES,
    Auth,
    ErrorKind,
    Refused,
    encode,
)
from rle.service.rules.prepare import Refusal
from rle.service.session import Session

log = logging.getLogger(__name__)
TICK_S = 0.1
"""Period of the clock; a dead idle worker is noticed within two of them."""
AUTH_S = 10.0
PREEMPT_S = 30.0
"""What a request in flight gets when the control socket ends a phase. Source: a batch of 200 steps takes
14 s on a slow core."""


class ControlRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request of the control socket: `status`, `seal`, `advance`, `checkpoint`."""

    op: str
    reason: str = "collected"
    to: str = ""


_control_decoder = msgspec.msgpack.Decoder(ControlRequest)
_auth_decoder = msgspec.msgpack.Decoder(Auth)


class Broker:
    """Serves one session on a public and a control socket.

    Args:
        session: The session, started by `run`.
        listener: Bound public socket.
        control_path: Path of the control socket; None has none (laptop over TCP).
        token: Expected from TCP clients; None for UNIX sockets.
    """

    def __init__(
        self, session: Session, listener: socket.socket, *, control_path: Path | None = None,
        token: str | None = None,
    ) -> None:  # fmt: skip
        self.session = session
        self._listener = listener
        self._token = token
        self._waiting: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()
        self._leased: socket.socket | None = None
        self._lease_lock = threading.Lock()
        self.frame_s = FRAME_S
        """Deadline of a frame from and to the agent, s (tests shorten it)."""
        self.patience_s = PREEMPT_S
        """How long a control operation waits for a request in flight, s (tests shorten it)."""
        self._stop = threading.Event()
        self._control = None if control_path is None else _bind_control(control_path)

    def run(self, on_sealed: Callable[[], None] | None = None) -> None:
        """Serves until SIGTERM or SIGINT; with `on_sealed` also until the sealed session's client has gone.

        Args:
            on_sealed: Called once, when the record is sealed.
        """
        signal.signal(signal.SIGTERM, lambda *_: self._stop.set())
        signal.signal(signal.SIGINT, lambda *_: self._stop.set())
        self._listener.listen(16)
        threading.Thread(target=self._serve_clients, name="agent", daemon=True).start()
        if self._control is not None:
            threading.Thread(target=self._serve_control, name="control", daemon=True).start()
        is_over = False
        while not (self._stop.is_set() or self.session.is_full or (is_over and not self._leased)):
            self._accept()
            self.session.tick()
            if on_sealed is not None and self.session.is_closing and not is_over:
                is_over = True
                on_sealed()
        self._drop_lease()
        self.session.seal("terminated")
        if on_sealed is not None and not is_over:
            on_sealed()
        self.session.close()

    # ---------------------------------------------------------------------------------- the agent

    def _accept(self) -> None:
        """Waits one tick for a client; gives it the lease or turns it away."""
        if not select.select([self._listener], [], [], TICK_S)[0]:
            return
        sock, _ = self._listener.accept()
        if sock.family == socket.AF_INET:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lease_lock:
            is_free = self._leased is None or _has_left(self._leased)
            if is_free:
                self._leased = sock
        if is_free:
            self._waiting.put(sock)
        else:
            self.session.count_refused()
            _refuse(sock, "busy", "another client holds the session; close it first")

    def _serve_clients(self) -> None:
        while True:
            sock = self._waiting.get()
            try:
                self._serve(sock)
            except (OSError, ProtocolError, TimeoutError) as error:
                log.info("client dropped: %s", error)
            finally:
                with self._lease_lock:
                    if self._leased is sock:
                        self._leased = None
                sock.close()

    def _serve(self, sock: socket.socket) -> None:
        if self._token is not None and not self._is_authorised(sock):
            _refuse(sock, "unauthorised", "the token is not the one of this server's token file")
            return
        self.session.lease("connected")
        send_frame(sock, encode(self.session.hello()))
        try:
            serve_connection(self.session, sock, self.frame_s)
        finally:
            self.session.lease("released")

    def _is_authorised(self, sock: socket.socket) -> bool:
        body = recv_frame(sock, MAX_REQUEST_BYTES, idle_s=AUTH_S)
        if body is None:
            return False
        try:
            given = _auth_decoder.decode(body).token
        except msgspec.DecodeError:
            return False
        return hmac.compare_digest(given.encode(), (self._token or "").encode())

    def _drop_lease(self) -> None:
        sock = self._leased
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    # -------------------------------------------------------------------------------- the control

    def _serve_control(self) -> None:
        assert self._control is not None
        while True:
            sock, _ = self._control.accept()
            with sock:
                try:
                    if _peer_uid(sock) not in (0, os.getuid()):
                        continue
                    body = recv_frame(sock, MAX_REQUEST_BYTES, idle_s=AUTH_S)
                    if body is not None:
                        answer = self._on_control(_control_decoder.decode(body))
                        send_frame(sock, encode(answer))
                except (OSError, ProtocolError, TimeoutError, msgspec.DecodeError) as error:
                    log.warning("control request failed: %s", error)

    def _on_control(self, request: ControlRequest) -> dict[str, Any]:
        if request.op not in ("status", "seal", "advance", "checkpoint"):
            return {"ok": False, "message": f"unknown control operation {request.op!r}"}
        try:
            if request.op in ("seal", "advance"):
                self._drop_lease()
                self.session.preempt(self.patience_s)
            if request.op == "seal":
                self.session.seal(request.reason)
            elif request.op == "advance":
                self.session.advance(request.to)
            elif request.op == "checkpoint":
                self.session.checkpoint()
        except (BadRequest, Refusal) as refusal:
            return {"ok": False, "message": str(refusal)}
        return {
            "ok": True,
            "sealed": self.session.is_closing,
            "phases": [phase.name for phase in self.session.spec.phases],
            "pids": [os.getpid(), *self.session.worker_pids()],
            "status": msgspec.to_builtins(self.session.status()),
        }


def serve_connection(session: Session, sock: socket.socket, frame_s: float = FRAME_S) -> None:
    """Answers the requests of one connected client until it leaves.

    Args:
        session: Whose requests they are.
        sock: Connected stream socket.
        frame_s: Longest time of a frame, in or out.

    Raises:
        OSError, ProtocolError, TimeoutError: The client broke the protocol or the connection; where
            it still reads, it has been told.
    """
    while True:
        try:
            body = recv_frame(sock, MAX_REQUEST_BYTES, frame_s=frame_s)
        except FrameTooLong as error:
            if error.length > MAX_REPLY_BYTES:
                _tell(sock, session.refusal("bad_request", str(error)))
                raise
            skip_frame(sock, error.length, frame_s)
            send_frame(sock, session.refusal("bad_request", str(error)), frame_s)
            continue
        except TimeoutError:
            _tell(sock, session.refusal("protocol", f"a frame took more than {frame_s:g} s"))
            raise
        if body is None:
            return
        send_frame(sock, session.handle(body), frame_s)


def listen_unix(path: Path, mode: int = 0o666) -> socket.socket:
    """Bound UNIX socket; a dead one in its place is replaced.

    Raises:
        UserError: The path is too long, or somebody answers there.
    """
    if len(str(path).encode()) > 100:
        raise UserError(f"socket path {path} is too long; at most 100 bytes are possible")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with probe:
            try:
                probe.connect(str(path))
            except OSError:
                path.unlink()
            else:
                raise UserError(f"a service already listens on {path}; stop it first")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(str(path))
    os.chmod(path, mode)
    return sock


def listen_tcp(address: str) -> socket.socket:
    """Bound loopback TCP socket for "127.0.0.1:PORT" (0 picks one).

    Raises:
        UserError: Any other address.
    """
    host, _, port = address.rpartition(":")
    if host not in ("127.0.0.1", "localhost") or not port.isdigit():
        raise UserError(f"--tcp {address!r}: only 127.0.0.1:PORT is served; tunnel other machines")
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", int(port)))
    return sock


def control(
    path: Path, op: str, *, timeout_s: float = 240.0, reason: str = "collected", to: str = ""
) -> dict[str, Any]:
    """One request to a broker's control socket.

    Raises:
        OSError, TimeoutError, ProtocolError: No broker answers there.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(str(path))
        send_frame(sock, encode(ControlRequest(op=op, reason=reason, to=to)))
        body = recv_frame(sock, MAX_REQUEST_BYTES, idle_s=timeout_s)
    if body is None:
        raise ProtocolError("the broker closed the control connection")
    return msgspec.msgpack.decode(body, type=dict[str, Any])


def wait_for(path: Path, timeout_s: float) -> bool:
    """True as soon as the control socket answers `status`."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        with contextlib.suppress(OSError, TimeoutError, ProtocolError):
            return bool(control(path, "status", timeout_s=5.0)["ok"])
        time.sleep(0.05)
    return False


def _bind_control(path: Path) -> socket.socket:
    sock = listen_unix(path, 0o600)
    sock.listen(4)
    return sock


def _refuse(sock: socket.socket, kind: ErrorKind, message: str) -> None:
    with sock, contextlib.suppress(OSError, TimeoutError):
        send_frame(sock, encode(Refused(kind=kind, message=message)), timeout_s=1.0)


def _tell(sock: socket.socket, reply: bytes) -> None:
    """Last words to a client whose connection ends."""
    with contextlib.suppress(OSError, TimeoutError):
        send_frame(sock, reply, timeout_s=1.0)


def _has_left(sock: socket.socket) -> bool:
    """True when the client at the other end has closed or died."""
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    return bool(poll.poll(0))


def _peer_uid(sock: socket.socket) -> int:
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", raw)[1]
