"""A and E_eval of f06, in reading order: artifact, smoke frame, twenty trials, rows, result."""

import functools
import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from families.f06_pose import ahead, metrics, spec, task
from families.f06_pose.ahead import Ahead, Scenes
from families.f06_pose.estimators import Answer, Estimator, estimator_of, is_over, limits
from families.f06_pose.world import pictures
from families.f06_pose.world.frames import Shot
from rle.errors import InvalidSubmission
from rle.report import FamilyResult, Row, Threshold
from rle.verify_api import Checked, Trial, TrialFault, VerifyContext, Worker

SCORED = "scored"
A, B = metrics.STAGE_A, metrics.STAGE_B


def verify(ctx: VerifyContext) -> FamilyResult:
    """The estimator answers ten groups of single frames and ten pushes, one frame at a time."""
    estimator = estimator_of(ctx.task)
    checked = ctx.check(estimator.kind, estimator.contract)
    smoke = smoke_shot(ctx)
    check_smoke(ctx, estimator, checked, smoke)
    chosen = ctx.options.get("profile", SCORED)
    trials = trials_of(chosen)
    scenes = [scenes_of(ctx, trial) for trial in trials]
    with Ahead(scenes, ctx.jobs - 1) as frames:
        run = functools.partial(
            run_trial, estimator=estimator, checked=checked, smoke=smoke, frames=frames
        )
        rows = ctx.map_trials(run, trials, in_turn=True)
    return compose(rows, is_scored=chosen == SCORED, checked=checked)


# ------------------------------------------------------------------------------------- trials


def trials_of(chosen: str) -> list[Trial]:
    """Trials of a run: the scored ones, a quick look at both stages, or the metered evaluation's."""
    if chosen == "design":
        return [
            Trial(id=f"{stage}{seed}", index=i, namespace="design", group=stage, params={"seed": seed})
            for stage in (A, B)
            for i, seed in enumerate(spec.DESIGN_SEEDS)
        ]  # fmt: skip
    counts = {A: spec.N_GROUPS_A, B: spec.N_PUSHES_B}
    if chosen == "quick":
        counts = dict.fromkeys(counts, 1)
    return [
        Trial(id=f"{stage}{i:02d}", index=i, group=stage)
        for stage, n in counts.items()
        for i in range(n)
    ]


def scenes_of(ctx: VerifyContext, trial: Trial) -> Scenes:
    """What a trial shows, as streams that a renderer process may hold."""
    is_design = trial.namespace == "design"
    channels = spec.CHANNELS[ctx.task.slug]
    number = trial.params["seed"] if is_design else trial.index
    if trial.group == B:
        frames = spec.DESIGN_PUSH_FRAMES if is_design else spec.FRAMES_PER_PUSH_B
        streams = ctx.streams(task.trial_name("push", number), trial.namespace)
        return Scenes("push", (streams,), frames, channels)
    n = spec.DESIGN_SINGLES if is_design else spec.FRAMES_PER_GROUP_A
    names = [task.trial_name("single", number * n + k) for k in range(n)]
    return Scenes("single", tuple(ctx.streams(s, trial.namespace) for s in names), n, channels)


def smoke_shot(ctx: VerifyContext) -> Shot:
    """The frame of the gates and of every warm-up, from a namespace of its own."""
    streams = ctx.streams(task.trial_name("single", 0), "smoke")
    return ahead.shoot(Scenes("single", (streams,), 1, spec.CHANNELS[ctx.task.slug]))[0]


def check_smoke(ctx: VerifyContext, estimator: Estimator, checked: Checked, smoke: Shot) -> None:
    """Gates `load` and `interface`: the artifact loads and answers the smoke frame.

    Raises:
        InvalidSubmission: It does not.
    """
    with ctx.worker(estimator.profile, checked, limits(spec.SMOKE_FRAMES)) as worker:
        worker.load()
        try:
            _warm_up(worker, estimator, smoke)
        except TrialFault as fault:
            code = "f06.died" if is_over(fault) else "f06.answer"
            raise InvalidSubmission(code, fact=fault.detail or fault.code) from None


def _warm_up(worker: Worker, estimator: Estimator, smoke: Shot) -> None:
    estimator.start(worker)
    estimator.ask(worker, smoke.obs, warm_up=True)


def run_trial(
    ctx: VerifyContext,
    trial: Trial,
    *,
    estimator: Estimator,
    checked: Checked,
    smoke: Shot,
    frames: Ahead,
) -> Row:
    """One trial in a fresh worker, pinned to the last CPU; frame k + 1 leaves after answer k came."""
    shots = frames.shots(_number(ctx, trial))
    with ctx.worker(estimator.profile, checked, limits(len(shots))) as worker:
        os.sched_setaffinity(worker.pid, ahead.cpus()[1])
        try:
            worker.load()
            _warm_up(worker, estimator, smoke)
        except TrialFault as fault:
            if is_over(fault):
                return to_row(trial, shots, [None] * len(shots), [0.0] * len(shots), fault.ended)
        answers, charged_s, ended = play(worker, estimator, shots, each=trial.group == A)
    return to_row(trial, shots, answers, charged_s, ended)


def _number(ctx: VerifyContext, trial: Trial) -> int:
    ids = [t.id for t in trials_of(ctx.options.get("profile", SCORED))]
    return ids.index(trial.id)


def play(
    worker: Worker, estimator: Estimator, shots: Sequence[Shot], *, each: bool
) -> tuple[list[Answer | None], list[float], str]:
    """Puts the frames one at a time.

    Args:
        worker: Loaded and warm.
        estimator: How it is asked.
        shots: Frames in order.
        each: Whether every frame is an episode of its own (stage A).

    Returns:
        Answer (None: unanswered) and charged seconds of each frame, and how the trial ended.
    """
    answers: list[Answer | None] = [None] * len(shots)
    charged_s = [0.0] * len(shots)
    for k, shot in enumerate(shots):
        before_s = worker.wall_s
        try:
            if each or k == 0:
                estimator.start(worker)
            answers[k] = estimator.ask(worker, shot.obs)
        except TrialFault as fault:
            if is_over(fault):
                return answers, charged_s, fault.ended
        charged_s[k] = worker.wall_s - before_s
    return answers, charged_s, "done"


# --------------------------------------------------------------------------------------- rows


def to_row(
    trial: Trial,
    shots: Sequence[Shot],
    answers: Sequence[Answer | None],
    charged_s: Sequence[float],
    ended: str,
) -> Row:
    """What a trial measured and scored; curves run over its answered frames."""
    pairs = [
        metrics.errors(answer.pose if answer else None, shot.pose)
        for answer, shot in zip(answers, shots, strict=True)
    ]
    right = [
        answer is not None and answer.shape_id == shot.shape_id
        for answer, shot in zip(answers, shots, strict=True)
    ]
    xy, yaw = zip(*pairs, strict=True)
    score = metrics.group_score(xy, yaw, right)
    known = [k for k, (e, _) in enumerate(pairs) if math.isfinite(e)]
    step_s = 1.0 / spec.FRAME_HZ
    return Row(
        id=trial.id,
        group=trial.group,
        score=score,
        ended=ended,
        policy_s=sum(charged_s),
        metrics={
            "frames": float(len(shots)),
            "answered": float(sum(a is not None for a in answers)),
            "ids_right": float(sum(right)),
            "ids_ok": float(all(right)),
            "xy_worst5_m": _finite(metrics.worst_mean(xy)),
            "yaw_worst5_rad": _finite(metrics.worst_mean(yaw)),
            "g": score,
            "occluded_fraction": float(np.mean([s.is_occluded for s in shots])),
            "update_s": sum(s for s, a in zip(charged_s, answers, strict=True) if a is not None),
        },
        series={
            "t_s": [step_s * k for k in known],
            "xy_error_mm": [round(1e3 * xy[k], 3) for k in known],
            "yaw_error_deg": [round(math.degrees(yaw[k]), 3) for k in known],
            "occluded": [float(shots[k].is_occluded) for k in known],
            "update_ms": [round(1e3 * charged_s[k], 3) for k in known],
        },
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _of(rows: Sequence[Row], key: str) -> float:
    return sum(row.metrics.get(key) or 0.0 for row in rows)


def compose(rows: list[Row], *, is_scored: bool, checked: Checked) -> FamilyResult:
    """The result of a run: the score, and medians over answered frames."""
    stages = {stage: [row for row in rows if row.group == stage] for stage in (A, B)}
    nu = metrics.rate_hz(int(_of(rows, "answered")), _of(rows, "update_s"))
    g_a, g_b = ([row.score for row in stages[stage]] for stage in (A, B))
    score = metrics.score(g_a, g_b, nu)
    frames, answered = _of(rows, "frames"), _of(rows, "answered")
    flat = {
        "g_a_mean": float(np.mean(g_a)),
        "g_b_mean": float(np.mean(g_b)),
        "deduction": metrics.deduction(nu),
        "rate_hz": nu,
        "gate_load": 1.0,
        "gate_interface": 1.0,
        "frames_unanswered": frames - answered,
        "occluded_fraction_b": float(
            np.mean([row.metrics["occluded_fraction"] or 0.0 for row in stages[B]])
        ),
        "update_s_total": _of(rows, "update_s"),
    }
    for stage, own in stages.items():
        n = _of(own, "frames")
        flat |= {
            f"frames_{stage}": n,
            f"shape_accuracy_{stage}": _of(own, "ids_right") / n,
            f"groups_ids_right_{stage}": _of(own, "ids_ok"),
        }
    flat |= medians(rows)
    return FamilyResult(
        rows=rows,
        score=score,
        raw_total=score,
        metrics={key: value for key, value in flat.items() if math.isfinite(value)},
        gates={"load": True, "interface": True},
        scored=is_scored,
        extra=dict(checked.facts),
        thresholds=thresholds(rows, nu),
    )


def medians(rows: Sequence[Row]) -> dict[str, float]:
    """Medians over answered frames; a key without frames is left out."""

    def over(chosen: Sequence[Row], key: str, hidden: bool = False) -> list[float]:
        return [
            value
            for row in chosen
            for value, is_hidden in zip(row.series[key], row.series["occluded"], strict=True)
            if is_hidden or not hidden
        ]

    named = {"update_ms_median": over(rows, "update_ms")}
    for stage in (A, B):
        own = [row for row in rows if row.group == stage]
        named[f"median_xy_mm_{stage}"] = over(own, "xy_error_mm")
        named[f"median_yaw_deg_{stage}"] = over(own, "yaw_error_deg")
    named["median_xy_mm_occluded"] = over(rows, "xy_error_mm", hidden=True)
    named["median_yaw_deg_occluded"] = over(rows, "yaw_error_deg", hidden=True)
    found = {key: float(np.median(values)) for key, values in named.items() if values}
    if named["update_ms_median"]:
        found["update_ms_p95"] = float(np.percentile(named["update_ms_median"], 95))
    return found


def thresholds(rows: Sequence[Row], nu: float) -> list[Threshold]:
    """The kernels' widths and the full rate, with what was measured."""
    checks = [
        Threshold(
            name="rate of inference", measured=min(nu, 1e6), limit=spec.RATE_FULL_HZ, unit="Hz",
            sense="at_least",
        )
    ]  # fmt: skip
    for row in rows:
        for key, label, limit, unit, scale in (
            ("xy_worst5_m", "worst five positions", spec.KERNEL_XY_M, "mm", 1e3),
            ("yaw_worst5_rad", "worst five yaws", spec.KERNEL_YAW_RAD, "deg", 180.0 / math.pi),
        ):
            if (measured := row.metrics[key]) is not None:
                checks.append(
                    Threshold(
                        name=f"{row.id} {label}", measured=scale * measured, limit=scale * limit,
                        unit=unit, sense="at_most",
                    )
                )  # fmt: skip
    return checks


# -------------------------------------------------------------------------------------- video


def media(ctx: VerifyContext, folder: Path) -> None:
    """Films the first push with the estimate drawn, and shows the first single frames."""
    estimator = estimator_of(ctx.task)
    checked = Checked(kind=estimator.kind, contract=estimator.contract, files=())
    trials = trials_of(ctx.options.get("profile", SCORED))
    for stage in (A, B):
        trial = next(t for t in trials if t.group == stage)
        shots = ahead.shoot(scenes_of(ctx, trial))
        with ctx.worker(estimator.profile, checked, limits(len(shots))) as worker:
            answers, _, _ = play(worker, estimator, shots, each=stage == A)
        marked = [
            pictures.mark(shot.obs, a.pose if a else None, a.shape_id if a else 0)
            for shot, a in zip(shots, answers, strict=True)
        ]
        if stage == B:
            pictures.film(folder / f"{trial.id}.mp4", marked)
        pictures.strip(folder, trial.id, marked)
