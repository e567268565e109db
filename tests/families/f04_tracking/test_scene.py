"""The compiled scene: handles, sensors, floor, draws, and its physics against closed forms."""

from dataclasses import dataclass

import mujoco
import numpy as np
import pytest

from families.f04_tracking import scene, spec
from rle.errors import UserError


@dataclass
class Dynamics:
    """A draw, for tests."""

    friction: float = 1.0
    mass_scale: float = 1.0
    kp_scale: float = 1.0
    kd_scale: float = 1.0
    torso_com_offset_m: tuple[float, float, float] = (0.0, 0.0, 0.0)


def hills(span_m: float, center=(0.0, 0.0)) -> scene.HeightMap:
    noise = np.random.default_rng(0).normal(size=(81, 91))
    unit = (noise - noise.min()) / np.ptp(noise) - 0.5
    return scene.HeightMap(heights_m=span_m * unit, center_xy_m=center)


def settled(g1: scene.G1) -> mujoco.MjData:
    """The robot standing with its soles pressed into the floor."""
    data = mujoco.MjData(g1.model)
    data.qpos[:] = scene.default_qpos()
    data.qpos[2] -= 0.02
    mujoco.mj_forward(g1.model, data)
    return data


@pytest.mark.parametrize("friction", [0.3, 1.0, 1.6])
@pytest.mark.parametrize("terrain", [None, hills(0.01)], ids=["plane", "hills"])
def test_contact_friction_is_the_draw(friction, terrain):
    g1 = scene.build(spec.EVAL_TIMESTEP_S, Dynamics(friction=friction), terrain)
    found = scene.floor_contact_friction(g1, settled(g1))
    assert len(found) > 4 and found == pytest.approx(np.full(found.shape, friction))


def test_plane_where_the_span_is_zero():
    g1 = scene.build(spec.EVAL_TIMESTEP_S, terrain=hills(0.0))
    assert g1.model.nhfield == 0


def test_height_field_has_its_heights_at_their_places():
    """A ray down onto three grid points meets the floor at the map's height."""
    terrain = hills(0.02, center=(1.0, -2.0))
    g1 = scene.build(spec.EVAL_TIMESTEP_S, terrain=terrain)
    data = mujoco.MjData(g1.model)
    data.qpos[:] = scene.default_qpos()
    data.qpos[:3] = (50.0, 0.0, 5.0)
    mujoco.mj_forward(g1.model, data)
    rows, columns = terrain.heights_m.shape
    geom = np.zeros(1, np.int32)
    for row, column in ((10, 20), (40, 45), (70, 5)):
        x = terrain.center_xy_m[0] + (column - (columns - 1) / 2) * spec.SCENE.cell_m
        y = terrain.center_xy_m[1] + (row - (rows - 1) / 2) * spec.SCENE.cell_m
        depth = mujoco.mj_ray(
            g1.model, data, np.array([x + 1e-7, y + 1e-7, 1.0]), np.array([0, 0, -1.0]),
            None, 1, -1, geom,
        )  # fmt: skip
        assert geom[0] == g1.handles.floor_geom
        assert 1.0 - depth == pytest.approx(terrain.heights_m[row, column], abs=1e-5)


def test_mass_and_inertia_scale_together():
    plain, heavy = scene.build(0.002), scene.build(0.002, Dynamics(mass_scale=1.1))
    assert heavy.model.body_subtreemass[1] == pytest.approx(1.1 * 33.341142)
    assert heavy.model.body_inertia == pytest.approx(1.1 * plain.model.body_inertia)


def test_torso_offset_moves_the_centre_of_mass_by_its_share():
    """Torso 7.818 kg of 33.341 kg: 5 cm sideways move the whole by 11.72 mm."""
    a, b = (
        settled(scene.build(0.002, Dynamics(torso_com_offset_m=(0.0, y, 0.0)))) for y in (0.0, 0.05)
    )
    moved = b.subtree_com[1] - a.subtree_com[1]
    assert moved == pytest.approx((0.0, 0.05 * 7.818 / 33.341142, 0.0), abs=1e-6)


@pytest.mark.parametrize(("friction", "slides"), [(0.3, True), (0.5, False)])
def test_friction_decides_whether_the_robot_slides(friction, slides):
    """Lying on its back on a slope of 20 degrees (tan 0.364): rests at 0.5, keeps accelerating at 0.3."""
    g1 = scene.build(spec.EVAL_TIMESTEP_S, Dynamics(friction=friction))
    data = mujoco.MjData(g1.model)
    data.qpos[:] = scene.default_qpos()
    data.qpos[2:7] = (0.2, np.sqrt(0.5), 0.0, -np.sqrt(0.5), 0.0)
    data.ctrl[g1.handles.ctrl] = spec.DEFAULT_POSE_RAD
    mujoco.mj_step(g1.model, data, 1000)
    g, angle = spec.SCENE.gravity_m_s2, np.radians(20.0)
    g1.model.opt.gravity[:] = (0.0, g * np.sin(angle), -g * np.cos(angle))
    mujoco.mj_step(g1.model, data, 750)  # 1.5 s
    mujoco.mj_subtreeVel(g1.model, data)
    # a = g (sin - 0.3 cos) = 0.590 m/s^2, so 0.88 m/s after 1.5 s where it slides
    assert (data.subtree_linvel[1, 1] > 0.5) == slides
    if not slides:
        assert abs(data.subtree_linvel[1, 1]) < 0.05


def test_imu_sensors_measure_in_their_frame():
    g1 = scene.build(spec.EVAL_TIMESTEP_S)
    data = mujoco.MjData(g1.model)
    data.qpos[:] = scene.default_qpos()
    data.qpos[3:7] = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))  # 90 degrees to the left
    data.qvel[:3] = (1.0, 0.0, 0.0)  # world
    data.qvel[5] = 2.0  # about the pelvis' z
    scene.refresh(g1.model, data)
    h = g1.handles
    assert data.sensordata[h.imu_ang_vel] == pytest.approx((0.0, 0.0, 2.0), abs=1e-12)
    # v_site = v + w x r, in the pelvis: (0, -1, 0) + 2 z x (0.04525, 0, .) = (0, -1 + 0.0905, 0)
    assert data.sensordata[h.imu_lin_vel] == pytest.approx((0.0, -0.9095, 0.0), abs=1e-9)


def test_body_sensors_are_link_origins_in_the_world():
    g1 = scene.build(spec.EVAL_TIMESTEP_S)
    data, h = mujoco.MjData(g1.model), g1.handles
    rng = np.random.default_rng(1)
    data.qpos[:] = scene.default_qpos()
    data.qpos[2] = 2.0
    data.qvel[:] = rng.normal(size=35)
    mujoco.mj_step(g1.model, data, 5)
    scene.refresh(g1.model, data)
    assert data.sensordata[h.body_pos].reshape(-1, 3) == pytest.approx(data.xpos[h.tracked])
    assert data.sensordata[h.body_quat_wxyz].reshape(-1, 4) == pytest.approx(data.xquat[h.tracked])
    velocity = np.zeros(6)
    for i, body in enumerate(h.tracked):
        mujoco.mj_objectVelocity(g1.model, data, mujoco.mjtObj.mjOBJ_XBODY, body, velocity, 0)
        assert data.sensordata[h.body_ang_vel].reshape(-1, 3)[i] == pytest.approx(velocity[:3])
        assert data.sensordata[h.body_lin_vel].reshape(-1, 3)[i] == pytest.approx(velocity[3:])


def test_sensors_lag_until_they_are_refreshed():
    g1 = scene.build(spec.EVAL_TIMESTEP_S)
    data, h = mujoco.MjData(g1.model), g1.handles
    data.qpos[:] = scene.default_qpos()
    data.qpos[2] = 2.0
    data.qvel[2] = 1.0
    mujoco.mj_step(g1.model, data)
    stale = data.sensordata[h.body_pos][2]
    scene.refresh(g1.model, data)
    fresh = data.sensordata[h.body_pos][2]
    assert fresh - stale == pytest.approx(1.0 * spec.EVAL_TIMESTEP_S, abs=1e-4)
    assert fresh == pytest.approx(data.qpos[2])


def test_free_fall():
    """z = z0 - g t^2 / 2 of the centre of mass, whatever the joints do."""
    g1 = scene.build(spec.EVAL_TIMESTEP_S)
    data = mujoco.MjData(g1.model)
    data.qpos[:] = scene.default_qpos()
    data.qpos[2] = 3.0
    mujoco.mj_forward(g1.model, data)
    z0 = data.subtree_com[1, 2]
    steps, dt = 200, spec.EVAL_TIMESTEP_S
    mujoco.mj_step(g1.model, data, steps)
    mujoco.mj_kinematics(g1.model, data)
    mujoco.mj_comPos(g1.model, data)
    t = steps * dt
    # semi-implicit Euler: z = z0 - g dt^2 n (n + 1) / 2; moving joints add an error of order dt
    expected = -spec.SCENE.gravity_m_s2 * t * (t + dt) / 2.0
    assert data.subtree_com[1, 2] - z0 == pytest.approx(expected, abs=5e-4)


def test_lift_leaves_one_millimetre():
    g1 = scene.build(spec.EVAL_TIMESTEP_S)
    data = mujoco.MjData(g1.model)
    data.qpos[:] = scene.default_qpos()
    data.qpos[2] -= 0.05
    lift = scene.lift_out_of_floor(g1, data)
    assert lift > 0.04
    depth = max(-c.dist for c in data.contact[: data.ncon])
    assert depth == pytest.approx(0.001, abs=1e-4)
    data.qpos[2] += 0.5
    assert scene.lift_out_of_floor(g1, data) == 0.0


def test_terrain_grid_covers_the_clip_and_three_metres():
    rows, columns, center = scene.terrain_grid(np.array([0.0, -1.0]), np.array([6.0, 1.0]))
    # x: 6 + 6 = 12 m; y: 2 + 6 = 8 m; 0.1 m cells, both ends
    assert (rows, columns, center) == (81, 121, (3.0, 0.0))
    rows, columns, _ = scene.terrain_grid(np.zeros(2), np.zeros(2))
    assert (rows, columns) == (81, 81)  # at least 8 x 8 m


def test_meshes_need_the_wheel(monkeypatch):
    monkeypatch.setattr(scene.importlib.util, "find_spec", lambda name: None)
    scene.mesh_folder.cache_clear()
    with pytest.raises(UserError, match="visual_meshes_missing"):
        scene.build(spec.EVAL_TIMESTEP_S, visual=True)
    scene.mesh_folder.cache_clear()
