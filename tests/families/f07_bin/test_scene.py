"""The compiled cell carries the numbers of the spec, and the arm those of its published tables."""

import math
import xml.etree.ElementTree as ET
from pathlib import Path

import mujoco
import numpy as np
import pytest

from families.f07_bin import scene, sensors, spec
from rle.paths import assets_dir
from rle.sim.model import unnamed_elements


@pytest.fixture(scope="module")
def cell():
    return scene.build(2)


def test_solver_and_time(cell):
    option = cell.model.opt
    assert option.timestep == spec.TIMESTEP_S and option.impratio == spec.IMPRATIO
    assert option.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    assert option.cone == mujoco.mjtCone.mjCONE_ELLIPTIC
    assert option.disableflags & mujoco.mjtDisableBit.mjDSBL_AUTORESET
    assert spec.SUBSTEPS == 25 and spec.TICKS == 2400


def test_part_mass_and_shape(cell):
    assert cell.model.body_mass[cell.part_bodies] == pytest.approx(0.3089, abs=1e-4)
    assert pytest.approx(cell.model.body_mass[cell.part_bodies[0]], rel=1e-9) == spec.PART_MASS_KG
    # The flange's foot, 17 mm from its centre along the flange, stands just outside the web's edge.
    flange = scene.part_boxes()[1]
    foot_y = flange["pos"][1] - spec.FLANGE_HALF_M[1] * math.sin(spec.FLARE_RAD)
    assert foot_y == pytest.approx(spec.WEB_HALF_M[1] + spec.FLANGE_GAP_M)


def test_friction_masks_and_contacts(cell):
    model = cell.model
    belt = model.geom("belt").id
    assert model.geom_friction[belt] == pytest.approx(spec.BELT_FRICTION)
    others = np.delete(model.geom_friction, belt, axis=0)
    assert others == pytest.approx(np.tile(spec.FRICTION, (len(others), 1)))
    robot = model.geom_contype == 2
    assert (model.geom_conaffinity[robot] == 0).all()
    assert {model.geom(i).name for i in np.flatnonzero(robot)} >= set(("collar", "shaft", "head"))
    assert (model.geom_solref == (0.02, 1.0)).all()
    assert (model.geom_solimp == (0.9, 0.95, 0.001, 0.5, 2.0)).all()
    head = model.geom("head").id
    assert model.geom_margin[head] == model.geom_gap[head] == spec.MAG_GAP_M


def test_cameras(cell):
    assert sensors.camera_matrix("overhead")[0, 0] == pytest.approx(539.049, abs=1e-3)
    assert sensors.camera_matrix("wrist")[0, 0] == pytest.approx(216.486, abs=1e-3)
    for name, vfov in (("overhead", spec.OVERHEAD_VFOV_DEG), ("wrist", spec.WRIST_VFOV_DEG)):
        assert cell.model.camera(name).fovy[0] == vfov
    data = mujoco.MjData(cell.model)
    mujoco.mj_forward(cell.model, data)
    overhead = cell.model.camera("overhead").id
    assert data.cam_xmat[overhead].reshape(3, 3) == pytest.approx(np.eye(3))
    wrist, tool = cell.model.camera("wrist").id, cell.tool_body
    looks = -data.cam_xmat[wrist].reshape(3, 3)[:, 2]
    assert looks == pytest.approx(data.xmat[tool].reshape(3, 3)[:, 2])


def test_everything_has_a_name(cell):
    assert unnamed_elements(cell.model) == []


def test_model_xml_is_the_cell_without_parts():
    model = mujoco.MjModel.from_xml_string(scene.model_xml())
    assert model.nq == model.nu == spec.N_JOINTS and model.neq == 0
    reference = scene.build(0).model
    assert model.body_mass == pytest.approx(reference.body_mass, rel=1e-5)
    assert model.actuator_gainprm[:, 0] == pytest.approx([4500, 4500, 3500, 3500, 2000, 2000, 2000])
    assert model.actuator_biasprm[:, 2] == pytest.approx([-450, -450, -350, -350, -200, -200, -200])
    assert model.actuator_forcerange[:, 1] == pytest.approx([87, 87, 87, 87, 12, 12, 12])
    assert model.actuator_ctrlrange == pytest.approx(model.jnt_range)


def test_arm_sags_at_home_as_the_card_says():
    # 6.4 mrad at joint 4 and 3.3 mrad at joint 2: bias / kp, with the tool's 0.67 kg.
    model = scene.build(0).model
    data = mujoco.MjData(model)
    data.qpos[:] = data.ctrl[:] = spec.ARM_HOME_RAD
    mujoco.mj_step(model, data, 1000)
    sag = data.qpos - spec.ARM_HOME_RAD
    assert abs(sag[3]) == pytest.approx(6.4e-3, abs=3e-4)
    assert abs(sag[1]) == pytest.approx(3.3e-3, abs=3e-4)
    assert sag == pytest.approx(-data.qfrc_bias / model.actuator_gainprm[:, 0], abs=1e-6)


def test_panda_kinematics_are_the_published_ones():
    """Joint frames and ranges agree with the MJCF that robosuite packages."""
    robosuite = pytest.importorskip("robosuite")
    path = Path(robosuite.__file__).parent / "models/assets/robots/panda/robot.xml"
    theirs = {b.get("name"): b for b in ET.parse(path).getroot().iter("body")}
    ours = mujoco.MjModel.from_xml_path(str(assets_dir() / "robots/panda/panda.xml"))
    for i in range(1, 8):
        body = theirs[f"link{i}"]
        position = np.array(body.get("pos", "0 0 0").split(), float)
        quat = np.array(body.get("quat", "1 0 0 0").split(), float)
        assert ours.body(f"link{i}").pos == pytest.approx(position, abs=1e-6)
        assert abs(ours.body(f"link{i}").quat @ (quat / np.linalg.norm(quat))) == pytest.approx(1.0)
        joint = next(j for j in body.findall("joint"))
        assert ours.joint(f"joint{i}").range == pytest.approx(
            np.array(joint.get("range").split(), float), abs=2e-3
        )


def test_panda_inertias_can_be_real():
    model = mujoco.MjModel.from_xml_path(str(assets_dir() / "robots/panda/panda.xml"))
    inertia = np.sort(model.body_inertia[1:], axis=1)
    assert (inertia > 0).all()
    # The largest principal moment is at most the sum of the others.
    assert (inertia[:, 2] <= inertia[:, 0] + inertia[:, 1] + 1e-9).all()
    assert model.body_mass[1:].sum() == pytest.approx(16.6920, abs=1e-3)
    assert (model.geom_contype == 2).all() and (model.geom_conaffinity == 0).all()
