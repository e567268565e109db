"""Proof that the grader is right, task by task: references reach their bars, nothing comes for free.

Every run goes through the verifier's own command line, sandbox included. The first task of a family runs
in the fast suite, the others in the long one.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rle import registry
from rle.commands.demo import reference_submission
from rle.report import read_report

TASKS = [registry.get(t) for t in registry.landed_tasks()]
TIMED = {"f05", "f06", "f07"}  # families whose score has a term of wall time
LONG = {
    "f06",
    "f07",
    "f08",
}  # families whose reference takes ten minutes and more: in the long suite
REFERENCES = [t for t in TASKS if t.oracle is not None]


def first_of_family(task) -> bool:
    if task.family in LONG:
        return False
    return task is next(t for t in REFERENCES if t.family == task.family)


def per_family(tasks, fast=first_of_family):
    """One worker per family, so that a reference is verified once; later tasks are slow."""
    return [
        pytest.param(
            t, id=t.id,
            marks=[pytest.mark.xdist_group(t.family), *([] if fast(t) else [pytest.mark.slow])],
        )
        for t in tasks
    ]  # fmt: skip


def verify(task, submission: Path, out: Path, *options: str) -> dict:
    """Runs the verifier; returns the flat reward."""
    argv = [sys.executable, "-m", "verifier", "--task", task.id, "--artifacts", str(submission)]
    run = subprocess.run([*argv, "--out", str(out), *options], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads((out / "reward.json").read_text())


@pytest.fixture(scope="module")
def reference_out(tmp_path_factory):
    """OUT folder of a task's reference, verified once per worker."""
    done: dict[str, Path] = {}

    def run(task) -> Path:
        if task.id not in done:
            out = tmp_path_factory.mktemp(task.id.replace("/", "-")) / "out"
            verify(task, reference_submission(task), out)
            done[task.id] = out
        return done[task.id]

    return run


@pytest.mark.parametrize("task", per_family(REFERENCES))
def test_reference_reaches_its_bar(task, reference_out):
    report = read_report((reference_out(task) / "report.json").read_bytes())
    assert report.outcome == "scored"
    bar = task.bar if task.oracle_bar is None else task.oracle_bar
    assert report.reward is not None and report.reward >= bar
    assert all(report.gates.values()), report.gates
    assert len(report.rows) == task.n_trials
    assert report.practice, "no salt file was given"


@pytest.mark.parametrize("task", per_family(REFERENCES))
def test_claims_in_files_change_nothing(task, reference_out, tmp_path):
    """The reference plus files that claim a perfect score: refused, or the same score."""
    liar = tmp_path / "liar"
    shutil.copytree(reference_submission(task), liar)
    for name in ("reward.json", "report.json", "metrics.json"):
        (liar / name).write_text(json.dumps({"reward": 1.0, "success": True}))
    claimed = verify(task, liar, tmp_path / "out")["reward"]
    honest = json.loads((reference_out(task) / "reward.json").read_text())["reward"]
    assert claimed == (0.0 if task.artifact.extra == "refuse" else honest)


@pytest.mark.parametrize("task", per_family(TASKS, lambda t: True))
def test_nothing_earns_nothing(task, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert verify(task, empty, tmp_path / "a")["reward"] == 0.0
    (empty / "README.md").write_text("Our policy reaches a score of 1.0 on every trial.")
    assert verify(task, empty, tmp_path / "b")["reward"] == 0.0
    for out in ("a", "b"):
        report = read_report((tmp_path / out / "report.json").read_bytes())
        assert report.outcome == "invalid_submission" and report.errors


@pytest.mark.slow
@pytest.mark.parametrize("task", per_family(REFERENCES))
def test_same_salt_same_reward_other_salt_other_rows(task, reference_out, tmp_path):
    first = reference_out(task)
    verify(task, reference_submission(task), tmp_path / "one", "--jobs", "1")
    if task.family not in TIMED:
        assert (tmp_path / "one" / "reward.json").read_bytes() == (
            first / "reward.json"
        ).read_bytes()
    a, b = (read_report((p / "report.json").read_bytes()) for p in (first, tmp_path / "one"))
    assert [r.score for r in a.rows] == [r.score for r in b.rows]
    assert a.reward == b.reward
    salt = tmp_path / "salt"
    salt.write_bytes(b"another secret of at least thirty-two bytes")
    salt.chmod(0o600)
    verify(task, reference_submission(task), tmp_path / "two", "--salt-file", str(salt))
    c = read_report((tmp_path / "two" / "report.json").read_bytes())
    assert not c.practice and c.salt_id != a.salt_id
    assert [r.metrics for r in c.rows] != [r.metrics for r in a.rows]
