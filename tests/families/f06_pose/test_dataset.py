"""Data sets: what a shard holds, plans, sizes, and runs that go on after they were killed."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from families.f06_pose import client, dataset, spec
from families.f06_pose.service import agent
from rle.service.protocol import to_array


class Fake:
    """A renderer whose frames tell where they are from. `fail_at`: frames until it breaks."""

    def __init__(self, fail_at: int = 10**9) -> None:
        self.left = fail_at
        self.asked: list[tuple[str, int]] = []
        self._rgb = np.zeros((480, 640, 3), np.uint8)
        self._depth = np.zeros((480, 640), np.float32)

    def info(self) -> client.Facts:
        return client.Facts(
            request_id="", task="f06/rgbd", channels=("rgb", "depth"), K=to_array(np.eye(3)),
            T_cam_table=to_array(np.eye(4)), image_wh_px=(640, 480), frame_hz=10.0,
            label_sigma=(0, 0, 0), workers=1, calls_left=0, backend="egl",
        )  # fmt: skip

    def map(self, kind, seeds, **options):
        for seed in seeds:
            self.asked.append((kind, seed))
            if kind == "single":
                yield self._frame(seed, 0)
            else:
                frames = [self._frame(seed, k) for k in range(options["max_frames"])]
                yield client.Episode(seed, frames)

    def _frame(self, seed: int, k: int) -> client.Frame:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("killed")
        rgb, depth = self._rgb, self._depth
        rgb[:] = (seed * 7 + k) % 256
        rgb[0, 0] = 0
        depth[:] = 0.5 + 1e-3 * k
        depth[1, 1] = np.nan
        obs = {
            "rgb": rgb,
            "depth": depth,
            "K": np.diag([600.0, 600.0, 1.0]),
            "T_cam_table": np.eye(4),
        }
        return client.Frame(obs, (0.1 * k, 0.0, 1.0), k % 2 == 1, k / 10, k)


def test_plan_of_a_mixed_set():
    items = dataset.Plan(130, "mixed", (320, 240), 5).items()
    assert [i.kind for i in items] == ["single"] * 65 + ["push"] * 65
    assert items[0] == ("single", 5, 0) and items[64].seed == 69
    assert items[65] == ("push", 5, 0) and items[129] == ("push", 6, 4)
    assert dataset.SHARD_FRAMES == spec.SHARD_FRAMES and dataset.PUSH_FRAMES == 60


def test_what_a_shard_holds(tmp_path):
    dataset.generate(Fake(), tmp_path, dataset.Plan(102, "single", (320, 240)))
    first, last = (dict(np.load(tmp_path / f"shard_{k:05d}.npz")) for k in (0, 1))
    shapes = {
        "rgb": ((100, 240, 320, 3), np.uint8), "depth_0p1mm": ((100, 240, 320), np.uint16),
        "label": ((100, 3), np.float32), "occluded": ((100,), np.bool_), "t_s": ((100,), np.float32),
        "seed": ((100,), np.int64), "frame": ((100,), np.int32), "K": ((3, 3), np.float64),
        "T_cam_table": ((4, 4), np.float64),
    }  # fmt: skip
    assert {k: (v.shape, v.dtype) for k, v in first.items()} == shapes
    assert last["seed"].tolist() == [100, 101]
    # Colour by area: the black pixel counts a quarter. Depth by nearest neighbour, 0 where missing.
    assert first["rgb"][5, 0, 0, 0] == round(35 * 3 / 4) and first["rgb"][5, 9, 9, 0] == 35
    assert first["depth_0p1mm"][5, 0, 0] == 0 and first["depth_0p1mm"][5, 3, 3] == 5000
    assert first["K"][0, 0] == 300.0, "K is scaled with the picture"
    index = json.loads((tmp_path / "index.json").read_text())
    assert index["n"] == 102 and index["backend"] == "egl" and index["task"] == "f06/rgbd"
    assert not list(tmp_path.glob(".*partial"))


@pytest.mark.parametrize("kind", ["single", "push", "mixed"])
def test_a_broken_run_goes_on_to_the_same_bytes(tmp_path, kind):
    plan = dataset.Plan(250, kind, (80, 60))
    dataset.generate(Fake(), tmp_path / "whole", plan)
    with pytest.raises(RuntimeError):
        dataset.generate(Fake(fail_at=190), tmp_path / "cut", plan)
    assert (tmp_path / "cut" / "shard_00000.npz").is_file()
    assert not (tmp_path / "cut" / "shard_00002.npz").is_file()
    with pytest.raises(ValueError, match="give --resume to go on"):
        dataset.generate(Fake(), tmp_path / "cut", plan)
    told = []
    second = Fake()
    dataset.generate(
        second, tmp_path / "cut", plan, resume=True, progress=lambda done, n: told.append(done)
    )
    assert told[0] == 100 and told[-1] == 250, "whole shards are not rendered again"
    for name in ("shard_00000.npz", "shard_00001.npz", "shard_00002.npz", "index.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_refusals(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="size 300x200 is not 640x480 divided"):
        dataset.generate(Fake(), tmp_path, dataset.Plan(10, "single", (300, 200)))
    dataset.generate(Fake(), tmp_path, dataset.Plan(10, "single", (160, 120)))
    with pytest.raises(ValueError, match="describes another data set"):
        dataset.generate(Fake(), tmp_path, dataset.Plan(20, "single", (160, 120)), resume=True)
    usage = dataset.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(dataset.shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(ValueError, match=r"needs 0\.\d GB more; the disk has 0\.0 GB"):
        dataset.generate(Fake(), tmp_path / "other", dataset.Plan(1000, "single"))
    # 0.38 MB a frame at 320 x 240
    assert dataset.Plan(1).frame_bytes(True) == pytest.approx(0.384e6, rel=0.01)


def test_frames_is_a_torch_dataset(tmp_path):
    dataset.generate(Fake(), tmp_path, dataset.Plan(150, "single", (160, 120)))
    frames = dataset.Frames(tmp_path)
    assert len(frames) == 150
    assert frames[120]["seed"] == 120 and frames[3]["rgb"].shape == (120, 160, 3)
    with pytest.raises(IndexError):
        frames[150]
    with pytest.raises(FileNotFoundError, match="rle dev f06/rgb generate"):
        dataset.Frames(tmp_path / "none")


def test_plain_progress_prints_the_last_line(capsys):
    tell = agent.plain_progress()
    tell(0, 10)
    tell(10, 10)
    assert capsys.readouterr().out.startswith("10/10 frames, ")
    assert agent.size_of("320x240") == (320, 240)
    with pytest.raises(ValueError, match="is not WIDTHxHEIGHT"):
        agent.size_of("big")


@pytest.mark.slow
def test_four_hundred_frames_survive_kill_minus_nine(tmp_path):
    def argv(folder):
        base = [sys.executable, "-m", "rle", "dev", "f06/rgbd", "generate", "--n", "400"]
        return [*base, "--workers", "2", "--size", "160x120", "--out", str(folder), "--resume"]

    cut, whole = tmp_path / "cut", tmp_path / "whole"
    run = subprocess.Popen(argv(cut), stdout=subprocess.DEVNULL, start_new_session=True)
    while not (cut / "shard_00001.npz").is_file() and run.poll() is None:
        time.sleep(0.2)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    assert not (cut / "shard_00003.npz").is_file(), "it was killed half-way"
    subprocess.run(argv(cut), check=True, stdout=subprocess.DEVNULL)
    subprocess.run(argv(whole), check=True, stdout=subprocess.DEVNULL)
    names = sorted(p.name for p in whole.iterdir())
    assert names == sorted(p.name for p in cut.iterdir()) and len(names) == 5
    for name in names:
        assert (whole / name).read_bytes() == (cut / name).read_bytes(), name
