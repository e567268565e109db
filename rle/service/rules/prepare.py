"""From a request to the call of the simulator that carries it out, or to the reason why it is refused.

Pure: nothing is charged here and nothing runs.
"""

from rle.service.adapter import SessionSpec
from rle.service.protocol import (
    AnyRequest,
    Call,
    ErrorKind,
    Finish,
    Move,
    ObserveSpec,
    Reset,
    Step,
)
from rle.service.rules import validate
from rle.service.rules.phases import Phases
from rle.service.worker import Act, Again, AnyCall, Drive, Extra


class Refusal(Exception):
    """A request that is answered with an error of a named kind."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


def prepare(request: AnyRequest, spec: SessionSpec, phases: Phases) -> tuple[AnyCall | None, int]:
    """Checks a mutating request that the phase allows.

    Returns:
        Its worker call (None: it acts on the session alone) and the number of clipped values.

    Raises:
        BadRequest: Its arguments are not what the task takes.
        Refusal: No live trial, another trial, or none left.
    """
    match request:
        case Step(actions=array, observe=look, trial=trial):
            values, clipped = validate.actions(array, spec)
            need_live(phases, trial)
            return Act(actions=values, observe=_observe(look, spec)), clipped
        case Move(observe=look, trial=trial):
            validate.move(request)
            need_live(phases, trial)
            call = Drive(
                position_m=request.position_m, quat_xyzw=request.quat_xyzw,
                gripper=request.gripper, steps=request.steps, observe=_observe(look, spec),
            )  # fmt: skip
            return call, 0
        case Call(name=name, args=args, observe=look, trial=trial):
            op = spec.extra(name)
            assert op is not None
            validate.extra(request, op)
            need_live(phases, trial)
            if op.is_answer:
                return None, 0
            return Extra(name=name, args=args, observe=_observe(look, spec)), 0
        case Finish(trial=trial):
            need_live(phases, trial)
            return None, 0
        case Reset():
            return _reset(request, spec, phases), 0
    return None, 0


def need_live(phases: Phases, trial: int | None) -> None:
    """Raises Refusal where no trial is live, or another one than `trial`."""
    if trial is not None and trial != phases.trial:
        live = f"the live trial is {phases.trial}" if phases.live else "none is live"
        raise Refusal("stale_trial", f"trial {trial} is closed; {live}")
    if not phases.live:
        how = f"trial {phases.trial} ended: {phases.ended}" if phases.ended else "no live trial"
        next_step = "; call reset()" if "reset" in phases.allowed() else ""
        raise Refusal("trial_over", how + next_step)


def _reset(request: Reset, spec: SessionSpec, phases: Phases) -> AnyCall | None:
    phase = phases.current
    assert phase is not None
    validate.reset(request, spec, takes_scene=phase.reset == "new")
    if phase.reset in ("same", "forfeit"):
        need_live(phases, None)
    is_last = phases.trial == phase.trials - 1
    if phase.reset == "next" and is_last and not phases.live:
        raise Refusal("trial_over", "all trials of this phase are over")
    return Again() if phase.reset == "same" else None


def _observe(look: ObserveSpec | None, spec: SessionSpec) -> ObserveSpec | None:
    return None if look is None else validate.observe(look, spec)
