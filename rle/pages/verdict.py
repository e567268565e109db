"""Whether a result counts, in the words of the first screen."""

from collections.abc import Sequence
from dataclasses import dataclass

NEVER_RANKED = ("practice", "validation", "oracle", "diagnostic", "mixed")
"""Marks of results that are shown and never ranked."""


@dataclass(frozen=True)
class Verdict:
    counts: bool
    title: str
    text: str


def verdict(marks: Sequence[str], detail: str) -> Verdict:
    """The answer to "can I trust it, and does it count?".

    Args:
        marks: Badges of the result.
        detail: What holds in every case: isolation, coverage.
    """
    against = [m for m in marks if m in NEVER_RANKED]
    if against:
        return Verdict(False, f"It does not count: {', '.join(against)}", detail)
    if marks:
        return Verdict(False, "It counts only among results of its own kind", detail)
    return Verdict(True, "It counts", f"Hidden trials. {detail}")
