"""The shipped stand-in clips: the script reproduces them, and they are what their plans say."""

import importlib.util
import sys

import mujoco
import numpy as np
import pytest

from families.f04_tracking import reference, scene, spec
from rle.paths import assets_dir

FOLDER = assets_dir() / "motions"


def _script():
    name = "make_motions"
    found = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses look their module up
    found.loader.exec_module(module)
    return module


make_motions = _script()
NAMES = tuple(make_motions.MOTIONS)


def shipped(name: str) -> reference.Reference:
    return reference.read_npz(FOLDER / f"{name}.npz", "stand-in")


def test_every_task_has_its_clip():
    assert {clip.standin for clip in spec.CLIPS.values()} == set(NAMES)
    assert {path.stem for path in FOLDER.glob("*.npz")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_script_reproduces_the_shipped_frames(name):
    """Some frames, each from a neighbour; `test_script_reproduces_the_shipped_files` takes all."""
    clip, motion, solver = shipped(name), make_motions.MOTIONS[name], make_motions.Solver()
    for k in range(0, spec.FRAMES, 100):
        solver.data.qpos[:] = clip.qpos[max(k - 5, 0)]
        qpos = solver.solve(motion(k / spec.CONTROL_HZ))
        assert np.abs(qpos - clip.qpos[k]).max() < 1e-5, k


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_script_reproduces_the_shipped_files(tmp_path, name):
    reference.write_npz(tmp_path / "a.npz", make_motions.trajectory(make_motions.MOTIONS[name]))
    made, kept = reference.read_npz(tmp_path / "a.npz", "stand-in"), shipped(name)
    for array in reference.ARRAYS:
        tolerance = 1e-5 if "vel" not in array else 5e-4  # differences over 0.04 s of 1e-5
        assert np.abs(getattr(made, array) - getattr(kept, array)).max() < tolerance, array


@pytest.mark.parametrize("name", NAMES)
def test_clip_is_valid_and_stands_on_the_floor(name):
    assert reference.validate_npz(FOLDER / f"{name}.npz") == []
    clip = shipped(name)
    feet = [spec.BODY_NAMES.index(body) for body in spec.FOOT_BODIES]
    sole_m = clip.body_pos_w[:, feet, 2] + spec.FOOT_SOLE_Z_M
    assert np.abs(sole_m.min(axis=1)).max() < 1e-6  # one foot always stands
    lifted = sole_m.max()
    assert lifted == pytest.approx(0.04 if name == "standin_step" else 0.0, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_but_the_floor_is_touched(name):
    clip, g1 = shipped(name), scene.build(spec.EVAL_TIMESTEP_S)
    data, floor = mujoco.MjData(g1.model), g1.handles.floor_geom
    for k in range(0, spec.FRAMES, 10):
        data.qpos[:] = clip.qpos[k]
        mujoco.mj_forward(g1.model, data)
        touching = [c for c in data.contact[: data.ncon] if floor not in (c.geom1, c.geom2)]
        assert not touching, k


@pytest.mark.parametrize("name", NAMES)
def test_centre_of_mass_follows_the_plan(name):
    clip, g1 = shipped(name), scene.build(spec.EVAL_TIMESTEP_S)
    data = mujoco.MjData(g1.model)
    for k in range(0, spec.FRAMES, 50):
        plan = make_motions.MOTIONS[name](k / spec.CONTROL_HZ)
        data.qpos[:] = clip.qpos[k]
        mujoco.mj_kinematics(g1.model, data)
        mujoco.mj_comPos(g1.model, data)
        assert data.subtree_com[1, :2] == pytest.approx((plan.com_x_m, plan.com_y_m), abs=1e-5)
        assert data.qpos[2] == pytest.approx(plan.z_m, abs=1e-6)


def test_every_motion_starts_at_rest():
    for name in NAMES:
        assert np.abs(shipped(name).joint_vel[0]).max() < 0.05, name


@pytest.mark.parametrize(
    ("x", "value"), [(-1.0, 0.0), (0.0, 0.0), (0.5, 0.5), (1.0, 1.0), (2.0, 1.0)]
)
def test_steps_are_smooth_between_zero_and_one(x, value):
    assert make_motions.smoothstep(x) == pytest.approx(value)
    assert make_motions.quintic(x) == pytest.approx(value)
