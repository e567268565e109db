"""Messages teach; what an agent may read leaks nothing."""

import pickle
import re

import pytest

from rle import errors

FORBIDDEN = re.compile(
    r"\b(seed|salt|hidden|trial key|tolerance|reference value)\b|/(root|home|tmp|var)/"
)


@pytest.mark.parametrize("code", sorted(errors.AGENT_MESSAGES))
def test_agent_messages_reveal_nothing_of_the_trials(code):
    text = errors.AGENT_MESSAGES[code]
    assert not FORBIDDEN.search(text), f"{code}: {text}"


def test_invalid_submission_fills_its_sentence():
    error = errors.InvalidSubmission("file.size", path="policy.onnx", n=7, max=5)
    assert error.message == "policy.onnx has 7 bytes; at most 5 are accepted"
    assert error.code == "file.size" and error.fields["n"] == 7


def test_unknown_code_is_a_bug():
    with pytest.raises(KeyError):
        errors.InvalidSubmission("file.nonsense")


def test_unknown_name_without_a_near_one_lists_all():
    error = errors.UnknownName("profile", "zzz", ["full", "noise"])
    assert error.message == "unknown profile 'zzz'. Known: full, noise."


@pytest.mark.parametrize(
    "error",
    [
        errors.InfrastructureError("the disk is full", code="output.disk"),
        errors.InvalidSubmission("file.none", required="policy.onnx"),
        errors.BudgetExceeded("ledger.budget", detail="51 of 50"),
        errors.IsolationUnavailable("seccomp", "no libseccomp", "Install it."),
        errors.UnknownName("task", "f04/dence", ["f04/dance"]),
        errors.SimulationError("NaN in qpos"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_a_trial_process_arrives_whole(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (again.code, again.message) == (error.code, error.message)
    assert vars(again) == vars(error)
