"""A session from the agent's side, with the point on a line: charging, refusals, endings, reopening."""

import time

import numpy as np
import pytest
from service_fake import Point, attempt, spec

from rle.errors import InfrastructureError
from rle.service import client as c
from rle.service import embedded
from rle.service.adapter import ArgSpec, ExtraOp, PhaseSpec
from rle.service.course import SIM_UNAVAILABLE, Profile
from rle.service.record import Expect, verify

ONE = np.array([1.0, 0.0])
STILL = np.zeros(2)


@pytest.fixture
def opened(tmp_path):
    """Opens sessions whose records are in `tmp_path`."""
    made = []

    def make(*phases, **changes):
        declared = spec(*phases, **changes)
        sim = embedded.open(declared, folder=tmp_path / f"s{len(made)}", adapter=Point("fake"))
        made.append(sim)
        return sim

    yield make
    for sim in made:
        sim.close()


def report_of(sim):
    sim.session.seal("test")
    return verify(sim.folder / "ledger.jsonl", None, Expect(spec=sim.session.spec))


def test_a_batch_stops_at_success_and_only_that_is_charged(opened):
    sim = opened()
    out = sim.step(np.tile(ONE, (40, 1)))
    assert out.success and out.executed in (9, 10)  # the start is drawn in [0, 1)
    assert sim.status.steps_used == out.executed
    assert sim.status.ended == "success" and not sim.status.live
    report = report_of(sim)
    assert report.ok and report.trials[0].ended == "success"
    assert report.trials[0].evidence["x"] >= 10.0


def test_a_batch_over_what_is_left_is_refused_whole(opened):
    sim = opened(attempt(steps=12))
    sim.step(np.tile(STILL, (10, 1)))
    with pytest.raises(c.BudgetExhaustedError, match="3 steps, 2 are left") as caught:
        sim.step(np.tile(STILL, (3, 1)))
    assert caught.value.status.steps_used == 10
    sim.step(np.tile(STILL, (2, 1)))
    assert sim.status.ended == "budget" and sim.status.phase == "finished"
    assert "x" in report_of(sim).trials[0].evidence, "measured as it stands"


def test_nothing_is_charged_for_what_is_refused(opened):
    sim = opened()
    refused = [
        (c.BadRequestError, r"float64 \(1, 3\)", lambda: sim.step(np.zeros(3))),
        (c.BadRequestError, r"actions\[1, 0\] is nan", lambda: sim.step([[0, 0], [np.nan, 0]])),
        (c.BadRequestError, "201 rows", lambda: sim.step(np.zeros((201, 2)))),
        (c.BadRequestError, "norm 2", lambda: sim.move((0, 0, 0), (0, 0, 0, 2))),
        (c.BadRequestError, "norm 1.0011", lambda: sim.move((0, 0, 0), (0, 0, 0, 1.0011))),
        (c.BadRequestError, "norm 0.9989", lambda: sim.move((0, 0, 0), (0, 0, 0.9989, 0))),
        (c.BadRequestError, "finite", lambda: sim.move((0, 0, 0), (0, 0, np.nan, 1))),
        (c.BadRequestError, r"takes how \(str\)", lambda: sim.call("fault")),
        (c.BadRequestError, "str is expected", lambda: sim.call("fault", how=True)),
        (c.WrongPhaseError, "beam'.: beam is unknown; operations here", lambda: sim.call("beam")),
        (c.WrongPhaseError, "step is a method of the client", lambda: sim.call("step")),
        (c.BadRequestError, r"position_m has shape \(2,\)", lambda: sim.move((0, 0), (0, 0, 0, 1))),
        (c.BadRequestError, "not an array of numbers", lambda: sim.step([["a", "b"]])),
        (c.BadRequestError, "not an array of numbers", lambda: sim.step([[0, 0], [0]])),
        (c.BadRequestError, "steps is 2.5", lambda: sim.move((0, 0, 0), (0, 0, 0, 1), steps=2.5)),
        (c.BadRequestError, "cameras is True", lambda: sim.step(STILL, observe=True)),
        (c.WrongPhaseError, "end_development", lambda: sim.end_development()),
        (c.BadRequestError, "no task and no seed", lambda: sim.reset(seed=3)),
        (c.StaleTrialError, "trial 4 is closed; the live trial is 0", lambda: sim.finish(trial=4)),
        (c.BadRequestError, "camera 'back'", lambda: sim.observe(("back",))),
        (c.BadRequestError, "width_px is 600", lambda: sim.observe(("front",), width_px=600)),
        (c.BadRequestError, "depth", lambda: sim.observe(("front",), depth=True)),
    ]
    for kind, text, ask in refused:
        with pytest.raises(kind, match=text):
            ask()
    assert sim.status.steps_used == 0
    assert report_of(sim).ok


def test_what_means_the_same_is_taken(opened):
    sim = opened()
    one, several = sim.observe("front"), sim.observe(["front"])
    assert one["front_image"].shape == several["front_image"].shape == (64, 64, 3)
    assert sim.move(np.zeros(3), [0, 0, 0, 1], steps=np.int64(2)).executed == 2
    assert sim.move(np.zeros(3), [0, 0, 0, 1.0009], steps=1).executed == 1
    assert "front_image" in sim.step([0, 0], observe="front").observation
    with pytest.raises(c.SimError):
        sim.call("fault", how=np.str_("raise"))


def test_a_refusal_of_the_simulator_releases_its_charge(opened):
    sim = opened()
    sim.step(np.tile(ONE, (6, 1)))
    with pytest.raises(c.BadRequestError, match="beyond 5"):
        sim.call("nudge")
    assert sim.status.steps_used == 6
    assert report_of(sim).ok


def test_values_outside_one_are_clipped_and_counted(opened):
    sim = opened()
    x0 = float(sim.observe()["x"])
    out = sim.step([[3.0, -2.0]], observe=())
    assert out.clipped_values == 2
    assert float(out.observation["x"]) == pytest.approx(x0 + 1.0)


def test_reset_keeps_what_is_used_and_move_goes_through_the_meter(opened):
    sim = opened()
    x0 = float(sim.observe()["x"])
    out = sim.move((x0 + 3.0, 0, 0), (0, 0, 0, 1), steps=4, observe=())
    assert float(out.observation["x"]) == pytest.approx(x0 + 3.0)
    assert out.events == {"move_error_m": 0.0, "move_error_rad": 0.0}
    sim.reset()
    assert float(sim.observe()["x"]) == x0
    assert sim.status.steps_used == 5


def test_a_move_that_does_not_arrive_says_how_far_off_it_is(opened):
    sim = opened()
    x0 = float(sim.observe()["x"])
    out = sim.move((x0 + 3.25, 0, 0), (0, 0, 0, 1), steps=2)  # the point goes 1 m a step at most
    assert out.events == {"move_error_m": pytest.approx(1.25, abs=1e-6), "move_error_rad": 0.0}
    told = {event["name"] for event in sim.task_info()["events"]}
    assert out.events.keys() <= told
    still = spec(has_move=False)
    assert not any(event.name in told for event in still.all_events)


def test_an_id_is_used_once(opened, monkeypatch):
    sim = opened()
    monkeypatch.setattr(c, "_new_id", lambda: "same")
    sim.step(STILL)
    with pytest.raises(c.DuplicateRequestError, match=r"already charged \(done: true\)"):
        sim.step(STILL)
    assert sim.status.steps_used == 1
    sim.observe()
    sim.observe()


def test_a_failed_trial_starts_again_once_with_its_counters(opened):
    sim = opened()
    sim.call("nudge")
    with pytest.raises(c.SimError, match="its scene starts again"):
        sim.call("fault", how="raise")
    assert sim.status.live and sim.status.steps_used == 2
    sim.call("nudge")
    with pytest.raises(c.SimError, match="it is closed"):
        sim.call("fault", how="raise")
    assert sim.status.ended == "sim_error" and not sim.status.live
    report = report_of(sim)
    assert report.ok and report.sim_errors == 2 and report.trials[0].ended == "sim_error"


def test_counters_outlive_a_failure(opened):
    sim = opened()
    sim.call("nudge")
    with pytest.raises(c.SimError):
        sim.call("fault", how="raise")
    sim.finish()
    assert sim.session.trials()[0].evidence["nudges"] == 1


def test_an_answer_is_final_and_opens_the_next_trial(opened):
    submit = ExtraOp(
        name="submit", cost=0, help="-", is_answer=True,
        args=(ArgSpec(name="quadrant", type="str", choices=("A", "B")),),
    )  # fmt: skip
    phase = attempt(trials=2, trial_steps=5, reset="none", can_finish=False, close_at_budget=False)
    sim = opened(phase, extra_ops=(submit,))
    with pytest.raises(c.BadRequestError, match="quadrant is one of A, B"):
        sim.call("submit", quadrant="E")
    sim.step(np.tile(STILL, (5, 1)))
    with pytest.raises(c.BudgetExhaustedError, match="of this trial"):
        sim.step(STILL)
    sim.call("submit", quadrant="B", trial=0)
    assert (sim.status.trial, sim.status.trial_steps_left) == (1, 5)
    with pytest.raises(c.StaleTrialError, match="trial 0 is closed"):
        sim.call("submit", quadrant="A", trial=0)
    sim.call("submit", quadrant="A", trial=1)
    report = report_of(sim)
    assert [t.answer["quadrant"] for t in report.trials] == ["B", "A"]
    assert [t.ended for t in report.trials] == ["submitted", "submitted"]
    digests = {t.digest for t in report.trials}
    assert len(digests) == 2


def test_development_then_evaluation(opened):
    phases = (
        PhaseSpec(name="development", kind="development", steps=20, reset="new", reset_cost=1),
        PhaseSpec(
            name="evaluation", kind="evaluation", trials=2, trial_steps=3, opens="reset",
            reset="next", can_finish=False,
        ),
    )  # fmt: skip
    sim = opened(*phases, tasks=("a", "b"))
    with pytest.raises(c.TrialOverError, match="no live trial; call reset"):
        sim.step(STILL)
    assert sim.list_tasks() == ["a", "b"]
    sim.reset(task="a", seed=5)
    first = float(sim.observe()["x"])
    sim.reset(task="b", seed=5)
    assert float(sim.observe()["x"]) == first, "a public seed names one scene"
    sim.step(np.tile(STILL, (4, 1)))
    assert sim.status.steps_used == 6
    sim.end_development()
    sim.reset()
    sim.step(np.tile(STILL, (3, 1)))
    assert sim.status.ended == "horizon" and sim.status.steps_used == 6
    sim.reset()
    with pytest.raises(c.TrialOverError, match="session is over"):
        sim.reset()
        sim.reset()
    report = report_of(sim)
    assert report.ok and report.steps_used == 6
    assert [t.ended for t in report.trials if t.phase == "evaluation"] == ["horizon", "forfeited"]


def test_forfeit_scores_nothing_and_ends_it(opened):
    sim = opened(attempt(reset="forfeit", reset_cost=0))
    sim.reset()
    assert sim.status.ended == "forfeited" and sim.status.phase == "finished"
    assert report_of(sim).trials[0].evidence == {}


def test_wall_time_ends_the_attempt_without_a_client(opened):
    sim = opened(attempt(seconds=0.0))
    sim.session.tick()
    assert sim.status.ended == "wall_time"
    report = report_of(sim)
    assert report.end_reason == "wall_time" and "x" in report.trials[0].evidence


def test_the_clock_starts_with_the_first_charge(opened):
    sim = opened(attempt(seconds=1000.0))
    assert sim.status.seconds_used == 0.0
    sim.step(STILL)
    assert sim.fetch_status().seconds_used >= 0.0 and sim.status.seconds_left <= 1000.0


def test_the_status_keeps_its_totals_when_the_session_is_over(opened, monkeypatch):
    sim = opened(attempt(trials=2))
    clock = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    for _ in range(2):
        sim.step(np.tile(STILL, (3, 1)))
        clock[0] += 20.0
        sim.finish()
    over = sim.fetch_status()
    assert (over.phase, over.ended, over.live) == ("finished", "finished", False)
    assert (over.steps_used, over.steps_left, over.trial_steps_used) == (6, 94, 3)
    assert (over.trial, over.trials) == (1, 2)
    clock[0] += 500.0
    assert sim.fetch_status().seconds_used == over.seconds_used == pytest.approx(40.0)
    assert report_of(sim).seconds_used == over.seconds_used


def test_a_client_does_not_survive_a_fork(opened, monkeypatch):
    sim = opened()
    monkeypatch.setattr(c.os, "getpid", lambda: -1)
    with pytest.raises(c.ForkedClientError):
        sim.step(STILL)


def test_privileged_state_exists_in_validation_alone(opened, tmp_path):
    sim = opened()
    with pytest.raises(c.WrongPhaseError):
        sim.privileged_state()
    profile = Profile(task="f03/tower", layout="practice", sync=False, validation=True)
    with embedded.open(spec(), folder=tmp_path / "v", adapter=Point("x"), profile=profile) as two:
        assert "start" in two.privileged_state()
        assert two.status.steps_used == 0


def test_seal_and_advance_repeat_without_effect(opened):
    sim = opened()
    sim.step(STILL)
    sim.session.seal("collected")
    size = (sim.folder / "ledger.jsonl").stat().st_size
    sim.session.seal("again")
    sim.session.tick()
    assert (sim.folder / "ledger.jsonl").stat().st_size == size
    assert report_of(sim).end_reason == "collected"


class OneScene(Point):
    """Opens its first scene and no other."""

    def open_trial(self, plan):
        if plan.trial > 0:
            raise RuntimeError("no scene")
        return super().open_trial(plan)


def test_a_later_scene_that_cannot_open_ends_the_session_without_a_verdict(tmp_path):
    declared = spec(attempt(trials=2))
    with embedded.open(declared, folder=tmp_path, adapter=OneScene("x")) as sim:
        sim.step(STILL)
        sim.finish()
        assert sim.status.phase == "finished"
    report = verify(tmp_path / "ledger.jsonl", None, Expect(spec=declared))
    assert report.ok and report.end_reason == SIM_UNAVAILABLE
    assert [t.ended for t in report.trials] == ["finished"]


def test_a_first_scene_that_cannot_open_is_tried_again_by_the_next_start(tmp_path):
    class Dead(Point):
        def open_trial(self, plan):
            raise RuntimeError("no scene")

    with pytest.raises(InfrastructureError, match="worker.log"):
        embedded.open(spec(), folder=tmp_path, adapter=Dead("x"))
    with embedded.open(spec(), folder=tmp_path, adapter=Point("x")) as sim:
        assert sim.status.live
