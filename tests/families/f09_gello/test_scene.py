"""The compiled arms carry the numbers of the spec; the starter is what the code writes."""

import importlib.util

import mujoco
import numpy as np
import pytest

from families.f09_gello import scene, task
from families.f09_gello.mechanism.record import Record
from families.f09_gello.mechanism.rules import read
from families.f09_gello.spec import ARM_NAMES, ARMS, DEVICES, PARTS, PHYSICS, SERVO, unit_quat_wxyz
from rle.paths import assets_dir
from rle.sim.model import unnamed_elements

MASS_KG = {"franka": 0.593, "ur5e": 0.592, "xarm7": 0.570}
PEAK_N_M = {"franka": 0.81, "ur5e": 0.86, "xarm7": 0.72}
"""Figures of the card for the bare arms without payload."""


@pytest.mark.parametrize("name", ARM_NAMES)
def test_frames_masses_and_joints_are_those_of_the_spec(name):
    arm, model = ARMS[name], scene.stock_device(name).model
    assert model.body("lead_base").pos == pytest.approx(arm.base_at_m)
    assert model.body("lead_base").quat == pytest.approx(unit_quat_wxyz(arm.base_quat_wxyz))
    for i, link in enumerate(arm.links, start=1):
        body, joint = model.body(f"lead_link{i}"), model.joint(f"lead_joint{i}")
        assert body.pos == pytest.approx(link[:3], abs=1e-9)
        assert abs(body.quat @ np.array(unit_quat_wxyz(link[3:]))) == pytest.approx(1.0)
        assert joint.axis == pytest.approx((0, 0, 1)) and joint.pos == pytest.approx((0, 0, 0))
        assert joint.range == pytest.approx(arm.range_rad[i - 1])
        assert joint.damping[0] == PHYSICS.joint_damping_n_m_s_per_rad
        assert joint.frictionloss[0] == PHYSICS.joint_frictionloss_n_m
        assert joint.armature[0] == PHYSICS.joint_armature_kg_m2
        end = np.linalg.norm(arm.links[i][:3] if i < arm.nv else PARTS.last_link_end_m)
        capsule = np.pi * PARTS.link_radius_m**2 * (end + 4 / 3 * PARTS.link_radius_m)
        expected = PARTS.servo_mass_kg + PARTS.printed_density_kg_m3 * capsule
        assert body.mass[0] == pytest.approx(expected)
    assert model.body("payload").mass[0] == DEVICES.payload_nominal_kg
    assert model.opt.timestep == PHYSICS.timestep_s
    assert model.opt.gravity == pytest.approx((0, 0, -PHYSICS.gravity_m_s2))
    assert model.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    assert not model.geom_contype.any() and not model.geom_conaffinity.any() and model.nu == 0
    assert unnamed_elements(model) == []


@pytest.mark.parametrize("name", ARM_NAMES)
def test_bare_arms_have_the_masses_and_torques_of_the_card(name):
    device = scene.compose(Record(name), payload_kg=1e-9)
    assert device.mass_kg == pytest.approx(MASS_KG[name], rel=0.02)
    torque = np.abs(task.gravity_torque(device.model, task.workspace_grid(name))).max(axis=0)
    assert torque.max() == pytest.approx(PEAK_N_M[name], rel=0.02)
    assert int(torque.argmax()) == 1, "the shoulder, joint 2, carries most"
    assert torque.max() > 2 * SERVO.limit_n_m


@pytest.mark.parametrize("name", ARM_NAMES)
def test_home_is_inside_every_range(name):
    arm = ARMS[name]
    for home, half, (low, high) in zip(
        arm.home_rad, arm.half_width_rad, arm.range_rad, strict=True
    ):
        assert low < home - half and home + half < high


def test_starter_files_are_those_that_the_builder_writes():
    path = assets_dir() / "gello" / "build.py"
    spec = importlib.util.spec_from_file_location("gello_build", path)
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    for file, text in build.files().items():
        assert file.read_text() == text, f"{file} differs; run assets/gello/build.py"


@pytest.mark.parametrize("name", ARM_NAMES)
def test_starter_is_accepted_without_a_finding(name):
    lead = task.load_lead(assets_dir() / "gello" / name, name)
    assert lead.findings == () and lead.record == Record(name)


@pytest.mark.parametrize("name", ARM_NAMES)
def test_mujocos_own_export_of_the_starter_is_accepted(name):
    spec = mujoco.MjSpec.from_string(scene.stock_xml(name))
    spec.joint("lead_joint2").stiffness = [0.5, 0.0, 0.0]
    spec.joint("lead_joint2").springref = ARMS[name].home_rad[1]
    spec.body("lead_link2").add_geom(
        name="sup_a", type=mujoco.mjtGeom.mjGEOM_BOX, size=(0.02, 0.004, 0.004), density=1000.0
    )
    spec.compile()
    lead = read(name, spec.to_xml().encode(), {})
    assert lead.findings == () and lead.n_springs == 1
    assert [p.density_kg_m3 for p in lead.record.parts] == [1000.0]


def test_mass_factors_scale_mass_and_inertia_and_spare_the_payload():
    scale = {body: 1.0 for body in scene.lead_bodies(ARMS["ur5e"])} | {"lead_link3": 1.05}
    plain, scaled = scene.compose(Record("ur5e")), scene.compose(Record("ur5e"), 0.03, scale)
    for body, factor in (("lead_link2", 1.0), ("lead_link3", 1.05)):
        a, b = plain.model.body(body), scaled.model.body(body)
        assert b.mass[0] == pytest.approx(factor * a.mass[0])
        assert b.inertia == pytest.approx(factor * a.inertia)
    assert scaled.model.body("payload").mass[0] == 0.03


def test_nominal_text_compiles_to_the_same_torques():
    record = Record("xarm7")
    model = mujoco.MjModel.from_xml_string(scene.nominal_xml(record))
    poses = task.public_hold_configs("xarm7")
    assert task.residual(model, poses) == pytest.approx(
        task.residual(scene.compose(record).model, poses), abs=1e-5
    )
