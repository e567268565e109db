"""The pocket cube as a permutation puzzle: states, quarter turns, exact optimum. No simulator.

A *location* is a corner position and a face of it: 3 position + axis, with bit 0, 1, 2 of the position set
where x, y, z is positive. A state gives, for each of the eight cubies, the location of its x sticker
(shape (8,), uint8); position and twist follow. Cubie 0 starts at (-, -, -).

Distances are in quarter turns, modulo the 24 rotations of the whole cube: turning one half is the same
as turning the other half back. So cubie 0 is kept still and three faces turn: 3,674,160 states, depth 14.
"""

import functools
import itertools

import numpy as np

SOLVED = np.arange(0, 24, 3, dtype=np.uint8)
"""Every cubie at home."""
HALF_DEPTH = 7
"""Depth of the table built from the solved side: 14 is the largest distance."""
AXES = "xyz"
_POWERS = 24 ** np.arange(8, dtype=np.int64)


def _rotate_vector(vector: tuple[int, int, int], axis: int, turns: int) -> tuple[int, int, int]:
    """Right-handed quarter turns of an integer vector about a coordinate axis."""
    v = list(vector)
    a, b = (axis + 1) % 3, (axis + 2) % 3
    for _ in range(turns % 4):
        v[a], v[b] = -v[b], v[a]
    return v[0], v[1], v[2]


def _location(corner: tuple[int, int, int], axis: int) -> int:
    return 3 * sum((c > 0) << i for i, c in enumerate(corner)) + axis


def _corner(position: int) -> tuple[int, int, int]:
    x, y, z = (1 if position >> i & 1 else -1 for i in range(3))
    return x, y, z


def _turn_table(axis: int, turns: int, layer: int | None) -> np.ndarray:
    """Where each location goes when a layer (-1, 1; None: the whole cube) turns about an axis."""
    table = np.arange(24, dtype=np.uint8)
    for position, face in itertools.product(range(8), range(3)):
        corner = _corner(position)
        if layer is not None and corner[axis] != layer:
            continue
        normal = [0, 0, 0]
        normal[face] = corner[face]
        turned = _rotate_vector((normal[0], normal[1], normal[2]), axis, turns)
        new_face = next(i for i, n in enumerate(turned) if n)
        table[3 * position + face] = _location(_rotate_vector(corner, axis, turns), new_face)
    return table


_ANGLES = {"+90": 1, "-90": 3, "180": 2}
MOVES: dict[str, np.ndarray] = {
    f"{sign}{AXES[axis]}{angle}": _turn_table(axis, turns, 1 if sign == "+" else -1)
    for sign in "+-"
    for axis in range(3)
    for angle, turns in _ANGLES.items()
}
"""Face turns by name: layer, then angle about the positive axis. "+x+90": the +x half by 90 degrees about +x."""
_QUARTERS = tuple(f"+{axis}{angle}" for axis in AXES for angle in ("+90", "-90"))
"""The six quarter turns that leave cubie 0 still."""


@functools.cache
def rotations() -> tuple[np.ndarray, ...]:
    """Tables of the 24 whole-cube rotations, the identity first."""
    found = {np.arange(24, dtype=np.uint8).tobytes(): np.arange(24, dtype=np.uint8)}
    queue = list(found.values())
    generators = [_turn_table(axis, 1, None) for axis in range(3)]
    while queue:
        table = queue.pop()
        for generator in generators:
            turned = generator[table]
            if turned.tobytes() not in found:
                found[turned.tobytes()] = turned
                queue.append(turned)
    return tuple(found.values())


def quarters(turn: str) -> int:
    """Quarter turns of a named turn: 1, or 2 for a half turn."""
    return 2 if turn.endswith("180") else 1


def apply(state: np.ndarray, turns: tuple[str, ...] | list[str]) -> np.ndarray:
    """State after a sequence of named turns. Shape (8,) to (8,)."""
    for turn in turns:
        state = MOVES[turn][state]
    return state


def canonical(state: np.ndarray) -> np.ndarray:
    """The state turned as a whole so that cubie 0 is at home."""
    return next(r for r in rotations() if r[state[0]] == 0)[state]


def is_solved(state: np.ndarray) -> bool:
    """All stickers match under one rotation."""
    return bool((canonical(state) == SOLVED).all())


def is_legal(state: np.ndarray) -> bool:
    """Positions are a permutation and the twists sum to 0 modulo 3."""
    positions = state // 3
    if sorted(positions.tolist()) != list(range(8)):
        return False
    return sum(twist(int(v), i) for i, v in enumerate(state)) % 3 == 0


def twist(location: int, cubie: int) -> int:
    """Twist of a cubie whose x sticker is at `location`: 0, 1 or 2.

    Counted on the corner's faces in right-handed order seen from outside, which is x, y, z for corners
    with an even number of negative coordinates and x, z, y for the others. At home it is 0 by
    definition for even and odd corners alike, because x comes first in both orders.
    """
    position, face = divmod(location, 3)
    is_right = bin(position).count("1") % 2 == 1
    return face if is_right else (0, 2, 1)[face]


@functools.cache
def _table() -> tuple[np.ndarray, ...]:
    """Sorted keys of the states at distance 0 ... HALF_DEPTH from solved."""
    levels = [np.array([_keys(SOLVED[None])[0]])]
    frontier = SOLVED[None]
    for _ in range(HALF_DEPTH):
        states = np.concatenate([MOVES[m][frontier] for m in _QUARTERS])
        keys, first = np.unique(_keys(states), return_index=True)
        fresh = ~_in(keys, levels[-1])
        if len(levels) > 1:
            fresh &= ~_in(keys, levels[-2])
        levels.append(keys[fresh])
        frontier = states[first[fresh]]
    return tuple(levels)


def _keys(states: np.ndarray) -> np.ndarray:
    """One integer per state. Shape (n, 8) to (n,)."""
    return states.astype(np.int64) @ _POWERS


def _in(keys: np.ndarray, sorted_keys: np.ndarray) -> np.ndarray:
    index = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    return sorted_keys[index] == keys


def _depth(keys: np.ndarray) -> np.ndarray:
    """Distance to solved where the table knows it, else -1. Shape (n,)."""
    depth = np.full(len(keys), -1)
    for level, known in enumerate(_table()):
        depth[_in(keys, known)] = level
    return depth


def solve(state: np.ndarray) -> tuple[str, ...]:
    """A shortest solution in quarter turns of the cube with cubie 0 brought home.

    The turns are those of the canonical state: "+x", "+y" or "+z" halves.

    Raises:
        ValueError: The state is not legal.
    """
    if not is_legal(state):
        raise ValueError(f"not a legal state: {state.tolist()}")
    frontier = canonical(state)[None]
    parents: list[tuple[np.ndarray, np.ndarray]] = []
    seen = [_keys(frontier)]
    depth = _depth(seen[0])
    while (depth < 0).all():
        states = np.concatenate([MOVES[m][frontier] for m in _QUARTERS])
        keys, first = np.unique(_keys(states), return_index=True)
        fresh = ~_in(keys, seen[-1])
        if len(seen) > 1:
            fresh &= ~_in(keys, seen[-2])
        first = first[fresh]
        parents.append((first % len(frontier), first // len(frontier)))
        frontier = states[first]
        seen.append(keys[fresh])
        depth = _depth(seen[-1])
    index = int(np.flatnonzero(depth == depth[depth >= 0].min())[0])
    return _back(parents, index) + _down(frontier[index])


def _back(parents: list[tuple[np.ndarray, np.ndarray]], index: int) -> tuple[str, ...]:
    """Turns from the start to a member of the last frontier."""
    turns: list[str] = []
    for origin, move in reversed(parents):
        turns.append(_QUARTERS[int(move[index])])
        index = int(origin[index])
    return tuple(reversed(turns))


def _down(state: np.ndarray) -> tuple[str, ...]:
    """Turns from a state of the table to solved, one level at a time."""
    turns: list[str] = []
    level = int(_depth(_keys(state[None]))[0])
    while level > 0:
        for move in _QUARTERS:
            turned = MOVES[move][state]
            if int(_depth(_keys(turned[None]))[0]) == level - 1:
                turns.append(move)
                state, level = turned, level - 1
                break
    return tuple(turns)


def optimum(state: np.ndarray) -> int:
    """Exact distance to solved in quarter turns, modulo whole-cube rotations."""
    return len(solve(state))
