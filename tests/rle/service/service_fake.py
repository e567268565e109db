"""A scene without a simulator: a point on a line. Position += action per step; 10 is the goal.

`Point` is the adapter, `spec()` its declaration. Instance: the start, drawn in [0, 1).
"""

import hashlib
import os
import signal
import time

import numpy as np

from rle.service.adapter import (
    ActionPart,
    ArgSpec,
    BadRequest,
    ExtraOp,
    ExtraOutcome,
    ObservationKey,
    PhaseSpec,
    SessionSpec,
    StepOutcome,
    TrialPlan,
)

GOAL = 10.0


class Point:
    """The adapter. Extra op `fault` makes it fail in a named way."""

    def __init__(self, task: str) -> None:
        self.x = 0.0
        self.start = 0.0
        self.nudges = 0

    def open_trial(self, plan: TrialPlan) -> str:
        self.start = self.x = float(plan.rng("instance").uniform())
        self.nudges = int(plan.resume.get("nudges", 0))
        return hashlib.sha256(repr(self.start).encode()).hexdigest()

    def reset(self) -> None:
        self.x = self.start

    def step(self, action: np.ndarray) -> StepOutcome:
        self.x += float(action[0])
        if self.x < -100.0:
            raise RuntimeError("fell off the line")
        done = self.x >= GOAL
        return StepOutcome(success=done, ended="success" if done else None)

    def move_action(self, position_m, quat_xyzw, gripper) -> np.ndarray:
        return np.array([position_m[0] - self.x, gripper])

    def move_error(self, position_m, quat_xyzw) -> tuple[float, float]:
        return abs(float(position_m[0]) - self.x), 0.0

    def observe(self, spec) -> dict[str, np.ndarray]:
        out = {"x": np.array(self.x)}
        for name in spec.cameras:
            out[f"{name}_image"] = np.zeros((spec.height_px, spec.width_px, 3), np.uint8)
        return out

    def privileged(self) -> dict[str, np.ndarray]:
        return {"start": np.array(self.start)}

    def extra(self, op: str, args) -> ExtraOutcome:
        if op == "fault":
            _fail(args["how"])
        if self.x > 5.0:
            raise BadRequest("nudge is not possible beyond 5")
        self.x += 0.5
        self.nudges += 1
        return ExtraOutcome(executed=1, events={"nudged": True})

    def counters(self):
        return {"nudges": self.nudges}

    def finish(self):
        return {"x": self.x, "nudges": self.nudges}

    def close(self) -> None:
        pass


class Paced(Point):
    """The point with the duration of a real control step, for measurements."""

    STEP_S = 0.0146
    """The mobile robot with twelve cubes on one idle core."""

    def step(self, action: np.ndarray) -> StepOutcome:
        end = time.perf_counter() + self.STEP_S
        out = super().step(action * 0.0)
        while time.perf_counter() < end:
            pass
        return out


def _fail(how: str) -> None:
    if how == "exit":
        os._exit(7)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hang":
        time.sleep(3600.0)
    raise RuntimeError(how)


def attempt(**changes) -> PhaseSpec:
    fields = {
        "name": "attempt", "kind": "attempt", "trials": 1, "steps": 100, "seconds": 3600.0,
        "reset": "same", "reset_cost": 1,
    }  # fmt: skip
    return PhaseSpec(**{**fields, **changes})


def spec(*phases: PhaseSpec, **changes) -> SessionSpec:
    """Declaration of the fake task; by default one attempt of 100 steps."""
    fields = {
        "task": "f03/tower",
        "family_version": "1.0.0",
        "draw_key": "fake",
        "adapter": "service_fake:Point",
        "instruction": "Move the point to 10.",
        "phases": phases or (attempt(),),
        "action_dim": 2,
        "action_layout": (
            ActionPart(name="dx", start=0, stop=1, help="m"),
            ActionPart(name="gripper", start=1, stop=2, help="-"),
        ),
        "control_hz": 20.0,
        "cameras": ("front",),
        "default_px": 64,
        "observation": (ObservationKey(name="x", shape=(), unit="m", help="position"),),
        "extra_ops": (
            ExtraOp(name="nudge", cost=1, help="half a metre"),
            ExtraOp(
                name="fault", cost=1, help="fails",
                args=(ArgSpec(name="how", type="str"),),
            ),
        ),
        "has_move": True,
        "on_sim_error": "reopen_once",
    }  # fmt: skip
    return SessionSpec(**{**fields, **changes})
