"""Charging, as pure arithmetic: what is used, what is left, what a request may still cost."""

from rle.service.adapter import PhaseSpec


class OverBudget(Exception):
    """A request that costs more than is left."""


class Meter:
    """Counts the steps of a session.

    `steps_used` grows by every charge of a metered phase (development, attempt) and never shrinks but
    by the unexecuted part of a batch; `trial_steps_used` starts at 0 with each trial and counts in
    every phase. A charge is whole until its confirm says how much of it ran.
    """

    def __init__(self, phase: PhaseSpec) -> None:
        self.steps_used = 0
        self.enter(phase)
        self._open: int | None = None

    def enter(self, phase: PhaseSpec) -> None:
        """The next phase begins; the steps used so far stay used."""
        self.phase, self._is_metered = phase, phase.is_metered
        self.trial_steps_used = 0

    def open_trial(self, used: int = 0) -> None:
        """A trial begins; `used` steps were spent on it before a failure."""
        self.trial_steps_used = used

    @property
    def steps_left(self) -> int | None:
        """Steps of the phase that are left; None where it has no such budget."""
        if self.phase.steps is None or not self._is_metered:
            return None
        return self.phase.steps - self.steps_used

    @property
    def trial_steps_left(self) -> int | None:
        if self.phase.trial_steps is None:
            return None
        return self.phase.trial_steps - self.trial_steps_used

    @property
    def is_spent(self) -> bool:
        """No further step is possible in this trial."""
        return self.steps_left == 0 or self.trial_steps_left == 0

    def check(self, cost: int) -> None:
        """Raises OverBudget when `cost` steps are more than is left; changes nothing."""
        left, of_trial = self.steps_left, self.trial_steps_left
        whose = ""
        if left is None or cost <= left:
            if of_trial is None or cost <= of_trial:
                return
            left, whose = of_trial, " of this trial"
        raise OverBudget(
            f"the request needs {cost} steps, {left} are left{whose}; nothing was charged"
        )

    def charge(self, cost: int) -> None:
        """Takes the whole cost of a request before it is dispatched.

        Raises:
            OverBudget: More than is left.
            ValueError: A charge is still open, or the cost is negative.
        """
        if self._open is not None:
            raise ValueError("a charge is open; confirm it first")
        if cost < 0:
            raise ValueError(f"cost {cost} is negative")
        self.check(cost)
        self._open = cost
        self._add(cost)

    def confirm(self, executed: int) -> None:
        """Releases the part of the open charge that was not run.

        Raises:
            ValueError: No charge is open, or more was executed than charged.
        """
        if self._open is None:
            raise ValueError("no charge is open")
        if not 0 <= executed <= self._open:
            raise ValueError(f"{executed} steps executed of {self._open} charged")
        self._add(executed - self._open)
        self._open = None

    def abandon(self) -> None:
        """The open charge stays whole: its effect is unknown."""
        self._open = None

    def _add(self, steps: int) -> None:
        if self._is_metered:
            self.steps_used += steps
        self.trial_steps_used += steps
