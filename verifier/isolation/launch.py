"""Starts a worker in its sandbox, keeps its deadlines and its clock, and ends everything of it."""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rle.errors import InfrastructureError
from rle.spec import Profile
from verifier.box import wire
from verifier.isolation import layers
from verifier.isolation.channel import Channel, ChannelClosed, ChannelTimeout, ProtocolFault
from verifier.isolation.clock import WorkerClock, charged_s

FIXED_ENV = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "MUJOCO_GL": "disable",
    "ORT_DISABLE_TELEMETRY": "1",
}
"""The whole environment of a worker."""
START_CAP_S = 300.0
"""Longest time from the start of the process to its HELLO: imports on a loaded machine."""
CLOSE_GRACE_S = 1.0
"""Time between CLOSE and SIGKILL."""
STATUS_GRACE_S = 10.0
"""Time that a worker has to end after it closed its channel, until it is killed."""
HELLO_LIMIT = 8192
PR_SET_CHILD_SUBREAPER = 36


class WorkerDied(Exception):
    """The worker ended without an answer.

    Args:
        status: Exit code, or minus the signal that ended it.
    """

    def __init__(self, status: int) -> None:
        super().__init__(f"signal {-status}" if status < 0 else f"exit code {status}")
        self.status = status


@dataclass(frozen=True)
class LaunchSpec:
    """What one worker is started with."""

    profile: Profile
    role: str
    """Module of the box that serves the requests."""
    plan: layers.Plan
    submission: Path | None = None
    readable: tuple[Path, ...] = ()
    """Further files and folders that it may read."""
    memory_bytes: int | None = None
    cpu_s: int = 0
    """CPU time after which the kernel ends it; 0: no limit."""
    modules: tuple[str, ...] = ()
    """Trusted modules that the role imports before the sandbox closes."""
    writable: tuple[Path, ...] = ()
    """Folders that it may write below; they become its own where it has a uid of its own."""
    keep_fds: tuple[int, ...] = ()


@cache
def _become_subreaper() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@cache
def _empty_folder() -> str:
    folder = tempfile.mkdtemp(prefix="rle-empty-")
    os.chmod(folder, 0o555)
    return folder


class UidSlot:
    """A uid that no process has, reserved machine-wide while the worker lives."""

    def __init__(self) -> None:
        span = layers.LAST_UID - layers.FIRST_UID + 1
        first = os.getpid() % span
        for offset in range(span):
            uid = layers.FIRST_UID + (first + offset) % span
            lock = socket.socket(socket.AF_UNIX)
            try:
                lock.bind(f"\0rle-worker-uid-{uid}")
            except OSError:
                lock.close()
                continue
            if not processes_of(uid):
                self.uid, self._lock = uid, lock
                return
            lock.close()
        raise InfrastructureError(
            f"no free worker uid between {layers.FIRST_UID} and {layers.LAST_UID}",
            code="worker.uid",
        )

    def release(self) -> None:
        """Ends every process that still has the uid, then gives it back."""
        end_s = time.monotonic() + CLOSE_GRACE_S
        while (pids := processes_of(self.uid)) and time.monotonic() < end_s:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(0.01)
        self._lock.close()


def processes_of(uid: int) -> list[int]:
    """Process ids with this real uid."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if entry.stat().st_uid == uid:
                    found.append(int(entry.name))
    return found


class Sandboxed:
    """A live worker process.

    Raises:
        InfrastructureError: It could not be started.
        IsolationUnavailable: It reached fewer layers than `strict` demands.
    """

    def __init__(self, spec: LaunchSpec) -> None:
        _become_subreaper()
        self.spec = spec
        self.profile = layers.PROFILES[spec.profile]
        self.wall_s = 0.0
        self.cpu_s = 0.0
        self.killed = False
        """The verifier itself ended it."""
        self._sequence = 0
        self._slot = UidSlot() if spec.plan.own_uid else None
        if self._slot:
            for folder in spec.writable:
                os.chown(folder, self._slot.uid, self._slot.uid, follow_symlinks=False)
        self._start()
        self._read_hello()

    def _config(self) -> str:
        memory = self.profile.memory_bytes
        if memory and self.spec.memory_bytes:
            memory = min(memory, self.spec.memory_bytes)
        config = {
            "role": self.spec.role,
            "ppid": os.getpid(),
            "layers": list(self.spec.plan.layers),
            "uid": self._slot.uid if self._slot else None,
            "memory_bytes": memory,
            "cpu_s": self.spec.cpu_s,
            "fsize_bytes": self.profile.fsize_bytes,
            "threads": self.profile.threads,
            "unix_sockets": self.profile.unix_sockets,
            "readable": layers.readable_paths(self.spec.submission, *self.spec.readable),
            "writable": [str(p) for p in self.spec.writable],
            "keep_fds": list(self.spec.keep_fds),
            "modules": list(self.spec.modules),
        }
        return json.dumps(config)

    def _start(self) -> None:
        to_child, from_parent = os.pipe2(os.O_CLOEXEC)
        from_child, to_parent = os.pipe2(os.O_CLOEXEC)
        log_reader, log_writer = os.pipe2(os.O_CLOEXEC)
        command = [sys.executable, "-I", "-B", str(layers.BOX / "main.py")]
        try:
            self.process = subprocess.Popen(
                [*command, str(to_child), str(to_parent), self._config()],
                env=FIXED_ENV,
                cwd=_empty_folder(),
                stdin=subprocess.DEVNULL,
                stdout=log_writer,
                stderr=log_writer,
                close_fds=True,
                pass_fds=(to_child, to_parent, *self.spec.keep_fds),
            )
        finally:
            for fd in (to_child, to_parent, log_writer):
                os.close(fd)
        self.pid = self.process.pid
        self._clock = WorkerClock(self.pid)
        self.channel = Channel(from_child, from_parent, log_reader)

    def _read_hello(self) -> None:
        deadline_s = time.monotonic() + START_CAP_S
        try:
            _, payload = self.channel.receive(0, {wire.HELLO: HELLO_LIMIT}, deadline_s)
        except (ChannelClosed, ChannelTimeout, ProtocolFault) as error:
            self.kill()
            self.close()
            raise InfrastructureError(
                f"a {self.spec.profile} worker did not start ({type(error).__name__}); "
                f"it said: {self.channel.log.text()[-600:] or 'nothing'}",
                code="worker.start",
            ) from error
        hello = wire.decode_fields(payload)
        self.layers: tuple[str, ...] = tuple(hello["layers"])
        try:
            self.spec.plan.require(self.layers, hello["failed"])
        except InfrastructureError:
            self.close()
            raise
        self._cpu_before_s, self._queued_before_s = self._clock.cpu_s(), self._clock.queued_s()
        if self.profile.freeze:
            self._signal(signal.SIGSTOP)

    def request(
        self, kind: int, payload: bytes, cap_s: float, limits: dict[int, int], *, charge: bool
    ) -> tuple[int, bytearray]:
        """Sends one request and waits for its reply.

        Args:
            kind: Frame type.
            payload: Its content.
            cap_s: Longest wall time of the whole exchange.
            limits: Accepted reply types with their largest payload, bytes.
            charge: Whether the time is charged to the submission.

        Returns:
            Type and payload of the reply.

        Raises:
            ChannelTimeout: Too late; the worker has been killed.
            WorkerDied: It ended.
            ProtocolFault: It broke the protocol; it has been killed.
        """
        self._sequence += 1
        if self.profile.freeze:
            self._signal(signal.SIGCONT)
        start_s = time.monotonic()
        deadline_s = start_s + cap_s
        try:
            self.channel.send(kind, self._sequence, payload, deadline_s)
            written_s = time.monotonic()
            answer = self.channel.receive(self._sequence, limits, deadline_s)
        except ChannelClosed:
            raise WorkerDied(self._status()) from None
        except (ChannelTimeout, ProtocolFault):
            self.kill()
            if charge:  # its clock is gone with it
                self.wall_s += time.monotonic() - start_s
            raise
        if charge:
            self.wall_s += self._charge(time.monotonic() - written_s)
        else:
            self._cpu_before_s, self._queued_before_s = self._clock.cpu_s(), self._clock.queued_s()
        if self.profile.freeze:
            self._signal(signal.SIGSTOP)
        return answer

    def begin(self, kind: int, payload: bytes, cap_s: float) -> None:
        """Sends a request whose reply comes much later, or never; `finish` waits for it.

        Raises:
            ChannelTimeout, WorkerDied, ProtocolFault: As `request`.
        """
        self._sequence += 1
        try:
            self.channel.send(kind, self._sequence, payload, time.monotonic() + cap_s)
        except ChannelClosed:
            raise WorkerDied(self._status()) from None
        except (ChannelTimeout, ProtocolFault):
            self.kill()
            raise

    def finish(self, cap_s: float, limits: dict[int, int]) -> tuple[int, bytearray]:
        """The reply to what was begun.

        Raises:
            ChannelTimeout: Nothing has come yet; the worker lives on and may be asked again.
            WorkerDied: It ended.
            ProtocolFault: It broke the protocol; it has been killed.
        """
        deadline_s = time.monotonic() + cap_s
        try:
            self.channel.wait(deadline_s)
            return self.channel.receive(self._sequence, limits, deadline_s + CLOSE_GRACE_S)
        except ChannelClosed:
            raise WorkerDied(self._status()) from None
        except ProtocolFault:
            self.kill()
            raise

    def stop(self) -> None:
        """SIGTERM: a request to finish."""
        self._signal(signal.SIGTERM)

    @property
    def uid(self) -> int:
        """Its uid: one of its own, or that of the verifier."""
        return self._slot.uid if self._slot else os.geteuid()

    def _charge(self, wall_s: float) -> float:
        """Charged time of a call; CPU and queueing time count since the last reply."""
        cpu_s, queued_s = self._clock.cpu_s(), self._clock.queued_s()
        used_s, self._cpu_before_s = cpu_s - self._cpu_before_s, cpu_s
        waited_s, self._queued_before_s = queued_s - self._queued_before_s, queued_s
        self.cpu_s += used_s
        return charged_s(wall_s, used_s, waited_s)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def _status(self) -> int:
        """Exit status of a worker that closed its channel; one that lingers is killed."""
        try:
            return self.process.wait(STATUS_GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return 0

    def log_text(self) -> str:
        """What the worker printed, made printable."""
        self.channel.drain_log()
        return self.channel.log.text()

    def kill(self) -> None:
        """SIGKILL to the process and its group, now."""
        self.killed = True
        if self.process.poll() is None:  # a reaped id may belong to somebody else by now
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        """CLOSE, a second of grace, then SIGKILL; nothing of the worker is left afterwards."""
        if self.process.poll() is None:
            if self.profile.freeze:
                self._signal(signal.SIGCONT)
            with contextlib.suppress(ChannelClosed, ChannelTimeout, ProtocolFault):
                self.channel.send(wire.CLOSE, 0, b"", time.monotonic() + CLOSE_GRACE_S)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(CLOSE_GRACE_S)
        self.kill()
        if self._slot:
            self._slot.release()
        self._clock.close()
        self.channel.close()

    def __enter__(self) -> "Sandboxed":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
