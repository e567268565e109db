"""Verification end to end on a fake trusted side; the submitted text goes through the real check."""

import dataclasses

import msgspec
import numpy as np
import pytest

from families.f08_mobile_base import chassis, figures, metrics, pictures, spec, verify
from rle.commands.verify import summary
from rle.errors import InvalidSubmission
from rle.report import Report, Row, flat_reward, read_report
from rle.verify_api import Trial
from tests.families.f08_mobile_base.designs import BRACED, LIGHT, ORACLE, STARTER, Bar, with_bars
from tests.families.f08_mobile_base.fakes import FakeContext
from train_baselines.oracles.f08_frames import to_xml
from verifier.box import mjcf_check
from verifier.box.wire import Fault
from verifier.submission import freeze

XML = to_xml(ORACLE)


def checked(text: str) -> chassis.Record:
    """A text through the verifier's own check."""
    contract = msgspec.to_builtins(chassis.CONTRACT)
    answer = mjcf_check.check({spec.ROBOT_XML: text.encode()}, contract)
    return chassis.read_canonical(answer["canonical"])


def report_of(result) -> Report:
    """The report of a result, through its encoding: numpy's numbers would not pass."""
    report = Report(
        task="f08/mobile-base", family_version="1.0.0", outcome=result.outcome, reward=result.score,
        raw_total=result.raw_total, gates=result.gates, metrics=result.metrics, rows=result.rows,
        practice=True, started_at="", finished_at="", wall_s=0.0, extra=result.extra,
        flags=result.flags,
    )  # fmt: skip
    return read_report(msgspec.json.encode(report))


@pytest.mark.parametrize("frame", [ORACLE, LIGHT, BRACED, STARTER], ids=lambda f: f.name)
def test_development_and_verifier_read_the_same_numbers(frame):
    text = to_xml(frame)
    ours, theirs = chassis.read_text(text.encode()), checked(text)
    for name in ("box_pos_m", "box_quat_wxyz", "box_half_m", "wheel_pos_m", "mount_pos_m"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name


def test_masses_and_contact_numbers_are_dropped_by_the_check():
    text = XML.replace(
        '<geom type="box"', '<geom mass="0" density="9" friction="9 9 9" priority="9" type="box"'
    )
    text = text.replace("<worldbody>", '<worldbody><light pos="0 0 3"/><camera pos="0 0 1"/>')
    text = text.replace("</mujoco>", "<keyframe><key/></keyframe></mujoco>")
    assert np.array_equal(checked(text).box_half_m, checked(XML).box_half_m)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("<worldbody>", '<include file="/etc/passwd"/><worldbody>', "mjcf.element"),
        ("<worldbody>", '<option gravity="0 0 0"/><worldbody>', "mjcf.element"),
        ("<worldbody>", '<size memory="64G"/><worldbody>', "mjcf.element"),
        ("<worldbody>", '<default/><worldbody>', "mjcf.element"),
        ("</mujoco>", '<equality><weld body1="base"/></equality></mujoco>', "mjcf.element"),
        ("</mujoco>", '<contact><exclude body1="a" body2="b"/></contact></mujoco>', "mjcf.element"),
        ("</mujoco>", "<extension/></mujoco>", "mjcf.element"),
        ("</mujoco>", "<tendon/></mujoco>", "mjcf.element"),
        ('<body name="base" ', '<body name="base" gravcomp="1" ', "mjcf.attribute"),
        ('<body name="base" ', '<body name="base" mocap="true" ', "mjcf.attribute"),
        ('name="battery"', 'name="arm_link"', "mjcf.name"),
        ('<body name="battery"', '<body name="arm_x"/><body name="battery"', "mjcf.name"),
        ('size="0.02 0.208 0.02"', 'size="0.02 nan 0.02"', "mjcf.number"),
        ('size="0.02 0.208 0.02"', 'size="0.02 1e999 0.02"', "mjcf.number"),
        ("<worldbody>", '<worldbody><geom type="box" size="1 1 1"/>', "mjcf.root"),
        ("<mujoco", "<!DOCTYPE x><mujoco", "mjcf.doctype"),
    ],
)  # fmt: skip
def test_cheats_in_the_text_are_refused(old, new, code):
    with pytest.raises(Fault) as fault:
        checked(XML.replace(old, new, 1))
    assert fault.value.code == code
    with pytest.raises(InvalidSubmission) as ours:  # the development side says the same
        chassis.canonical_text(XML.replace(old, new, 1).encode())
    assert ours.value.code == code


LINE_OF_FIRST_BAR = 1 + XML[: XML.index("<geom")].count("\n")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("<mujoco><worldbody>" + "<body>" * 20_000, "mjcf.depth"),
        (
            XML.replace("      <geom", '      <geom type="box" size="1 1 1"/>' * 500 + "<geom", 1),
            "mjcf.count",
        ),
        (XML.replace('name="base"', 'name="bass"', 1), "mjcf.root"),
        (XML.replace("</worldbody>", "<body/></worldbody>"), "mjcf.root"),
        (XML.replace("</worldbody>", '<body name="ghost"/></worldbody>'), "mjcf.root"),
        (XML.replace('name="battery"', 'name="arm_link"'), "mjcf.name"),
        ("<?php x?>" + XML, "mjcf.doctype"),
        (XML.replace("<mujoco", "<robot", 1).replace("</mujoco", "</robot"), "mjcf.element"),
        ("", "mjcf.xml"),
    ],
    ids=lambda v: v if v.startswith("mjcf") else "text",
)
def test_both_sides_refuse_what_cannot_be_read(text, code):
    with pytest.raises(Fault) as fault:
        checked(text)
    with pytest.raises(InvalidSubmission) as ours:
        chassis.canonical_text(text.encode())
    assert fault.value.code == ours.value.code == code
    assert InvalidSubmission(code, **fault.value.fields).message == ours.value.message


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ('size="0.02 0.208 0.02"', 'size="-0.02 0.208 0.02"', "size 0 must be positive"),
        ('size="0.02 0.208 0.02"', 'size="0.02 0.208"', "size 2 must be positive"),
        ('<geom type="box"', '<geom quat="0 0 0 0" type="box"', "zero quaternion"),
        ('<geom type="box"', '<geom type="bux"', "'bux'"),
    ],
)
def test_what_does_not_compile_is_told_with_its_line_in_the_file(old, new, fact):
    """The first bar stands in line 7, whatever else was left out or written on several lines."""
    text = XML.replace("<worldbody>", "<asset>\n</asset>\n<worldbody\n>", 1).replace(old, new, 1)
    with pytest.raises(Fault) as fault:
        checked(text)
    with pytest.raises(InvalidSubmission) as ours:
        chassis.read_canonical(chassis.canonical_text(text.encode()).encode())
    for said in (InvalidSubmission("mjcf.compile", **fault.value.fields), ours.value):
        assert fact in said.message and f"line {LINE_OF_FIRST_BAR + 3}" in said.message


def test_all_perfect_trials_leave_the_chassis_to_decide():
    context = FakeContext({"robot.xml": XML.encode(), "controller.py": b""})
    result = verify.verify(context)
    # E of the oracle is .3487: design .13 + .22 x .7265 = .2898; the rest is full: .9398
    assert result.score == result.raw_total == pytest.approx(0.65 + 0.13 + 0.22 * 0.7265, abs=1e-3)
    assert len(result.rows) == spec.N_TRIALS == 141 and all(result.gates.values())
    flat = flat_reward(report_of(result), spec.N_TRIALS)
    assert flat["trials_failed"] == 0.0 and flat["cp_S7_pick_compat"] == 1.0
    assert set(metrics.BY_DESIGN) < set(result.rows[0].metrics)
    stages = [result.metrics[f"stage_{s}"] for s in spec.STAGES]
    assert sum(stages) == pytest.approx(result.raw_total)
    assert next(iter(result.extra["lost"])) == "S3.design_efficiency"
    parts = figures.parts(report_of(result))
    assert sum(p.value for p in parts) == pytest.approx(result.score)


def test_rows_make_the_reward_again():
    context = FakeContext({"robot.xml": XML.encode(), "controller.py": b""}, canned=0.7)
    result = verify.verify(context)
    picks = np.arange(len(result.rows))[None, :]
    assert metrics.resampled_scores(result.rows, picks)[0] == pytest.approx(result.raw_total)


def test_a_quick_look_is_a_part_of_the_run_and_no_score():
    context = FakeContext({"robot.xml": XML.encode(), "controller.py": b""})
    context.options = {"profile": "quick"}
    result = verify.verify(context)
    # per arm: design, three validity runs, six drawn tests, two targets at both loads, the repeat
    assert len(result.rows) == 3 * (1 + 3 + 6 + 4 + 1) and not result.scored
    params = {"robot_xml": "", "controller": None}
    whole = {t.id: t for t in verify.trials(params)}
    assert all(whole[t.id] == t for t in verify.quick_trials(params))
    assert result.score == pytest.approx(0.65 + 0.13 + 0.22 * 0.7265, abs=1e-3)


@pytest.mark.parametrize(
    "bars",
    [
        (Bar("4040", "x", (0.0, 0.0, 0.8), 0.2),),  # floating
        (Bar("2020", "x", (0.0, 0.12, 0.353 + 0.005), 0.1),),  # 5 mm above the frame
    ],
)
def test_broken_construction_is_capped(bars):
    text = to_xml(with_bars(ORACLE, *bars))
    result = verify.verify(FakeContext({"robot.xml": text.encode(), "controller.py": b""}))
    assert result.score == spec.GATE_CAP and result.raw_total > 0.5
    assert result.gates == {"S1.load": True, "S1.structure": False}
    assert any("not joined" in flag for flag in result.flags)
    assert result.metrics["cp_S3_design_efficiency"] == 0.0
    assert figures.parts(report_of(result))[-1].label == "a closed gate"


def test_boxes_of_no_section_are_capped():
    text = XML.replace('size="0.02 0.208 0.02"', 'size="0.03 0.208 0.02"')
    result = verify.verify(FakeContext({"robot.xml": text.encode(), "controller.py": b""}))
    assert result.score <= spec.GATE_CAP


def test_missing_chassis_is_an_invalid_submission():
    with pytest.raises(InvalidSubmission, match="robot.xml is missing"):
        verify.verify(FakeContext({"controller.py": b""}))


def test_a_chassis_that_is_refused_ends_the_run_and_a_controller_costs_itself_alone(tmp_path):
    files = {"robot.xml": b"<mujoco/>", "controller.py": b"x = 1"}
    for bad in files:
        folder = tmp_path / bad / "in"
        folder.mkdir(parents=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
        (folder / bad).write_bytes(b"\xff\xfe")
        if bad == "robot.xml":
            with pytest.raises(InvalidSubmission, match="robot.xml is not UTF-8 text"):
                freeze(folder, folder.parent / "copy", spec.TASKS[0])
        else:
            copy = freeze(folder, folder.parent / "copy", spec.TASKS[0])
            assert (copy.folder / "controller.py").read_bytes() == b""
            assert copy.refusal("controller.py") is not None and copy.refusal("robot.xml") is None
            assert "controller.py is not UTF-8 text" in copy.record.refused["controller.py"]


def test_text_that_does_not_compile_scores_zero():
    text = XML.replace('size="0.14 0.09 0.04"', 'size="0 0 0"')
    result = verify.verify(FakeContext({"robot.xml": text.encode()}))
    assert (result.score, result.outcome, result.gates["S1.load"]) == (0.0, "scored", False)
    assert "compile" in result.flags[0]


def test_the_line_for_a_person_says_which_gate_is_closed(tmp_path):
    text = XML.replace('size="0.14 0.09 0.04"', 'size="0 0 0"')
    report = report_of(verify.verify(FakeContext({"robot.xml": text.encode()})))
    assert "closed: S1.load, S1.structure; MuJoCo does not compile" in summary(report, tmp_path)
    verify.media(None, _with_report(tmp_path, report))  # nothing to draw, and no error
    fine = verify.verify(FakeContext({"robot.xml": XML.encode(), "controller.py": b""}))
    assert "closed" not in summary(report_of(fine), tmp_path)


def _with_report(folder, report):
    (folder / "report.json").write_bytes(msgspec.json.encode(report))
    return folder / "media"


def first_shelf(trial) -> bool:
    return trial.group.startswith("panda/shelf-1kg") and trial.index == 0


def test_without_a_controller_only_integration_is_lost():
    context = FakeContext(
        {"robot.xml": XML.encode()}, run=lambda t: "shelf" in t.group or "repeat" in t.group
    )
    result = verify.verify(context)
    assert result.metrics["stage_integration"] == 0.0
    assert result.metrics["stage_dynamic"] == pytest.approx(0.20)
    assert {r.ended for r in result.rows if "shelf" in r.group} == {"no_submission"}
    assert "controller.py is missing" in result.flags[0]


def test_a_controller_that_fails_to_import_loses_integration_only():
    broken = InvalidSubmission("load.time", s="30")
    files = {"robot.xml": XML.encode(), "controller.py": b"raise"}
    context = FakeContext(files, run=lambda t: "shelf" in t.group, controller=broken)
    result = verify.verify(context)
    assert result.metrics["stage_integration"] == 0.0
    assert result.metrics["stage_validity"] == pytest.approx(0.15)
    assert result.flags[0].startswith("integration scores 0") and "30" in result.flags[0]
    # Two tries, not 75: no shelf trial starts it again.
    assert {r.ended for r in result.rows if "shelf" in r.group} == {"no_submission"}


class Counting:
    """Counts its resets in the object: a fresh worker would not see the count."""

    resets = 0

    def reset(self, context, seed):
        Counting.resets += 1
        self.command = context["ctrl"] + 1e-3 * Counting.resets

    def act(self, obs):
        return np.asarray(self.command) if obs["time"] < 0.1 else np.full(3, 0.0)


def test_a_controller_that_changes_between_runs_is_caught():
    files = {"robot.xml": XML.encode(), "controller.py": b""}
    runs = ("panda/shelf-1kg", "panda/repeat")
    context = FakeContext(
        files, run=lambda t: t.group in runs and t.index == 0, controller=Counting()
    )
    result = verify.verify(context)
    repeat = next(r for r in result.rows if r.group == "panda/repeat")
    assert repeat.score == 0.0
    assert result.extra["per_arm"]["panda"]["S7.pick_compat"] == 0.0
    assert result.extra["per_arm"]["ur5e"]["S7.pick_compat"] == 1.0


def test_streams_are_named_by_draw_and_never_by_arm():
    files = {"robot.xml": XML.encode()}
    context = FakeContext(files)
    params = {"robot_xml": XML, "controller": None}
    asked = {}
    for trial in verify.trials(params):
        arm, _, test = trial.group.partition("/")
        if test in verify.DRAWN_TESTS and trial.index == 1 and test != "static":
            context.asked.clear()
            design, made, name = verify.unpack(trial)
            stream = f"dyn/{name}"
            context.rng(stream, trial.index, namespace=trial.namespace)
            asked.setdefault(test, set()).add(context.asked[0])
    assert all(len(streams) == 1 for streams in asked.values()) and len(asked) == 5


def test_one_real_scenario_makes_a_full_row():
    context = FakeContext(
        {"robot.xml": XML.encode()}, run=lambda t: t.group == "xarm7/testD1" and t.index == 0
    )
    result = verify.verify(context)
    row = next(r for r in result.rows if r.group == "xarm7/testD1")
    assert context.asked == ["hidden/dyn/testD1/0"]
    assert row.ended == "done" and 0.0 < row.score <= 1.0
    assert len(row.series["t_s"]) == len(row.series["fasm"]) == pytest.approx(72, abs=1)
    assert row.metrics["tracking"] < 0.1
    report_of(result)
    assert "N m rad of margin in test D1" in figures.sentence(row)
    names = {t.name for t in result.thresholds}
    assert f"xarm7 testD1 tracking ({row.id})" in names and "footprint x" in names


def test_every_row_has_a_sentence_and_films_are_few():
    result = verify.verify(
        FakeContext({"robot.xml": XML.encode(), "controller.py": b""}, canned=0.0)
    )
    assert all(figures.sentence(row) for row in result.rows)
    chosen = pictures.filmed(result.rows)
    assert len(chosen) == len(set(chosen)) == 3 * spec.MAX_FILMS_PER_ARM
    first_targets = {r.id for r in result.rows if r.group.endswith("/shelf-1kg")}
    few = pictures.filmed(result.rows, is_quick=True)
    assert len(few) == 3 and set(few) < first_targets & set(chosen)


def test_every_kind_of_row_can_be_written():
    """Static and bump tests of a bad chassis: events, None and infinities on the way to JSON."""
    from families.f08_mobile_base import battery, task

    design = chassis.inspect(chassis.read_text(to_xml(STARTER).encode()))
    for test in ("static", "testD2", "equilibrium", "mecanum"):
        trial = Trial(id="t", index=0, group=f"ur5e/{test}")
        robot, program = task.prepare(design, spec.ARMS[1], test, np.random.default_rng(1))
        keep = 2600 if test != "static" else 3000
        program = dataclasses.replace(
            program, twist=program.twist[:keep], arm_rad=program.arm_rad[:keep]
        )
        row = verify.scenario_row(trial, test, battery.simulate(robot, program))
        assert msgspec.json.decode(msgspec.json.encode(row), type=Row) == row


def test_span_stress_is_the_beam_formula():
    # 4040, L .416 m: W = (23.774 + .875 + 20.99) kg x 9.81 = 447.7 N; M = W L / 4 = 46.56 N m;
    # M c / I = 46.56 x .02 / 9e-8 = 10.35 MPa
    from tests.families.f08_mobile_base.designs import built

    assert pictures.span_stress_mpa(built(ORACLE))["profile_0"] == pytest.approx(10.3, abs=0.1)
