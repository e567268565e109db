"""Verification of f03: a believed record, the redrawn instance, the measurement, the score.

ledger -> instance from the salt, digest compared -> evidence of each trial -> metrics -> reward
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from families.f03_tabletop import instances, metrics
from families.f03_tabletop import spec as s
from families.f03_tabletop.instances import (
    BalanceInstance,
    BoxInstance,
    CubeInstance,
    Instance,
    TowerInstance,
)
from rle.errors import InfrastructureError, InvalidSubmission
from rle.report import FamilyResult, Row
from rle.service.protocol import ObserveSpec, Scalar
from rle.service.record import TrialRecord
from rle.service.record.ledger import ACTIONS_NAME, LEDGER_NAME
from rle.service.record.operations import Operation, operations
from rle.verify_api import VerifyContext

Evidence = dict[str, Scalar]
MEANT_AS_COUNT = ("steps", "submitted", "correct", "solved")


def verify(ctx: VerifyContext) -> FamilyResult:
    """A and E_eval of f03: the sealed record of the one attempt."""
    view = ctx.ledger()
    report = view.report
    lost = [trial for trial in report.trials if trial.ended == "sim_error"]
    if lost:
        raise InfrastructureError(
            f"trial {lost[0].trial} was lost to the simulator ({lost[0].sim_errors} failures); run it again",
            code="ledger.simulator",
        )
    touched = report.steps_used > 0 or any(t.answer is not None for t in report.trials)
    counted = timelines(ctx)
    rows = [row_of(ctx, trial, touched, counted.get(trial.trial, {})) for trial in report.trials]
    total = metrics.score([row.score for row in rows] + [0.0] * (ctx.task.n_trials - len(rows)))
    return FamilyResult(
        rows=rows,
        score=total,
        metrics=totals(ctx, rows, report, total),
        ledger=view.record,
        extra={
            "ledger_reason": report.reason or "",
            "end_reason": report.end_reason,
            "session_index": report.opening.get("session_index"),
            "seconds_used": report.seconds_used,
            "sim_errors": report.sim_errors,
            "refused_clients": report.refused_clients,
            "deployment_id": report.opening.get("deployment_id"),
        },
        flags=["validation_session"] if view.validation else [],
    )


def row_of(
    ctx: VerifyContext, trial: TrialRecord, touched: bool, series: dict[str, list[float]]
) -> Row:
    """One trial: its instance is redrawn and compared before anything of it is believed."""
    instance = instances.draw(ctx.task.id, ctx.rng(instances.STREAM, trial.trial))
    if instance.digest != trial.digest:
        raise InvalidSubmission("ledger.foreign", detail=f"trial {trial.trial} is another instance")
    value, measured = score_evidence(ctx.task.id, instance, trial.evidence, trial.answer)
    ended = trial.ended or "not_run"
    if not touched:
        value, ended = 0.0, "no_interaction"
    return Row(
        id=f"t{trial.trial:02d}",
        score=value,
        metrics={**measured, "control_steps": float(trial.steps)},
        ended=ended,
        wall_s=max(0.0, (trial.closed_s or trial.opened_s) - trial.opened_s),
        events=_events(trial),
        series=series,
    )


def score_evidence(
    task: str, instance: Instance, evidence: Evidence, answer: Evidence | None = None
) -> tuple[float, dict[str, float | None]]:
    """Score of one closed trial and its named measurements.

    Args:
        task: Task id.
        instance: What was drawn.
        evidence: Measurements of the closed trial; empty for a forfeited one.
        answer: Arguments of `submit`, hidden-com only.
    """
    match instance:
        case BoxInstance(quadrant=quadrant):
            right = answer is not None and answer.get("quadrant") == quadrant
            return float(right), {
                "correct": float(right),
                "submitted": float(answer is not None),
            }
        case _ if not evidence:
            return 0.0, {}
        case TowerInstance(scales=scales):
            height, optimum = float(evidence["height_m"]), metrics.tower_optimum_m(scales)
            return metrics.tower(height, optimum), {
                "height_m": height,
                "optimum_m": optimum,
                "height_over_flat_stack": height / metrics.flat_stack_m(scales),
                "pieces_supported": float(evidence["pieces_supported"]),
                "settle_s": float(evidence["settle_s"]),
            }
        case BalanceInstance(heavy=heavy):
            on_mat = frozenset(int(i) for i in str(evidence["on_mat"]).split(",") if i)
            weighings = int(evidence["weighings"])
            return metrics.balance(on_mat, heavy, weighings), {
                "weighings": float(weighings),
                "heavy_on_mat": float(heavy in on_mat),
                "others_on_mat": float(len(on_mat - {heavy})),
            }
        case CubeInstance(optimum_qtm=optimum):
            turns, unclassified = evidence.get("turns"), evidence.get("unclassified")
            value = metrics.pocket_cube(
                evidence.get("solved") is True, turns, optimum, unclassified
            )
            return value, {
                "solved": float(evidence.get("solved") is True),
                "optimal_qtm": float(optimum),
                "actual_qtm": float(turns or 0),
                "unclassified_transitions": float(unclassified or 0),
                "recoveries": float(evidence.get("recoveries") or 0),
            }
    overhang = float(evidence["overhang_m"])
    return metrics.cantilever(overhang), {
        "overhang_m": overhang,
        "optimum_m": s.CANTILEVER_OPT_M,
        "overhang_blocks": overhang / s.BLOCK_LENGTH_M,
        "blocks_supported": float(evidence["blocks_supported"]),
        "settle_s": float(evidence["settle_s"]),
    }


def totals(ctx: VerifyContext, rows: list[Row], report: Any, total: float) -> dict[str, float]:
    """Family keys of `reward.json`."""
    flat: dict[str, float] = {
        "quality": total,
        "task_score": 100.0 * total,
        "interaction_steps": float(report.steps_used),
        "interaction_budget": float(ctx.task.budget.sim_steps or 0),
        "trials_recorded": float(len(rows)),
        "trials_attempted": float(sum(row.ended != "no_interaction" for row in rows)),
        "infrastructure_failures": 0.0,
        "ledger_ok": 1.0,
    }
    if ctx.task.slug != "hidden-com":
        measured = rows[0].metrics if rows else {}
        flat |= {k: v for k, v in measured.items() if v is not None and k != "control_steps"}
        return flat
    for name in ("correct", "submitted", "control_steps"):
        values = [row.metrics.get(name) or 0.0 for row in rows]
        flat[name] = sum(values)
        flat |= {f"trial_{i}_{name}": value for i, value in enumerate(values)}
    return flat


def _events(trial: TrialRecord) -> list[tuple[float, str]]:
    """Time line of a trial: exclusions of the final measurement and its end."""
    at = trial.closed_s or trial.opened_s
    excluded = str(trial.evidence.get("excluded", "")).split()
    out = [
        (at, f"{piece} does not count: {reason}")
        for piece, _, reason in (e.partition(":") for e in excluded)
    ]
    return [*out, (at, f"ended: {trial.ended}")]


# ----------------------------------------------------------------------------- replay and pictures


def recorded(ctx: VerifyContext) -> Iterator[Operation]:
    """The operations of the submitted record in order."""
    lines = ctx.submission.read(LEDGER_NAME).splitlines()
    return operations(lines, s.SESSIONS[ctx.task.id])


def timelines(ctx: VerifyContext) -> dict[int, dict[str, list[float]]]:
    """Per trial: the counters of `spec.COUNTED` over control time, at every change and at the end.

    `t_s` in s, the rest counts; empty for a task without such counters.
    """
    names = s.COUNTED.get(ctx.task.slug, ())
    out: dict[int, dict[str, list[float]]] = {}
    steps: dict[int, int] = {}
    for operation in recorded(ctx) if names else ():
        trial = operation.trial
        series = out.setdefault(trial, {"t_s": [0.0], **{n: [0.0] for n in names}})
        steps[trial] = steps.get(trial, 0) + operation.executed
        now = [float(operation.counters.get(n, series[n][-1])) for n in names]
        if now != [series[n][-1] for n in names]:
            _append(series, steps[trial], now)
    for trial, series in out.items():
        _append(series, steps[trial], [series[n][-1] for n in names])
    return out


def _append(series: dict[str, list[float]], steps: int, values: list[float]) -> None:
    for values_of, value in zip(series.values(), [steps / s.CONTROL_HZ, *values], strict=True):
        values_of.append(value)


def media(ctx: VerifyContext, folder: Path) -> None:
    """Film `t<i>.mp4` of every trial and pictures of what its cameras saw, by replay of the record.

    A record without `actions.f32` has nothing to show.
    """
    from families.f03_tabletop.task import RobotTask, make

    if ACTIONS_NAME not in ctx.submission.names():
        return
    adapter = make(ctx.task.id)
    assert isinstance(adapter, RobotTask)
    record = list(recorded(ctx))
    dim = s.SESSIONS[ctx.task.id].action_dim
    actions = np.frombuffer(ctx.submission.read(ACTIONS_NAME), "<f4").reshape(-1, dim)
    try:
        for trial in sorted({operation.trial for operation in record}):
            mine = [operation for operation in record if operation.trial == trial]
            if sum(operation.executed for operation in mine):
                film(ctx, adapter, mine, actions, folder / f"t{trial:02d}.mp4")
    finally:
        adapter.close()


def film(ctx: VerifyContext, adapter: Any, record: list[Operation], actions, path: Path) -> None:
    """Replays a trial; writes its film and `<trial>_seen_<moment>_<camera>.jpg` beside it.

    Args:
        ctx: Context of the run.
        adapter: Simulator side of the task.
        record: Operations of the trial.
        actions: All executed actions, shape (n, A), float32.
        path: Target file, ending in .mp4.
    """
    import mujoco

    from rle.sim.film import film_states

    view, cameras = s.FILMS[ctx.task.slug], s.SESSIONS[ctx.task.id].cameras
    instance = instances.draw(ctx.task.id, ctx.rng(instances.STREAM, record[0].trial))
    total = sum(operation.executed for operation in record)
    every = math.ceil(total / view.max_frames)
    states: list[np.ndarray] = []

    def show(moment: str, names: tuple[str, ...]) -> None:
        look = ObserveSpec(cameras=names, width_px=view.seen_px, height_px=view.seen_px)
        for name, picture in adapter.pictures(look).items():
            file = f"{path.stem}_seen_{moment}_{name.removesuffix('_image')}.jpg"
            Image.fromarray(picture).save(path.with_name(file), quality=85)

    for count, _ in enumerate(replay(adapter, instance, record, actions)):
        if count % every == 0:
            states.append(adapter.ready.data.qpos.copy())
        if count in (0, total // 2):
            show("1_start" if count == 0 else "2_halfway", cameras[:1])
    show("3_end", cameras)
    adapter.close()
    camera, option = mujoco.MjvCamera(), mujoco.MjvOption()
    camera.lookat[:] = view.target_m
    camera.distance, camera.azimuth = view.distance_m, view.azimuth_deg
    camera.elevation = view.elevation_deg
    option.sitegroup[:] = 0
    film_states(
        path, adapter.ready.model, np.array(states), view.fps, camera=lambda _: camera,
        option=option, poster_frame=len(states) - 1,
    )  # fmt: skip


def replay(adapter: Any, instance: Instance, record: list[Operation], actions) -> Iterator[None]:
    """Runs a trial again; yields at its start and after every control step.

    A trial that the record opened anew after a failure starts anew here.
    """
    for operation in record:
        if operation.op == "open":
            adapter.open_instance(instance)
            yield
        elif operation.op == "reset" and operation.executed:
            adapter.reset()
            yield
        elif operation.op in ("beam", "recover_drop") and operation.executed:
            adapter.extra(operation.op, operation.args)
            yield
        for action in actions[operation.actions]:
            adapter.step(action.astype(np.float64))
            yield
