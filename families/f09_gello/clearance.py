"""Distances between parts: what is buildable (touching, not overlapping) and what collides on a path.

Distances are MuJoCo's signed ones (negative inside, so that a part within another is found). A mesh
counts as its convex hull.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np

from families.f09_gello.mechanism.record import Finding, Lead, Part
from families.f09_gello.mechanism.rules import without
from families.f09_gello.scene import Device, compose, mesh_fault
from families.f09_gello.spec import CLEARANCE, PART_RULES

_FAR_M = 0.05
"""Distances beyond this are not resolved; every limit is far below."""
_SAMPLES_PER_AXIS = 9
"""Grid of the shared-volume test along each axis of a part's bounding box."""


def home_data(device: Device) -> mujoco.MjData:
    """State at the home pose with all positions computed."""
    data = mujoco.MjData(device.model)
    data.qpos[:] = device.arm.home_rad
    mujoco.mj_kinematics(device.model, data)
    return data


def distance_m(device: Device, data: mujoco.MjData, a: int, b: int) -> float:
    """Signed distance between two geoms, at most `_FAR_M`."""
    return mujoco.mj_geomDistance(device.model, data, a, b, _FAR_M, None)


# -------------------------------------------------------------------------------------- buildable


def drop_unbuildable(lead: Lead) -> Lead:
    """Drops metal that overlaps, printed parts that hide in others, and parts that hang in the air.

    In document order: a `cw_*` that sinks more than `overlap_max_m` into an accepted `cw_*` of its body or
    into a stock part of its body; a `sup_*` with more than `shared_volume_max` of its volume inside
    accepted parts of its body. Then everything without a chain of touching parts to a stock part of its body.
    """
    lead = _drop_unreadable_meshes(lead)
    device = compose(lead.record)
    data = home_data(device)
    dropped: dict[str, Finding] = {}
    accepted: list[Part] = []
    for part in sorted(lead.record.parts, key=lambda p: not p.is_metal):
        fault = (
            _overlap(device, data, part, accepted)
            if part.is_metal
            else _hidden(device, data, part, accepted)
        )
        if fault:
            dropped[part.name] = Finding("dropped", "part.overlap", part.name, fault)
        else:
            accepted.append(part)
    loose = _unconnected(device, data, accepted)
    gap_mm = PART_RULES.touch_gap_m * 1e3
    for part in loose:
        message = f"no chain of parts with gaps of at most {gap_mm:g} mm leads to a stock part of {part.body}"
        dropped[part.name] = Finding("dropped", "part.unconnected", part.name, message)
    return without(lead, dropped, len(loose))


def _drop_unreadable_meshes(lead: Lead) -> Lead:
    """Drops the parts of closed surfaces that MuJoCo still cannot build."""
    faults = {name: mesh_fault(mesh) for name, mesh in lead.record.meshes.items()}
    dropped = {
        part.name: Finding(
            "dropped", "mesh.illegal", part.name, f"its mesh cannot be built: {fault}"
        )
        for part in lead.record.parts
        if (fault := faults.get(part.mesh, ""))
    }
    return without(lead, dropped)


def _stock_geoms(device: Device, body: str) -> list[int]:
    added = set(device.added_geom.values())
    body_id = device.model.body(body).id
    return [
        g
        for g in range(device.model.ngeom)
        if device.model.geom_bodyid[g] == body_id and g not in added
    ]


def _overlap(device: Device, data: mujoco.MjData, part: Part, accepted: Sequence[Part]) -> str:
    others = {
        p.name: device.added_geom[p.name] for p in accepted if p.body == part.body and p.is_metal
    }
    others |= {device.model.geom(g).name: g for g in _stock_geoms(device, part.body)}
    for name, geom in others.items():
        depth = -distance_m(device, data, device.added_geom[part.name], geom)
        if depth > PART_RULES.overlap_max_m:
            limit = PART_RULES.overlap_max_m * 1e3
            return f"overlaps {name} by {depth * 1e3:.3g} mm; at most {limit:g} mm"
    return ""


def _hidden(device: Device, data: mujoco.MjData, part: Part, accepted: Sequence[Part]) -> str:
    geom = device.added_geom[part.name]
    points = _points_inside(device.model, data, geom)
    if not len(points):
        return ""
    inside = np.zeros(len(points), dtype=bool)
    for other in accepted:
        if other.body == part.body:
            inside |= contains(device.model, data, device.added_geom[other.name], points)
    share = float(inside.mean())
    if share <= PART_RULES.shared_volume_max:
        return ""
    return f"{share:.0%} of it lies inside other added parts; at most {PART_RULES.shared_volume_max:.0%}"


def _points_inside(model: mujoco.MjModel, data: mujoco.MjData, geom: int) -> np.ndarray:
    """World points of a regular grid that lie in a geom. Shape (n, 3), m."""
    centre, half = model.geom_aabb[geom, :3], model.geom_aabb[geom, 3:]
    steps = (np.arange(_SAMPLES_PER_AXIS) + 0.5) / _SAMPLES_PER_AXIS * 2 - 1
    grid = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(-1, 3) * half + centre
    world = grid @ data.geom_xmat[geom].reshape(3, 3).T + data.geom_xpos[geom]
    return world[contains(model, data, geom, world)]


def contains(
    model: mujoco.MjModel, data: mujoco.MjData, geom: int, points: np.ndarray
) -> np.ndarray:
    """Which world points lie in a geom (a mesh: in its bounding ellipsoid). Shape (n,), bool."""
    local = (points - data.geom_xpos[geom]) @ data.geom_xmat[geom].reshape(3, 3)
    size, kind = model.geom_size[geom], mujoco.mjtGeom(model.geom_type[geom])
    radial = np.hypot(local[:, 0], local[:, 1])
    match kind:
        case mujoco.mjtGeom.mjGEOM_SPHERE:
            return np.linalg.norm(local, axis=1) <= size[0]
        case mujoco.mjtGeom.mjGEOM_BOX:
            return (np.abs(local) <= size).all(axis=1)
        case mujoco.mjtGeom.mjGEOM_CYLINDER:
            return (radial <= size[0]) & (np.abs(local[:, 2]) <= size[1])
        case mujoco.mjtGeom.mjGEOM_CAPSULE:
            beyond = np.maximum(np.abs(local[:, 2]) - size[1], 0.0)
            return np.hypot(radial, beyond) <= size[0]
    half = model.geom_aabb[geom, 3:] if kind == mujoco.mjtGeom.mjGEOM_MESH else size
    return ((local / half) ** 2).sum(axis=1) <= 1.0


def _unconnected(device: Device, data: mujoco.MjData, accepted: Sequence[Part]) -> list[Part]:
    """Parts that no chain of gaps up to `touch_gap_m` joins to a stock part of their body."""
    loose, reached = (
        list(accepted),
        [_stock_geoms(device, body) for body in {p.body for p in accepted}],
    )
    frontier = [g for geoms in reached for g in geoms]
    while frontier:
        touching = [
            part
            for part in loose
            if any(
                device.model.geom_bodyid[g]
                == device.model.geom_bodyid[device.added_geom[part.name]]
                and distance_m(device, data, device.added_geom[part.name], g)
                <= PART_RULES.touch_gap_m
                for g in frontier
            )
        ]
        loose = [part for part in loose if part not in touching]
        frontier = [device.added_geom[part.name] for part in touching]
    return loose


# ------------------------------------------------------------------------------------------ paths


class Offence(NamedTuple):
    """The first pair that comes too close on a path."""

    path: int
    pose: int
    a: str
    b: str
    distance_m: float


class Pairs(NamedTuple):
    """Candidate pairs of geoms, one entry each."""

    a: np.ndarray
    b: np.ndarray
    joint_body: np.ndarray
    """Body whose origin is the common joint of parent and child, -1 for other pairs."""


def candidate_pairs(device: Device) -> Pairs:
    """All pairs with at least one added geom on different bodies."""
    model, added = device.model, sorted(device.added_geom.values())
    rows = []
    for a in added:
        for b in range(model.ngeom):
            body_a, body_b = model.geom_bodyid[a], model.geom_bodyid[b]
            if body_a == body_b or (b in added and b < a):
                continue
            child = -1
            if model.body_parentid[body_a] == body_b:
                child = body_a
            elif model.body_parentid[body_b] == body_a:
                child = body_b
            rows.append((a, b, child))
    table = np.array(rows, dtype=int).reshape(-1, 3)
    return Pairs(table[:, 0], table[:, 1], table[:, 2])


def near(device: Device, geom_xpos: np.ndarray, pairs: Pairs) -> np.ndarray:
    """Which pairs have bounding spheres closer than the gap.

    Args:
        device: The composed arm.
        geom_xpos: Centres of all geoms. Shape (n, ngeom, 3), m.
        pairs: m candidates.

    Returns:
        Shape (n, m), bool.
    """
    radius = device.model.geom_rbound
    reach = radius[pairs.a] + radius[pairs.b] + CLEARANCE.gap_m
    squared = np.zeros((len(geom_xpos), len(pairs.a)))
    for coordinate in np.moveaxis(geom_xpos, 2, 0):  # one at a time: a third of the memory traffic
        apart = coordinate[:, pairs.a] - coordinate[:, pairs.b]
        squared += apart * apart
    return squared < reach**2


def centres_m(device: Device, path: np.ndarray) -> np.ndarray:
    """Centres of all geoms at every pose. Shape (n, ngeom, 3), m."""
    data = mujoco.MjData(device.model)
    out = np.empty((len(path), device.model.ngeom, 3))
    for row, pose in zip(out, path, strict=True):
        data.qpos[:] = pose
        mujoco.mj_kinematics(device.model, data)
        row[:] = data.geom_xpos
    return out


def lowest_m(device: Device, data: mujoco.MjData, geom: int) -> float:
    """Height of the lowest point of a geom: z - max over the shape of -e_z . x."""
    model = device.model
    down = -data.geom_xmat[geom].reshape(3, 3)[2]
    size, z = model.geom_size[geom], data.geom_xpos[geom, 2]
    side = math.hypot(down[0], down[1])
    match mujoco.mjtGeom(model.geom_type[geom]):
        case mujoco.mjtGeom.mjGEOM_SPHERE:
            return float(z - size[0])
        case mujoco.mjtGeom.mjGEOM_CAPSULE:
            return float(z - size[1] * abs(down[2]) - size[0])
        case mujoco.mjtGeom.mjGEOM_CYLINDER:
            return float(z - size[1] * abs(down[2]) - size[0] * side)
        case mujoco.mjtGeom.mjGEOM_BOX:
            return float(z - size @ np.abs(down))
        case mujoco.mjtGeom.mjGEOM_ELLIPSOID:
            return float(z - np.linalg.norm(size * down))
    mesh = model.geom_dataid[geom]
    start = model.mesh_vertadr[mesh]
    vertices = model.mesh_vert[start : start + model.mesh_vertnum[mesh]]
    return float(z - (vertices @ down).max())


def first_offence(device: Device, path: np.ndarray, index: int = 0) -> Offence | None:
    """The first pose of a path at which added parts come too close to another body or the table.

    Args:
        device: The composed arm.
        path: Poses, shape (n, nv), rad.
        index: Number of the path, for the answer.
    """
    model, data = device.model, mujoco.MjData(device.model)
    pairs, ends = candidate_pairs(device), np.zeros(6)
    centres = centres_m(device, path)
    close = near(device, centres, pairs)
    base = model.body("lead_base").id
    moving = np.array(
        [g for g in device.added_geom.values() if model.geom_bodyid[g] != base], dtype=int
    )
    low = centres[:, moving, 2] - model.geom_rbound[moving] < CLEARANCE.table_z_m
    ga, gb, child = pairs.a.tolist(), pairs.b.tolist(), pairs.joint_body.tolist()
    for k in np.flatnonzero(close.any(axis=1) | low.any(axis=1)):
        data.qpos[:] = path[k]
        mujoco.mj_kinematics(model, data)
        for geom in moving[low[k]]:
            above = lowest_m(device, data, geom) - CLEARANCE.table_z_m
            if above < 0:
                return Offence(index, int(k), model.geom(geom).name, "table", above)
        for i in np.flatnonzero(close[k]).tolist():
            a, b = ga[i], gb[i]
            gap = mujoco.mj_geomDistance(model, data, a, b, CLEARANCE.gap_m, ends)
            if gap < CLEARANCE.gap_m and not _exempt(data, child[i], ends):
                gap = mujoco.mj_geomDistance(model, data, a, b, _FAR_M, ends)
                return Offence(index, int(k), model.geom(a).name, model.geom(b).name, float(gap))
    return None


def _exempt(data: mujoco.MjData, child: int, ends: np.ndarray) -> bool:
    """Whether both nearest points lie beside the common joint of parent and child (-1: no such joint)."""
    if child < 0:
        return False
    joint, points, limit = data.xpos[child].tolist(), ends.tolist(), CLEARANCE.joint_exempt_m
    return math.dist(points[:3], joint) <= limit and math.dist(points[3:], joint) <= limit


def share_clear(lead: Lead, paths: Sequence[np.ndarray]) -> tuple[float, Offence | None]:
    """Share of paths without an offence, and the first offence found.

    Args:
        lead: The arm; distances do not depend on masses.
        paths: Poses of each path, shape (n, nv), rad.
    """
    device = compose(lead.record)
    offences = [first_offence(device, path, i) for i, path in enumerate(paths)]
    found = [offence for offence in offences if offence is not None]
    return 1.0 - len(found) / len(offences), found[0] if found else None
