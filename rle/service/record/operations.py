"""What a record says was done, operation by operation: for replays and films."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rle.service.adapter import PhaseSpec, SessionSpec
from rle.service.protocol import Scalar
from rle.service.record.ledger import parse_line

FLOAT32_BYTES = 4


@dataclass(frozen=True)
class Operation:
    """A charged operation, or a trial that opens ("open"), closes ("close") or is lost ("lost")."""

    record: int
    """Index of the record that ends it."""
    phase: PhaseSpec
    trial: int
    op: str
    args: dict[str, Scalar] = field(default_factory=dict)
    executed: int = 0
    """Control steps; 0 for a refused or a free operation."""
    actions: slice = field(default_factory=lambda: slice(0, 0))
    """Its rows of `actions.f32`."""
    events: dict[str, Scalar] = field(default_factory=dict)
    counters: dict[str, Scalar] = field(default_factory=dict)
    """After it; of "open": what the scene starts with."""
    digest: str = ""
    """Of the instance, of "open"."""
    evidence: dict[str, Scalar] = field(default_factory=dict)
    """Final measurement, of "close"."""


def operations(lines: Iterable[bytes], spec: SessionSpec) -> Iterator[Operation]:
    """The operations of a record that the verifier has accepted, in order.

    Args:
        lines: Lines of `ledger.jsonl`.
        spec: The rules of its task.
    """
    phases = {phase.name: phase for phase in spec.phases}
    phase, trial, row = spec.phases[0], -1, 0
    charge: dict[str, Any] = {}
    counters: dict[str, Scalar] = {}
    for line in lines:
        record = parse_line(line)
        if record.k not in ("trial_open", "charge", "confirm", "sim_error", "trial_close"):
            continue
        p = record.p
        match record.k:
            case "trial_open":
                phase, trial = phases[p["phase"]], int(p["trial"])
                counters = counters if p["reopened"] else {}
                yield Operation(
                    record.i, phase, trial, "open", actions=slice(row, row), counters=counters,
                    digest=p["digest"],
                )  # fmt: skip
            case "charge":
                charge = p
            case "confirm":
                start, row = row, p["actions_bytes"] // (FLOAT32_BYTES * spec.action_dim)
                counters = p.get("counters", counters)
                yield Operation(
                    record.i, phase, trial, charge["op"], charge.get("args", {}), p["executed"],
                    slice(start, row), p["events"], counters,
                )  # fmt: skip
            case "sim_error":
                yield Operation(record.i, phase, trial, "lost")
            case "trial_close":
                yield Operation(record.i, phase, trial, "close", evidence=p["evidence"])
