"""Where the head is to be, turned into commands: inverse kinematics, servo inversion, smooth motion."""

import math

import mujoco
import numpy as np

ACCEL_M_S2 = 5.0


class Arm:
    """Kinematics of the cell without parts.

    The servo of a joint is nearly first order, v = (c - q) kp / kv, so that the command that moves it
    by d in one tick is q + d / (1 - exp(-kp / kv dt)), plus the sag bias / kp.
    """

    def __init__(self, model_xml, home, dt_s):
        self._model = mujoco.MjModel.from_xml_string(model_xml)
        self._data = mujoco.MjData(self._model)
        self._grip = self._model.site("grip").id
        self._home = np.asarray(home, dtype=float)
        self._kp = self._model.actuator_gainprm[:, 0]
        self._lead = 1.0 / (1.0 - np.exp(self._kp / self._model.actuator_biasprm[:, 2] * dt_s))
        self._q = self._home.copy()

    def grip_m(self, qpos):
        """Position of the head's face. Shape (3,), m, world."""
        self._data.qpos[:] = qpos
        mujoco.mj_kinematics(self._model, self._data)
        return self._data.site_xpos[self._grip].copy()

    def solve(self, target_m, lean):
        """Joint angles with the head at `target_m`, pointing along (lean, -1). Shape (7,), rad.

        Starts from the home posture turned towards the target: equal targets, equal postures.
        """
        model, data = self._model, self._data
        q = self._home.copy()
        q[0] = math.atan2(target_m[1], target_m[0])
        low, high = model.jnt_range.T
        down = np.array((lean[0], lean[1], -1.0))
        down /= np.linalg.norm(down)
        jacobian = np.zeros((6, model.nv))
        for _ in range(40):
            data.qpos[:] = q
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            tilt = np.cross(data.site_xmat[self._grip].reshape(3, 3)[:, 2], down)
            error = np.concatenate((target_m - data.site_xpos[self._grip], tilt))
            if np.linalg.norm(error) < 1e-4:
                break
            mujoco.mj_jacSite(model, data, jacobian[:3], jacobian[3:], self._grip)
            step = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + 1e-5 * np.eye(6), error)
            q = np.clip(q + np.clip(step, -0.3, 0.3), low, high)
        return q

    def command(self, target_m, lean=(0.0, 0.0)):
        """Joint targets that bring the head to `target_m` by the end of this tick. Shape (7,), rad."""
        q = self.solve(target_m, lean)
        self._data.qpos[:], self._data.qvel[:] = q, 0.0
        mujoco.mj_forward(self._model, self._data)
        reference, self._q = self._q, q
        return reference + (q - reference) * self._lead + self._data.qfrc_bias / self._kp


class Glide:
    """Set point that moves to a goal with bounded speed and acceleration, plane and height apart."""

    def __init__(self, start_m, dt_s):
        self.position_m = np.array(start_m, dtype=float)
        self._speed = np.zeros(2)
        self._dt_s = dt_s

    def advance(self, goal_m, plane_m_s, height_m_s, accel_m_s2=ACCEL_M_S2):
        """Moves for one tick and returns the new set point. Shape (3,), m."""
        gap = goal_m - self.position_m
        for axis, (part, limit) in enumerate(((slice(0, 2), plane_m_s), (slice(2, 3), height_m_s))):
            distance = float(np.linalg.norm(gap[part]))
            brake = math.sqrt(2.0 * accel_m_s2 * distance)
            speed = min(limit, brake, self._speed[axis] + accel_m_s2 * self._dt_s)
            step = min(speed * self._dt_s, distance)
            if distance > 0.0:
                self.position_m[part] += gap[part] * (step / distance)
            self._speed[axis] = step / self._dt_s
        return self.position_m
