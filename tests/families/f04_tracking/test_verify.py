"""The protocol: smoke runs and gates, rows, faults of a policy, the design evaluator, the video."""

import numpy as np
import pytest

from families.f04_tracking import dev, draws, metrics, policy, spec, task, verify
from rle.report import Row
from rle.verify_api import Trial, TrialFault
from tests.families.f04_tracking import graphs
from tests.families.f04_tracking.fakes import FakeContext, context_of

OPEN_LOOP = graphs.open_loop(4).SerializeToString()


@pytest.fixture(scope="module")
def result():
    """One whole run of an open-loop graph."""
    return verify.verify(context_of("dance", OPEN_LOOP, history=4))


def zero(frames: np.ndarray) -> np.ndarray:
    return np.zeros((1, spec.ACTION_DIM), np.float32)


def test_eight_rows_in_order_and_the_mean(result):
    assert [row.id for row in result.rows] == [f"t{i:02d}" for i in range(8)]
    assert result.raw_total == pytest.approx(np.mean([row.score for row in result.rows]))
    assert result.score == result.raw_total and result.scored
    assert result.gates == {"valid": True, "stable": True, "deterministic": True}
    assert result.reference == "stand-in" and len(result.extra["reference_sha256"]) == 64


def test_a_row_follows_from_its_own_numbers(result):
    limit = result.metrics["jerk_limit"]
    for row in result.rows:
        m = row.metrics
        assert row.score == metrics.score(m["T"], m["U"], m["J"], limit, bool(m["F"]))
        assert m["survived_s"] == pytest.approx(20.0 * m["U"])
        assert row.ended in {"anchor_z", "tilt", "ee_z"} and m["F"] == 1.0
        assert max(m["worst_anchor_z"] / 0.25, m["worst_tilt"] / 0.8, m["worst_ee_z"] / 0.25) > 1.0


def test_a_row_draws_its_trial(result):
    for row in result.rows:
        curves = row.series
        assert len({len(v) for v in curves.values()}) == 1
        assert curves["t_s"][-1] == pytest.approx(row.metrics["survived_s"])
        assert np.mean(curves["error_m"]) == pytest.approx(row.metrics["mpjpe_m"], rel=0.5)
        assert max(curves["fall_share"]) <= 1.0  # the failing step is not an executed one
        time_s, text = row.events[-1]
        assert text.startswith("fall: ") and time_s == pytest.approx(curves["t_s"][-1] + 0.02)


def test_reward_metrics_are_flat_and_finite(result):
    assert set(verify.REWARD_KEYS) <= set(result.metrics)
    assert {"raw_total", "jerk_limit", "n_params", "gate_valid"} <= set(result.metrics)
    assert np.isfinite(list(result.metrics.values())).all()


def test_thresholds_name_the_rule_that_ended_each_trial(result):
    failed = {t.name for t in result.thresholds if not t.passed}
    assert failed == {f"{row.id} {row.ended}" for row in result.rows}


def test_same_submission_same_result(result):
    again = verify.verify(context_of("dance", OPEN_LOOP, history=4))
    assert again.score == result.score
    for a, b in zip(again.rows, result.rows):
        assert (a.metrics, a.series, a.events, a.ended) == (b.metrics, b.series, b.events, b.ended)


def test_another_salt_gives_other_trials(result):
    ctx = context_of("dance", OPEN_LOOP, history=4)
    ctx.salt = b"another salt of at least 32 bytes .................."
    rows = ctx.map_trials(
        verify.run_trial, verify.hidden_trials({"history": 4, "profile": "full"})[:2]
    )
    assert [r.metrics["T"] for r in rows] != [r.metrics["T"] for r in result.rows[:2]]


def test_every_trial_has_a_fresh_worker():
    ctx = FakeContext("dance", lambda: zero)
    verify.verify(ctx)
    assert ctx.workers == spec.N_SMOKE_RUNS + spec.N_HIDDEN


@pytest.mark.parametrize("profile", [p for p in spec.PROFILES if p != "full"])
def test_other_profiles_are_not_scored(profile):
    ctx = FakeContext("dance", lambda: zero, options={"profile": profile})
    result = verify.verify(ctx)
    assert not result.scored and result.extra["profile"] == profile


def test_a_policy_that_is_not_deterministic_is_capped():
    """Smoke runs that differ in one bit close the gate; the reward is at most 0.1."""
    calls = iter(range(100))

    def make():
        run = next(calls)
        return lambda frames: zero(frames) + np.float32(1e-7 * run)

    result = verify.verify(FakeContext("dance", make))
    assert result.gates == {"valid": True, "stable": True, "deterministic": False}
    rows = [row_of(0.9, "done") for _ in range(8)]
    clip, meta = verify.load_clip("dance"), policy.Meta(obs_history_length=1)
    smoke = [smoke_row("done", 1.0), smoke_row("done", 2.0)]
    capped = verify.compose(clip, "full", meta, {}, smoke, rows)
    assert (capped.score, capped.raw_total) == (spec.GATE_CAP, pytest.approx(0.9))


def smoke_row(ended: str, mark: float) -> Row:
    return Row(id="s", score=0.0, ended=ended, series={"fingerprint": [mark]})


def row_of(score: float, ended: str, trial_id: str = "t") -> Row:
    return Row(
        id=trial_id, score=score, ended=ended, metrics={"T": 1.0, "U": 1.0, "J": 0.0, "F": 0.0}
    )


@pytest.mark.parametrize("ended", ["sim_unstable", "bad_action", "timeout_call", "worker_died"])
def test_a_smoke_run_that_breaks_closes_the_gate(ended):
    assert not verify.gates([smoke_row(ended, 1.0), smoke_row(ended, 1.0)])["stable"]


@pytest.mark.parametrize("ended", ["done", "anchor_z", "tilt", "ee_z"])
def test_an_ordinary_fall_in_the_smoke_run_does_not(ended):
    assert all(verify.gates([smoke_row(ended, 1.0), smoke_row(ended, 1.0)]).values())


def test_fingerprint_sees_the_last_bit():
    clip = verify.load_clip("dance")
    drawn = draws.trial_draws(dev.design_streams("dance", 101), clip.body_pos_w)
    record = task.play(task.Trial(clip, drawn), zero)
    before = verify.fingerprint(record)
    record.action[3, 4] = np.nextafter(record.action[3, 4], 1.0)
    assert verify.fingerprint(record) != before


@pytest.mark.parametrize("ended", ["timeout_call", "timeout_total", "worker_died"])
def test_three_dead_policies_end_the_protocol(ended):
    rows = [row_of(0.5, "done" if i in (0, 2) else ended, f"t{i:02d}") for i in range(8)]
    kept = verify.stop_after_faults(rows)
    assert [row.ended for row in kept] == ["done", ended, "done", ended, ended] + ["not_run"] * 3
    assert [row.score for row in kept[5:]] == [0.0] * 3
    assert [row.id for row in kept] == [row.id for row in rows]


def test_two_dead_policies_do_not():
    rows = [row_of(0.5, "worker_died" if i < 2 else "done") for i in range(8)]
    assert verify.stop_after_faults(rows) == rows


def test_not_run_counts_as_a_fall_that_survived_nothing():
    rows = verify.stop_after_faults([row_of(0.0, "worker_died")] * 3 + [row_of(1.0, "done")] * 5)
    clip, meta = verify.load_clip("dance"), policy.Meta(obs_history_length=1)
    result = verify.compose(clip, "full", meta, {}, [smoke_row("done", 1.0)] * 2, rows)
    assert result.score == 0.0
    assert result.metrics["survival"] == pytest.approx(3 / 8)
    assert result.metrics["falls"] == pytest.approx(5 / 8)


def test_a_fault_of_the_worker_ends_the_trial_as_a_fall():
    def make():
        calls = iter(range(100))

        def act(frames):
            return TrialFault("timeout_call", "worker.time") if next(calls) == 5 else zero(frames)

        return act

    row = verify.run_trial(
        FakeContext("dance", make),
        Trial(id="t00", index=0, params={"history": 1, "profile": "full"}),
    )
    assert row.ended == "timeout_call" and row.metrics["F"] == 1.0
    assert row.metrics["U"] == 0.005  # five steps were executed
    assert row.events[-1][1] == "timeout_call"


def test_a_policy_that_dies_at_once_measures_nothing_and_scores_nothing():
    ctx = FakeContext("dance", lambda: lambda frames: TrialFault("worker_died", "worker.died"))
    result = verify.verify(ctx)
    assert result.score == 0.0 and not result.gates["stable"]
    assert [row.ended for row in result.rows] == ["worker_died"] * 3 + ["not_run"] * 5
    assert result.rows[0].metrics["mpjpe_m"] is None and "mpjpe_m" not in result.metrics


def test_wrong_parameter_count_in_the_meta_file_is_only_a_flag():
    clip, meta = verify.load_clip("dance"), policy.Meta(obs_history_length=1, n_params=7)
    smoke = [smoke_row("done", 1.0)] * 2
    result = verify.compose(
        clip, "full", meta, {"n_parameters": 8}, smoke, [row_of(0.5, "done")] * 8
    )
    assert result.score == 0.5 and len(result.flags) == 1


def test_film_of_a_trial(tmp_path):
    ctx = context_of("dance", OPEN_LOOP, history=4)
    trial = verify.hidden_trials({"history": 4, "profile": "full"})[0]
    verify.film(ctx, trial, tmp_path / "trial0.mp4")
    video, poster = tmp_path / "trial0.mp4", tmp_path / "trial0.jpg"
    assert b"ftyp" in video.read_bytes()[:16] and video.stat().st_size > 5_000
    assert poster.read_bytes()[:2] == b"\xff\xd8"
