"""Reference clips: conversion of CSV files, checks of an npz, and where a clip comes from."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from families.f04_tracking import reference, spec
from families.f04_tracking.metrics import jerk_limit, reference_jerk
from rle.errors import BadReference, MissingReference
from rle.paths import assets_dir

FPS = 30.0


def qpos_rows(n: int, quat_wxyz=(1.0, 0.0, 0.0, 0.0)) -> np.ndarray:
    """A still robot in its default pose, qpos, shape (n, 36)."""
    row = np.array([0.0, 0.0, 0.76, *quat_wxyz, *spec.DEFAULT_POSE_RAD])
    return np.tile(row, (n, 1))


def write_csv(path: Path, qpos: np.ndarray) -> Path:
    """qpos as CSV rows: quaternion xyzw."""
    table = np.hstack([qpos[:, :3], np.roll(qpos[:, 3:7], -1, axis=1), qpos[:, 7:]])
    np.savetxt(path, table, delimiter=",", fmt="%.9f")
    return path


def turning(n: int, rate_rad_s: float) -> np.ndarray:
    """The default pose turning to the left at a constant rate, at 30 Hz."""
    rows = qpos_rows(n)
    angle = np.arange(n) / FPS * rate_rad_s
    rows[:, 3:7] = np.roll(Rotation.from_euler("z", angle[:, None]).as_quat(), 1, axis=1)
    return rows


@pytest.fixture
def still(tmp_path) -> Path:
    """A valid clip of 51 frames."""
    reference.write_npz(tmp_path / "still.npz", qpos_rows(51))
    return tmp_path / "still.npz"


def edited(path: Path, **changes) -> Path:
    """The clip with arrays replaced; None removes one."""
    with np.load(path) as stored:
        arrays = dict(stored)
    for name, value in changes.items():
        arrays.pop(name) if value is None else arrays.update({name: value})
    out = path.with_name("edited.npz")
    np.savez(out, **arrays)
    return out


def stored(path: Path, name: str) -> np.ndarray:
    with np.load(path) as arrays:
        return arrays[name].copy()


# ------------------------------------------------------------------------------------- conversion


@pytest.mark.parametrize(("rows", "frames"), [(601, 1001), (600, 999), (31, 51), (2, 2)])
def test_number_of_frames(rows, frames):
    """t = 0, 0.02, ... <= (rows - 1) / 30: 600 rows end at 19.967 s, and 998 x 0.02 s is the last."""
    table = np.zeros((rows, 36))
    table[:, 6] = 1.0
    assert len(reference.resample(table, FPS)) == frames


def test_columns_quaternion_order_and_interpolation(tmp_path):
    quat = np.array([math.cos(0.2), 0.0, 0.0, math.sin(0.2)])  # wxyz, 0.4 rad about z
    rows = qpos_rows(31, quat)
    rows[:, 0] = np.arange(31) / FPS * 1.5  # 1.5 m/s
    out = tmp_path / "clip.npz"
    reference.csv_to_npz(write_csv(tmp_path / "a.csv", rows), out)
    clip = reference.read_npz(out, "stand-in")
    assert clip.body_quat_w[:, 0] == pytest.approx(np.tile(quat, (51, 1)), abs=1e-6)
    assert clip.body_pos_w[:, 0, 0] == pytest.approx(1.5 * np.arange(51) / 50.0, abs=1e-6)
    assert clip.body_lin_vel_w[:, :, 0] == pytest.approx(np.full((51, 30), 1.5), abs=1e-5)
    assert clip.joint_vel == pytest.approx(np.zeros((51, 29)), abs=1e-6)


def test_root_turn_gives_its_rate_and_moves_the_links(tmp_path):
    """Turning at 0.8 rad/s: every link has that angular velocity, and v = omega x r."""
    out = tmp_path / "clip.npz"
    reference.csv_to_npz(write_csv(tmp_path / "a.csv", turning(61, 0.8)), out)
    clip = reference.read_npz(out, "stand-in")
    expected = np.tile([0.0, 0.0, 0.8], (clip.frames, 30, 1))
    assert clip.body_ang_vel_w == pytest.approx(expected, abs=1e-4)
    arm = clip.body_pos_w - clip.body_pos_w[:, :1]
    assert clip.body_lin_vel_w == pytest.approx(np.cross(expected, arm), abs=1e-3)


def test_quaternion_signs_are_continuous(tmp_path):
    """A CSV that flips the sign of every other quaternion describes the same motion."""
    rows = turning(61, 3.0)
    flipped = rows.copy()
    flipped[::2, 3:7] *= -1.0
    clips = []
    for name, table in (("a", rows), ("b", flipped)):
        reference.csv_to_npz(write_csv(tmp_path / f"{name}.csv", table), tmp_path / f"{name}.npz")
        clips.append(reference.read_npz(tmp_path / f"{name}.npz", "stand-in"))
    assert clips[0].body_quat_w == pytest.approx(clips[1].body_quat_w, abs=1e-6)
    steps = np.sum(clips[1].body_quat_w[1:] * clips[1].body_quat_w[:-1], axis=2)
    assert steps.min() > 0.99


def test_rows_are_one_based_and_inclusive(tmp_path):
    rows = qpos_rows(10)
    rows[:, 0] = np.arange(1, 11)
    reference.csv_to_npz(write_csv(tmp_path / "a.csv", rows), tmp_path / "a.npz", rows=(3, 6))
    x = stored(tmp_path / "a.npz", "body_pos_w")[:, 0, 0]
    assert (x[0], x[-1]) == (3.0, 6.0)


@pytest.mark.parametrize("rows", [(0, 5), (5, 5), (6, 2), (1, 11)])
def test_rows_outside_the_file(tmp_path, rows):
    csv = write_csv(tmp_path / "a.csv", qpos_rows(10))
    with pytest.raises(BadReference, match="rows 1:10"):
        reference.csv_to_npz(csv, tmp_path / "a.npz", rows=rows)


def test_csv_faults(tmp_path):
    out, csv = tmp_path / "a.npz", tmp_path / "a.csv"
    np.savetxt(csv, np.zeros((4, 35)), delimiter=",")
    with pytest.raises(BadReference, match="35 columns, needs 36"):
        reference.csv_to_npz(csv, out)
    csv.write_text("x,y,z\n1,2,3\n")
    with pytest.raises(BadReference, match="table of numbers without header"):
        reference.csv_to_npz(csv, out)
    rows = qpos_rows(4)
    rows[2, 9] = np.nan
    with pytest.raises(BadReference, match="non-finite number in row 3"):
        reference.csv_to_npz(write_csv(csv, rows), out)


def test_command_line(tmp_path):
    csv, out = write_csv(tmp_path / "a.csv", turning(61, 0.5)), tmp_path / "a.npz"
    command = [sys.executable, "-m", "families.f04_tracking.reference", str(csv), "-o", str(out)]
    done = subprocess.run([*command, "--rows", "1:31"], capture_output=True, text=True, check=True)
    assert "51 frames at 50 Hz" in done.stdout
    assert stored(out, "joint_pos").shape == (51, 29)


# ----------------------------------------------------------------------------------------- checks


def test_a_clip_of_ours_is_valid(still):
    assert reference.validate_npz(still) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"joint_vel": None}, "key joint_vel is missing"),
        ({"fps": np.int64(60)}, "fps 60: re-export at 50 Hz"),
        ({"joint_names": np.array(spec.JOINT_NAMES[::-1])}, "joint_names are not in our order"),
        ({"body_names": np.array(spec.BODY_NAMES[:-1])}, "body_names are not in our order"),
    ],
)
def test_format_faults(still, change, message):
    with pytest.raises(BadReference, match=message):
        reference.validate_npz(edited(still, **change))


def test_array_faults(still):
    pos, joint = stored(still, "body_pos_w"), stored(still, "joint_pos")
    with pytest.raises(BadReference, match="joint_pos is float64, needs float32"):
        reference.validate_npz(edited(still, joint_pos=joint.astype(np.float64)))
    bad = pos.copy()
    bad[3, 4, 1] = np.nan
    with pytest.raises(BadReference, match="body_pos_w has a non-finite number"):
        reference.validate_npz(edited(still, body_pos_w=bad))
    with pytest.raises(BadReference, match="needs \\(51, 30, 3\\)"):
        reference.validate_npz(edited(still, body_pos_w=pos[:40]))
    with pytest.raises(BadReference, match="1 frames; at least 2"):
        one = {name: stored(still, name)[:1] for name in reference.ARRAYS}
        reference.validate_npz(edited(still, **one))


@pytest.mark.parametrize(("norm", "valid"), [(1.0009, True), (1.0011, False)])
def test_quaternion_norm_at_its_edge(still, norm, valid):
    quat = stored(still, "body_quat_w")
    quat[7, 5] *= norm
    check(edited(still, body_quat_w=quat), valid, "norm of 1.0011")


@pytest.mark.parametrize(("offset_m", "valid"), [(0.0009, True), (0.0011, False)])
def test_forward_kinematics_at_its_edge(still, offset_m, valid):
    pos = stored(still, "body_pos_w")
    pos[25, 9, 2] += offset_m  # frame T // 2
    check(edited(still, body_pos_w=pos), valid, "off the forward kinematics")


@pytest.mark.parametrize(("offset", "valid"), [(0.49, True), (0.51, False)])
def test_joint_velocity_at_its_edge(still, offset, valid):
    velocity = stored(still, "joint_vel") + np.float32(offset)
    check(edited(still, joint_vel=velocity), valid, "off the central difference")


@pytest.mark.parametrize(("excess_rad", "valid"), [(0.009, True), (0.011, False)])
def test_joint_range_at_its_edge(tmp_path, excess_rad, valid):
    rows = qpos_rows(20)
    rows[:, 7 + spec.JOINT_NAMES.index("left_ankle_pitch_joint")] = 0.5236 + excess_rad
    rows[:, 2] += 0.2
    reference.write_npz(tmp_path / "a.npz", rows)
    check(tmp_path / "a.npz", valid, "left_ankle_pitch_joint leaves its range")


def check(path: Path, valid: bool, message: str) -> None:
    if valid:
        reference.validate_npz(path)
    else:
        with pytest.raises(BadReference, match=message):
            reference.validate_npz(path)


@pytest.mark.parametrize(("depth_m", "outcome"), [(0.02, "fine"), (0.04, "warns"), (0.16, "error")])
def test_depth_below_the_floor(tmp_path, depth_m, outcome):
    rows = qpos_rows(20)
    rows[:, 2] -= reference.lowest_geom_m(rows) + depth_m
    reference.write_npz(tmp_path / "a.npz", rows)
    if outcome == "error":
        with pytest.raises(BadReference, match="lowest collision geom at -0.160 m"):
            reference.validate_npz(tmp_path / "a.npz")
    else:
        assert bool(reference.validate_npz(tmp_path / "a.npz")) == (outcome == "warns")


def test_fast_joints_warn(tmp_path):
    rows = qpos_rows(20)
    rows[:, 7 + spec.JOINT_NAMES.index("left_shoulder_pitch_joint")] = np.arange(20) * 0.82 / 19.0
    rows[10:, 7 + spec.JOINT_NAMES.index("left_wrist_roll_joint")] = 1.7  # 1.7 rad in one frame
    reference.write_npz(tmp_path / "a.npz", rows)
    (warning,) = reference.validate_npz(tmp_path / "a.npz")
    assert "|joint_vel| up to 42.5 rad/s" in warning  # 1.7 / 0.04


# ---------------------------------------------------------------------------------------- sources


@pytest.mark.parametrize("slug", spec.CLIPS)
def test_stand_in_where_nothing_is_given(monkeypatch, slug):
    monkeypatch.delenv("RLE_LAFAN1_DIR", raising=False)
    clip = reference.load_clip(f"f04/{slug}")
    assert (clip.kind, clip.frames, clip.fps) == ("stand-in", 1001, 50.0)
    assert reference_jerk(clip.joint_pos) < 0.01
    assert 0.240 <= jerk_limit(clip.joint_pos) <= 0.260
    assert len(clip.sha256) == 64


def test_qpos_and_qvel_reproduce_the_body_states():
    clip = reference.load_clip("dance")
    states = reference.forward_kinematics(clip.qpos, clip.qvel)
    for name in reference.BODY_ARRAYS:
        assert np.abs(states[name] - getattr(clip, name)).max() < 2e-4, name


def test_missing_published_clip_is_an_error_not_a_stand_in(monkeypatch, tmp_path):
    monkeypatch.setenv("RLE_LAFAN1_DIR", str(tmp_path))
    (tmp_path / "dance1_subject2.csv").write_text("")
    with pytest.raises(MissingReference, match="f04/run needs run1_subject2.csv in .*dance1_sub"):
        reference.load_clip("run")


@pytest.mark.parametrize(("rows", "message"), [(601, None), (600, "needs 1001 frames, got 999")])
def test_published_clip_must_have_1001_frames(monkeypatch, tmp_path, rows, message):
    monkeypatch.setenv("RLE_LAFAN1_DIR", str(tmp_path))
    monkeypatch.setenv("RLE_CACHE_DIR", str(tmp_path / "cache"))
    write_csv(tmp_path / "dance1_subject2.csv", turning(601, 0.1))
    clip = spec.Clip(source="dance1_subject2", rows=(1, rows), standin="standin_dance")
    if message is None:
        found = reference.load_clip("f04/dance", clip=clip)
        assert (found.kind, found.frames) == ("lafan1", 1001)
        assert len(list((tmp_path / "cache" / "f04").glob("*.npz"))) == 1
        assert reference.load_clip("f04/dance", clip=clip).sha256 == found.sha256
    else:
        with pytest.raises(BadReference, match=f"f04/dance {message}"):
            reference.load_clip("f04/dance", clip=clip)


J_REF = {
    "dance": 0.0326,
    "fight": 0.0281,
    "run": 0.0331,
    "sprint": 0.0181,
    "fall-and-get-up": 0.0206,
}
J_MAX = {
    "dance": 0.3054,
    "fight": 0.2964,
    "run": 0.3064,
    "sprint": 0.2764,
    "fall-and-get-up": 0.2814,
}


@pytest.mark.parametrize("slug", spec.CLIPS)
def test_published_windows(monkeypatch, tmp_path, slug, lafan1_dir):
    """The published windows convert, pass the checks, and have the jerk that the card states."""
    monkeypatch.setenv("RLE_LAFAN1_DIR", str(lafan1_dir))
    monkeypatch.setenv("RLE_CACHE_DIR", str(tmp_path))
    clip = None
    if slug == "fall-and-get-up":  # its own recording is not always at hand
        clip = spec.Clip(source="fallAndGetUp1_subject1", rows=(1, 601), standin="standin_crouch")
        if not (lafan1_dir / "fallAndGetUp1_subject1.csv").is_file():
            pytest.skip(f"fallAndGetUp1_subject1.csv is not in {lafan1_dir}")
    found = reference.load_clip(slug, clip=clip)
    assert (found.kind, found.frames) == ("lafan1", 1001)
    assert reference_jerk(found.joint_pos) == pytest.approx(J_REF[slug], abs=1e-3)
    assert jerk_limit(found.joint_pos) == pytest.approx(J_MAX[slug], abs=1e-3)
    assert reference.lowest_geom_m(found.qpos) >= -0.107 - 1e-3
    assert np.abs(found.joint_vel).max() <= 36.5


def test_nothing_published_is_shipped():
    """No table of 36 columns and no mesh among the shipped files."""
    root = assets_dir()
    assert not list(root.rglob("*.[sS][tT][lL]")) or all(
        "f04" not in str(p) and "unitree" not in str(p) for p in root.rglob("*.[sS][tT][lL]")
    )
    for path in root.rglob("*.csv"):
        first = path.read_text().splitlines()[0]
        assert first.count(",") != 35, path


def test_files_of_another_source_and_rate(tmp_path, g1_moves_dir):
    """60 Hz files in the same layout convert; 601 rows are 10 s, so 501 frames."""
    files = sorted(g1_moves_dir.glob("*.csv"))
    assert files
    for csv in files:
        out = tmp_path / f"{csv.stem}.npz"
        reference.csv_to_npz(csv, out, rows=(1, 601), fps_in=60.0)
        reference.validate_npz(out)
        assert stored(out, "joint_pos").shape == (501, 29)
