"""Kills, hangs and full disks: no acknowledged charge is lost, and the session goes on."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from broker_process import START_S, Broker

from rle.service import client as c
from rle.service.broker import control
from rle.service.protocol import Call, Step, to_array

STILL = np.zeros(2)


def test_a_half_written_record_is_dropped_at_the_next_start(start):
    broker = start("development")
    sim = broker.connect()
    sim.reset()
    sim.step(STILL)
    broker.kill()
    ledger = Path(broker.state["folder"]) / "ledger.jsonl"
    with ledger.open("ab") as file:
        file.write(b'{"i":99,"k":"seal","t":1')
    broker.start()
    sim = broker.connect()
    status = sim.fetch_status()
    assert (status.steps_used, status.phase) == (2, "finished"), "a torn seal is completed"
    report = broker.report()
    assert report.ok and report.end_reason == "recovered"


def test_the_trial_of_a_killed_broker_starts_again_once(start):
    broker = start("attempt")
    sim = broker.connect()
    sim.call("nudge")
    broker.kill()
    broker.start()
    sim = broker.connect()
    assert sim.fetch_status().live and sim.status.steps_used == 1
    sim.finish()
    assert broker.stop() == 0
    report = broker.report()
    assert report.ok and report.trials[0].evidence["nudges"] == 1
    assert report.trials[0].sim_errors == 1


@pytest.mark.parametrize("how", ["exit", "kill", "raise"])
def test_a_dying_worker_costs_its_scene_alone(start, how):
    broker = start("attempt")
    sim = broker.connect()
    sim.step(STILL)
    kind = {"exit": "exit", "kill": "signal", "raise": "exception"}[how]
    with pytest.raises(c.SimError, match=kind):
        sim.call("fault", how=how)
    sim.step(STILL)
    assert sim.status.steps_used == 3
    sim.finish()
    assert broker.report().ok


def test_a_hanging_worker_is_ended_at_its_deadline(start):
    broker = start("attempt", "scale=0.1")
    sim = broker.connect()
    with pytest.raises(c.SimError, match="timeout"):
        sim.call("fault", how="hang")
    assert sim.status.live


def test_a_worker_that_dies_while_idle_is_noticed(start):
    broker = start("attempt")
    sim = broker.connect()
    sim.step(STILL)
    for pid in broker.worker_pids():
        os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + START_S
    while sim.fetch_status().live and not _sim_errors(broker):
        assert time.monotonic() < end
        time.sleep(0.02)
    assert sim.fetch_status().live, "the trial starts again"
    sim.step(STILL)


def _sim_errors(broker: Broker) -> int:
    text = (Path(broker.state["folder"]) / "ledger.jsonl").read_text()
    return text.count('"k":"sim_error"')


def test_a_full_disk_closes_the_session_without_losing_a_charge(start):
    broker = start("development", "fsize=300000")
    sim = broker.connect()
    sim.reset()
    acknowledged = 0
    with pytest.raises((c.LedgerFullError, c.ConnectionLostError)):
        while True:
            sim.step(STILL)
            acknowledged = sim.status.steps_used
    assert broker.process.wait(30) == 4
    lines = (Path(broker.state["folder"]) / "ledger.jsonl").read_bytes().split(b"\n")[:-1]
    charged = sum(json.loads(x)["p"]["cost"] for x in lines if json.loads(x)["k"] == "charge")
    assert charged >= acknowledged > 100


def test_the_broker_holds_no_simulator_and_serves_one_client(start):
    broker = start("attempt")
    assert broker.state["simulators"] == []
    first = broker.connect()
    first.step(STILL)
    for _ in range(3):
        with pytest.raises(c.BusyError, match="another client"):
            c.connect(broker.state["address"])
    first.step(STILL)
    first.close()
    second = broker.connect()
    assert second.fetch_status().steps_used == 2
    second.finish()
    # The second client may knock once more before the broker has seen the first one leave.
    assert broker.report().refused_clients >= 3


def test_tcp_wants_the_token(start, monkeypatch, tmp_path):
    broker = start("attempt", "tcp")
    wrong = tmp_path / "wrong"
    wrong.write_text("0" * 64)
    monkeypatch.setenv("RLE_TOKEN_FILE", str(wrong))
    with pytest.raises(c.UnauthorisedError):
        c.connect(broker.state["address"])
    monkeypatch.setenv("RLE_TOKEN_FILE", broker.state["token"])
    assert broker.connect().fetch_status().live
    assert Path(broker.state["token"]).stat().st_mode & 0o777 == 0o600


def test_control_seals_under_a_live_client(start):
    broker = start("attempt")
    sim = broker.connect()
    sim.step(STILL)
    path = broker.root / "f03-tower" / "control.sock"
    assert control(path, "seal", reason="collected")["sealed"]
    assert control(path, "seal", reason="again")["sealed"]
    report = broker.report()
    assert report.ok and report.end_reason == "collected"
    assert report.trials[0].ended == "finished"
    assert not control(path, "rewind")["ok"]
    with pytest.raises(c.ConnectionLostError):
        sim.step(STILL)


def still(request_id: str) -> Step:
    return Step(request_id=request_id, actions=to_array(np.zeros((1, 2))))


def test_ids_are_remembered_for_the_whole_session(start):
    """Over connections, failures and a killed broker; and the answer says whether it was done."""
    broker = start("development")
    sim = broker.connect()
    sim.reset()
    sim._mutate(still("fine"))
    with pytest.raises(c.SimError):
        sim._mutate(Call(request_id="lost", name="fault", args={"how": "kill"}))
    sim.close()
    for _ in range(2):
        sim = broker.connect()
        with pytest.raises(
            c.DuplicateRequestError, match=r"fine was already charged \(done: true\)"
        ):
            sim._mutate(still("fine"))
        with pytest.raises(
            c.DuplicateRequestError, match=r"lost was already charged \(done: false\)"
        ):
            sim._mutate(still("lost"))
        assert sim.status.steps_used == 3
        broker.kill()
        broker.start()


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_worker_that_stops_while_it_observes_is_ended(start, how):
    broker = start("attempt", "scale=0.1")
    sim = broker.connect()
    sim.step(STILL)
    (pid,) = broker.worker_pids()
    os.kill(pid, signal.SIGSTOP)
    if how == "killed":
        threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
    with pytest.raises(c.SimError, match="timeout" if how == "stopped" else "signal"):
        sim.observe()
    assert sim.fetch_status().live and sim.status.steps_used == 1
    sim.step(STILL)
