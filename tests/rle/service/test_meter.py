"""Charging, as the worked example of the service's page; and the order of phases."""

import pytest
from service_fake import attempt, spec

from rle.service.adapter import PhaseSpec
from rle.service.protocol import Call, Finish, Reset, Step, to_array
from rle.service.rules.meter import Meter, OverBudget
from rle.service.rules.phases import NotAllowed, Phases, cost_of


def test_worked_example():
    # Budget 100. Reset: 1. A batch of 40 stopped at 10 by success: 11. A batch of 90 is refused, 89
    # are left. A batch of 89: 100, 0 left.
    meter = Meter(attempt())
    meter.charge(1)
    meter.confirm(1)
    assert meter.steps_used == 1
    meter.charge(40)
    assert meter.steps_used == 41
    meter.confirm(10)
    assert (meter.steps_used, meter.steps_left) == (11, 89)
    with pytest.raises(OverBudget, match="90 steps, 89 are left"):
        meter.charge(90)
    assert meter.steps_used == 11
    meter.charge(89)
    meter.confirm(89)
    assert (meter.steps_used, meter.steps_left, meter.is_spent) == (100, 0, True)


def test_a_charge_without_its_confirm_stays_whole():
    meter = Meter(attempt())
    meter.charge(1)
    meter.confirm(1)
    meter.charge(40)
    meter.abandon()
    assert meter.steps_used == 41
    meter.charge(1)


def test_evaluation_counts_in_the_trial_alone():
    meter = Meter(PhaseSpec(name="e", kind="evaluation", trials=2, trial_steps=5))
    meter.charge(4)
    meter.confirm(4)
    assert (meter.steps_used, meter.trial_steps_used, meter.trial_steps_left) == (0, 4, 1)
    with pytest.raises(OverBudget, match="of this trial"):
        meter.check(2)
    meter.open_trial()
    assert meter.trial_steps_left == 5


@pytest.mark.parametrize("executed", [-1, 4])
def test_a_confirm_cannot_release_more_than_was_charged(executed):
    meter = Meter(attempt())
    meter.charge(3)
    with pytest.raises(ValueError, match="executed"):
        meter.confirm(executed)


def test_costs_are_those_of_the_request():
    declared = spec()
    phase = declared.phases[0]
    actions = to_array([[0.0, 0.0]] * 7)
    assert cost_of(Step(request_id="a", actions=actions), declared, phase) == 7
    assert cost_of(Reset(request_id="a"), declared, phase) == 1
    assert cost_of(Finish(request_id="a"), declared, phase) == 0
    assert cost_of(Call(request_id="a", name="nudge"), declared, phase) == 1


def test_trials_open_close_and_exhaust_a_phase():
    phases = Phases(spec(attempt(trials=2)))
    assert phases.opens_by_itself and phases.open_trial() == 0
    with pytest.raises(ValueError, match="no trial can open"):
        phases.open_trial()
    with pytest.raises(ValueError, match="live"):
        phases.advance()
    phases.close_trial("finished")
    assert phases.open_trial() == 1
    phases.close_trial("finished")
    assert phases.is_exhausted and phases.next_trial is None
    assert phases.advance() == "finished"
    assert phases.allowed() == ("status", "task_info")


def test_a_request_without_a_place_is_told_what_has_one():
    phases = Phases(spec(attempt(reset="none", can_finish=False)))
    with pytest.raises(NotAllowed, match=r"reset is not allowed in phase attempt; allowed: status"):
        phases.check(Reset(request_id="a"))
    with pytest.raises(NotAllowed, match="finish is not allowed"):
        phases.check(Finish(request_id="a"))
    with pytest.raises(NotAllowed, match="rewind is "):
        phases.check(Call(request_id="a", name="rewind"))
