"""A trusted side without a sandbox: the protocols of `rle/verify_api.py` in this process."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from families.f04_tracking import policy, spec
from rle import seeds
from rle.report import Row
from rle.verify_api import Checked, Limits, Trial, TrialFault


@dataclass
class FakeSubmission:
    """The two files, from memory."""

    files: dict[str, bytes]
    digest: str = "0" * 64
    folder: Path = Path()
    ignored: Sequence[str] = ()

    def read(self, path: str) -> bytes:
        return self.files[path]

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.files))


class FakeWorker:
    """Runs a function, or raises the fault that it returns."""

    wall_s = 0.0
    cpu_s = 0.0

    def __init__(self, act: Callable[[np.ndarray], np.ndarray | TrialFault]) -> None:
        self._act = act

    def act(self, frames: np.ndarray) -> np.ndarray:
        result = self._act(frames)
        if isinstance(result, TrialFault):
            raise result
        return result


@dataclass
class FakeContext:
    """`VerifyContext` over one policy per worker; `make_act` is called once for each."""

    slug: str
    make_act: Callable[[], Callable[[np.ndarray], np.ndarray | TrialFault]]
    history: int = 1
    options: Mapping[str, str] = field(default_factory=dict)
    salt: bytes = seeds.PRACTICE_SALT
    practice: bool = True
    workers: int = 0

    def __post_init__(self) -> None:
        self.task = next(t for t in spec.TASKS if t.slug == self.slug)
        meta = b'{"obs_history_length": %d}' % self.history
        self.submission = FakeSubmission({spec.META_FILE: meta, spec.ONNX_FILE: b""})

    def rng(
        self, stream: str, *ids: int | str, namespace: seeds.Namespace = "hidden"
    ) -> np.random.Generator:
        key = seeds.trial_key("f04", self.task.draw_key, namespace, ids[0], self.salt)
        return seeds.stream(key, stream, *ids[1:])

    def check(self, kind: str, contract: object) -> Checked:
        assert (kind, contract) == ("onnx", policy.contract(self.history))
        facts = {"n_parameters": 100, "inference_ms": 0.1}
        return Checked(kind="onnx", contract=contract, files=(spec.ONNX_FILE,), facts=facts)

    @contextlib.contextmanager
    def worker(self, profile: str, checked: Checked, limits: Limits) -> Iterator[FakeWorker]:
        assert profile == "onnx"
        self.workers += 1
        yield FakeWorker(self.make_act())

    def map_trials(
        self, fn: Callable[["FakeContext", Trial], Row], trials: Sequence[Trial]
    ) -> list[Row]:
        return [fn(self, trial) for trial in trials]


def context_of(slug: str, model_bytes: bytes, history: int = 1, **options: str) -> FakeContext:
    """A context whose workers run an ONNX graph in this process."""
    return FakeContext(
        slug, lambda: policy.LocalGraph(model_bytes, history).act, history, options or {}
    )
