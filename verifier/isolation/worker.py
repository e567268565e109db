"""A worker as a family sees it: declared functions, charged time, and faults with a name."""

import contextlib
import math
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from rle.contracts import ArraySpec, OnnxContract, PythonContract, TorchScriptContract
from rle.errors import AGENT_MESSAGES, InvalidSubmission
from rle.verify_api import Checked, Limits, TrialFault, nonfinite
from verifier.box import wire
from verifier.isolation.channel import ChannelTimeout, ProtocolFault
from verifier.isolation.launch import LaunchSpec, Sandboxed, WorkerDied

READY_LIMIT = 65_536
"""Largest answer to a LOAD or RESET of a worker that runs trials, bytes."""
READY_LIMITS = {wire.READY: READY_LIMIT, wire.FAULT: wire.FAULT_LIMIT}
"""Replies to a LOAD or RESET with their largest payloads."""
CPU_MARGIN = 2
"""The kernel ends a worker at this multiple of the CPU time that its caps allow."""


def charged_limit_s(limits: Limits, load_cap_s: float) -> int:
    """CPU seconds after which the kernel ends the worker."""
    return math.ceil(CPU_MARGIN * (limits.total_cap_s + load_cap_s))


class Call:
    """One declared function: what its messages hold, worked out once."""

    def __init__(self, number: bytes, inputs: wire.Layout, outputs: wire.Layout) -> None:
        self.number, self.inputs, self.outputs = number, inputs, outputs
        self.limits = {wire.REPLY: outputs.size, wire.FAULT: wire.FAULT_LIMIT}
        self.floats = [
            number
            for number, spec in enumerate(outputs.specs)
            if wire.DTYPES[spec["dtype"]].kind == "f"
        ]
        """Which results must be finite."""


class Functions:
    """Arrays in and out of every declared function, by name."""

    def __init__(self, contract: msgspec.Struct) -> None:
        if isinstance(contract, OnnxContract):
            table = [("act", contract.inputs, contract.outputs)]
        elif isinstance(contract, TorchScriptContract):
            table = [("act", (contract.input,), (contract.output,))]
        elif isinstance(contract, PythonContract):
            table = [
                (f.name, tuple(a for arg in f.args for a in arg.arrays), _returned(f))
                for f in contract.functions
            ]
        else:
            table = []
        self._table = {
            name: Call(wire.FUNCTION.pack(number), _layout(inputs), _layout(outputs))
            for number, (name, inputs, outputs) in enumerate(table)
        }

    def __getitem__(self, name: str) -> "Call":
        if name not in self._table:
            raise KeyError(f"the contract declares no {name!r}; it has {', '.join(self._table)}")
        return self._table[name]


def _returned(function: Any) -> tuple[ArraySpec, ...]:
    return () if function.keep else function.returns


def _layout(specs: tuple[ArraySpec, ...]) -> wire.Layout:
    return wire.Layout([msgspec.to_builtins(spec) for spec in specs])


class SubmissionWorker:
    """Implements `rle.verify_api.Worker` over one sandboxed process.

    Args:
        launch: How the process is started.
        checked: The artifact that it holds.
        limits: Caps of the family.
    """

    def __init__(self, launch: LaunchSpec, checked: Checked, limits: Limits) -> None:
        self._process = Sandboxed(launch)
        self._root: Path | None = launch.submission
        self._contract = checked.contract
        self._functions = Functions(checked.contract)
        self._limits = limits
        profile_cap_s = self._process.profile.load_cap_s
        self._load_cap_s = min(limits.load_cap_s or profile_cap_s, profile_cap_s)
        self._loaded = False
        self.final_log = ""
        self.failures = ""
        """How many calls failed and how the first one did; "" where none did."""
        declared = getattr(checked.contract, "functions", ())
        self._shown = {f.name: (f.target or f.name).rpartition(":")[2] for f in declared}
        self._calls = self._failed = 0
        self._first_failure = ""
        self.died_by_signal = False
        """The process ended by a signal that the verifier did not send."""

    @property
    def wall_s(self) -> float:
        """Charged time so far: per call, wall time without waiting for a CPU, at least its CPU time."""
        return self._process.wall_s

    @property
    def cpu_s(self) -> float:
        """CPU time used in charged calls."""
        return self._process.cpu_s

    @property
    def pid(self) -> int:
        return self._process.pid

    def load(self, **fields: Any) -> None:
        """Loads the artifact; nothing of it is read or run before.

        Raises:
            InvalidSubmission: It cannot be loaded, or not in time.
            TrialFault: The worker died.
        """
        request = {
            "root": str(self._root),
            "contract": msgspec.to_builtins(self._contract),
            "fields": fields,
        }
        try:
            kind, payload = self._process.request(
                wire.LOAD,
                wire.encode_fields(request),
                self._load_cap_s,
                READY_LIMITS,
                charge=False,
            )
        except ChannelTimeout:
            raise InvalidSubmission("load.time", s=f"{self._load_cap_s:g}") from None
        except (WorkerDied, ProtocolFault) as error:
            raise self._ended(error) from None
        if kind == wire.FAULT:
            raise invalid(payload)
        self._loaded = True

    def reset(self, **fields: Any) -> None:
        """Starts a new episode. Values may be numpy arrays of the declared element types.

        Raises:
            TrialFault: As `act`.
        """
        cap_s = self._limits.reset_cap_s or self._limits.call_cap_s
        with self._noted("reset"):
            self._call(wire.RESET, wire.encode_fields(fields), cap_s, READY_LIMITS)

    def act(self, *arrays: np.ndarray) -> np.ndarray:
        """Calls the function "act".

        Returns:
            Its one result, exact shape and dtype of the contract, finite.

        Raises:
            TrialFault: `bad_action`, `timeout_call`, `timeout_total` or `worker_died`.
        """
        return self.call("act", *arrays)[0]

    def call(self, name: str, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """Calls a declared function; arrays must have exactly the declared shapes and dtypes.

        Raises:
            TrialFault: As `act`.
            KeyError, ValueError: The call itself breaks the contract (our mistake).
        """
        with self._noted(name):
            return self._ask(name, arrays, self._limits.call_cap_s, charge=True)

    def warm_up(self, name: str, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """As `call`, but not charged; its cap is `Limits.warm_up_cap_s`.

        Raises:
            TrialFault: As `act`.
        """
        cap_s = self._limits.warm_up_cap_s or self._limits.call_cap_s
        with self._noted(name):
            return self._ask(name, arrays, cap_s, charge=False)

    @contextlib.contextmanager
    def _noted(self, name: str) -> Generator[None]:
        """Counts a call, and keeps in words how the first one failed."""
        self._calls += 1
        try:
            yield
        except TrialFault as fault:
            self._failed += 1
            self._first_failure = self._first_failure or (
                f"call {self._calls} ({self._shown.get(name, name)}): {fault.detail or fault.code}"
            )
            self.failures = f"{self._failed} failed of {self._calls} calls; {self._first_failure}"
            raise

    def _ask(
        self, name: str, arrays: tuple[np.ndarray, ...], cap_s: float, *, charge: bool
    ) -> tuple[np.ndarray, ...]:
        call = self._functions[name]
        message = call.number + call.inputs.pack(arrays)
        payload = self._call(wire.ACT, message, cap_s, call.limits, charge=charge)
        try:
            results = call.outputs.unpack(payload)
        except ValueError:
            self._process.kill()
            raise TrialFault("worker_died", "ipc.frame") from None
        for number in call.floats:
            if not np.isfinite(results[number]).all():
                shown = self._shown.get(name, name)
                raise nonfinite(call.outputs.specs[number]["name"], shown, results[number])
        return tuple(results)

    def _call(
        self,
        kind: int,
        message: bytes,
        cap_s: float,
        limits: dict[int, int],
        *,
        charge: bool = True,
    ) -> bytearray:
        if not self._loaded:
            self.load()
        left_s = self._limits.total_cap_s - self.wall_s if charge else math.inf
        before_s = self.wall_s
        try:
            answer, payload = self._process.request(
                kind,
                message,
                min(cap_s, left_s),
                limits,
                charge=charge,
            )
        except ChannelTimeout:
            raise self._timeout(cap_s, left_s) from None
        except (WorkerDied, ProtocolFault) as error:
            raise self._ended(error) from None
        if self.wall_s - before_s > min(cap_s, left_s):  # by CPU time: several threads
            self._process.kill()
            raise self._timeout(cap_s, left_s)
        if answer == wire.FAULT:
            raise action_fault(payload)
        return payload

    def _timeout(self, cap_s: float, left_s: float) -> TrialFault:
        if left_s <= cap_s:
            total_s = self._limits.total_cap_s
            return TrialFault("timeout_total", "worker.time", f"its {total_s:g} s are used up")
        return TrialFault("timeout_call", "worker.time", f"one call took over {cap_s:g} s")

    def _ended(self, error: WorkerDied | ProtocolFault) -> TrialFault:
        if isinstance(error, ProtocolFault):
            return TrialFault("worker_died", error.code, error.fact)
        self.died_by_signal |= error.status < 0 and not self._process.killed
        return TrialFault("worker_died", "worker.died", str(error))

    def close(self) -> None:
        """Ends the process and everything of it; `final_log` is what it had printed."""
        self._process.close()
        self.final_log = self._process.channel.log.text()


def fault_record(payload: bytearray) -> tuple[str, dict[str, object]]:
    """Code and fields of a FAULT, reduced to what is known and printable."""
    try:
        record = wire.decode_fields(payload)
        code, fields = record["code"], record["fields"]
        clean = {str(k): _clean(v) for k, v in fields.items()}
    except (msgspec.DecodeError, RecursionError, TypeError, KeyError, AttributeError):
        return "ipc.frame", {}
    return (code, clean) if code in AGENT_MESSAGES else ("ipc.frame", {})


def _clean(value: object) -> object:
    if isinstance(value, bool | int | float):
        return value
    text = str(value)[:160]
    return "".join(c if c.isprintable() else "?" for c in text)


def invalid(payload: bytearray) -> InvalidSubmission:
    """A FAULT at check or load, in the verifier's own words."""
    return invalid_for(*fault_record(payload))


def invalid_for(code: str, fields: dict) -> InvalidSubmission:
    """A finding of a check worker, in the verifier's own words; one that it cannot have is `ipc.frame`."""
    try:
        return InvalidSubmission(code, **fields)
    except (KeyError, IndexError, ValueError):
        return InvalidSubmission("ipc.frame")


def action_fault(payload: bytearray) -> TrialFault:
    """A FAULT during a trial: the action is bad, the worker lives."""
    code, fields = fault_record(payload)
    try:
        return TrialFault("bad_action", code, AGENT_MESSAGES[code].format(**fields))
    except (KeyError, IndexError, ValueError):
        return TrialFault("bad_action", "ipc.frame", "the worker reported something unreadable")
