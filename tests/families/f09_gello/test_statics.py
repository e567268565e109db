"""Gravity, springs and counterweights against closed forms; poses and paths against their definition."""

import mujoco
import numpy as np
import pytest

from families.f09_gello import scene, task
from families.f09_gello.mechanism.record import Record, Spring
from families.f09_gello.spec import ARM_NAMES, ARMS, DEVICES, PART_RULES, PHYSICS, PROTOCOL
from tests.families.f09_gello.build import STEEL, ball

G = PHYSICS.gravity_m_s2


@pytest.mark.parametrize("arm", ARM_NAMES)
def test_gravity_torque_is_the_sum_of_m_g_dz_dq(arm):
    # g_j(q) = sum_b m_b g dz_b/dq_j, with dz_b/dq by central differences of the centres of mass.
    model, data = scene.stock_device(arm).model, None
    data = mujoco.MjData(model)
    q = task.random_poses(arm, np.random.default_rng(3), 1)[0]

    def height_energy(pose: np.ndarray) -> float:
        data.qpos[:] = pose
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        return float(G * model.body_mass @ data.xipos[:, 2])

    step = 1e-6
    expected = [
        (height_energy(q + step * e) - height_energy(q - step * e)) / (2 * step)
        for e in np.eye(model.nv)
    ]
    assert task.gravity_torque(model, q[None])[0] == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("arm", ARM_NAMES)
def test_residual_is_inverse_dynamics_at_rest(arm):
    # mj_inverse with zero velocity and acceleration: qfrc_inverse = bias - passive - constraint; friction
    # carries nothing at rest without a residual to carry, so it is switched off.
    lead = task.reference_arm(arm, np.random.default_rng(1))
    model = task.compose(lead)
    model.dof_frictionloss[:] = 0.0
    data = mujoco.MjData(model)
    poses = task.random_poses(arm, np.random.default_rng(2), 5)
    for q, row in zip(poses, task.residual(model, poses), strict=True):
        data.qpos[:], data.qvel[:], data.qacc[:] = q, 0.0, 0.0
        mujoco.mj_inverse(model, data)
        assert row == pytest.approx(data.qfrc_inverse, abs=1e-10)


def test_spring_torque_is_k_times_stretch():
    home = ARMS["franka"].home_rad
    record = Record("franka", springs=(Spring(4, 0.5, home[3] + 0.3),))
    model = scene.compose(record).model
    pose = np.array(home) + 0.1
    # k (q - ref) = 0.5 (0.1 - 0.3) = -0.1 N m on joint 4, nothing elsewhere.
    assert task.spring_torque(model, pose[None])[0] == pytest.approx([0, 0, 0, -0.1, 0, 0, 0])


def test_counterweight_adds_m_g_lever():
    # A steel ball of mass m on link 2, whose joint axis is horizontal: its torque on joint 2 is
    # m g (vertical rate of its centre), the horizontal distance of the ball from the axis.
    part = ball("cw_1", "lead_link2", (0.06, 0.06, 0.0), 0.015)
    bare, loaded = scene.compose(Record("xarm7")), scene.compose(Record("xarm7", parts=(part,)))
    q = np.array(ARMS["xarm7"].home_rad)
    data = mujoco.MjData(loaded.model)
    data.qpos[:] = q
    mujoco.mj_forward(loaded.model, data)
    axis = data.xaxis[loaded.model.joint("lead_joint2").id]
    lever = (
        data.geom_xpos[loaded.added_geom["cw_1"]]
        - data.xanchor[loaded.model.joint("lead_joint2").id]
    )
    mass = 4 / 3 * np.pi * 0.015**3 * STEEL
    expected = mass * G * np.cross(axis, lever)[2]
    added = task.gravity_torque(loaded.model, q[None]) - task.gravity_torque(bare.model, q[None])
    assert abs(axis[2]) < 1e-3 and abs(expected) > 0.02
    assert added[0, 1] == pytest.approx(expected, rel=1e-6)
    assert loaded.mass_kg - bare.mass_kg == pytest.approx(mass)


def test_spring_can_cancel_a_joint_at_home():
    q = np.array(ARMS["ur5e"].home_rad)
    torque = task.gravity_torque(scene.stock_device("ur5e").model, q[None])[0, 1]
    k = 1.0
    model = scene.compose(Record("ur5e", springs=(Spring(2, k, q[1] + torque / k),))).model
    assert task.residual(model, q[None])[0, 1] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("arm", "count"), [("franka", 729), ("ur5e", 243), ("xarm7", 729)])
def test_grid_has_three_levels_of_all_joints_but_the_first(arm, count):
    grid, a = task.workspace_grid(arm), ARMS[arm]
    assert grid.shape == (count, a.nv)
    assert (grid[:, 0] == a.home_rad[0]).all()
    for j in range(1, a.nv):
        levels = np.unique(grid[:, j].round(9))
        assert levels == pytest.approx(a.home_rad[j] + a.half_width_rad[j] * np.array([-1, 0, 1]))
    assert len(task.trim_grid(arm)) == count // PROTOCOL.headroom_stride


def test_public_holds_alternate():
    home, plus, minus = task.public_hold_configs("franka")
    half = np.array(ARMS["franka"].half_width_rad)
    assert plus - home == pytest.approx(half * [1, -1, 1, -1, 1, -1, 1])
    assert minus - home == pytest.approx(-(plus - home))


def test_path_passes_its_waypoints_at_rest_and_its_rates_are_its_derivative():
    waypoints = task.draw_waypoints("xarm7", np.random.default_rng(4))
    path = task.sample_path(waypoints, 0.01)
    assert len(path.q) == 2401
    assert path.q[::600] == pytest.approx(waypoints)
    assert np.abs(path.qd[::600]).max() == 0.0
    slope = np.gradient(path.q, 0.01, axis=0)
    assert np.abs(slope - path.qd)[1:-1].max() < 1e-3
    assert len(task.sample_path(waypoints, PROTOCOL.backdrive_dt_s).q) == 241
    with pytest.raises(ValueError, match="does not divide"):
        task.sample_path(waypoints, 0.07)


def test_copies_have_stratified_payloads_and_bounded_masses():
    rng = np.random.default_rng(0)
    third = (DEVICES.payload_high_kg - DEVICES.payload_low_kg) / 3
    for k in range(3):
        for _ in range(20):
            scale, payload = task.sample_device("franka", rng, k)
            low = DEVICES.payload_low_kg + k * third
            assert low <= payload <= low + third
            assert all(abs(f - 1) <= DEVICES.mass_scale_half for f in scale.values())
    assert len(scale) == ARMS["franka"].nv + 3


@pytest.mark.parametrize("arm", ARM_NAMES)
def test_reference_arm_is_a_legal_spring_arm_near_its_values(arm):
    for seed in range(10):
        lead = task.reference_arm(arm, np.random.default_rng(seed))
        assert not lead.record.parts and len(lead.record.springs) == 2
        for spring in lead.record.springs:
            assert 0 < spring.stiffness_n_m_per_rad < PART_RULES.stiffness_max_n_m_per_rad
