"""What is found on disk: OUT folders, runs, systems by name, Harbor jobs, re-runs, kept submissions."""

import hashlib
import json
from pathlib import Path

import msgspec
import pytest
from index_cases import (
    infrastructure,
    invalid,
    report,
    scored,
    system,
    write_harbor_trial,
    write_input,
    write_out,
)

from rle.errors import UserError
from rle.index import IndexOptions, IndexResult, run_index
from rle.index.harbor import read_jobs, status_of, task_id
from rle.index.load import digest_matches
from rle.report import FileRecord, SubmissionRecord


def index_of(*paths, **options):
    return run_index(IndexOptions(results=paths, **options))


def test_out_folders_make_one_system(tmp_path):
    write_out(tmp_path / "f04-dance", report("f04/dance"))
    write_out(tmp_path / "f04-run", invalid("f04/run"))
    found = index_of(tmp_path, system="ours").systems[0]
    assert found.name == "ours"
    assert found.counts.n_scored == found.counts.n_invalid == 1
    assert found.task("f04/run").score.value == 0.0
    assert found.task("f04/run").cells[0].category == "invalid_submission"


def test_name_equals_path_names_the_system(tmp_path):
    a = write_out(tmp_path / "a", report())
    b = write_out(tmp_path / "b", report(practice=True))
    result = index_of(Path(f"first={a}"), Path(f"second={b}"))
    assert sorted(s.name for s in result.systems) == ["first", "second"]


def test_folders_without_a_name_take_that_of_the_folder_that_holds_them(tmp_path):
    both = [write_out(tmp_path / "ours" / t, report(f"f04/{t}")) for t in ("dance", "run")]
    assert index_of(*both).systems[0].name == "ours"
    assert index_of(both[0]).systems[0].name == "dance"


def test_run_folders_are_runs(tmp_path):
    for run in (1, 2):
        write_out(tmp_path / f"run{run}" / "f04-dance", report())
    result = index_of(tmp_path)
    assert result.n_runs == 2
    assert result.systems[0].counts.n_scored == 2


def test_as_many_folders_as_runs_are_one_run_each(tmp_path):
    folders = [write_out(tmp_path / name, report()) for name in "abc"]
    assert index_of(*folders, runs=3, system="s").systems[0].counts.n_scored == 3


def test_two_results_for_one_cell_are_refused_with_both_places(tmp_path):
    for name in "ab":
        write_out(tmp_path / name, report())
    with pytest.raises(UserError, match=r"f04/dance appears twice in run 1 .*a; .*b\. Keep one"):
        index_of(tmp_path)


def test_a_repeated_key_in_json_is_not_lost_in_silence(tmp_path):
    tasks = '"f04/dance": {"outcome": "scored", "reward": 0.5}'
    path = tmp_path / "in.json"
    path.write_text(
        '{"schema": "rle-index-input/1", "systems": [{"name": "s", "runs": '
        f'[{{"run": 1, "tasks": {{{tasks}, {tasks}}}}}]}}]}}'
    )
    with pytest.raises(UserError, match="f04/dance appears twice"):
        index_of(path)


def test_an_infrastructure_error_counts_zero_until_the_re_run(tmp_path):
    write_out(tmp_path / "first", infrastructure("f04/dance"))
    task = index_of(tmp_path).systems[0].task("f04/dance")
    assert task.cells[0].category == "environment_failure"
    assert task.available is None and task.score.value == 0.0
    write_out(tmp_path / "again", report())
    task = index_of(tmp_path).systems[0].task("f04/dance")
    assert task.cells[0].cell.outcome == "scored"
    assert task.cells[0].cell.n_infra == 1


def test_re_runs_cannot_be_bought_without_end(tmp_path):
    for name in ("first", "second"):
        write_out(tmp_path / name, infrastructure("f04/dance"))
    write_out(tmp_path / "third", report())
    task = index_of(tmp_path).systems[0].task("f04/dance")
    assert task.score.value == 0.0
    assert task.cells[0].cell.n_infra == 2
    assert "kept as missing" in task.cells[0].note


def test_links_are_not_followed(tmp_path):
    write_out(tmp_path / "elsewhere" / "x", report("f04/run"))
    out = tmp_path / "out"
    write_out(out / "f04-dance", report())
    (out / "linked").symlink_to(tmp_path / "elsewhere")
    assert index_of(out).systems[0].counts.n_scored == 1


def test_pages_and_records_of_our_own_are_no_results(tmp_path):
    out = write_out(tmp_path / "f04-dance", report())
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "index.json").write_text(json.dumps(index_of(out).to_json(), indent=1))
    (tmp_path / "regrade.json").write_text('{"schema": "rle-regrade/1", "results": []}')
    assert index_of(*sorted(tmp_path.iterdir())).systems[0].counts.n_scored == 1


def test_nothing_there_says_what_to_do(tmp_path):
    with pytest.raises(UserError, match="no results given"):
        index_of()
    with pytest.raises(UserError, match="does not exist"):
        index_of(tmp_path / "absent")
    with pytest.raises(UserError, match=r"holds no report.json; run `rle verify"):
        index_of(tmp_path)
    (tmp_path / "report.json").write_text("{}")
    with pytest.raises(UserError, match="no rle-report/1"):
        index_of(tmp_path)
    (tmp_path / "in.json").write_text('{"schema": "rle-index-input/9", "systems": []}')
    with pytest.raises(UserError, match="rle-index-input/9"):
        index_of(tmp_path / "in.json")


def test_the_kept_submission_must_be_the_scored_one(tmp_path):
    data = b"weights"
    line = f"{hashlib.sha256(data).hexdigest()} {len(data)} policy.onnx\n"
    digest = hashlib.sha256(b"rle-submission/1\n" + line.encode()).hexdigest()
    record = SubmissionRecord(
        digest=digest,
        files=[FileRecord(path="policy.onnx", size=7, sha256=hashlib.sha256(data).hexdigest())],
    )
    value = report(submission=record)
    kept = write_out(tmp_path / "out", value) / "submission"
    assert digest_matches(value, kept)
    kept.mkdir()
    (kept / "policy.onnx").write_bytes(data)
    assert digest_matches(value, kept)
    assert index_of(tmp_path / "out").systems[0].counts.n_scored == 1
    (kept / "policy.onnx").write_bytes(b"Weights")
    assert not digest_matches(value, kept)
    with pytest.raises(UserError, match="digest_mismatch"):
        index_of(tmp_path / "out")


# ----------------------------------------------------------------------------------------- Harbor


def test_harbor_task_names():
    assert task_id("rle/f04-fall-and-get-up") == "f04/fall-and-get-up"
    assert task_id("f01-open-fridge-l1") == "f01/open-fridge-l1"
    assert task_id("someone/other") is None


def test_harbor_trial_becomes_a_cell_with_costs(tmp_path):
    write_harbor_trial(tmp_path, "one", report())
    (tmp_path / "result.json").write_text('{"n_trials": 1}')  # the job's own file
    attempt = read_jobs(tmp_path)[0]
    assert (attempt.task, attempt.run) == ("f04/dance", 1)
    assert attempt.system.name == "claude-code maker/model-x high"
    assert attempt.system.model == "maker/model-x"
    assert (attempt.cell.cost_usd, attempt.cell.input_tokens) == (1.5, 1000)
    result = run_index(IndexOptions(harbor=(tmp_path,)))
    assert result.systems[0].resources.mean_hours == pytest.approx(2.0)


def test_harbor_attempts_are_runs_in_order_of_start(tmp_path):
    write_harbor_trial(tmp_path, "b", report(reward=0.2), started_at="2026-11-29T10:00:00Z")
    write_harbor_trial(tmp_path, "a", report(reward=0.3), started_at="2026-11-29T11:00:00Z")
    found = read_jobs(tmp_path)
    assert [(a.run, a.cell.reward) for a in found] == [(1, 0.2), (2, 0.3)]


def test_harbor_steps_are_summed_and_null_stays_null(tmp_path):
    steps = [
        {"agent_result": {"cost_usd": 1.0, "n_input_tokens": 5}},
        {"agent_result": {"cost_usd": 0.5}},
    ]
    write_harbor_trial(tmp_path, "one", report(), agent_result=None, step_results=steps)
    cell = read_jobs(tmp_path)[0].cell
    assert (cell.cost_usd, cell.input_tokens, cell.output_tokens) == (1.5, 5, None)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (None, "completed"),
        ("AgentTimeoutError", "agent_timeout"),
        ("NonZeroAgentExitCodeError", "agent_error"),
        ("VerifierTimeoutError", "verifier_timeout"),
        ("EnvironmentStartTimeoutError", "environment_error"),
    ],
)
def test_harbor_status(kind, status):
    info = None if kind is None else {"exception_type": kind}
    assert status_of({"exception_info": info}) == status
    assert status_of({"exception_info": None, "step_results": [{"exception_info": info}]}) == status


def test_harbor_timeout_is_still_graded_and_an_invalid_reward_is_not(tmp_path):
    timeout = {"exception_info": {"exception_type": "AgentTimeoutError"}}
    write_harbor_trial(tmp_path / "graded", "one", report(), **timeout)
    cell = read_jobs(tmp_path / "graded")[0].cell
    assert (cell.outcome, cell.status) == ("scored", "agent_timeout")
    broken = write_harbor_trial(tmp_path / "broken", "one", report())
    (broken / "verifier" / "report.json").write_text("{}")
    with pytest.raises(UserError, match="no rle-report/1"):
        read_jobs(tmp_path / "broken")
    write_harbor_trial(tmp_path / "void", "one", report(), reward_valid=False)
    write_harbor_trial(tmp_path / "lost", "one", None)
    for job in ("void", "lost"):
        cell = read_jobs(tmp_path / job)[0].cell
        assert (cell.outcome, cell.reward) == ("infrastructure_error", None)


def test_harbor_re_run_takes_the_place_of_a_failed_environment(tmp_path):
    write_harbor_trial(tmp_path, "a", None, started_at="2026-11-29T10:00:00Z")
    write_harbor_trial(tmp_path, "b", report(), started_at="2026-11-29T11:00:00Z")
    assert [a.run for a in read_jobs(tmp_path)] == [1, 1]
    found = run_index(IndexOptions(harbor=(tmp_path,)))
    assert found.n_runs == 1
    assert found.systems[0].counts.n_scored == 1


def test_harbor_folder_without_our_trials_is_refused(tmp_path):
    with pytest.raises(UserError, match="is no folder"):
        read_jobs(tmp_path / "absent")
    (tmp_path / "result.json").write_text('{"task_name": "other/task"}')
    with pytest.raises(UserError, match="no Harbor trial of an RLE task"):
        read_jobs(tmp_path)


def test_input_file_round_trip(tmp_path):
    given = system("s", {"f04/dance": scored(0.5)}, model="maker/model-x", budget="4 h, 1 GPU")
    found = index_of(write_input(tmp_path, given)).systems[0]
    assert (found.model, found.budget) == ("maker/model-x", "4 h, 1 GPU")


def test_the_result_is_plain_json(tmp_path):
    result = index_of(write_input(tmp_path, system("s", {"f04/dance": scored(0.5)})))
    again = msgspec.convert(json.loads(json.dumps(result.to_json())), IndexResult)
    assert again == result
