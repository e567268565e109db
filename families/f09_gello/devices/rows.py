"""The row of one arm: measurements, credits, deductions and findings, and nothing of what was drawn."""

import math
from typing import Any

from families.f09_gello import metrics, task
from families.f09_gello.devices.measure import Battery, Worst
from families.f09_gello.mechanism.record import Finding, Lead
from families.f09_gello.spec import (
    BAR_CREDIT,
    CHECKPOINT_WEIGHT,
    CHECKPOINTS,
    DEVICES,
    MARKS,
    PART_RULES,
    PROTOCOL,
    UNITS,
    VALIDITY_WEIGHTS,
)
from rle.report import Row, Threshold

PUBLIC_HOLDS = 3
"""First hold poses, which everyone knows."""
HIDDEN_POSES = frozenset({"H3", "S2a", "S2b", "B2"})
"""Checkpoints whose worst pose is always a drawn one."""


def battery_row(row_id: str, lead: Lead, battery: Battery, policy_s: float = 0.0) -> Row:
    """What an arm measured and what it scores."""
    arm = lead.record.arm
    x = {key: worst.x for key, worst in battery.x.items() if math.isfinite(worst.x)}
    credit = metrics.checkpoint_credits(arm, x)
    deduction = metrics.deductions(battery.shortfall)
    values: dict[str, float | None] = {}
    for key in CHECKPOINTS:
        values[f"x_{key}"] = x.get(key)
        values[f"cp_{key}"] = credit[key]
        values |= _place(arm, key, battery.x.get(key))
    for item in VALIDITY_WEIGHTS:
        values[f"deduction_{item}"] = deduction[item]
    values |= {
        "raw_total": sum(CHECKPOINT_WEIGHT * c for c in credit.values()),
        "validity_deduction": sum(deduction.values()),
        "mass_kg": battery.mass_kg,
        "trim_faults": float(battery.trim_faults),
        "trim_timeout": float(battery.timed_out),
        "probes_accepted": float(battery.probes_accepted),
        **battery.diagnostics,
    }
    said = [*map(finding_text, lead.findings), *battery.notes]
    return Row(
        id=row_id,
        group=arm,
        score=metrics.arm_reward(credit, deduction),
        metrics=values,
        ended="done",
        policy_s=policy_s,
        series=battery.series,
        events=[(0.0, text) for text in said],
    )


def absent_row(row_id: str, arm: str) -> Row:
    """The row of an arm that was not submitted."""
    said = (0.0, f"{arm}/lead.xml is missing")
    return Row(id=row_id, group=arm, score=0.0, ended="no_submission", events=[said])


def finding_text(finding: Finding) -> str:
    """A finding in one line."""
    return f"{finding.level}: {finding.element}: {finding.message}"


def _place(arm: str, key: str, worst: Worst | None) -> dict[str, float | None]:
    """Device, pose and joint that set a maximum; a drawn pose has no index."""
    if worst is None or worst.device is None:
        return {}
    pose = worst.pose
    if key in HIDDEN_POSES:
        pose = None
    elif key == "H1":
        pose = pose if pose is not None and pose < len(task.workspace_grid(arm)) else None
    elif key in ("H2", "B1"):
        pose = pose if pose is not None and pose < PUBLIC_HOLDS else None
    elif key == "B3":
        pose = None if pose is None else pose * PROTOCOL.headroom_stride
    found = {"device": worst.device, "pose": pose, "joint": worst.joint}
    return {f"{key}_{name}": None if v is None else float(v) for name, v in found.items()}


def reward_metrics(rows: list[Row]) -> dict[str, float]:
    """Flat metrics of `reward.json`: every number of the card per arm, where it was measured."""
    flat: dict[str, float] = {}
    for row in rows:
        arm, values = row.group, row.metrics
        flat[f"{arm}_reward"] = row.score
        wanted = ["raw_total", "validity_deduction", "mass_kg", "trim_faults"]
        wanted += [f"deduction_{item}" for item in VALIDITY_WEIGHTS]
        wanted += [f"cp_{key}" for key in CHECKPOINTS]
        flat |= {f"{arm}_{key}": v for key in wanted if (v := values.get(key)) is not None}
    return flat


def checkpoints(row: Row) -> list[dict[str, Any]]:
    """Per checkpoint: value, unit, marks, credit and where the worst was, for the report."""
    table = []
    for key in CHECKPOINTS:
        marks = MARKS[row.group].get(key)
        pose = row.metrics.get(f"{key}_pose")
        table.append(
            {
                "id": key,
                "value": row.metrics.get(f"x_{key}"),
                "unit": UNITS[key],
                "zero": marks.zero if marks else None,
                "bar": marks.bar if marks else None,
                "best": marks.best if marks else 1.0,
                "credit": row.metrics.get(f"cp_{key}", 0.0),
                "device": row.metrics.get(f"{key}_device"),
                "pose": "hidden" if pose is None else int(pose),
                "joint": row.metrics.get(f"{key}_joint"),
            }
        )
    return table


def facts(row: Row) -> dict[str, Any]:
    """What the report says of an arm beside its row."""
    return {
        "checkpoints": checkpoints(row),
        "findings": [text for _, text in row.events],
        "probes_accepted": f"{row.metrics.get('probes_accepted', 0):.0f} of {2 * DEVICES.per_arm}",
        "s_tier_nominal": {
            "hold_m": row.metrics.get("s_tier_nominal_hold_m"),
            "backdrive_n_m": row.metrics.get("s_tier_nominal_backdrive_n_m"),
        },
        "trim_wall_s": row.policy_s,
    }


def thresholds(rows: list[Row]) -> list[Threshold]:
    """Every bar that was measured against, the mass limit and the settle limit."""
    found = []
    for row in rows:
        arm, values = row.group, row.metrics
        for key, marks in MARKS[arm].items():
            x = values.get(f"x_{key}")
            if x is not None:
                sense = "at_least" if key == "B3" else "at_most"
                name = f"{arm} {key} (bar, credit {BAR_CREDIT:g})"
                found.append(
                    Threshold(name=name, measured=x, limit=marks.bar, unit=UNITS[key], sense=sense)
                )
        for name, key, limit, unit in (
            ("mass", "mass_kg", PART_RULES.device_mass_max_kg, "kg"),
            ("settle speed", "settle_rad_s", PROTOCOL.settle_full_rad_s, "rad/s"),
        ):
            if (measured := values.get(key)) is not None:
                found.append(
                    Threshold(
                        name=f"{arm} {name}",
                        measured=measured,
                        limit=limit,
                        unit=unit,
                        sense="at_most",
                    )
                )
    return found
