"""Runs a verified record again on a fresh simulator and says where it leads elsewhere.

    trial_open -> Open, charge + confirm -> the recorded actions or operation, trial_close -> Measure

Same machine, same versions: every event, counter and measurement comes out to the bit. Another CPU may
differ in the last bits, so a difference is for a person to look at and never changes a score.
"""

from pathlib import Path

import numpy as np

from rle.service.adapter import MOVE_EVENTS, BadRequest, SessionSpec, trial_plan
from rle.service.protocol import MAX_BATCH, Scalar, to_array
from rle.service.record.ledger import ACTIONS_NAME, LEDGER_NAME
from rle.service.record.operations import Operation, operations
from rle.service.supervisor import Link, WorkerFailed
from rle.service.worker import Act, Again, Done, Extra, Measure, Open

MAX_DIFFERENCES = 8
"""Differences that are told; more say nothing new."""

OF_MOVE = frozenset(event.name for event in MOVE_EVENTS)


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
    path = folder / ACTIONS_NAME
    actions = np.frombuffer(path.read_bytes() if path.is_file() else b"", "<f4")
    run = _Replay(spec, salt, link, actions.reshape(-1, spec.action_dim))
    for operation in operations((folder / LEDGER_NAME).read_bytes().splitlines(), spec):
        if operation.phase.kind == "development":
            continue
        try:
            run.play(operation)
        except WorkerFailed as failure:
            run.differ(operation, f"the simulator failed ({failure.kind})")
            break
        if len(run.differences) >= MAX_DIFFERENCES:
            break
    return run.differences


class _Replay:
    def __init__(self, spec: SessionSpec, salt: bytes, link: Link, actions: np.ndarray) -> None:
        self.differences: list[str] = []
        self._spec, self._salt, self._link, self._actions = spec, salt, link, actions
        self._is_open = False
        """A scored scene stands where the record says."""

    def play(self, operation: Operation) -> None:
        """Has the simulator do its part."""
        match operation.op:
            case "open":
                self._open(operation)
            case "lost" if self._is_open:
                self._is_open = False
                self._link.restart()
            case "close":
                if self._is_open and operation.evidence:
                    now = self._link.call(Measure()).evidence
                    self._compare(operation, "evidence", now, operation.evidence)
                self._is_open = False
            case _ if self._is_open:
                self._carry_out(operation)

    def differ(self, operation: Operation, text: str) -> None:
        """Notes one difference."""
        self.differences.append(f"trial {operation.trial}, record {operation.record}: {text}")

    def _open(self, operation: Operation) -> None:
        plan = trial_plan(
            self._spec, operation.phase, operation.trial, self._salt, resume=operation.counters
        )
        done = self._link.call(Open(plan=plan))
        self._compare(operation, "instance", {"digest": done.digest}, {"digest": operation.digest})
        self._is_open = True

    def _carry_out(self, operation: Operation) -> None:
        op = operation.op
        extra = self._spec.extra(op)
        if op in ("step", "move"):
            rows = self._actions[operation.actions]
            assert len(rows) <= MAX_BATCH, "the verifier has checked the cost"
            done = self._link.call(Act(actions=to_array(rows)))
        elif op == "reset" and operation.phase.reset == "same":
            done = self._link.call(Again())
        elif extra is not None and not extra.is_answer:
            try:
                done = self._link.call(Extra(name=op, args=operation.args))
            except BadRequest:
                if operation.executed or operation.events:
                    self.differ(operation, f"{op} is refused now")
                return
        else:
            return
        self._judge(operation, done)

    def _judge(self, operation: Operation, done: Done) -> None:
        if operation.op != "reset" and done.executed != operation.executed:
            self.differ(
                operation,
                f"{operation.op} ran {done.executed} steps, recorded {operation.executed}",
            )
        # A `move` runs again as its actions, which have no target to be off from.
        recorded = {k: v for k, v in operation.events.items() if k not in OF_MOVE}
        self._compare(operation, "events", done.events, recorded)
        self._compare(operation, "counters", done.counters, operation.counters)

    def _compare(
        self, operation: Operation, what: str, now: dict[str, Scalar], then: dict[str, Scalar]
    ) -> None:
        for name in sorted(now.keys() | then.keys()):
            if now.get(name) != then.get(name):
                self.differ(
                    operation, f"{what} {name} is {now.get(name)!r}, recorded {then.get(name)!r}"
                )
