"""What is drawn for one arm: copies, reference arm, poses, paths, reading noise."""

from collections.abc import Callable

import msgspec
import numpy as np

from families.f09_gello import task
from families.f09_gello.mechanism.record import Lead
from families.f09_gello.spec import CLEARANCE, DEVICES, PROTOCOL

Streams = Callable[..., np.random.Generator]
"""(purpose, *ids) -> generator; purposes: device, refarm, probe, holds, paths, residual."""


class Draws(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is drawn for one arm."""

    arm: str
    copies: tuple[tuple[dict[str, float], float], ...]
    """Mass factors and payload of each copy of the submitted arm."""
    reference: Lead
    reference_copies: tuple[tuple[dict[str, float], float], ...]
    holds: np.ndarray
    """Shape (12, nv), rad."""
    waypoints: tuple[np.ndarray, ...]
    """Of each path, shape (5, nv), rad."""
    residual_poses: np.ndarray
    """Shape (96, nv), rad."""
    probe_noise: dict[str, tuple[np.random.Generator, ...]]
    """Streams of the reading noise by `own` and `ref`, one per copy."""


def draw(arm: str, streams: Streams) -> Draws:
    """Draws one arm's battery. No stream is shared between purposes."""
    copies = range(DEVICES.per_arm)
    path_rng = streams("paths")
    return Draws(
        arm=arm,
        copies=tuple(task.sample_device(arm, streams("device", k), k) for k in copies),
        reference=task.reference_arm(arm, streams("refarm")),
        reference_copies=tuple(task.sample_device(arm, streams("refarm", k), k) for k in copies),
        holds=task.hold_configs(arm, streams("holds")),
        waypoints=tuple(task.draw_waypoints(arm, path_rng) for _ in range(CLEARANCE.paths)),
        residual_poses=task.random_poses(arm, streams("residual"), PROTOCOL.random_residual_poses),
        probe_noise={
            whose: tuple(streams("probe", whose, k) for k in copies) for whose in ("own", "ref")
        },
    )
