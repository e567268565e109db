"""Frames of the metered simulator service: a 4-byte big-endian length and that many bytes.

The length is checked before the body is read, and every wait has an end. Works on a socket that one
thread reads and another writes. Part of the agent's package: standard library alone.
"""

import select
import socket
import struct
import time

FRAME_S = 10.0
"""From the first byte of a frame to its last, and for a reply to drain."""
_LENGTH = struct.Struct(">I")
_CHUNK_BYTES = 1 << 20


class ProtocolError(Exception):
    """Bytes that are not this protocol: the connection ends."""


class FrameTooLong(ProtocolError):
    """A frame whose stated length is over the limit; none of its body has been read.

    Attributes:
        length: Stated length, bytes.
    """

    def __init__(self, length: int, limit: int) -> None:
        super().__init__(f"frame of {length} bytes; at most {limit} are accepted")
        self.length = length


def send_frame(sock: socket.socket, body: bytes, timeout_s: float = FRAME_S) -> None:
    """Writes one frame within `timeout_s`.

    Raises:
        OSError: The peer is gone, or does not read.
    """
    data: bytes | memoryview = _LENGTH.pack(len(body)) + body
    end = None
    while True:
        try:
            sent = sock.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            end = end or time.monotonic() + timeout_s
            _wait(sock, end, write=True)
            continue
        if sent == len(data):
            return
        data = memoryview(data)[sent:]


def recv_frame(
    sock: socket.socket, limit: int, *, idle_s: float | None = None, frame_s: float | None = FRAME_S
) -> bytes | None:
    """Reads one frame; None when the peer closed between frames.

    Args:
        sock: Connected stream socket.
        limit: Largest accepted body, bytes.
        idle_s: Longest wait for the first byte; None waits for ever.
        frame_s: Longest time from the first byte to the last.

    Raises:
        FrameTooLong: The frame is over the limit.
        ProtocolError: The peer closed inside a frame.
        TimeoutError: A deadline passed.
    """
    if idle_s is not None:
        _wait(sock, time.monotonic() + idle_s)
    first = sock.recv(_LENGTH.size)
    if not first:
        return None
    end = None if frame_s is None else time.monotonic() + frame_s
    if len(first) < _LENGTH.size:
        first += _recv_exactly(sock, _LENGTH.size - len(first), end)
    (length,) = _LENGTH.unpack(first)
    if length > limit:
        raise FrameTooLong(length, limit)
    return _recv_exactly(sock, length, end)


def skip_frame(sock: socket.socket, length: int, frame_s: float = FRAME_S) -> None:
    """Reads and drops the body of a frame that was too long, so that the next one can be read.

    Raises:
        ProtocolError, TimeoutError: As `recv_frame`.
    """
    end = time.monotonic() + frame_s
    while length > 0:
        length -= len(_recv_exactly(sock, min(length, 1 << 16), end))


def _recv_exactly(sock: socket.socket, count: int, end: float | None) -> bytes:
    parts: list[bytes] = []
    while count:
        try:
            part = sock.recv(min(count, _CHUNK_BYTES), socket.MSG_DONTWAIT)
        except BlockingIOError:
            _wait(sock, end)
            continue
        if not part:
            raise ProtocolError("the connection closed inside a frame")
        if len(part) == count and not parts:
            return part
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _wait(sock: socket.socket, end: float | None, *, write: bool = False) -> None:
    """Waits until the socket can be read or written, without a limit on the file number."""
    poll = select.poll()
    poll.register(sock, select.POLLOUT if write else select.POLLIN)
    timeout_ms = None if end is None else int((end - time.monotonic()) * 1000) + 1
    # a peer that drips is always ready: the deadline counts, not the poll
    if (timeout_ms is not None and timeout_ms <= 0) or not poll.poll(timeout_ms):
        raise TimeoutError("no bytes within the deadline")
