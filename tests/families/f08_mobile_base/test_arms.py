"""The three arm models carry the card's numbers, whoever wrote their files."""

import mujoco
import numpy as np
import pytest

from families.f08_mobile_base import scene, spec
from rle.paths import assets_dir
from tests.families.f08_mobile_base.designs import ORACLE, built

RANGES_RAD = {
    "panda": [2.8973, (-1.7628, 1.7628), 2.8973, (-3.0718, -0.0698), 2.8973, (-0.0175, 3.7525),
              2.8973],
    "ur5e": [6.28319, 6.28319, 3.14159, 6.28319, 6.28319, 6.28319],
    "xarm7": [6.28319, (-2.059, 2.0944), 6.28319, (-0.19198, 3.927), 6.28319, (-1.69297, 3.14159),
              6.28319],
}  # fmt: skip
SERVOS = {
    "panda": [(4500, 450, 87)] * 2 + [(3500, 350, 87)] * 2 + [(2000, 200, 12)] * 3,
    "ur5e": [(3500, 350, 150)] * 3 + [(3000, 150, 28)] * 3,
    "xarm7": [(1500, 150, 50)] * 2 + [(1000, 100, 30)] * 3 + [(800, 80, 20)] * 2,
}
DAMPING = {"panda": [1] * 7, "ur5e": [10] * 6, "xarm7": [10, 10, 5, 5, 5, 2, 2]}
FRICTIONLOSS = {"panda": 0.0, "ur5e": 0.0, "xarm7": 1.0}


@pytest.fixture(scope="module", params=spec.ARMS, ids=spec.ARM_NAMES)
def robot(request) -> scene.Robot:
    return scene.compose(built(ORACLE), request.param)


def test_mass(robot):
    link0 = robot.model.body(f"arm_{robot.arm.name}_link0").id
    assert robot.model.body_subtreemass[link0] == pytest.approx(robot.arm.mass_kg, abs=0.006)


def test_joint_ranges_and_servos(robot):
    model, name = robot.model, robot.arm.name
    for k, expected in enumerate(RANGES_RAD[name]):
        low, high = expected if isinstance(expected, tuple) else (-expected, expected)
        joint = model.joint(f"arm_{name}_joint{k + 1}")
        assert joint.range == pytest.approx((low, high))
        assert joint.damping[0] == DAMPING[name][k]
        assert joint.armature[0] == 0.1 and joint.frictionloss[0] == FRICTIONLOSS[name]
        kp, kv, limit = SERVOS[name][k]
        motor = robot.arm_ctrl[k]
        assert model.actuator_gainprm[motor, 0] == kp
        assert model.actuator_biasprm[motor, :3].tolist() == [0, -kp, -kv]
        assert model.actuator_forcerange[motor].tolist() == [-limit, limit]
        assert model.actuator_ctrlrange[motor] == pytest.approx((low, high))
    assert not model.body_gravcomp.any()


def test_stow_and_extended_lie_in_the_ranges(robot):
    joints = [
        robot.model.joint(f"arm_{robot.arm.name}_joint{k + 1}") for k in range(robot.arm.n_joints)
    ]
    for pose in (robot.arm.stow_rad, robot.arm.extended_rad):
        assert len(pose) == robot.arm.n_joints
        assert all(j.range[0] <= q <= j.range[1] for j, q in zip(joints, pose, strict=True))


def test_extended_reach_height_and_azimuth(robot):
    data = robot.stowed()
    data.qpos[robot.arm_qpos] = robot.arm.extended_rad
    mujoco.mj_kinematics(robot.model, data)
    foot = robot.model.body(f"arm_{robot.arm.name}_link0").id
    x, y, z = data.site_xpos[robot.ee] - data.xpos[foot]
    assert np.hypot(x, y) == pytest.approx(robot.arm.reach_m, abs=0.001)
    assert z == pytest.approx(robot.arm.tool_height_m, abs=0.001)
    assert np.arctan2(y, x) == pytest.approx(robot.arm.tool_azimuth_rad, abs=0.001)


def test_arm_stands_on_the_adapter(robot):
    data = robot.stowed()
    site = built(ORACLE).record.mount_pos_m
    foot = data.xpos[robot.model.body(f"arm_{robot.arm.name}_link0").id] - data.xpos[robot.base]
    assert foot == pytest.approx(site + (0, 0, spec.ARM_LIFT_M))
    assert spec.ARM_LIFT_M == 0.010


def test_foot_and_first_link_meet_the_shelf_only(robot):
    model = robot.model
    for geom in range(model.ngeom):
        name = model.geom(geom).name
        if name.startswith(f"arm_{robot.arm.name}_link"):
            type_, affinity = int(model.geom_contype[geom]), int(model.geom_conaffinity[geom])
            meets_chassis = bool(type_ & spec.MASK_CHASSIS[1] or spec.MASK_CHASSIS[0] & affinity)
            meets_shelf = bool(type_ & spec.MASK_TERRAIN[1] or spec.MASK_TERRAIN[0] & affinity)
            meets_itself = bool(type_ & affinity)
            link = int(name.split("link")[1][0])
            assert (meets_chassis, meets_shelf, meets_itself) == (link > 1, True, False), name


def test_panda_inertia_is_the_identified_set():
    model = mujoco.MjModel.from_xml_path(str(assets_dir() / "robots/panda/panda.xml"))
    link = model.body("link5")
    moments = np.zeros((3, 3))
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, link.iquat)
    turn = turn.reshape(3, 3)
    moments = turn @ np.diag(link.inertia) @ turn.T
    assert link.mass[0] == pytest.approx(1.225946)
    assert link.ipos == pytest.approx((-0.011953, 0.041065, -0.038437))
    assert np.diag(moments) == pytest.approx((0.035549, 0.029474, 0.008627), rel=1e-6)
    assert moments[0, 1] == pytest.approx(-0.002117, rel=1e-5)


@pytest.mark.parametrize("name", ["ur5e", "xarm7"])
def test_link_numbers_are_those_of_the_packaged_model(name):
    """Frames, masses and inertia tensors equal robosuite's, read here from its own file."""
    from importlib.util import find_spec
    from pathlib import Path

    package = find_spec("robosuite")
    assert package is not None and package.origin is not None
    folder = Path(package.origin).parent / "models/assets/robots" / name
    theirs = mujoco.MjModel.from_xml_path(str(folder / "robot.xml"))
    ours = mujoco.MjModel.from_xml_path(str(assets_dir() / f"robots/{name}/{name}.xml"))
    for joint in range(ours.njnt):
        a, b = ours.jnt_bodyid[joint], theirs.jnt_bodyid[joint]
        assert ours.body_mass[a] == pytest.approx(theirs.body_mass[b])
        assert ours.body_inertia[a] == pytest.approx(theirs.body_inertia[b])
        assert ours.body_pos[a] == pytest.approx(theirs.body_pos[b])
        assert ours.body_quat[a] == pytest.approx(theirs.body_quat[b])
        assert ours.jnt_range[joint] == pytest.approx(theirs.jnt_range[joint])
        assert ours.jnt_axis[joint] == pytest.approx(theirs.jnt_axis[joint])
