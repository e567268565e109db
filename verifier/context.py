"""`VerifyContext`: what a family may ask of the trusted side, for one run or one trial of it."""

import contextlib
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from rle import seeds
from rle.contracts import RecipeRun
from rle.report import Row
from rle.seeds import Namespace
from rle.spec import Kind, Profile, TaskSpec
from rle.verify_api import Checked, Limits, Trial
from verifier.hidden import Salt
from verifier.isolation.checks import Checker
from verifier.isolation.launch import LaunchSpec
from verifier.isolation.layers import PROFILES, Plan
from verifier.isolation.worker import SubmissionWorker, charged_limit_s
from verifier.submission import Frozen

if TYPE_CHECKING:
    from verifier.recipe import Server, Trained


NOTE_SUFFIX = ".note"
"""Of the files in the log folder that tell how the calls of a worker failed."""


@dataclass(frozen=True)
class Settings:
    """Everything a context is made of; sent to the trusted processes that run trials."""

    task: TaskSpec
    submission: Frozen
    salt: Salt
    plan: Plan
    options: dict[str, str]
    log_folder: Path
    """Where workers' logs are collected."""
    jobs: int = 1
    partial: bool = False
    """A session record may end in a signed checkpoint."""
    replay: str = "none"
    """`scored`: run the actions of a session record again and compare."""
    require_ledger_trust: str | None = None
    """Weakest accepted trust of a session record."""
    states_folder: Path | None = None
    """Where trials keep what their videos show; None: no videos will be drawn."""


@dataclass
class Context:
    """Implements `rle.verify_api.VerifyContext`.

    Args:
        settings: See there.
        label: Name of the trial that this context serves; "" for the run itself.
        on_row: Told of every row as it is finished, in any order.
    """

    settings: Settings
    label: str = ""
    on_row: Callable[[Row], None] | None = None
    signal_deaths: int = 0
    """Workers of this context that a signal ended which the verifier did not send."""
    _log_numbers: Iterator[int] = field(default_factory=lambda: iter(range(10**9)))

    @property
    def task(self) -> TaskSpec:
        return self.settings.task

    @property
    def submission(self) -> Frozen:
        return self.settings.submission

    @property
    def practice(self) -> bool:
        return self.settings.salt.practice

    @property
    def options(self) -> Mapping[str, str]:
        return self.settings.options

    @property
    def jobs(self) -> int:
        return self.settings.jobs

    def rng(
        self, stream: str, *ids: int | str, namespace: Namespace = "hidden"
    ) -> np.random.Generator:
        """Stream `stream` of trial `ids[0]`; without ids, of the task as a whole."""
        trial, *inner = ids or ("task",)
        return self.streams(trial, namespace)(stream, *inner)

    def streams(self, trial: int | str, namespace: Namespace = "hidden") -> seeds.TrialStreams:
        """See `rle.verify_api.VerifyContext.streams`."""
        key = seeds.trial_key(
            self.task.family, self.task.draw_key, namespace, trial, self.settings.salt.value
        )
        return seeds.TrialStreams(key)

    def check(self, kind: Kind, contract: msgspec.Struct) -> Checked:
        """See `rle.verify_api.VerifyContext.check`."""
        return Checker(self.submission, self.settings.plan).check(kind, contract)

    @contextlib.contextmanager
    def worker(
        self, profile: Profile, checked: Checked, limits: Limits
    ) -> Generator[SubmissionWorker]:
        """See `rle.verify_api.VerifyContext.worker`."""
        numbers = PROFILES[profile]
        if profile in ("recipe_train", "recipe_serve"):
            raise ValueError(f"profile {profile!r} is started by `train` and `serve`")
        load_cap_s = min(limits.load_cap_s or math.inf, numbers.load_cap_s)
        launch = LaunchSpec(
            profile=profile,
            role=numbers.run_role,
            plan=self.settings.plan,
            submission=self.submission.folder,
            memory_bytes=limits.memory_bytes,
            cpu_s=charged_limit_s(limits, load_cap_s),
            modules=tuple(getattr(checked.contract, "modules", ())),
        )
        worker = SubmissionWorker(launch, checked, limits)
        try:
            yield worker
        finally:
            worker.close()
            self.signal_deaths += worker.died_by_signal
            self._keep_log(worker.final_log, worker.failures)

    def train(self, checked: Checked, run: RecipeRun) -> "Trained":
        """See `rle.verify_api.VerifyContext.train`."""
        from verifier import recipe  # imports this module

        base = self.settings.log_folder.parent / "recipes"
        base.mkdir(mode=0o711, exist_ok=True)
        return recipe.train(self.settings, checked, run, base / self._name("train"))

    def serve(
        self, checked: Checked, trained: "Trained", run: RecipeRun
    ) -> contextlib.AbstractContextManager["Server"]:
        """See `rle.verify_api.VerifyContext.serve`."""
        from verifier import recipe

        return recipe.serve(self.settings, checked, trained, run, self._name("serve"))

    def ledger(self) -> Any:
        """See `rle.verify_api.VerifyContext.ledger`."""
        from verifier.ledger import read_ledger  # f01 to f03 only; needs the service package

        return read_ledger(self.settings)

    def keep(self, trial: str, states: np.ndarray) -> None:
        """See `rle.verify_api.VerifyContext.keep`."""
        if self.settings.states_folder is not None:
            np.save(self.settings.states_folder / f"{trial}.npy", states, allow_pickle=False)

    def kept(self, trial: str) -> np.ndarray | None:
        """See `rle.verify_api.VerifyContext.kept`."""
        if self.settings.states_folder is None:
            return None
        path = self.settings.states_folder / f"{trial}.npy"
        return np.load(path, allow_pickle=False) if path.is_file() else None

    def map_trials(
        self,
        fn: Callable[["Context", Trial], Row],
        trials: Sequence[Trial],
        *,
        in_turn: bool = False,
    ) -> list[Row]:
        """See `rle.verify_api.VerifyContext.map_trials`."""
        from verifier.trials import run_trials  # imports this module

        return run_trials(self.settings, fn, trials, self.on_row, in_turn=in_turn)

    def _name(self, what: str) -> str:
        return f"{self.label or 'run'}-{what}-{next(self._log_numbers):04d}"

    def _keep_log(self, text: str, failures: str) -> None:
        """What a worker printed, and beside it in our words how its calls failed."""
        name = self._name("worker")
        if text:
            (self.settings.log_folder / f"{name}.log").write_text(text)
        if failures:
            (self.settings.log_folder / f"{name}{NOTE_SUFFIX}").write_text(failures)
