"""Places springs and counterweights of the f09 oracle: a linear program, then real parts with clearance.

The residual torque is linear in k, k x springref, and in the mass at any fixed place of a link:

    tau(q) = g(q) + sum_j e_j (k_j (q_j - h_j) - c_j) + sum_i m_i y_i(q),   |c_j| <= 1.2 k_j,  m_i <= m_i,max

so the smallest largest residual over sampled poses is a linear program. The places are a grid around each link,
kept where a ball (and the strut that carries it) stays clear of everything else in the workspace; m_i,max is the
heaviest steel ball that does. Its optimum uses few places; those become steel balls on printed struts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import mujoco
import numpy as np
from scipy.optimize import linprog

from families.f09_gello import clearance, scene, task
from families.f09_gello.mechanism.record import Lead, Part, Record, Spring
from families.f09_gello.spec import ARMS, CLEARANCE, DEVICES, PART_RULES, PHYSICS

STEEL = PART_RULES.metal_density_kg_m3[0]
PLASTIC = PART_RULES.fill_density_kg_m3[1]
STRUT_RADIUS_M = 0.005
MARGIN_M = 0.0015
"""Kept beside the 2 mm of the card, for poses between the samples."""
SINK_M = 0.0004
"""How far a ball sinks into what it touches; the card allows 1 mm."""
RADII_M = (0.03, 0.045, 0.06, 0.08, 0.10, 0.12)
"""Distances of the places from points on a link."""
OVERSWING = 1.5
"""Stretch of the workspace within which a pushed arm must come back."""
OVERSWING_SLACK_N_M = 0.10
"""Residual allowed there beyond that of the workspace."""
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
    spring_joints: tuple[int, ...] | None = None
    """1-based; None: all but the first."""


def ball_radius_m(mass_kg: float) -> float:
    """Radius of a steel ball."""
    return float((3 * mass_kg / (4 * np.pi * STEEL)) ** (1 / 3))


def sample_poses(arm: str, rng: np.random.Generator, count: int) -> np.ndarray:
    """Corners of the workspace and random poses. Shape (n, nv)."""
    corners = task.workspace_grid(arm)
    return np.vstack([corners, task.random_poses(arm, rng, count)])


def wider_poses(arm: str, rng: np.random.Generator, count: int) -> np.ndarray:
    """Random poses of the workspace stretched by `OVERSWING`: where a push may carry the arm."""
    home = np.array(ARMS[arm].home_rad)
    return home + OVERSWING * (task.random_poses(arm, rng, count) - home)


# ------------------------------------------------------------------------------------- the places


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
    blocked: Sequence[tuple[str, np.ndarray]],
    only_body: str | None = None,
) -> Places:
    """Grid around every moving link, with the heaviest clear ball of each place.

    Args:
        arm_name: The arm.
        rng: Draws the poses that clearance is looked at.
        blocked: Places (body, at_m) that an earlier design found wanting; a ball's width around is left out.
        only_body: Link that may carry balls; None: every moving one.
    """
    device = scene.stock_device(arm_name)
    model, arm = device.model, ARMS[arm_name]
    directions = _directions()
    rows: list[tuple[str, np.ndarray, np.ndarray]] = []
    for i in range(2, arm.nv + 1):
        if only_body not in (None, f"lead_link{i}"):
            continue
        end = np.array(arm.links[i][:3] if i < arm.nv else model.body("lead_handle").pos)
        for share in (0.0, 0.5, 1.0):
            anchor = share * end
            for radius in RADII_M:
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


# ------------------------------------------------------------------------------ the linear program


def torque_columns(
    arm_name: str, bodies: Sequence[str], at_m: np.ndarray, poses: np.ndarray
) -> np.ndarray:
    """Torque of one kilogram at each place. Shape (n poses, nv, n places), N m."""
    model = scene.stock_device(arm_name).model
    data = mujoco.MjData(model)
    jacobian = np.zeros((3, model.nv))
    body_id = [model.body(b).id for b in bodies]
    out = np.empty((len(poses), model.nv, len(bodies)))
    for row, pose in zip(out, poses, strict=True):
        data.qpos[:] = pose
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        base: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for i, b in enumerate(body_id):
            if b not in base:
                turning = np.zeros((3, model.nv))
                mujoco.mj_jac(model, data, jacobian, turning, data.xpos[b], b)
                base[b] = (jacobian[2].copy(), turning)
            up, turning = base[b]
            arm_vector = data.xmat[b].reshape(3, 3) @ at_m[i]
            row[:, i] = PHYSICS.gravity_m_s2 * (
                up + turning[0] * arm_vector[1] - turning[1] * arm_vector[0]
            )
    return out


def solve(
    record: Record, places: Places, poses: np.ndarray, slack_n_m: np.ndarray, want: Want
) -> tuple[tuple[Spring, ...], np.ndarray, float]:
    """Springs and masses with the smallest largest residual over light and heavy payloads.

    Args:
        record: Parts that are already there (struts); its springs are ignored.
        places: Candidate places.
        poses: Shape (n, nv).
        slack_n_m: Residual allowed at each pose beyond the smallest largest one. Shape (n,).
        want: Limits.

    Returns:
        Springs, mass at each place (kg), largest residual (N m).
    """
    arm = ARMS[record.arm]
    bare = msgspec.structs.replace(record, springs=())
    payloads = (DEVICES.payload_low_kg, DEVICES.payload_high_kg)
    gravity = [task.gravity_torque(scene.compose(bare, p).model, poses) for p in payloads]
    columns = torque_columns(record.arm, places.body, places.at_m, poses)
    joints = [j - 1 for j in (want.spring_joints or range(2, arm.nv + 1))]
    n, ns = len(places.body), len(joints)
    # Variables: t, k (ns), c (ns), m (n). Torque of a spring: k (q - home) - c.
    block = np.zeros((len(poses), arm.nv, 2 * ns + n))
    for s, j in enumerate(joints):
        block[:, j, s] = poses[:, j] - arm.home_rad[j]
        block[:, j, ns + s] = -1.0
    block[:, :, 2 * ns :] = columns
    flat = block.reshape(-1, 2 * ns + n)
    ones = np.ones((len(flat), 1))
    slack = np.repeat(slack_n_m, arm.nv)
    rows, limits = [], []
    for g in gravity:
        rows += [np.hstack([-ones, flat]), np.hstack([-ones, -flat])]
        limits += [slack - g.ravel(), slack + g.ravel()]
    for sign in (1.0, -1.0):  # +-c <= 1.2 k, a little inside
        row = np.zeros((ns, 1 + 2 * ns + n))
        row[:, 1 : 1 + ns] = -PART_RULES.preload_max_rad * 0.999 * np.eye(ns)
        row[:, 1 + ns : 1 + 2 * ns] = sign * np.eye(ns)
        rows.append(row)
        limits.append(np.zeros(ns))
    total = np.zeros((1, 1 + 2 * ns + n))
    total[0, 1 + 2 * ns :] = 1.0
    rows.append(total)
    limits.append(np.array([want.mass_max_kg]))
    cost = np.concatenate([[1.0], np.zeros(2 * ns), np.full(n, want.mass_weight)])
    bounds = (
        [(0, None)] + [(0, PART_RULES.stiffness_max_n_m_per_rad * 0.999)] * ns + [(None, None)] * ns
    )
    bounds += [(0, m) for m in places.mass_max_kg]
    result = linprog(cost, np.vstack(rows), np.concatenate(limits), bounds=bounds, method="highs")
    if result.status != 0:
        raise RuntimeError(f"{record.arm}: the linear program ended with {result.message}")
    k, c = result.x[1 : 1 + ns], result.x[1 + ns : 1 + 2 * ns]
    springs = tuple(
        Spring(j + 1, round(float(k[s]), 5), round(arm.home_rad[j] + float(c[s] / k[s]), 5))
        for s, j in enumerate(joints)
        if k[s] > 1e-3
    )
    return springs, result.x[1 + 2 * ns :], float(result.x[0])


# ------------------------------------------------------------------------------------- real parts


def strut(name: str, body: str, start: np.ndarray, end: np.ndarray) -> Part:
    """A printed rod from the link's axis into a ball."""
    middle, along = (start + end) / 2, end - start
    length = float(np.linalg.norm(along))
    quat = np.zeros(4)
    mujoco.mju_quatZ2Vec(quat, along / length)
    return Part(
        name, body, "capsule", (STRUT_RADIUS_M, round(length / 2, 6)), tuple(middle.round(6).tolist()),
        tuple(quat.tolist()), PLASTIC,
    )  # fmt: skip


def parts_for(places: Places, masses: np.ndarray, struts: int = 1) -> tuple[Part, ...]:
    """Steel balls of the given masses, each on one strut or on two that spread along the link's axis."""
    parts: list[Part] = []
    for i, mass in enumerate(masses):
        radius = round(ball_radius_m(float(mass)), 6)
        body, at, anchor = places.body[i], places.at_m[i], places.anchor_m[i]
        parts.append(
            Part(
                f"cw_{i + 1}",
                body,
                "sphere",
                (radius,),
                tuple(at.round(6).tolist()),
                (1.0, 0.0, 0.0, 0.0),
                STEEL,
            )
        )
        inward = at + (anchor - at) * max(0.0, (radius - 0.006) / np.linalg.norm(at - anchor))
        if struts == 1:
            parts.append(strut(f"sup_{i + 1}", body, anchor, inward))
            continue
        for side, foot in zip("ab", _feet(body, anchor), strict=True):
            parts.append(strut(f"sup_{i + 1}{side}", body, foot, inward))
    return tuple(parts)


def _feet(body: str, anchor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two points of a link's capsule axis around (or beside) the anchor."""
    length = float(np.linalg.norm(anchor))
    along = anchor / length if length > 0 else np.array([0.0, 0.0, 1.0])
    spread = 0.008
    return anchor - spread * along, anchor + spread * along


def _take(places: Places, index: np.ndarray) -> Places:
    return Places(
        [places.body[i] for i in index],
        places.at_m[index],
        places.anchor_m[index],
        places.mass_max_kg[index],
    )


def _spread(places: Places, masses: np.ndarray, balls_max: int) -> np.ndarray:
    """Heaviest places whose balls do not overlap on their body. Indices."""
    chosen: list[int] = []
    for i in np.argsort(-masses):
        if masses[i] < MIN_MASS_KG or len(chosen) == balls_max:
            break
        r = ball_radius_m(float(max(masses[i], 0.02)))
        if all(
            places.body[i] != places.body[j]
            or np.linalg.norm(places.at_m[i] - places.at_m[j]) > r + ball_radius_m(float(masses[j]))
            for j in chosen
        ):
            chosen.append(int(i))
    return np.array(chosen, dtype=int)


def _best_single(
    arm_name: str,
    places: Places,
    masses: np.ndarray,
    poses: np.ndarray,
    slack_n_m: np.ndarray,
    want: Want,
) -> Places:
    """Several balls of one link act like one at their centroid: the best of the places around it."""
    centroid = masses @ places.at_m / masses.sum()
    nearest = np.argsort(np.linalg.norm(places.at_m - centroid, axis=1))[:40]
    singles = [_take(places, np.array([i])) for i in nearest]
    left = [solve(Record(arm_name), single, poses, slack_n_m, want)[2] for single in singles]
    return singles[int(np.argmin(left))]


def design(
    arm_name: str,
    want: Want,
    rng: np.random.Generator,
    only_body: str | None = None,
    struts: int = 1,
) -> Lead:
    """A legal, clear arm with springs, balls and struts.

    Raises:
        RuntimeError: No clear design after several rounds.
    """
    inside, wide = sample_poses(arm_name, rng, 150), wider_poses(arm_name, rng, 120)
    poses = np.vstack([inside, wide])
    slack = np.repeat([0.0, OVERSWING_SLACK_N_M], [len(inside), len(wide)])
    check = [task.teleop_path(arm_name, rng, CLEARANCE.dt_s).q for _ in range(12)]
    blocked: list[tuple[str, np.ndarray]] = []
    for _ in range(12):
        places = find_places(
            arm_name, np.random.default_rng(int(rng.integers(2**31))), blocked, only_body
        )
        _, masses, _ = solve(Record(arm_name), places, poses[::4], slack[::4], want)
        if want.balls_max == 1:
            places = _best_single(arm_name, places, masses, poses[::4], slack[::4], want)
        else:
            places = _take(places, _spread(places, masses, want.balls_max))
        record = Record(arm_name)
        masses = np.full(len(places.body), MIN_MASS_KG)
        for _ in range(4):  # the struts weigh something; their length depends on the balls
            rods = tuple(p for p in parts_for(places, masses, struts) if not p.is_metal)
            springs, masses, largest = solve(
                Record(arm_name, parts=rods), places, poses, slack, want
            )
            keep = np.flatnonzero(masses >= MIN_MASS_KG)
            places, masses = _take(places, keep), masses[keep]
            record = Record(arm_name, springs=springs, parts=parts_for(places, masses, struts))
        lead = clearance.drop_unbuildable(
            Lead(record=record, n_parts=len(record.parts), n_springs=len(springs))
        )
        device = scene.compose(lead.record)
        offences = [clearance.first_offence(device, path) for path in check]
        named = {n for o in offences if o for n in (o.a, o.b)} | {f.element for f in lead.findings}
        bad = [
            i
            for i in range(len(masses))
            if any(n.rstrip("ab") in (f"cw_{i + 1}", f"sup_{i + 1}") for n in named)
        ]
        print(
            f"{arm_name}: {len(masses)} balls, {device.mass_kg:.3f} kg, largest residual {largest:.4f} N m, "
            f"wanting {[(places.body[i], places.at_m[i].round(3).tolist()) for i in bad]} {sorted(named)}",
            flush=True,
        )
        if not bad:
            return lead
        blocked += [(places.body[bad[0]], places.at_m[bad[0]])]
    raise RuntimeError(f"{arm_name}: no clear design")
