"""Places around the links of a lead arm where a counterweight stays clear of everything else."""

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from families.f09_gello import scene, task
from families.f09_gello.spec import ARMS, CLEARANCE, PART_RULES

STEEL = PART_RULES.metal_density_kg_m3[0]
PLASTIC = PART_RULES.fill_density_kg_m3[1]
STRUT_RADIUS_M = 0.005
MARGIN_M = 0.0015
"""Kept beside the 2 mm of the card, for poses between the samples."""
SINK_M = 0.0004
"""How far a ball sinks into what it touches; the card allows 1 mm."""
MIN_MASS_KG = 0.012
"""Lighter balls are left out."""


@dataclass(frozen=True)
class Places:
    """Where a counterweight may be: one row per place."""

    body: list[str]
    at_m: np.ndarray
    """In the body's frame. Shape (n, 3)."""
    anchor_m: np.ndarray
    """End of the strut on the link's own capsule axis. Shape (n, 3)."""
    mass_max_kg: np.ndarray
    """Shape (n,)."""


@dataclass(frozen=True)
class Want:
    """What a design may use."""

    mass_weight: float = 0.03
    """N m of residual that a kilogram is worth: heavier arms vary more."""
    mass_max_kg: float = 1.3
    """Of all counterweights."""
    balls_max: int = 8
    radii_m: tuple[float, ...] = (0.03, 0.045, 0.06, 0.08, 0.10, 0.12)
    """Distances of the places from points on a link."""
    only_body: str | None = None
    """Link that may carry balls; None: every moving one."""
    struts: int = 1
    """Struts of each ball."""
    spring_joints: tuple[int, ...] | None = None
    """1-based; None: all but the first."""


def points_to_geom_m(
    model: mujoco.MjModel, data: mujoco.MjData, geom: int, points: np.ndarray
) -> np.ndarray:
    """Distance of world points to a stock geom (capsule, box or cylinder); 0 or below inside. Shape (n,)."""
    local = (points - data.geom_xpos[geom]) @ data.geom_xmat[geom].reshape(3, 3)
    size = model.geom_size[geom]
    match mujoco.mjtGeom(model.geom_type[geom]):
        case mujoco.mjtGeom.mjGEOM_CAPSULE:
            local[:, 2] -= np.clip(local[:, 2], -size[1], size[1])
            return np.linalg.norm(local, axis=1) - size[0]
        case mujoco.mjtGeom.mjGEOM_CYLINDER:
            radial = np.hypot(local[:, 0], local[:, 1]) - size[0]
            axial = np.abs(local[:, 2]) - size[1]
            outside = np.hypot(np.maximum(radial, 0), np.maximum(axial, 0))
            return outside + np.minimum(np.maximum(radial, axial), 0)
    gap = np.abs(local) - size
    return np.linalg.norm(np.maximum(gap, 0), axis=1) + np.minimum(gap.max(axis=1), 0)


def find_places(
    arm_name: str,
    rng: np.random.Generator,
    want: Want,
    blocked: Sequence[tuple[str, np.ndarray]],
) -> Places:
    """Grid around every moving link, with the heaviest clear ball of each place.

    Args:
        arm_name: The arm.
        rng: Draws the poses that clearance is looked at.
        want: Says which links and distances are tried.
        blocked: Places (body, at_m) that an earlier design found wanting; a ball's width around is left out.
    """
    device = scene.stock_device(arm_name)
    model, arm = device.model, ARMS[arm_name]
    directions = _directions()
    rows: list[tuple[str, np.ndarray, np.ndarray]] = []
    for i in range(2, arm.nv + 1):
        if want.only_body not in (None, f"lead_link{i}"):
            continue
        end = np.array(arm.links[i][:3] if i < arm.nv else model.body("lead_handle").pos)
        for share in (0.0, 0.5, 1.0):
            anchor = share * end
            for radius in want.radii_m:
                for direction in directions:
                    at = anchor + radius * direction
                    near = any(
                        b == f"lead_link{i}" and np.linalg.norm(at - p) < 0.03 for b, p in blocked
                    )
                    if not near:
                        rows.append((f"lead_link{i}", at, anchor))
    bodies = [row[0] for row in rows]
    at, anchor = (np.array([row[k] for row in rows]) for k in (1, 2))
    room = _room(device, bodies, at, anchor, task.random_poses(arm_name, rng, 150))
    radius = np.minimum(room, PART_RULES.reach_max_m - np.linalg.norm(at, axis=1) - 1e-3)
    biggest = (3 * PART_RULES.geom_volume_max_m3 / (4 * np.pi)) ** (1 / 3)
    radius = np.clip(radius, 0.0, biggest * 0.999)
    mass = 4 / 3 * np.pi * radius**3 * STEEL
    keep = mass > 2 * MIN_MASS_KG
    return Places([b for b, k in zip(bodies, keep) if k], at[keep], anchor[keep], mass[keep])


def _directions() -> np.ndarray:
    """The 26 neighbours of a cube's centre, normalised. Shape (26, 3)."""
    grid = np.stack(np.meshgrid(*[(-1, 0, 1)] * 3), axis=-1).reshape(-1, 3).astype(float)
    grid = grid[np.abs(grid).sum(axis=1) > 0]
    return grid / np.linalg.norm(grid, axis=1)[:, None]


def _room(
    device: scene.Device, bodies: list[str], at: np.ndarray, anchor: np.ndarray, poses: np.ndarray
) -> np.ndarray:
    """Radius of the largest clear ball at each place; negative where its strut collides. Shape (n,)."""
    model, data = device.model, mujoco.MjData(device.model)
    body_id = np.array([model.body(b).id for b in bodies])
    room = np.full(len(at), np.inf)
    along = np.linspace(0.25, 0.8, 4)
    shaft = [anchor + s * (at - anchor) for s in along]
    limit = CLEARANCE.gap_m + MARGIN_M
    for k, pose in enumerate(np.vstack([device.arm.home_rad, poses])):
        data.qpos[:] = pose
        mujoco.mj_kinematics(model, data)
        turn = data.xmat[body_id].reshape(-1, 3, 3)
        origin = data.xpos[body_id]
        world = np.einsum("nij,nj->ni", turn, at) + origin
        rods = [np.einsum("nij,nj->ni", turn, s) + origin for s in shaft]
        room = np.minimum(room, world[:, 2] - CLEARANCE.table_z_m - MARGIN_M)
        for geom in range(model.ngeom):
            foreign = model.geom_bodyid[geom] != body_id
            distance = points_to_geom_m(model, data, geom, world)
            if k == 0:
                room = np.where(foreign, room, np.minimum(room, distance + SINK_M))
            room = np.where(foreign, np.minimum(room, distance - limit), room)
            child = model.body_parentid[model.geom_bodyid[geom]] == body_id
            parent = model.body_parentid[body_id] == model.geom_bodyid[geom]
            for rod in rods:
                hit = points_to_geom_m(model, data, geom, rod) < STRUT_RADIUS_M + limit
                beside = np.linalg.norm(
                    rod - np.where(parent[:, None], origin, data.xpos[model.geom_bodyid[geom]]),
                    axis=1,
                )
                exempt = (child | parent) & (beside < CLEARANCE.joint_exempt_m - 0.012)
                room = np.where(foreign & hit & ~exempt, -1.0, room)
    return room
