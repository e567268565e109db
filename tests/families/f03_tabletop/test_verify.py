"""From a sealed record to a reward, through the verifier's own reading of it; and the ledger attacks.

The sessions are made with the tasks' real declarations and a simulator side that only answers.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from families.f03_tabletop import instances, metrics
from families.f03_tabletop import spec as s
from rle.report import read_report
from rle.seeds import PRACTICE_SALT
from rle.service import embedded
from rle.service.adapter import StepOutcome
from rle.service.client import BadRequestError, StaleTrialError, WrongPhaseError
from rle.service.course import Course, Profile
from rle.service.record import SigningKey

EVIDENCE = {
    "f03/tower": {
        "height_m": 0.3,
        "pieces_supported": 9,
        "settle_s": 5.0,
        "excluded": "rod:moving",
    },
    "f03/cantilever": {"overhang_m": 0.1, "blocks_supported": 4, "settle_s": 5.0},
    "f03/balance": {"on_mat": "", "cubes_on_mat": 0, "weighings": 3, "settle_s": 5.0},
    "f03/pocket-cube": {"solved": True, "turns": 24, "unclassified": 0, "recoveries": 0},
    "f03/hidden-com": {"touched": True},
}
COMMON = {
    "reward", "quality", "task_score", "interaction_steps", "interaction_budget", "trials_total",
    "trials_recorded", "trials_attempted", "ledger_ok", "infrastructure_failures",
}  # fmt: skip
ALL_OWN = {
    "height_m", "optimum_m", "height_over_flat_stack", "pieces_supported", "settle_s", "overhang_m",
    "overhang_blocks", "blocks_supported", "weighings", "heavy_on_mat", "others_on_mat", "solved", "optimal_qtm",
    "actual_qtm", "unclassified_transitions", "recoveries", "correct", "submitted", "control_steps",
}  # fmt: skip
SALT = b"the salt of a campaign, at least 32 bytes"


class Answering:
    """Draws the true instance and measures what the test wants."""

    def __init__(self, task: str, **changes) -> None:
        self.task, self.changes = task, changes

    def open_trial(self, plan):
        self.instance = instances.draw(self.task, plan.rng(instances.STREAM))
        return self.instance.digest

    def reset(self):
        pass

    def step(self, action):
        return StepOutcome()

    def observe(self, spec):
        shapes = {k.name: (k.shape, k.dtype) for k in s.SESSIONS[self.task].observation}
        return {name: np.zeros(shape, dtype) for name, (shape, dtype) in shapes.items()}

    def counters(self):
        return {}

    def finish(self):
        return {**EVIDENCE[self.task], **self.changes}

    def close(self):
        pass


def play(
    task, folder, *, salt=PRACTICE_SALT, key=None, steps=2, answers="", profile=None, **changes
):
    """A sealed session; returns the adapter."""
    adapter = Answering(task, **changes)
    profile = profile or Profile(task=task, layout="practice", sync=False)
    spec = s.SESSIONS[task]
    sim = embedded.open(spec, folder=folder, adapter=adapter, salt=salt, key=key, profile=profile)
    with sim:
        if steps:
            sim.step(np.zeros((steps, spec.action_dim)))
        for answer in answers:
            sim.call("submit", quadrant=answer)
        if sim.status.live and steps and not answers and task != "f03/hidden-com":
            sim.finish()
    return adapter


def grade(task, folder, out, *options):
    """Runs the verifier; returns exit code, reward and report."""
    argv = [sys.executable, "-m", "verifier", "--task", task, "--artifacts", str(folder)]
    run = subprocess.run(
        [*argv, "--out", str(out), *options], capture_output=True, text=True, cwd=os.getcwd()
    )
    report = read_report((out / "report.json").read_bytes())
    reward = out / "reward.json"
    flat = json.loads(reward.read_text()) if reward.exists() else None
    return run.returncode, flat, report


def code_of(report):
    return report.errors[0].code if report.errors else None


def test_tower_scores_its_height_over_the_redrawn_optimum(tmp_path):
    adapter = play("f03/tower", tmp_path / "hand")
    code, flat, report = grade("f03/tower", tmp_path / "hand", tmp_path / "out")
    optimum = metrics.tower_optimum_m(adapter.instance.scales)
    assert code == 0 and report.outcome == "scored"
    assert flat["reward"] == pytest.approx(0.3 / optimum)
    assert flat["ledger_ok"] == 1.0 and flat["interaction_steps"] == 2.0 and flat["practice"] == 1.0
    assert report.ledger.trust == "practice"
    assert any("rod does not count: moving" in text for _, text in report.rows[0].events)
    assert flat["optimum_m"] == pytest.approx(optimum)
    stack = metrics.flat_stack_m(adapter.instance.scales)
    assert flat["height_over_flat_stack"] == pytest.approx(0.3 / stack)
    assert flat["task_score"] == pytest.approx(100 * flat["reward"]) and flat["settle_s"] == 5.0
    assert report.rows[0].ended == "finished" and report.rows[0].metrics["control_steps"] == 2.0


@pytest.mark.parametrize("task", ["f03/cantilever", "f03/balance", "f03/pocket-cube"])
def test_other_tasks_take_their_evidence(task, tmp_path):
    key = {"f03/balance": lambda i: str(i.heavy)}.get(task)
    from rle import seeds

    trial = seeds.trial_key("f03", task[4:], "hidden", 0, PRACTICE_SALT)
    instance = instances.draw(task, seeds.stream(trial, instances.STREAM))
    changes = {"on_mat": key(instance)} if key else {}
    play(task, tmp_path / "hand", **changes)
    _, flat, _ = grade(task, tmp_path / "hand", tmp_path / "out")
    expected = {
        "f03/cantilever": metrics.cantilever(0.1),
        "f03/balance": 2 / 3,
        "f03/pocket-cube": metrics.pocket_cube(True, 24, getattr(instance, "optimum_qtm", 1), 0),
    }[task]
    assert flat["reward"] == pytest.approx(expected)
    own = {
        "f03/cantilever": {
            "overhang_m": 0.1, "optimum_m": s.CANTILEVER_OPT_M, "overhang_blocks": 0.1 / s.BLOCK_LENGTH_M,
            "blocks_supported": 4, "settle_s": 5.0,
        },
        "f03/balance": {"weighings": 3, "heavy_on_mat": 1, "others_on_mat": 0},
        "f03/pocket-cube": {
            "solved": 1, "optimal_qtm": getattr(instance, "optimum_qtm", 0), "actual_qtm": 24,
            "unclassified_transitions": 0, "recoveries": 0,
        },
    }[task]  # fmt: skip
    assert {name: flat[name] for name in own} == pytest.approx(own)
    assert flat.keys() - own.keys() >= COMMON and not flat.keys() & (ALL_OWN - own.keys())
    assert flat["interaction_budget"] == s.BUDGET_STEPS and flat["infrastructure_failures"] == 0.0
    assert (flat["trials_recorded"], flat["trials_attempted"]) == (1.0, 1.0)


def test_hidden_com_counts_answers_and_a_missing_one_is_wrong(tmp_path):
    from rle import seeds

    truth = [
        instances.draw(
            "f03/hidden-com",
            seeds.stream(
                seeds.trial_key("f03", "hidden-com", "hidden", i, PRACTICE_SALT), instances.STREAM
            ),
        ).quadrant
        for i in range(3)
    ]
    wrong = "A" if truth[1] != "A" else "B"
    play("f03/hidden-com", tmp_path / "hand", answers=truth[0] + wrong)
    _, flat, report = grade("f03/hidden-com", tmp_path / "hand", tmp_path / "out")
    assert flat["reward"] == pytest.approx(1 / 3)
    assert (flat["correct"], flat["submitted"]) == (1.0, 2.0)
    told = [(flat[f"trial_{i}_correct"], flat[f"trial_{i}_submitted"]) for i in range(3)]
    assert told == [(1.0, 1.0), (0.0, 1.0), (0.0, 0.0)], "right, wrong, never answered"
    assert (flat["trial_0_control_steps"], flat["control_steps"]) == (2.0, 2.0)
    assert not any(name in json.dumps(flat) for name in ("quadrant", "heavy_cube", "scramble"))
    assert report.outcome == "scored"


def test_a_closed_box_takes_no_second_answer(tmp_path):
    spec = s.SESSIONS["f03/hidden-com"]
    with embedded.open(spec, folder=tmp_path, adapter=Answering("f03/hidden-com")) as sim:
        sim.call("submit", quadrant="A", trial=0)
        for request in (
            lambda: sim.call("submit", quadrant="B", trial=0),
            lambda: sim.step(np.zeros(7), trial=0),
        ):
            with pytest.raises(StaleTrialError, match="the live trial is 1"):
                request()
        sim.call("submit", quadrant="C", trial=1)
        answers = [trial.answer for trial in sim.session.trials()[:2]]
    assert [a["quadrant"] for a in answers] == ["A", "C"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("E", "quadrant is one of A, B, C, D"),
        ("a", "quadrant is one of A, B, C, D"),
        (2, "str is expected"),
    ],
)
def test_an_answer_that_is_no_quadrant_is_refused(answer, told, tmp_path):
    spec = s.SESSIONS["f03/hidden-com"]
    with embedded.open(spec, folder=tmp_path, adapter=Answering("f03/hidden-com")) as sim:
        with pytest.raises(BadRequestError, match=told):
            sim.call("submit", quadrant=answer)
        assert sim.status.trial == 0 and sim.status.live
        with pytest.raises(WrongPhaseError, match="finish is not allowed"):
            sim.finish()
        assert sim.call("submit", quadrant="A").events == {}, "no feedback"
        assert (sim.status.steps_used, sim.status.trial) == (0, 1)


def test_a_reset_of_the_pocket_cube_gives_the_attempt_up(tmp_path):
    spec = s.SESSIONS["f03/pocket-cube"]
    adapter = Answering("f03/pocket-cube")
    with embedded.open(spec, folder=tmp_path / "hand", adapter=adapter) as sim:
        sim.step(np.zeros((2, 14)))
        sim.reset()
        assert sim.status.ended == "forfeited"
    _, flat, report = grade("f03/pocket-cube", tmp_path / "hand", tmp_path / "out")
    assert flat["reward"] == 0.0 and report.rows[0].ended == "forfeited"


def test_a_session_without_any_operation_scores_nothing(tmp_path):
    play("f03/tower", tmp_path / "hand", steps=0)
    _, flat, report = grade("f03/tower", tmp_path / "hand", tmp_path / "out")
    assert flat["reward"] == 0.0 and flat["trials_attempted"] == 0.0
    assert report.outcome == "scored" and report.rows[0].ended == "no_interaction"


def test_a_missing_record_is_no_submission(tmp_path):
    (tmp_path / "hand").mkdir()
    (tmp_path / "hand" / "worker.log").write_text("x")
    _, flat, report = grade("f03/tower", tmp_path / "hand", tmp_path / "out")
    assert flat["reward"] == 0.0
    assert (report.outcome, code_of(report)) == ("invalid_submission", "file.missing")


@pytest.fixture
def deployment(tmp_path):
    """Salt and public key as a verifier image holds them; the signing key beside."""
    private = tmp_path / "private"
    private.mkdir()
    (private / "salt").write_bytes(SALT)
    (private / "salt").chmod(0o600)
    key = SigningKey.generate()
    (private / "broker.pub").write_text(key.public.raw.hex() + "\n")
    return key, ("--salt-file", str(private / "salt"))


def deployed(task="f03/tower"):
    return Profile(task=task, layout="deployment", sync=False)


def test_an_honest_deployed_run_is_believed(tmp_path, deployment):
    key, options = deployment
    play("f03/tower", tmp_path / "hand", salt=SALT, key=key, profile=deployed())
    code, flat, report = grade("f03/tower", tmp_path / "hand", tmp_path / "out", *options)
    assert code == 0 and flat["reward"] > 0.4 and flat["practice"] == 0.0
    assert report.ledger.trust == "deployment"
    level = ("--require-ledger-trust", "sidecar")
    code, flat, report = grade("f03/tower", tmp_path / "hand", tmp_path / "two", *options, *level)
    assert code == 3 and flat is None and code_of(report) == "ledger.trust"


def forge(tmp_path, deployment, kind):
    """A hand-over that an agent, or an accident, could leave."""
    key, _ = deployment
    hand = tmp_path / "hand"
    other = SigningKey.generate()
    if kind == "own key":
        play("f03/tower", hand, salt=SALT, key=other, profile=deployed(), height_m=9.0)
        (hand / "broker.pub").write_text(other.public.raw.hex() + "\n")
    elif kind == "other task":
        play("f03/cantilever", hand, salt=SALT, key=key, profile=deployed("f03/cantilever"))
    elif kind == "other salt":
        play("f03/tower", hand, salt=PRACTICE_SALT, key=key, profile=deployed())
    elif kind == "planted under logs":
        planted = hand / "logs" / "artifacts"
        play("f03/tower", planted, salt=SALT, key=other, profile=deployed(), height_m=9.0)
    elif kind == "two files":
        play("f03/tower", hand, salt=SALT, key=key, profile=deployed())
        play("f03/tower", hand / "better", salt=SALT, key=key, profile=deployed(), height_m=9.0)
    elif kind == "second session":
        spec, adapter = s.SESSIONS["f03/tower"], Answering("f03/tower", height_m=9.0)
        from rle.service.session import Session
        from rle.service.supervisor import InProcess

        course = Course(
            spec, hand, InProcess(spec, adapter), key=key, salt=SALT, profile=deployed(),
            session_index=1,
        )  # fmt: skip
        session = Session(course)
        session.start()
        session.seal("collected")
        session.close()
    else:
        play("f03/tower", hand, salt=SALT, key=key, profile=deployed())
        path = hand / "ledger.jsonl"
        text = path.read_bytes()
        if kind == "edited":
            path.write_bytes(text.replace(b'"height_m":0.3', b'"height_m":9.3'))
        if kind == "cut":
            path.write_bytes(b"".join(x + b"\n" for x in text.split(b"\n")[:-2]))
    return hand


@pytest.mark.parametrize(
    ("kind", "codes"),
    [
        ("own key", {"ledger.foreign", "ledger.signature"}),
        ("other task", {"ledger.foreign"}),
        ("other salt", {"ledger.foreign"}),
        ("planted under logs", {"file.missing"}),
        ("two files", {"ledger.files"}),
        ("second session", {"ledger.session"}),
        ("edited", {"ledger.chain"}),
        ("cut", {"ledger.unsealed"}),
    ],
)
def test_a_forged_hand_over_scores_nothing(tmp_path, deployment, kind, codes):
    hand = forge(tmp_path, deployment, kind)
    code, flat, report = grade("f03/tower", hand, tmp_path / "out", *deployment[1])
    assert code == 0 and flat["reward"] == 0.0
    assert report.outcome == "invalid_submission" and code_of(report) in codes
    if code_of(report).startswith("ledger."):
        assert flat["ledger_ok"] == 0.0
        assert report.extra["ledger_reason"] == report.errors[0].message


def test_a_lost_machine_is_nobodys_zero(tmp_path, deployment):
    hand = forge(tmp_path, deployment, "cut")
    (hand / "failure.json").write_text('{"reason": "broker_failed"}')
    code, flat, report = grade("f03/tower", hand, tmp_path / "out", *deployment[1])
    assert code == 3 and flat is None
    assert (report.outcome, code_of(report)) == ("infrastructure_error", "ledger.broker")


def test_a_scene_that_the_service_could_not_open_is_nobodys_zero(tmp_path):
    class OneBox(Answering):
        def open_trial(self, plan):
            if plan.trial == 1:
                raise RuntimeError("no scene")
            return super().open_trial(plan)

    task = "f03/hidden-com"
    profile = Profile(task=task, layout="practice", sync=False)
    sim = embedded.open(
        s.SESSIONS[task], folder=tmp_path / "hand", adapter=OneBox(task), profile=profile
    )
    with sim:
        sim.step(np.zeros((1, 7)))
        sim.call("submit", quadrant="A")
    code, flat, report = grade(task, tmp_path / "hand", tmp_path / "out")
    assert code == 3 and flat is None
    assert (report.outcome, code_of(report)) == ("infrastructure_error", "ledger.simulator")
