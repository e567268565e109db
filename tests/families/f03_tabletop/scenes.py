"""Scenes of tower, cantilever and balance as tests want them."""

import math

import mujoco
import numpy as np
import pytest

from families.f03_tabletop import instances
from families.f03_tabletop import spec as s


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


def check_options(model: mujoco.MjModel) -> None:
    """The physics options of the family."""
    option = model.opt
    assert option.timestep == s.TIMESTEP_S
    assert option.timestep * s.SUBSTEPS == pytest.approx(1.0 / s.CONTROL_HZ)
    assert option.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    assert option.solver == mujoco.mjtSolver.mjSOL_NEWTON
    assert (option.iterations, option.ls_iterations) == (
        s.SOLVER_ITERATIONS,
        s.LINE_SEARCH_ITERATIONS,
    )
    assert option.cone == mujoco.mjtCone.mjCONE_ELLIPTIC and option.impratio == s.IMPRATIO
    assert (model.vis.global_.offwidth, model.vis.global_.offheight) == (s.IMAGE_PX, s.IMAGE_PX)


def check_table(model: mujoco.MjModel, table: s.Table) -> None:
    """Place, size and friction of a table's top."""
    geom = model.geom("table")
    assert geom.size == pytest.approx(table.half_m)
    assert geom.pos == pytest.approx([*table.centre_m, table.top_z_m - table.half_m[2]])
    assert geom.friction == pytest.approx(table.friction)


def check_piece(
    model: mujoco.MjModel, name: str, friction: tuple[float, float, float], condim: int,
    contact: s.Contact = s.PRIMITIVE_CONTACT,
) -> None:  # fmt: skip
    """Contact and damping of a loose piece."""
    geom = model.geom(f"{name}_geom")
    assert geom.friction == pytest.approx(friction) and geom.condim[0] == condim
    assert geom.solref == pytest.approx(contact.solref)
    assert geom.solimp == pytest.approx(contact.solimp)
    first = int(model.joint(f"{name}_joint").dofadr[0])
    assert model.dof_damping[first : first + 6] == pytest.approx(s.FREE_JOINT_DAMPING)


def check_camera(adapter, facts) -> tuple[np.ndarray, np.ndarray]:
    """A camera is where the task says, looks there, and has the stated intrinsics; its position and axes."""
    camera, model = adapter.ready.data.camera(facts["name"]), adapter.ready.model
    assert camera.xpos == pytest.approx(facts["position_m"])
    told = np.array(facts["rotation_columns_right_up_back"])
    assert camera.xmat.reshape(3, 3) == pytest.approx(told, abs=1e-6)
    assert model.camera(facts["name"]).fovy[0] == pytest.approx(facts["fovy_deg"])
    half_px = np.tan(np.radians(facts["fovy_deg"]) / 2) * facts["focal_px_at_512"]
    assert [half_px] * 2 == pytest.approx([s.IMAGE_PX / 2] * 2)
    assert facts["centre_px_at_512"] == [s.IMAGE_PX / 2] * 2
    return camera.xpos, told
