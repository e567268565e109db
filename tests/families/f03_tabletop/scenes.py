"""Scenes of tower, cantilever and balance as tests want them."""

import math

import mujoco

from families.f03_tabletop import instances


def spread(count: int) -> tuple[instances.Pose2, ...]:
    """Places far from each other and from the robot's side."""
    return tuple(
        instances.Pose2(-0.28 + 0.18 * (i % 3), -0.70 + 0.17 * (i // 3), 0.0) for i in range(count)
    )


def put(adapter, body, position, yaw_rad=0.0, pitch_quat=None):
    """Sets a free body's pose."""
    scene = adapter.ready
    address = int(scene.model.joint(f"{body}_joint").qposadr[0])
    quat = pitch_quat or (math.cos(yaw_rad / 2), 0.0, 0.0, math.sin(yaw_rad / 2))
    scene.data.qpos[address : address + 7] = (*position, *quat)
    dof = int(scene.model.joint(f"{body}_joint").dofadr[0])
    scene.data.qvel[dof : dof + 6] = 0.0
    mujoco.mj_forward(scene.model, scene.data)
