"""The shipped estimators: tracker and network on public frames; their bars are in the long suite."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from families.f06_pose import metrics, scene, spec, task
from families.f06_pose.estimators import model_input, read_outputs
from families.f06_pose.world import pushes
from families.f06_pose.world.frames import Studio
from rle import registry
from rle.commands.demo import reference_submission
from train_baselines import f06_cnn

BOTH = ("rgb", "depth")
TRACKER = Path(__file__).resolve().parents[3] / "train_baselines" / "f06_tracker"
MODEL = registry.get("f06/learned-rgbd")


@pytest.fixture(scope="module")
def singles():
    """Ten public single frames."""
    with Studio() as studio:
        return [
            task.single_frame(studio, task.open_streams("public", "single", 500 + k), BOTH)
            for k in range(10)
        ]


@pytest.fixture(scope="module")
def push():
    """Twenty frames of a public push, not chosen among candidates, with an arm in the way."""
    streams = task.open_streams("public", "push", 5)
    built = scene.build(task.draw_shape(streams))
    states, occluded, ends, quality = pushes.record(
        built, task.draw_pose(streams), streams("strokes", 0, 0), 30
    )
    planned = pushes.Push(built.shape_id, states, occluded, ends, quality, 0, 0)
    with Studio() as studio:
        return list(task.push_frames(studio, streams, planned, range(30), BOTH))


@pytest.fixture
def tracker(monkeypatch):
    """The tracker's module, and its helpers only while the test runs."""
    monkeypatch.syspath_prepend(str(TRACKER))
    import estimator

    yield estimator.make_estimator()
    for name in ("estimator", "block", "evidence"):
        sys.modules.pop(name, None)


def group(shots, answer) -> float:
    """g of the answers."""
    pairs, right = [], []
    for k, shot in enumerate(shots):
        x, y, theta, shape = answer(k, shot.obs)
        pairs.append(metrics.errors((x, y, theta), shot.pose))
        right.append(shape == shot.shape_id)
    return metrics.group_score(*zip(*pairs, strict=True), right)


@pytest.mark.parametrize("channels", [("rgb",), BOTH], ids=["rgb", "rgbd"])
def test_tracker_on_single_frames(tracker, singles, channels):
    def answer(k, obs):
        tracker.reset()
        return tracker.update(**{n: v for n, v in obs.items() if n != "depth" or n in channels})

    assert group(singles, answer) >= 0.90


@pytest.mark.parametrize("channels", [("rgb",), BOTH], ids=["rgb", "rgbd"])
def test_tracker_follows_a_push(tracker, push, channels):
    assert any(s.is_occluded for s in push) and not push[0].is_occluded

    def answer(k, obs):
        if k == 0:
            tracker.reset()
        return tracker.update(**{n: v for n, v in obs.items() if n != "depth" or n in channels})

    assert group(push, answer) >= 0.5


def test_stored_network_on_single_frames(singles):
    net = torch.jit.load(str(reference_submission(MODEL) / "model.pt"), map_location="cpu").eval()

    def answer(k, obs):
        with torch.no_grad():
            out = net(torch.from_numpy(model_input(obs["rgb"], obs["depth"]))).numpy()
        found = read_outputs(out)
        return *found.pose, found.shape_id

    assert group(singles, answer) >= 0.35


def test_curve_of_the_stored_network_is_kept():
    curve = json.loads((reference_submission(MODEL).parent / "learned-rgbd-curve.json").read_text())
    assert curve[-1]["loss"] < curve[0]["loss"] and curve[-1]["shapes_right"] > 0.98


def test_network_reads_the_middle_of_the_red_cells(singles):
    net = f06_cnn.PoseNet(scene.camera_matrix(), scene.camera_pose()).eval()
    for shot in singles[:3]:
        with torch.no_grad():
            planes = net.masks(torch.from_numpy(model_input(shot.obs["rgb"], shot.obs["depth"])))
            _, middle = net.crop(planes)
        cells = np.array(f06_cnn.GRID_WH)
        found = f06_cnn.CELL_M * (middle[0].numpy() - (cells - 1) / 2)
        x, y, yaw = shot.pose
        c, s = math.cos(yaw), math.sin(yaw)
        centre = np.array([x, y]) + np.array([[c, -s], [s, c]]) @ scene.centre_of_mass_m(
            shot.shape_id
        )
        # The sides that show below the top face pull it towards the camera.
        assert np.linalg.norm(found - centre) < 0.015


def test_shapes_are_found_from_labels_alone(singles):
    net = f06_cnn.PoseNet(scene.camera_matrix(), scene.camera_pose()).eval()
    with torch.no_grad():
        planes = torch.cat(
            [
                net.masks(torch.from_numpy(model_input(s.obs["rgb"], s.obs["depth"])))
                for s in singles
            ]
        )
    labels = torch.tensor([s.pose for s in singles], dtype=torch.float32)
    seen = f06_cnn.aligned(255 * planes, labels)
    assert f06_cnn.label_shapes(seen).tolist() == [s.shape_id for s in singles]


def test_bars_of_the_card():
    bars = {t: registry.get(t).bar for t in registry.family_tasks("f06")}
    assert list(bars.values()) == [0.27, 0.65, 0.10, 0.65]
    assert all(registry.get(t).floor == 0.05 for t in bars) and spec.N_PUSHES_B == 10


@pytest.mark.parametrize("shots", ["singles", "push"])
def test_centroid_and_principal_axis_is_at_the_floor(shots, request):
    """Red pixels carried onto the table: their middle, their long axis, and always the T."""
    frames = request.getfixturevalue(shots)

    def answer(k, obs):
        r, g, b = (obs["rgb"][..., i].astype(float) for i in range(3))
        v, u = np.nonzero((r > 1.7 * np.maximum(g, b)) & (r > 36))
        if len(u) < 10:
            return 0.0, 0.0, 0.0, 0
        K, pose = obs["K"], obs["T_cam_table"]
        rays = (
            np.stack(((u - K[0, 2]) / K[0, 0], -(v - K[1, 2]) / K[1, 1], -np.ones(len(u))), 1)
            @ pose[:3, :3].T
        )
        points = (pose[:3, 3] + rays * ((0.04 - pose[2, 3]) / rays[:, 2:]))[:, :2]
        x, y = points.mean(axis=0)
        axis = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2][0]
        return x, y, math.atan2(axis[1], axis[0]), 0

    assert group(frames, answer) <= 0.05
