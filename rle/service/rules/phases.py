"""The order of phases and trials, and which request is allowed when. Pure: no clock, no file."""

from rle.service.adapter import PhaseSpec, SessionSpec
from rle.service.protocol import AnyRequest, Call, Ended, Move, Reset, Step

FINISHED = "finished"
"""Name of the state after the last phase."""


BUILT_IN = frozenset(
    {"status", "task_info", "list_tasks", "observe", "step", "move", "reset", "finish",
     "end_development"}
)  # fmt: skip
"""Operations of the protocol itself; a family's own go by `call`."""


class NotAllowed(Exception):
    """A request that the phase does not allow; the text lists what is allowed."""


class Phases:
    """Where a session stands: phase, trial, and how the last trial ended.

    Transitions: `open_trial` -> `close_trial` -> next trial or next phase. Nothing goes back.
    """

    def __init__(self, spec: SessionSpec) -> None:
        self.spec = spec
        self._index = 0
        self.current: PhaseSpec | None = spec.phases[0]
        """The phase's declaration; None when the session is finished."""
        self.name = spec.phases[0].name
        self.trials = spec.phases[0].trials
        """Trials of the present phase, or of the last one when the session is finished."""
        self.trial: int | None = None
        self.live = False
        self.ended: Ended | None = None
        self._opened = 0
        self._allowed = self._operations()

    @property
    def next_trial(self) -> int | None:
        """Number of the trial that may open next in this phase; None when all have been opened."""
        phase = self.current
        if phase is None or self.live:
            return None
        if phase.kind == "development":
            return self._opened
        return self._opened if self._opened < phase.trials else None

    @property
    def opens_by_itself(self) -> bool:
        """The next trial opens without a request."""
        phase = self.current
        return (
            phase is not None
            and phase.kind != "development"
            and phase.opens == "phase"
            and self.next_trial is not None
        )

    @property
    def is_exhausted(self) -> bool:
        """All trials of the phase are closed: the next phase begins."""
        phase = self.current
        return (
            phase is not None
            and phase.kind != "development"
            and not self.live
            and self.next_trial is None
        )

    def open_trial(self) -> int:
        """The next trial becomes live; returns its number, from 0 in each phase."""
        number = self.next_trial
        if number is None:
            raise ValueError(f"no trial can open in phase {self.name}")
        self.trial, self.live, self.ended = number, True, None
        self._opened += 1
        return number

    def close_trial(self, ended: Ended) -> None:
        if not self.live:
            raise ValueError("no live trial")
        self.live, self.ended = False, ended

    def advance(self) -> str:
        """The next phase begins; a trial must not be live. Returns its name."""
        if self.live:
            raise ValueError("a trial is live")
        if self.current is not None:
            self._index += 1
            self._opened = 0
            if self._index < len(self.spec.phases):
                self.current = self.spec.phases[self._index]
                self.name, self.trials = self.current.name, self.current.trials
                self.trial, self.ended = None, None
            else:
                self.current, self.name = None, FINISHED
            self._allowed = self._operations()
        return self.name

    def allowed(self) -> tuple[str, ...]:
        """Names of the operations that this phase has."""
        return self._allowed

    def _operations(self) -> tuple[str, ...]:
        phase = self.current
        if phase is None:
            return ("status", "task_info")
        names = ["status", "task_info", "observe", "step"]
        if self.spec.has_move:
            names.append("move")
        if phase.reset != "none":
            names.append("reset")
        if phase.kind == "development":
            names += ["list_tasks"] if self.spec.tasks else []
            names.append("end_development")
        elif phase.can_finish:
            names.append("finish")
        return (*names, *(op.name for op in self.spec.extra_ops))

    def check(self, request: AnyRequest) -> None:
        """Raises NotAllowed when the request has no place in this phase."""
        name = name_of(request)
        is_known = not isinstance(request, Call) or self.spec.extra(name) is not None
        if is_known and name in self._allowed:
            return
        allowed = ", ".join(self._allowed)
        if not is_known:
            what = f"{name} is a method of the client" if name in BUILT_IN else f"{name} is unknown"
            raise NotAllowed(f"call({name!r}): {what}; operations here: {allowed}")
        raise NotAllowed(f"{name} is not allowed in phase {self.name}; allowed: {allowed}")


def name_of(request: AnyRequest) -> str:
    """Operation name as the agent knows it: an extra operation goes by its own name."""
    if isinstance(request, Call):
        return request.name
    return type(request).__struct_config__.tag  # ty: ignore[invalid-explicit-return]


def cost_of(request: AnyRequest, spec: SessionSpec, phase: PhaseSpec) -> int:
    """Steps that a request is charged before it is dispatched."""
    if isinstance(request, Step):
        return request.actions.shape[0]
    if isinstance(request, Move):
        return request.steps
    if isinstance(request, Reset):
        return phase.reset_cost
    if isinstance(request, Call):
        op = spec.extra(request.name)
        return op.cost if op else 0
    return 0
