"""Faults of simulation, trial processes, sessions, speed and rendering: 12, 14, 15, 17 and 18."""

import os

import numpy as np
import pytest

from rle.seeds import PRACTICE_SALT
from rle.service import embedded
from rle.service.course import Profile
from rle.service.record import SigningKey
from rle.service.record.ledger import LEDGER_NAME
from tests.families.f03_tabletop.test_verify import Answering, grade, s
from tests.verifier import fake_family
from tests.verifier.runs import plain_rows, report_of, reward_of, start, verify
from verifier import machine


def finished(process) -> tuple[int, str]:
    _, text = process.communicate()
    return process.returncode, text


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_physics_that_diverges_under_a_finite_action(policy, tmp_path, honest_out, jobs):
    """12: the family's rule ends this trial; the others do not notice."""
    process = start(policy, tmp_path / "out", "--fault", "diverge", "--jobs", jobs)
    assert finished(process)[0] == 0
    first, lost, last = plain_rows(tmp_path / "out")
    assert (lost.ended, lost.score, lost.retried) == ("sim_unstable", 0.0, 0)
    assert [first, last] == [plain_rows(honest_out)[i] for i in (0, 2)]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_scene_of_ours_that_diverges_is_nobodys_zero(policy, tmp_path, jobs):
    """12: outside the family's rule it is our scene that cannot be trusted."""
    process = start(policy, tmp_path / "out", "--fault", "broken-scene", "--jobs", jobs)
    code, text = finished(process)
    assert code == 3 and "SimulationError" in text
    assert report_of(tmp_path / "out").errors[0].code == "sim_unstable"
    assert not (tmp_path / "out" / "reward.json").exists()


def test_a_lost_trial_process_is_run_once_more(policy, tmp_path, honest_out):
    """14: the same rows, without a mark, because nothing that was submitted had a part in it."""
    mark = {**os.environ, fake_family.MARK: str(tmp_path / "killed")}
    options = ("--fault", "kill-trial-once", "--jobs", "2")
    assert finished(start(policy, tmp_path / "out", *options, env=mark))[0] == 0
    assert (tmp_path / "killed").exists()
    assert plain_rows(tmp_path / "out") == plain_rows(honest_out)


def test_a_trial_process_lost_twice_ends_the_run(policy, tmp_path):
    """14: never a zero."""
    process = start(policy, tmp_path / "out", "--fault", "kill-trial", "--jobs", "2")
    code, text = finished(process)
    assert code == 3 and "killed twice" in text
    assert report_of(tmp_path / "out").errors[0].code == "trial.process"
    assert not (tmp_path / "out" / "reward.json").exists()


def test_a_session_whose_broker_died_counts_and_is_flagged(tmp_path):
    """15: the broker is killed with a half-written record; the session goes on and is sealed."""
    task, hand, key = "f03/tower", tmp_path / "hand", SigningKey.generate()

    def opened():
        profile = Profile(task=task, layout="practice", sync=False)
        return embedded.open(
            s.SESSIONS[task],
            folder=hand,
            adapter=Answering(task),
            salt=PRACTICE_SALT,
            key=key,
            profile=profile,
        )

    action = np.zeros((2, s.SESSIONS[task].action_dim))
    child = os.fork()
    if child == 0:  # the broker: gone without a seal, in the middle of a line
        opened().step(action)
        with (hand / LEDGER_NAME).open("ab") as file:
            file.write(b'{"i":9,"k":"charge"')
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    with opened() as sim:
        sim.step(action)
        sim.finish()
    code, flat, report = grade(task, hand, tmp_path / "out")
    assert code == 0 and flat["reward"] > 0.0
    assert report.ledger.recoveries == 1 and "ledger_incomplete" in report.flags
    assert flat["interaction_steps"] == 4.0, "what was acknowledged before stays charged"


@pytest.mark.parametrize(("family", "code"), [("f05", 3), ("f06", 3), ("f07", 3), ("f04", 0)])
def test_a_machine_that_is_too_slow(policy, tmp_path, monkeypatch, family, code):
    """17: only results with wall-clock terms depend on it."""
    monkeypatch.setattr(machine, "speed_factor", lambda: 0.1)
    task = fake_family.TASK
    monkeypatch.setattr(type(task), "family", property(lambda self: family))
    assert verify(policy, tmp_path / "out") == code
    report = report_of(tmp_path / "out")
    if code:
        assert report.errors[0].code == "machine.slow" and "0.10" in report.errors[0].message
        assert not (tmp_path / "out" / "reward.json").exists()
    else:
        assert report.outcome == "scored"


def test_speed_is_measured_before_and_after(policy, tmp_path, monkeypatch):
    """17: a machine that slows down in the run has no result either."""
    speeds = iter((1.0, 0.1))
    monkeypatch.setattr(machine, "speed_factor", lambda: next(speeds))
    monkeypatch.setattr(machine, "TIMED_FAMILIES", {"f04"})
    assert verify(policy, tmp_path / "out") == 3
    assert report_of(tmp_path / "out").machine.speed_after == 0.1


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_no_renderer(policy, tmp_path, jobs):
    """18: a task with cameras ends with the fix, from a trial process as well."""
    blind = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    blind |= {"MUJOCO_GL": "glfw"}
    process = start(policy, tmp_path / "a", "--fault", "camera", "--jobs", jobs, env=blind)
    assert finished(process)[0] == 3
    (error,) = report_of(tmp_path / "a").errors
    assert error.code == "render.unavailable" and "rle doctor" in error.message
    assert not (tmp_path / "a" / "reward.json").exists()


def test_no_renderer_is_nothing_to_a_task_without_cameras(policy, tmp_path, honest_out):
    """18."""
    blind = {**os.environ, "MUJOCO_GL": "glfw"}
    assert finished(start(policy, tmp_path / "b", env=blind))[0] == 0
    assert reward_of(tmp_path / "b") == reward_of(honest_out)
