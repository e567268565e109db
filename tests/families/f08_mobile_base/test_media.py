"""What a reader sees: films of the scored trials themselves, curves, and checks that decide the score."""

import dataclasses

import imageio_ffmpeg
import msgspec
import numpy as np

from families.f08_mobile_base import battery, pictures, shelf, spec, task, verify
from rle.report import Row
from rle.verify_api import Trial
from tests.families.f08_mobile_base.designs import ORACLE, built
from tests.families.f08_mobile_base.fakes import FakeContext
from tests.families.f08_mobile_base.test_verify import report_of
from train_baselines.oracles.f08_frames import to_xml

ORACLE_XML = to_xml(ORACLE)


def test_a_film_shows_the_states_of_the_scored_trial_and_plays_nothing_again(tmp_path, monkeypatch):
    context = FakeContext({"robot.xml": ORACLE_XML.encode()})
    planned = verify.trials({"robot_xml": ORACLE_XML, "controller": None})
    trial = next(t for t in planned if t.group == "ur5e/testD1")
    row = verify.run_trial(context, trial)
    states = context.kept(trial.id)
    assert row.ended == "done" and states.shape == (180, 7 + 4 + 64 + 6)  # 7.2 s at 25 Hz
    (tmp_path / "report.json").write_bytes(msgspec.json.encode(report_of(verify.verify(context))))
    shown = []
    monkeypatch.setattr(
        verify, "film", lambda ctx, trial, states, path: shown.append((path.name, states))
    )
    for name in ("write_pictures", "plot_margins"):
        monkeypatch.setattr(pictures, name, lambda *args: None)
    monkeypatch.setattr(verify.battery, "simulate", None)
    verify.media(context, tmp_path / "media")
    assert [(name, s is states) for name, s in shown] == [(f"{trial.id}.mp4", True)]


def test_a_film_has_every_state_as_a_frame(tmp_path):
    context = FakeContext({"robot.xml": ORACLE_XML.encode()})
    params = {"robot_xml": ORACLE_XML, "controller": None}
    trial = next(t for t in verify.trials(params) if t.group == "panda/shelf-1kg")
    design, arm, _ = verify.unpack(trial)
    start = shelf.make_robot(design, arm, 1.0).stowed(np.array(spec.SHELF_START_M)).qpos
    verify.film(context, trial, np.tile(start, (5, 1)), tmp_path / "t.mp4")
    read = imageio_ffmpeg.read_frames(str(tmp_path / "t.mp4"))
    facts, *frames = read
    assert facts["size"] == (640, 360) and facts["fps"] == spec.VIDEO_HZ and len(frames) == 5
    assert np.std(np.frombuffer(frames[2], np.uint8)) > 20.0  # something is seen
    assert {p.suffix for p in tmp_path.iterdir()} == {".mp4", ".jpg", ".png"}


def test_checks_show_the_worst_trial_of_each_arm_and_test_and_no_limit_that_decides_nothing():
    def row(name, group, tracking, fasm, tilt):
        measured = {"tracking": tracking, "fasm_min": fasm, "tilt_max_deg": tilt, "n_events": 0.0}
        return Row(
            id=name,
            group=group,
            score=1.0,
            ended="done",
            metrics={**measured, "longest_event_s": 0.0},
        )

    rows = [
        row("t1", "panda/testB", 0.05, 30.0, 0.3),
        row("t2", "panda/testB", 0.09, 12.0, 0.2),
        row("t3", "ur5e/testB", 0.01, 9.0, 0.1),
        row("t4", "panda/testD2", 0.33, -44.0, 16.0),
    ]
    checks = pictures.thresholds(built(ORACLE), rows)
    found = {c.name: (c.measured, c.passed) for c in checks}
    assert found["panda testB margin (t2)"] == (12.0, True)
    assert found["panda testB tilt (t1)"] == (0.3, True)
    assert found["panda testB tracking (t2)"] == (0.09, True)
    assert found["ur5e testB margin (t3)"] == (9.0, True)
    # Test D2 pays for lift-offs and tilt below 15 deg; its margin decides nothing.
    assert found["panda testD2 tilt (t4)"] == (16.0, False)
    assert found["panda testD2 longest lift-off (t4)"] == (0.0, True)
    assert len(checks) == 4 + 4 + 4 + 3 and not any("testD2 margin" in name for name in found)


def test_a_margin_that_is_lost_hides_no_curve():
    robot, program = task.prepare(built(ORACLE), spec.ARMS[0], "testD2", np.random.default_rng(1))
    few = 100
    program = dataclasses.replace(program, twist=program.twist[:few], arm_rad=program.arm_rad[:few])
    trace = battery.simulate(robot, program)
    trace.__dict__["force_angle"] = np.linspace(-100.0, 80.0, few)
    row = verify.scenario_row(Trial(id="t", index=0, group="panda/testD2"), "testD2", trace)
    assert row.series["fasm"] == [spec.SERIES_FASM_FLOOR, -9.0909]  # every 50th step
    assert row.metrics["fasm_min"] <= 0.0


def test_the_curve_of_the_static_margin_keeps_the_bar_in_sight():
    robot, program = task.prepare(built(ORACLE), spec.ARMS[0], "static", np.random.default_rng(1))
    few = 150  # the robot starts above the floor, without a contact: the margin is minus infinity
    program = dataclasses.replace(program, twist=program.twist[:few], arm_rad=program.arm_rad[:few])
    row = verify.scenario_row(
        Trial(id="t", index=0, group="panda/static"), "static", battery.simulate(robot, program)
    )
    assert row.series["ssm_m"][0] == spec.SERIES_SSM_FLOOR_M < 0.0 < row.series["ssm_m"][1]
    assert abs(spec.SERIES_SSM_FLOOR_M) < 5 * spec.SSM_ZERO_M


def test_the_floor_of_a_film_is_drawn_otherwise_and_touched_alike():
    robot, program = task.prepare(
        built(ORACLE), spec.ARMS[2], "equilibrium", np.random.default_rng(1)
    )
    program = dataclasses.replace(program, twist=program.twist[:50], arm_rad=program.arm_rad[:50])
    plain = battery.simulate(robot, program)
    pictures.simplify_floor(robot.model)
    assert robot.model.geom("floor").size[0] == spec.FILM_FLOOR_M
    assert np.array_equal(plain.last_qpos, battery.simulate(robot, program).last_qpos)
