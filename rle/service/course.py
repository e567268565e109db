"""The course of a session: trials open and close, phases follow, the simulator fails, the record is sealed.

State changes only by records: each is appended to the ledger and then fed to the `Walk` that the
verifier uses too, so that a resumed session and a verified one cannot differ from the live one.
"""

import contextlib
import hashlib
import logging
import secrets
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec

import rle
from rle.service.adapter import SessionSpec, TrialPlan, trial_plan
from rle.service.protocol import PROTOCOL, Ended, Scalar
from rle.service.record.keys import SigningKey
from rle.service.record.ledger import FORMAT, Kind, Ledger, LedgerFull
from rle.service.record.walk import Walk
from rle.service.rules.phases import FINISHED
from rle.service.rules.prepare import Refusal
from rle.service.supervisor import Link, WorkerFailed
from rle.service.worker import Done, Measure, Open

log = logging.getLogger(__name__)
_SALT_DOMAIN = b"rle-salt"
SIM_UNAVAILABLE = "sim_unavailable"
"""End reason of a session whose simulator could not open a scored scene: our failure, never a score."""


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`profile.json`: how a deployment serves one task."""

    task: str
    timeout_multiplier: float = 1.0
    """Multiplies every wall budget."""
    gl: str = "egl"
    sync: bool = True
    """False: no `fdatasync` (benchmarks)."""
    media: bool = False
    image_digest: str = ""
    layout: str = "deployment"
    """`deployment`: broker under its own uid; `sidecar`: in its own container; `practice`."""
    validation: bool = False
    """True: oracles may ask for the privileged state; never ranked."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()


class Course:
    """Phases, trials and record of one session over a link to its simulator.

    Args:
        spec: The task's declaration.
        folder: Session folder (ledger, actions, worker log).
        link: Reaches the simulator.
        key: Signs the record.
        salt: Secret of the campaign; the practice salt on a laptop.
        profile: How it is served.
        session_index: 0 for the first session of a container.
    """

    def __init__(
        self, spec: SessionSpec, folder: Path, link: Link, *, key: SigningKey, salt: bytes,
        profile: Profile, session_index: int = 0,
    ) -> None:  # fmt: skip
        self.spec = spec
        self.profile = profile
        self.link = link
        self.ledger = Ledger(folder, key, sync=profile.sync)
        self.walk = Walk(spec)
        self.is_closing = False
        """The record is sealed or cannot be written: no further request changes anything."""
        self.may_reopen = True
        """False when the session is being ended: a lost trial closes."""
        self._salt = salt
        if self.ledger.records:
            self._resume()
        else:
            self._open(key, session_index)

    @property
    def is_practice(self) -> bool:
        return self.profile.layout == "practice"

    def _open(self, key: SigningKey, session_index: int) -> None:
        nonce = secrets.token_bytes(16)
        commitment = hashlib.sha256(_SALT_DOMAIN + self._salt + nonce).hexdigest()
        self.append(
            "open",
            {
                "format": FORMAT,
                "protocol": PROTOCOL,
                "task": self.spec.task,
                "family_version": self.spec.family_version,
                "project_version": rle.__version__,
                "deployment_id": key.public.deployment_id,
                "public_key": key.public.raw.hex(),
                "nonce": nonce.hex(),
                "session_index": session_index,
                "salt_commitment": commitment,
                "profile": self.profile.digest,
                "layout": self.profile.layout,
                "practice": self.is_practice,
                "validation": self.profile.validation,
                "timeout_multiplier": self.profile.timeout_multiplier,
                "rules": self.spec.digest,
                "utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            },
        )

    def _resume(self) -> None:
        """Continues a record whose broker died: the pending charge stays, its trial is lost."""
        for record in self.ledger.records:
            self.walk.feed(record.i, record.k, record.t, record.p)
        self.ledger.records.clear()
        walk = self.walk
        self.append(
            "recover",
            {
                "dropped_bytes": self.ledger.dropped_bytes,
                "pending": walk.pending,
                "rebooted": self.ledger.is_reboot,
            },
        )
        if self.ledger.is_reboot:
            self.end("reboot", "phase_closed", measure=False)
        elif self.ledger.torn_seal or walk.phases.name == FINISHED:
            self.end("recovered", "phase_closed", measure=False)
        elif walk.trial is not None and walk.phases.live and walk.trial.answer is not None:
            self.close_trial("submitted", measure=False)
            self.proceed()
        elif walk.phases.live:
            self.simulator_lost("exit", "the broker was restarted")
        else:
            self.proceed()

    # -------------------------------------------------------------------------------------- trials

    def open_next(self) -> None:
        """Opens the next trial where the phase opens it by itself.

        A later trial that cannot open ends the session, so that nobody is scored for it.

        Raises:
            Refusal: The first trial cannot open; the next start of the broker tries again.
        """
        if not self.walk.phases.opens_by_itself:
            return
        try:
            self.open_trial(None, None)
        except Refusal:
            if not self.walk.trials:
                raise
            self.end(SIM_UNAVAILABLE, "phase_closed", measure=False)

    def open_trial(self, task: str | None, seed: int | None) -> None:
        """Opens the next trial; a simulator that fails gets a second try."""
        number = self.walk.phases.next_trial
        assert number is not None
        for attempt in (1, 2):
            try:
                done = self.link.call(Open(plan=self._plan(number, task, seed, {})))
                break
            except WorkerFailed as failure:
                log.warning("opening trial %d failed: %s", number, failure)
                self.append("sim_error", {"kind": failure.kind, "op": "open"})
                self.link.restart()
                if attempt == 2:
                    raise Refusal("sim_error", "the simulator could not open the scene") from None
        self.append(
            "trial_open",
            {
                "phase": self.walk.phases.name, "trial": number, "digest": done.digest,
                "reopened": False, "task": task, "seed": seed,
            },
        )  # fmt: skip

    def _plan(
        self, number: int, task: str | None, seed: int | None, resume: dict[str, Scalar]
    ) -> TrialPlan:
        phase = self.walk.phases.current
        assert phase is not None
        return trial_plan(self.spec, phase, number, self._salt, task=task, seed=seed, resume=resume)

    def close_trial(self, ended: Ended, *, measure: bool = True) -> None:
        """Takes the final measurement and closes the live trial."""
        evidence: dict[str, Scalar] = {}
        phase = self.walk.phases.current
        if measure and phase is not None and phase.kind != "development":
            try:
                evidence = self.link.call(Measure()).evidence
            except WorkerFailed as failure:
                self.append("sim_error", {"kind": failure.kind, "op": "finish"})
                self.link.restart()
                ended = "sim_error"
        self.append(
            "trial_close",
            {
                "trial": self.walk.phases.trial, "ended": ended,
                "steps": self.walk.meter.trial_steps_used, "evidence": evidence,
            },
        )  # fmt: skip

    def proceed(self, *, spent: bool = False) -> None:
        """What follows a closed trial: the next one, the next phase, or the seal."""
        phase = self.walk.phases.current
        if phase is None:
            return
        over = spent or self.walk.phases.is_exhausted
        if over and phase.advance == "auto":
            self.advance_phase("budget" if spent else "trials_done")
        self.open_next()

    def advance_phase(self, reason: str) -> None:
        """The next phase begins; after the last one the record is sealed."""
        phases = self.walk.phases
        after = phases.spec.phases[phases.spec.phases.index(phases.current) + 1 :]
        to = after[0].name if after else FINISHED
        self.append("phase", {"from": phases.name, "to": to, "reason": reason})
        if phases.current is None:
            self._seal(reason)

    def simulator_lost(self, kind: str, detail: str) -> None:
        """Records a failure; the trial starts again once where the task says so, else it closes."""
        log.warning("simulator failure: %s (%s)", kind, detail)
        self.append("sim_error", {"kind": kind, "op": self.walk.last_id or ""})
        self.link.restart()
        trial = self.walk.trial
        phase = self.walk.phases.current
        if not self.walk.phases.live or trial is None or phase is None:
            return
        may_reopen = (
            self.may_reopen
            and self.spec.on_sim_error == "reopen_once"
            and phase.kind != "development"
        )
        if may_reopen and trial.sim_errors == 1:
            try:
                plan = self._plan(trial.trial, None, None, self.walk.counters)
                done = self.link.call(Open(plan=plan))
                self.append(
                    "trial_open",
                    {
                        "phase": trial.phase, "trial": trial.trial, "digest": done.digest,
                        "reopened": True,
                    },
                )  # fmt: skip
                return
            except WorkerFailed as failure:
                self.append("sim_error", {"kind": failure.kind, "op": "open"})
                self.link.restart()
        self.close_trial("sim_error", measure=False)
        self.proceed()

    # ------------------------------------------------------------------------------- clock and end

    def seconds_limit(self) -> float | None:
        """Wall budget of the phase; None where it has none."""
        phase = self.walk.phases.current
        if phase is None or phase.seconds is None:
            return None
        return phase.seconds * self.profile.timeout_multiplier

    def notice_death(self) -> None:
        """A simulator that died while idle is a failure of the live trial."""
        if self.walk.phases.live and not self.link.is_alive():
            self.simulator_lost("exit", "died while idle")

    def expire(self) -> None:
        """Ends a phase whose wall time is over."""
        limit = self.seconds_limit()
        if self.is_closing or limit is None:
            return
        if self.walk.seconds_now(time.monotonic()) >= limit:
            if self.walk.phases.live:
                self.close_trial("wall_time")
            self.advance_phase("wall_time")
            self.open_next()

    def end(self, reason: str, ended: Ended, *, measure: bool = True) -> None:
        """Closes what is open and seals, whatever the phase."""
        if self.walk.phases.live:
            self.close_trial(ended, measure=measure)
        while self.walk.phases.current is not None and not self.is_closing:
            self.advance_phase(reason)
        self._seal(reason)

    def _seal(self, reason: str) -> None:
        if self.is_closing:
            return
        self.ledger.free_reserve()
        payload = {
            "end_reason": reason,
            "steps_used": self.walk.meter.steps_used,
            "trials": [
                {"phase": t.phase, "trial": t.trial, "ended": t.ended, "steps": t.steps}
                for t in self.walk.trials
            ],
        }
        i, t = self.ledger.seal(payload)
        self.walk.feed(i, "seal", t, {**payload, "count": i})
        self.is_closing = True

    def on_ledger_full(self, fault: LedgerFull) -> None:
        """The disk is full: with the reserve's space, close and seal; if even that fails, stop."""
        log.error("the record cannot be written: %s", fault)
        if self.is_closing:
            return
        self.ledger.free_reserve()
        try:
            if self.walk.pending is not None:
                self.append("sim_error", {"kind": "unavailable", "op": "ledger_full"})
            self.end("ledger_full", "phase_closed", measure=False)
        except LedgerFull as second:
            log.error("not even the seal can be written: %s", second)
            self.is_closing = True

    # -------------------------------------------------------------------------------------- record

    @contextlib.contextmanager
    def guard(self) -> Generator[None]:
        """Turns a full disk into the orderly end of the session."""
        try:
            yield
        except LedgerFull as fault:
            self.on_ledger_full(fault)

    def append(self, kind: Kind, payload: dict[str, Any]) -> None:
        """Writes a record and moves the state by it."""
        i, t = self.ledger.append(kind, payload)
        self.walk.feed(i, kind, t, payload)
        if self.ledger.wants_checkpoint and self.walk.pending is None:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Signs the totals so far."""
        self.ledger.checkpoint(self.walk.charged, self.walk.confirmed)

    def close(self) -> None:
        """Ends the simulator and releases the record."""
        self.link.close()
        self.ledger.close()

    def confirm(self, request_id: str, done: Done) -> None:
        """The open charge was carried out: what ran, what happened, the actions."""
        log_state = self.ledger.add_actions(b"" if done.actions is None else done.actions.data)
        self.append(
            "confirm",
            {
                "id": request_id, "executed": done.executed, "events": done.events,
                "counters": done.counters, **log_state,
            },
        )  # fmt: skip
