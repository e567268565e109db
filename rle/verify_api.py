"""What a family's `verify(ctx)` may use of the trusted side. Protocols only: `verifier` implements them.

A family reads its submission through `check`, talks to it through `worker`, draws hidden numbers
through `rng`, and spreads its trials with `map_trials`. It never sees the salt, an output path or
an exception handler.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np

from rle.contracts import RecipeRun
from rle.errors import AGENT_MESSAGES, InvalidSubmission
from rle.report import FamilyResult, Row
from rle.seeds import Namespace, TrialStreams
from rle.spec import Kind, Profile, TaskSpec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Caps of one worker. A family may lower a profile's numbers, never raise them."""

    call_cap_s: float
    """Longest charged time of one call: wall time without waiting for a CPU, at least its CPU time."""
    total_cap_s: float
    """Longest charged time of all calls of one worker."""
    reset_cap_s: float | None = None
    """Longest charged time of one reset; None: as `call_cap_s`."""
    load_cap_s: float | None = None
    warm_up_cap_s: float | None = None
    """Longest wall time of a call that is not charged; None: as `call_cap_s`."""
    memory_bytes: int | None = None


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact that passed its check: what the worker loads, and facts for the report."""

    kind: Kind
    contract: msgspec.Struct
    files: tuple[str, ...]
    """Paths below the frozen submission."""
    facts: dict[str, Any] = {}
    """Counts and names found by the check (parameters, inference time)."""
    canonical: bytes | None = None
    """Re-written bytes that alone may be compiled (mjcf); the bytes of a `data` file."""
    assets: dict[str, bytes] = {}
    """Re-written files that the canonical bytes name (meshes of an mjcf)."""


class Submission(Protocol):
    """The frozen copy of what was submitted."""

    digest: str
    folder: Path
    ignored: Sequence[str]

    def read(self, path: str) -> bytes:
        """Bytes of a file of the frozen copy. Raises InvalidSubmission("file.missing")."""
        ...

    def names(self) -> tuple[str, ...]:
        """Paths of all copied files, sorted."""
        ...

    def refusal(self, path: str) -> InvalidSubmission | None:
        """Why a file, or a folder above it, was refused, where files are judged one by one."""
        ...


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One trial to run: its public name and the stream coordinates it draws from."""

    id: str
    index: int
    namespace: Namespace = "hidden"
    group: str = ""
    params: dict[str, Any] = {}
    """Family facts that are not secret (profile, arm, scenario)."""


class Worker(Protocol):
    """A sandboxed process that holds one submission's code or model."""

    wall_s: float
    cpu_s: float
    pid: int

    def load(self, **fields: Any) -> None: ...
    def reset(self, **fields: Any) -> None: ...

    def act(self, *arrays: np.ndarray) -> np.ndarray:
        """One call with the contract's exact shapes and dtypes; the answer is finite.

        Raises:
            TrialFault: The call failed; `ended` says how (bad_action, timeout_call, ...).
        """
        ...

    def call(self, name: str, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """Calls a declared function of a contract that declares several."""
        ...

    def warm_up(self, name: str, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """As `call`, but its time is not charged: lazy imports and first-use compilation."""
        ...


class Trained(Protocol):
    """What a recipe's training left: a frozen, checked checkpoint."""

    facts: dict[str, Any]
    """`ckpt_elements`, `ckpt_bytes`."""
    wall_s: float
    stopped: bool
    """It was still running at its limit; the checkpoint is what it had written by then."""


class Server(Protocol):
    """A recipe that serves; what it answers on its socket is untrusted."""

    socket: Path
    """Unix socket to connect to."""

    def check(self) -> None:
        """To be called between requests. Raises TrialFault("worker_died") once the server has ended."""
        ...


class TrialFault(Exception):
    """A submission failed inside a trial: the trial ends, the row says how.

    Args:
        ended: One of the common endings (`bad_action`, `timeout_call`, `worker_died`, ...).
        code: Finding (`ipc.extra`, `action.nonfinite`).
    """

    def __init__(self, ended: str, code: str, detail: str = "") -> None:
        super().__init__(f"{ended}: {code}{': ' + detail if detail else ''}")
        self.ended = ended
        self.code = code
        self.detail = detail

    def __reduce__(self):
        return (type(self), (self.ended, self.code, self.detail))


def nonfinite(field: str, function: str, values: np.ndarray) -> TrialFault:
    """The fault of an answer that holds a number which is none, with its first place.

    Args:
        field: Name of the array.
        function: Name of the function that returned it.
        values: What it returned; at least one is not finite.
    """
    first = np.argwhere(~np.isfinite(values))[0].tolist()
    said = f"{field}{first or ''} of {function} is {values[tuple(first)]:g}"
    text = f"{AGENT_MESSAGES['action.nonfinite']}; {said}"
    return TrialFault("bad_action", "action.nonfinite", text)


class VerifyContext(Protocol):
    """Everything a family may ask of the trusted side."""

    task: TaskSpec
    submission: Submission
    practice: bool
    options: Mapping[str, str]
    jobs: int
    """Processes that the run may keep busy."""

    def rng(
        self, stream: str, *ids: int | str, namespace: Namespace = "hidden"
    ) -> np.random.Generator:
        """Stream `stream` of trial `ids[0]` (further ids: sub-streams) of this task's `draw_key`."""
        ...

    def streams(self, trial: int | str, namespace: Namespace = "hidden") -> TrialStreams:
        """All streams of a trial as one value, for trusted processes that prepare it."""
        ...

    def check(self, kind: Kind, contract: msgspec.Struct) -> Checked:
        """Checks an artifact in a sandbox. Raises InvalidSubmission(code, **fields)."""
        ...

    def worker(
        self, profile: Profile, checked: Checked, limits: Limits
    ) -> AbstractContextManager[Worker]:
        """Starts a fresh worker; leaving the context ends it and everything it started."""
        ...

    def train(self, checked: Checked, run: RecipeRun) -> Trained:
        """Trains a recipe and freezes what it left. Raises InvalidSubmission or BudgetExceeded."""
        ...

    def serve(
        self, checked: Checked, trained: Trained, run: RecipeRun
    ) -> AbstractContextManager[Server]:
        """Starts the recipe as a server; leaving the context ends it. Raises InvalidSubmission."""
        ...

    def keep(self, trial: str, states: np.ndarray) -> None:
        """Keeps the states that a trial went through for `media`, which then plays nothing again.

        They stay until the run ends; a run without videos keeps nothing.
        """
        ...

    def kept(self, trial: str) -> np.ndarray | None:
        """What was kept of a trial, None if nothing."""
        ...

    def ledger(self) -> Any:
        """The verified session record. Raises InvalidSubmission or InfrastructureError."""
        ...

    def map_trials(
        self,
        fn: Callable[["VerifyContext", Trial], Row],
        trials: Sequence[Trial],
        *,
        in_turn: bool = False,
    ) -> list[Row]:
        """Runs `fn` on every trial, in parallel processes, and returns rows in trial order.

        `fn` is a module-level function (it is sent to other processes). `in_turn` runs the trials in
        this process, one after the other, for scores that hold time; then any function will do.
        """
        ...


Verify = Callable[[VerifyContext], FamilyResult]
"""Type of `families/*/verify.py::verify`."""
