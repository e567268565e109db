"""The loop that plays a policy: faults, time-outs, what is held, and who gets asked."""

import mujoco
import numpy as np
import pytest

from families.f07_bin import spec, verify
from families.f07_bin.task import STATE, picture_arrays, play
from tests.families.f07_bin.cells import OFF, ON, Host, episode, fault

TICKS = 6


def test_lock_step_reset_first_then_one_act_per_tick():
    e, host = episode(), Host()
    seen = []
    played = play(e, host, seed=7, ticks=TICKS, on_tick=lambda e: seen.append(e.tick))
    assert host.fields["seed"] == 7 and host.fields["cell_spec"]["n_ctrl"] == spec.N_CTRL
    assert host.calls == ["act_frame", "act"] * (TICKS // 2)
    assert seen == list(range(TICKS + 1))
    assert played.ended == "done" and played.faults == 0
    assert played.act_s == pytest.approx(0.001 * TICKS)


def test_arrays_travel_in_the_contracts_order_and_types():
    sent = {}
    play(episode(), Host(lambda name, *arrays: (sent.setdefault(name, arrays), OFF)[1]), 0, 2)
    assert [a.shape for a in sent["act"]] == [s.shape for s in STATE]
    frame = (*STATE, *picture_arrays(()))
    assert [(a.shape, str(a.dtype)) for a in sent["act_frame"]] == [
        (s.shape, s.dtype) for s in frame
    ]


def test_no_channel_asked_for_no_picture_drawn():
    e = episode()
    play(e, Host(), 0, TICKS)
    assert e.sensors.n_renders == 0


def test_bad_action_holds_the_last_command_and_counts():
    turn = {"n": 0}

    def answer(*_):
        turn["n"] += 1
        return ON if turn["n"] == 1 else fault("bad_action")()

    e = episode()
    played = play(e, Host(answer), 0, TICKS)
    assert played.faults == TICKS - 1 and played.ended == "done"
    assert e.is_on, "the last good command is held, the magnet included"


@pytest.mark.parametrize("ended", ["timeout_call", "worker_died"])
def test_a_lost_policy_is_not_asked_again_and_the_pile_goes_on(ended):
    turn = {"n": 0}

    def answer(*_):
        turn["n"] += 1
        return ON if turn["n"] == 1 else fault(ended)()

    e, host = episode(), Host(answer)
    played = play(e, host, 0, TICKS)
    assert played.ended == ended and len(host.calls) == 2
    assert e.tick == TICKS and e.is_on


def test_lost_in_reset_leaves_home_and_magnet_off():
    e, host = episode(), Host(reset=fault("timeout_call"))
    played = play(e, host, 0, TICKS)
    assert played.ended == "timeout_call" and host.calls == [] and e.tick == TICKS
    assert not e.is_on and e.data.ctrl == pytest.approx(spec.ARM_HOME_RAD)


def test_used_up_time_stops_the_pile():
    turn = {"n": 0}

    def answer(*_):
        turn["n"] += 1
        return OFF if turn["n"] <= 3 else fault("timeout_total")()

    e = episode()
    assert play(e, Host(answer), 0, TICKS).ended == "timeout_total"
    assert e.tick == 3


def test_an_exception_in_reset_is_one_fault():
    played = play(episode(), Host(reset=fault("bad_action")), 0, TICKS)
    assert played.faults == 1 and played.ended == "done"


def test_a_solver_that_gives_up_ends_the_pile_as_unstable(monkeypatch):
    e, host = episode(), Host()

    def give_up(*_):
        raise mujoco.FatalError("FactorizeHessian: rank-deficient")

    def answer(*_):
        if e.tick == 2:
            monkeypatch.setattr(mujoco, "mj_step", give_up)
        return OFF

    host._answer = answer
    played = play(e, host, 0, TICKS)
    assert played.ended == "sim_unstable" and e.tick == 3
    assert np.isfinite(e.peak_part_n) and verify.to_row(e, played, "t00").score == 0.0


def test_unstable_physics_stops_the_pile():
    e = episode()

    def answer(*_):
        e.data.qvel[0] = np.nan
        return OFF

    assert play(e, Host(answer), 0, TICKS).ended == "sim_unstable"
    assert e.tick == 1
