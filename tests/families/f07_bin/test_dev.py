"""`rle dev f07/bin-clearing run`: what it prints, what it writes, how it refuses."""

import json

import numpy as np
import pytest

from families.f07_bin import dev, piles, scene, spec
from rle import cli
from rle.errors import InvalidSubmission, UserError
from rle.verify_api import TrialFault
from train_baselines.oracles.f07_arm import Arm

HOLD = """
import numpy as np

class Hold:
    def reset(self, cell_spec, seed):
        self.home = np.append(cell_spec["arm_home"], 0.0)

    def act(self, obs):
        return {answer}

def make_policy():
    return Hold()
"""


@pytest.fixture
def submission(tmp_path):
    def write(answer: str = "self.home", channels: str = "[]", text: str | None = None):
        folder = tmp_path / "policy"
        folder.mkdir(exist_ok=True)
        (folder / "policy.py").write_text(text or HOLD.format(answer=answer))
        (folder / "channels.json").write_text(channels)
        return tmp_path

    return write


def test_run_prints_every_term_and_writes_events(submission, tmp_path, capsys):
    events = tmp_path / "events.jsonl"
    args = ["run", str(submission()), "--pile", "35", "--seconds", "0.2", "--events", str(events)]
    assert dev.main(args) == 0
    printed = capsys.readouterr().out
    for words in ("cleared 0 of 12", "0.30 I", "0.35 h", "0 floor drops", "score", "policy"):
        assert words in printed
    assert events.read_text() == ""


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("self.home[:7]", "expected 8 finite numbers, got shape (7,)"),
        ("self.home * np.nan", "expected finite numbers"),
        ("'abc'", "expected 8 finite numbers, got str"),
        ("1 / 0", "the call raised ZeroDivisionError at line 9"),
    ],
)
def test_a_bad_answer_is_a_fault_with_words(submission, answer, words):
    seen = []
    policy = dev.LocalPolicy(submission(answer), seen.append)
    policy.reset(cell_spec={"arm_home": spec.ARM_HOME_RAD}, seed=0)
    with pytest.raises(TrialFault, match="bad_action"):
        policy.call("act", *_state())
    assert words in seen[0]


def _state():
    from families.f07_bin.task import STATE

    return [np.zeros(a.shape, a.dtype) for a in STATE]


@pytest.mark.parametrize(
    ("body", "ended", "words"),
    [
        ("self.home[:7] if obs['t'] > 0.12 else self.home", "done",
         "faults 1; the first: tick 3: expected 8 finite numbers, got shape (7,)"),
        ("self.home if obs['t'] < 0.12 else sys.exit(0)", "worker_died",
         "faults 1; the first: tick 3: the policy ended its own process at line 9"),
        ("self.home if obs['t'] < 0.12 else os._exit(0)", "worker_died",
         "faults 1; the first: tick 3: the policy ended its own process at line 9"),
        ("print('noise') or self.home", "done", "cleared 0 of 12"),
    ],
)  # fmt: skip
def test_what_went_wrong_is_told_with_its_tick(submission, capsys, body, ended, words):
    folder = submission(
        text=HOLD.replace("import numpy", "import os, sys, numpy").format(answer=body)
    )
    assert dev.main(["run", str(folder), "--pile", "35", "--seconds", "0.2"]) == 0
    printed = capsys.readouterr()
    assert words in printed.out and f"ended: {ended}" in printed.out
    assert "noise" not in printed.out, "what a policy prints goes elsewhere than the score"
    assert ("noise" in printed.err) == ("noise" in body)


def test_refusals(submission, tmp_path):
    with pytest.raises(InvalidSubmission, match=r'names "rgb"; allowed: overhead_rgb'):
        dev.LocalPolicy(submission(channels='["rgb"]'))
    with pytest.raises(InvalidSubmission, match="not a JSON list"):
        dev.LocalPolicy(submission(channels='{"a": 1}'))
    with pytest.raises(
        InvalidSubmission, match="could not be loaded: ModuleNotFoundError at line 1"
    ):
        dev.LocalPolicy(submission(text="import no_such_module_at_all"))
    with pytest.raises(InvalidSubmission, match="without act"):
        dev.LocalPolicy(
            submission(
                text="class P:\n    def reset(self, c, s): pass\n\ndef make_policy():\n    return P()"
            )
        )
    with pytest.raises(InvalidSubmission, match=r"policy/policy.py is missing; found: other"):
        (tmp_path / "x" / "other").mkdir(parents=True)
        dev.LocalPolicy(tmp_path / "x")


def test_unknown_pile_names_the_known_ones(submission):
    with pytest.raises(UserError, match="35, 16, 307, 211, 101"):
        dev.main(["run", str(submission()), "--pile", "36"])
    with pytest.raises(UserError, match="not both"):
        dev.main(["run", str(submission()), "--pile", "35", "--public-seed", "1"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--public-seed", "-1"), "--public-seed is -1; any number from 0"),
        (("--seconds", "-1"), "--seconds is -1; above 0 and up to 120"),
        (("--seconds", "121"), "--seconds is 121; above 0 and up to 120"),
    ],
)
def test_numbers_outside_their_range_are_refused(submission, options, words):
    with pytest.raises(UserError, match=words):
        dev.main(["run", str(submission()), *options])


def test_a_policy_that_cannot_be_taken_is_its_authors_error(submission, capsys):
    """One line and exit code 2, as of any user error; 3 would blame this side."""
    folder = submission(text="import no_such_module_at_all")
    with pytest.raises(SystemExit) as stopped:
        cli.main(["dev", "f07/bin-clearing", "run", str(folder)])
    assert stopped.value.code == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last == "rle: policy.py could not be loaded: ModuleNotFoundError at line 1"


@pytest.mark.parametrize("leave", ["import os; os._exit(0)", "raise SystemExit"])
def test_a_policy_that_ends_the_process_while_it_loads_is_named(submission, leave):
    with pytest.raises(InvalidSubmission, match=r"could not be loaded: SystemExit at line 1"):
        dev.main(["run", str(submission(text=leave))])


def test_a_folder_that_is_not_there_is_not_called_empty(tmp_path):
    with pytest.raises(UserError, match=r"nowhere is not a folder; it must hold policy/policy.py"):
        dev.main(["run", str(tmp_path / "nowhere")])


def test_json_and_channels(submission, capsys):
    args = ["run", str(submission()), "--public-seed", "3", "--seconds", "0.1", "--json"]
    assert dev.main(args) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["cleared"] == 0.0 and row["faults"] == 0.0 and row["ticks"] == 2.0


SLAMMER = """
import numpy as np

PLAN = {plan!r}

class Slammer:
    def reset(self, cell_spec, seed):
        self.steps = [(np.array(q), on, n) for q, on, n in PLAN]

    def act(self, obs):
        q, on, n = self.steps[0]
        if n == 1 and len(self.steps) > 1:
            self.steps.pop(0)
        else:
            self.steps[0] = q, on, n - 1
        return np.append(q, on)

def make_policy():
    return Slammer()
"""


def test_events_explain_every_penalty_of_a_bad_policy(submission, tmp_path, capsys):
    """It slams the head into the heap, lifts what sticks, and lets go of it over the floor."""
    streams = piles.public_streams("design", 35)
    poses = piles.draw(streams, spec.DESIGN_PILES[35]).poses
    x, y = poses[np.argmax(poses[:, 2]), :2]
    arm = Arm(scene.model_xml(), np.array(spec.ARM_HOME_RAD))
    places = (((x, y, 0.45), 255.0, 20), ((x, y, 0.0), 255.0, 15), ((x, y, 0.45), 255.0, 30),
              ((0.55, 0.05, 0.45), 255.0, 30), ((0.55, 0.05, 0.45), 0.0, 20))  # fmt: skip
    plan = [(arm.solve(np.array(at)).tolist(), on, n) for at, on, n in places]
    file = tmp_path / "events.jsonl"
    folder = submission(text=SLAMMER.format(plan=plan))
    args = ["run", str(folder), "--pile", "35", "--seconds", "5.75", "--events", str(file)]
    assert dev.main([*args, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    events = [json.loads(line) for line in file.read_text().splitlines()]
    count = {
        kind: sum(e["kind"] == kind for e in events) for kind in ("floor", "damage", "bin_hit")
    }
    assert count == {k: row[k2] for k, k2 in zip(count, ("floor", "damage", "bin_hits"))}
    assert count["floor"] >= 1 and count["damage"] + count["bin_hit"] >= 1, count
    for event in events:
        if event["kind"] in ("damage", "bin_hit"):
            assert event["window_n"] > event["limit_n"] == 700.0
            assert event["contacts"][0]["geoms"] and event["contacts"][0]["force_n"] > 0.0
        if event["kind"] == "floor":
            assert event["pose"][2] < event["limit_m"] and event["part"] >= 0
    dropped = next(e for e in events if e["kind"] == "floor")
    assert dropped["last_release_s"] is not None, "it tells when the magnet let go of it"
