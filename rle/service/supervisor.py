"""Spawns, times and kills the worker process; every failure has a name.

The worker has its own session and process group, an empty working directory, a capped log, and dies
with the broker. A call that passes its deadline gets SIGUSR1 (a traceback in the log), 50 ms, SIGKILL.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from rle.service.adapter import BadRequest, SessionSpec
from rle.service.frames import ProtocolError, recv_frame, send_frame
from rle.service.protocol import (
    MAX_REPLY_BYTES,
    encode,
)
from rle.service.worker import (
    CHANNEL_FD,
    Act,
    Answer,
    AnyCall,
    Done,
    Drive,
    Measure,
    Open,
    Quit,
    WorkerCore,
)

WORKER_LOG = "worker.log"
"""Name of the log in a session folder."""
LOG_BYTES = 16 * 1024 * 1024
"""Cap of the worker's log."""
OPEN_S = 300.0
STEP_BASE_S, STEP_PER_ACTION_S = 5.0, 1.0
OTHER_S = 30.0
FINISH_S = 180.0
CLOSE_S = 3.0
"""Deadlines of the calls. Source: scene build <= 35 s on a slow core, a settled measurement <= 60 s."""

FailureKind = Literal["exit", "signal", "timeout", "protocol", "exception", "unavailable"]
_answer_decoder = msgspec.msgpack.Decoder(Answer)


class WorkerFailed(Exception):
    """The simulator cannot be trusted any more.

    Args:
        kind: Which way it failed.
        detail: For the log and the record; never for the agent.
    """

    def __init__(self, kind: FailureKind, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind, self.detail = kind, detail


class Link(Protocol):
    """How a session reaches its simulator."""

    def call(self, call: AnyCall) -> Done:
        """Runs one call. Raises WorkerFailed, BadRequest."""
        ...

    def restart(self) -> None:
        """A fresh simulator; the old one is gone."""
        ...

    def is_alive(self) -> bool: ...

    def abort(self) -> None:
        """Ends a call in flight from another thread: it raises WorkerFailed."""
        ...

    def close(self) -> None: ...


class InProcess:
    """The embedded form: the adapter lives in the caller's process.

    Args:
        spec: Session declaration.
        adapter: Ready-made adapter (tests); None makes one from the declaration.
    """

    def __init__(self, spec: SessionSpec, adapter=None) -> None:
        self._spec = spec
        self._given = adapter
        self._core: WorkerCore | None = None

    def call(self, call: AnyCall) -> Done:
        if self._core is None:
            self._core = WorkerCore(self._spec, self._given)
        try:
            return self._core.handle(call)
        except BadRequest:
            raise
        except Exception as error:
            raise WorkerFailed("exception", f"{type(error).__name__}: {error}") from error

    def restart(self) -> None:
        self._core = None

    def is_alive(self) -> bool:
        return True

    def abort(self) -> None:
        """Nothing can be in flight beside the caller."""

    def close(self) -> None:
        if self._core is not None:
            self._core.handle(Quit())
            self._core = None


class Supervisor:
    """The worker in a process of its own.

    Args:
        spec: Session declaration, sent to the worker as its first frame.
        log: File for its output, capped at `LOG_BYTES`.
        env: Environment of the worker; None inherits.
    """

    def __init__(self, spec: SessionSpec, log: Path, env: dict[str, str] | None = None) -> None:
        self._spec = spec
        self._log = log
        self._env = env
        self._process: subprocess.Popen | None = None
        self._channel: socket.socket | None = None
        self._folder: tempfile.TemporaryDirectory | None = None
        self._lock = threading.Lock()
        self.deadline_scale = 1.0
        """Multiplies every deadline (tests shorten it)."""

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def call(self, call: AnyCall) -> Done:
        with self._lock:
            if self._process is None:
                self._spawn()
            assert self._channel is not None
            deadline = deadline_s(call) * self.deadline_scale
            try:
                send_frame(self._channel, encode(call), timeout_s=deadline)
                body = recv_frame(self._channel, MAX_REPLY_BYTES, idle_s=deadline, frame_s=deadline)
            except TimeoutError:
                raise self._failure("timeout", f"no answer within {deadline:g} s") from None
            except (OSError, ProtocolError) as error:
                raise self._failure("exit", str(error)) from None
            if body is None:
                raise self._failure("exit", "closed its channel")
            try:
                answer = _answer_decoder.decode(body)
            except msgspec.DecodeError as error:
                raise self._failure("protocol", str(error)) from None
        if answer.refused is not None:
            raise BadRequest(answer.refused)
        if answer.done is None:
            raise WorkerFailed("exception", answer.failed or "no result")
        return answer.done

    def restart(self) -> None:
        self._kill()

    def abort(self) -> None:
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def close(self) -> None:
        if self.is_alive() and self._channel is not None:
            with contextlib.suppress(OSError, ProtocolError, TimeoutError):
                send_frame(self._channel, encode(Quit()), timeout_s=CLOSE_S)
                recv_frame(self._channel, MAX_REPLY_BYTES, idle_s=CLOSE_S)
        self._kill()

    # -------------------------------------------------------------------------------------- inside

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        self._folder = tempfile.TemporaryDirectory(prefix="rle-worker-")
        log = _open_log(self._log)
        argv = [sys.executable, "-c", _BOOT.format(fd=theirs.fileno(), channel=CHANNEL_FD)]
        env = dict(self._env if self._env is not None else os.environ)
        env["PYTHONPATH"] = os.pathsep.join(p or os.getcwd() for p in sys.path)
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            env.setdefault(name, "1")
        try:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                cwd=self._folder.name, close_fds=True, pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            ours.close()
            raise WorkerFailed("unavailable", str(error)) from error
        finally:
            theirs.close()
            os.close(log)
        self._channel = ours
        send_frame(ours, encode(self._spec))

    def _failure(self, kind: FailureKind, detail: str) -> WorkerFailed:
        """Ends the worker and names the way it failed."""
        process = self._process
        if kind == "timeout" and process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGUSR1)
            time.sleep(0.05)
        elif process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
            if process.returncode is not None and process.returncode < 0:
                kind, detail = "signal", signal.Signals(-process.returncode).name
        self._kill()
        return WorkerFailed(kind, detail)

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


_BOOT = (
    "import os; os.dup2({fd}, {channel}); "
    "os.set_inheritable({channel}, False); "
    "os.close({fd}) if {fd} != {channel} else None; "
    "from rle.service.worker import main; main()"
)
"""Puts the channel on its fixed descriptor before anything else is imported."""


def deadline_s(call: AnyCall) -> float:
    """Longest time of a call."""
    match call:
        case Open():
            return OPEN_S
        case Act(actions=array):
            return STEP_BASE_S + STEP_PER_ACTION_S * array.shape[0]
        case Drive(steps=steps):
            return STEP_BASE_S + STEP_PER_ACTION_S * steps
        case Measure():
            return FINISH_S
        case Quit():
            return CLOSE_S
    return OTHER_S


def _open_log(path: Path) -> int:
    """Descriptor of the log; an overlong one is cut to its notice."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600)
    if os.fstat(fd).st_size > LOG_BYTES:
        os.ftruncate(fd, 0)
        os.write(fd, b"(earlier output dropped: the log had passed 16 MiB)\n")
    return fd
