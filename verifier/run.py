"""One verification, in reading order: from a folder of untrusted files to `reward.json`."""

import contextlib
import datetime
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from rle import registry
from rle.errors import (
    BudgetExceeded,
    InfrastructureError,
    InvalidSubmission,
    IsolationUnavailable,
    RleError,
)
from rle.report import (
    FAILED_ENDED,
    ErrorRecord,
    FamilyResult,
    IsolationRecord,
    Outcome,
    Report,
    Row,
    SelfTest,
)
from rle.spec import TaskSpec
from verifier import hidden, machine, media, output
from verifier.context import NOTE_SUFFIX, Context, Settings
from verifier.isolation import layers, selftest
from verifier.isolation.layers import Mode, Plan
from verifier.submission import Frozen, freeze

EXIT_REWARD, EXIT_USAGE, EXIT_INFRASTRUCTURE, EXIT_ISOLATION, EXIT_INTERRUPTED = 0, 2, 3, 4, 130
LOG_LIMIT_BYTES = 2**20
"""Largest `worker.log`."""
SALT_PLACE = "SALT_FILE"
"""Stands for the salt file in the command that a report shows: where it lies is nobody's business."""
STOP_SIGNALS = media.STOP_SIGNALS
DIVERGED = "replay_diverged"
"""Flag of a report whose recorded actions led elsewhere when they ran again."""
INCOMPLETE = "ledger_incomplete"
"""Flag of a session whose broker died in it and went on."""
KEPT = "submission"
"""Folder of OUT that keeps the frozen copy."""


class Interrupted(BaseException):
    """SIGTERM or SIGINT reached the verifier before the result was written."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the command line asks for."""

    task: TaskSpec
    artifacts: Path
    out: Path
    salt_file: str | None = None
    isolation: Mode = "strict"
    jobs: int = 1
    keep: bool = True
    media: bool = False
    harness: bool = False
    replay: str = "none"
    require_ledger_trust: str | None = None
    partial: bool = False
    options: dict[str, str] = field(default_factory=dict)

    def command(self) -> str:
        """The command that makes this result again."""
        parts = ["rle", "verify", self.task.id, "--submission", str(self.artifacts)]
        parts += ["--out", str(self.out)]
        for name, value in sorted(self.options.items()):
            parts += [f"--{name}", value]
        if self.salt_file is not None:
            parts += ["--salt-file", SALT_PLACE]
        if self.isolation != "strict":
            parts += ["--isolation", self.isolation]
        return shlex.join(parts)


class Run:
    """State of one verification; every way to end writes exactly one report from it."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.task = request.task
        self.started_at = _now()
        self._start_s = time.monotonic()
        self.salt: hidden.Salt | None = None
        self.plan: Plan | None = None
        self.frozen: Frozen | None = None
        self.selftests: list[SelfTest] = []
        self.speeds: list[float] = []
        self.settings: Settings | None = None
        self.rows: dict[str, Row] = {}
        self.report: Report | None = None
        self._work = Path(tempfile.mkdtemp(prefix="rle-verify-"))

    def execute(self) -> int:
        """Runs the pipeline.

        Returns:
            Exit code of the process.

        Raises:
            UserError: Something the caller gave cannot be used; no report is written.
            Interrupted: By a signal; `fail` writes the report.
        """
        output.prepare(self.request.out)
        for folder in (KEPT, media.FOLDER):
            shutil.rmtree(self.request.out / folder, ignore_errors=True)
        self.salt = hidden.read_salt(self.request.salt_file)
        try:
            result = self._grade(self.salt)
        except InvalidSubmission as error:
            return self._conclude("invalid_submission", 0.0, error)
        except BudgetExceeded as error:
            return self._conclude("budget_exceeded", 0.0, error)
        except InfrastructureError as error:
            return self.fail(error)
        return self._conclude(result.outcome, result.score, None, result)

    def _grade(self, salt: hidden.Salt) -> FamilyResult:
        self.plan = plan = layers.plan(self.request.isolation)
        if plan.own_uid:
            self._work.chmod(0o711)  # workers of another uid reach the frozen copy by its name
        self.frozen = freeze(
            self.request.artifacts, self._work / KEPT, self.task, harness=self.request.harness
        )
        self._banner(salt, plan)
        for profile in self.task.profiles:
            private = salt.folder or self.request.out
            self.selftests.append(selftest.run(profile, plan, private))
        self._measure_speed()
        self.settings = self._make_settings(salt, plan, self.frozen)
        context = Context(self.settings, on_row=lambda row: self.rows.__setitem__(row.id, row))
        result = registry.room(self.task.family, "verify").verify(context)
        self._measure_speed()
        return result

    def _measure_speed(self) -> None:
        """For tasks with wall-clock terms: how fast the machine is now, and whether that is enough."""
        if self.task.family not in machine.TIMED_FAMILIES:
            return
        self.speeds.append(machine.speed_factor())
        if self.speeds[-1] < machine.SLOWEST_FACTOR:
            raise InfrastructureError(
                f"this machine runs at {self.speeds[-1]:.2f} of the reference speed; at least "
                f"{machine.SLOWEST_FACTOR:g} is needed for a task that measures time. Verify on "
                "another machine.",
                code="machine.slow",
            )

    def _make_settings(self, salt: hidden.Salt, plan: Plan, frozen: Frozen) -> Settings:
        logs, states = self._work / "logs", self._work / "states"
        logs.mkdir()
        if self.request.media:
            states.mkdir(mode=0o700)  # hidden draws show in them
        return Settings(
            task=self.task,
            submission=frozen,
            salt=salt,
            plan=plan,
            options=self.request.options,
            log_folder=logs,
            jobs=self.request.jobs,
            partial=self.request.partial,
            replay=self.request.replay,
            require_ledger_trust=self.request.require_ledger_trust,
            states_folder=states if self.request.media else None,
        )

    def _banner(self, salt: hidden.Salt, plan: Plan) -> None:
        if salt.practice:
            _say("practice: no salt file, so the draws are public and the result is never ranked.")
        if plan.mode == "reduced":
            missing = "; ".join(f"{layer}: {fact}" for layer, fact, _ in plan.missing)
            _say(f"REDUCED ISOLATION ({missing or 'asked for'}): the result is marked.")

    def _conclude(
        self,
        outcome: Outcome,
        reward: float,
        error: RleError | None = None,
        result: FamilyResult | None = None,
    ) -> int:
        """Writes report and reward; from here on a signal no longer ends the run half-way."""
        _ignore_signals()
        self.report = self._make_report(outcome, reward, error, result)
        self._keep_files()
        output.write_report(self.request.out, self.report)
        output.write_reward(self.request.out, self.report, self.task.n_trials)
        if self.request.media and self.settings and outcome == "scored":
            why = media.render(self.settings, self.request.out)
            if why:
                _say(f"no videos: {why}.")
        return EXIT_REWARD

    def fail(self, error: RleError) -> int:
        """Writes a report without a reward."""
        _ignore_signals()
        self.report = self._make_report("infrastructure_error", None, error, None)
        self._keep_files()
        output.write_report(self.request.out, self.report)
        if error.code == "verifier.interrupted":
            return EXIT_INTERRUPTED
        return EXIT_ISOLATION if isinstance(error, IsolationUnavailable) else EXIT_INFRASTRUCTURE

    def _make_report(
        self,
        outcome: Outcome,
        reward: float | None,
        error: RleError | None,
        result: FamilyResult | None,
    ) -> Report:
        known = result or FamilyResult(
            rows=list(self.rows.values()), score=0.0, **_refused_record(error)
        )
        return Report(
            task=self.task.id,
            family_version=self.task.version,
            outcome=outcome,
            reward=reward,
            raw_total=known.raw_total,
            gates=known.gates,
            metrics=known.metrics,
            rows=known.rows,
            submission=self.frozen.record if self.frozen else None,
            versions=machine.versions(),
            isolation=self._isolation(),
            practice=self.salt is None
            or self.salt.practice
            or (known.ledger is not None and known.ledger.trust == "practice"),
            validation="RLE_VALIDATION" in os.environ
            or (known.ledger is not None and known.ledger.validation),
            scored=known.scored,
            reference=known.reference,
            options=self.request.options,
            salt_id=self.salt.id if self.salt else None,
            machine=machine.describe(*self.speeds[:2]),
            started_at=self.started_at,
            finished_at=_now(),
            wall_s=time.monotonic() - self._start_s,
            errors=[ErrorRecord(code=error.code, message=error.message)] if error else [],
            flags=[*known.flags, *self._flags(known)],
            failed_calls=self._failed_calls(),
            thresholds=known.thresholds,
            ledger=known.ledger,
            extra=known.extra,
            command=self.request.command(),
        )

    @staticmethod
    def _flags(result: FamilyResult) -> list[str]:
        """What a person should look at, whatever the family says."""
        if result.ledger is None:
            return []
        found = {
            INCOMPLETE: result.ledger.recoveries > 0,
            DIVERGED: result.ledger.replay == "diverged",
        }
        return [flag for flag, raised in found.items() if raised]

    def _isolation(self) -> IsolationRecord | None:
        if self.plan is None:
            return None
        blocked = [set(s.blocked) for s in self.selftests]
        allowed = [set(s.allowed) for s in self.selftests]
        return IsolationRecord(
            mode=self.plan.mode,
            layers=list(self.plan.layers),
            missing=[f"{layer}: {fact}" for layer, fact, _ in self.plan.missing],
            selftest=SelfTest(
                blocked=sorted(set.intersection(*blocked)) if blocked else [],
                allowed=sorted(set.intersection(*allowed)) if allowed else [],
            ),
        )

    def _failed_calls(self) -> list[str]:
        """What the workers of each trial noted, in their order."""
        notes = sorted(
            (*note.name.partition("-worker-")[::2], note.read_text())
            for note in (self._work / "logs").glob(f"*{NOTE_SUFFIX}")
        )
        return [f"{trial}: {text}" for trial, _, text in notes]

    def _keep_files(self) -> None:
        """The frozen copy (`--keep`) and what workers printed, beside the report."""
        logs = sorted((self._work / "logs").glob("*.log"))
        text = "".join(f"== {log.stem}\n{log.read_text()}\n" for log in logs)
        if text:
            data = text.encode()[:LOG_LIMIT_BYTES]
            output.write_atomic(self.request.out / output.WORKER_LOG, data)
        if self.request.keep and self.frozen:
            output.copy_folder(self.frozen.folder, self.request.out / KEPT)

    def clean(self) -> None:
        """Removes the working folder; its read-only folders are opened first."""
        for folder, _, _ in os.walk(self._work):
            with contextlib.suppress(OSError):
                os.chmod(folder, 0o700)
        shutil.rmtree(self._work, ignore_errors=True)


@contextlib.contextmanager
def interruptible() -> Generator[None]:
    """SIGTERM and SIGINT raise `Interrupted` in the main thread; afterwards all is as before."""

    def interrupt(number: int, frame: object) -> None:
        raise Interrupted(signal.Signals(number).name)

    before = {number: signal.signal(number, interrupt) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore_signals() -> None:
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _refused_record(error: RleError | None) -> dict[str, Any]:
    """What a report says of a session record that was not believed."""
    if error is None or not error.code.startswith("ledger."):
        return {}
    return {"metrics": {"ledger_ok": 0.0}, "extra": {"ledger_reason": error.message}}


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _say(text: str) -> None:
    sys.stderr.write(f"rle verify: {text}\n")


def summary(report: Report) -> str:
    """A line for people, and one each for what may have gone wrong with a score."""
    failed = f": {report.errors[0].message}" if report.errors else ""
    label = report.outcome.replace("_", " ")
    if report.reward is None or report.outcome != "scored":
        return f"{report.task}: {label}{failed}"
    lines = [f"{report.task}: {label} {report.reward:.4f} ({len(report.rows)} trials)"]
    closed = [name for name, is_open in report.gates.items() if not is_open]
    if closed:
        lines.append(f"  gates closed: {', '.join(closed)}")
    for ended in sorted({row.ended for row in report.rows} & FAILED_ENDED):
        ids = ", ".join(row.id for row in report.rows if row.ended == ended)
        lines.append(f"  ended by {ended}: {ids}")
    if report.failed_calls:
        first, *others = report.failed_calls
        more = f" (and in {len(others)} more: see failed_calls in report.json)" if others else ""
        lines.append(f"  {first}{more}")
    return "\n".join(lines)


def as_json(report: Report) -> str:
    return msgspec.json.encode(report).decode()
