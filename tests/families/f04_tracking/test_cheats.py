"""Whole runs of `python -m verifier`: files that are missing, planted, linked, or claim too much."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from families.f04_tracking import spec
from rle.report import Report, read_report
from tests.families.f04_tracking import graphs

ROOT = Path(__file__).resolve().parents[3]


def run(folder: Path, out: Path, *arguments: str) -> tuple[int, Report]:
    """Exit code and report of a verification of f04/dance."""
    command = [sys.executable, "-m", "verifier", "--task", "f04/dance", "--artifacts", str(folder)]
    done = subprocess.run(
        [*command, "--out", str(out), *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert (out / "report.json").is_file(), done.stderr
    return done.returncode, read_report((out / "report.json").read_bytes())


def refused(folder: Path, out: Path) -> tuple[str, str]:
    """Code and message of an invalid submission, which scores 0."""
    code, report = run(folder, out)
    assert code == 0 and report.outcome == "invalid_submission" and report.reward == 0.0
    assert json.loads((out / "reward.json").read_text())["reward"] == 0.0
    return report.errors[0].code, report.errors[0].message


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Report of an open-loop submission as it should be."""
    folder = graphs.write(tmp_path_factory.mktemp("plain"), graphs.open_loop(4), 4)
    _, report = run(folder, tmp_path_factory.mktemp("out"), "--jobs", "2")
    assert report.outcome == "scored"
    return report


def same_trials(first: Report, second: Report) -> bool:
    """Equal but for the clocks."""
    return [(r.score, r.metrics, r.series, r.events, r.ended) for r in first.rows] == [
        (r.score, r.metrics, r.series, r.events, r.ended) for r in second.rows
    ]


def test_report_says_what_it_is(plain):
    assert plain.reference == "stand-in" and plain.practice and plain.scored
    assert plain.extra["profile"] == "full" and len(plain.rows) == spec.N_HIDDEN
    assert plain.reward == plain.raw_total <= spec.FLOOR


def test_planted_results_and_other_files_change_nothing(plain, tmp_path):
    folder = graphs.write(tmp_path / "in", graphs.open_loop(4), 4, reward=1.0, score=1.0)
    for name in ("reward.json", "report.json", "reward.txt"):
        (folder / name).write_text('{"reward": 1.0}')
    (folder / "policy.py").write_text("raise SystemExit('ran')")
    _, report = run(folder, tmp_path / "out")
    assert report.reward == plain.reward and same_trials(plain, report)
    assert set(report.submission.ignored) == {
        "reward.json",
        "report.json",
        "reward.txt",
        "policy.py",
    }


def test_nothing_and_half_a_submission(tmp_path):
    code, _ = refused(make_empty(tmp_path / "empty"), tmp_path / "o1")
    assert code == "file.none"
    folder = graphs.write(tmp_path / "half", graphs.open_loop(1))
    (folder / spec.ONNX_FILE).unlink()
    code, message = refused(folder, tmp_path / "o2")
    assert code == "file.missing" and "policy.onnx is missing" in message


def make_empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_link_is_not_followed(tmp_path):
    folder = graphs.write(tmp_path / "in", graphs.open_loop(1))
    (folder / spec.ONNX_FILE).rename(tmp_path / "elsewhere.onnx")
    (folder / spec.ONNX_FILE).symlink_to(tmp_path / "elsewhere.onnx")
    code, message = refused(folder, tmp_path / "out")
    assert code == "file.symlink" and spec.ONNX_FILE in message


def test_history_that_the_graph_does_not_take(tmp_path):
    folder = graphs.write(tmp_path / "in", graphs.open_loop(8), 1)
    code, message = refused(folder, tmp_path / "out")
    assert code == "onnx.io" and "[1, 160]" in message and "[1, 1280]" in message


def test_meta_out_of_range(tmp_path):
    folder = graphs.write(tmp_path / "in", graphs.open_loop(1), 17)
    code, message = refused(folder, tmp_path / "out")
    assert code == "f04.history" and "1..16, got 17" in message


def test_a_graph_over_its_size(tmp_path):
    folder = graphs.write(tmp_path / "in", graphs.open_loop(1))
    with (folder / spec.ONNX_FILE).open("r+b") as file:
        file.truncate(spec.MAX_ONNX_BYTES + 1)
    code, message = refused(folder, tmp_path / "out")
    assert code == "file.size" and "67108864" in message


def test_salt_file_must_be_private(tmp_path):
    folder = graphs.write(tmp_path / "in", graphs.open_loop(1))
    salt = tmp_path / "salt"
    salt.write_bytes(b"s" * 32)
    command = [sys.executable, "-m", "verifier", "--task", "f04/dance", "--artifacts", str(folder)]
    command += ["--out", str(tmp_path / "out"), "--salt-file", str(salt)]
    salt.chmod(0o640)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and "chmod" in done.stderr


def test_the_number_of_jobs_changes_nothing(plain, tmp_path):
    folder = graphs.write(tmp_path / "in", graphs.open_loop(4), 4)
    _, alone = run(folder, tmp_path / "out", "--jobs", "1")
    assert alone.reward == plain.reward and same_trials(alone, plain)
