"""Requests of one metered session; its course (trials, phases, record) is `course.py`'s, sockets are
`broker.py`'s.

Order of a mutating request: validate, check, charge (on disk), dispatch, confirm, reply.
"""

import hashlib
import logging
import secrets
import threading
import time
from typing import Any

import msgspec

from rle.errors import InfrastructureError
from rle.service.adapter import BadRequest
from rle.service.course import Course
from rle.service.manual import task_info
from rle.service.protocol import (
    MUTATING,
    PROTOCOL,
    AnyRequest,
    Call,
    EndDevelopment,
    Error,
    ErrorKind,
    Finish,
    GetStatus,
    Hello,
    ListTasks,
    Observe,
    ObserveSpec,
    Ok,
    Reset,
    Scalar,
    Status,
    TaskInfo,
    decode_request,
    encode,
    raw,
    request_id_of,
)
from rle.service.record.ledger import LedgerFull
from rle.service.record.walk import TrialRecord
from rle.service.rules import validate
from rle.service.rules.meter import OverBudget
from rle.service.rules.phases import FINISHED, NotAllowed, cost_of, name_of
from rle.service.rules.prepare import Refusal, need_live, prepare
from rle.service.supervisor import WorkerFailed
from rle.service.worker import NOTHING, Done, Look

log = logging.getLogger(__name__)
PRIVILEGED = "privileged_state"
"""Read-only operation that exists only in a validation session."""


def _whole_ms(seconds: float) -> float:
    """Seconds, cut to whole milliseconds; `round` takes a quarter of the time of a status."""
    return int(1000.0 * seconds) / 1000.0


class StepReply(msgspec.Struct, frozen=True, kw_only=True):
    """`protocol.StepResult` whose observation is passed through without decoding."""

    executed: int
    clipped_values: int = 0
    success: bool | None = None
    observation: msgspec.Raw = NOTHING
    events: dict[str, Scalar] = {}


class Session:
    """The requests of one session, over its course.

    Args:
        course: Trials, phases and record of the session; owned from now on.
    """

    def __init__(self, course: Course) -> None:
        self.spec = course.spec
        self.profile = course.profile
        self._course = course
        self._walk = course.walk
        self._lock = threading.RLock()
        self._refused = 0

    @property
    def is_closing(self) -> bool:
        """The record is sealed or cannot be written: no further request changes anything."""
        return self._course.is_closing

    @property
    def is_full(self) -> bool:
        """The disk could not take the record."""
        return self._course.ledger.is_full

    def trials(self) -> list[TrialRecord]:
        """Trials so far, with their evidence; for the caller of an embedded session."""
        return list(self._walk.trials)

    def start(self) -> None:
        """Opens the first trial where the phase opens it by itself.

        Raises:
            InfrastructureError: The simulator cannot open it.
        """
        with self._lock, self._course.guard():
            try:
                if not self.is_closing:
                    self._course.open_next()
            except Refusal as failure:
                raise InfrastructureError(
                    f"{self.spec.task}: {failure.message}; see worker.log in the session folder",
                    code="sim.unavailable",
                ) from None

    # ------------------------------------------------------------------------------------ requests

    def hello(self) -> Hello:
        """Greeting of a new connection."""
        return Hello(
            protocol=PROTOCOL,
            task=self.spec.task,
            family_version=self.spec.family_version,
            session_public_id=self._walk.opening["nonce"][:8],
            phase=self._walk.phases.name,
        )

    def handle(self, body: bytes) -> bytes:
        """Answers one request frame; never raises for anything a client can send."""
        with self._lock:
            try:
                request = decode_request(body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                return self.refusal("bad_request", f"{error}", request_id_of(body))
            try:
                validate.request_id(request.request_id)
                self._course.expire()
                result = self._dispatch(request, body)
                return encode(
                    Ok(request_id=request.request_id, result=result, status=self.status())
                )
            except Refusal as refusal:
                return self.refusal(refusal.kind, refusal.message, request.request_id)
            except BadRequest as refusal:
                return self.refusal("bad_request", str(refusal), request.request_id)
            except NotAllowed as refusal:
                return self.refusal("wrong_phase", str(refusal), request.request_id)
            except OverBudget as refusal:
                return self.refusal("budget_exhausted", str(refusal), request.request_id)
            except LedgerFull as fault:
                self._course.on_ledger_full(fault)
                return self.refusal(
                    "ledger_full",
                    "the record cannot be written; the session is closing",
                    request.request_id,
                )
            except Exception:  # noqa: BLE001 - a fault of ours must not end the service
                return self._incident(request.request_id)

    def _incident(self, request_id: str) -> bytes:
        """An exception of ours: its text stays in the log, an open charge stays whole."""
        number = secrets.token_hex(4)
        log.exception("incident %s", number)
        with self._course.guard():
            if self._walk.pending is not None:
                self._course.simulator_lost("exception", f"incident {number}")
        return self.refusal("internal", f"the service failed (incident {number})", request_id)

    def status(self) -> Status:
        """The counters as every reply carries them."""
        walk = self._walk
        phases, meter = walk.phases, walk.meter
        limit = self._course.seconds_limit()
        used = walk.seconds if phases.current is None else walk.seconds_now(time.monotonic())
        return Status(
            phase=phases.name,
            trial=phases.trial,
            trials=phases.trials,
            live=phases.live,
            steps_used=meter.steps_used,
            steps_left=meter.steps_left,
            trial_steps_used=meter.trial_steps_used,
            trial_steps_left=meter.trial_steps_left,
            seconds_used=_whole_ms(used),
            seconds_left=None if limit is None else _whole_ms(max(0.0, limit - used)),
            ended=phases.ended,
            last_request_id=walk.last_id,
            last_request_done=walk.last_done,
        )

    def _dispatch(self, request: AnyRequest, body: bytes) -> msgspec.Raw:
        if isinstance(request, GetStatus):
            return NOTHING
        if isinstance(request, TaskInfo):
            return raw(task_info(self.spec, self._walk.phases, self._course.is_practice))
        if isinstance(request, Call) and request.name == PRIVILEGED and self.profile.validation:
            return self._look(Look(spec=ObserveSpec(), privileged=True))
        if self.is_closing:
            raise Refusal("trial_over", "the session is over; its record is sealed")
        if isinstance(request, MUTATING) and request.request_id in self._walk.ids:
            done = request.request_id not in self._walk.lost
            raise Refusal(
                "duplicate_request",
                f"request {request.request_id} was already charged (done: {str(done).lower()}); "
                "use a new id",
            )
        self._walk.phases.check(request)
        if isinstance(request, ListTasks):
            return raw(list(self.spec.tasks))
        if isinstance(request, Observe):
            need_live(self._walk.phases, None)
            return self._look(Look(spec=validate.observe(request.spec, self.spec)))
        return raw(self._mutate(request, body))

    def _mutate(self, request: AnyRequest, body: bytes) -> StepReply:
        call, clipped = prepare(request, self.spec, self._walk.phases)
        phase = self._walk.phases.current
        assert phase is not None
        cost = cost_of(request, self.spec, phase)
        self._walk.meter.check(cost)
        charge: dict[str, Any] = {
            "id": request.request_id,
            "op": name_of(request),
            "cost": cost,
            "body": hashlib.sha256(body).hexdigest(),
        }
        if isinstance(request, Call):
            charge["args"] = request.args
        self._course.append("charge", charge)
        if call is None:
            return self._without_simulator(request, cost)
        try:
            done = self._course.link.call(call)
        except BadRequest:
            self._course.confirm(request.request_id, Done(counters=self._walk.counters))
            raise
        except WorkerFailed as failure:
            trial = self._walk.phases.trial
            self._course.simulator_lost(failure.kind, failure.detail)
            reopened = "its scene starts again" if self._walk.phases.live else "it is closed"
            raise Refusal(
                "sim_error",
                f"the simulator failed ({failure.kind}) in trial {trial}; {reopened}; "
                f"the {cost} steps stay charged",
            ) from None
        if isinstance(request, Reset):
            done = msgspec.structs.replace(done, executed=cost)
        self._course.confirm(request.request_id, done)
        self._after(done)
        return StepReply(
            executed=done.executed, clipped_values=clipped, success=done.success,
            observation=done.observation, events=done.events,
        )  # fmt: skip

    def _look(self, call: Look) -> msgspec.Raw:
        try:
            done = self._course.link.call(call)
        except WorkerFailed as failure:
            self._course.simulator_lost(failure.kind, failure.detail)
            raise Refusal(
                "sim_error", f"the simulator failed ({failure.kind}) while observing"
            ) from None
        return done.observation

    def _without_simulator(self, request: AnyRequest, cost: int) -> StepReply:
        """Requests that act on the session: finish, answers, forfeits, new scenes, phase ends."""
        self._course.confirm(request.request_id, Done(executed=cost, counters=self._walk.counters))
        match request:
            case Finish():
                self._course.close_trial("finished")
                self._course.proceed()
            case EndDevelopment():
                if self._walk.phases.live:
                    self._course.close_trial("phase_closed", measure=False)
                self._course.advance_phase("end_development")
                self._course.open_next()
            case Call(args=args):
                trial = self._walk.phases.trial
                self._course.append("answer", {"trial": trial, "answer": args})
                self._course.close_trial("submitted")
                self._course.proceed()
            case Reset(task=task, seed=seed):
                if self._walk.phases.live:
                    self._course.close_trial("forfeited", measure=False)
                phase = self._walk.phases.current
                opens = phase is not None and phase.reset in ("new", "next")
                if opens and self._walk.phases.next_trial is not None:
                    self._course.open_trial(task, seed)
                else:
                    self._course.proceed()
        return StepReply(executed=0)

    def _after(self, done: Done) -> None:
        """Closes the trial when it ended, or when nothing is left to spend."""
        phase = self._walk.phases.current
        assert phase is not None
        if done.ended is not None:
            self._course.close_trial(done.ended)
            self._course.proceed()
        elif phase.close_at_budget and self._walk.meter.is_spent:
            horizon = self._walk.meter.trial_steps_left == 0 and self._walk.meter.steps_left != 0
            self._course.close_trial("horizon" if horizon else "budget")
            self._course.proceed(spent=not horizon)

    # ------------------------------------------------------------------------------- clock and end

    def tick(self) -> None:
        """Called in every tick of the clock: ends a phase whose wall time is over, notices a dead
        simulator. Does nothing while a request is worked on, which looks at both itself.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            with self._course.guard():
                if not self.is_closing:
                    self._course.expire()
                    self._course.notice_death()
        finally:
            self._lock.release()

    def preempt(self, patience_s: float) -> None:
        """Before a control operation: a request still in flight after `patience_s` is ended as a
        simulator failure, and its trial closes instead of starting again.
        """
        if self._lock.acquire(timeout=patience_s):
            self._lock.release()
        else:
            self._course.may_reopen = False
            self._course.link.abort()

    def seal(self, reason: str) -> None:
        """Ends the session from outside; a second call changes nothing."""
        with self._lock, self._course.guard():
            if not self.is_closing:
                self._course.end(reason, "finished")

    def advance(self, to: str) -> str:
        """Moves on to a named later phase (control socket); repeated calls change nothing.

        Raises:
            BadRequest: No such phase.
        """
        with self._lock, self._course.guard():
            names = [phase.name for phase in self.spec.phases] + [FINISHED]
            if to not in names:
                raise BadRequest(f"phase {to!r} is unknown; known: {', '.join(names)}")
            while names.index(self._walk.phases.name) < names.index(to):
                if self._walk.phases.live:
                    self._course.close_trial("phase_closed")
                self._course.advance_phase("control")
            self._course.open_next()
        return self._walk.phases.name

    def checkpoint(self) -> None:
        """Signs the totals so far, for a partial export."""
        with self._lock, self._course.guard():
            if not self.is_closing and self._walk.pending is None:
                self._course.checkpoint()

    def worker_pids(self) -> list[int]:
        """Process of the simulator, where it has one of its own and lives."""
        pid = getattr(self._course.link, "pid", None)
        return [] if pid is None else [pid]

    def lease(self, state: str) -> None:
        """Records a client coming or going, with the connections refused since the last record."""
        with self._lock, self._course.guard():
            if not self.is_closing:
                self._course.append("lease", {"state": state, "refused": self._refused})
                self._refused = 0

    def count_refused(self) -> None:
        """A second client was turned away."""
        self._refused += 1

    # ------------------------------------------------------------------------------------- replies

    def refusal(self, kind: ErrorKind, message: str, request_id: str = "") -> bytes:
        """Encoded error reply; without an id for bytes that are no request."""
        return encode(
            Error(request_id=request_id, kind=kind, message=message, status=self.status())
        )

    def close(self) -> None:
        """Ends the simulator and releases the record."""
        with self._lock:
            self._course.close()
