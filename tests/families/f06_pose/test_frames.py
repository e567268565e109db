"""Pictures, depth noise, labels, and what an agent may ask for."""

import numpy as np
import pytest

from families.f06_pose import scene, spec, task
from families.f06_pose.world import pushes
from families.f06_pose.world.frames import NOISE, Studio, noisy_label
from rle.sim.depth import incidence_cos, noisy_depth_m, sigma_m

BOTH = ("rgb", "depth")


@pytest.fixture(scope="module")
def studio():
    with Studio() as made:
        yield made


@pytest.fixture(scope="module")
def push():
    """A short push, not chosen among candidates."""
    built = scene.build(2)
    states, occluded, ends, quality = pushes.record(
        built, (0.0, 0.05, 1.0), np.random.default_rng(4), 5
    )
    return pushes.Push(2, states, occluded, (2, 4), quality, 0, 0)


def same(a, b) -> bool:
    return all(np.array_equal(a.obs[n], b.obs[n], equal_nan=n == "depth") for n in BOTH)


def test_same_id_same_bytes_other_id_other_frame(studio):
    one, again, other = (
        task.single_frame(studio, task.open_streams("public", "single", s), BOTH) for s in (4, 4, 5)
    )
    assert same(one, again) and one.pose == again.pose
    assert not np.array_equal(one.obs["rgb"], other.obs["rgb"]) and one.pose != other.pose
    assert one.obs["rgb"].shape == (480, 640, 3) and one.obs["rgb"].dtype == np.uint8
    assert one.obs["depth"].dtype == np.float32


def test_single_and_push_of_one_id_are_unrelated():
    single, push = (task.open_streams("public", kind, 7) for kind in ("single", "push"))
    assert task.draw_pose(single) != task.draw_pose(push)
    design = task.open_streams("design", "single", 7)
    assert task.draw_pose(design) != task.draw_pose(single), "design scenes cannot be rendered"


def test_a_shorter_request_is_a_prefix(studio, push):
    streams = task.open_streams("public", "push", 1)
    long = list(task.push_frames(studio, streams, push, range(4), BOTH))
    short = list(task.push_frames(studio, streams, push, range(2), BOTH))
    assert all(same(a, b) for a, b in zip(long, short)) and len(short) == 2
    assert [task.n_frames(push, n, 100) for n in (1, 2, 3)] == [2, 4, 5]
    assert task.n_frames(push, 5, 3) == 3
    assert [s.obs["t"] for s in short] == [0.0, 0.1]


def test_rendering_does_not_change_the_truth(studio, push):
    streams = task.open_streams("public", "push", 1)
    drawn = list(task.push_frames(studio, streams, push, range(2), ("rgb",)))
    blind = list(task.push_frames(studio, streams, push, range(2), ()))
    assert [s.pose for s in drawn] == [s.pose for s in blind]
    assert not set(blind[0].obs) & {"rgb", "depth"}


def test_label_noise_depends_on_the_frame_alone():
    streams = task.open_streams("public", "push", 9)
    first = {noisy_label((0.1, 0.0, 3.14), streams("label", 0)) for _ in range(100)}
    assert len(first) == 1, "asking a hundred times averages nothing out"
    labels = np.array([noisy_label((0.1, 0.0, 0.0), streams("label", k)) for k in range(2000)])
    spread = labels.std(axis=0)
    assert spread == pytest.approx(
        [spec.LABEL_SIGMA_XY_M, spec.LABEL_SIGMA_XY_M, spec.LABEL_SIGMA_YAW_RAD], rel=0.06
    )
    wrapped = [noisy_label((0, 0, 3.14), streams("label", k))[2] for k in range(200)]
    assert max(wrapped) <= np.pi and min(wrapped) > -np.pi and min(wrapped) < -3.0


def test_block_is_where_the_pose_says(studio):
    shot = task.single_frame(studio, task.open_streams("public", "single", 2), BOTH)
    K, pose = shot.obs["K"], shot.obs["T_cam_table"]
    x, y, yaw = shot.pose
    c, s = np.cos(yaw), np.sin(yaw)
    centres = np.array([b[0][:2] for b in scene.block_boxes(shot.shape_id)])
    table = np.array([x, y]) + centres @ np.array([[c, s], [-s, c]])
    local = (np.column_stack((table, np.full(len(table), 0.04))) - pose[:3, 3]) @ pose[:3, :3]
    u = K[0, 2] + K[0, 0] * local[:, 0] / -local[:, 2]
    v = K[1, 2] - K[1, 1] * local[:, 1] / -local[:, 2]
    for i in range(len(u)):
        r, g, b = shot.obs["rgb"][int(v[i]), int(u[i])].astype(int)
        assert r > 2 * max(g, b), "the middle of every box is red"
        assert shot.obs["depth"][int(v[i]), int(u[i])] == pytest.approx(-local[i, 2], abs=0.03)


def test_depth_noise_on_the_plain_table_is_the_formula(studio):
    # Exact depth of the plane z = 0; 200 noisy pictures of its middle; sigma within 5 %.
    K, pose = scene.camera_matrix(), scene.camera_pose()
    width, height = spec.IMAGE_WH_PX
    v, u = np.indices((height, width))
    a, b = (u + 0.5 - K[0, 2]) / K[0, 0], -(v + 0.5 - K[1, 2]) / K[1, 1]
    z = pose[2, :3]
    exact = (-pose[2, 3] / (z[0] * a + z[1] * b - z[2])).astype(np.float32)
    rng = np.random.default_rng(0)
    window = (slice(200, 280), slice(280, 360))
    noisy = np.stack([noisy_depth_m(exact, spec.FOCAL_PX, rng, NOISE)[window] for _ in range(60)])
    measured = (noisy - exact[window]).std()
    # The table's normal against the ray through the middle, in closed form.
    eye = np.array(spec.CAMERA_POS_M) - np.array(spec.CAMERA_AIM_M)
    cos = eye[2] / np.linalg.norm(eye)
    tan2 = (1 - cos**2) / cos**2
    formula = spec.DEPTH_SIGMA0_M + min(
        spec.DEPTH_SIGMA_TAN2_M * tan2, spec.DEPTH_SIGMA_EXTRA_MAX_M
    )
    assert measured == pytest.approx(formula, rel=0.05)
    assert formula == pytest.approx(0.004, abs=0.0005), "about 4 mm near the centre"


def test_dropout_share_is_within_three_sigma():
    # A wall seen at grazing view: cos < 0.18 everywhere in the window.
    z = np.linspace(1.0, 12.0, 640, dtype=np.float32)
    exact = np.tile(z, (480, 1))
    cos = incidence_cos(exact, spec.FOCAL_PX)
    grazing = (cos < spec.DROPOUT_COS) & (exact <= spec.DEPTH_MAX_M)
    assert grazing.sum() > 5000
    lost = np.isnan(noisy_depth_m(exact, spec.FOCAL_PX, np.random.default_rng(2), NOISE))
    n, p = int(grazing.sum()), spec.DROPOUT_P
    assert abs(lost[grazing].sum() - n * p) < 3 * np.sqrt(n * p * (1 - p))
    assert lost[exact > spec.DEPTH_MAX_M].all()
    assert sigma_m(np.full((1, 1), 0.1, np.float32))[0, 0] == pytest.approx(0.03)
