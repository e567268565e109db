"""The arithmetic of the Index, with the numbers worked by hand."""

import numpy as np
import pytest
from index_cases import cell_of, rows, scored, system, write_input

from rle import registry
from rle.index import IndexOptions, run_index
from rle.index.failures import category
from rle.index.fold import FULL_SET, fold_mean, lift, pass_at_k
from rle.index.model import Cell
from rle.report import ErrorRecord
from rle.stats import population_sd, sample_sd


def index_of(tmp_path, *systems, **options):
    return run_index(IndexOptions(results=(write_input(tmp_path, *systems),), **options))


def test_worked_example_families_workflows_index():
    # .9 .6 .3 | .8 .4 | .5 .7 | .2 .6 -> workflows .6 .6 .6 .4 -> S = .55
    families = np.array([0.9, 0.6, 0.3, 0.8, 0.4, 0.5, 0.7, 0.2, 0.6])
    assert FULL_SET.workflow_means(families) == pytest.approx([0.6, 0.6, 0.6, 0.4])
    assert FULL_SET.index(families) == pytest.approx(0.55)


def test_the_denominator_is_always_the_51(tmp_path):
    # One task of five in f04, alone: S_f04 = 1/5, S_policy = (1/5 + 0)/2, S_RLE = 1/40.
    result = index_of(tmp_path, system("one", {"f04/dance": scored(1.0)}))
    found = result.systems[0]
    assert found.group("f04").score.value == pytest.approx(1 / 5)
    assert found.group("policy learning").score.value == pytest.approx(1 / 10)
    assert found.index.value == pytest.approx(1 / 40)
    assert found.available == pytest.approx(1.0)
    assert (found.counts.n_scored, found.counts.n_not_run) == (1, 50)


def test_everything_right_is_one_and_nothing_is_zero(tmp_path):
    full = system("all", {t: scored(1.0) for t in registry.TASK_IDS})
    nothing = system("none", {})
    result = index_of(tmp_path, full, nothing)
    assert [s.index.value for s in result.systems] == pytest.approx([1.0, 0.0])


def test_worked_example_runs_over_a_set_of_two():
    # {a 1, b 1}, {a .5}, {} -> 1, .25, 0: mean .416667, population SD .424918, sample SD .520416
    runs = np.array([[1.0, 1.0], [0.5, 0.0], [0.0, 0.0]]).mean(axis=1).tolist()
    assert runs == pytest.approx([1.0, 0.25, 0.0])
    assert np.mean(runs) == pytest.approx(0.416667, abs=1e-6)
    assert population_sd(runs) == pytest.approx(0.424918, abs=1e-6)
    assert sample_sd(runs) == pytest.approx(0.520416, abs=1e-6)


def test_runs_are_averaged_with_missing_tasks_as_zero(tmp_path):
    # The example above with a and b in two single-task families of one workflow: S = workflow / 4.
    runs = (
        {"f08/mobile-base": scored(1.0), "f09/gello": scored(1.0)},
        {"f08/mobile-base": scored(0.5)},
        {},
    )
    found = index_of(tmp_path, system("three", *runs)).systems[0]
    assert found.run_index == pytest.approx([1 / 4, 0.25 / 4, 0.0])
    assert found.group("mechanical design").score.value == pytest.approx(0.416667, abs=1e-6)
    assert found.population_sd == pytest.approx(0.424918 / 4, abs=1e-6)
    assert found.sample_sd == pytest.approx(0.520416 / 4, abs=1e-6)
    assert found.at_k[1].mean == pytest.approx((1 / 4 + 0.25 / 4) / 2)


def test_one_run_has_no_sample_sd(tmp_path):
    found = index_of(tmp_path, system("one", {"f04/run": scored(0.4)})).systems[0]
    assert found.sample_sd is None and found.population_sd == 0.0


def test_a_run_that_is_announced_and_absent_counts_zero(tmp_path):
    found = index_of(tmp_path, system("s", {"f04/run": scored(0.6)}), runs=3).systems[0]
    assert found.task("f04/run").score.value == pytest.approx(0.2)
    assert found.task("f04/run").available == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        (3, 1, 1, 1 / 3),
        (3, 1, 3, 1.0),
        (3, 0, 3, 0.0),
        (4, 2, 2, 1 - 1 / 6),  # C(2,2)/C(4,2) = 1/6
        (2, 1, 3, None),
    ],
)
def test_pass_at_k(n, c, k, expected):
    value = pass_at_k(n, c, k)
    assert value == (None if expected is None else pytest.approx(expected))


def test_lift():
    assert lift(0.6, 0.2) == pytest.approx(0.5)  # (.6 - .2) / .8
    assert lift(0.1, 0.2) == 0.0
    assert lift(1.0, 0.2) == 1.0


def test_costs_fold_like_scores_over_what_is_known():
    # f04 dance 2, run 4 -> 3; f05 one task 5 -> workflow (3 + 5)/2 = 4; f07 8 -> 8: mean (4 + 8)/2
    usd = {"f04/dance": 2.0, "f04/run": 4.0, "f05/libero-open": 5.0, "f07/bin-clearing": 8.0}
    assert fold_mean(usd) == pytest.approx(6.0)
    assert fold_mean({}) is None


def test_resources_are_null_where_nobody_measured(tmp_path):
    cells = {
        "f04/run": scored(
            0.1, cost_usd=2.5, input_tokens=10, status="agent_timeout",
            started_at="2026-11-29T10:00:00Z", finished_at="2026-11-29T11:30:00Z",
        ),
        "f04/dance": scored(0.1),
    }  # fmt: skip
    found = index_of(tmp_path, system("s", cells)).systems[0].resources
    assert (found.total_usd, found.mean_usd, found.coverage) == (2.5, 2.5, 1)
    assert (found.input_tokens, found.output_tokens) == (10, None)
    assert found.mean_hours == pytest.approx(1.5)
    assert found.failed == 1


def test_systems_are_sorted_and_compared_in_pairs(tmp_path):
    low = system("low", {"f04/run": cell_of([0.1, 0.2, 0.1])})
    high = system("high", {"f04/run": cell_of([0.8, 0.9, 0.7])})
    result = index_of(tmp_path, low, high)
    assert [s.name for s in result.systems] == ["high", "low"]
    pair = result.comparisons[0]
    assert (pair.a, pair.b) == ("high", "low")
    # (.8 - .13333) x 1/5 x 1/2 x 1/4
    assert pair.difference == pytest.approx((0.8 - 0.4 / 3) / 40)
    assert pair.interval[0] < pair.difference < pair.interval[1]


def test_csv_has_every_cell_and_every_native_metric(tmp_path):
    cells = {"f04/run": scored(0.123456789, metrics={"mpjpe_m": 0.0812345678})}
    lines = index_of(tmp_path, system("s", cells)).to_csv().splitlines()
    head = lines[0].split(",")
    row = next(line for line in lines if "f04/run" in line).split(",")
    assert len(lines) == 1 + 51
    assert row[head.index("reward")] == "0.123456789"
    assert row[head.index("mpjpe_m")] == "0.0812345678"
    missing = next(line for line in lines if "f09/gello" in line).split(",")
    assert missing[head.index("outcome")] == "not_run"
    assert missing[head.index("reward")] == missing[head.index("mpjpe_m")] == ""


def test_summary_never_prints_a_zero_for_what_was_not_run(tmp_path):
    text = index_of(tmp_path, system("s", {"f04/run": scored(0.5)})).summary()
    f01 = next(line for line in text.splitlines() if "f01" in line)
    assert "-  not run" in f01 and " 0/15 scored" in f01 and "0.0" not in f01
    assert "50 not run (count 0)" in text


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (Cell(outcome="not_run"), "not_run"),
        (Cell(outcome="infrastructure_error"), "environment_failure"),
        (Cell(outcome="budget_exceeded", reward=0.0), "budget_exhausted"),
        (Cell(outcome="invalid_submission", reward=0.0), "invalid_submission"),
        (
            Cell(
                outcome="invalid_submission",
                reward=0.0,
                errors=[ErrorRecord(code="file.none", message="")],
            ),
            "no_submission",
        ),
        (Cell(outcome="invalid_submission", reward=0.0, status="agent_timeout"), "agent_timeout"),
        (scored(1.0), "solved"),
        (scored(1.0, status="agent_timeout"), "solved"),
        (scored(0.0), "declared_done_but_failed"),
        (scored(0.0, status="agent_timeout"), "agent_timeout"),
        (scored(0.0, status="agent_error"), "agent_gave_up"),
        (scored(0.0, rows=rows([0.0], ended="no_interaction")), "agent_gave_up"),
        (scored(0.0, rows=rows([0.0], ended="budget")), "budget_exhausted"),
    ],
)
def test_terminal_categories(cell, expected):
    assert category("f04/dance", cell) == expected


def test_partial_lies_between_floor_and_pass_mark():
    spec = registry.get("f04/dance")
    just_below = scored(spec.pass_mark - 1e-6)
    assert category("f04/dance", just_below) == "partial"
    assert category("f04/dance", scored(spec.pass_mark)) == "solved"
    assert category("f04/dance", scored(spec.floor)) == "declared_done_but_failed"
