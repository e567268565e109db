"""Folders of published motion data, for the tests that read it."""

import os
from pathlib import Path

import pytest


def _folder(variable: str) -> Path:
    value = os.environ.get(variable)
    if not value or not Path(value).is_dir():
        pytest.skip(f"{variable} names no folder")
    return Path(value)


@pytest.fixture
def lafan1_dir() -> Path:
    """Folder of the published CSV files."""
    return _folder("RLE_LAFAN1_DIR")


@pytest.fixture
def g1_moves_dir() -> Path:
    """Folder of further CSV files in the same layout, 60 frames/s."""
    return _folder("RLE_G1_MOVES_DIR")
