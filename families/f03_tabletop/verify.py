"""Verification of f03: a believed record, the redrawn instance, the measurement, the score.

ledger -> instance from the salt, digest compared -> evidence of each trial -> metrics -> reward
"""

from typing import Any

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
from rle.service.protocol import Scalar
from rle.service.record import TrialRecord
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
    rows = [row_of(ctx, trial, touched) for trial in report.trials]
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


def row_of(ctx: VerifyContext, trial: TrialRecord, touched: bool) -> Row:
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
