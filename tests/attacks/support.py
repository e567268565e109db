"""Shared by the attack book: a refused artifact with its code, and a wall cap for every attack."""

import contextlib
import time

import pytest

from rle.errors import InvalidSubmission

WALL_CAP_S = 60.0
"""No attack may hold the verifier longer. Generous: it tells a hang from a loaded machine."""


@contextlib.contextmanager
def refused(*codes: str):
    """Asserts that the block ends in `InvalidSubmission` with one of the codes, within the cap."""
    start_s = time.monotonic()
    with pytest.raises(InvalidSubmission) as caught:
        yield caught
    assert caught.value.code in codes, caught.value.message
    assert time.monotonic() - start_s < WALL_CAP_S
