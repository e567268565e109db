"""The wire: every message survives a round trip, and nothing malformed gets further than its frame."""

import socket
import struct
import threading

import msgspec
import numpy as np
import pytest

from rle.service import frames
from rle.service import protocol as p

REQUESTS = [
    p.GetStatus(request_id="a"),
    p.TaskInfo(request_id="a"),
    p.ListTasks(request_id="a"),
    p.Observe(request_id="a", spec=p.ObserveSpec(cameras=("front",), width_px=64, depth=True)),
    p.Step(request_id="a", actions=p.to_array(np.zeros((2, 3))), observe=p.ObserveSpec(), trial=1),
    p.Move(request_id="a", position_m=(0.0, 1.0, 2.0), quat_xyzw=(0.0, 0.0, 0.0, 1.0), gripper=1.0),
    p.Reset(request_id="a", task="x", seed=3),
    p.Finish(request_id="a", trial=0),
    p.EndDevelopment(request_id="a"),
    p.Call(request_id="a", name="beam", args={"locked": True, "n": 3, "x": 0.5, "s": "A"}),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: type(r).__name__)
def test_requests_survive_a_round_trip(request_):
    assert p.decode_request(p.encode(request_)) == request_


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64", "int64", "bool"])
@pytest.mark.parametrize("shape", [(), (0, 4), (3,), (2, 3, 4)])
def test_arrays_survive_a_round_trip(dtype, shape):
    value = np.arange(int(np.prod(shape)), dtype=float).reshape(shape).astype(dtype)
    again = p.from_array(msgspec.msgpack.decode(p.encode(p.to_array(value)), type=p.Array))
    assert again.dtype == value.dtype and np.array_equal(again, value)
    assert not again.flags.writeable


@pytest.mark.parametrize(
    "array",
    [
        p.Array("float64", (2,), b"\0" * 8),
        p.Array("float64", (-1,), b""),
        p.Array("uint8", (2**40, 2**40), b""),
        p.Array("uint8", (1,) * 9, b"\0"),
    ],
)
def test_an_array_that_lies_about_its_size_is_refused(array):
    with pytest.raises(p.ProtocolError):
        p.from_array(array)


def test_objects_do_not_cross_the_wire():
    with pytest.raises(TypeError, match="allowed"):
        p.to_array(np.array([object()]))


@pytest.mark.parametrize(
    "message",
    [
        {"op": "status"},
        {"op": "status", "request_id": 3},
        {"op": "status", "request_id": "a", "more": 1},
        {"op": "rewind", "request_id": "a"},
        {"request_id": "a"},
        {"op": "call", "request_id": "a", "name": "x", "args": {"deep": [1]}},
        {"op": "reset", "request_id": "a", "seed": "3"},
        [],
    ],
)
def test_unknown_fields_types_and_operations_do_not_decode(message):
    with pytest.raises(msgspec.ValidationError):
        p.decode_request(msgspec.msgpack.encode(message))


def test_ten_thousand_levels_do_not_reach_the_stack():
    body = b"\x91" * 10_000 + b"\xc0"
    with pytest.raises((msgspec.DecodeError, RecursionError)):
        p.decode_request(body)
    assert p.request_id_of(body) == ""


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def test_a_long_frame_is_refused_before_it_is_read(pair):
    ours, theirs = pair
    theirs.sendall(struct.pack(">I", p.MAX_REQUEST_BYTES + 1))
    with pytest.raises(p.ProtocolError, match="at most"):
        frames.recv_frame(ours, p.MAX_REQUEST_BYTES)


def test_a_frame_cut_in_the_middle_is_an_error_and_between_frames_is_not(pair):
    ours, theirs = pair
    theirs.sendall(struct.pack(">I", 10) + b"abc")
    theirs.close()
    with pytest.raises(p.ProtocolError, match="inside a frame"):
        frames.recv_frame(ours, 100)
    a, b = socket.socketpair()
    with a:
        b.close()
        assert frames.recv_frame(a, 100) is None


def test_a_silent_client_is_cut_off_at_the_deadline(pair):
    ours, theirs = pair
    theirs.sendall(struct.pack(">I", 10) + b"abc")
    with pytest.raises(TimeoutError):
        frames.recv_frame(ours, 100, frame_s=0.05)


def test_a_dripping_client_is_cut_off_at_the_deadline(pair):
    ours, theirs = pair
    theirs.sendall(struct.pack(">I", 10_000))
    cut_off = threading.Event()

    def drip() -> None:
        while not cut_off.wait(0.001):
            theirs.send(b"x")

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        with pytest.raises(TimeoutError):
            frames.recv_frame(ours, 10_000, frame_s=0.05)
    finally:
        cut_off.set()
        dripping.join()


def test_a_reader_that_does_not_drain_is_given_up(pair):
    ours, _ = pair
    with pytest.raises(TimeoutError):
        frames.send_frame(ours, bytes(8 << 20), timeout_s=0.05)


def test_large_frames_pass_in_pieces(pair):
    ours, theirs = pair
    body = bytes(range(256)) * 4096
    sender = threading.Thread(target=frames.send_frame, args=(theirs, body))
    sender.start()
    assert frames.recv_frame(ours, p.MAX_REPLY_BYTES) == body
    sender.join()
