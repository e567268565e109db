"""What a family declares and provides so that its tasks can be served: `SessionSpec` and `TaskAdapter`.

`SessionSpec` is data: budgets, phases, cameras, extra operations. The broker works from it alone and
needs no simulator. `TaskAdapter` is the simulator side; only the worker process creates one.
"""

import hashlib
import importlib
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import msgspec
import numpy as np

from rle import registry, seeds
from rle.errors import UserError
from rle.service.protocol import Ended, ObserveSpec, Scalar


class Frozen(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the declarations."""


class ObservationKey(Frozen):
    """One entry of an observation."""

    name: str
    shape: tuple[int, ...]
    unit: str
    """Unit, or "-"."""
    help: str
    """Meaning and frame."""
    dtype: Literal["float64", "int64", "bool"] = "float64"


class EventKey(Frozen):
    """One entry of a reply's `events`."""

    name: str
    help: str
    """What it counts or tells, and when it comes."""


MOVE_EVENTS = (
    EventKey(
        name="move_error_m",
        help="with `move`: how far the grip site is from the target after the last step, m",
    ),
    EventKey(
        name="move_error_rad",
        help="with `move`: by what angle it is turned off the target, rad, 0 to pi",
    ),
)
"""What every task with `move` tells beside its own events."""


class ActionPart(Frozen):
    """A slice of the action vector."""

    name: str
    start: int
    stop: int
    help: str
    """Meaning of +1, unit and frame."""


class ArgSpec(Frozen):
    """One argument of an extra operation."""

    name: str
    type: Literal["bool", "int", "float", "str"]
    choices: tuple[str, ...] = ()
    """Accepted values of a string; empty: any."""


class ExtraOp(Frozen):
    """An operation that a family adds to the protocol."""

    name: str
    cost: int
    """Charged steps."""
    help: str
    args: tuple[ArgSpec, ...] = ()
    is_answer: bool = False
    """True: its arguments are recorded as the trial's irrevocable answer, and the trial closes."""


class PhaseSpec(Frozen):
    """One phase of a session."""

    name: str
    kind: Literal["development", "attempt", "evaluation"]
    trials: int = 0
    """Trials of the phase; 0 in development, where scenes are free to come and go."""
    steps: int | None = None
    """Charged steps of the whole phase."""
    trial_steps: int | None = None
    """Control steps of one trial (its horizon)."""
    seconds: float | None = None
    """Wall time of the phase; the first mutating request starts the clock."""
    opens: Literal["phase", "reset"] = "phase"
    """Whether the next trial opens by itself or by `reset`."""
    reset: Literal["none", "same", "new", "forfeit", "next"] = "none"
    """What `reset` does: not allowed; the same scene again; a new scene by task and seed; gives the
    trial up; gives a live trial up and opens the next."""
    reset_cost: int = 0
    """Charged steps of a reset."""
    advance: Literal["auto", "control"] = "auto"
    """Whether the next phase follows by itself or by the control socket."""
    can_finish: bool = True
    """Whether the agent may close its trial with `finish`."""
    close_at_budget: bool = True
    """Whether the trial closes by itself when no step is left."""

    @property
    def is_metered(self) -> bool:
        """Whether charges count against the session's steps."""
        return self.kind != "evaluation"


class SessionSpec(Frozen):
    """Everything the broker has to know about a task."""

    task: str
    """Task id."""
    family_version: str
    draw_key: str
    adapter: str
    """`module:function` that makes the `TaskAdapter` of this task; called with the task id."""
    instruction: str
    phases: tuple[PhaseSpec, ...]
    action_dim: int
    action_layout: tuple[ActionPart, ...]
    control_hz: float
    cameras: tuple[str, ...]
    depth_cameras: tuple[str, ...] = ()
    """Cameras that offer depth."""
    default_px: int = 512
    observation: tuple[ObservationKey, ...] = ()
    events: tuple[EventKey, ...] = ()
    """What a reply of this task may tell besides the observation; `all_events` has those of `move` too."""
    calibration: dict[str, Any] = {}
    """Camera poses and intrinsics, and other public geometry, for `task_info`."""
    extra_ops: tuple[ExtraOp, ...] = ()
    has_move: bool = False
    on_sim_error: Literal["close", "reopen_once"] = "close"
    tasks: tuple[str, ...] = ()
    """Names that `reset(task=...)` accepts in development."""

    @property
    def digest(self) -> str:
        """SHA-256 over the JSON of this value: ties a ledger to the rules it was made under."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()

    @property
    def all_events(self) -> tuple[EventKey, ...]:
        """Everything that a reply may tell besides the observation."""
        return (*self.events, *(MOVE_EVENTS if self.has_move else ()))

    def extra(self, name: str) -> ExtraOp | None:
        return next((op for op in self.extra_ops if op.name == name), None)


class TrialPlan(Frozen):
    """What the worker is told about a trial. It holds a derived key, never a salt."""

    phase: str
    kind: Literal["development", "attempt", "evaluation"]
    trial: int
    key: bytes
    """`rle.seeds.trial_key` of this trial."""
    task: str | None = None
    """Name given to `reset` in development."""
    resume: dict[str, Scalar] = {}
    """Counters of this trial before a failure; empty for a fresh start."""

    def rng(self, stream: str, *ids: int | str) -> np.random.Generator:
        """Generator of one named stream of the trial."""
        return seeds.stream(self.key, stream, *ids)


def trial_plan(
    spec: "SessionSpec", phase: PhaseSpec, trial: int, salt: bytes, *, task: str | None = None,
    seed: int | None = None, resume: dict[str, Scalar] | None = None,
) -> TrialPlan:  # fmt: skip
    """Plan of one trial; its key is public in development and salted where it is scored."""
    is_free = phase.kind == "development"
    key = seeds.trial_key(
        spec.task.split("/")[0],
        spec.draw_key,
        "public" if is_free else "hidden",
        (seed if seed is not None else 0) if is_free else trial,
        salt,
    )
    return TrialPlan(
        phase=phase.name, kind=phase.kind, trial=trial, key=key, task=task, resume=resume or {}
    )


class StepOutcome(Frozen):
    """What one control step led to."""

    success: bool | None = None
    ended: Ended | None = None
    """Set when the trial is over with this step."""
    events: dict[str, Scalar] = {}


class ExtraOutcome(Frozen):
    """What an extra operation led to."""

    executed: int
    """Control steps it ran; at most its cost."""
    ended: Ended | None = None
    events: dict[str, Scalar] = {}


Evidence = dict[str, Scalar]
"""Named measurements of a closed trial: finite numbers, booleans and short strings. Never a score."""


class BadRequest(Exception):
    """Raised by an adapter for a request that the state does not allow; nothing is charged."""


class TaskAdapter(Protocol):
    """The simulator side of one task."""

    def open_trial(self, plan: TrialPlan) -> str:
        """Builds or rebuilds the scene; returns the instance's digest (SHA-256, hex)."""
        ...

    def reset(self) -> None:
        """The same scene again; counters stay."""
        ...

    def step(self, action: np.ndarray) -> StepOutcome:
        """One control step. Shape (A,), float64 in [-1, 1]."""
        ...

    def move_action(
        self, position_m: np.ndarray, quat_xyzw: np.ndarray, gripper: float
    ) -> np.ndarray:
        """The action of one step of `move` from the present state. Shape (A,)."""
        ...

    def move_error(self, position_m: np.ndarray, quat_xyzw: np.ndarray) -> tuple[float, float]:
        """How far the grip site is from the target of `move` now: distance, m, and angle, rad in [0, pi]."""
        ...

    def observe(self, spec: ObserveSpec) -> Mapping[str, np.ndarray]:
        """The present observation; two calls in one state are bit-equal."""
        ...

    def extra(self, op: str, args: dict[str, Scalar]) -> ExtraOutcome:
        """A declared operation. Raises BadRequest where the state does not allow it."""
        ...

    def counters(self) -> dict[str, Scalar]:
        """What a reopened trial has to remember (weighings, turns)."""
        ...

    def finish(self) -> Evidence:
        """The final measurement."""
        ...

    def close(self) -> None: ...


def session_spec(task_id: str) -> SessionSpec:
    """The session declaration of a task.

    Raises:
        UnknownName, NotAvailable: As `rle.registry.get`.
        UserError: The task has no simulator service.
    """
    task = registry.get(task_id)
    sessions = getattr(registry.room(task.family, "spec"), "SESSIONS", {})
    if task_id not in sessions:
        raise UserError(
            f"{task_id} has no simulator service; tasks with one are those of f01, f02 and f03. "
            f"See `rle card {task_id}`.",
            code="no_service",
        )
    return sessions[task_id]


def make_adapter(spec: SessionSpec) -> TaskAdapter:
    """Imports and calls `spec.adapter`. This is where a simulator enters a process."""
    importlib.import_module("rle.sim")  # chooses the GL backend before a simulator is imported
    module, _, name = spec.adapter.partition(":")
    factory: Callable[[str], TaskAdapter] = getattr(importlib.import_module(module), name)
    return factory(spec.task)
