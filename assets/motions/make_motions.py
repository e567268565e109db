"""Writes the five stand-in clips of f04. Own work, CC0; nothing in them is captured motion.

A plan is closed-form in time: pelvis height and rotation, where the centre of mass stands over the
feet, foot lifts, and the joints of waist and arms. The legs follow by inverse kinematics with flat
feet, and the pelvis is shifted in the plane until the centre of mass is where the plan wants it.

    python assets/motions/make_motions.py [--out DIR]
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import mujoco
import numpy as np
import tyro
from scipy.spatial.transform import Rotation

from families.f04_tracking import reference, scene, spec

FADE_S = 1.0
"""Time over which every oscillation grows from nothing."""
COM_X_M = 0.035
"""Centre of mass ahead of the ankles, over the middle of the soles."""
PELVIS_Z_M = 0.72
PELVIS_PITCH_RAD = 0.03
FOOT_Y_M = 0.1185
"""Half the distance between the ankles: what the default pose gives."""
IK_DAMPING = 1e-6
IK_STEPS = 30
TOLERANCE = 1e-8
"""Residual of foot pose (m, rad) and of the centre of mass (m)."""


@dataclass
class Plan:
    """One instant of a motion; the defaults are standing still."""

    com_x_m: float = COM_X_M
    com_y_m: float = 0.0
    z_m: float = PELVIS_Z_M
    roll_rad: float = 0.0
    pitch_rad: float = PELVIS_PITCH_RAD
    yaw_rad: float = 0.0
    foot_y_m: float = FOOT_Y_M
    lift_m: tuple[float, float] = (0.0, 0.0)
    """Height of the left and the right sole."""
    joints: dict[str, float] = field(default_factory=dict)
    """Waist and arm joints that leave the default pose, without `_joint`, rad."""


def smoothstep(x: float) -> float:
    """3 x^2 - 2 x^3, held at 0 and 1 outside [0, 1]."""
    x = min(max(x, 0.0), 1.0)
    return x * x * (3.0 - 2.0 * x)


def quintic(x: float) -> float:
    """10 x^3 - 15 x^4 + 6 x^5, held at 0 and 1 outside [0, 1]."""
    x = min(max(x, 0.0), 1.0)
    return x**3 * (10.0 - 15.0 * x + 6.0 * x * x)


def sine(t: float, hz: float, amplitude: float) -> float:
    """Faded-in sinusoid."""
    return smoothstep(t / FADE_S) * amplitude * np.sin(2.0 * np.pi * hz * t)


def dance(t: float) -> Plan:
    """Hip, waist and arm sway."""
    swing, spread, elbow = sine(t, 0.5, 0.6), sine(t, 0.25, 0.3), 0.6 + sine(t, 1.0, 0.4)
    return Plan(
        com_y_m=sine(t, 0.5, 0.045),
        z_m=PELVIS_Z_M + sine(t, 1.0, 0.02),
        roll_rad=sine(t, 0.5, 0.05),
        yaw_rad=sine(t, 0.25, 0.12),
        foot_y_m=0.1585,
        joints={
            "waist_yaw": sine(t, 0.5, 0.3),
            "left_shoulder_pitch": 0.2 + swing,
            "right_shoulder_pitch": 0.2 - swing,
            "left_shoulder_roll": 0.2 + 0.3 + spread,
            "right_shoulder_roll": -(0.2 + 0.3 + spread),
            "left_elbow": elbow,
            "right_elbow": elbow,
        },
    )


def fight(t: float) -> Plan:
    """Slow alternating punches with a shift of weight."""
    fade, wave = smoothstep(t / FADE_S), np.sin(2.0 * np.pi * 0.4 * t)
    left, right = fade * max(0.0, wave) ** 2, fade * max(0.0, -wave) ** 2
    return Plan(
        com_x_m=COM_X_M + 0.01 * (left + right),
        com_y_m=0.02 * (left - right),
        z_m=PELVIS_Z_M - 0.02,
        pitch_rad=0.05,
        yaw_rad=0.08 * (right - left),
        joints={
            "waist_yaw": 0.2 * (right - left),
            "left_shoulder_pitch": -0.8 * left,
            "right_shoulder_pitch": -0.8 * right,
            "left_elbow": 0.9 - 0.5 * left,
            "right_elbow": 0.9 - 0.5 * right,
        },
    )


def crouch(t: float) -> Plan:
    """Deep crouch and rise, every 5 s."""
    depth = (1.0 - np.cos(2.0 * np.pi * 0.2 * max(t - FADE_S, 0.0))) / 2.0
    shoulder = 0.2 - 0.9 * depth
    return Plan(
        z_m=PELVIS_Z_M - 0.22 * depth,
        pitch_rad=PELVIS_PITCH_RAD + 0.25 * depth,
        joints={"left_shoulder_pitch": shoulder, "right_shoulder_pitch": shoulder},
    )


def step(t: float) -> Plan:
    """Slow steps in place: shift right, lift left, shift left, lift right, 2 s each.

    Pelvis and waist lean over the standing foot: the hips then move less, and the ankle keeps 0.08 rad
    of its range for balance instead of standing at the stop.
    """
    reach_m, height_m, quarter_s = 0.1135, 0.04, 2.0
    pelvis_lean_rad, waist_lean_rad = 0.1, 0.3
    clock = max(t - FADE_S, 0.0) / quarter_s
    quarter, phase = int(clock) % 4, clock % 1.0
    start = 0.0 if clock < 1.0 else reach_m  # the first shift leaves the middle
    com_y_m = {
        0: start - (start + reach_m) * quintic(phase),
        1: -reach_m,
        2: -reach_m + 2.0 * reach_m * quintic(phase),
        3: reach_m,
    }[quarter]
    lift = height_m * np.sin(np.pi * phase) ** 2
    left, right = (lift if quarter == 1 else 0.0), (lift if quarter == 3 else 0.0)
    swing, lean = 0.2 * (right - left) / height_m, -com_y_m / reach_m
    return Plan(
        com_y_m=com_y_m,
        roll_rad=pelvis_lean_rad * lean,
        pitch_rad=0.04,
        lift_m=(left, right),
        joints={
            "waist_roll": waist_lean_rad * lean,
            "left_shoulder_pitch": 0.2 - swing,
            "right_shoulder_pitch": 0.2 + swing,
        },
    )


def tread(t: float) -> Plan:
    """Fast shift of weight and arm swing."""
    swing = sine(t, 1.4, 0.4)
    return Plan(
        com_y_m=sine(t, 1.4, 0.006),
        z_m=PELVIS_Z_M - 0.015 + sine(t, 2.8, 0.006),
        pitch_rad=0.05,
        joints={
            "left_shoulder_pitch": 0.2 + swing,
            "right_shoulder_pitch": 0.2 - swing,
            "left_elbow": 1.1,
            "right_elbow": 1.1,
        },
    )


MOTIONS: dict[str, Callable[[float], Plan]] = {
    "standin_dance": dance,
    "standin_fight": fight,
    "standin_crouch": crouch,
    "standin_step": step,
    "standin_tread": tread,
}


class Solver:
    """Turns plans into generalised positions; each frame starts from the one before."""

    def __init__(self) -> None:
        self.model = scene.build(spec.EVAL_TIMESTEP_S).model
        self.data = mujoco.MjData(self.model)
        self.data.qpos[:] = scene.default_qpos()
        self.feet = [self.model.body(name).id for name in spec.FOOT_BODIES]
        self.legs = [slice(0, 6), slice(6, 12)]

    def solve(self, plan: Plan) -> np.ndarray:
        """qpos of a plan, shape (36,)."""
        qpos = self.data.qpos
        qpos[2] = plan.z_m
        pelvis = Rotation.from_euler("ZYX", (plan.yaw_rad, plan.pitch_rad, plan.roll_rad))
        qpos[3:7] = np.roll(pelvis.as_quat(), 1)
        for name, angle in plan.joints.items():
            qpos[7 + spec.JOINT_NAMES.index(f"{name}_joint")] = angle
        goal_m = np.array([plan.com_x_m, plan.com_y_m])
        for _ in range(IK_STEPS):
            self._place_feet(plan)
            error_m = goal_m - self.data.subtree_com[1, :2]
            if np.abs(error_m).max() < TOLERANCE:
                return qpos.copy()
            qpos[:2] += error_m
        raise RuntimeError(f"centre of mass is {error_m} m off after {IK_STEPS} shifts: {plan}")

    def _place_feet(self, plan: Plan) -> None:
        """Damped Newton steps on both legs until the feet are flat where the plan wants them."""
        model, data = self.model, self.data
        jac_pos, jac_rot = np.zeros((3, model.nv)), np.zeros((3, model.nv))
        for _ in range(IK_STEPS):
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            worst = 0.0
            for side, (foot, leg) in enumerate(zip(self.feet, self.legs, strict=True)):
                y_m = plan.foot_y_m if side == 0 else -plan.foot_y_m
                goal_m = np.array([0.0, y_m, plan.lift_m[side] - spec.FOOT_SOLE_Z_M])
                tilt = Rotation.from_matrix(data.xmat[foot].reshape(3, 3)).as_rotvec()
                error = np.concatenate([goal_m - data.xpos[foot], -tilt])
                worst = max(worst, float(np.abs(error).max()))
                mujoco.mj_jacBody(model, data, jac_pos, jac_rot, foot)
                j = np.vstack([jac_pos, jac_rot])[:, 6:][:, leg]
                normal = j.T @ j + IK_DAMPING * np.eye(6)
                data.qpos[7:][leg] += np.linalg.solve(normal, j.T @ error)
            if worst < TOLERANCE:
                return
        raise RuntimeError(f"feet are {worst:.2e} off after {IK_STEPS} steps: {plan}")


def trajectory(motion: Callable[[float], Plan]) -> np.ndarray:
    """qpos at the control rate, shape (1001, 36)."""
    solver = Solver()
    return np.array([solver.solve(motion(k / spec.CONTROL_HZ)) for k in range(spec.FRAMES)])


def main(out: Path = Path(__file__).parent) -> None:
    """Writes all five clips.

    Args:
        out: Folder to write to.
    """
    for name, motion in MOTIONS.items():
        path = out / f"{name}.npz"
        reference.write_npz(path, trajectory(motion))
        print(path, *(f"warning: {text}" for text in reference.validate_npz(path)), sep="\n  ")


if __name__ == "__main__":
    tyro.cli(main)
