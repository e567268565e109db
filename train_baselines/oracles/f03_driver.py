"""Hand motions of the f03 reference solvers: the mobile robot through the metered client, poses privileged.

Base sideways to the piece, grasp top-down, lift, base back, correct with the observed piece, lower, open.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from families.f03_tabletop import instances
from families.f03_tabletop.spec import SESSIONS
from families.f03_tabletop.verify import score_evidence
from rle import seeds
from rle.service import embedded
from rle.service.client import Client, Observation, StepResult
from rle.service.course import Profile
from rle.sim.arm_control import rotation_of, rotation_vector

OPEN, CLOSED = -1.0, 1.0
POSITION_SCALE_M, ROTATION_SCALE_RAD = 0.05, 0.5
NEUTRAL_YAW_RAD = np.pi / 2
"""Hand yaw of the start pose, in the middle of the wrist's range."""
DEAD_BASE = 0.35
"""Base commands smaller than this do not move it against its friction."""


def down(yaw_rad: float) -> np.ndarray:
    """Grip-site rotation (3, 3): z straight down, closing axis x at `yaw_rad` from the world's x."""
    c, s = np.cos(yaw_rad), np.sin(yaw_rad)
    return np.array([[c, s, 0.0], [s, -c, 0.0], [0.0, 0.0, -1.0]])


def seen(out: StepResult) -> Observation:
    """Observation of a step that asked for one."""
    assert out.observation is not None
    return out.observation


class GraspFailed(Exception):
    """The piece stayed on the table."""


@dataclass
class Arm:
    """State and motions of the mobile robot."""

    sim: Client
    gripper: float = OPEN
    action_dim: int = 12
    """12: mobile robot; 7: fixed arm, whose base frame is the world's."""

    def hold_action(self) -> np.ndarray:
        """Keeps the pose and the fingers."""
        action = np.zeros(self.action_dim)
        action[6] = self.gripper
        if self.action_dim == 12:
            action[11] = -1.0
        return action

    def see(self) -> dict[str, np.ndarray]:
        """Proprioception and true poses."""
        return {**self.sim.observe(), **self.sim.privileged_state()}

    def pose(self) -> tuple[np.ndarray, np.ndarray]:
        """Grip site: position and rotation in the world."""
        state = self.sim.observe()
        return state["eef_pos"].copy(), rotation_of(state["eef_quat"])

    def _action(self, state, position, rotation) -> np.ndarray:
        turn = rotation_of(state["base_quat"]) if "base_quat" in state else np.eye(3)
        now = rotation_of(state["eef_quat"])
        action = self.hold_action()
        action[0:3] = turn.T @ (position - state["eef_pos"]) / POSITION_SCALE_M
        action[3:6] = turn.T @ rotation_vector(rotation @ now.T) / ROTATION_SCALE_RAD
        return np.clip(action, -1.0, 1.0)

    def go(
        self, position, rotation, *, steps: int = 60, tolerance_m: float = 0.002,
        tolerance_rad: float = 0.02, slow_m: float = 0.05,
    ) -> float:  # fmt: skip
        """Servoes to a pose; returns the position error. `slow_m` caps the distance asked per step."""
        state = self.sim.observe()
        for _ in range(steps):
            error = np.array(position) - state["eef_pos"]
            turn = rotation_vector(np.array(rotation) @ rotation_of(state["eef_quat"]).T)
            if np.linalg.norm(error) < tolerance_m and np.linalg.norm(turn) < tolerance_rad:
                break
            distance = np.linalg.norm(error)
            target = state["eef_pos"] + error * min(1.0, slow_m / max(distance, 1e-9))
            out = self.sim.step(self._action(state, target, rotation), observe=())
            state = seen(out)
        return float(np.linalg.norm(np.array(position) - state["eef_pos"]))

    def wait(self, steps: int) -> None:
        """Holds the pose."""
        self.sim.step(np.tile(self.hold_action(), (steps, 1)))

    def grip(self, value: float, steps: int = 12) -> None:
        """Opens or closes, and waits."""
        self.gripper = value
        self.wait(steps)

    def drive_to(
        self, x_m: float | None = None, y_m: float | None = None, *, tolerance_m: float = 0.02,
        steps: int = 120,
    ) -> None:  # fmt: skip
        """Moves the base (yaw 0) along x and y; the arm keeps its pose relative to the base."""
        for _ in range(steps):
            base = self.sim.observe()["base_pos"]
            error = np.array(
                [0.0 if x_m is None else x_m - base[0], 0.0 if y_m is None else y_m - base[1]]
            )
            if (np.abs(error) < tolerance_m).all():
                break
            action = self.hold_action()
            command = np.clip(error / 0.10, -1.0, 1.0)
            small = (np.abs(command) < DEAD_BASE) & (np.abs(error) >= tolerance_m)
            command[small] = np.sign(command[small]) * DEAD_BASE
            command[np.abs(error) < tolerance_m] = 0.0
            action[7:9] = command
            action[11] = 1.0
            self.sim.step(action)
        self.wait(8)

    def pick(
        self, piece: str, *, grip_above_m: float = 0.0, yaw_rad: float | None = None,
        clear_m: float = 0.10,
    ) -> np.ndarray:  # fmt: skip
        """Grasps a piece from above; returns grip site minus piece centre at the grasp."""
        state = self.see()
        x, y, z = state[piece][:3]
        if yaw_rad is None:
            yaw_rad = nearest_grasp_yaw(state[piece])
        hand = down(yaw_rad)
        self.grip(OPEN, 4)
        here, _ = self.pose()
        safe = max(here[2], z + clear_m)
        self.go((here[0], here[1], safe), hand, steps=40, tolerance_m=0.02)
        self.go((x, y, safe), hand, steps=80, tolerance_m=0.004)
        self.go((x, y, z + grip_above_m), hand, steps=60, tolerance_m=0.0015)
        self.grip(CLOSED, 12)
        self.lift(z + grip_above_m + 0.05)
        state = self.see()
        if state[piece][2] < z + 0.02:
            raise GraspFailed(f"{piece} did not come along: {state[piece][:3]}")
        return state["eef_pos"] - state[piece][:3]

    def lift(self, z_m: float) -> None:
        """Straight up (or down) to a grip-site height."""
        here, hand = self.pose()
        self.go((here[0], here[1], z_m), hand, steps=60, tolerance_m=0.01)

    def place(
        self, piece: str, x_m: float, y_m: float, bottom_z_m: float, half_height_m: float, *,
        yaw_rad: float = NEUTRAL_YAW_RAD, gap_m: float = 0.001, rise_m: float = 0.10,
    ) -> None:  # fmt: skip
        """Sets a held piece down with its centre over (x, y), bottom on `bottom_z_m`, and withdraws."""
        hand = down(yaw_rad)
        z = bottom_z_m + half_height_m + gap_m
        self._servo_piece(piece, np.array([x_m, y_m, z + 0.04]), hand, 60, 0.003)
        self._servo_piece(piece, np.array([x_m, y_m, z]), hand, 70, 0.0007)
        self.grip(OPEN, 14)
        here, _ = self.pose()
        self.go((here[0], here[1], here[2] + rise_m), hand, steps=40, tolerance_m=0.01)

    def _servo_piece(self, piece: str, target, hand, steps: int, tolerance_m: float) -> None:
        """Moves the hand by the observed error of the held piece."""
        correction = np.zeros(3)
        for _ in range(steps):
            state = self.see()
            error = target - state[piece][:3]
            if np.linalg.norm(error) < tolerance_m:
                break
            correction = 0.9 * correction + 0.15 * np.clip(error, -0.01, 0.01)
            step = error * min(1.0, 0.02 / max(np.linalg.norm(error), 1e-9)) + correction
            self.sim.step(self._action(state, state["eef_pos"] + step, hand))


def nearest_grasp_yaw(pose: np.ndarray) -> float:
    """Hand yaw across a square piece's faces, nearest to the neutral one. `pose`: position, quat_wxyz."""
    rotation = rotation_of(np.roll(pose[3:], -1))
    yaw = np.arctan2(rotation[1, 0], rotation[0, 0]) - NEUTRAL_YAW_RAD
    return float((yaw + np.pi / 4) % (np.pi / 2) - np.pi / 4 + NEUTRAL_YAW_RAD)


def hand_yaw_across(pose: np.ndarray) -> float:
    """Hand yaw whose closing axis lies along the body's local x. `pose`: position, quat_wxyz."""
    rotation = rotation_of(np.roll(pose[3:], -1))
    return float(np.arctan2(rotation[1, 0], rotation[0, 0]) % np.pi)


def validation_profile(task: str) -> Profile:
    """Profile of a practice session that answers the reference solvers."""
    return Profile(task=task, layout="practice", sync=False, validation=True)


def run(task: str, solve: Callable[[Client], None]) -> None:
    """Command line of a reference solver: one practice session, evidence and score printed."""
    parser = argparse.ArgumentParser(description=f"reference solver of {task}")
    parser.add_argument("--salt", default="", help="text of the salt; default: the practice salt")
    parser.add_argument(
        "--folder", type=Path, help="keep the sealed hand-over here, for `rle verify`"
    )
    args = parser.parse_args()
    salt = args.salt.encode() or seeds.PRACTICE_SALT
    family, slug = task.split("/")
    with embedded.open(
        SESSIONS[task], folder=args.folder, profile=validation_profile(task), salt=salt
    ) as sim:
        solve(sim)
        if sim.status.live and task != "f03/hidden-com":
            sim.finish()
        for trial in sim.session.trials():
            key = seeds.trial_key(family, slug, "hidden", trial.trial, salt)
            instance = instances.draw(task, seeds.stream(key, instances.STREAM))
            value, _ = score_evidence(task, instance, trial.evidence, trial.answer)
            print(json.dumps({"score": value, "steps": trial.steps, **trial.evidence}))
