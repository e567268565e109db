"""The trusted side in this process: a verify context whose worker is `LocalTrim`."""

import contextlib
from pathlib import Path

import msgspec

from families.f09_gello import spec
from families.f09_gello.dev import design_streams
from families.f09_gello.software import LocalTrim
from rle.errors import InvalidSubmission
from rle.verify_api import Checked, TrialFault


class FakeSubmission:
    digest, ignored = "0" * 64, ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, path: str) -> bytes:
        return (self.folder / path).read_bytes()

    def names(self) -> tuple[str, ...]:
        return tuple(
            sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if p.is_file())
        )

    def refusal(self, path: str) -> None:
        return None


class LocalWorker:
    wall_s = cpu_s = 0.0

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self, model_xml: str) -> None:
        self._trim = LocalTrim(self._path, model_xml)

    def call(self, name, *arrays):
        return self._trim.call(name, *arrays)


class FakeContext:
    """Draws from a design seed, so that the development side can be compared with it."""

    task, practice, options = spec.TASKS[0], True, {}

    def __init__(self, folder: Path, seed: int = 101) -> None:
        self.submission, self._seed = FakeSubmission(folder), seed

    def rng(self, stream, *ids, namespace="hidden"):
        arm, *inner = ids
        return design_streams(arm, self._seed)(stream, *inner)

    def check(self, kind, contract):
        if kind == "python":
            return Checked(
                kind=kind, contract=contract, files=(f"{contract.folder}/{contract.entry}",)
            )
        data = self.submission.read(contract.path)
        if b"<option" in data:
            raise InvalidSubmission(
                "mjcf.element", line=1, tag="option", parent="mujoco", allowed="compiler, asset"
            )
        folder = Path(contract.path).parent
        meshes = {Path(n).name: self.submission.read(n) for n in self.submission.names()
                  if Path(n).parent == folder and n.endswith(".stl")}  # fmt: skip
        return msgspec.structs.replace(
            Checked(kind=kind, contract=contract, files=(contract.path,)),
            canonical=data,
            assets=meshes,
        )

    @contextlib.contextmanager
    def worker(self, profile, checked, limits):
        yield LocalWorker(self.submission.folder / checked.files[0])

    def map_trials(self, fn, trials):
        return [fn(self, trial) for trial in trials]


class DyingWorker:
    """A caller that is gone after some calls."""

    def __init__(self, inner, after: int, ended: str) -> None:
        self._inner, self._left, self._ended = inner, after, ended

    def call(self, name, *arrays):
        self._left -= 1
        if self._left < 0:
            raise TrialFault(self._ended, "worker.time", "the total is used up")
        return self._inner.call(name, *arrays)
