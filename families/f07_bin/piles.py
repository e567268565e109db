"""Draws a pile: how many parts, where they lie after settling in the bin, and how it is lit."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import mujoco
import numpy as np

from families.f07_bin import scene, spec
from rle.errors import InfrastructureError, SimulationError
from rle.seeds import Namespace, stream, trial_key
from rle.sim import guard

Streams = Callable[..., np.random.Generator]
"""`streams(name, *ids)`: generator of one named stream of one pile."""


@dataclass(frozen=True)
class Pile:
    """A settled pile."""

    poses: np.ndarray
    """Position and quat_wxyz of each part. Shape (n, 7), m, world."""
    lights: scene.Lights
    attempts: int
    """Piles drawn until every part lay in the bin."""

    @property
    def n_parts(self) -> int:
        return len(self.poses)


def public_streams(namespace: Namespace, seed: int) -> Streams:
    """Streams of a pile that anybody may draw: `public` or `design`."""
    key = trial_key("f07", spec.TASKS[0].draw_key, namespace, seed)
    return lambda name, *ids: stream(key, name, *ids)


def draw(streams: Streams, n_parts: int | None = None) -> Pile:
    """Draws and settles a pile.

    Args:
        streams: Streams of the pile.
        n_parts: Fixed number of parts (design piles); None draws it.

    Raises:
        InfrastructureError: `f07.pile`, when every attempt leaves a part outside the bin.
    """
    n = n_parts or int(streams("count").integers(spec.N_PARTS_MIN, spec.N_PARTS_MAX + 1))
    lights = _lights(streams("light"))
    for attempt in range(spec.MAX_PILE_ATTEMPTS):
        try:
            poses = settle(drop_poses(n, streams("pile", attempt)))
        except SimulationError:
            continue  # a pile that explodes is redrawn like one that leaves the bin
        if np.all(is_in_bin(poses)):
            return Pile(poses=poses, lights=lights, attempts=attempt + 1)
    raise InfrastructureError(
        f"no pile of {n} parts stayed in the bin in {spec.MAX_PILE_ATTEMPTS} attempts",
        code="f07.pile",
    )


def drop_poses(n_parts: int, rng: np.random.Generator) -> np.ndarray:
    """Layers of a jittered grid above the bin, web down, each part turned at random. Shape (n, 7)."""
    columns, rows = spec.PILE_GRID
    poses = np.zeros((n_parts, 7))
    for i in range(n_parts):
        layer, cell = divmod(i, columns * rows)
        row, column = divmod(cell, columns)
        jitter = rng.uniform(-1.0, 1.0, 2) * spec.PILE_JITTER_M
        grid = (column - (columns - 1) / 2, row - (rows - 1) / 2)
        poses[i, :2] = np.array(spec.BIN_CENTRE_M[:2]) + grid * np.array(spec.PILE_PITCH_M) + jitter
        poses[i, 2] = spec.PILE_FIRST_Z_M + layer * spec.PILE_LAYER_Z_M
        yaw = rng.uniform(-math.pi, math.pi)
        poses[i, 3], poses[i, 6] = math.cos(yaw / 2), math.sin(yaw / 2)
    return poses


def settle(poses: np.ndarray) -> np.ndarray:
    """Lets parts fall in the cell without the arm, and returns where they come to rest. Shape (n, 7).

    Raises:
        SimulationError: The physics diverged.
    """
    cell = scene.build(len(poses), arm=False)
    data = mujoco.MjData(cell.model)
    _place(cell, data, poses)
    _run(cell, data, spec.SETTLE_S, spec.SETTLE_EXTRA_S)
    escaped = ~is_in_bin(_poses(cell, data))
    if escaped.any():
        for part in np.flatnonzero(escaped):
            address = cell.part_qpos[part]
            data.qpos[address : address + 7] = (*spec.BIN_CENTRE_M[:2], spec.REDROP_Z_M, 1, 0, 0, 0)
            data.qvel[cell.part_qvel[part] : cell.part_qvel[part] + 6] = 0.0
            _run(cell, data, spec.REDROP_S, spec.SETTLE_EXTRA_S)
    return _poses(cell, data)


def is_in_bin(poses: np.ndarray) -> np.ndarray:
    """True for each part whose origin is inside the bin's interior box. Shape (n,)."""
    position = poses[:, :3]
    return ((position >= spec.BIN_LO_M) & (position <= spec.BIN_HI_M)).all(axis=1)


def _place(cell: scene.Cell, data: mujoco.MjData, poses: np.ndarray) -> None:
    for address, pose in zip(cell.part_qpos, poses, strict=True):
        data.qpos[address : address + 7] = pose


def _poses(cell: scene.Cell, data: mujoco.MjData) -> np.ndarray:
    return data.qpos[cell.part_qpos[:, None] + np.arange(7)]


def _run(cell: scene.Cell, data: mujoco.MjData, time_s: float, extra_s: float) -> None:
    """Steps for `time_s`, then until every part is slow, at most `extra_s` more."""
    guard.step(cell.model, data, "a pile", round(time_s / spec.TIMESTEP_S))
    linear = cell.part_qvel[:, None] + np.arange(3)
    for _ in range(round(extra_s / spec.TIMESTEP_S)):
        if np.all(np.linalg.norm(data.qvel[linear], axis=1) < spec.SETTLE_SPEED_M_S):
            break
        guard.step(cell.model, data, "a pile")
    guard.check(cell.model, data, "a pile")


def _lights(rng: np.random.Generator) -> scene.Lights:
    azimuth = rng.uniform(0.0, 2.0 * math.pi)
    elevation = math.radians(rng.uniform(*spec.KEY_ELEVATION_DEG))
    distance = rng.uniform(*spec.KEY_DISTANCE_M)
    x, y, z = spec.BIN_CENTRE_M
    flat = distance * math.cos(elevation)
    return scene.Lights(
        key_pos_m=(
            x + flat * math.cos(azimuth),
            y + flat * math.sin(azimuth),
            z + distance * math.sin(elevation),
        ),
        key_diffuse=rng.uniform(*spec.KEY_DIFFUSE),
        fill_diffuse=rng.uniform(*spec.FILL_DIFFUSE),
        ambient=rng.uniform(*spec.AMBIENT),
        floor_grey=rng.uniform(*spec.FLOOR_GREY),
    )
