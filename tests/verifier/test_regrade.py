"""Verifying again: what is compared, what is refused, and the worked example of reproduction."""

import json

import msgspec
import pytest

from rle.errors import UserError
from rle.report import Machine, read_report
from tests.attacks.onnx_files import honest
from tests.verifier.conftest import write_files
from tests.verifier.fake_main import patched
from verifier import __main__ as cli
from verifier import hidden, regrade


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """OUT of an honest run."""
    base = tmp_path_factory.mktemp("regrade")
    policy = write_files(base / "policy", {"policy.onnx": honest()})
    arguments = ["--task", "f04/dance", "--artifacts", str(policy), "--out", str(base / "out")]
    with patched():
        assert cli.main([*arguments, "--jobs", "1"]) == 0
    return base / "out"


def report(result):
    return read_report((result / "report.json").read_bytes())


def test_difference_has_one_reason(result):
    old = report(result)
    other = msgspec.structs.replace(old, reward=old.reward - 0.1)
    assert regrade.compare(old, old) == "same"
    assert regrade.compare(old, other) == "nondeterministic"
    newer = msgspec.structs.replace(other, family_version="1.1.0")
    assert regrade.compare(old, newer) == "family_version"
    code = msgspec.structs.replace(other, versions={**old.versions, "mujoco": "9.9"})
    assert regrade.compare(old, code) == "code"
    machine = Machine(cpu="another", cores=1, kernel="k")
    assert regrade.compare(old, msgspec.structs.replace(other, machine=machine)) == "code"
    timed = msgspec.structs.replace(other, extra={"replay_deterministic": False})
    assert regrade.compare(old, timed) == "code"
    tiny = msgspec.structs.replace(old, reward=old.reward + 9e-10)
    assert regrade.compare(old, tiny) == "same"


def test_artifact_that_is_not_the_reported_one(result, tmp_path):
    """Attack row 96, and an artifact that was not kept."""
    write_files(
        tmp_path / "r",
        {
            "report.json": (result / "report.json").read_bytes(),
            "submission/policy.onnx": honest() + b"x",
        },
    )
    with patched():
        found = regrade.regrade(tmp_path / "r" / "report.json", hidden.read_salt(None), None, 1)
        assert (found.kind, found.new) == ("digest_mismatch", None)
        (tmp_path / "r" / "submission" / "policy.onnx").unlink()
        (tmp_path / "r" / "submission").rmdir()
        found = regrade.regrade(tmp_path / "r" / "report.json", hidden.read_salt(None), None, 1)
    assert found.kind == "missing_artifact"


def test_artifact_of_a_harbor_trial(result, tmp_path):
    data = {"verifier/report.json": (result / "report.json").read_bytes()}
    write_files(tmp_path, {**data, "artifacts/submission/policy.onnx": honest()})
    path = tmp_path / "verifier" / "report.json"
    assert regrade.artifact_of(path).resolve() == (tmp_path / "artifacts" / "submission").resolve()
    with patched():
        assert (
            regrade.digest_of(regrade.artifact_of(path), "f04/dance")
            == report(result).submission.digest
        )


def test_another_salt_is_named(result, tmp_path):
    salt = tmp_path / "salt"
    salt.write_bytes(bytes(64))
    salt.chmod(0o600)
    with patched(), pytest.raises(UserError, match="made under salt"):
        regrade.regrade(result / "report.json", hidden.read_salt(str(salt)), str(salt), 1)


@pytest.mark.parametrize(
    ("pairs", "mean", "review"),
    [
        ([(1.0, 0.74), (0.5, 0.24), (0.9, 0.65)], 0.2566667, True),
        ([(1.0, 0.75), (0.5, 0.25)], 0.25, False),
        ([(1.0, 0.7), (0.5, 0.5)], 0.15, True),
    ],
    ids=["mean", "exactly", "single"],
)
def test_reproduction(pairs, mean, review):
    # |1 - .74| = .26, |.5 - .24| = .26, |.9 - .65| = .25: mean .25667
    tasks = ["f04/dance", "f04/fight", "f04/run"]
    first = {task: pair[0] for task, pair in zip(tasks, pairs)}
    second = {task: pair[1] for task, pair in zip(tasks, pairs)}
    found = regrade.reproduce(first, second)
    assert found[1] == pytest.approx(mean) and found[2] is review


def test_nothing_in_common():
    with pytest.raises(UserError, match="no task in common"):
        regrade.reproduce({"f04/dance": 1.0}, {"f04/run": 1.0})


def test_reproduce_command_writes_its_record(result, capsys):
    before = (result / "report.json").read_bytes()
    assert regrade.main(["--reproduce", str(result), str(result), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["needs_review"] is False and record["mean_difference"] == 0.0
    assert json.loads((result / "regrade.json").read_text()) == record
    assert (result / "report.json").read_bytes() == before
    assert regrade.main(["/nonexistent"]) == 2
