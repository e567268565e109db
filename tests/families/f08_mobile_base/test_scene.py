"""The composed model carries the spec's numbers, and its wheels drive as mecanum wheels do."""

import dataclasses
import math

import mujoco
import numpy as np
import pytest

from families.f08_mobile_base import battery, scene, spec
from rle.sim.model import unnamed_elements
from tests.families.f08_mobile_base.designs import LIGHT, ORACLE, built

PANDA = spec.ARMS[0]


@pytest.fixture(scope="module")
def design():
    return built(ORACLE)


@pytest.fixture(scope="module")
def robot(design) -> scene.Robot:
    return scene.compose(design, PANDA, 2.0)


def test_physics_options(robot):
    option = robot.model.opt
    assert (option.timestep, option.impratio, option.iterations) == (0.002, 10.0, 100)
    assert option.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    assert option.cone == mujoco.mjtCone.mjCONE_ELLIPTIC
    off = mujoco.mjtDisableBit
    assert option.disableflags == off.mjDSBL_AUTORESET | off.mjDSBL_ISLAND
    assert option.gravity.tolist() == [0, 0, -9.81]


@pytest.mark.parametrize(("arm", "nv"), [("panda", 81), ("ur5e", 80), ("xarm7", 81)])
def test_degrees_of_freedom(design, arm, nv):
    model = scene.compose(design, scene.find_arm(arm)).model
    assert (model.nv, model.nu) == (nv, nv - 70)
    assert unnamed_elements(model) == []


def test_masses_are_the_catalogues(robot, design):
    model = robot.model
    wheel = model.body("wheel_FL").id
    assert model.body_subtreemass[wheel] == pytest.approx(1.84)
    assert model.body("battery").mass[0] == 10.0
    assert model.body("base").mass[0] == pytest.approx(4.276 * 1.5)
    assert model.body("payload").mass[0] == 2.0
    assert model.body("payload").inertia == pytest.approx([0.4 * 2.0 * 0.04**2] * 3)
    total = design.total_kg(PANDA) + 2.0
    assert model.body_subtreemass[robot.base] == pytest.approx(total, abs=0.01)


def test_rollers_lie_on_their_circle_at_45_degrees(robot):
    model = robot.model
    for wheel, sign in spec.WHEEL_SIGN.items():
        for i in (0, 3):
            body = model.body(f"roller_{wheel}_{i}")
            a = 2 * math.pi * i / 16
            assert body.pos == pytest.approx((0.06 * math.sin(a), 0, 0.06 * math.cos(a)))
            axis = model.joint(f"spin_{wheel}_{i}").axis
            expected = np.array([math.cos(a), sign, -math.sin(a)]) / math.sqrt(2)
            assert axis == pytest.approx(expected)
    assert model.geom("roller_FL_0").size[:2] == pytest.approx((0.016, 0.0194))


def test_terrain_decides_the_friction(robot):
    floor = robot.model.geom("floor")
    assert floor.friction.tolist() == list(spec.TERRAIN_FRICTION)
    others = np.delete(robot.model.geom_priority, floor.id)
    assert floor.priority[0] > others.max()


def test_text_of_the_model_is_the_model(robot):
    again = mujoco.MjModel.from_xml_string(robot.xml)
    for name in ("body_mass", "geom_contype", "actuator_gainprm", "jnt_range", "dof_damping"):
        assert getattr(again, name) == pytest.approx(getattr(robot.model, name), rel=1e-5), name
    assert again.opt.disableflags == robot.model.opt.disableflags


def test_shelf_is_where_the_card_says(design):
    model = scene.compose(design, PANDA, 1.0, scene.Terrain(shelf=True)).model
    boxes = {n: (np.array(a), np.array(b)) for n, a, b in scene.shelf_boxes()}
    assert boxes["plinth"][1][2] == 0.20 and boxes["plinth"][0][2] == 0.0
    assert [boxes[n][1][2] for n in ("mid", "high", "top")] == [0.66, 1.02, 1.46]
    assert boxes["back"][0][0] == pytest.approx(0.76)
    assert boxes["left"][0][1] == pytest.approx(0.23)
    assert boxes["right"][1][1] == pytest.approx(-0.23)
    for name, (low, high) in boxes.items():
        geom = model.geom(f"shelf_{name}")
        assert geom.pos == pytest.approx(0.5 * (low + high))
        assert geom.size == pytest.approx(0.5 * (high - low))
    for target in spec.TARGETS_M:  # every target is free air
        assert not any(
            (low < target).all() and (target < high).all() for low, high in boxes.values()
        )


def test_wheel_speeds_of_a_pure_twist(robot):
    r = spec.WHEEL_RADIUS_M
    assert robot.wheel_speeds(np.array([0.76, 0, 0])) == pytest.approx([10.0] * 4)
    assert robot.wheel_speeds(np.array([0, 0.76, 0])) == pytest.approx([-10, 10, 10, -10])
    lever = 0.243 + 0.203
    expected = np.array([-lever, lever, -lever, lever]) / r
    assert robot.wheel_speeds(np.array([0, 0, 1.0])) == pytest.approx(expected)


@pytest.mark.parametrize("twist", [(0.3, 0, 0), (0, 0.3, 0), (0, 0, 0.6), (-0.2, 0.2, 0)])
def test_mecanum_signs_and_tracking(design, twist):
    """Each commanded component is followed with its sign, the others stay small."""
    robot = scene.compose(design, PANDA)
    program = battery.mecanum(PANDA)
    commands = np.zeros_like(program.twist[: battery.steps(2.0)])
    commands[battery.steps(0.5) :] = twist
    short = dataclasses.replace(
        program, twist=commands, arm_rad=program.arm_rad[: len(commands)], twists=()
    )
    trace = battery.simulate(robot, short)
    mean = trace.twist[battery.steps(1.2) :].mean(axis=0)
    largest = np.abs(twist).max()
    assert np.abs(mean - twist).max() < 0.1 * largest


def test_gravity_leans_so_that_a_slope_goes_uphill():
    terrain = scene.Terrain(gravity_tilt_rad=math.radians(10))
    assert terrain.gravity == pytest.approx(
        (-9.81 * math.sin(math.radians(10)), 0, -9.81 * math.cos(math.radians(10)))
    )
    ramp = scene.Terrain(ramp_rad=math.radians(6))
    uphill = ramp.rotation @ np.array([1.0, 0, 0])
    assert uphill[2] == pytest.approx(math.sin(math.radians(6)))
    assert ramp.rotation[:, 2] == pytest.approx(ramp.normal)


def test_bumps_stand_12_mm_proud(design):
    terrain = scene.Terrain(curb=True, bumps=((1.8, 0.1), (2.0, -0.1)))
    model = scene.compose(design, PANDA, 0.0, terrain).model
    bump = model.geom("bump_0")
    assert bump.pos[2] + bump.size[0] == pytest.approx(0.012)
    assert model.geom("curb").pos[2] + model.geom("curb").size[2] == pytest.approx(0.02)


def test_unmatched_boxes_carry_no_mass():
    light = built(LIGHT)
    half = light.record.box_half_m.copy()
    half[0, 0] = 0.03
    odd = dataclasses.replace(light.record, box_half_m=half)
    from families.f08_mobile_base import chassis

    model = scene.compose(chassis.inspect(odd), PANDA).model
    assert model.body("base").mass[0] == pytest.approx((1.91 - 0.36) * 1.5)
