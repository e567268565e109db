"""Published figures for comparison rows: `rle-published/1`. They have other physics and no interval."""

from pathlib import Path

import msgspec
import numpy as np

from rle import registry
from rle.errors import UserError
from rle.index.fold import FULL_SET
from rle.index.result import PublishedRow

PUBLISHED_SCHEMA = "rle-published/1"
ROUNDING = 0.1 + 1e-9
"""Published figures have one decimal: an index and the fold of its families differ by less."""


class PublishedSystem(msgspec.Struct, frozen=True, kw_only=True):
    """Figures in 0..100, any of them."""

    name: str
    index: float | None = None
    families: dict[str, float] = {}
    tasks: dict[str, float] = {}


class Published(msgspec.Struct, frozen=True, kw_only=True):
    schema: str
    source: str
    """Where the figures were published."""
    date: str
    systems: list[PublishedSystem]


def recomputed_index(families: dict[str, float]) -> float | None:
    """The index that follows from nine family figures; None where one is missing."""
    if set(families) != set(FULL_SET.families):
        return None
    return float(FULL_SET.index(np.array([families[f] for f in FULL_SET.families])))


def read_published(path: Path) -> list[PublishedRow]:
    """Reads and checks a file of published figures.

    Raises:
        UserError: Unreadable, an unknown id, a figure outside 0..100, or an index that its own
            families do not give to 0.1.
    """
    try:
        given = msgspec.json.decode(path.read_bytes(), type=Published)
    except (OSError, msgspec.MsgspecError) as error:
        raise UserError(f"{path} is no {PUBLISHED_SCHEMA}: {error}") from None
    if given.schema != PUBLISHED_SCHEMA:
        raise UserError(f"{path}: schema {given.schema!r} is not {PUBLISHED_SCHEMA!r}")
    for system in given.systems:
        _check(path, system)
    return [
        PublishedRow(
            name=s.name,
            source=given.source,
            date=given.date,
            index=s.index if s.index is not None else recomputed_index(s.families),
            families=s.families,
            tasks=s.tasks,
        )
        for s in given.systems
    ]


def _check(path: Path, system: PublishedSystem) -> None:
    unknown = [f for f in system.families if f not in registry.PACKAGES]
    unknown += [t for t in system.tasks if t not in registry.TASK_IDS]
    if unknown:
        raise UserError(f"{path}: {system.name} names {', '.join(unknown)}; see `rle list`")
    figures = [*system.families.values(), *system.tasks.values()]
    if not all(0.0 <= v <= 100.0 for v in (*figures, system.index or 0.0)):
        raise UserError(f"{path}: {system.name}: figures are 0..100")
    folded = recomputed_index(system.families)
    if folded is not None and system.index is not None and abs(folded - system.index) > ROUNDING:
        raise UserError(
            f"{path}: {system.name} states an index of {system.index}, but its families give {folded:.2f}"
        )
