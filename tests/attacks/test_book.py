"""The attack book's table: every row has tests, and every test that it names is there."""

import ast
import re
from pathlib import Path

import pytest

from rle import registry

TESTS = Path(__file__).resolve().parents[1]
BOOK = TESTS.parent / "docs" / "design" / "attack_book.md"
N_ROWS = 96
ROW = re.compile(r"\| (\d+) \| (\w+) \| (.+) \| (.+) \|")
WAITS = re.compile(r"waits for (f\d\d)")


def rows() -> list[tuple[int, str]]:
    """Number and test cell of each row."""
    found = [ROW.fullmatch(line) for line in BOOK.read_text().splitlines()]
    return [(int(m[1]), m[4]) for m in found if m]


def functions(path: Path) -> set[str]:
    return {n.name for n in ast.parse(path.read_text()).body if isinstance(n, ast.FunctionDef)}


def test_the_table_is_whole():
    assert [number for number, _ in rows()] == list(range(1, N_ROWS + 1))


@pytest.mark.parametrize(("number", "cell"), rows(), ids=lambda value: str(value)[:40])
def test_a_row_has_tests_that_exist(number, cell):
    if waits := WAITS.search(cell):
        assert waits[1] not in registry.landed_families(), f"row {number}: {waits[1]} is here"
        return
    named = re.findall(r"`([^`]+)::([^`]+)`", cell)
    assert named, f"row {number} names no test"
    for file, name in named:
        assert name in functions(TESTS / file), f"row {number}: {file}::{name} is missing"
