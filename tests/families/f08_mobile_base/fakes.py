"""A trusted side without processes: checks run here, trials that a test does not ask for are canned."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from families.f08_mobile_base import spec
from rle import seeds
from rle.errors import InvalidSubmission
from rle.report import Row
from rle.verify_api import Checked, Limits, Trial
from verifier.box import mjcf_check
from verifier.box.wire import Fault


@dataclass
class FakeContext:
    """`VerifyContext` over files in memory.

    Attributes:
        files: The submission.
        run: Which trials are really run; the others score `canned`.
    """

    files: dict[str, bytes]
    run: Callable[[Trial], bool] = lambda trial: False
    canned: float = 1.0
    controller: Any = None
    """Object with reset and act that every worker holds, or an InvalidSubmission that loading raises."""
    asked: list[str] = field(default_factory=list)
    salt: bytes = seeds.PRACTICE_SALT
    options: dict[str, str] = field(default_factory=dict)
    states: dict[str, np.ndarray] = field(default_factory=dict)

    def check(self, kind: str, contract: msgspec.Struct) -> Checked:
        path = spec.ROBOT_XML if kind == "mjcf" else spec.CONTROLLER_PY
        if path not in self.files:
            raise InvalidSubmission("file.missing", path=path, found=", ".join(self.files))
        if kind == "python":
            return Checked(kind="python", contract=contract, files=(path,))
        try:
            answer = mjcf_check.check({path: self.files[path]}, msgspec.to_builtins(contract))
        except Fault as fault:
            raise InvalidSubmission(fault.code, **fault.fields) from None
        return Checked(kind="mjcf", contract=contract, files=(path,), canonical=answer["canonical"])

    def rng(self, stream: str, *ids, namespace="hidden") -> np.random.Generator:
        self.asked.append(f"{namespace}/{stream}/{ids[0]}")
        key = seeds.trial_key("f08", "mobile-base", namespace, ids[0], self.salt)
        return seeds.stream(key, stream)

    def keep(self, trial: str, states: np.ndarray) -> None:
        self.states[trial] = states

    def kept(self, trial: str) -> np.ndarray | None:
        return self.states.get(trial)

    @contextlib.contextmanager
    def worker(self, profile: str, checked: Checked, limits: Limits):
        yield FakeWorker(self.controller, checked)

    def map_trials(self, fn, trials: Sequence[Trial]) -> list[Row]:
        return [fn(self, trial) if self.run(trial) else self._canned(trial) for trial in trials]

    def _canned(self, trial: Trial) -> Row:
        known = {"target_index": float(trial.index)} if "shelf" in trial.group else {}
        if trial.group.endswith("/repeat"):
            known = {"target_index": 0.0}
        return Row(
            id=trial.id, group=trial.group, score=self.canned, ended="done", metrics=known
        )  # fmt: skip


class FakeWorker:
    wall_s = 0.5

    def __init__(self, controller: Any, checked: Checked) -> None:
        self._controller, self._checked = controller, checked

    def load(self, **fields) -> None:
        if isinstance(self._controller, InvalidSubmission):
            raise self._controller

    def reset(self, context: dict, seed: int) -> None:
        self._controller.reset(context, seed)

    def act(self, *arrays: np.ndarray) -> np.ndarray:
        specs = self._checked.contract.functions[0].args[0].arrays
        assert [np.shape(a) for a in arrays] == [s.shape for s in specs]
        return self._controller.act({s.name: a for s, a in zip(specs, arrays, strict=True)})
