"""What an agent may call while it designs, against closed forms and brute force."""

import math

import mujoco
import numpy as np
import pytest

from families.f08_mobile_base import battery, scene, spec, stability, task
from rle.errors import UnknownName
from tests.families.f08_mobile_base.designs import BRACED, COMPACT, LIGHT, ORACLE, built


@pytest.fixture(scope="module")
def design():
    return built(ORACLE)


@pytest.mark.parametrize("arm", spec.ARM_NAMES)
@pytest.mark.parametrize("frame", [ORACLE, BRACED], ids=lambda f: f.name)
def test_static_margin_equals_brute_force_kinematics(frame, arm):
    design = built(frame)
    margins = task.static_margin(design, arm, 2.0, 8)
    robot = scene.compose(design, task.find_arm(arm), 2.0)
    data = robot.stowed()
    corners = stability.convex_hull(design.record.wheel_pos_m[:, :2])
    for k in range(8):
        data.qpos[robot.arm_qpos] = battery.extended(robot.arm, k * math.pi / 4)
        mujoco.mj_kinematics(robot.model, data)
        mujoco.mj_comPos(robot.model, data)
        centre = (data.subtree_com[robot.base] - data.xpos[robot.base])[:2]
        assert margins[k] == pytest.approx(stability.signed_distance(centre, corners), abs=1e-9)


def test_static_margin_falls_with_load_and_rises_with_frame_mass(design):
    margins = [task.static_margin(design, "ur5e", kg).min() for kg in (0.0, 1.0, 2.0, 3.0)]
    assert margins == sorted(margins, reverse=True)
    assert margins[2] - margins[3] == pytest.approx(0.016, abs=0.004)  # measured: 14 to 18 mm
    assert task.static_margin(built(LIGHT), "ur5e").min() < margins[2]


def test_design_card_of_the_oracle(design):
    card = task.design_card(design)
    assert card["efficiency"] == pytest.approx(0.3487, abs=5e-4)
    assert card["total_mass_kg"]["ur5e"] == pytest.approx(17.36 + 6.414 + 0.875 + 20.99, abs=0.01)
    assert card["findings"] == [] and card["overlaps_mm"] == [] and card["notices"] == []
    assert all(member["neighbours"] for member in card["members"])
    assert card["mass_centre_stowed_m"]["ur5e"][2] > card["mass_centre_stowed_m"]["xarm7"][2]


def test_reach_table_of_the_oracle_is_within_2_mm(design):
    """Mount .42 m above the ground: every target of the shortest arm, collisions ignored."""
    assert task.reach_table(design, "xarm7").max() < 0.002 + 0.0005


def test_low_mount_misses_the_high_back_targets():
    residual = task.reach_table(built(COMPACT), "xarm7")
    assert (residual[[10, 11]] > 0.05).all() and (residual[[0, 1]] < 0.01).all()


def test_reach_and_outside_distance(design):
    simulated, kinematic = task.measure_reach(design, spec.ARMS[0])
    assert kinematic == pytest.approx(0.856, abs=0.001)
    assert 0.99 * kinematic < simulated < kinematic + 0.005
    # Panda on a centred mount: nearest at azimuth 0: reach - half footprint, .856 - .279 = .577;
    # at 60 deg: (.428, .741) is .149 and .468 outside: .491; at 30 deg: .462, .155: .487
    assert task.measure_reach_beyond(design, spec.ARMS[0]) == pytest.approx(0.487, abs=0.003)


def test_battery_onboard(design):
    import dataclasses

    assert task.is_battery_onboard(design)
    outside = dataclasses.replace(design.record, battery_pos_m=np.array([0.15, 0.0, 0.0]))
    assert not task.is_battery_onboard(dataclasses.replace(design, record=outside))


def test_inertia_share(design):
    model = scene.compose(design, spec.ARMS[1]).model
    assert task.inertia_share(model) == 1.0
    model.body_inertia[3] = (1.0, 1.0, 3.0)  # no solid: I_z > I_x + I_y
    assert task.inertia_share(model) == pytest.approx(1 - 1 / (model.nbody - 1))


def test_unknown_names_answer_with_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'ur5e'"):
        task.find_arm("ur5")
    with pytest.raises(UnknownName, match="testD1"):
        task.prepare(built(ORACLE), spec.ARMS[0], "testD", np.random.default_rng(0))


def test_run_scenario_measures(design):
    trace, measured = task.run_scenario(design, "xarm7", "mecanum", np.random.default_rng(0))
    assert measured["mean_twist"].shape == (4, 3) and trace.ended == "done"
    assert measured["mean_twist"][0] == pytest.approx((0.4, 0, 0), abs=0.04)


def test_preview_environment_is_the_trial_loop():
    env = task.make_env(spec.TASKS[0])
    one, info = env.reset(seed=3)
    two, _ = env.reset(seed=3)
    assert not any(info["claims"].values())
    assert all(np.array_equal(one[k], two[k]) for k in one)
    targets = {env.reset(seed=s)[1]["target_index"] for s in range(20)}
    assert len(targets) > 6
    observation, reward, done, late, info = env.step(env.action_space.high)
    assert env.observation_space.contains(observation) and reward == 0.0 and not (done or late)
    env.close()
