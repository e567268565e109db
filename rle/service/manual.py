"""What an agent is told about a task's service: `task_info`, and the manual page made from it."""

from collections.abc import Sequence
from typing import Any

import msgspec

from rle.service.adapter import PhaseSpec, SessionSpec
from rle.service.protocol import MAX_BATCH, MAX_IMAGE_PX
from rle.service.rules.phases import Phases


def task_info(spec: SessionSpec, phases: Phases, is_practice: bool) -> dict[str, Any]:
    """Everything that is public about a task and the session that serves it."""
    return {
        "task": spec.task,
        "family_version": spec.family_version,
        "instruction": spec.instruction,
        "practice": is_practice,
        "control_hz": spec.control_hz,
        "action_dim": spec.action_dim,
        "action_layout": msgspec.to_builtins(spec.action_layout),
        "cameras": list(spec.cameras),
        "depth_cameras": list(spec.depth_cameras),
        "default_px": spec.default_px,
        "observation": msgspec.to_builtins(spec.observation),
        "calibration": spec.calibration,
        "operations": list(phases.allowed()),
        "extra_ops": msgspec.to_builtins(spec.extra_ops),
        "phases": msgspec.to_builtins(spec.phases),
    }


def manual(spec: SessionSpec) -> str:
    """The service manual of a task as Markdown: operations with their cost, action, observation."""
    phase = spec.phases[0]
    blocks = [
        f"# Using the simulator of {spec.task}",
        "```python\nimport rle_client\n\nwith rle_client.connect() as sim:\n"
        "    info = sim.task_info()\n    observation = sim.observe(cameras=("
        + (f'"{spec.cameras[0]}",' if spec.cameras else "")
        + f"))\n    out = sim.step([[0.0] * {spec.action_dim}])\n    print(sim.status)\n```",
        _table(("operation", "charged steps", "effect"), _operations(spec, phase)),
        f"Every reply carries `sim.status` (steps and seconds used and left). A batch has 1 to {MAX_BATCH} "
        "actions; one that is larger than what is left is refused whole. It stops at the action that ends "
        "the trial, and only executed actions are charged. Values are clipped to [-1, 1]; non-finite ones "
        "are refused. Observing is free. The connection may drop and come back: scene, trial and budget "
        "stay. One client at a time.",
        f"## Action ({spec.action_dim} numbers, {spec.control_hz:g} per second)",
        _table(
            ("index", "part", "meaning"),
            [(_span(p.start, p.stop), p.name, p.help) for p in spec.action_layout],
        ),
        "## Observation",
        _table(
            ("key", "shape", "unit", "meaning"),
            [(f"`{k.name}`", str(k.shape), k.unit, k.help) for k in spec.observation],
        ),
        f"Cameras: {', '.join(spec.cameras) or 'none'}; `NAME_image` is uint8 (H, W, 3), at most "
        f"{MAX_IMAGE_PX} px a side, default {spec.default_px}. Depth: "
        f"{', '.join(spec.depth_cameras) or 'not offered'}"
        + (
            " (`NAME_depth`, float32 metres along the optical axis)." if spec.depth_cameras else "."
        ),
    ]
    return "\n\n".join(blocks) + "\n"


def _operations(spec: SessionSpec, phase: PhaseSpec) -> list[tuple[str, str, str]]:
    names = Phases(spec).allowed()
    rows = [
        ("observe(cameras, width_px, height_px, depth)", "0", "the present observation"),
        ("step(actions, observe=None)", "one per action", "executes the actions"),
        ("move(position_m, quat_xyzw, gripper, steps)", "steps",
         "per step, drives the grip site towards the pose: position error / 0.05 and rotation "
         "error / 0.5, clipped; base and torso still"),
        ("reset()", str(phase.reset_cost), _RESETS[phase.reset]),
        ("finish()", "0", "takes the final measurement and closes the attempt"),
        ("end_development()", "0", "closes development for good"),
    ]  # fmt: skip
    kept = [row for row in rows if row[0].split("(")[0] in names]
    for op in spec.extra_ops:
        args = ", ".join(f"{a.name}: {'/'.join(a.choices) or a.type}" for a in op.args)
        kept.append((f"call({op.name!r}{', ' + args if args else ''})", str(op.cost), op.help))
    return kept


_RESETS = {
    "none": "not allowed",
    "same": "the same scene again; steps used stay used",
    "new": "a new scene",
    "forfeit": "gives the attempt up: it scores 0",
    "next": "gives a live trial up and opens the next one",
}


def _span(start: int, stop: int) -> str:
    return str(start) if stop == start + 1 else f"{start}-{stop - 1}"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)
