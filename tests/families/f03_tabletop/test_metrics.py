"""Card f03 section 7: worked examples to six digits, limits, and what a bug must not hide as."""

import math

import pytest

from families.f03_tabletop import metrics as m
from families.f03_tabletop import spec as s

NOMINAL = (1.0,) * 12


def test_tower_optimum_is_the_column_of_faces_plus_the_best_cap():
    # 64+52+42 + 82+60+120 + 20+16 = 456 mm, and the wedge of 90 mm on its small face.
    assert m.flat_stack_m(NOMINAL) == pytest.approx(0.456)
    assert m.tower_optimum_m(NOMINAL) == pytest.approx(0.546)
    larger = tuple(1.1 if p.name == "wedge_b" else 1.0 for p in s.PIECES)
    assert m.tower_optimum_m(larger) == pytest.approx(0.546), "0.088 m is still below 0.090 m"


@pytest.mark.parametrize(
    ("height", "score"), [(0.456, 0.835165), (0.56, 1.0), (0.0, 0.0), (-0.1, 0.0)]
)
def test_tower(height, score):
    assert m.tower(height, m.tower_optimum_m(NOMINAL)) == pytest.approx(score, abs=1e-6)


def test_cantilever():
    # o_opt = (15 - 4 sqrt 2)/8 L = 1.1678932 L = 0.1401472 m; the harmonic stack has 25/24 L.
    assert pytest.approx(0.1401472, abs=1e-7) == s.CANTILEVER_OPT_M
    assert m.cantilever(25 / 24 * s.BLOCK_LENGTH_M) == pytest.approx(0.891919, abs=1e-6)
    assert m.cantilever(-0.05) == 0.0
    assert m.cantilever(0.2) == 1.0


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_measurement_that_is_not_finite_is_a_bug(value):
    with pytest.raises(ValueError, match="finite"):
        m.tower(value, 0.5)
    with pytest.raises(ValueError, match="finite"):
        m.cantilever(value)


@pytest.mark.parametrize(("w", "score"), [(0, 1.0), (1, 1.0), (2, 1.0), (3, 2 / 3), (8, 0.25)])
def test_balance_weighings(w, score):
    assert m.balance(frozenset({4}), 4, w) == pytest.approx(score)


@pytest.mark.parametrize("on_mat", [set(), {3}, {3, 4}])
def test_balance_wants_exactly_the_heavy_cube(on_mat):
    assert m.balance(frozenset(on_mat), 4, 0) == 0.0


@pytest.mark.parametrize(
    ("turns", "unclassified", "score"),
    [(17, 0, 0.685175), (17, 1, 0.5), (22, 0, 0.5), (9, 0, 1.0), (11, 0, 1.0), (33, 2, 0.25)],
)
def test_pocket_cube(turns, unclassified, score):
    # q* = 11: 2^(-(17/11 - 1)) = 2^(-6/11) = 0.685175
    assert m.pocket_cube(True, turns, 11, unclassified) == pytest.approx(score, abs=1e-6)


@pytest.mark.parametrize(
    ("turns", "unclassified"), [(None, 0), (-1, 0), (3.0, 0), (3, None), (True, 0)]
)
def test_pocket_cube_without_its_counters_is_no_solve(turns, unclassified):
    assert m.pocket_cube(True, turns, 11, unclassified) == 0.0


def test_pocket_cube_unsolved():
    assert m.pocket_cube(False, 3, 11, 0) == 0.0


def test_hidden_com():
    assert m.hidden_com([True, False]) == pytest.approx(1 / 3, abs=1e-6)  # A, C, - against A, B, C
    assert m.hidden_com([]) == 0.0
    assert m.score([1.0, 0.0, 0.0]) == pytest.approx(1 / 3)


def test_more_is_never_less():
    heights = [0.1 * i for i in range(8)]
    scores = [m.tower(h, 0.546) for h in heights]
    assert scores == sorted(scores)
    cube = [m.pocket_cube(True, q, 11, 0) for q in range(1, 60)]
    assert cube == sorted(cube, reverse=True)
