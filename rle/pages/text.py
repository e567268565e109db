"""Numbers and words as pages print them."""

from rle.index.result import Estimate, GroupResult

DASH = "–"
"""Not run, not measured: never 0."""

MARK_TEXT: dict[str, str] = {
    "practice": "made with the public practice salt, so its trials can be computed: never ranked",
    "reduced isolation": "the sandbox lacked a layer of strict isolation",
    "stand-in reference": "reference data of our own instead of the published one: "
    "not comparable with results on the published data",
    "lite": "the lite tier of f05: shorter training and fewer episodes",
    "oracle": "made by a reference solver with knowledge that agents do not have",
    "validation": "a rehearsal of the benchmark, not an agent's result: never ranked",
    "mixed": "results of different kinds in one number, accepted with --allow-mixed",
    "diagnostic": "a diagnostic profile: never part of an index",
}
"""What each badge means."""

OUTCOME_TEXT: dict[str, str] = {
    "scored": "scored",
    "invalid_submission": "invalid submission",
    "budget_exceeded": "over budget",
    "infrastructure_error": "infrastructure error",
    "not_run": "not run",
}
OUTCOME_SIGN: dict[str, str] = {
    "scored": "●",
    "invalid_submission": "✕",
    "budget_exceeded": "◐",
    "infrastructure_error": "⚠",
    "not_run": "○",
}
"""A sign beside each outcome, so that colour is never alone."""


def x100(value: float | None, digits: int = 1) -> str:
    """A share in per cent, one decimal; a dash for None."""
    return DASH if value is None else f"{100.0 * value:.{digits}f}".replace("-", "−")


def signed(value: float) -> str:
    """A difference in points with its sign, and a true minus."""
    return f"{100.0 * value:+.1f}".replace("-", "−")


def interval(pair: tuple[float, float] | None) -> str:
    """`12.0 to 15.3`."""
    return DASH if pair is None else f"{x100(pair[0])} to {x100(pair[1])}"


def number(value: float | None, digits: int = 1, scale: float = 1.0) -> str:
    """A measured value; a dash for None."""
    return DASH if value is None else f"{scale * value:,.{digits}f}"


def compact(value: float) -> str:
    """A measured value or a limit with four significant digits: 9,900,000, 0.0004, 12.3."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.4g}" if 1e-4 <= abs(value) < 1e6 else f"{value:.3g}"


def millions(value: int | None) -> str:
    """Tokens in millions."""
    return DASH if value is None else f"{value / 1e6:,.2f}"


def plural(n: int, word: str) -> str:
    """`1 trial`, `8 trials`."""
    return f"{n:,} {word}" if n == 1 else f"{n:,} {word}s"


def percent_style(score: Estimate) -> str:
    """CSS variables of an interval bar, 0..100."""
    low, high = score.trials
    return f"--v:{100 * score.value:.2f};--lo:{100 * low:.2f};--hi:{100 * high:.2f}"


def ran(group: GroupResult) -> bool:
    """Whether a family or workflow has any result; else its score is a dash."""
    counts = group.counts
    return counts.n_scored + counts.n_invalid + counts.n_budget > 0
