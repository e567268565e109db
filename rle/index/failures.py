"""How a cell ended, in one word: the terminal categories of the failure table."""

import functools
from collections import Counter
from typing import Literal

from rle import registry
from rle.errors import NotAvailable
from rle.index.model import Cell

Category = Literal[
    "solved",
    "partial",
    "declared_done_but_failed",
    "budget_exhausted",
    "agent_timeout",
    "agent_gave_up",
    "no_submission",
    "invalid_submission",
    "environment_failure",
    "not_run",
]

MEANING: dict[Category, str] = {
    "solved": "at or above the task's pass mark",
    "partial": "above the floor, below the pass mark",
    "declared_done_but_failed": "handed in, but no better than doing nothing",
    "budget_exhausted": "a budget of the task was used up",
    "agent_timeout": "the agent's session ran out of time",
    "agent_gave_up": "the agent stopped with an error, or never acted",
    "no_submission": "nothing was handed in",
    "invalid_submission": "refused: the submission breaks its contract",
    "environment_failure": "our side failed; flagged and re-run",
    "not_run": "no result",
}

_NOTHING_HANDED_IN = {"file.none", "file.missing", "ledger.missing"}


@functools.cache
def marks_of(task: str) -> tuple[float, float] | None:
    """(floor, pass mark) of a task; None where its family is not in this version."""
    try:
        spec = registry.get(task)
    except NotAvailable:
        return None
    return spec.floor, spec.pass_mark


def category(task: str, cell: Cell) -> Category:
    """The terminal category, from the outcome, the endings of the rows and the session's status."""
    if cell.outcome == "not_run":
        return "not_run"
    if cell.outcome == "infrastructure_error":
        return "environment_failure"
    if cell.outcome == "invalid_submission":
        if cell.status == "agent_timeout":
            return "agent_timeout"
        nothing = any(error.code in _NOTHING_HANDED_IN for error in cell.errors)
        return "no_submission" if nothing else "invalid_submission"
    if cell.outcome == "budget_exceeded":
        return "budget_exhausted"
    return _scored(task, cell)


def _scored(task: str, cell: Cell) -> Category:
    floor, mark = marks_of(task) or (0.0, 1.0)
    reward = cell.reward or 0.0
    if reward >= mark:
        return "solved"
    if cell.status == "agent_timeout":
        return "agent_timeout"
    endings = {row.ended for row in cell.rows}
    if endings == {"no_submission"}:
        return "no_submission"
    if cell.status == "agent_error" or endings == {"no_interaction"}:
        return "agent_gave_up"
    if endings == {"budget"}:
        return "budget_exhausted"
    return "partial" if reward > floor else "declared_done_but_failed"


def endings(cell: Cell) -> list[tuple[str, int]]:
    """How the trials ended, most frequent first."""
    return Counter(row.ended for row in cell.rows).most_common()
