"""Audits: entries are appended and read back; corrections change the set for everybody, visibly."""

import pytest
from index_cases import report, scored, system, write_input, write_out

from rle.cli import main
from rle.errors import UnknownName, UserError
from rle.index import AuditEntry, IndexOptions, append_entry, run_index
from rle.index.corrected import corrected_set, read_entries, summarise
from rle.stats import wilson


def entry(task="f04/run", label="grader_error", action="exclude", trial="t00", **fields):
    given = {"id": "abcd", "family_version": "1.0.0", "note": "seen", "date": "2026-11-29"}
    return AuditEntry(task=task, label=label, action=action, trial=trial, **{**given, **fields})


def audit_file(tmp_path, *entries):
    path = tmp_path / "audit.jsonl"
    for item in entries:
        append_entry(path, item)
    return path


def corrected_index(tmp_path, audit, *systems):
    results = (write_input(tmp_path, *systems),)
    return run_index(IndexOptions(results=results, corrected=audit))


def test_entries_round_trip(tmp_path):
    given = [entry(), entry(label="model_error", action="none", trial="t03")]
    assert read_entries(audit_file(tmp_path, *given)) == given


def test_bad_entries_are_refused(tmp_path):
    path = tmp_path / "audit.jsonl"
    with pytest.raises(UnknownName):
        append_entry(path, entry(task="f04/dence"))
    with pytest.raises(UserError, match="takes --action none"):
        append_entry(path, entry(label="model_error", action="repair"))
    assert not path.exists()
    path.write_text("\n{}\n")
    with pytest.raises(UserError, match="line 2"):
        read_entries(path)
    with pytest.raises(UserError, match="`rle audit add` writes it"):
        read_entries(tmp_path / "absent")


def test_command_line_adds_an_entry_that_the_index_reads(tmp_path, capsys):
    out = write_out(tmp_path / "out", report("f04/run"))
    audit = tmp_path / "audit.jsonl"
    given = [
        "audit",
        "add",
        str(out),
        "--trial",
        "t03",
        "--label",
        "grader_error",
        "--note",
        "seen",
    ]
    with pytest.raises(SystemExit) as end:
        main([*given, "--action", "exclude", "--file", str(audit)])
    assert end.value.code == 0
    assert "f04/run t03 grader_error, action exclude" in capsys.readouterr().out
    result = run_index(IndexOptions(results=(out,), corrected=audit))
    assert result.set == "rle-51+c1" and result.audit.grader_errors == 1
    with pytest.raises(SystemExit) as end:
        main([*given[:3], "--trial", "t99", *given[5:], "--file", str(audit)])
    assert end.value.code == 2
    assert "unknown trial 't99'" in capsys.readouterr().err


def test_grader_error_rate_with_its_interval():
    found = summarise([entry(), entry(label="model_error", action="none", trial="t01"), entry()])
    assert (found.audited, found.grader_errors) == (2, 1)  # the same trial twice is one trial
    assert found.grader_error_rate == 0.5
    assert found.interval == pytest.approx(wilson(1, 2))
    assert summarise([]).grader_error_rate is None


def test_an_excluded_task_leaves_the_set_for_every_system(tmp_path):
    audit = audit_file(tmp_path, entry(task="f04/run"))
    a = system("a", {"f04/dance": scored(0.8), "f04/run": scored(0.0)})
    b = system("b", {"f04/run": scored(1.0)})
    result = corrected_index(tmp_path, audit, a, b)
    assert result.set == "rle-51+c1"
    assert result.audit.excluded == ["f04/run"]
    found = {s.name: s for s in result.systems}
    # a: before (.8 + 0)/5, after .8/4; b: before 1/5, after 0. Index = S_f04 / 8.
    assert found["a"].before.index.value == pytest.approx(0.16 / 8)
    assert found["a"].index.value == pytest.approx(0.2 / 8)
    assert found["b"].before.index.value == pytest.approx(0.2 / 8)
    assert found["b"].index.value == 0.0
    assert len(found["a"].tasks) == 50
    assert "before corrections (rle-51): 2.0" in result.summary()


def test_a_family_that_loses_its_only_task_leaves_its_workflow():
    found = corrected_set(summarise([entry(task="f07/bin-clearing")]))
    assert "f07" not in found.families
    assert found.tasks and found.name == "rle-51+c1"


def test_a_repaired_task_counts_only_under_a_newer_version(tmp_path):
    audit = audit_file(tmp_path, entry(task="f04/run", action="repair"))
    old = system("old", {"f04/run": scored(0.5, family_version="1.0.0")})
    new = system("new", {"f04/run": scored(0.5, family_version="1.0.1")})
    result = corrected_index(tmp_path, audit, old, new)
    found = {s.name: s for s in result.systems}
    assert found["new"].index.value == pytest.approx(0.5 / 40)
    assert found["old"].index.value == 0.0
    assert "rle regrade" in found["old"].task("f04/run").cells[0].note


def test_an_audit_without_corrections_leaves_the_set(tmp_path):
    audit = audit_file(tmp_path, entry(label="model_error", action="none"))
    result = corrected_index(tmp_path, audit, system("s", {"f04/run": scored(0.5)}))
    assert result.set == "rle-51"
    assert result.systems[0].index == result.systems[0].before.index
