"""Card f06 section 7: worked example, limits, tolerances, non-finite input."""

import math

import numpy as np
import pytest

from families.f06_pose import metrics, spec
from rle.report import Row

XY_MM = (2, 3, 1, 4, 5, 6, 2, 8, 1, 3)
YAW = (0.01, 0.02, 0.005, 0.03, 0.01, 0.08, 0.04, 0.02, 0.01, 0.05)
RIGHT = [True] * 10


def test_worked_example():
    # Worst five: 8 6 5 4 3 mm, mean 5.2; .08 .05 .04 .03 .02 rad, mean .044
    # g = .5 e^-.2704 + .5 e^-.1936 = .793531
    xy = [v / 1000 for v in XY_MM]
    assert metrics.worst_mean(xy) == pytest.approx(0.0052)
    assert metrics.worst_mean(YAW) == pytest.approx(0.044)
    g = metrics.group_score(xy, YAW, RIGHT)
    assert g == pytest.approx(0.793531, abs=5e-7)
    assert metrics.group_score(xy, YAW, [*RIGHT[:-1], False]) == 0.0
    # mean g_B .6, nu 7: D = .2 x 3 / 9 = .066667; R = .3 g + .42 - D = .591393
    assert metrics.deduction(7.0) == pytest.approx(0.066667, abs=5e-7)
    assert metrics.score([g] * 10, [0.6] * 10, 7.0) == pytest.approx(0.591393, abs=5e-7)


def test_limits():
    assert metrics.group_score([0.0] * 10, [0.0] * 10, RIGHT) == 1.0
    at_width = metrics.group_score([spec.KERNEL_XY_M] * 10, [spec.KERNEL_YAW_RAD] * 10, RIGHT)
    assert at_width == pytest.approx(0.367879, abs=5e-7)
    assert metrics.deduction(10.0) == 0.0 == metrics.deduction(math.inf)
    assert 0.0 < metrics.deduction(9.99) < 0.001
    assert metrics.deduction(1.0) == metrics.deduction(0.0) == pytest.approx(0.2)
    assert metrics.score([0.0], [0.0], 0.0) == 0.0, "the deduction never makes R negative"
    assert metrics.score([1.0], [1.0], 10.0) == pytest.approx(1.0)


def test_ten_millimetres_off_with_exact_yaw():
    # .5 e^-1 + .5 = .683940
    assert metrics.group_score([0.01] * 10, [0.0] * 10, RIGHT) == pytest.approx(0.683940, abs=5e-7)


@pytest.mark.parametrize("turns", [-2, -1, 0, 1, 3])
def test_full_turns_change_nothing(turns):
    truth = (0.1, -0.2, 3.1)
    xy, yaw = metrics.errors((0.1, -0.2, 3.1 + 2 * math.pi * turns), truth)
    assert xy == 0.0 and yaw == pytest.approx(0.0, abs=1e-12)


def test_yaw_wraps_over_pi():
    assert metrics.errors((0, 0, math.pi - 0.01), (0, 0, -math.pi + 0.01))[1] == pytest.approx(0.02)


@pytest.mark.parametrize(
    "answer",
    [None, (0.4501, 0, 0), (0, -0.4501, 0), (math.nan, 0, 0), (0, 0, math.inf), (-math.inf, 0, 0)],
)
def test_no_answer_has_infinite_errors(answer):
    assert metrics.errors(answer, (0.0, 0.0, 0.0)) == (math.inf, math.inf)


def test_limit_of_the_area_is_inside():
    xy, _ = metrics.errors((0.45, 0.0, 0.0), (0.0, 0.0, 0.0))
    assert xy == pytest.approx(0.45)


def test_one_lost_frame_spoils_a_group():
    xy = [0.001] * 9 + [math.inf]
    assert metrics.group_score(xy, xy, RIGHT) == 0.0, "exp(-inf) = 0"


def test_fewer_than_five_frames_count_all():
    assert metrics.worst_mean([0.001, 0.003]) == pytest.approx(0.002)


def test_more_error_never_scores_more():
    rng = np.random.default_rng(1)
    for _ in range(50):
        xy, yaw = rng.uniform(0, 0.02, 10), rng.uniform(0, 0.2, 10)
        worse = xy.copy()
        worse[rng.integers(10)] += 0.005
        assert metrics.group_score(worse, yaw, RIGHT) <= metrics.group_score(xy, yaw, RIGHT)


def test_empty_or_ragged_groups_are_bugs():
    with pytest.raises(ValueError, match="0, 0 and 0"):
        metrics.group_score([], [], [])
    with pytest.raises(ValueError, match="1, 2 and 1"):
        metrics.group_score([0.0], [0.0, 0.0], [True])


def test_rate():
    assert metrics.rate_hz(600, 30.0) == 20.0
    assert metrics.rate_hz(0, 0.0) == 0.0


def test_resampling_every_row_once_gives_the_score():
    rows = [
        Row(
            id=f"{stage}{i}", group=stage, score=0.1 * i, ended="done",
            metrics={"answered": 60.0, "update_s": 10.0},
        )
        for stage in "ab" for i in range(4)
    ]  # fmt: skip
    values = metrics.resampled_scores(rows, np.array([[0, 1, 2, 3, 0, 1, 2, 3], [0] * 8]))
    g = [0.0, 0.1, 0.2, 0.3]
    assert values[0] == pytest.approx(metrics.score(g, g, 6.0))
    assert values[1] == 0.0
