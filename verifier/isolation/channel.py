"""The verifier's ends of a worker's pipes: frames with a deadline over the whole exchange.

A worker is untrusted, so a header is checked before anything is allocated, a reply may not be
longer than the contract says, and every wait is bounded by a monotonic deadline that dribbled
bytes do not move. Log output is drained meanwhile, so that a chatty worker cannot block itself.
"""

import contextlib
import fcntl
import os
import select
import time
from collections import deque

from verifier.box import wire

LOG_BYTES = 64 * 1024
"""Ring of a worker's stdout and stderr that is kept."""
PIPE_BYTES = 2**20
"""Size asked for the channel's pipes, so that an image needs few wake-ups."""
F_SETPIPE_SZ = 1031
"""fcntl command. Source: linux/fcntl.h."""
CHUNK = 1 << 16


class ChannelTimeout(Exception):
    """The deadline passed before a whole reply was there."""


class ChannelClosed(Exception):
    """The worker closed the channel: it has ended or is ending."""


class ProtocolFault(Exception):
    """The worker broke the protocol; `code` is `ipc.frame` or `ipc.extra`."""

    def __init__(self, code: str, fact: str) -> None:
        super().__init__(f"{code}: {fact}")
        self.code = code
        self.fact = fact


class RingLog:
    """The last `LOG_BYTES` of what a worker printed; nothing is ever parsed from it."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self.dropped = 0
        """Bytes that no longer fit."""

    def add(self, data: bytes) -> None:
        self._chunks.append(data)
        self._size += len(data)
        while self._size - len(self._chunks[0]) >= LOG_BYTES:
            gone = self._chunks.popleft()
            self._size -= len(gone)
            self.dropped += len(gone)

    def text(self) -> str:
        """Printable text: control characters, escape sequences among them, are written as codes."""
        data = b"".join(self._chunks)[-LOG_BYTES:]
        notice = f"[{self.dropped} earlier bytes dropped]\n" if self.dropped else ""
        decoded = data.decode("utf-8", "backslashreplace")
        return notice + "".join(
            c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode()
            for c in decoded
        )


class Channel:
    """Request and reply over two pipes, one request in flight.

    Args:
        read_fd: Frames of the worker.
        write_fd: Frames for the worker.
        log_fd: Its stdout and stderr.
    """

    def __init__(self, read_fd: int, write_fd: int, log_fd: int) -> None:
        self._read_fd, self._write_fd, self._log_fd = read_fd, write_fd, log_fd
        self.log = RingLog()
        self._log_open = True
        self._buffer = bytearray(CHUNK)
        for fd in (read_fd, write_fd, log_fd):
            os.set_blocking(fd, False)
        for fd in (read_fd, write_fd):
            with contextlib.suppress(OSError):  # over the user's quota: the default is only slower
                fcntl.fcntl(fd, F_SETPIPE_SZ, PIPE_BYTES)
        self._unasked = select.poll()
        self._unasked.register(read_fd, select.POLLIN)
        self._reader = self._poller(read_fd, select.POLLIN)
        self._writer = self._poller(write_fd, select.POLLOUT)

    def _poller(self, fd: int, event: int) -> select.poll:
        poller = select.poll()
        poller.register(fd, event)
        poller.register(self._log_fd, select.POLLIN)
        return poller

    def send(self, kind: int, sequence: int, payload: bytes, deadline_s: float) -> None:
        """Writes a request.

        Args:
            kind: Frame type of `box.wire`.
            sequence: Number that the reply must carry.
            payload: At most `wire.PARENT_LIMIT` bytes.
            deadline_s: `time.monotonic()` at which to give up.

        Raises:
            ProtocolFault: The worker has spoken without being asked.
            ChannelTimeout, ChannelClosed: See there.
        """
        if len(payload) > wire.PARENT_LIMIT:
            raise ValueError(f"{len(payload)} bytes; a request holds at most {wire.PARENT_LIMIT}")
        self._refuse_unasked()
        data = wire.HEADER.pack(len(payload), kind, sequence) + payload
        written = self._write(data, deadline_s)
        while written < len(data):
            written += self._write(memoryview(data)[written:], deadline_s)

    def _write(self, data: bytes | memoryview, deadline_s: float) -> int:
        """Writes what fits into the pipe; returns how many bytes."""
        while True:
            try:
                return os.write(self._write_fd, data)
            except BlockingIOError:
                self._wait(self._writer, self._write_fd, deadline_s)
            except BrokenPipeError:
                raise ChannelClosed from None

    def receive(
        self, sequence: int, limits: dict[int, int], deadline_s: float
    ) -> tuple[int, bytearray]:
        """Reads one reply.

        Args:
            sequence: Number of the request.
            limits: Accepted frame types with the largest payload of each, bytes.
            deadline_s: `time.monotonic()` at which to give up.

        Returns:
            Type and payload.

        Raises:
            ProtocolFault: A header that no honest worker sends.
            ChannelTimeout, ChannelClosed: See there.
        """
        have = self._some(0, deadline_s)
        while have < wire.HEADER.size:
            have += self._some(have, deadline_s)
        length, kind, answered = wire.HEADER.unpack_from(self._buffer)
        if kind not in limits:
            raise ProtocolFault("ipc.frame", f"frame type {kind} was not asked for")
        if answered != sequence:
            raise ProtocolFault("ipc.frame", f"sequence {answered} instead of {sequence}")
        if length > limits[kind]:
            raise ProtocolFault("ipc.frame", f"{length} bytes; at most {limits[kind]}")
        if have - wire.HEADER.size > length:
            raise ProtocolFault("ipc.extra", "bytes behind the reply")
        payload = self._buffer[wire.HEADER.size : have]
        if len(payload) < length:
            got = len(payload)
            payload += bytes(length - got)
            with memoryview(payload) as view:
                while got < length:
                    got += self._into(view[got:], deadline_s)
        return kind, payload

    def wait(self, deadline_s: float) -> None:
        """Until something of the reply can be read, or the worker's end is closed; drains the log.

        Raises:
            ChannelTimeout: Neither happened.
        """
        self._wait(self._reader, self._read_fd, deadline_s)

    def drain_log(self) -> None:
        """Takes what the worker printed so far."""
        while self._log_open:
            try:
                data = os.read(self._log_fd, CHUNK)
            except BlockingIOError:
                return
            if not data:
                self._log_open = False
                return
            self.log.add(data)

    def close(self) -> None:
        """Closes the three descriptors."""
        self.drain_log()
        for fd in (self._read_fd, self._write_fd, self._log_fd):
            os.close(fd)

    def _refuse_unasked(self) -> None:
        if not self._unasked.poll(0):
            return
        if os.read(self._read_fd, 1):
            raise ProtocolFault("ipc.extra", "bytes on the channel before the request")
        raise ChannelClosed

    def _some(self, at: int, deadline_s: float) -> int:
        """Fills the buffer from a position on; returns how many bytes came."""
        return self._into(memoryview(self._buffer)[at:], deadline_s)

    def _into(self, view: memoryview, deadline_s: float) -> int:
        self._wait(self._reader, self._read_fd, deadline_s)
        got = os.readv(self._read_fd, [view])
        if not got:
            raise ChannelClosed
        return got

    def _wait(self, poller: select.poll, wanted_fd: int, deadline_s: float) -> None:
        """Until `wanted_fd` is ready; drains the log meanwhile."""
        while True:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise ChannelTimeout
            found = poller.poll(left_s * 1e3)
            if len(found) == 1 and found[0][0] == wanted_fd:
                return
            ready = dict(found)
            if self._log_fd in ready:
                if ready[self._log_fd] & select.POLLIN:
                    self._read_log_once()
                else:
                    poller.unregister(self._log_fd)
            if wanted_fd in ready:
                return

    def _read_log_once(self) -> None:
        try:
            data = os.read(self._log_fd, CHUNK)
        except BlockingIOError:
            return
        if data:
            self.log.add(data)
