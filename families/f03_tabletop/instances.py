"""What is drawn: one frozen value per task, from named streams, with numpy alone. The worker that builds
the scene and the verifier that knows the salt draw the same values.
"""

import hashlib
import math
from collections.abc import Callable

import msgspec
import numpy as np

from families.f03_tabletop import cube_solver
from families.f03_tabletop import spec as s
from rle.errors import InfrastructureError

STREAM = "instance"
"""Name of the stream that every instance is drawn from."""


class PlacementError(InfrastructureError):
    """No placement was found: a bug of the field's numbers, never a last draw that is kept."""


class Instance(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of the drawn values."""

    @property
    def digest(self) -> str:
        """SHA-256 over the msgspec JSON of the value, hex."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()


class Pose2(msgspec.Struct, frozen=True):
    """Place on the table."""

    x_m: float
    y_m: float
    yaw_rad: float


class TowerInstance(Instance):
    scales: tuple[float, ...]
    """Per piece, in the order of `spec.PIECES`."""
    poses: tuple[Pose2, ...]


class CantileverInstance(Instance):
    poses: tuple[Pose2, ...]


class BalanceInstance(Instance):
    heavy: int
    frictions: tuple[float, ...]
    poses: tuple[Pose2, ...]


class CubeInstance(Instance):
    turns: tuple[str, ...]
    """Scramble, e.g. "+x+90"; see `cube_solver.MOVES`."""
    optimum_qtm: int


class BoxInstance(Instance):
    quadrant: str
    shell_kg: float
    ballast_kg: float
    offset_m: tuple[float, float]
    """Ballast centre from the box's centre, x and y."""
    ballast_half_m: tuple[float, float, float]


def draw(task: str, rng: np.random.Generator) -> Instance:
    """Draws the instance of a task from its stream `instance`.

    Args:
        task: Task id, "f03/tower".
        rng: Generator of the stream; consumed in a fixed order.
    """
    return _DRAWS[task.split("/")[1]](rng)


def _tower(rng: np.random.Generator) -> TowerInstance:
    scales = rng.uniform(*s.SCALE_RANGE, size=len(s.PIECES))
    return TowerInstance(scales=_floats(scales), poses=place(s.TOWER_FIELD, len(s.PIECES), rng))


def _cantilever(rng: np.random.Generator) -> CantileverInstance:
    return CantileverInstance(poses=place(s.CANTILEVER_FIELD, s.BLOCKS, rng))


def _balance(rng: np.random.Generator) -> BalanceInstance:
    heavy = int(rng.integers(s.CUBES))
    frictions = rng.uniform(*s.CUBE_FRICTION_RANGE, size=s.CUBES)
    return BalanceInstance(
        heavy=heavy, frictions=_floats(frictions), poses=place(s.BALANCE_FIELD, s.CUBES, rng)
    )


def _cube(rng: np.random.Generator) -> CubeInstance:
    """Scrambles of 20 face turns until the exact optimum lies in the range."""
    for _ in range(s.MAX_PLACEMENTS):
        turns = scramble(s.SCRAMBLE_TURNS, rng)
        optimum = cube_solver.optimum(cube_solver.apply(cube_solver.SOLVED, turns))
        if s.OPTIMUM_RANGE[0] <= optimum <= s.OPTIMUM_RANGE[1]:
            return CubeInstance(turns=turns, optimum_qtm=optimum)
    raise PlacementError("no scramble in the optimum's range", code="instance.scramble")


def scramble(count: int, rng: np.random.Generator) -> tuple[str, ...]:
    """Random face turns, consecutive ones on different axes, each +90, -90 or 180."""
    turns: list[str] = []
    axis = -1
    for _ in range(count):
        axis = int(rng.choice([a for a in range(3) if a != axis]))
        sign = "+-"[int(rng.integers(2))]
        turns.append(f"{sign}{'xyz'[axis]}{('+90', '-90', '180')[int(rng.integers(3))]}")
    return tuple(turns)


def _box(rng: np.random.Generator) -> BoxInstance:
    """One sealed box; redrawn until both centre-of-mass shifts can be read by lifting."""
    b = s.BALLAST
    for _ in range(s.MAX_PLACEMENTS):
        quadrant = "ABCD"[int(rng.integers(4))]
        shell, ballast = rng.uniform(*b.shell_kg), rng.uniform(*b.mass_kg)
        size = rng.uniform(*b.offset_m, size=2)
        half = b.half_sizes_m[int(rng.integers(len(b.half_sizes_m)))]
        offset = size * np.array(s.QUADRANTS[quadrant])
        shift = np.abs(offset) * ballast / total_mass_kg(shell, ballast)
        if (shift >= b.shift_m[0]).all() and (shift <= b.shift_m[1]).all():
            return BoxInstance(
                quadrant=quadrant, shell_kg=float(shell), ballast_kg=float(ballast),
                offset_m=(float(offset[0]), float(offset[1])), ballast_half_m=half,
            )  # fmt: skip
    raise PlacementError("no ballast in the range of readable shifts", code="instance.ballast")


def total_mass_kg(shell_kg: float, ballast_kg: float) -> float:
    """Mass of box, ballast and handle."""
    return shell_kg + ballast_kg + 2 * s.BOX.post_mass_kg + s.BOX.bar_mass_kg


def place(field: s.Field, count: int, rng: np.random.Generator) -> tuple[Pose2, ...]:
    """Places `count` centres at least `field.apart_m` apart, with uniform yaw.

    A piece that finds no place in `TRIES_PER_PIECE` tries starts the whole scene anew.

    Raises:
        PlacementError: After `MAX_PLACEMENTS` scenes.
    """
    low = np.array([field.x_m[0], field.y_m[0]])
    high = np.array([field.x_m[1], field.y_m[1]])
    for _ in range(s.MAX_PLACEMENTS):
        centres = _scene(low, high, count, field.apart_m, rng)
        if centres is not None:
            yaws = rng.uniform(-math.pi, math.pi, size=count)
            return tuple(
                Pose2(float(x), float(y), float(yaw))
                for (x, y), yaw in zip(centres, yaws, strict=True)
            )
    raise PlacementError(
        f"no placement of {count} pieces {field.apart_m} m apart in {s.MAX_PLACEMENTS} scenes",
        code="instance.placement",
    )


def _scene(
    low: np.ndarray, high: np.ndarray, count: int, apart_m: float, rng: np.random.Generator
) -> np.ndarray | None:
    centres = np.empty((0, 2))
    while len(centres) < count:
        for _ in range(s.TRIES_PER_PIECE):
            centre = rng.uniform(low, high)
            if (np.linalg.norm(centres - centre, axis=1) >= apart_m).all():
                centres = np.vstack([centres, centre])
                break
        else:
            return None
    return centres


def _floats(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(v) for v in values)


_DRAWS: dict[str, Callable[[np.random.Generator], Instance]] = {
    "tower": _tower,
    "cantilever": _cantilever,
    "balance": _balance,
    "pocket-cube": _cube,
    "hidden-com": _box,
}
