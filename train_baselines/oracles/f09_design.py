"""Places springs and counterweights of the f09 oracle: a linear program, then real parts with clearance.

The residual torque is linear in k, k x springref, and in the mass at any fixed place of a link:

    tau(q) = g(q) + sum_j e_j (k_j (q_j - h_j) - c_j) + sum_i m_i y_i(q),   |c_j| <= 1.2 k_j,  m_i <= m_i,max

so the smallest largest residual over sampled poses is a linear program. The places are a grid around each link,
kept where a ball (and the strut that carries it) stays clear of everything else in the workspace; m_i,max is the
heaviest steel ball that does. Its optimum uses few places; those become steel balls on printed struts.
"""

from collections.abc import Sequence

import msgspec
import mujoco
import numpy as np
from scipy.optimize import linprog

from families.f09_gello import clearance, scene, task
from families.f09_gello.mechanism.record import Lead, Part, Record, Spring
from families.f09_gello.spec import ARMS, CLEARANCE, DEVICES, PART_RULES, PHYSICS
from train_baselines.oracles.f09_places import (
    MIN_MASS_KG,
    PLASTIC,
    STEEL,
    STRUT_RADIUS_M,
    Places,
    Want,
    find_places,
)

OVERSWING = 1.5
"""Stretch of the workspace within which a pushed arm must come back."""
OVERSWING_SLACK_N_M = 0.10
"""Residual allowed there beyond that of the workspace."""


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
            arm_name, np.random.default_rng(int(rng.integers(2**31))), want, blocked
        )
        _, masses, _ = solve(Record(arm_name), places, poses[::4], slack[::4], want)
        if want.balls_max == 1:
            places = _best_single(arm_name, places, masses, poses[::4], slack[::4], want)
        else:
            places = _take(places, _spread(places, masses, want.balls_max))
        record = Record(arm_name)
        masses = np.full(len(places.body), MIN_MASS_KG)
        for _ in range(4):  # the struts weigh something; their length depends on the balls
            rods = tuple(p for p in parts_for(places, masses, want.struts) if not p.is_metal)
            springs, masses, largest = solve(
                Record(arm_name, parts=rods), places, poses, slack, want
            )
            keep = np.flatnonzero(masses >= MIN_MASS_KG)
            places, masses = _take(places, keep), masses[keep]
            record = Record(arm_name, springs=springs, parts=parts_for(places, masses, want.struts))
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
