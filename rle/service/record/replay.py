"""Runs a verified record again on a fresh simulator and says where it leads elsewhere.

    trial_open -> Open, charge + confirm -> the recorded actions or operation, trial_close -> Measure

Same machine, same versions: every event, counter and measurement comes out to the bit. Another CPU may
differ in the last bits, so a difference is for a person to look at and never changes a score.
"""

from pathlib import Path
from typing import Any

import numpy as np

from rle.service.adapter import BadRequest, PhaseSpec, SessionSpec, trial_plan
from rle.service.protocol import MAX_BATCH, Scalar, to_array
from rle.service.record.ledger import ACTIONS_NAME, LEDGER_NAME, Record, parse_line
from rle.service.record.walk import Walk
from rle.service.supervisor import Link, WorkerFailed
from rle.service.worker import Act, Again, Done, Extra, Measure, Open

MAX_DIFFERENCES = 8
"""Differences that are told; more say nothing new."""


def replay(folder: Path, spec: SessionSpec, salt: bytes, link: Link) -> list[str]:
    """Executes the scored trials of a record that `verify` has accepted.

    Args:
        folder: Holds `ledger.jsonl` and `actions.f32`.
        spec: The rules of the task.
        salt: Secret that the record was made under.
        link: Reaches a simulator of its own; closed by the caller.

    Returns:
        Differences in words, the first `MAX_DIFFERENCES` of them; empty where everything matches.
    """
    lines = (folder / LEDGER_NAME).read_bytes().splitlines()
    path = folder / ACTIONS_NAME
    data = path.read_bytes() if path.is_file() else b""
    run = _Replay(spec, salt, link, data)
    for line in lines:
        record = parse_line(line)
        try:
            run.feed(record, record.payload())
        except WorkerFailed as failure:
            run.differ(record, f"the simulator failed ({failure.kind})")
            break
        if len(run.differences) >= MAX_DIFFERENCES:
            break
    return run.differences


class _Replay:
    def __init__(self, spec: SessionSpec, salt: bytes, link: Link, data: bytes) -> None:
        self.differences: list[str] = []
        self._spec, self._salt, self._link, self._data = spec, salt, link, data
        self._walk = Walk(spec)
        self._charge: dict[str, Any] = {}
        self._is_open = False
        """A scored scene stands where the record says."""

    def feed(self, record: Record, p: dict[str, Any]) -> None:
        """Takes the next record; the walk sees it after the simulator has done its part."""
        phase = self._walk.phases.current
        is_scored = phase is not None and phase.kind != "development"
        match record.k:
            case "trial_open" if is_scored and phase is not None:
                self._open(record, p, phase)
            case "charge":
                self._charge = p
            case "confirm" if self._is_open and phase is not None:
                self._confirm(record, p, phase)
            case "sim_error" if self._is_open:
                self._is_open = False
                self._link.restart()
            case "trial_close":
                if self._is_open and p["evidence"]:
                    self._compare(
                        record, "evidence", self._link.call(Measure()).evidence, p["evidence"]
                    )
                self._is_open = False
        self._walk.feed(record.i, record.k, record.t, p)

    def differ(self, record: Record, text: str) -> None:
        """Notes one difference."""
        trial = self._walk.trial
        where = f"trial {trial.trial}, " if trial else ""
        self.differences.append(f"{where}record {record.i}: {text}")

    def _open(self, record: Record, p: dict[str, Any], phase: PhaseSpec) -> None:
        resume = self._walk.counters if p["reopened"] else {}
        plan = trial_plan(self._spec, phase, p["trial"], self._salt, resume=resume)
        done = self._link.call(Open(plan=plan))
        self._compare(record, "instance", {"digest": done.digest}, {"digest": p["digest"]})
        self._is_open = True

    def _confirm(self, record: Record, p: dict[str, Any], phase: PhaseSpec) -> None:
        op = self._charge["op"]
        extra = self._spec.extra(op)
        if op in ("step", "move"):
            done = self._act(p)
        elif op == "reset" and phase.reset == "same":
            done = self._link.call(Again())
        elif extra is not None and not extra.is_answer:
            try:
                done = self._link.call(Extra(name=op, args=self._charge.get("args", {})))
            except BadRequest:
                if p["executed"] or p["events"]:
                    self.differ(record, f"{op} is refused now")
                return
        else:
            return
        if op != "reset" and done.executed != p["executed"]:
            self.differ(record, f"{op} ran {done.executed} steps, recorded {p['executed']}")
        self._compare(record, "events", done.events, p["events"])
        self._compare(record, "counters", done.counters, p.get("counters", {}))

    def _act(self, p: dict[str, Any]) -> Done:
        """The recorded actions of one confirm."""
        part = self._data[self._walk.actions[0] : p["actions_bytes"]]
        actions = np.frombuffer(part, "<f4").reshape(-1, self._spec.action_dim)
        assert len(actions) <= MAX_BATCH, "the walk has checked the cost"
        return self._link.call(Act(actions=to_array(actions)))

    def _compare(
        self, record: Record, what: str, now: dict[str, Scalar], then: dict[str, Scalar]
    ) -> None:
        for name in sorted(now.keys() | then.keys()):
            if now.get(name) != then.get(name):
                self.differ(
                    record, f"{what} {name} is {now.get(name)!r}, recorded {then.get(name)!r}"
                )
