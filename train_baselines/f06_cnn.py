"""A small network for f06/learned-rgbd, trained on CPU from the renderer's noisy labels; one TorchScript file.

In the graph: a mask of red pixels and one of what stands above the table are warped by a fixed grid onto the
plane of the block's top (8 mm cells), cropped to 48 x 48 cells around the middle of the red ones, and read by
four convolutions. Out come the offset from that middle, the direction of theta, and the shape.

    rle dev f06/learned-rgbd generate --n 4000 --kind single --out data
    python -m train_baselines.f06_cnn --data data --out assets/oracles/f06/learned-rgbd

The labels name no shape: ids are found from the fit itself (`label_shapes`): the three blocks differ in where
their red cells lie around the labelled pose.
"""

import dataclasses
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
import tyro
from torch import nn

from families.f06_pose.dataset import Frames

CELL_M, GRID_WH = 0.008, (110, 86)
"""Cells of the warped plane."""
PLANE_Z_M = 0.040
CROP = 48
FULL_WH = (640, 480)


class PoseNet(nn.Module):
    """`forward(x: float32 [1, 5, 480, 640]) -> float32 [1, 7]`; other batch and picture sizes work too.

    Args:
        K: Pinhole matrix of the full picture, px.
        pose: T_cam_table: columns right, up, backward, position.
    """

    def __init__(self, K: np.ndarray, pose: np.ndarray) -> None:
        super().__init__()
        self.register_buffer("warp", _warp_grid(K, pose))
        self.register_buffer("table_depth", _plane_depth(K, pose))
        steps = (torch.arange(CROP, dtype=torch.float32) - (CROP - 1) / 2)[None, :]
        self.register_buffer("steps", steps.clone())
        widths = (2, 16, 32, 64, 64)
        layers: list[nn.Module] = []
        for i, (a, b) in enumerate(zip(widths, widths[1:])):
            stride = 1 if i == 0 else 2
            layers += [nn.Conv2d(a, b, 3, stride, 1), nn.BatchNorm2d(b), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        side = CROP // 8
        self.head = nn.Sequential(
            nn.Flatten(), nn.Linear(64 * side * side, 128), nn.ReLU(), nn.Linear(128, 7)
        )

    def masks(self, x: torch.Tensor) -> torch.Tensor:
        """Red and raised shares in plane cells, from pictures. (B, 5, H, W) to (B, 2, rows, cols)."""
        r = x[:, 0]
        other = torch.maximum(x[:, 1], x[:, 2])
        red = torch.sigmoid((r - 1.7 * other - 0.02) / 0.02) * (r > 0.12).float()
        depth = nn.functional.interpolate(
            self.table_depth, size=(x.shape[2], x.shape[3]), mode="bilinear", align_corners=False
        )[:, 0]
        raised = torch.sigmoid((depth - x[:, 3] - 0.02) / 0.01) * x[:, 4] * (1.0 - red)
        both = torch.stack((red, raised), dim=1)
        grid = self.warp.expand(x.shape[0], -1, -1, -1)
        return nn.functional.grid_sample(both, grid, mode="bilinear", align_corners=False)

    def crop(self, plane: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """48 x 48 cells around the middle of the red ones, and that middle in cells (col, row)."""
        red = plane[:, 0]
        rows, cols = red.shape[1], red.shape[2]
        total = red.sum(dim=(1, 2)).clamp(min=1e-3)
        col = torch.arange(cols, dtype=red.dtype, device=red.device)
        row = torch.arange(rows, dtype=red.dtype, device=red.device)
        u = (red.sum(dim=1) * col).sum(dim=1) / total
        v = (red.sum(dim=2) * row).sum(dim=1) / total
        middle = torch.stack((u, v), dim=1)
        at_u = (u[:, None] + self.steps + 0.5) * (2.0 / cols) - 1.0
        at_v = (v[:, None] + self.steps + 0.5) * (2.0 / rows) - 1.0
        grid = torch.stack(
            (at_u[:, None, :].expand(-1, 48, -1), at_v[:, :, None].expand(-1, -1, 48)), dim=3
        )
        return nn.functional.grid_sample(plane, grid, align_corners=False), middle

    def read(self, crop: torch.Tensor, middle: torch.Tensor) -> torch.Tensor:
        """Seven outputs from a crop."""
        out = self.head(self.body(crop))
        x = 0.008 * (middle[:, 0:1] - 54.5 + 10.0 * out[:, 0:1])
        y = 0.008 * (middle[:, 1:2] - 42.5 + 10.0 * out[:, 1:2])
        return torch.cat((x, y, out[:, 2:]), dim=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        crop, middle = self.crop(self.masks(x))
        return self.read(crop, middle)


def _warp_grid(K: np.ndarray, pose: np.ndarray) -> torch.Tensor:
    """Where each plane cell is in the picture, in `grid_sample` coordinates. (1, rows, cols, 2)."""
    cols, rows = GRID_WH
    xs = CELL_M * (np.arange(cols) - (cols - 1) / 2)
    ys = CELL_M * (np.arange(rows) - (rows - 1) / 2)
    x, y = np.meshgrid(xs, ys)
    local = (np.stack((x, y, np.full_like(x, PLANE_Z_M)), -1) - pose[:3, 3]) @ pose[:3, :3]
    u = K[0, 2] + K[0, 0] * local[..., 0] / -local[..., 2]
    v = K[1, 2] - K[1, 1] * local[..., 1] / -local[..., 2]
    grid = np.stack((2 * u / FULL_WH[0] - 1, 2 * v / FULL_WH[1] - 1), -1)
    return torch.tensor(grid[None], dtype=torch.float32)


def _plane_depth(K: np.ndarray, pose: np.ndarray) -> torch.Tensor:
    """Depth of the bare table in each pixel, m. (1, 1, 480, 640)."""
    v, u = np.indices((FULL_WH[1], FULL_WH[0]))
    a, b = (u + 0.5 - K[0, 2]) / K[0, 0], -(v + 0.5 - K[1, 2]) / K[1, 1]
    z = pose[2, :3]
    depth = -pose[2, 3] / np.minimum(z[0] * a + z[1] * b - z[2], -1e-3)
    return torch.tensor(depth[None, None], dtype=torch.float32)


# ----------------------------------------------------------------------------------------- data


@dataclasses.dataclass
class Data:
    """Plane masks and labels of a data set."""

    planes: torch.Tensor
    """(n, 2, rows, cols), uint8."""
    labels: torch.Tensor
    """x, y in m, theta in rad. (n, 3)."""
    shapes: torch.Tensor
    """Shape ids. (n,)."""


def pictures(row: dict[str, np.ndarray]) -> torch.Tensor:
    """Network input of a stored frame, (1, 5, H, W)."""
    depth = row["depth_0p1mm"].astype(np.float32) * 1e-4
    rgb = row["rgb"].astype(np.float32).transpose(2, 0, 1) / 255.0
    return torch.from_numpy(
        np.concatenate((rgb, depth[None], (depth > 0)[None]))[None].astype(np.float32)
    )


def aligned(planes: torch.Tensor, labels: torch.Tensor, cells: int = 40) -> torch.Tensor:
    """Red cells of each frame in the frame of its label, (n, cells, cells): all blocks of one shape agree."""
    cols, rows = GRID_WH
    half = CELL_M * (torch.arange(cells) - (cells - 1) / 2)
    by, bx = torch.meshgrid(half, half, indexing="ij")
    c, s = labels[:, 2].cos()[:, None, None], labels[:, 2].sin()[:, None, None]
    x = labels[:, 0, None, None] + c * bx - s * by
    y = labels[:, 1, None, None] + s * bx + c * by
    grid = torch.stack(
        (2 * (x / CELL_M + cols / 2) / cols - 1, 2 * (y / CELL_M + rows / 2) / rows - 1), dim=3
    )
    red = planes[:, 0:1].float() / 255.0
    return nn.functional.grid_sample(red, grid.float(), align_corners=False)[:, 0]


def label_shapes(seen: torch.Tensor) -> torch.Tensor:
    """Shape ids from aligned red cells: three clusters, named by what the letters look like.

    The letter C has two legs along -y, F one on the left and one right of the middle, T one in the middle.
    """
    cells = seen.shape[1]
    lower = seen[:, : cells * 2 // 5]  # -y of the origin, where the legs are
    profile = lower.mean(dim=1)
    at = torch.arange(cells, dtype=torch.float32) - (cells - 1) / 2

    def leg(centre_cells: float) -> torch.Tensor:
        return (profile * ((at - centre_cells).abs() < 2.6).float()).sum(dim=1)

    left, middle, near, right = leg(-9.4), leg(0.0), leg(3.1), leg(9.4)
    scores = torch.stack((middle - left - right, left + right - near, left + near - right), dim=1)
    shapes = scores.argmax(dim=1)
    flat = seen.flatten(1)
    for _ in range(8):  # then to the nearest mean of its cluster
        means = torch.stack([flat[shapes == k].mean(dim=0) for k in range(3)])
        shapes = torch.cdist(flat, means).argmin(dim=1)
    return shapes


def load(folder: Path, net: PoseNet, limit: int | None) -> Data:
    """Warps every frame of a data set onto the plane."""
    frames = Frames(folder)
    n = len(frames) if limit is None else min(limit, len(frames))
    planes = torch.zeros((n, 2, GRID_WH[1], GRID_WH[0]), dtype=torch.uint8)
    labels = torch.zeros((n, 3))
    with torch.no_grad():
        for i in range(n):
            row = frames[i]
            planes[i] = (255 * net.masks(pictures(row))[0]).round().to(torch.uint8)
            labels[i] = torch.from_numpy(row["label"])
    return Data(planes, labels, label_shapes(aligned(planes, labels)))


def turned(
    planes: torch.Tensor, labels: torch.Tensor, middles: torch.Tensor, rng: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Crops turned by a random small angle about their middle, with the labels turned alike."""
    n = len(planes)
    angle = (torch.rand(n, generator=rng) - 0.5) * 2 * math.radians(25.0)
    shift = torch.randn((n, 2), generator=rng) * 0.7
    cols, rows = GRID_WH
    steps = torch.arange(CROP, dtype=torch.float32) - (CROP - 1) / 2
    dv, du = torch.meshgrid(steps, steps, indexing="ij")
    c, s = angle.cos()[:, None, None], angle.sin()[:, None, None]
    u = (
        middles[:, 0, None, None]
        + c * (du + shift[:, 0, None, None])
        - s * (dv + shift[:, 1, None, None])
    )
    v = (
        middles[:, 1, None, None]
        + s * (du + shift[:, 0, None, None])
        + c * (dv + shift[:, 1, None, None])
    )
    grid = torch.stack((2 * (u + 0.5) / cols - 1, 2 * (v + 0.5) / rows - 1), dim=3)
    crops = nn.functional.grid_sample(planes, grid, align_corners=False)
    centre = torch.stack(
        (CELL_M * (middles[:, 0] - (cols - 1) / 2), CELL_M * (middles[:, 1] - (rows - 1) / 2)),
        dim=1,
    )
    d = labels[:, :2] - centre
    back = torch.stack(
        (
            angle.cos() * d[:, 0] + angle.sin() * d[:, 1],
            -angle.sin() * d[:, 0] + angle.cos() * d[:, 1],
        ),
        dim=1,
    )
    offset = back / CELL_M - shift
    return crops, torch.cat((offset / 10.0, (labels[:, 2] - angle)[:, None]), dim=1)


def loss_of(out: torch.Tensor, wanted: torch.Tensor, shapes: torch.Tensor) -> torch.Tensor:
    """Squared offset, squared chord of theta, cross entropy of the shape."""
    offset = (out[:, :2] - wanted[:, :2]).pow(2).sum(dim=1)
    direction = torch.stack((wanted[:, 2].cos(), wanted[:, 2].sin()), dim=1)
    chord = (out[:, 2:4] - direction).pow(2).sum(dim=1)
    entropy = nn.functional.cross_entropy(out[:, 4:], shapes, reduction="none")
    return (4.0 * offset + chord + 0.5 * entropy).mean()


@dataclasses.dataclass
class Args:
    """Trains and exports the network."""

    data: Path
    """Folder of `rle dev f06/learned-rgbd generate`."""
    out: Path = Path("assets/oracles/f06/learned-rgbd")
    """Folder for model.pt; the curve is written beside it."""
    steps: int = 2500
    batch: int = 96
    rate: float = 2e-3
    limit: int | None = None
    """Frames to use; default all."""
    hold_out: int = 200
    """Frames kept for the curve."""
    long: bool = False
    """Ten times the steps, on CUDA where there is one."""


def train(args: Args) -> PoseNet:
    """Trains on a data set; prints the curve as it goes."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    device = "cuda" if args.long and torch.cuda.is_available() else "cpu"
    first = Frames(args.data)[0]
    by = FULL_WH[0] / first["rgb"].shape[1]
    net = PoseNet(np.diag((by, by, 1.0)) @ first["K"], first["T_cam_table"])
    data = load(args.data, net, args.limit)
    print(f"{len(data.labels)} frames, shapes {torch.bincount(data.shapes, minlength=3).tolist()}")
    net.to(device)
    rng = torch.Generator().manual_seed(1)
    n_train = len(data.labels) - args.hold_out
    steps = args.steps * (10 if args.long else 1)
    optimiser = torch.optim.AdamW(net.parameters(), lr=args.rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, args.rate, total_steps=steps)
    curve, began = [], time.process_time()
    for step in range(steps):
        net.train()
        pick = torch.randint(n_train, (args.batch,), generator=rng)
        planes = data.planes[pick].float() / 255.0
        middles = net.crop(planes.to(device))[1].cpu()
        crops, wanted = turned(planes, data.labels[pick], middles, rng)
        loss = loss_of(
            net.head(net.body(crops.to(device))), wanted.to(device), data.shapes[pick].to(device)
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 100 == 99:
            measured = judge(net, data, n_train, device)
            curve.append({"step": step + 1, "loss": round(loss.item(), 4), **measured})
            print(
                f"{step + 1:6d} {time.process_time() - began:7.0f} s  loss {loss.item():.4f}  {measured}",
                flush=True,
            )
    net.to("cpu").eval()
    args.out.mkdir(parents=True, exist_ok=True)
    beside = args.out.with_name(f"{args.out.name}-curve.json")  # the folder itself is a submission
    beside.write_text(json.dumps(curve, indent=0) + "\n")
    return net


def judge(net: PoseNet, data: Data, n_train: int, device: str) -> dict[str, float]:
    """Medians against the held-out labels, whose noise is 5 mm and 3 deg."""
    net.eval()
    with torch.no_grad():
        planes = (data.planes[n_train:].float() / 255.0).to(device)
        out = net.read(*net.crop(planes)).cpu()
    labels, shapes = data.labels[n_train:], data.shapes[n_train:]
    xy = (out[:, :2] - labels[:, :2]).norm(dim=1)
    turn = torch.atan2(out[:, 3], out[:, 2]) - labels[:, 2]
    yaw = torch.atan2(turn.sin(), turn.cos()).abs()
    right = (out[:, 4:].argmax(dim=1) == shapes).float().mean()
    return {
        "xy_mm": round(1e3 * xy.median().item(), 2),
        "yaw_deg": round(math.degrees(yaw.median().item()), 2),
        "shapes_right": round(right.item(), 4),
    }


def export(net: PoseNet, path: Path) -> None:
    """Writes TorchScript."""
    with torch.no_grad():
        scripted = torch.jit.freeze(torch.jit.script(net.eval()))
        torch.jit.save(scripted, str(path))
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    arguments = tyro.cli(Args)
    export(train(arguments), arguments.out / "model.pt")
