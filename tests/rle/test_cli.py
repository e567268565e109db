"""The command line: help on one screen, errors on one line, machine output that parses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from index_cases import report, write_out

from rle import cli, doctor, registry
from rle.cards import family_card, task_card
from rle.commands import demo, verify
from rle.errors import UserError

ROOT = Path(__file__).resolve().parents[2]


def rle(*argv: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "rle", *argv], capture_output=True, text=True, cwd=ROOT, **options
    )


@pytest.mark.parametrize("command", [[], *[[name] for name in cli.COMMANDS]])
def test_help_fits_one_screen_and_shows_how(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main([*command, "--help"])
    shown = capsys.readouterr().out
    assert stopped.value.code == 0
    assert shown.count("\n") <= 60
    assert "usage: rle" in shown


def test_no_argument_is_help(capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main([])
    assert stopped.value.code == 0 and "Examples:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["card", "f04/dence"], "did you mean 'f04/dance'"),
        (["card", "nonsense"], "unknown task 'nonsense'"),
        (["verify"], "needs a task and --submission DIR"),
        (["verify", "--all"], "--all needs --submissions DIR"),
        (["list", "--bogus"], "unknown option '--bogus'"),
        (["demo", "--only", "f99"], "no shipped reference submission matches 'f99'"),
        (["train", "f99/x"], "unknown task"),
    ],
)
def test_user_errors_are_one_line_and_exit_2(argv, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(argv)
    error = capsys.readouterr().err
    assert stopped.value.code == 2
    assert message in error and error.count("\n") == 1 and "Traceback" not in error


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--bogus"], "unknown option '--bogus' (f04 adds --profile); `rle verify --help`"),
        (["--profile", "none"], "--profile: invalid choice: 'none' (choose from 'full'"),
        (["--profile"], "--profile: expected one argument; `rle verify --help`"),
    ],
)
def test_the_verifier_refuses_an_option_under_the_name_that_was_typed(
    given, said, tmp_path, capfd, monkeypatch
):
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as stopped:
        cli.main(
            ["verify", "f04/dance", "--submission", str(tmp_path), "--out", str(tmp_path), *given]
        )
    error = capfd.readouterr().err
    assert stopped.value.code == 2
    assert said in error and error.count("\n") == 1 and "usage:" not in error


def test_list_knows_all_51_and_says_what_is_missing():
    rows = json.loads(rle("list", "--json").stdout)
    assert [r["id"] for r in rows] == list(registry.TASK_IDS)
    assert {r["id"] for r in rows if r["available"]} == set(registry.landed_tasks())


@pytest.mark.parametrize("width", [50, 80])
def test_list_keeps_to_a_narrow_terminal_and_cuts_titles_alone(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    with pytest.raises(SystemExit):
        cli.main(["list"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    for task in registry.TASK_IDS:
        (line,) = [line for line in lines if line.split()[:1] == [task]]
        assert ("ready" if task in registry.landed_tasks() else "not yet") in line


def test_list_in_a_pipe_cuts_nothing():
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    text = rle("list", env=env).stdout
    assert all(registry.get(task).title in text for task in registry.landed_tasks())


def test_card_of_each_family_states_the_contract():
    for family in registry.landed_families():
        task = registry.get(registry.family_tasks(family)[0])
        card = task_card(task)
        assert task.title in card and f"Floor: {task.floor:g}" in card
        assert task.artifact.entries[0].path in card
        assert "## Observation" in card and "## Score" in card


def rows_of(card: str, heading: str) -> set[str]:
    """First cells of a card's table."""
    block = card.split(f"## {heading}\n\n")[1].split("\n\n")[0]
    return {line.split("`")[1] for line in block.splitlines()[2:]}


@pytest.mark.parametrize("task", registry.landed_tasks())
def test_a_card_lists_what_its_task_has_and_nothing_else(task):
    spec = registry.get(task)
    room, card = registry.room(spec.family, "spec"), task_card(spec)
    others = {other.slug for other in room.TASKS} - {spec.slug}
    lines = card.split("## Score\n\n```\n")[1].split("\n```")[0].splitlines()
    assert lines and not {line.split()[0] for line in lines} & others
    if spec.family == "f06":
        assert ("depth" in rows_of(card, "Observation")) is ("depth" in room.CHANNELS[spec.slug])
    served = getattr(room, "SESSIONS", {}).get(task)
    if served is None:
        return
    pictures = {f"{c}_image" for c in served.cameras} | {f"{c}_depth" for c in served.depth_cameras}
    keys = {key.name for key in served.observation}
    assert rows_of(card, "Observation") == keys | pictures
    assert rows_of(card, "Action") == {f"{p.start}:{p.stop}" for p in served.action_layout}
    assert ("mobile" in card.split("Robot: ")[1].split(".")[0]) is ("base_pos" in keys)


def test_a_familys_card_says_which_tasks_have_what():
    card = family_card("f03")
    assert "| `cube_positions` | balance |" in card
    assert "| `arm0_eef_pos` | pocket-cube |" in card
    assert "| `left_image` | tower, cantilever, balance |" in card
    assert "| `joint_pos` | tower, cantilever, hidden-com | arm joints |" in card
    assert "| `joint_pos` | balance | arm joints, Gaussian noise" in card


def test_missing_submission_folder_explains_itself(tmp_path):
    task = registry.landed_tasks()[0]
    run = rle(
        "verify", task, "--submission", str(tmp_path / "none"), "--out", str(tmp_path / "out")
    )
    assert run.returncode == 2
    assert "none" in run.stderr and "Traceback" not in run.stderr
    assert not (tmp_path / "out" / "reward.json").exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_open_salt_file_is_refused_with_the_fix(tmp_path, mode):
    salt = tmp_path / "salt"
    salt.write_bytes(b"x" * 32)
    salt.chmod(mode)
    task = registry.landed_tasks()[0]
    folder = tmp_path / "submission"
    folder.mkdir()
    run = rle("verify", task, "--submission", str(folder), "--out", str(tmp_path / "out"),
              "--salt-file", str(salt))  # fmt: skip
    assert run.returncode == 2 and "chmod 600" in run.stderr and "Traceback" not in run.stderr


def test_set_of_submissions_is_found_in_both_spellings(tmp_path):
    (tmp_path / "f04-dance").mkdir()
    (tmp_path / "f04" / "run").mkdir(parents=True)
    assert verify.find_submission(tmp_path, "f04/dance") == tmp_path / "f04-dance"
    assert verify.find_submission(tmp_path, "f04/run") == tmp_path / "f04/run"
    assert verify.find_submission(tmp_path, "f04/fight") is None


def test_every_named_reference_is_shipped():
    for task in map(registry.get, registry.landed_tasks()):
        if task.oracle is not None:
            assert any(demo.reference_submission(task).iterdir())


def test_a_reference_that_is_missing_says_so():
    import msgspec

    task = registry.get(registry.landed_tasks()[0])
    lost = msgspec.structs.replace(task, oracle="oracles/none")
    with pytest.raises(UserError, match=r"oracles/none is missing; reinstall"):
        demo.reference_submission(lost)


def test_doctor_compares_with_the_constraints():
    pins = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    )
    assert {name: pins[name] for name in doctor.PINNED} == doctor.PINNED


def test_doctor_finds_this_machine_fit():
    findings = {f.name: f for f in doctor.examine()}
    assert findings["rendering"].verdict == "ok", findings["rendering"]
    assert findings["sandbox"].verdict == "ok", findings["sandbox"]
    assert all(f.fix for f in findings.values() if f.verdict != "ok")


def test_demo_shows_rehearsals_beside_results(tmp_path):
    """References that read true poses are rehearsals; the page takes them and says that it mixes."""
    write_out(tmp_path / "f04-dance", report("f04/dance", practice=True))
    write_out(tmp_path / "f03-tower", report("f03/tower", practice=True, validation=True))
    shown = [registry.get("f04/dance"), registry.get("f03/tower")]
    page = demo.Demo(out=tmp_path)._write_index(shown, []).read_text()
    assert ">mixed<" in page and ">practice<" in page


def test_a_reader_that_leaves_early_is_no_error():
    argv = [sys.executable, "-m", "rle", "card", "f03/balance"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
