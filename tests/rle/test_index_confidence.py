"""The bootstrap: paired, seeded by the input, and only as wide as the data."""

import numpy as np
import pytest
from index_cases import cell_of, rows, scored, system, write_input

from rle.index import IndexOptions, run_index
from rle.index.confidence import Draw, can_resample, cell_replicates, generator
from rle.index.model import Cell

DRAW = Draw(generator(b"test"), 4, 2000)


def run(tmp_path, *systems, **options):
    return run_index(IndexOptions(results=(write_input(tmp_path, *systems),), **options))


def test_weights_are_the_mean_of_the_picks():
    values = np.array([0.1, 0.5, 0.9, 0.2])
    assert DRAW.weights @ values == pytest.approx(values[DRAW.picks].mean(axis=1))


def test_replicates_of_a_mean_have_the_spread_of_a_mean():
    # SD of a bootstrap mean = population SD / sqrt(n): rows 0 0 1 1 -> .5 / 2 = .25
    cell = cell_of([0.0, 0.0, 1.0, 1.0])
    values = cell_replicates(cell, DRAW)
    assert values.mean() == pytest.approx(0.5, abs=0.02)
    assert values.std() == pytest.approx(0.25, abs=0.02)


def test_a_gate_that_capped_the_reward_caps_every_replicate():
    capped = Cell(outcome="scored", reward=0.1, raw_total=0.5, rows=rows([0.0, 0.0, 1.0, 1.0]))
    values = cell_replicates(capped, DRAW)
    assert values.max() == pytest.approx(0.1)
    assert values.min() == 0.0  # four zero rows were drawn, too


def test_a_family_composition_is_used_where_the_reward_is_no_mean():
    # reward = best of the rows: one row of four is 1, so a draw misses it with (3/4)^4 = .316
    cell = Cell(outcome="scored", reward=1.0, rows=rows([0.0, 0.0, 0.0, 1.0]))
    assert not can_resample(cell, None)

    def best(found, picks):
        return np.array([row.score for row in found])[picks].max(axis=1)

    assert can_resample(cell, best)
    assert cell_replicates(cell, DRAW, best).mean() == pytest.approx(1 - 0.316, abs=0.03)


def test_one_run_and_one_row_is_constant_and_counted(tmp_path):
    found = run(tmp_path, system("s", {"f09/gello": scored(0.4)})).systems[0]
    assert found.n_constant == 1
    assert found.task("f09/gello").constant
    assert found.index.trials == pytest.approx((0.05, 0.05))


def test_one_row_and_several_runs_resamples_the_runs(tmp_path):
    runs = [{"f09/gello": scored(v)} for v in (0.0, 0.5, 1.0)]
    found = run(tmp_path, system("s", *runs)).systems[0]
    low, high = found.task("f09/gello").score.trials
    assert found.n_constant == 0
    assert low < 0.5 < high


def test_same_input_same_interval_and_other_input_another(tmp_path):
    one = system("s", {"f04/run": cell_of([0.1, 0.4, 0.2, 0.9])})
    other = system("s", {"f04/run": cell_of([0.1, 0.4, 0.2, 0.8])})
    first, again, changed = (run(tmp_path, s).systems[0].index.trials for s in (one, one, other))
    assert first == again
    assert first != changed


def test_resampling_tasks_widens_a_family_of_many_and_leaves_a_family_of_one(tmp_path):
    cells = {
        "f04/dance": cell_of([0.9, 0.9]),
        "f04/run": cell_of([0.1, 0.1]),
        "f07/bin-clearing": cell_of([0.2, 0.6]),
    }
    found = run(tmp_path, system("s", cells)).systems[0]
    f04, f07 = found.group("f04").score, found.group("f07").score
    assert f04.trials == pytest.approx((0.2, 0.2))  # equal rows: nothing to resample but the tasks
    assert f04.tasks[0] < 0.2 < f04.tasks[1]
    assert f07.tasks == f07.trials


def test_comparison_is_paired_over_the_same_trials(tmp_path):
    # b is a minus 0.1 on every trial: the difference is the same in every replicate of the trials.
    scores = np.array([0.2, 0.9, 0.4, 0.6])
    tasks = ("f07/bin-clearing",)
    a = system("a", {t: cell_of(scores) for t in tasks})
    b = system("b", {t: cell_of(scores - 0.1) for t in tasks})
    pair = run(tmp_path, a, b).comparisons[0]
    assert pair.difference == pytest.approx(0.1 / 8)
    assert pair.interval == pytest.approx((0.1 / 8, 0.1 / 8))
    assert pair.share_above == 1.0
