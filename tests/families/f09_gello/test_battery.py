"""The battery end to end: floors, refused and absent arms, and that both sides measure the same."""

import contextlib
import shutil
from pathlib import Path

import pytest

from families.f09_gello import dev, figures, scene, software, verify
from families.f09_gello.devices import rows as table
from families.f09_gello.mechanism.record import Record
from families.f09_gello.spec import ARM_NAMES, CHECKPOINTS, OWN_CHECKPOINTS, TASKS, VALIDITY_WEIGHTS
from rle.errors import InvalidSubmission, UnknownName, UserError
from rle.paths import assets_dir
from rle.report import Report
from rle.verify_api import Trial, TrialFault
from tests.families.f09_gello.fake import FakeContext

ASSETS = assets_dir() / "gello"
ORACLE = ASSETS / "oracle"


def submission(folder: Path, source: Path = ASSETS, arms=ARM_NAMES) -> Path:
    for arm in arms:
        shutil.copytree(source / arm, folder / arm, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def run(folder: Path, arm: str, seed: int = 101):
    return verify.run_arm(FakeContext(folder, seed), Trial(id="t00", index=0, group=arm))


@pytest.fixture(scope="module")
def starter_row(tmp_path_factory):
    return run(submission(tmp_path_factory.mktemp("starter")), "ur5e")


def test_the_starter_earns_nothing(starter_row):
    assert starter_row.score <= TASKS[0].floor
    assert starter_row.ended == "done" and starter_row.metrics["trim_faults"] == 0
    assert starter_row.metrics["cp_B3"] == 0.0, (
        "zero feedforward has headroom, and is not paid for it"
    )
    assert starter_row.metrics["x_C1"] == 1.0 and starter_row.metrics["cp_C1"] < 0.05


def test_development_side_and_verifier_measure_the_same(starter_row, tmp_path):
    ours = dev.evaluate(submission(tmp_path), arms=["ur5e"], design_seeds=[101])[0]
    assert ours.metrics == starter_row.metrics and ours.score == starter_row.score
    assert "mean over the three arms" in dev.summary([ours])


def test_the_row_tells_every_number_and_no_draw(starter_row):
    values = starter_row.metrics
    assert {f"cp_{key}" for key in CHECKPOINTS} <= set(values)
    assert values["H3_pose"] is None and values["B2_pose"] is None, "drawn poses have no index"
    flat = table.reward_metrics([starter_row])
    for key in ("reward", "raw_total", "validity_deduction", "mass_kg", "trim_faults"):
        assert f"ur5e_{key}" in flat
    assert all(f"ur5e_deduction_{item}" in flat for item in VALIDITY_WEIGHTS)
    facts = table.facts(starter_row)
    assert [c["id"] for c in facts["checkpoints"]] == list(CHECKPOINTS)
    assert not any("payload" in name for name in values)
    assert len(starter_row.series["t_s"]) == len(starter_row.series["path_passive_n_m"])


def test_a_refused_file_leaves_the_reference_arm(tmp_path):
    folder = submission(tmp_path, ORACLE, ["xarm7"])
    file = folder / "xarm7" / "lead.xml"
    file.write_text(file.read_text().replace("<worldbody>", '<option gravity="0 0 0"/><worldbody>'))
    row = run(folder, "xarm7")
    assert all(row.metrics[f"cp_{key}"] == 0.0 for key in OWN_CHECKPOINTS)
    assert row.metrics["cp_S2a"] > 0.5 and row.metrics["cp_S2b"] > 0.5
    assert row.metrics["validity_deduction"] == pytest.approx(sum(VALIDITY_WEIGHTS.values()))
    assert "<option> is not accepted" in row.events[0][1]
    assert "was refused (lead.xml: line " in figures.sentence(row)


def test_a_changed_stock_arm_and_broken_software(tmp_path):
    folder = submission(tmp_path, ORACLE, ["ur5e"])
    file = folder / "ur5e" / "lead.xml"
    file.write_text(file.read_text().replace('pos="0.0675 ', 'pos="0.0725 '))
    (folder / "ur5e" / "trim.py").write_text("import nothing_like_this\n")
    row = run(folder, "ur5e")
    assert row.score == 0.0
    assert row.metrics["deduction_structure"] == VALIDITY_WEIGHTS["structure"]
    assert row.metrics["deduction_printability"] == 0.0
    texts = " ".join(text for _, text in row.events)
    assert "body lead_link2" in texts and "ModuleNotFoundError at line 1" in texts


def test_software_that_is_missing_is_told_by_its_path(tmp_path):
    folder = submission(tmp_path, ASSETS / "springs", ["xarm7"])
    (folder / "xarm7" / "trim.py").unlink()
    runner = verify.Runner(FakeContext(folder), "xarm7")
    assert runner.notes == ["xarm7/trim.py is missing"]
    assert runner("", lambda worker: pytest.fail("nothing is started")) is software.ABSENT


def test_arms_that_are_missing(tmp_path):
    with pytest.raises(InvalidSubmission, match=r"franka/lead.xml is missing"):
        verify.verify(FakeContext(tmp_path))
    (tmp_path / "ur5e").mkdir()
    (tmp_path / "ur5e" / "trim.py").write_text("")
    with pytest.raises(InvalidSubmission):
        verify.verify(FakeContext(tmp_path))
    row = run(tmp_path, "ur5e")
    assert (row.ended, row.score) == ("no_submission", 0.0)
    assert figures.sentence(row) == "ur5e was not submitted"
    with pytest.raises(UserError, match="holds none of"):
        dev.evaluate(tmp_path)
    with pytest.raises(UnknownName, match="did you mean 'franka'"):
        dev.evaluate(tmp_path, arms=["frank"])


def test_result_of_one_arm_of_three(tmp_path):
    folder = submission(tmp_path, ASSETS / "springs", ["xarm7"])
    result = verify.verify(FakeContext(folder))
    scores = {row.group: row.score for row in result.rows}
    assert [row.ended for row in result.rows] == ["no_submission", "no_submission", "done"]
    assert result.score == pytest.approx(scores["xarm7"] / 3) and scores["xarm7"] > 0.3
    assert {t.name for t in result.thresholds} >= {"xarm7 mass", "xarm7 H1 (bar, credit 0.6)"}
    report = Report(
        task="f09/gello", family_version="1.0.0", outcome="scored", reward=result.score, rows=result.rows,
        practice=True, started_at="", finished_at="", wall_s=0.0,
    )  # fmt: skip
    assert sum(part.value for part in figures.parts(report)) == pytest.approx(result.score)


def test_findings_are_told_before_anything_is_measured(tmp_path, capsys, monkeypatch):
    folder = submission(tmp_path, ASSETS / "springs", ["ur5e", "xarm7"])
    file = folder / "ur5e" / "lead.xml"
    file.write_text(file.read_text().replace("<worldbody>", "<option/><worldbody>"))
    monkeypatch.setattr(dev, "evaluate", lambda *args, **kwargs: [])
    assert dev.main(["--submission", str(folder), "--arm", "ur5e", "--arm", "xarm7"]) == 0
    told = capsys.readouterr().err
    assert "ur5e: refused: lead.xml: line 7: <option> is not accepted" in told
    assert "xarm7: 2 springs and 0 added parts are used" in told


def test_broken_software_is_named_with_its_line(tmp_path):
    (tmp_path / "ur5e").mkdir()
    file = tmp_path / "ur5e" / "trim.py"
    xml = scene.nominal_xml(Record("ur5e"))
    for text, said in (
        ("x = 1\ndef f(:\n", "SyntaxError at line 2"),
        ("\n1 / 0\n", "Error at line 2"),
    ):
        file.write_text(text)
        with pytest.raises(TrialFault, match=said):
            software.LocalTrim(file, xml)


def test_software_that_does_not_start_is_tried_twice(tmp_path):
    context = FakeContext(submission(tmp_path, ASSETS / "springs", ["xarm7"]))
    starts = []

    class Broken:
        def load(self, model_xml):
            starts.append(model_xml)
            raise TrialFault("timeout_call", "python.load", "30 s")

    context.worker = lambda *args: contextlib.nullcontext(Broken())
    runner = verify.Runner(context, "xarm7")
    answers = [runner("<mujoco/>", lambda worker: pytest.fail("used")) for _ in range(6)]
    assert answers == [software.ABSENT] * 6 and len(starts) == 2
    assert len(runner.notes) == 1 and "30 s" in runner.notes[0]


def test_starter_is_written_once(tmp_path):
    assert len(dev.write_starter(tmp_path)) == 6
    assert (tmp_path / "franka" / "lead.xml").read_text() == (
        ASSETS / "franka" / "lead.xml"
    ).read_text()
    with pytest.raises(UserError, match="exists"):
        dev.write_starter(tmp_path)


# ------------------------------------------------------------------- whole submissions, long battery


def reward(folder: Path, seed: int = 101) -> float:
    rows = dev.evaluate(folder, design_seeds=[seed])
    return sum(row.score for row in rows) / 3


@pytest.mark.slow
def test_software_alone_cannot_lift_an_arm(tmp_path):
    folder = submission(tmp_path)
    for arm in ARM_NAMES:
        shutil.copyfile(ORACLE / arm / "trim.py", folder / arm / "trim.py")
    assert 0.05 < reward(folder) <= 0.25


@pytest.mark.slow
def test_balanced_arm_without_software_keeps_its_passive_merit(tmp_path):
    folder = submission(tmp_path, ORACLE)
    for arm in ARM_NAMES:
        shutil.copyfile(ASSETS / arm / "trim.py", folder / arm / "trim.py")
    bare, full = dev.evaluate(folder, design_seeds=[101]), dev.evaluate(ORACLE, design_seeds=[101])
    for a, b in zip(bare, full, strict=True):
        assert [a.metrics[f"cp_{k}"] for k in ("H1", "H2", "H3")] == [
            b.metrics[f"cp_{k}"] for k in ("H1", "H2", "H3")
        ]
        assert a.score < b.score


@pytest.mark.slow
def test_starter_is_at_the_floor_on_every_arm():
    assert reward(ASSETS) <= TASKS[0].floor


@pytest.mark.slow
@pytest.mark.parametrize("seed", [101, 102])
def test_simple_design_and_its_mesh_twin(seed):
    simple, mesh = reward(ASSETS / "simple", seed), reward(ASSETS / "mesh", seed)
    assert 0.40 <= simple <= 0.62
    assert mesh == pytest.approx(simple, abs=0.02)


@pytest.mark.slow
def test_springs_alone_are_a_valid_design():
    assert reward(ASSETS / "springs") >= 0.42


@pytest.mark.slow
def test_oracle_reaches_its_bar_whatever_the_draw():
    scores = [reward(ORACLE, seed) for seed in (101, 102, 103)]
    assert min(scores) >= TASKS[0].bar
    assert max(scores) - min(scores) < 0.08
