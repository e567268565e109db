"""A robot as an inverted pendulum: its capture point, the soles that hold it, and both along a clip.

A pendulum of constant height h obeys c'' = omega^2 (c - p) with omega^2 = g / h, c the centre of mass and p where
the soles press. Its capture point xi = c + c' / omega obeys xi' = omega (xi - p): pressed at xi, it comes to rest.
"""

from typing import NamedTuple

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from families.f04_tracking import scene, spec
from families.f04_tracking.reference import Reference

MIN_HEIGHT_M = 0.3
"""Height of the centre of mass below which omega grows no further."""
DIRECTIONS = np.array(
    [(np.cos(a), np.sin(a)) for a in np.linspace(0.0, 2.0 * np.pi, 32, endpoint=False)]
)
"""Unit vectors, shape (32, 2)."""


class Frames(NamedTuple):
    """What the controller knows of a clip; T frames."""

    qpos: np.ndarray
    qvel: np.ndarray
    qacc: np.ndarray
    com_m: np.ndarray
    com_vel_m_s: np.ndarray
    xi_m: np.ndarray
    """Capture point, shape (T, 2)."""
    xi_vel_m_s: np.ndarray
    feet_m: np.ndarray
    """Ankles, shape (T, 2, 3)."""
    feet_vel_m_s: np.ndarray
    trunk: np.ndarray
    """Rotation of pelvis and torso, shape (2, T, 3, 3)."""
    trunk_vel_rad_s: np.ndarray
    """Shape (2, T, 3)."""


def frames_of(reference: Reference) -> Frames:
    """Centre of mass, capture point, feet and trunk along a clip."""
    g1 = scene.build(spec.EVAL_TIMESTEP_S)
    data, com = mujoco.MjData(g1.model), np.empty((reference.frames, 3))
    for k, qpos in enumerate(reference.qpos):
        data.qpos[:] = qpos
        mujoco.mj_kinematics(g1.model, data)
        mujoco.mj_comPos(g1.model, data)
        com[k] = data.subtree_com[1]
    index = [spec.BODY_NAMES.index(n) for n in ("pelvis", "torso_link", *spec.FOOT_BODIES)]
    quat_xyzw = np.roll(reference.body_quat_w[:, index[:2]], -1, axis=-1)

    def rate(x: np.ndarray) -> np.ndarray:
        return np.gradient(x, spec.CONTROL_PERIOD_S, axis=0)

    velocity, feet = rate(com), np.asarray(reference.body_pos_w[:, index[2:]], float)
    xi = com[:, :2] + velocity[:, :2] / omega(com[:, 2:])
    return Frames(
        qpos=reference.qpos,
        qvel=reference.qvel,
        qacc=rate(reference.qvel),
        com_m=com,
        com_vel_m_s=velocity,
        xi_m=xi,
        xi_vel_m_s=rate(xi),
        feet_m=feet,
        feet_vel_m_s=rate(feet),
        trunk=np.array([Rotation.from_quat(quat_xyzw[:, i]).as_matrix() for i in (0, 1)]),
        trunk_vel_rad_s=np.asarray(reference.body_ang_vel_w[:, index[:2]], float).swapaxes(0, 1),
    )


def depth_in_hull(points_m: np.ndarray, at_m: np.ndarray) -> float:
    """Distance of a point to the nearest supporting line of points in 32 directions, negative outside.

    d = min over unit n of (max_i n . p_i - n . x).
    """
    return float(((points_m - at_m) @ DIRECTIONS.T).max(axis=0).min())


def omega(height_m: np.ndarray | float) -> np.ndarray:
    """sqrt(g / height), 1/s."""
    return np.sqrt(spec.SCENE.gravity_m_s2 / np.maximum(height_m, MIN_HEIGHT_M))
