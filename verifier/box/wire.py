"""Frames between a worker and the verifier, seen from the worker.

    u32 length of the payload, u8 type, u64 sequence, payload        (little-endian)

LOAD, RESET and READY carry msgpack. ACT carries the number of a declared function (u64) and raw
arrays, REPLY raw arrays; their shapes and dtypes both sides know from the contract, and each is
padded with zeros to a multiple of 8 bytes. Nothing is ever unpickled.
"""

import math
import os
import struct

import msgspec
import numpy as np

HEADER = struct.Struct("<IBQ")
LOAD, RESET, ACT, CLOSE = 1, 2, 3, 4
"""Types that the verifier sends."""
HELLO, READY, REPLY, FAULT = 16, 17, 18, 19
"""Types that a worker sends."""

PARENT_LIMIT = 32 * 2**20
"""Largest payload that the verifier sends, bytes."""
CHUNK = 1 << 16
"""Bytes asked for at once."""
ALIGNED_HEADER = 16
"""Room before a payload, so that it starts on a multiple of 8."""
FUNCTION = struct.Struct("<Q")
"""Number of the declared function, at the head of an ACT."""
ALIGNMENT = 8
"""Arrays start at multiples of this, so that every library may read them in place."""
FAULT_LIMIT = 2048
"""Largest FAULT payload, bytes."""

DTYPES = {
    name: np.dtype(name).newbyteorder("<")
    for name in ("float64", "float32", "uint8", "int32", "int64", "uint16", "bool")
}
"""Element types that a contract may declare."""


class Closed(Exception):
    """The verifier closed its end."""


class Fault(Exception):
    """What a worker reports instead of an answer: a code and a few short facts.

    Args:
        code: Machine name of the finding.
        fields: Short strings and integers; the verifier prints its own text from them.
    """

    def __init__(self, code: str, **fields: object) -> None:
        super().__init__(code)
        self.code = code
        self.fields = fields


class Channel:
    """The worker's ends of the two pipes."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._buffer = bytearray(CHUNK)

    def recv(self) -> tuple[int, int, memoryview]:
        """Waits for one frame.

        Returns:
            Type, sequence, payload (writable).

        Raises:
            Closed: End of the stream.
        """
        have = self._read(0)  # as a rule the whole frame: the verifier sends one at a time
        while have < HEADER.size:
            have += self._read(have)
        length, kind, sequence = HEADER.unpack_from(self._buffer)
        frame = bytearray(ALIGNED_HEADER + length)
        view = memoryview(frame)[ALIGNED_HEADER:]
        got = have - HEADER.size
        view[:got] = memoryview(self._buffer)[HEADER.size : have]
        while got < length:
            more = os.readv(self._read_fd, [view[got:]])
            if not more:
                raise Closed
            got += more
        return kind, sequence, view

    def send(self, kind: int, sequence: int, payload: bytes | bytearray | memoryview) -> None:
        """Writes one frame."""
        data = HEADER.pack(len(payload), kind, sequence) + payload
        written = os.write(self._write_fd, data)
        while written < len(data):
            written += os.write(self._write_fd, memoryview(data)[written:])

    def _read(self, at: int) -> int:
        """Fills the buffer from a position on; returns how many bytes came."""
        count = os.readv(self._read_fd, [memoryview(self._buffer)[at:]])
        if not count:
            raise Closed
        return count


class Layout:
    """Declared arrays of one message, compiled once: `{"name", "shape", "dtype"}` each.

    Args:
        specs: Declarations in the order of the message.
    """

    def __init__(self, specs: list[dict]) -> None:
        self.specs = specs
        self.size = 0
        """Bytes of the message, padding included."""
        self._fields = []
        for spec in specs:
            dtype, shape = DTYPES[spec["dtype"]], tuple(spec["shape"])
            count = math.prod(shape)
            padding = bytes(-count * dtype.itemsize % ALIGNMENT)
            self._fields.append((spec["name"], dtype, shape, self.size, padding))
            self.size += count * dtype.itemsize + len(padding)

    def unpack(self, payload: bytes | bytearray | memoryview, start: int = 0) -> list[np.ndarray]:
        """Splits a payload, from byte `start` on, into the declared arrays, as views on it.

        Raises:
            ValueError: The payload's length is not the sum of the declared sizes.
        """
        if len(payload) - start != self.size:
            raise ValueError(f"{len(payload) - start} bytes; the contract declares {self.size}")
        return [
            np.ndarray(shape, dtype, payload, start + offset)
            for _, dtype, shape, offset, _ in self._fields
        ]

    def pack(self, arrays: list[np.ndarray] | tuple[np.ndarray, ...]) -> bytes:
        """Joins arrays that have exactly the declared shapes and dtypes.

        Raises:
            ValueError: Names the first array that differs from its declaration.
        """
        if len(arrays) != len(self._fields):
            raise ValueError(f"{len(arrays)} arrays; the contract declares {len(self._fields)}")
        parts = []
        for (name, dtype, shape, _, padding), array in zip(self._fields, arrays):
            if array.shape != shape or array.dtype != dtype:
                raise ValueError(
                    f"{name}: got {array.dtype} {array.shape}, declared {dtype} {shape}"
                )
            parts.append(array.tobytes())
            if padding:
                parts.append(padding)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _encode_array(value: object) -> object:
    if isinstance(value, np.ndarray):
        data = np.ascontiguousarray(value)
        return {"__array__": [data.dtype.name, list(data.shape), data.tobytes()]}
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(f"{type(value).__name__} cannot be sent to a worker")


def _decode_arrays(value: object) -> object:
    if isinstance(value, dict):
        if set(value) == {"__array__"}:
            dtype, shape, data = value["__array__"]
            return np.frombuffer(data, DTYPES[dtype]).reshape(shape).copy()
        return {key: _decode_arrays(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_decode_arrays(item) for item in value]
    return value


def encode_fields(fields: dict) -> bytes:
    """LOAD or RESET payload. Values: plain data and numpy arrays of the declared dtypes."""
    return msgspec.msgpack.encode(fields, enc_hook=_encode_array)


def decode_fields(payload: bytes | bytearray) -> dict:
    """Inverse of `encode_fields`."""
    fields = msgspec.msgpack.decode(payload, type=dict)
    return {key: _decode_arrays(value) for key, value in fields.items()}
