"""The numbers of the spec arrive in the compiled model, and the tasks say what they grant."""

import mujoco
import numpy as np
import pytest

from families.f06_pose import scene, spec
from rle import registry


@pytest.mark.parametrize(("shape_id", "mass_kg"), [(0, 0.35), (1, 0.50), (2, 0.50)])
def test_masses_follow_from_boxes_and_density(shape_id, mass_kg):
    built = scene.build(shape_id)
    assert built.model.body("block").mass[0] == pytest.approx(mass_kg)
    assert built.model.body("stick").mass[0] == pytest.approx(spec.MOUNT_KG + spec.SHAFT_KG)
    # Centre of mass of the model against the area centroid of the footprint.
    centre = built.model.body("block").ipos[:2]
    assert centre == pytest.approx(scene.centre_of_mass_m(shape_id), abs=1e-12)


def test_camera_of_the_model_is_the_pinhole_of_the_spec():
    # fx = 240 / tan 21 deg
    assert pytest.approx(625.2214, abs=1e-4) == spec.FOCAL_PX
    model = scene.build(0).model
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    camera = model.camera(scene.CAMERA).id
    height = spec.IMAGE_WH_PX[1]
    assert 0.5 * height / np.tan(np.radians(model.cam_fovy[camera]) / 2) == spec.FOCAL_PX
    pose = scene.camera_pose()
    assert data.cam_xpos[camera] == pytest.approx(pose[:3, 3])
    assert data.cam_xmat[camera].reshape(3, 3) == pytest.approx(pose[:3, :3])
    # The aim shows in the middle of the picture.
    local = (np.array(spec.CAMERA_AIM_M) - pose[:3, 3]) @ pose[:3, :3]
    assert local[:2] == pytest.approx([0.0, 0.0], abs=1e-12) and local[2] < 0


def test_physics_and_gains_are_those_of_the_spec():
    model = scene.build(1).model
    assert model.opt.timestep == spec.TIMESTEP_S and spec.STEPS_PER_FRAME == 50
    assert model.opt.impratio == spec.IMPRATIO
    assert model.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC
    assert model.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    assert -model.opt.gravity[2] == spec.GRAVITY_M_S2
    for name in ("table", "shaft", "block_0"):
        assert model.geom(name).friction == pytest.approx(spec.FRICTION)
    # Gains of assets/robots/panda: kp 4500, 4500, 3500, 3500, 2000 ...
    assert model.actuator_gainprm[:, 0] == pytest.approx([4500, 4500, 3500, 3500, 2000, 2000, 2000])
    top = model.geom("table")
    assert top.pos[2] + top.size[2] == pytest.approx(0.0) and top.size[:2] == pytest.approx(
        spec.TABLE_HALF_M
    )


def test_robot_touches_block_and_table_but_never_itself():
    model = scene.build(2).model

    def touch(a, b) -> bool:
        a, b = model.geom(a), model.geom(b)
        return bool((a.contype & b.conaffinity) | (b.contype & a.conaffinity))

    assert touch("shaft", "block_0") and touch("shaft", "table") and touch("block_1", "table")
    assert not touch("shaft", "link5_a") and not touch("mount", "block_0")


def test_boxes_share_faces_without_overlap():
    for shape_id in range(len(spec.SHAPES)):
        boxes = scene.block_boxes(shape_id)
        for i, (a, ha) in enumerate(boxes):
            for b, hb in boxes[:i]:
                gaps = [abs(a[k] - b[k]) - ha[k] - hb[k] for k in range(2)]
                assert max(gaps) >= -1e-12, "overlapping boxes would count mass twice"


def test_tasks_grant_what_they_say():
    tasks = [registry.get(t) for t in registry.family_tasks("f06")]
    assert [t.slug for t in tasks] == list(spec.CHANNELS)
    assert spec.CHANNELS["rgb"] == ("rgb",)
    assert all(spec.CHANNELS[t.slug] == ("rgb", "depth") for t in tasks[1:])
    assert {t.draw_key for t in tasks} == {"pose"}, "variants share their trials"
    assert all(t.n_trials == 20 and t.budget.calls == 6 for t in tasks)
    words = " ".join(t.instruction for t in tasks)
    for secret in (str(spec.CELL_M), "0.33", str(spec.SPAWN_X_M[1])):
        assert secret not in words, "geometry is to be learned"
