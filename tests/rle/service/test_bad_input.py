"""What a client can send to a served session, right and wrong: each has its stated reply, none is
charged, and the session goes on."""

import socket
import struct

import msgspec
import numpy as np
import pytest

from rle.service import client as c
from rle.service import frames
from rle.service import protocol as p

STILL = np.zeros(2)


@pytest.fixture
def broker(start):
    return start("attempt", "frame=0.5")


def dial(broker):
    """A raw connection past its greeting."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(broker.state["address"])
    assert frames.recv_frame(sock, p.MAX_REPLY_BYTES, idle_s=30.0)
    return sock


def ask(sock, body):
    """The error that answers a body."""
    frames.send_frame(sock, body)
    reply = frames.recv_frame(sock, p.MAX_REPLY_BYTES, idle_s=30.0)
    return msgspec.msgpack.decode(reply, type=p.Reply)


def test_a_served_observation_is_the_simulators(broker):
    with broker.connect() as sim:
        seen = sim.observe(("front",), width_px=512, height_px=256)
        assert seen["front_image"].shape == (256, 512, 3) and seen["front_image"].dtype == np.uint8
        out = sim.step([[0.5, 0.0]] * 2, observe=("front",))
        assert out.observation["front_image"].shape == (64, 64, 3)
        assert float(out.observation["x"]) == pytest.approx(float(seen["x"]) + 1.0)
        assert sim.step(STILL).observation is None
        assert sim.status.steps_used == 3


NONSENSE = {
    "empty": b"",
    "random": bytes(range(256)),
    "cut": p.encode(p.GetStatus(request_id="a"))[:-1],
    "trailing": p.encode(p.GetStatus(request_id="a")) + b"\x00",
    "deep": b"\x91" * 10_000 + b"\xc0",
    "unknown operation": msgspec.msgpack.encode({"op": "rewind", "request_id": "a"}),
    "unknown field": msgspec.msgpack.encode({"op": "status", "request_id": "a", "more": 1}),
    "id of another form": p.encode(p.GetStatus(request_id="a b")),
    "long id": p.encode(p.GetStatus(request_id="a" * 65)),
    "no UTF-8": b"\x82\xa2op\xa6status\xaarequest_id\xa1\xff",
}


def test_bytes_that_are_no_request_are_answered_and_cost_nothing(broker):
    with dial(broker) as sock:
        for name, body in NONSENSE.items():
            reply = ask(sock, body)
            assert isinstance(reply, p.Error) and reply.kind == "bad_request", name
            assert reply.status.steps_used == 0
        assert isinstance(ask(sock, p.encode(p.GetStatus(request_id="a"))), p.Ok)


BAD_STEPS = {
    "nan": ([[0.0, float("nan")]], r"actions\[0, 1\] is nan"),
    "infinite": ([[0.0, 0.0], [float("-inf"), 0.0]], r"actions\[1, 0\] is -inf"),
    "too few numbers": ([0.0], r"float64 \(1, 1\); task f03/tower takes float64 \(n, 2\)"),
    "no row": (np.zeros((0, 2)), "0 rows"),
    "too many rows": (np.zeros((201, 2)), "201 rows"),
    "three axes": (np.zeros((1, 1, 2)), r"\(1, 1, 2\)"),
}


@pytest.mark.parametrize("case", BAD_STEPS, ids=BAD_STEPS)
def test_a_batch_that_is_not_one_is_refused_whole(broker, case):
    actions, text = BAD_STEPS[case]
    with broker.connect() as sim:
        with pytest.raises(c.BadRequestError, match=text):
            sim.step(actions)
        with pytest.raises(c.BadRequestError, match="finite"):
            sim.move((0.0, float("nan"), 0.0), (0, 0, 0, 1))
        assert sim.fetch_status().steps_used == 0 and sim.status.live


def test_an_array_that_lies_about_its_size_is_refused(broker):
    liar = p.Step(request_id="a", actions=p.Array("float64", (2, 2), bytes(8)))
    with dial(broker) as sock:
        reply = ask(sock, p.encode(liar))
        assert reply.kind == "bad_request" and "needs 32 bytes, 8 given" in reply.message
        assert reply.status.steps_used == 0


def test_a_frame_over_the_limit_is_refused_and_the_connection_lives(broker):
    with dial(broker) as sock:
        reply = ask(sock, bytes(p.MAX_REQUEST_BYTES + 1))
        assert reply.kind == "bad_request" and "at most 262144" in reply.message
        assert isinstance(ask(sock, p.encode(p.GetStatus(request_id="a"))), p.Ok)


def test_a_frame_that_claims_gigabytes_ends_the_connection_with_a_reason(broker):
    with dial(broker) as sock:
        sock.sendall(struct.pack(">I", 0xFFFFFFFF))
        reply = msgspec.msgpack.decode(
            frames.recv_frame(sock, p.MAX_REPLY_BYTES, idle_s=30.0), type=p.Reply
        )
        assert reply.kind == "bad_request" and "4294967295 bytes" in reply.message
        assert frames.recv_frame(sock, p.MAX_REPLY_BYTES, idle_s=30.0) is None
    with broker.connect() as sim:
        assert sim.fetch_status().live


def test_half_a_frame_ends_the_connection_at_its_deadline_and_not_the_session(broker):
    with dial(broker) as sock:
        sock.sendall(struct.pack(">I", 100) + b"half")
        reply = msgspec.msgpack.decode(
            frames.recv_frame(sock, p.MAX_REPLY_BYTES, idle_s=30.0), type=p.Reply
        )
        assert reply.kind == "protocol" and "0.5 s" in reply.message
    with broker.connect() as sim:
        assert sim.fetch_status().live


def test_a_client_that_stops_reading_loses_its_connection_and_keeps_what_it_did(broker):
    look = p.ObserveSpec(cameras=("front",), width_px=512)
    with dial(broker) as sock:
        for n in range(4):  # 786 kB each: more than the socket's buffers hold
            step = p.Step(request_id=f"s{n}", actions=p.to_array(np.zeros((1, 2))), observe=look)
            frames.send_frame(sock, p.encode(step))
        with broker.connect() as sim:  # the lease comes free while the first client is still there
            used = sim.fetch_status().steps_used
            assert 1 <= used <= 4
            with pytest.raises(
                c.DuplicateRequestError, match=r"s0 was already charged \(done: true\)"
            ):
                sim._mutate(p.Step(request_id="s0", actions=p.to_array(np.zeros((1, 2)))))
            sim.step(STILL)
            assert sim.status.steps_used == used + 1


def test_a_batch_larger_than_what_is_left_runs_no_part_of_it(start):
    broker = start("short")
    with broker.connect() as sim:
        x0 = float(sim.observe()["x"])
        sim.step(np.tile([0.1, 0.0], (8, 1)))
        with pytest.raises(c.BudgetExhaustedError, match="needs 5 steps, 2 are left"):
            sim.step(np.tile([0.1, 0.0], (5, 1)))
        assert float(sim.observe()["x"]) == pytest.approx(x0 + 0.8)
        sim.step(np.tile([0.1, 0.0], (2, 1)))
        assert (sim.status.ended, sim.status.steps_left) == ("budget", 0)


def test_leaving_and_coming_back_at_once_is_never_busy(broker):
    for _ in range(50):
        with c.connect(broker.state["address"]) as sim:
            assert sim.fetch_status().live


def test_the_client_refuses_a_frame_that_the_service_would(broker):
    with broker.connect() as sim:
        with pytest.raises(c.BadRequestError, match="nothing was sent"):
            sim.step(np.zeros((20_000, 2)))
        assert sim.fetch_status().live


def test_a_fault_of_the_service_is_an_incident_without_its_text(start):
    broker = start("attempt", "broken")
    with broker.connect() as sim:
        with pytest.raises(c.ServiceError, match=r"incident [0-9a-f]{8}\)$") as caught:
            sim.step(STILL)
        assert caught.value.kind == "internal" and "secret" not in str(caught.value)
        assert sim.status.last_request_done is False
        sim.step([[0.5, 0.0]])
        assert sim.status.steps_used == 2, "the charge of the incident stays"
        sim.finish()
    report = broker.report()
    assert report.ok and report.sim_errors == 1
