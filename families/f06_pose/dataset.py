"""Data sets of rendered frames: shards of 100 in plain `.npz`, written so that a run can go on.

`generate` needs numpy alone and works over any connection to the renderer; `Frames` is a torch `Dataset`.
Shard keys: `rgb` uint8 (n, H, W, 3), `depth_0p1mm` uint16 (n, H, W), 0 where missing (if granted), `label`
float32 (n, 3) in m and rad, `occluded` bool, `t_s` float32, `seed` int64, `frame` int32, `K`, `T_cam_table`.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

SHARD_FRAMES, PUSH_FRAMES = 100, 60
FULL_WH_PX = (640, 480)
DEPTH_UNIT_M = 1.0e-4
INDEX, SHARD = "index.json", "shard_{:05d}.npz"
Content = Literal["single", "push", "mixed"]


class Item(NamedTuple):
    """One frame to come: where it is from."""

    kind: str
    seed: int
    frame: int


class Plan(NamedTuple):
    """What a data set holds."""

    n: int
    kind: Content = "mixed"
    size: tuple[int, int] = (320, 240)
    start_seed: int = 0

    def items(self) -> list[Item]:
        """Every frame in its order: single frames first, then pushes of 60 frames."""
        singles = {"single": self.n, "push": 0, "mixed": self.n // 2}[self.kind]
        found = [Item("single", self.start_seed + k, 0) for k in range(singles)]
        found += [
            Item("push", self.start_seed + k // PUSH_FRAMES, k % PUSH_FRAMES)
            for k in range(self.n - singles)
        ]
        return found

    def check(self) -> None:
        """Raises ValueError for a size that does not divide the picture, or no frames."""
        width, height = self.size
        if (
            min(width, height) < 1
            or FULL_WH_PX[0] % width
            or FULL_WH_PX[0] // width * height != FULL_WH_PX[1]
        ):
            raise ValueError(
                f"size {width}x{height} is not 640x480 divided by a whole number; try 320x240 or 160x120"
            )
        if self.n < 1:
            raise ValueError(f"n is {self.n}; at least 1 frame is needed")

    def frame_bytes(self, with_depth: bool) -> int:
        """Bytes of one frame on disk."""
        return self.size[0] * self.size[1] * (5 if with_depth else 3) + 64


def generate(
    renderer: Any,
    folder: Path,
    plan: Plan,
    *,
    resume: bool = False,
    about: dict[str, Any] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Renders a data set.

    Args:
        renderer: A connection (`client.Renderer`).
        folder: Where the shards go.
        plan: What is rendered.
        resume: Goes on after the last whole shard; otherwise the folder must hold none.
        about: More facts for `index.json`.
        progress: Told of (frames done, frames in all).

    Raises:
        ValueError: The folder holds another data set, or the disk is too small.
    """
    plan.check()
    facts = renderer.info()
    folder.mkdir(parents=True, exist_ok=True)
    index = {
        "n": plan.n, "kind": plan.kind, "size": list(plan.size), "start_seed": plan.start_seed,
        "task": facts.task, "channels": list(facts.channels), "backend": facts.backend,
        "shard_frames": SHARD_FRAMES, **(about or {}),
    }  # fmt: skip
    first = _first_shard(folder, index, resume)
    need = plan.frame_bytes("depth" in facts.channels) * (plan.n - first * SHARD_FRAMES)
    left = shutil.disk_usage(folder).free
    if need > left:
        raise ValueError(
            f"{folder} needs {need / 1e9:.1f} GB more; the disk has {left / 1e9:.1f} GB"
        )
    _write(folder / INDEX, json.dumps(index, indent=1).encode() + b"\n")
    items = plan.items()
    start = first * SHARD_FRAMES
    rows: list[dict[str, Any]] = []
    shard = first
    progress(start, plan.n)
    for done, (item, frame) in enumerate(_stream(renderer, items[start:]), start + 1):
        rows.append(_row(item, frame, plan.size))
        if len(rows) == SHARD_FRAMES or done == plan.n:
            _write_shard(folder / SHARD.format(shard), rows)
            rows, shard = [], shard + 1
        progress(done, plan.n)


def _first_shard(folder: Path, index: dict[str, Any], resume: bool) -> int:
    """Number of the first shard that is missing."""
    n = 0
    while (folder / SHARD.format(n)).is_file():
        n += 1
    path = folder / INDEX
    if path.is_file() and json.loads(path.read_text()) != json.loads(json.dumps(index)):
        raise ValueError(f"{path} describes another data set; choose another folder")
    if n and not resume:
        raise ValueError(f"{folder} holds {n} shards; give --resume to go on, or another folder")
    return n


def _stream(renderer: Any, items: list[Item]) -> Iterator[tuple[Item, Any]]:
    """Frames of the items in order; an episode that starts in the middle is asked for whole."""
    singles = [i.seed for i in items if i.kind == "single"]
    frames = renderer.map("single", singles)
    for item in items[: len(singles)]:
        yield item, next(frames)
    pushes = items[len(singles) :]
    seeds = list(dict.fromkeys(i.seed for i in pushes))
    episodes = renderer.map("push", seeds, max_frames=PUSH_FRAMES)
    for seed, episode in zip(seeds, episodes, strict=True):
        for item in (i for i in pushes if i.seed == seed):
            yield item, episode.frames[item.frame]


def _row(item: Item, frame: Any, size: tuple[int, int]) -> dict[str, Any]:
    by = FULL_WH_PX[0] // size[0]
    row: dict[str, Any] = {"rgb": _by_area(frame.obs["rgb"], by)}
    if "depth" in frame.obs:
        depth = np.nan_to_num(frame.obs["depth"][by // 2 :: by, by // 2 :: by])
        row["depth_0p1mm"] = np.round(depth / DEPTH_UNIT_M).astype(np.uint16)
    scale = np.diag((1.0 / by, 1.0 / by, 1.0))
    return row | {
        "label": np.array(frame.label, np.float32),
        "occluded": np.array(frame.occluded),
        "t_s": np.array(frame.t_s, np.float32),
        "seed": np.array(item.seed, np.int64),
        "frame": np.array(frame.frame, np.int32),
        "K": scale @ frame.obs["K"],
        "T_cam_table": frame.obs["T_cam_table"],
    }


def _by_area(rgb: np.ndarray, by: int) -> np.ndarray:
    """Mean of each by x by block of pixels, rounded. (H, W, 3) to (H/by, W/by, 3), uint8."""
    total = np.full((rgb.shape[0] // by, rgb.shape[1] // by, 3), by * by // 2, np.uint32)
    for i in range(by):
        for j in range(by):
            total += rgb[i::by, j::by]
    return (total // (by * by)).astype(np.uint8)


def _write_shard(path: Path, rows: list[dict[str, Any]]) -> None:
    static = {"K", "T_cam_table"}
    arrays = {k: rows[0][k] if k in static else np.stack([r[k] for r in rows]) for k in rows[0]}
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("wb") as file:
        np.savez(file, **arrays)
    os.replace(partial, path)


def _write(path: Path, data: bytes) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(data)
    os.replace(partial, path)


def Frames(folder: Path | str):  # noqa: N802 (a class to its callers; torch loads when it is used)
    """A torch `Dataset` over a data set's shards: items are dicts of numpy arrays, keys as in a shard.

    Args:
        folder: Of `generate`.

    Raises:
        FileNotFoundError: No shard there.
    """
    from torch.utils.data import Dataset

    shards = sorted(Path(folder).glob("shard_*.npz"))
    if not shards:
        raise FileNotFoundError(
            f"{folder} holds no shard; make some with `rle dev f06/rgb generate`"
        )
    lengths = [int(np.load(path)["seed"].shape[0]) for path in shards]
    ends = np.cumsum(lengths)

    class _Frames(Dataset):
        def __init__(self) -> None:
            self._open: tuple[int, dict[str, np.ndarray]] = (-1, {})

        def __len__(self) -> int:
            return int(ends[-1])

        def __getitem__(self, i: int) -> dict[str, np.ndarray]:
            if not 0 <= i < len(self):
                raise IndexError(f"frame {i} of {len(self)}")
            shard = int(np.searchsorted(ends, i, side="right"))
            if self._open[0] != shard:
                self._open = (shard, dict(np.load(shards[shard])))
            k = i - int(ends[shard] - lengths[shard])
            return {
                key: value if key in ("K", "T_cam_table") else value[k]
                for key, value in self._open[1].items()
            }

    return _Frames()
