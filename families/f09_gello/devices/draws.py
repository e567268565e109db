"""What is drawn for one arm: copies, reference arm, poses, paths, reading noise."""

from collections.abc import Callable

import msgspec
import numpy as np

from families.f09_gello import task
from families.f09_gello.mechanism.record import Lead
from families.f09_gello.spec import CLEARANCE, DEVICES, PROTOCOL, SERVO

Streams = Callable[..., np.random.Generator]
"""(purpose, *ids) -> generator; purposes: device, refarm, probe, holds, refholds, paths, residual."""


class Draws(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is drawn for one arm."""

    arm: str
    copies: tuple[tuple[dict[str, float], float], ...]
    """Mass factors and payload of each copy of the submitted arm."""
    reference: Lead
    reference_copies: tuple[tuple[dict[str, float], float], ...]
    holds: np.ndarray
    """Shape (12, nv), rad."""
    reference_holds: np.ndarray
    """Hold poses of the reference arm, within reach of its servos. Shape (12, nv), rad."""
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
    lead = task.reference_arm(arm, streams("refarm"))
    reference_copies = tuple(task.sample_device(arm, streams("refarm", k), k) for k in copies)
    return Draws(
        arm=arm,
        copies=tuple(task.sample_device(arm, streams("device", k), k) for k in copies),
        reference=lead,
        reference_copies=reference_copies,
        holds=task.hold_configs(arm, streams("holds")),
        reference_holds=holdable(lead, reference_copies, streams("refholds")),
        waypoints=tuple(task.draw_waypoints(arm, path_rng) for _ in range(CLEARANCE.paths)),
        residual_poses=task.random_poses(arm, streams("residual"), PROTOCOL.random_residual_poses),
        probe_noise={
            whose: tuple(streams("probe", whose, k) for k in copies) for whose in ("own", "ref")
        },
    )


def holdable(
    lead: Lead, copies: tuple[tuple[dict[str, float], float], ...], rng: np.random.Generator
) -> np.ndarray:
    """Random poses at which every copy's residual is within reach of the servos; the easiest if too few are.

    Without this a hold of the reference arm could fail whatever the software does, and the draw would decide.
    """
    poses = task.random_poses(lead.record.arm, rng, PROTOCOL.reference_hold_candidates)
    models = [task.compose(lead, payload, scale) for scale, payload in copies]
    worst = np.max([np.abs(task.residual(m, poses)).max(axis=1) for m in models], axis=0)
    beyond = np.maximum(worst - PROTOCOL.reference_hold_share * SERVO.limit_n_m, 0.0)
    return poses[np.argsort(beyond, kind="stable")[: PROTOCOL.hold_poses]]
