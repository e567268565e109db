"""Play, rows and result of f06 without a sandbox: what a run of answers is worth."""

import json
import math

import msgspec
import pytest

from families.f06_pose import ahead, figures, metrics, spec, verify
from families.f06_pose.estimators import Answer
from rle import registry
from rle.pages.charts_report import spans
from rle.report import Report, Row, flat_reward
from rle.verify_api import Checked, Trial, TrialFault
from tests.families.f06_pose.cases import Told, fault, shots_of, truth

A, B = Trial(id="a00", index=0, group="a"), Trial(id="b00", index=0, group="b")
CHECKED = Checked(kind="python", contract=msgspec.defstruct("C", [])(), files=())


def row_of(trial: Trial, shots, answer, seconds=0.05) -> Row:
    told = Told(shots, answer, seconds)
    answers, charged, ended = verify.play(told, told, shots, each=trial.group == "a")  # ty: ignore
    return verify.to_row(trial, shots, answers, charged, ended)


def test_the_truth_earns_everything():
    rows = [row_of(A, shots_of(10), truth), row_of(B, shots_of(60, 20), truth)]
    result = verify.compose(rows, is_scored=True, checked=CHECKED)
    assert result.score == 1.0 and result.metrics["deduction"] == 0.0
    assert result.metrics["rate_hz"] == pytest.approx(20.0)
    assert rows[1].metrics["occluded_fraction"] == pytest.approx(1 / 3)


def test_stage_a_resets_before_every_frame_and_stage_b_once():
    shots = shots_of(4)
    for each, resets in ((True, 4), (False, 1)):
        told = Told(shots, truth)
        verify.play(told, told, shots, each=each)  # ty: ignore
        assert told.resets == resets


@pytest.mark.parametrize("slow_s", [0.1, 0.2, 1.0, 2.0])
def test_rate_is_answered_frames_over_charged_seconds(slow_s):
    rows = [row_of(A, shots_of(10), truth, slow_s), row_of(B, shots_of(60), truth, slow_s)]
    result = verify.compose(rows, is_scored=True, checked=CHECKED)
    assert result.metrics["rate_hz"] == pytest.approx(1 / slow_s)
    assert result.score == pytest.approx(1.0 - metrics.deduction(1 / slow_s))


def test_an_unanswered_frame_counts_as_wrong_and_is_not_timed():
    def answer(k, shot):
        if k == 3:
            raise TrialFault("bad_action", "action.raised")
        return truth(k, shot)

    row = row_of(B, shots_of(10), answer)
    assert row.ended == "done" and row.score == 0.0
    assert row.metrics["answered"] == 9.0 and row.metrics["ids_right"] == 9.0
    assert row.metrics["update_s"] == pytest.approx(9 * 0.05)
    assert row.metrics["xy_worst5_m"] is None, "infinite is not a number of JSON"
    assert len(row.series["t_s"]) == 9 and 0.3 not in row.series["t_s"]


@pytest.mark.parametrize("ended", ["timeout_call", "timeout_total", "worker_died"])
def test_nobody_is_asked_again_after_the_end(ended):
    row = row_of(B, shots_of(6), fault(ended))
    assert row.ended == ended and row.metrics["answered"] == 0.0 and row.policy_s == 0.0
    result = verify.compose([row_of(A, shots_of(5), truth), row], is_scored=True, checked=CHECKED)
    assert result.metrics["frames_unanswered"] == 6.0
    assert "median_xy_mm_b" not in result.metrics, "no answered frame: the key is left out"


def test_all_silent_is_zero_and_finite():
    rows = [
        row_of(A, shots_of(10), fault("bad_action")),
        row_of(B, shots_of(6), fault("bad_action")),
    ]
    result = verify.compose(rows, is_scored=True, checked=CHECKED)
    assert result.score == 0.0 and result.metrics["rate_hz"] == 0.0
    assert all(map(math.isfinite, result.metrics.values()))


def test_frozen_answer_of_frame_0_earns_little():
    shots = shots_of(60)
    row = row_of(B, shots, lambda k, shot: Answer(shots[0].pose, 1))
    assert row.score <= 0.05


def test_reward_has_the_keys_of_the_card_and_nothing_of_the_scene():
    rows = [row_of(A, shots_of(10), truth), row_of(B, shots_of(60, 9), truth)]
    result = verify.compose(rows, is_scored=True, checked=CHECKED)
    report = Report(
        task="f06/rgb", family_version="1.0.0", outcome="scored", reward=result.score, practice=True,
        rows=rows, gates=result.gates, metrics=result.metrics, started_at="", finished_at="",
        wall_s=0.0,
    )  # fmt: skip
    flat = flat_reward(report, 20)
    card = (
        "reward g_a_mean g_b_mean deduction rate_hz gate_load gate_interface frames_a frames_b "
        "frames_unanswered shape_accuracy_a shape_accuracy_b groups_ids_right_a groups_ids_right_b "
        "median_xy_mm_a median_yaw_deg_a median_xy_mm_b median_yaw_deg_b median_xy_mm_occluded "
        "median_yaw_deg_occluded occluded_fraction_b update_ms_median update_ms_p95 update_s_total"
    ).split()
    assert set(card) <= set(flat)
    text = json.dumps(msgspec.to_builtins(rows))
    assert not {"seed", "pose", "shape_id", "yaw_rad"} & set(text.replace('"', " ").split())
    keys = {"frames", "answered", "ids_right", "ids_ok", "xy_worst5_m", "yaw_worst5_rad", "g"}
    assert keys | {"occluded_fraction", "update_s"} == set(rows[0].metrics)


def test_trials_of_a_run():
    scored = verify.trials_of("scored")
    assert [t.id for t in scored] == [f"{s}{i:02d}" for s in "ab" for i in range(10)]
    assert [t.id for t in verify.trials_of("quick")] == ["a00", "b00"]
    design = verify.trials_of("design")
    assert {t.namespace for t in design} == {"design"} and len(design) == 6


def test_the_estimator_has_the_last_cpu_and_renderers_the_others(monkeypatch):
    monkeypatch.setattr(ahead.os, "sched_getaffinity", lambda pid: {0, 1, 5})
    assert ahead.cpus() == ({0, 1}, {5})
    monkeypatch.setattr(ahead.os, "sched_getaffinity", lambda pid: {3})
    assert ahead.cpus() == ({3}, {3})


def test_page_hooks():
    good = row_of(B, shots_of(60, 20), truth)
    assert figures.sentence(good).startswith("60 of 60 frames answered, all shapes right; worst")
    bad = row_of(B, shots_of(6), fault("worker_died"))
    assert figures.sentence(bad) == (
        "0 of 6 frames answered, 0 of 6 shapes right; ended by worker died"
    )
    result = verify.compose(
        [row_of(A, shots_of(5), truth, 0.5), bad], is_scored=True, checked=CHECKED
    )
    report = Report(
        task="f06/rgb", family_version="1.0.0", outcome="scored", reward=result.score, practice=True,
        metrics=result.metrics, started_at="", finished_at="", wall_s=0.0,
    )  # fmt: skip
    assert sum(p.value for p in figures.parts(report)) == pytest.approx(result.score)


def test_hidden_frames_are_shaded_as_spans():
    time_s = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    got = spans(time_s, [0, 1, 1, 0, 0, 1])
    assert [v for span in got for v in span] == pytest.approx([0.05, 0.25, 0.45, 0.55])
    assert spans([], []) == [] and spans(time_s, []) == []


def test_all_four_tasks_share_scenes_under_one_salt():
    keys = {registry.get(t).draw_key for t in registry.family_tasks("f06")}
    assert len(keys) == 1 and spec.N_GROUPS_A + spec.N_PUSHES_B == 20


def test_frames_drawn_ahead_in_pieces_are_those_drawn_here(monkeypatch):
    from families.f06_pose import task

    channels = ("rgb", "depth")
    streams = tuple(task.open_streams("public", "single", k) for k in (3, 4))
    trial = ahead.Scenes("single", streams, 2, channels)
    monkeypatch.setattr(spec, "RENDER_PIECE_FRAMES", 1)
    here = ahead.shoot(trial)
    with ahead.Ahead([trial], 1) as frames:
        there = frames.shots(0)
        assert frames.shots(0) is there, "asked again, the present trial is not drawn anew"
    assert [s.pose for s in here] == [s.pose for s in there]
    for a, b in zip(here, there, strict=True):
        assert a.obs["rgb"].tobytes() == b.obs["rgb"].tobytes()
        assert a.obs["depth"].tobytes() == b.obs["depth"].tobytes()
