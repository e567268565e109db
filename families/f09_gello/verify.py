"""Verification of f09: three arms, each checked, composed, probed and measured on hidden copies.

per arm: check text -> accept parts -> battery (software in one worker per copy) -> row
reward = mean of the three rows' scores
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from families.f09_gello import metrics, scene, software, task
from families.f09_gello.devices import rows as table
from families.f09_gello.devices.draws import Streams, draw
from families.f09_gello.devices.measure import measure
from families.f09_gello.mechanism.record import Lead
from families.f09_gello.mechanism.rules import refused
from families.f09_gello.mechanism.text import contract
from families.f09_gello.spec import ARM_NAMES
from rle.errors import InvalidSubmission
from rle.report import FamilyResult, Row, read_report
from rle.verify_api import Trial, TrialFault, VerifyContext


def verify(ctx: VerifyContext) -> FamilyResult:
    """A and E_eval of f09.

    Raises:
        InvalidSubmission: Not one arm has a `lead.xml`.
    """
    if not any(is_submitted(ctx, arm) for arm in ARM_NAMES):
        names = [*ctx.submission.names(), *ctx.submission.ignored]
        found = ", ".join(names[:5]) or "nothing"
        raise InvalidSubmission("file.missing", path=f"{ARM_NAMES[0]}/lead.xml", found=found)
    rows = ctx.map_trials(
        run_arm, [Trial(id=f"t{i:02d}", index=i, group=arm) for i, arm in enumerate(ARM_NAMES)]
    )
    return FamilyResult(
        rows=rows,
        score=metrics.score({row.group: row.score for row in rows}),
        metrics=table.reward_metrics(rows),
        extra={row.group: table.facts(row) for row in rows},
        thresholds=table.thresholds(rows),
    )


def is_submitted(ctx: VerifyContext, arm: str) -> bool:
    """Whether an arm's `lead.xml` was handed in, usable or refused."""
    return f"{arm}/lead.xml" in ctx.submission.names()


def run_arm(ctx: VerifyContext, trial: Trial) -> Row:
    """The battery of one arm; the rows of two arms depend on nothing in common."""
    arm = trial.group
    if not is_submitted(ctx, arm):
        return table.absent_row(trial.id, arm)
    started_s = time.monotonic()
    lead = read_lead(ctx, arm)
    runner = Runner(ctx, arm)
    battery = measure(lead, draw(arm, hidden_streams(ctx, arm)), runner)
    row = table.battery_row(trial.id, lead, battery, policy_s=runner.policy_s)
    events = [*row.events, *((0.0, note) for note in runner.notes)]
    return msgspec.structs.replace(row, events=events, wall_s=time.monotonic() - started_s)


def hidden_streams(ctx: VerifyContext, arm: str) -> Streams:
    """Streams of an arm's hidden draws; arms and purposes share none."""
    return lambda purpose, *ids: ctx.rng(purpose, arm, *ids)


def read_lead(ctx: VerifyContext, arm: str) -> Lead:
    """`lead.xml` through the sandboxed check, then through the family's own rules."""
    try:
        checked = ctx.check("mjcf", contract(arm))
    except InvalidSubmission as error:
        return refused(arm, error)
    facts = checked.facts
    return task.accept(
        arm,
        checked.canonical or b"",
        checked.assets,
        facts.get("lines", ()),
        facts.get("mesh_faults"),
    )


class Runner:
    """Starts one worker per (arm, copy) and keeps what starting it said.

    Args:
        ctx: The trusted side.
        arm: Folder of the submission.
    """

    def __init__(self, ctx: VerifyContext, arm: str) -> None:
        self._ctx, self._arm = ctx, arm
        self.policy_s = 0.0
        self.notes: list[str] = []
        self._failed_starts = 0
        self._checked = self._check()

    def _check(self):
        if f"{self._arm}/trim.py" not in self._ctx.submission.names():
            self.notes.append(f"{self._arm}/trim.py is missing")
            return None
        try:
            return self._ctx.check("python", software.contract(self._arm))
        except InvalidSubmission as error:
            self.notes.append(error.message)
            return None

    def __call__(self, model_xml: str, use: Callable[[Any], software.Answers]) -> software.Answers:
        """Runs `use` on a fresh worker that holds `trim.py` and the given nominal model.

        Software that could not be started twice is not started again: each try may take half a minute.
        """
        if self._checked is None or self._failed_starts > 1:
            return software.ABSENT
        with self._ctx.worker("python", self._checked, software.LIMITS) as worker:
            try:
                worker.load(model_xml=model_xml)
            except (InvalidSubmission, TrialFault) as error:
                said = error.message if isinstance(error, InvalidSubmission) else str(error)
                self._failed_starts += 1
                if said not in self.notes:
                    self.notes.append(said)
                return software.ABSENT
            answers = use(worker)
            self.policy_s += worker.wall_s
        return answers


def media(ctx: VerifyContext, folder: Path) -> None:
    """Pictures, videos and a page of a verified submission; made after the score, from its report.

    Args:
        ctx: The trusted side.
        folder: Where the files go; the report lies beside it.
    """
    from families.f09_gello import pictures  # needs a renderer, which a score does not

    rows = read_report((folder.parent / "report.json").read_bytes()).rows
    names = ctx.submission.names()
    arms = [arm for arm in ARM_NAMES if f"{arm}/lead.xml" in names]
    runners = {arm: Runner(ctx, arm) for arm in arms}

    def feedforward(lead: Lead, poses: np.ndarray) -> np.ndarray:
        def use(worker: software.Caller) -> software.Answers:
            worker.call("make_trim")
            return software.Answers(
                nominal={"asked": np.array([worker.call("nominal", pose)[0] for pose in poses])}
            )

        try:
            answers = runners[lead.record.arm](scene.nominal_xml(lead.record), use)
        except TrialFault:
            answers = software.ABSENT
        return answers.nominal["asked"] if answers.nominal else np.zeros_like(poses)

    pictures.media([read_lead(ctx, arm) for arm in arms], rows, folder, feedforward)
    for row in rows:
        for suffix in (".mp4", ".jpg"):
            film = folder / f"{row.group}_hold{suffix}"
            if film.is_file():
                shutil.copyfile(film, folder / f"{row.id}{suffix}")
