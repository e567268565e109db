"""How the pocket cube's state is read: alignment with hysteresis, one turn at a time, nothing for jitter."""

import mujoco
import numpy as np
import pytest

from families.f03_tabletop import cube, cube_solver


def spin(axis: int, angle_deg: float) -> np.ndarray:
    """Rotation matrix about a coordinate axis."""
    vector = np.zeros(3)
    vector[axis] = 1.0
    quat, out = np.zeros(4), np.zeros(9)
    mujoco.mju_axisAngle2Quat(quat, vector, np.radians(angle_deg))
    mujoco.mju_quat2Mat(out, quat)
    return out.reshape(3, 3)


def layer(rotations: np.ndarray, axis: int, side: int, angle_deg: float) -> np.ndarray:
    """The rotations after a half turns by an angle; halves are found from where the corners are."""
    out = rotations.copy()
    for i in range(8):
        if (rotations[i] @ cube.CORNERS[i])[axis] * side > 0.5:
            out[i] = spin(axis, angle_deg) @ rotations[i]
    return out


def relative(rotations: np.ndarray) -> np.ndarray:
    return rotations[0].T @ rotations


HOME = np.tile(np.eye(3), (8, 1, 1))


def test_states_and_rotations_are_the_same_thing():
    rng = np.random.default_rng(0)
    names = sorted(cube_solver.MOVES)
    state = cube_solver.SOLVED
    for turn in rng.choice(names, 30):
        state = cube_solver.apply(state, [turn])
        seen, angle = cube.nearest(cube.rotations_of(state))
        assert (seen == state).all() and angle < 1e-6


@pytest.mark.parametrize("name", sorted(cube_solver.MOVES))
def test_a_physical_turn_is_the_named_turn(name):
    angle = {"+90": 90.0, "-90": -90.0, "180": 180.0}[name[2:]]
    turned = layer(HOME, "xyz".index(name[1]), 1 if name[0] == "+" else -1, angle)
    state, error = cube.nearest(turned)
    assert error < 1e-6
    assert (state == cube_solver.MOVES[name][cube_solver.SOLVED]).all()


def turn_and_look(counter: cube.TurnCounter, rotations, axis, side, angle_deg):
    """Turns a half in steps of 3 degrees, read after each."""
    steps = max(1, round(abs(angle_deg) / 3))
    for k in range(1, steps + 1):
        now = layer(rotations, axis, side, angle_deg * k / steps)
        counter.see(relative(now))
    return now


@pytest.mark.parametrize(("angle", "turns"), [(90, 1), (-90, 1), (360, 0)])
def test_quarter_turns_count_one_and_going_around_counts_what_it_passes(angle, turns):
    counter = cube.TurnCounter(cube_solver.SOLVED)
    turn_and_look(counter, HOME, 0, 1, angle)
    if angle == 360:
        assert counter.turns == 4 and counter.is_solved
    else:
        assert counter.turns == turns and counter.unclassified == 0


def test_a_quick_half_turn_counts_two():
    counter = cube.TurnCounter(cube_solver.SOLVED)
    for angle in (30.0, 120.0, 180.0):
        counter.see(relative(layer(HOME, 2, 1, angle)))
    assert (counter.turns, counter.unclassified) == (2, 0)


def test_two_layers_before_alignment_are_unclassified():
    counter = cube.TurnCounter(cube_solver.SOLVED)
    both = layer(layer(HOME, 0, 1, 90.0), 1, 1, 90.0)
    counter.see(relative(layer(HOME, 0, 1, 45.0)))
    counter.see(relative(both))
    assert (counter.turns, counter.unclassified) == (1, 1)


def test_an_aligned_state_that_no_turn_makes_is_not_counted():
    # One corner twisted by 120 degrees about its diagonal: aligned, but the twists do not sum to 0 mod 3.
    axis = cube.CORNERS[5] / np.sqrt(3.0)
    quat, out = np.zeros(4), np.zeros(9)
    mujoco.mju_axisAngle2Quat(quat, axis, np.radians(120.0))
    mujoco.mju_quat2Mat(out, quat)
    twisted = HOME.copy()
    twisted[5] = out.reshape(3, 3)
    state, angle = cube.nearest(relative(twisted))
    assert angle < 1e-6 and not cube_solver.is_legal(state)
    counter = cube.TurnCounter(cube_solver.SOLVED)
    counter.see(relative(layer(HOME, 0, 1, 45.0)))
    counter.see(relative(twisted))
    assert counter.is_aligned and (counter.turns, counter.unclassified) == (0, 0)
    counter.see(relative(layer(HOME, 0, 1, 45.0)))
    counter.see(relative(layer(HOME, 0, 1, 90.0)))
    assert (counter.turns, counter.unclassified) == (1, 0), "counted from the last legal state"


def test_jitter_is_no_turn():
    counter = cube.TurnCounter(cube_solver.SOLVED)
    for angle in (3.0, 9.9, 3.0, 9.9, 0.0):
        counter.see(relative(layer(HOME, 0, 1, angle)))
        assert counter.is_aligned
    assert counter.turns == 0


@pytest.mark.parametrize(("angle", "lost"), [(9.9, False), (10.1, True)])
def test_alignment_is_lost_above_ten_degrees(angle, lost):
    counter = cube.TurnCounter(cube_solver.SOLVED)
    counter.see(relative(layer(HOME, 0, 1, angle)))
    assert counter.is_aligned is not lost


@pytest.mark.parametrize(("angle", "found"), [(3.9, True), (4.1, False)])
def test_alignment_is_found_within_four_degrees(angle, found):
    counter = cube.TurnCounter(cube_solver.SOLVED)
    counter.see(relative(layer(HOME, 0, 1, 45.0)))
    counter.see(relative(layer(HOME, 0, 1, angle)))
    assert counter.is_aligned is found


def test_turning_the_whole_cube_is_no_turn():
    counter = cube.TurnCounter(cube_solver.SOLVED)
    for angle in np.linspace(0.0, 90.0, 31):
        counter.see(relative(np.array([spin(1, angle) @ r for r in HOME])))
    assert counter.turns == 0 and counter.is_solved


def test_a_scrambled_start_is_not_solved_and_can_be_solved():
    start = cube_solver.apply(cube_solver.SOLVED, ["+x+90", "+z-90"])
    counter = cube.TurnCounter(start)
    assert not counter.is_solved
    rotations = cube.rotations_of(start)
    rotations = turn_and_look(counter, rotations, 2, 1, 90.0)
    turn_and_look(counter, rotations, 0, 1, -90.0)
    assert counter.is_solved and counter.turns == 2 and counter.unclassified == 0
