"""What an agent is told about a task's service: `task_info`, and the manual page made from it."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from rle.service.adapter import ArgSpec, PhaseSpec, SessionSpec
from rle.service.errors import ERRORS, ServiceError
from rle.service.protocol import MAX_BATCH, MAX_IMAGE_PX, ErrorKind
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
        "events": msgspec.to_builtins(spec.all_events),
        "calibration": spec.calibration,
        "operations": list(phases.allowed()),
        "extra_ops": msgspec.to_builtins(spec.extra_ops),
        "phases": msgspec.to_builtins(spec.phases),
    }


STATUS_HELP = {
    "phase": "name of the phase; `finished` when the session is over",
    "trial": "number of the live or last trial, from 0",
    "trials": "trials of this phase, or of the last one when the session is over; 0 in development",
    "live": "there is a scene to act on",
    "steps_used": "charged steps of the session",
    "steps_left": "steps of the phase that are left, or that its end left unused; None: not limited",
    "trial_steps_used": "steps of the live trial",
    "trial_steps_left": "steps of the live trial that are left; None: not limited",
    "seconds_used": "wall time of the phase, from the first request that is charged; of the whole session when it is over",
    "seconds_left": "wall time that is left; None: not limited, or the session is over",
    "ended": "how the last trial ended, None while one is live",
    "last_request_id": "the last request that was charged",
    "last_request_done": "False: it was charged, and what it did is not known",
}
"""Fields of `sim.status`, in order."""
ERROR_HELP: dict[ErrorKind, str] = {
    "bad_request": "an argument is not what the task takes; the text says what was given and what is allowed",
    "duplicate_request": "a request id was used before (only if you make ids yourself)",
    "wrong_phase": "the operation does not exist here, or not now; the text lists those that do",
    "trial_over": "no scene is live; the text says how the last one ended and what to do",
    "stale_trial": "`trial=` named another trial than the live one",
    "budget_exhausted": "the request needs more steps than are left; ask for fewer",
    "busy": "another client is connected; close it",
    "unauthorised": "TCP only: the token is not the server's",
    "protocol": "the connection ended; connect again, then look at `status.last_request_done`",
    "sim_error": "the simulator failed; the text says whether the scene starts again. Its steps stay charged",
    "handoff_refused": "what was handed over breaks a rule; the text lists the problems",
    "ledger_full": "the service's disk is full; the session closes",
    "internal": "a fault of the service; its steps stay charged",
}
"""What each kind of error means to its reader, and what to do."""


def manual(spec: SessionSpec) -> str:
    """The service manual of a task as Markdown: everything about its use that is not in the instruction."""
    phase = spec.phases[0]
    camera = f'"{spec.cameras[0]}"' if spec.cameras else ""
    blocks = [
        f"# Using the simulator of {spec.task}",
        "```python\nimport numpy as np\nimport rle_client\n\nwith rle_client.connect() as sim:\n"
        f"    seen = sim.observe({camera})                    # dict of arrays; free\n"
        f"    action = np.zeros({spec.action_dim})\n"
        "    out = sim.step([action] * 20, observe=())   # a batch; () = numbers without images\n"
        f'    print(out.executed, out.events, out.observation["{_first_key(spec)}"])\n'
        "    print(sim.status.steps_left)\n```",
        "It needs numpy and msgspec, and finds the service by `RLE_SOCKET`. `sim.task_info()` returns "
        "most of this page as data. The connection may drop and come back: scene, trial and budget stay. One "
        "client at a time; in a forked process connect anew.",
        "## Operations",
        _table(("operation", "charged steps", "effect"), _operations(spec, phase)),
        f"A batch has 1 to {MAX_BATCH} actions of {1 / spec.control_hz:g} s each; one that is larger than what is "
        "left is refused whole. It stops at the action that ends the trial, and only executed actions are "
        "charged. Values are clipped to [-1, 1]; non-finite ones are refused. The simulation stands still "
        "between requests. To wait, step: an action of zeros " + _zeros(spec),
        "Everything but `observe` takes `observe=` (a camera, several, or `()` for the numbers alone) and then "
        "returns an observation from after it, and `trial=` (refused when that trial is over).",
        "## Replies",
        "`out.executed` steps that ran, `out.clipped_values`, `out.success` (None: the task tells only at the "
        "end), `out.observation` (None unless asked for), `out.events`:",
        _table(("event", "meaning"), [(f"`{e.name}`", e.help) for e in spec.all_events])
        if spec.all_events
        else "This task has no events.",
        "After every reply, refused ones too, `sim.status` has",
        _table(("field", "meaning"), [(f"`{k}`", v) for k, v in STATUS_HELP.items()]),
        "Refusals raise; nothing was charged unless said so. All are `rle_client.ServiceError`, with `.kind` "
        "and `.status`:",
        _table(
            ("exception", "meaning"),
            [
                (f"`{ERRORS.get(kind, ServiceError).__name__}`", text)
                for kind, text in ERROR_HELP.items()
                if kind != "handoff_refused" or phase.kind == "development"
            ],
        ),
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
        f"Cameras: {', '.join(spec.cameras) or 'none'}; `NAME_image` is uint8 (H, W, 3), row 0 at the top, at most "
        f"{MAX_IMAGE_PX} px a side, default {spec.default_px}. Depth: "
        f"{', '.join(spec.depth_cameras) or 'not offered'}"
        + (
            " (`NAME_depth`, float32 metres along the optical axis)." if spec.depth_cameras else "."
        ),
    ]
    if spec.calibration:
        lines = [f"{name}: {json.dumps(fact)}" for name, fact in spec.calibration.items()]
        facts = "\n".join(lines)
        blocks += [
            "## Geometry",
            'As in `task_info()["calibration"]`; cameras look along their -z axis, x to the right, y up.',
            f"```\n{facts}\n```",
        ]
    return "\n\n".join(blocks) + "\n"


def _first_key(spec: SessionSpec) -> str:
    """A key worth printing: the hand's position where there is one."""
    names = [key.name for key in spec.observation]
    return next((name for name in names if name.endswith("eef_pos")), names[0] if names else "")


def _zeros(spec: SessionSpec) -> str:
    """What an action of zeros does to the fingers, which is not nothing."""
    grippers = [p for p in spec.action_layout if p.name.endswith("gripper")]
    if not grippers:
        return "changes nothing."
    index = " and ".join(str(p.start) for p in grippers)
    return f"asks for no motion and opens the gripper; set number {index} to 1 to keep hold of something."


def _operations(spec: SessionSpec, phase: PhaseSpec) -> list[tuple[str, str, str]]:
    names = Phases(spec).allowed()
    rows = [
        ("observe(cameras=(), width_px=0, height_px=0, depth=False)", "0", "the present observation"),
        ("step(actions, observe=None)", "one per action", "executes the actions"),
        ("move(position_m, quat_xyzw, gripper=0, steps=40)", "steps",
         "in each of its steps drives the grip site towards the world pose (position error / 0.05 and "
         "rotation error / 0.5, clipped), base and torso still; it runs all its steps, and may not have "
         "arrived: the events `move_error_m` and `move_error_rad` tell how far off it is"),
        ("reset()", str(phase.reset_cost), _RESETS[phase.reset]),
        ("finish()", "0", "takes the final measurement and closes the attempt"),
        ("end_development()", "0", "closes development for good"),
    ]  # fmt: skip
    kept = [row for row in rows if row[0].split("(")[0] in names]
    for op in spec.extra_ops:
        args = ", ".join(f"{a.name}={_example(a)}" for a in op.args)
        kept.append((f"call({op.name!r}{', ' + args if args else ''})", str(op.cost), op.help))
    return kept


def _example(arg: ArgSpec) -> str:
    """How an argument is written in a call."""
    if arg.choices:
        return " or ".join(repr(choice) for choice in arg.choices)
    return {"bool": "True or False", "int": "1", "float": "0.5", "str": "'text'"}[arg.type]


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
