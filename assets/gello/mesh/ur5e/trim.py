"""Nominal feedforward only: gravity and springs of the arm as drawn, no probes, no adaptation."""

import mujoco
import numpy as np


def make_trim(model):
    """q -> g(q) + k (q - springref) of the nominal model, N m."""
    data = mujoco.MjData(model)
    stiffness = model.jnt_stiffness.reshape(model.njnt, -1)[:, 0]

    def trim(q):
        data.qpos[:] = q
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        torque = np.zeros(model.nv)
        mujoco.mj_rne(model, data, 0, torque)
        return torque + stiffness * (np.asarray(q) - model.qpos_spring)

    return trim
