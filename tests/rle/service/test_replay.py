"""A record runs again: the same simulator gives the same measurements, another one is found out."""

import contextlib
import json

import numpy as np
import pytest
from service_fake import Point, attempt, spec

from rle.seeds import PRACTICE_SALT
from rle.service import client as c
from rle.service import embedded
from rle.service.adapter import PhaseSpec
from rle.service.record.replay import MAX_DIFFERENCES, replay
from rle.service.supervisor import InProcess


class Slippery(Point):
    """A simulator that moves a little less."""

    def step(self, action):
        return super().step(0.999 * action)


class Dead(Point):
    def open_trial(self, plan):
        raise RuntimeError("no scene")


def played(folder, *phases):
    """A session with every kind of operation, refused ones and a failure."""
    declared = spec(*phases)
    with embedded.open(declared, folder=folder, adapter=Point("x")) as sim:
        if phases:
            sim.reset(seed=4)
            sim.step([[0.3, 0.0]] * 3)
            sim.end_development()
        sim.step([[0.25, 0.1]] * 7)
        sim.move((3.0, 0, 0), (0, 0, 0, 1), steps=4)
        sim.call("nudge")
        with contextlib.suppress(c.SimError):
            sim.call("fault", how="raise")
        sim.call("nudge")
        sim.step([[1.0, 0.0]] * 5)
        with contextlib.suppress(c.BadRequestError):
            sim.call("nudge")
        sim.reset()
        sim.step(np.tile([0.7, 0.0], (6, 1)))
        sim.finish()
    return declared


DEVELOPMENT = PhaseSpec(name="development", kind="development", steps=50, reset="new", reset_cost=1)


@pytest.mark.parametrize(
    "phases", [(), (DEVELOPMENT, attempt(steps=None, trial_steps=100))], ids=["attempt", "both"]
)
def test_the_same_simulator_leads_to_the_same_record(tmp_path, phases):
    declared = played(tmp_path, *phases)
    assert replay(tmp_path, declared, PRACTICE_SALT, InProcess(declared, Point("x"))) == []


def test_another_simulator_is_found_out(tmp_path):
    declared = played(tmp_path)
    found = replay(tmp_path, declared, PRACTICE_SALT, InProcess(declared, Slippery("x")))
    assert any("evidence x is" in text for text in found)
    assert all(text.startswith("trial 0, record ") for text in found)


def test_another_salt_draws_another_instance(tmp_path):
    declared = played(tmp_path)
    found = replay(tmp_path, declared, b"another salt" * 4, InProcess(declared, Point("x")))
    assert "instance digest" in found[0]


def test_a_simulator_that_fails_ends_the_replay_with_its_reason(tmp_path):
    declared = played(tmp_path)
    found = replay(tmp_path, declared, PRACTICE_SALT, InProcess(declared, Dead("x")))
    assert found == ["trial 0, record 1: the simulator failed (exception)"]


def test_changed_actions_are_found_in_what_they_lead_to(tmp_path):
    """`verify` refuses such a file; the replay alone would still see it."""
    declared = played(tmp_path)
    path = tmp_path / "actions.f32"
    actions = np.fromfile(path, "<f4")
    actions[-12::2] *= 0.5
    actions.tofile(path)
    found = replay(tmp_path, declared, PRACTICE_SALT, InProcess(declared, Point("x")))
    evidence = [t for t in found if "evidence x" in t]
    recorded = next(
        json.loads(line)["p"]["evidence"]["x"]
        for line in (tmp_path / "ledger.jsonl").read_bytes().splitlines()
        if b'"trial_close"' in line
    )
    assert len(evidence) == 1 and f"recorded {recorded!r}" in evidence[0]
    assert len(found) <= MAX_DIFFERENCES
