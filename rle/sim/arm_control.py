"""The torques of robosuite's arm and torso controllers, computed without its overheads and equal to the bit; and
the rotations that hands are told in.

robosuite's own objects keep goals and gains; what runs once per physics step runs here. Their `run_controller`
copies the state through a dozen small arrays and asks for each site's Jacobian four times; the arithmetic below
is the same, operation by operation, on buffers that stay. A test compares the two.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np


@dataclass(frozen=True)
class Kernels:
    """Compiled functions of robosuite's operational-space controller."""

    opspace: Callable[..., tuple[np.ndarray, ...]]
    """M, J, J_pos, J_ori to Lambda, Lambda_pos, Lambda_ori and the null-space matrix."""
    nullspace: Callable[..., np.ndarray]
    """Torques towards the rest posture that do not move the hand."""
    orientation_error: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """Rotation from the present to the wanted axes, rad."""


class MassMatrix:
    """The dense mass matrix of a physics step, computed once for all controllers that ask."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        self._model, self._data = model, data
        self.full = np.zeros((model.nv, model.nv))

    def update(self) -> None:
        """Takes the present state's."""
        mujoco.mj_fullM(self._model, self.full, self._data.qM)


class ArmControl:
    """Operational-space control of one arm: tau = J^T [Lambda_p f_p, Lambda_r f_r] + bias + null space.

    f = kp (goal - pose) + kd (base velocity - velocity), with goals in the frame of the arm's base.

    Args:
        part: robosuite's controller of the arm; its goal, gains and first reading of a new goal are used.
        site: Id of the grip site.
        origin: Id of the site that goals are given in.
        mass: Shared mass matrix.
        kernels: robosuite's compiled functions.
        is_mobile: False where the origin never moves.
    """

    def __init__(
        self, model: mujoco.MjModel, data: mujoco.MjData, part: Any, *, site: int, origin: int,
        mass: MassMatrix, kernels: Kernels, is_mobile: bool,
    ) -> None:  # fmt: skip
        if (part.input_type, part.impedance_mode, part.uncoupling) != ("delta", "fixed", True):
            raise ValueError(f"{part.name} is not the uncoupled controller with fixed gains")
        self.part = part
        self._model, self._data, self._mass, self._kernels = model, data, mass, kernels
        self._site, self._origin, self._is_mobile = site, origin, is_mobile
        self._dofs = one_block(part.qvel_index)
        self._qpos = one_block(part.qpos_index)
        self._in_world = part.input_ref_frame == "world"
        # Views that MuJoCo keeps up to date.
        self._bias = data.qfrc_bias[self._dofs]
        self._joints, self._rates = data.qpos[self._qpos], data.qvel[self._dofs]
        self._qvel = data.qvel
        self._site_pos, self._site_mat = data.site_xpos[site], data.site_xmat[site].reshape(3, 3)
        self._origin_pos = data.site_xpos[origin]
        self._origin_mat = data.site_xmat[origin].reshape(3, 3)
        self._jacobian, self._origin_jacobian = np.zeros((2, 2, 3, model.nv))
        self._error, self._slip, self._wrench = np.zeros((3, 6))

    def read(self) -> None:
        """What robosuite's `update` reads of the state."""
        part, jacobian, dofs = self.part, self._jacobian, self._dofs
        mujoco.mj_jacSite(self._model, self._data, jacobian[0], jacobian[1], self._site)
        part.ref_pos[:] = self._site_pos
        part.ref_ori_mat[:] = self._site_mat
        np.dot(jacobian[0], self._qvel, out=part.ref_pos_vel)
        np.dot(jacobian[1], self._qvel, out=part.ref_ori_vel)
        part.J_pos[:] = jacobian[0, :, dofs]
        part.J_ori[:] = jacobian[1, :, dofs]
        part.J_full[:3] = part.J_pos
        part.J_full[3:] = part.J_ori
        part.joint_pos, part.joint_vel = self._joints.copy(), self._rates.copy()
        part.mass_matrix = self._mass.full[dofs, dofs].copy(order="F")  # robosuite's own layout

    def torques(self) -> np.ndarray:
        """Joint torques of this physics step. Shape (joints,), N m."""
        part, kernels = self.part, self._kernels
        if part.new_update:  # not in a goal's first step: setting the goal has read the state
            self.read()
        part.new_update = True
        part.origin_pos, part.origin_ori = self._origin_pos.copy(), self._origin_mat.copy()
        error, slip = self._error, self._slip
        if self._in_world:
            goal_pos, goal_ori = part.goal_pos, part.goal_ori
        else:
            goal_pos = self._origin_pos + np.dot(self._origin_mat, part.goal_pos)
            goal_ori = np.dot(self._origin_mat, part.goal_ori)
        np.subtract(goal_pos, part.ref_pos, out=error[:3])
        error[3:] = kernels.orientation_error(goal_ori, part.ref_ori_mat)
        slip[:3], slip[3:] = part.ref_pos_vel, part.ref_ori_vel
        if self._is_mobile:
            jacobian = self._origin_jacobian
            mujoco.mj_jacSite(self._model, self._data, jacobian[0], jacobian[1], self._origin)
            slip[:3] -= np.dot(jacobian[0], self._qvel)
            slip[3:] -= np.dot(jacobian[1], self._qvel)
        np.negative(slip, out=slip)
        error *= part.kp
        slip *= part.kd
        error += slip
        _, along, about, null = kernels.opspace(
            part.mass_matrix, part.J_full, part.J_pos, part.J_ori
        )
        np.dot(along, error[:3], out=self._wrench[:3])
        np.dot(about, error[3:], out=self._wrench[3:])
        torques = np.dot(part.J_full.T, self._wrench) + self._bias
        torques += kernels.nullspace(
            part.mass_matrix, null, part.initial_joint, part.joint_pos, part.joint_vel
        )
        return torques


class JointControl:
    """Position control of a single joint (the torso): tau = m (kp (goal - q) - kd q') + bias."""

    def __init__(self, data: mujoco.MjData, part: Any, mass: MassMatrix) -> None:
        (self._dof,), (qpos,) = part.qvel_index, part.qpos_index
        self.part = part
        self._mass = mass
        self._joint, self._rate = data.qpos[qpos : qpos + 1], data.qvel[self._dof : self._dof + 1]
        self._bias = data.qfrc_bias[self._dof : self._dof + 1]

    def torques(self) -> np.ndarray:
        """Joint force or torque of this physics step. Shape (1,)."""
        part = self.part
        if part.new_update:
            part.joint_pos, part.joint_vel = self._joint.copy(), self._rate.copy()
            part.mass_matrix = self._mass.full[self._dof :, self._dof :][:1, :1].copy()
        part.new_update = True
        wanted = (part.goal_qpos - part.joint_pos) * part.kp + -part.joint_vel * part.kd
        return part.mass_matrix[0] * wanted + self._bias


def one_block(addresses: Any) -> slice:
    """The slice that holds exactly these addresses, in this order.

    Raises:
        ValueError: They are not consecutive.
    """
    found = [int(a) for a in addresses]
    span = slice(found[0], found[0] + len(found))
    if found != list(range(span.start, span.stop)):
        raise ValueError(f"addresses {found} are not one block in order")
    return span


def quat_xyzw(rotation: np.ndarray) -> np.ndarray:
    """Unit quaternion x, y, z, w of a rotation matrix, w >= 0. Shape (3, 3) to (4,)."""
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(rotation).reshape(-1))
    return np.roll(quat if quat[0] >= 0 else -quat, -1)


def rotation_of(quat: np.ndarray) -> np.ndarray:
    """Rotation matrix (3, 3) of a unit quaternion x, y, z, w."""
    out = np.zeros(9)
    mujoco.mju_quat2Mat(out, np.roll(quat, 1))
    return out.reshape(3, 3)


def rotation_vector(rotation: np.ndarray) -> np.ndarray:
    """Axis times angle of a rotation matrix. Shape (3, 3) to (3,), rad."""
    quat, vector = np.zeros(4), np.zeros(3)
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(rotation).reshape(-1))
    mujoco.mju_quat2Vel(vector, quat, 1.0)
    return vector
