"""Attack book, kind out: rows 92 and 93, and what a submission can put into the results."""

import json

import pytest

from rle.seeds import PRACTICE_SALT, salt_id
from tests.attacks.onnx_files import honest
from tests.verifier.conftest import write_files
from tests.verifier.fake_main import patched
from verifier import __main__ as cli
from verifier import hidden

SECRET = bytes(range(64))


@pytest.fixture
def run(tmp_path):
    """`run(out, *options)` -> exit code of a verification of the honest policy."""
    source = write_files(tmp_path / "submission", {"policy.onnx": honest()})

    def verify(out, *options: str) -> int:
        base = ["--task", "f04/dance", "--artifacts", str(source), "--out", str(out)]
        with patched():
            return cli.main([*base, "--jobs", "1", *options])

    return verify


def test_out_is_a_link_or_a_file(run, tmp_path, capsys):
    """Row 92."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_text("kept")
    assert run(tmp_path / "link") == 2
    assert "is a symbolic link" in capsys.readouterr().err
    assert run(tmp_path / "file") == 2
    assert (tmp_path / "file").read_text() == "kept"


def test_old_results_are_deleted_first(run, tmp_path, capsys):
    """Row 92: also when nothing new is written."""
    for name in ("reward.json", "reward.txt", "report.json"):
        write_files(tmp_path / "out", {name: '{"reward": 1.0}'})
    assert run(tmp_path / "out", "--salt-file", "/nonexistent") == 2
    assert list((tmp_path / "out").iterdir()) == []


def salt_file(folder, data=SECRET, mode=0o600):
    path = folder / "salt"
    path.write_bytes(data)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("data", "mode", "fact"),
    [
        (SECRET, 0o640, "chmod 600"),
        (SECRET, 0o604, "chmod 600"),
        (b"abc", 0o600, "32 to 4096"),
        (bytes(4097), 0o600, "32 to 4096"),
    ],
)
def test_salt_file_that_breaks_a_rule(run, tmp_path, capsys, data, mode, fact):
    """Row 93."""
    path = salt_file(tmp_path, data, mode)
    assert run(tmp_path / "out", "--salt-file", str(path)) == 2
    assert fact in capsys.readouterr().err


def test_salt_file_that_is_a_link(run, tmp_path, capsys):
    """Row 93."""
    (tmp_path / "link").symlink_to(salt_file(tmp_path))
    assert run(tmp_path / "out", "--salt-file", str(tmp_path / "link")) == 2
    assert "symbolic link" in capsys.readouterr().err


def test_salt_is_nowhere_in_the_results(run, tmp_path):
    path = salt_file(tmp_path)
    assert run(tmp_path / "out", "--salt-file", str(path)) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["practice"] is False and report["salt_id"] == salt_id(SECRET)
    for file in (tmp_path / "out").rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            assert SECRET not in data and SECRET.hex().encode() not in data
    assert run(tmp_path / "practice") == 0
    practice = json.loads((tmp_path / "practice" / "report.json").read_text())
    assert practice["salt_id"] == salt_id(PRACTICE_SALT)
    assert [r["score"] for r in practice["rows"]] != [r["score"] for r in report["rows"]]


def test_salt_has_no_text_form(tmp_path):
    salt = hidden.read_salt(str(salt_file(tmp_path)))
    assert repr(SECRET)[2:20] not in repr(salt) and repr(salt).startswith("Salt(id=")


def test_second_run_starts_over(run, tmp_path):
    assert run(tmp_path / "out") == 0
    first = json.loads((tmp_path / "out" / "reward.json").read_text())
    (tmp_path / "out" / "submission" / "planted").parent.chmod(0o700)
    (tmp_path / "out" / "submission" / "planted").write_text("x")
    assert run(tmp_path / "out") == 0
    assert json.loads((tmp_path / "out" / "reward.json").read_text()) == first
    assert not (tmp_path / "out" / "submission" / "planted").exists()


def test_invalid_submission_has_a_reward_of_zero(run, tmp_path):
    (tmp_path / "submission" / "policy.onnx").write_bytes(b"junk")
    assert run(tmp_path / "out") == 0
    reward = json.loads((tmp_path / "out" / "reward.json").read_text())
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert reward["reward"] == 0.0 and reward["trials_failed"] == 3.0
    assert report["outcome"] == "invalid_submission"
    assert report["errors"][0]["code"] == "onnx.parse"
