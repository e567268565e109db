"""The record: flat and finite reward, strict decoding, stated denominators."""

import math
from typing import get_args

import msgspec
import pytest

from rle.report import (
    DENOMINATOR,
    IsolationRecord,
    Outcome,
    Report,
    Row,
    Threshold,
    flat_reward,
    read_report,
)  # fmt: skip


def report(**changes) -> Report:
    base = dict(
        task="f04/dance", family_version="1.0.0", outcome="scored", reward=0.5, practice=True,
        started_at="2026-01-01T00:00:00Z", finished_at="2026-01-01T00:00:01Z", wall_s=1.0,
        rows=[Row(id="t00", score=0.5, ended="done"), Row(id="t01", score=0.0, ended="worker_died")],
    )  # fmt: skip
    return Report(**{**base, **changes})


def test_every_outcome_states_its_denominator():
    assert set(DENOMINATOR) == set(get_args(Outcome))


def test_flat_reward_counts_missing_trials_as_failed():
    flat = flat_reward(report(metrics={"b": 2.0, "a": 1.0}), n_trials=8)
    assert (flat["trials_total"], flat["trials_ok"], flat["trials_failed"]) == (8, 1, 7)
    assert flat["reward"] == 0.5 and flat["practice"] == 1.0 and flat["gated"] == 0.0
    assert list(flat) == sorted(flat)


def test_marks_are_numbers_in_the_reward():
    marked = report(gates={"stable": False}, isolation=IsolationRecord(mode="reduced"))
    flat = flat_reward(marked, 2)
    assert flat["gated"] == 1.0 and flat["isolation_reduced"] == 1.0


def test_no_reward_and_non_finite_numbers_are_refused():
    with pytest.raises(ValueError, match="writes no reward"):
        flat_reward(report(outcome="infrastructure_error", reward=None), 2)
    with pytest.raises(ValueError, match="these are not: mpjpe_m"):
        flat_reward(report(metrics={"mpjpe_m": math.nan}), 2)


def test_round_trip_and_foreign_schema():
    data = msgspec.json.encode(report())
    assert read_report(data) == report()
    with pytest.raises(msgspec.ValidationError, match="regrade"):
        read_report(msgspec.json.encode(report(schema="rle-report/0")))


def test_threshold_is_passed_on_the_limit_and_failed_by_nan():
    def check(value):
        return Threshold(name="x", measured=value, limit=1.0, unit="m", sense="at_most").passed

    assert check(1.0) and not check(1.0001) and not check(math.nan)
