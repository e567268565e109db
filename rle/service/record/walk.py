"""Replay of a record: the state that a sequence of records leads to, and the first rule one breaks.

The broker uses it to resume after a crash, the verifier to check that every charge, phase and total
follows from the rules. Both use the same `Meter` and `Phases` as the live session.
"""

from typing import Any, get_args

import msgspec

from rle.service.adapter import Evidence, SessionSpec
from rle.service.protocol import MAX_BATCH, Scalar
from rle.service.record.ledger import FORMAT, Kind
from rle.service.rules.meter import Meter, OverBudget
from rle.service.rules.phases import FINISHED, Phases

BETWEEN = frozenset({"confirm", "sim_error", "recover", "lease", "checkpoint"})
"""Kinds that may stand between a charge and its confirm."""


class RuleBroken(Exception):
    """A record that cannot follow from the ones before.

    Args:
        code: `ledger.sequence`, `ledger.budget`, ...
        record: Its index.
        detail: What is wrong, in words.
    """

    def __init__(self, code: str, record: int, detail: str) -> None:
        super().__init__(f"{code}: record {record}: {detail}")
        self.code, self.record, self.detail = code, record, detail


class TrialRecord(msgspec.Struct, kw_only=True):
    """A trial as the record tells it."""

    phase: str
    trial: int
    digest: str
    """Digest of its instance."""
    ended: str | None = None
    steps: int = 0
    evidence: Evidence = {}
    answer: dict[str, Scalar] | None = None
    sim_errors: int = 0
    opened_s: float = 0.0
    closed_s: float | None = None


class Walk:
    """State after the records fed so far.

    Args:
        spec: The rules of the task.
    """

    def __init__(self, spec: SessionSpec) -> None:
        self.spec = spec
        self.phases = Phases(spec)
        self.meter = Meter(spec.phases[0])
        self.opening: dict[str, Any] = {}
        self.ids: set[str] = set()
        self.lost: set[str] = set()
        """Charged requests whose effect is unknown."""
        self.pending: str | None = None
        self.last_id: str | None = None
        self.last_done = True
        self.charged = 0
        self.confirmed = 0
        self.trials: list[TrialRecord] = []
        self.counters: dict[str, Scalar] = {}
        """Counters of the live trial."""
        self.phase_seconds = 0.0
        self.seconds = 0.0
        self.refused_clients = 0
        self.recoveries = 0
        """Times that the broker died and went on."""
        self.actions = (0, "")
        """Bytes and digest of `actions.f32`."""
        self.seal: dict[str, Any] | None = None
        self._t_mark: float | None = None
        self._takes = {kind: getattr(self, f"_on_{kind}") for kind in get_args(Kind)}

    @property
    def trial(self) -> TrialRecord | None:
        """The live or last trial."""
        return self.trials[-1] if self.trials else None

    @property
    def sim_errors(self) -> int:
        return sum(t.sim_errors for t in self.trials)

    def seconds_now(self, now_s: float) -> float:
        """Wall time of the phase at a monotonic time: runs from its first charge on."""
        return self.phase_seconds + (0.0 if self._t_mark is None else now_s - self._t_mark)

    def feed(self, i: int, kind: Kind, t: float, p: dict[str, Any]) -> None:
        """Takes the next record: its index, kind, time and payload.

        Raises:
            RuleBroken: It cannot follow.
        """
        if (i == 0) != (kind == "open"):
            raise RuleBroken("ledger.sequence", i, f"{kind} cannot stand here")
        if self.seal is not None:
            raise RuleBroken("ledger.sequence", i, "data after the seal")
        if self.pending is not None and kind not in BETWEEN:
            raise RuleBroken("ledger.sequence", i, f"{kind} before the charge's confirm")
        self._clock(kind, t)
        try:
            self._takes[kind](i, p)
        except KeyError as error:
            raise RuleBroken("ledger.sequence", i, f"{kind} lacks {error}") from None
        except OverBudget as error:
            raise RuleBroken("ledger.budget", i, str(error)) from None
        except ValueError as error:
            raise RuleBroken("ledger.sequence", i, str(error)) from None

    def _clock(self, kind: Kind, t: float) -> None:
        if self._t_mark is not None and t >= self._t_mark:
            self.phase_seconds += t - self._t_mark
            self.seconds += t - self._t_mark
        if self._t_mark is not None or kind == "charge":
            self._t_mark = t

    def _on_open(self, i: int, p: dict[str, Any]) -> None:
        if p["format"] != FORMAT:
            raise RuleBroken("ledger.foreign", 0, f"format {p['format']} is not {FORMAT}")
        self.opening = p

    def _on_lease(self, i: int, p: dict[str, Any]) -> None:
        self.refused_clients += int(p["refused"])

    def _on_phase(self, i: int, p: dict[str, Any]) -> None:
        if p["from"] != self.phases.name:
            raise ValueError(f"phase {p['from']} is not the present one, {self.phases.name}")
        name = self.phases.advance()
        if p["to"] != name:
            raise ValueError(f"phase {p['to']} does not follow; {name} does")
        if self.phases.current is not None:
            self.meter.enter(self.phases.current)
        self.phase_seconds, self._t_mark = 0.0, None

    def _on_trial_open(self, i: int, p: dict[str, Any]) -> None:
        if p["reopened"]:
            last = self.trial
            if last is None or not self.phases.live or last.trial != p["trial"]:
                raise ValueError("only the live trial can be reopened")
            if self.spec.on_sim_error != "reopen_once" or last.sim_errors > 1:
                raise ValueError("the trial may not be reopened")
            if last.digest != p["digest"]:
                raise ValueError("the reopened trial is another instance")
            return
        number = self.phases.open_trial()
        if p["trial"] != number or p["phase"] != self.phases.name:
            raise ValueError(f"trial {p['phase']}/{p['trial']} cannot open now")
        self.meter.open_trial()
        self.counters = {}
        self.trials.append(
            TrialRecord(
                phase=p["phase"], trial=number, digest=p["digest"], opened_s=round(self.seconds, 3)
            )
        )

    def _on_trial_close(self, i: int, p: dict[str, Any]) -> None:
        last = self.trial
        if last is None or p["trial"] != last.trial:
            raise ValueError("the closed trial is not the live one")
        if p["steps"] != self.meter.trial_steps_used:
            raise ValueError(
                f"{p['steps']} trial steps stated, {self.meter.trial_steps_used} charged"
            )
        self.phases.close_trial(p["ended"])
        last.ended, last.steps, last.evidence = p["ended"], p["steps"], p["evidence"]
        last.closed_s = round(self.seconds, 3)

    def _on_charge(self, i: int, p: dict[str, Any]) -> None:
        if p["id"] in self.ids:
            raise ValueError(f"request {p['id']} is charged twice")
        self._check_cost(p["op"], p["cost"])
        self.meter.charge(p["cost"])
        self.ids.add(p["id"])
        self.pending, self.last_id, self.last_done = p["id"], p["id"], False
        self.charged += p["cost"]

    def _check_cost(self, op: str, cost: int) -> None:
        phase = self.phases.current
        if phase is None or op not in self.phases.allowed():
            raise ValueError(f"{op} is not allowed in phase {self.phases.name}")
        if op in ("step", "move"):
            fits = 1 <= cost <= MAX_BATCH
        elif op == "reset":
            fits = cost == phase.reset_cost
        elif extra := self.spec.extra(op):
            fits = cost == extra.cost
        else:
            fits = cost == 0
        if not fits:
            raise ValueError(f"{op} cannot cost {cost} steps")

    def _on_confirm(self, i: int, p: dict[str, Any]) -> None:
        if p["id"] != self.pending:
            raise ValueError(f"confirm of {p['id']}, pending is {self.pending}")
        self.meter.confirm(p["executed"])
        self.confirmed += p["executed"]
        self.pending, self.last_done = None, True
        self.counters = p.get("counters", self.counters)
        self.actions = (p["actions_bytes"], p["actions_sha256"])

    def _on_answer(self, i: int, p: dict[str, Any]) -> None:
        last = self.trial
        if last is None or not self.phases.live or last.answer is not None:
            raise ValueError("no trial waits for an answer")
        last.answer = p["answer"]

    def _on_sim_error(self, i: int, p: dict[str, Any]) -> None:
        self._abandon()
        if self.trial is not None and self.phases.live:
            self.trial.sim_errors += 1

    def _on_recover(self, i: int, p: dict[str, Any]) -> None:
        if p["pending"] != self.pending:
            raise ValueError(f"recovery names {p['pending']}, pending is {self.pending}")
        self._abandon()
        self.recoveries += 1
        self._t_mark = None if p["rebooted"] else self._t_mark

    def _abandon(self) -> None:
        if self.pending is not None:
            self.meter.abandon()
            self.lost.add(self.pending)
            self.pending = None

    def _on_checkpoint(self, i: int, p: dict[str, Any]) -> None:
        given = (p["charged"], p["confirmed"], p["count"])
        if given != (self.charged, self.confirmed, i):
            raise ValueError(f"checkpoint totals {given} are not those of the records")

    def _on_seal(self, i: int, p: dict[str, Any]) -> None:
        if self.phases.live or self.phases.name != FINISHED:
            raise ValueError(f"sealed in phase {self.phases.name}")
        if p["count"] != i or p["steps_used"] != self.meter.steps_used:
            raise ValueError("the seal's totals are not those of the records")
        self.seal = p
