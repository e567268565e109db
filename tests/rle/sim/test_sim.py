"""Guards, lookups, contact forces, frames: each against something known."""

import os
import subprocess
import sys

import mujoco
import numpy as np
import pytest

import rle.sim  # noqa: F401  (installs the warning handler)
from rle.errors import SimulationError, UnknownName
from rle.sim import contacts, guard
from rle.sim import model as lookup
from rle.sim.render import Frames, sphere
from rle.sim.video import VideoWriter

BALL = """<mujoco><worldbody>
  <light name="lamp" pos="0 0 3"/>
  <camera name="front" pos="0 -1 .5" xyaxes="1 0 0 0 .4 1"/>
  <geom name="floor" type="plane" size="1 1 .1"/>
  <body name="ball" pos="0 0 .1"><freejoint name="free"/><geom name="skin" size=".1" mass="2"/></body>
</worldbody></mujoco>"""


@pytest.fixture
def ball():
    model = mujoco.MjModel.from_xml_string(BALL)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 2000)
    return model, data


def test_resting_ball_carries_its_weight(ball):
    model, data = ball
    force = contacts.resultants_n(model, data, np.array([-1, 0]))
    assert force[0] == pytest.approx([0, 0, 2 * 9.81], abs=1e-3)
    on_floor = contacts.resultants_n(model, data, np.array([0, -1]))
    assert on_floor[0] == pytest.approx(-force[0])


def test_no_contact_no_force(ball):
    model, data = ball
    data.qpos[2] = 1.0
    mujoco.mj_forward(model, data)
    assert (contacts.resultants_n(model, data, np.array([-1, 0])) == 0).all()


def test_divergence_is_named_and_leaves_no_log_file(ball, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, data = ball
    guard.check(model, data)
    data.qvel[0] = np.nan
    mujoco.mj_step(model, data)
    with pytest.raises(SimulationError, match="trial t03 at .* QVEL at DOF 0"):
        guard.check(model, data, "trial t03")
    assert list(tmp_path.iterdir()) == []


def test_warning_texts_are_taken_once():
    guard.take_warnings()
    model = mujoco.MjModel.from_xml_string(BALL)
    data = mujoco.MjData(model)
    data.qvel[0] = np.inf
    mujoco.mj_step(model, data)
    assert len(guard.take_warnings()) == 1
    assert guard.take_warnings() == []


def test_lookups_by_name(ball):
    model, _ = ball
    assert lookup.ids(model, mujoco.mjtObj.mjOBJ_BODY, ["ball", "world"]).tolist() == [1, 0]
    assert lookup.qpos_addresses(model, ["free"]).tolist() == [0]
    assert lookup.unnamed_elements(model) == []
    with pytest.raises(UnknownName, match="unknown body 'bal'; did you mean 'ball'"):
        lookup.ids(model, mujoco.mjtObj.mjOBJ_BODY, ["bal"])


def test_frames_depth_segmentation_and_markers(ball):
    model, data = ball
    red = np.array([1, 0, 0, 1])
    with Frames(model, 64, 48) as frames:
        plain = frames.rgb(data, "front")
        marked = frames.rgb(
            data, "front", decorate=lambda s: sphere(s, np.array([0, 0, 0.4]), 0.05, red)
        )
        depth = frames.depth_m(data, "front")
        seen = frames.segmentation(data, "front")
        again = frames.rgb(data, "front")
    assert plain.shape == (48, 64, 3) and plain.std() > 0
    assert (marked != plain).any() and (again == plain).all()
    assert depth.min() < 1.2  # the ball's front is about one metre away
    assert 1 in seen[..., 0]


@pytest.mark.parametrize("samples", [0, 4])
def test_colour_and_depth_of_one_drawing_are_those_of_two(ball, samples):
    model, data = ball
    model.vis.quality.offsamples = samples
    with Frames(model, 64, 48, shadows=True) as frames:
        apart = frames.rgb(data, "front"), frames.depth_m(data, "front")
        both = frames.pictures(data, "front", rgb=True, depth=True)
        assert all(np.array_equal(a, b) for a, b in zip(apart, both, strict=True))
        assert both[1].dtype == np.float32 and both[1].std() > 0
        rgb, nothing = frames.pictures(data, "front", rgb=True, depth=False)
        assert np.array_equal(rgb, apart[0]) and nothing is None
        nothing, depth = frames.pictures(data, "front", rgb=False, depth=True)
        assert np.array_equal(depth, apart[1]) and nothing is None


def test_opening_a_second_renderer_closes_the_first(ball):
    model, data = ball
    first = Frames(model, 32, 32)
    second = Frames(model, 32, 32)
    assert second.rgb(data, "front").shape == (32, 32, 3)
    first.close()
    second.close()


def test_frames_without_a_driver_name_both_reasons(tmp_path):
    """mujoco imported first has chosen its windowed backend; there is no display here."""
    code = (
        "import mujoco, rle.sim.render as r\n"
        "m = mujoco.MjModel.from_xml_string('<mujoco/>')\n"
        "try:\n    r.Frames(m, 8, 8)\n"
        "except r.InfrastructureError as error:\n    print(error.code, error.message)\n"
    )
    hidden = ("MUJOCO_GL", "PYOPENGL_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY")
    env = {k: v for k, v in os.environ.items() if k not in hidden}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert run.stdout.startswith("render.unavailable"), run.stderr
    assert "mujoco was imported before rle set MUJOCO_GL" in run.stdout
    assert "libegl1" in run.stdout and "rle doctor" in run.stdout


def test_video_appears_whole_or_not_at_all(tmp_path):
    frame = np.full((48, 64, 3), 90, np.uint8)
    with VideoWriter(tmp_path / "a.mp4", 25, 64, 48) as video:
        for _ in range(5):
            video.add(frame)
    assert (tmp_path / "a.mp4").stat().st_size > 0 and (tmp_path / "a.jpg").is_file()
    with pytest.raises(ZeroDivisionError), VideoWriter(tmp_path / "b.mp4", 25, 64, 48) as video:
        video.add(frame)
        raise ZeroDivisionError
    assert not (tmp_path / "b.mp4").exists() and not list(tmp_path.glob(".*"))


def test_video_refuses_wrong_frames(tmp_path):
    with pytest.raises(ValueError, match="even"):
        VideoWriter(tmp_path / "c.mp4", 25, 63, 48)
    with VideoWriter(tmp_path / "c.mp4", 25, 64, 48) as video:
        with pytest.raises(ValueError, match="uint8"):
            video.add(np.zeros((48, 64, 3)))
        video.add(np.zeros((48, 64, 3), np.uint8))
