"""Finds, per arm and shelf target, one base pose and one arm posture that reach it without touching.

Least squares over base x, y, yaw and the joints from several starts. The base drives in along x with the arm
fixed, so the whole drive-in is free of the shelf if the final pose is free of a shelf whose boxes reach
endlessly along +x. Accepted postures keep the clearances below, stay under the servos' torque limits with
the heavy payload, and can be reached from stow on a straight joint path beside the own chassis.
"""

import dataclasses

import mujoco
import numpy as np
from scipy.optimize import least_squares

from families.f08_mobile_base import chassis, shelf, spec

CLEARANCE_M = 0.020
"""Wanted distance of arm and payload to the shelf."""
CLEARANCE_MIN_M = 0.006
"""Accepted distance: the base brakes within a few millimetres."""
OWN_CLEARANCE_M = 0.010
"""Wanted distance of arm and payload to the own chassis."""
FRONT_GAP_M = 0.030
"""Wanted distance of the base's front corner to the shelf's face."""
TORQUE_SHARE = 0.95
"""Of the servo limit, with the heavy payload."""
ACCEPTED_ERROR_M = 0.035
"""Largest accepted residual of the tool; the trial allows `SHELF_TOLERANCE_M`."""
YAW_LIMIT_RAD = 0.25
PATH_SAMPLES = 24
SWEEP_M = 1.0
"""How far the shelf's boxes are drawn along +x for planning."""


@dataclasses.dataclass(frozen=True)
class Posture:
    """Where the base stands and how the arm is held."""

    base: tuple[float, float, float]
    """x m, y m, yaw rad."""
    joints_rad: tuple[float, ...]
    error_m: float
    clearance_m: float


class Planner:
    """Geometry of one robot in front of the shelf.

    Args:
        design: The chassis.
        arm: The arm on it.
        front_gap_m: Smallest distance of base and shelf.
    """

    def __init__(
        self, design: chassis.Chassis, arm: spec.Arm, front_gap_m: float = FRONT_GAP_M
    ) -> None:
        self.robot = shelf.make_robot(design, arm, max(spec.SHELF_PAYLOADS_KG))
        self.arm, self.gap = arm, front_gap_m
        model = self.model = self.robot.model
        self.data = mujoco.MjData(model)
        boxes = np.flatnonzero(self.robot.is_shelf)
        model.geom_pos[boxes, 0] += 0.5 * SWEEP_M
        model.geom_size[boxes, 0] += 0.5 * SWEEP_M
        names = [model.geom(i).name for i in range(model.ngeom)]
        prefix = f"arm_{arm.name}_link"
        moving = [
            i for i, n in enumerate(names)
            if n == "payload" or (n.startswith(prefix) and int(n[len(prefix)]) >= 2)
        ]  # fmt: skip
        own = [
            i for i, n in enumerate(names)
            if n.startswith(("profile_", "hub_", "battery", "arm_adapter"))
        ]  # fmt: skip
        envelope = [i for i, n in enumerate(names) if n.startswith("roller_")]
        self.shelf_pairs = [(a, b) for a in moving for b in boxes]
        self.own_pairs = [(a, b) for a in moving for b in own + envelope[::2]]
        reach = design.record.wheel_pos_m[:, :2]
        front = float(reach[:, 0].max()) + spec.WHEEL_ENVELOPE_RADIUS_M
        side = float(np.abs(reach[:, 1]).max()) + spec.WHEEL_ENVELOPE_HALF_WIDTH_M
        self.corner = (front, side)
        joints = [model.joint(f"arm_{arm.name}_joint{k + 1}").id for k in range(arm.n_joints)]
        self.limits = model.jnt_range[joints].T
        self.torque = np.abs(model.actuator_forcerange[self.robot.arm_ctrl, 1])
        self._bias = np.zeros(model.nv)

    def place(self, x: np.ndarray) -> None:
        """Puts base and joints: x = (base x, y, yaw, joints)."""
        qpos = self.data.qpos
        qpos[:3] = x[0], x[1], spec.WHEEL_RADIUS_M
        qpos[3:7] = np.cos(0.5 * x[2]), 0.0, 0.0, np.sin(0.5 * x[2])
        qpos[self.robot.arm_qpos] = x[3:]
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)

    def distances(self, pairs: list[tuple[int, int]], far_m: float) -> np.ndarray:
        """Distance of every pair, at most `far_m`; spheres around the parts decide the far ones."""
        pair = np.array(pairs)
        pos, bound = self.data.geom_xpos, self.model.geom_rbound
        if np.isin(pair[:, 1], np.flatnonzero(self.robot.is_shelf)).all():
            half = self.model.geom_size[pair[:, 1]]
            offset = np.maximum(np.abs(pos[pair[:, 0]] - pos[pair[:, 1]]) - half, 0.0)
            gap = np.linalg.norm(offset, axis=1) - bound[pair[:, 0]]
        else:
            gap = np.linalg.norm(pos[pair[:, 0]] - pos[pair[:, 1]], axis=1)
            gap -= bound[pair[:, 0]] + bound[pair[:, 1]]
        result = np.full(len(pair), far_m)
        for k in np.flatnonzero(gap < far_m):
            a, b = pairs[k]
            result[k] = mujoco.mj_geomDistance(self.model, self.data, a, b, far_m, None)
        return result

    def front_gap(self, x: np.ndarray) -> float:
        """Distance of the base's foremost corner to the shelf's face."""
        front, side = self.corner
        reach = front * np.cos(x[2]) + side * abs(np.sin(x[2]))
        return float(spec.SHELF_FACE_X_M - x[0] - reach)

    def torque_share(self) -> np.ndarray:
        """Gravity torque over the servo limit, per joint."""
        mujoco.mj_rne(self.model, self.data, 0, self._bias)
        return self._bias[self.robot.arm_qvel] / self.torque

    def residuals(self, x: np.ndarray, target: np.ndarray) -> np.ndarray:
        self.place(x)
        error = (self.data.site_xpos[self.robot.ee] - target) / 0.01
        wanted = CLEARANCE_M
        near = np.maximum(wanted - self.distances(self.shelf_pairs, wanted), 0.0) / 0.004
        own = np.maximum(OWN_CLEARANCE_M - self.distances(self.own_pairs, OWN_CLEARANCE_M), 0.0)
        front = max(self.gap + 0.002 - self.front_gap(x), 0.0) / 0.002
        load = np.maximum(np.abs(self.torque_share()) - (TORQUE_SHARE - 0.05), 0.0) / 0.05
        stow = 0.02 * (x[3:] - np.array(self.arm.stow_rad))
        return np.concatenate(
            [error, near, own / 0.004, [front], load, stow, 0.5 * x[1:3]]
        )  # fmt: skip

    def path_is_free(self, x: np.ndarray) -> bool:
        """Straight joint path from stow, at the start place, clear of chassis and shelf."""
        start = np.concatenate([[spec.SHELF_START_M[0], 0.0, 0.0], self.arm.stow_rad])
        end = np.concatenate([[spec.SHELF_START_M[0]], x[1:]])
        for share in np.linspace(0.0, 1.0, PATH_SAMPLES):
            self.place(start + share * (end - start))
            if share > 0.0 and self.distances(self.own_pairs, 0.02).min() < 0.004:
                return False
            if self.distances(self.shelf_pairs, 0.03).min() < 0.01:
                return False
        return True

    def evaluate(self, x: np.ndarray, target: np.ndarray) -> tuple[Posture, bool]:
        """The posture and whether it is accepted."""
        self.place(x)
        error = float(np.linalg.norm(self.data.site_xpos[self.robot.ee] - target))
        clearance = float(self.distances(self.shelf_pairs, 0.1).min())
        own = float(self.distances(self.own_pairs, 0.1).min())
        load = float(np.abs(self.torque_share()).max())
        good = (
            error <= ACCEPTED_ERROR_M
            and clearance >= CLEARANCE_MIN_M
            and own >= 0.004
            and load <= TORQUE_SHARE
            and self.front_gap(x) >= self.gap - 0.002
        )
        base = (float(x[0]), float(x[1]), float(x[2]))
        posture = Posture(base, tuple(map(float, x[3:])), error, clearance)
        return posture, good and self.path_is_free(x)

    def solve(
        self, target: np.ndarray, rng: np.random.Generator, n_starts: int = 40
    ) -> Posture | None:
        """The best accepted posture of the first starts that give one, or None."""
        front_x = spec.SHELF_FACE_X_M - self.corner[0] - self.gap
        lower = np.concatenate([[front_x - 0.35, -0.3, -YAW_LIMIT_RAD], self.limits[0] + 0.02])
        upper = np.concatenate([[front_x + 0.01, 0.3, YAW_LIMIT_RAD], self.limits[1] - 0.02])
        found: list[Posture] = []
        for k in range(n_starts):
            pose = np.array(self.arm.stow_rad if k % 2 == 0 else self.arm.extended_rad)
            bearing = np.arctan2(target[1], target[0] - front_x) - self.arm.tool_azimuth_rad
            if k % 2:
                pose[0] = bearing
            pose = pose + rng.normal(scale=0.0 if k < 2 else 0.5, size=len(pose))
            start = np.concatenate([[front_x - 0.02, 0.0, 0.0], pose])
            start = np.clip(start, lower + 1e-6, upper - 1e-6)
            fit = least_squares(
                self.residuals, start, bounds=(lower, upper), args=(target,), max_nfev=60,
                diff_step=1e-4, x_scale=np.array([0.05, 0.05, 0.05] + [0.3] * len(pose)),
            )  # fmt: skip
            posture, good = self.evaluate(fit.x, target)
            if good:
                found.append(posture)
            if len(found) == 2 or (found and k >= 8):
                break
        return min(found, key=lambda p: p.error_m - p.clearance_m, default=None)


def all_postures(
    design: chassis.Chassis, seed: int = 0, front_gap_m: dict[str, float] | None = None
) -> dict[str, list[Posture | None]]:
    """Postures of every arm, in target order.

    Args:
        design: The chassis.
        seed: Seed of the random starts.
        front_gap_m: Smallest base-shelf distance of an arm; default `FRONT_GAP_M`.
    """
    result: dict[str, list[Posture | None]] = {}
    for arm in spec.ARMS:
        planner = Planner(design, arm, (front_gap_m or {}).get(arm.name, FRONT_GAP_M))
        result[arm.name] = []
        for index, target in enumerate(spec.TARGETS_M):
            rng = np.random.default_rng([seed, spec.ARM_NAMES.index(arm.name), index])
            posture = planner.solve(np.array(target), rng)
            result[arm.name].append(posture)
            shown = "none" if posture is None else (
                f"{1000 * posture.error_m:.0f} mm off, {1000 * posture.clearance_m:.0f} mm clear"
            )  # fmt: skip
            print(f"{arm.name} {index:2d} {spec.TARGET_NAMES[index]}: {shown}", flush=True)
    return result
