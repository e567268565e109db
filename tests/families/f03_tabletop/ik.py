"""Postures of an arm for a pose of its grip site, by damped least squares from many starts."""

import mujoco
import numpy as np

from rle.sim.arm_control import rotation_vector
from rle.sim.robosuite_robot import RobosuiteRobot

STARTS = 12
ITERATIONS = 80
CLOSE_M, CLOSE_RAD = 5e-4, 2e-3


class Reach:
    """What an arm of a compiled scene can reach, its base where it is.

    Args:
        model: Compiled scene.
        data: Its state; not changed.
        robot: The arm.
    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, robot: RobosuiteRobot) -> None:
        self._model = model
        self._data = mujoco.MjData(model)
        self._data.qpos[:] = data.qpos
        joints = [model.joint(name) for name in robot.handles.arm_joints]
        self._qpos = np.array([int(joint.qposadr[0]) for joint in joints])
        self._dof = np.array([int(joint.dofadr[0]) for joint in joints])
        self.low, self.high = np.array([joint.range for joint in joints]).T
        self._site = int(model.site(robot.handles.grip_site).id)
        self._here = data.qpos[self._qpos].copy()

    def reaches(
        self, position_m, rotation: np.ndarray | None = None, *, spare_rad: float = 0.0
    ) -> bool:
        """Whether a posture is found that keeps `spare_rad` from every joint limit.

        Args:
            position_m: Grip site in the world. Shape (3,).
            rotation: Its axes, shape (3, 3); None leaves them free.
            spare_rad: Distance to keep.
        """
        rng = np.random.default_rng(0)
        for start in range(STARTS):
            joints = self._here if start == 0 else rng.uniform(self.low, self.high)
            found = self._descend(joints.copy(), np.asarray(position_m), rotation)
            if found is not None and self.spare_rad(found) >= spare_rad:
                return True
        return False

    def spare_rad(self, joints: np.ndarray) -> float:
        """Distance of a posture to the nearest joint limit."""
        return float(np.minimum(joints - self.low, self.high - joints).min())

    def _descend(self, joints, position, rotation) -> np.ndarray | None:
        jacobian = np.zeros((2, 3, self._model.nv))
        for _ in range(ITERATIONS):
            self._data.qpos[self._qpos] = joints
            mujoco.mj_kinematics(self._model, self._data)
            mujoco.mj_comPos(self._model, self._data)
            error = position - self._data.site_xpos[self._site]
            turn = np.zeros(0)
            if rotation is not None:
                turn = rotation_vector(rotation @ self._data.site_xmat[self._site].reshape(3, 3).T)
            if np.linalg.norm(error) < CLOSE_M and np.linalg.norm(turn) < CLOSE_RAD:
                return joints
            mujoco.mj_jacSite(self._model, self._data, jacobian[0], jacobian[1], self._site)
            rows = jacobian[: 1 if rotation is None else 2].reshape(-1, self._model.nv)[
                :, self._dof
            ]
            wanted = np.concatenate([error, turn])
            wanted *= min(1.0, 0.3 / float(np.linalg.norm(wanted)))
            centring = 0.02 * ((self.low + self.high) / 2 - joints)
            pinv = rows.T @ np.linalg.inv(rows @ rows.T + 1e-4 * np.eye(len(rows)))
            joints += pinv @ (wanted - rows @ centring) + centring
            np.clip(joints, self.low, self.high, out=joints)
        return None
