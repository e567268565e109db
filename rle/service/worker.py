"""The simulator side: a loop around a `TaskAdapter`. It knows no budgets, no key, no salt.

`python -m rle.service.worker` speaks the frames of `frames.py` on file descriptor 3 with the broker.
`WorkerCore` is the same without a process, for the embedded form.
"""

import ctypes
import faulthandler
import os
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from rle.errors import RleError
from rle.service.adapter import (
    MOVE_EVENTS,
    BadRequest,
    Evidence,
    SessionSpec,
    StepOutcome,
    TaskAdapter,
    TrialPlan,
    make_adapter,
)
from rle.service.frames import recv_frame, send_frame
from rle.service.protocol import (
    MAX_REPLY_BYTES,
    Array,
    Ended,
    ObserveSpec,
    Scalar,
    encode,
    from_array,
    raw,
    to_array,
)

CHANNEL_FD = 3
PR_SET_PDEATHSIG = 1
NOTHING = raw(None)
"""No observation. Not None: msgspec decodes no `Raw | None`."""


class WorkerCall(msgspec.Struct, tag_field="op", tag=str.lower, frozen=True, kw_only=True):
    """Base of what the broker asks."""


class Open(WorkerCall):
    plan: TrialPlan


class Again(WorkerCall):
    observe: ObserveSpec | None = None


class Act(WorkerCall):
    actions: Array
    """float32, shape (n, A), inside [-1, 1]."""
    observe: ObserveSpec | None = None


class Drive(WorkerCall):
    position_m: tuple[float, float, float]
    quat_xyzw: tuple[float, float, float, float]
    gripper: float
    steps: int
    observe: ObserveSpec | None = None


class Look(WorkerCall):
    spec: ObserveSpec
    privileged: bool = False


class Extra(WorkerCall):
    name: str
    args: dict[str, Scalar]
    observe: ObserveSpec | None = None


class Measure(WorkerCall):
    pass


class Quit(WorkerCall):
    pass


AnyCall = Open | Again | Act | Drive | Look | Extra | Measure | Quit


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation led to."""

    executed: int = 0
    success: bool | None = None
    ended: Ended | None = None
    events: dict[str, Scalar] = {}
    counters: dict[str, Scalar] = {}
    actions: Array | None = None
    """Executed actions, float32."""
    observation: msgspec.Raw = NOTHING
    """Encoded `dict[str, Array]`, passed on without decoding; `NOTHING` where none was asked for."""
    digest: str = ""
    """Of the instance, from `Open`."""
    evidence: Evidence = {}
    """From `Measure`."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Reply frame: exactly one of the fields is set."""

    done: Done | None = None
    refused: str | None = None
    """The state does not allow the request; the agent may read this."""
    failed: str | None = None
    """An exception of ours; goes to the log only."""


_call_decoder = msgspec.msgpack.Decoder(AnyCall)


class WorkerCore:
    """Executes calls on one adapter."""

    def __init__(self, spec: SessionSpec, adapter: TaskAdapter | None = None) -> None:
        self._spec = spec
        self._adapter = adapter or make_adapter(spec)

    def handle(self, call: AnyCall) -> Done:
        """Runs one call.

        Raises:
            BadRequest: The state does not allow it; nothing happened.
            Exception: Anything else is a failure of the simulator.
        """
        adapter = self._adapter
        match call:
            case Open(plan=plan):
                return Done(digest=adapter.open_trial(plan), counters=adapter.counters())
            case Again(observe=look):
                adapter.reset()
                return self._done(look)
            case Act(actions=array, observe=look):
                return self._run(array, look)
            case Drive():
                return self._drive(call)
            case Look(spec=spec, privileged=privileged):
                return Done(observation=self._observation(spec, privileged))
            case Extra(name=name, args=args, observe=look):
                out = adapter.extra(name, args)
                return self._done(look, executed=out.executed, ended=out.ended, events=out.events)
            case Measure():
                return Done(evidence=checked_evidence(adapter.finish()))
            case Quit():
                adapter.close()
                return Done()

    def _run(self, array: Array, look: ObserveSpec | None) -> Done:
        events: dict[str, Scalar] = {}
        outcome = StepOutcome()
        executed = 0
        actions = from_array(array).astype(np.float64)
        for i in range(len(actions)):  # the end of an array's own iterator is a costly exception
            outcome = self._adapter.step(actions[i])
            executed += 1
            events.update(outcome.events)
            if outcome.ended is not None:
                break
        return self._done(
            look, executed=executed, success=outcome.success, ended=outcome.ended, events=events,
            actions=array if executed == len(actions) else to_array(from_array(array)[:executed]),
        )  # fmt: skip

    def _drive(self, call: Drive) -> Done:
        position, quat = np.array(call.position_m), np.array(call.quat_xyzw)
        rows: list[np.ndarray] = []
        events: dict[str, Scalar] = {}
        outcome = StepOutcome()
        for _ in range(call.steps):
            action = self._adapter.move_action(position, quat, call.gripper)
            action = np.clip(action, -1.0, 1.0).astype(np.float32)
            outcome = self._adapter.step(action.astype(np.float64))
            rows.append(action)
            events.update(outcome.events)
            if outcome.ended is not None:
                break
        off = self._adapter.move_error(position, quat)
        events |= {e.name: round(v, 6) for e, v in zip(MOVE_EVENTS, off, strict=True)}
        return self._done(
            call.observe, executed=len(rows), success=outcome.success, ended=outcome.ended,
            events=events, actions=to_array(np.array(rows, dtype=np.float32)),
        )  # fmt: skip

    def _done(self, look: ObserveSpec | None, **fields: Any) -> Done:
        observation = NOTHING if look is None else self._observation(look, False)
        return Done(counters=self._adapter.counters(), observation=observation, **fields)

    def _observation(self, spec: ObserveSpec, privileged: bool) -> msgspec.Raw:
        if privileged:
            state = self._adapter.privileged()  # ty: ignore[missing-attribute]
            return raw({name: to_array(value) for name, value in state.items()})
        observation = self._adapter.observe(spec)
        check_observation(observation, self._spec, spec)
        return raw({name: to_array(value) for name, value in observation.items()})


def check_observation(
    observation: Mapping[str, np.ndarray], spec: SessionSpec, look: ObserveSpec
) -> None:
    """Raises RuntimeError when an observation is not what the task declares."""
    declared = {key.name: (key.shape, key.dtype) for key in spec.observation}
    for name, value in observation.items():
        array = np.asarray(value)
        if name in declared:
            if (array.shape, array.dtype.name) != declared[name]:
                raise RuntimeError(
                    f"observation {name} is {array.dtype} {array.shape}, declared {declared[name]}"
                )
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise RuntimeError(f"observation {name} is not finite")
        elif name.removesuffix("_image").removesuffix("_depth") not in look.cameras:
            raise RuntimeError(f"observation {name} is not declared")
    missing = declared.keys() - observation.keys()
    if missing:
        raise RuntimeError(f"observation lacks {', '.join(sorted(missing))}")


def checked_evidence(evidence: Evidence) -> Evidence:
    """Evidence with plain Python scalars; raises RuntimeError for anything else."""
    out: Evidence = {}
    for name, value in evidence.items():
        plain = value.item() if isinstance(value, np.generic) else value
        if not isinstance(plain, bool | int | float | str):
            raise RuntimeError(f"evidence {name} is a {type(plain).__name__}")
        if isinstance(plain, float) and not np.isfinite(plain):
            raise RuntimeError(f"evidence {name} is not finite")
        if isinstance(plain, str) and len(plain) > 200:
            raise RuntimeError(f"evidence {name} has {len(plain)} characters")
        out[name] = plain
    return out


def serve(channel: socket.socket, core: WorkerCore) -> None:
    """Answers calls until `Quit` or the end of the channel."""
    while True:
        body = recv_frame(channel, MAX_REPLY_BYTES, frame_s=None)
        if body is None:
            return
        call = _call_decoder.decode(body)
        try:
            answer = Answer(done=core.handle(call))
        except BadRequest as refusal:
            answer = Answer(refused=str(refusal))
        except RleError as error:
            traceback.print_exc()
            answer = Answer(failed=error.message)
        except Exception as error:  # noqa: BLE001 - the broker decides what a failure means
            traceback.print_exc()
            answer = Answer(failed=f"{type(error).__name__}: {error}")
        send_frame(channel, encode(answer), timeout_s=60.0)
        if isinstance(call, Quit):
            return


def main() -> None:
    """Entry of the worker process: the first frame is the `SessionSpec`."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == 1:
        sys.exit("the broker is gone")
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    channel = socket.socket(fileno=CHANNEL_FD)
    first = recv_frame(channel, MAX_REPLY_BYTES)
    if first is None:
        return
    spec = msgspec.msgpack.decode(first, type=SessionSpec)
    serve(channel, WorkerCore(spec))


if __name__ == "__main__":
    main()
