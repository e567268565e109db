"""Shelf controller with stored postures: move the arm at the start place, drive straight in, hold.

The submitted file is this text with `POSTURES` filled in by `f08_oracle.py`.
"""

import mujoco
import numpy as np

POSTURES = {}
"""arm -> list over targets of [base x, y, yaw, joints ...] in m and rad."""

MEAN_JOINT_SPEED_RAD_S = 0.6
SIDE_SPEED_M_S, YAW_SPEED_RAD_S = 0.10, 0.15
DRIVE_SPEED_M_S = 0.15
SLOW_DOWN_PER_S = 1.2
"""Drive speed over remaining distance."""
POSE_GAIN_PER_S = 2.5
INTEGRAL_PER_S = 0.8
INTEGRAL_LIMIT_RAD = 0.08
WHEEL_RADIUS_M = 0.076
SIGN = np.array([1.0, -1.0, -1.0, 1.0])
"""Roller handedness of FL, FR, RL, RR."""


class StoredPostures:
    """One posture per target; gravity is carried by feed-forward and a slow integral."""

    def reset(self, context, seed):
        self.model = mujoco.MjModel.from_xml_string(context["model_xml"])
        self.data = mujoco.MjData(self.model)
        self.dt = context["control_dt"]
        names = context["arm_joint_names"]
        self.qpos = np.array([self.model.joint(n).qposadr[0] for n in names])
        self.dof = np.array([self.model.joint(n).dofadr[0] for n in names])
        arm = np.array([self.model.actuator(n).id for n in context["arm_actuator_names"]])
        self.kp = self.model.actuator_gainprm[arm, 0]
        wheels = [f"wheel_{w}" for w in ("FL", "FR", "RL", "RR")]
        self.wheel_xy = np.array([self.model.body(w).pos[:2] for w in wheels])
        self.start = np.array(context["qpos"])[self.qpos]
        self.start_x = float(context["qpos"][0])
        stored = POSTURES[context["arm"]][context["target_index"]]
        if stored is None:  # out of reach: stay
            stored = [self.start_x, 0.0, 0.0, *self.start]
        goal = np.array(stored, dtype=float)
        self.goal_base, self.goal = goal[:3], goal[3:]
        self.move_s = max(
            2.0,
            np.abs(self.goal - self.start).max() / MEAN_JOINT_SPEED_RAD_S,
            abs(self.goal_base[1]) / SIDE_SPEED_M_S,
            abs(self.goal_base[2]) / YAW_SPEED_RAD_S,
        )
        self.integral = np.zeros(len(self.goal))
        self.bias = np.zeros(self.model.nv)

    def act(self, obs):
        share = 0.5 - 0.5 * np.cos(np.pi * min(1.0, obs["time"] / self.move_s))
        posture = self.start + share * (self.goal - self.start)
        return np.concatenate([self._wheels(obs, share), self._arm(obs, posture, share)])

    def _wheels(self, obs, share):
        x, y = obs["qpos"][:2]
        w, _, _, z = obs["qpos"][3:7]
        yaw = 2.0 * np.arctan2(z, w)
        if share < 1.0:
            vx = POSE_GAIN_PER_S * (self.start_x - x)
        else:
            left = self.goal_base[0] - x
            vx = np.clip(SLOW_DOWN_PER_S * left, -DRIVE_SPEED_M_S, DRIVE_SPEED_M_S)
        vy = POSE_GAIN_PER_S * (share * self.goal_base[1] - y)
        rate = POSE_GAIN_PER_S * (share * self.goal_base[2] - yaw)
        vx, vy = (
            np.cos(yaw) * vx + np.sin(yaw) * vy,
            -np.sin(yaw) * vx + np.cos(yaw) * vy,
        )
        wx, wy = self.wheel_xy.T
        return (vx - SIGN * vy - (wy + SIGN * wx) * rate) / WHEEL_RADIUS_M

    def _arm(self, obs, posture, share):
        self.data.qpos[:] = obs["qpos"]
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_rne(self.model, self.data, 0, self.bias)
        if share >= 1.0:
            error = posture - obs["qpos"][self.qpos]
            self.integral += INTEGRAL_PER_S * self.dt * error
            self.integral = np.clip(self.integral, -INTEGRAL_LIMIT_RAD, INTEGRAL_LIMIT_RAD)
        return posture + self.bias[self.dof] / self.kp + self.integral


def make_controller():
    return StoredPostures()
