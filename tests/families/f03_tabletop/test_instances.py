"""What is drawn: ranges, secrecy by salt, equal values on both sides, exact optima."""

import math

import numpy as np
import pytest

from families.f03_tabletop import cube_solver, instances
from families.f03_tabletop import spec as s
from rle import seeds


def drawn(slug: str, trial: int = 0, salt: bytes = b"a salt of the campaign, 32 bytes+"):
    key = seeds.trial_key("f03", slug, "hidden", trial, salt)
    return instances.draw(f"f03/{slug}", seeds.stream(key, instances.STREAM))


@pytest.mark.parametrize("slug", s.SLUGS)
def test_same_salt_same_instance_other_salt_another(slug):
    assert drawn(slug) == drawn(slug) and drawn(slug).digest == drawn(slug).digest
    assert drawn(slug).digest != drawn(slug, salt=b"another salt").digest
    assert drawn(slug).digest != drawn(slug, trial=1).digest


@pytest.mark.parametrize(
    ("slug", "field"),
    [("tower", s.TOWER_FIELD), ("cantilever", s.CANTILEVER_FIELD), ("balance", s.BALANCE_FIELD)],
)
def test_pieces_lie_in_their_field_and_apart(slug, field):
    for trial in range(20):
        poses = drawn(slug, trial).poses
        xy = np.array([(p.x_m, p.y_m) for p in poses])
        assert (xy >= (field.x_m[0], field.y_m[0])).all()
        assert (xy <= (field.x_m[1], field.y_m[1])).all()
        gaps = np.linalg.norm(xy[:, None] - xy[None], axis=2) + 9.0 * np.eye(len(xy))
        assert gaps.min() >= field.apart_m


def test_a_field_too_small_is_an_error_not_a_last_draw():
    field = s.Field(x_m=(0.0, 0.1), y_m=(0.0, 0.1), apart_m=0.09)
    with pytest.raises(instances.PlacementError, match="9 pieces 0.09 m apart"):
        instances.place(field, 9, np.random.default_rng(0))


def test_draws_stay_in_their_ranges():
    heavy = set()
    for trial in range(60):
        tower, balance = drawn("tower", trial), drawn("balance", trial)
        assert all(s.SCALE_RANGE[0] <= v <= s.SCALE_RANGE[1] for v in tower.scales)
        low, high = s.CUBE_FRICTION_RANGE
        assert all(low <= v <= high for v in balance.frictions)
        heavy.add(balance.heavy)
    assert heavy == set(range(s.CUBES))


def test_ballast_can_be_read_by_lifting():
    quadrants, shapes = set(), set()
    for trial in range(60):
        box = drawn("hidden-com", trial)
        assert np.sign(box.offset_m).tolist() == list(s.QUADRANTS[box.quadrant])
        mass = instances.total_mass_kg(box.shell_kg, box.ballast_kg)
        shift = np.abs(box.offset_m) * box.ballast_kg / mass
        assert (shift >= s.BALLAST.shift_m[0]).all() and (shift <= s.BALLAST.shift_m[1]).all()
        for value, (low, high) in (
            (box.shell_kg, s.BALLAST.shell_kg),
            (box.ballast_kg, s.BALLAST.mass_kg),
            *((abs(v), s.BALLAST.offset_m) for v in box.offset_m),
        ):
            assert low <= value <= high
        assert box.ballast_half_m in s.BALLAST.half_sizes_m
        quadrants.add(box.quadrant)
        shapes.add(box.ballast_half_m)
    assert quadrants == set("ABCD") and shapes == set(s.BALLAST.half_sizes_m)


def test_boxes_of_a_session_are_drawn_one_by_one():
    trios = {
        tuple(drawn("hidden-com", i, salt=bytes([k])).quadrant for i in range(3)) for k in range(40)
    }
    assert len(trios) > 20, "of 64; one letter for all, or each letter once, would give 4 or 24"
    assert any(len(set(trio)) < 3 for trio in trios) and any(len(set(trio)) == 3 for trio in trios)


def test_nothing_is_solved_or_on_the_mat_at_the_start():
    # A cube counts from 0.09 m of the mat's centre on, and the field ends 0.15 m from it.
    (x, y), reach = s.MAT.centre_m, s.MAT.reach_m
    field = s.BALANCE_FIELD
    nearest = max(field.x_m[0] - x, x - field.x_m[1]), max(field.y_m[0] - y, y - field.y_m[1])
    assert max(nearest) > reach + s.CUBE_HALF_M
    assert min(s.OPTIMUM_RANGE) > 0
    for field in (s.TOWER_FIELD, s.CANTILEVER_FIELD):
        inside = zip((field.x_m, field.y_m), s.TABLE.half_m[:2], strict=True)
        assert all(max(map(abs, ends)) + 0.045 < half for ends, half in inside), "on the table"


def test_pieces_lie_in_every_direction():
    yaws = np.array([p.yaw_rad for trial in range(12) for p in drawn("tower", trial).poses])
    counts, _ = np.histogram(yaws, bins=4, range=(-np.pi, np.pi))
    assert counts.sum() == len(yaws) and counts.min() > len(yaws) / 8


def test_scrambles_have_the_stated_optimum():
    for trial in range(12):
        cube = drawn("pocket-cube", trial)
        state = cube_solver.apply(cube_solver.SOLVED, cube.turns)
        assert cube.optimum_qtm == cube_solver.optimum(state)
        low, high = s.OPTIMUM_RANGE
        assert low <= cube.optimum_qtm <= high
        axes = [turn[1] for turn in cube.turns]
        assert len(axes) == s.SCRAMBLE_TURNS
        assert all(a != b for a, b in zip(axes, axes[1:], strict=False))


# ------------------------------------------------------------------------------ the puzzle itself


def test_the_table_has_the_known_number_of_states_at_each_distance():
    # Quarter-turn distances of the 2x2x2 cube modulo rotations, a published table.
    # All levels of it, 0 to 14, sum to 7! 3^6 states; 83 % of them are 10 to 12 turns away.
    everywhere = [
        1,
        6,
        27,
        120,
        534,
        2256,
        8969,
        33058,
        114149,
        360508,
        930588,
        1350852,
        782536,
        90280,
        276,
    ]
    assert sum(everywhere) == math.factorial(7) * 3**6 == 3_674_160
    low, high = s.OPTIMUM_RANGE
    assert sum(everywhere[low : high + 1]) / sum(everywhere) == pytest.approx(0.83, abs=0.005)
    half = [len(level) for level in cube_solver._table()]
    assert half == everywhere[: len(half)] and len(half) == 8


def test_a_solution_solves_and_is_no_longer_than_the_scramble():
    rng = np.random.default_rng(3)
    for length in (0, 1, 2, 5, 20):
        turns = instances.scramble(length, rng)
        state = cube_solver.apply(cube_solver.SOLVED, turns)
        solution = cube_solver.solve(state)
        solved = cube_solver.apply(cube_solver.canonical(state), solution)
        assert cube_solver.is_solved(solved)
        assert len(solution) <= sum(cube_solver.quarters(t) for t in turns)


@pytest.mark.parametrize("turn", sorted(cube_solver.MOVES))
def test_turns_are_legal_and_come_back(turn):
    state = cube_solver.apply(cube_solver.SOLVED, [turn])
    assert cube_solver.is_legal(state)
    assert cube_solver.optimum(state) == cube_solver.quarters(turn)
    back = {"+90": "-90", "-90": "+90", "180": "180"}[turn[2:]]
    assert (cube_solver.apply(state, [turn[:2] + back]) == cube_solver.SOLVED).all()


def test_turning_one_half_is_turning_the_other_half_back():
    a = cube_solver.canonical(cube_solver.apply(cube_solver.SOLVED, ["+x+90"]))
    b = cube_solver.canonical(cube_solver.apply(cube_solver.SOLVED, ["-x-90"]))
    assert (a == b).all()


def test_a_twisted_corner_and_a_doubled_place_are_not_legal():
    twisted = cube_solver.SOLVED.copy()
    twisted[3] += 1
    assert not cube_solver.is_legal(twisted)
    doubled = cube_solver.SOLVED.copy()
    doubled[3] = doubled[4]
    assert not cube_solver.is_legal(doubled)
    with pytest.raises(ValueError, match="not a legal state"):
        cube_solver.solve(twisted)
