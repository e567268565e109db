"""The battery of one arm: three hidden copies, three copies of a reference arm, every measurement.

Every x is the worst over the three copies. What cannot be measured (unstable physics) is infinite.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec
import mujoco
import numpy as np

from families.f09_gello import clearance, metrics, scene, task
from families.f09_gello.devices.draws import Draws
from families.f09_gello.mechanism.record import Lead
from families.f09_gello.software import Answers, Caller, freeze
from families.f09_gello.spec import (
    ARMS,
    CLEARANCE,
    PHYSICS,
    PROTOCOL,
    REFUSED,
    SERVO,
    VALIDITY_WEIGHTS,
)
from rle.errors import SimulationError

Software = Callable[[str, Callable[[Caller], Answers]], Answers]
"""(nominal model as MJCF, what to do with the worker that holds it) -> answers."""


class Worst(msgspec.Struct, frozen=True):
    """A measurement and where its maximum was."""

    x: float
    device: int | None = None
    pose: int | None = None
    joint: int | None = None
    """1-based."""


def worst(tables: Sequence[np.ndarray]) -> Worst:
    """Largest entry over devices (list), poses (rows) and joints (columns)."""
    best = Worst(-math.inf)
    for device, table in enumerate(tables):
        at = np.unravel_index(int(np.argmax(table)), table.shape)
        if table[at] > best.x:
            joint = int(at[1]) + 1 if table.ndim > 1 else None
            best = Worst(float(table[at]), device, int(at[0]), joint)
    return best


class Battery(msgspec.Struct, frozen=True, kw_only=True):
    """All that was measured of one arm."""

    x: dict[str, Worst]
    """By checkpoint; absent where the submitted arm was refused."""
    shortfall: dict[str, float]
    """By validity item, in [0, 1]."""
    mass_kg: float
    trim_faults: int = 0
    timed_out: bool = False
    probes_accepted: int = 0
    """Pairs of arm and copy whose probe plan was accepted, of six."""
    notes: tuple[str, ...] = ()
    diagnostics: dict[str, float] = {}
    """S2 with nominal software, settle speed, push peak and final."""
    series: dict[str, list[float]] = {}
    """Curves of device 0 for the report."""


def measure(lead: Lead, draws: Draws, software: Software) -> Battery:
    """The battery of one arm: validity, the submitted arm's own checkpoints, the reference arm's."""
    refused = any(lead.refused(item) for item in REFUSED)
    device = scene.compose(lead.record)
    diagnostics: dict[str, float] = {}
    shortfall = validity(lead, device, diagnostics)
    x: dict[str, Worst] = {}
    notes: list[str] = []
    answers: list[Answers] = []
    series: dict[str, list[float]] = {}
    if not refused:
        own = _answers("own", lead, draws, software)
        x |= passive(lead, draws, series) | assisted(lead, draws, own, diagnostics, series)
        x["C1"] = clear_share(lead, draws, notes)
        answers += own
    ref = _answers("ref", draws.reference, draws, software)
    x |= reference(draws, ref, diagnostics)
    answers += ref
    notes += sorted({note for a in answers for note in a.notes})
    return Battery(
        x=x,
        shortfall=shortfall,
        mass_kg=device.mass_kg,
        trim_faults=sum(a.faults for a in answers),
        timed_out=any(a.timed_out for a in answers),
        probes_accepted=sum(a.probe_accepted for a in answers),
        notes=tuple(notes),
        diagnostics=diagnostics,
        series=series,
    )


def validity(lead: Lead, device: scene.Device, diagnostics: dict[str, float]) -> dict[str, float]:
    """Shortfall of each validity item on the nominal device; 1 for everything if the file was refused."""
    if lead.refused("load"):
        return dict.fromkeys(VALIDITY_WEIGHTS, 1.0)
    model, parts, springs = device.model, lead.record.parts, lead.record.springs
    try:
        speed = task.settle_speed(model, device.arm)
    except SimulationError:
        speed = math.inf
    diagnostics["settle_rad_s"] = min(speed, 1e3)
    return {
        "load": 1.0 - valid_inertia_share(device),
        "structure": float(lead.refused("structure")),
        "printability": 1.0 - len(parts) / lead.n_parts if lead.n_parts else 0.0,
        "settle": metrics.settle_shortfall(speed),
        "budget": float(lead.refused("budget")),
        "springs_legal": 1.0 - len(springs) / lead.n_springs if lead.n_springs else 0.0,
        "buildable": lead.n_unconnected / lead.n_parts if lead.n_parts else 0.0,
    }


def valid_inertia_share(device: scene.Device) -> float:
    """Share of bodies with positive mass and principal inertias a <= b + c in every order."""
    mass = device.model.body_mass[device.lead_body]
    inertia = np.sort(device.model.body_inertia[device.lead_body], axis=1)
    ok = (
        (mass > 0)
        & (inertia[:, 0] > 0)
        & (inertia[:, 2] <= inertia[:, :2].sum(axis=1) * (1 + 1e-9))
    )
    return float(ok.mean())


# ------------------------------------------------------------------------------ the submitted arm


def _models(lead: Lead, copies: tuple[tuple[dict[str, float], float], ...]) -> list[mujoco.MjModel]:
    return [task.compose(lead, payload, scale) for scale, payload in copies]


def passive(lead: Lead, draws: Draws, series: dict[str, list[float]]) -> dict[str, Worst]:
    """H1, H2, H3: the mechanism alone."""
    models = _models(lead, draws.copies)
    grid = task.workspace_grid(draws.arm)
    poses = np.vstack([grid, draws.residual_poses])
    h1 = [np.abs(task.residual(m, poses)) for m in models]
    paths = [task.sample_path(w, PROTOCOL.backdrive_dt_s) for w in draws.waypoints]
    h3 = [backdrive(m, path) for m, path in zip(models, paths, strict=True)]
    off = np.zeros_like(draws.holds)
    series["t_s"] = (np.arange(len(h3[0])) * PROTOCOL.backdrive_dt_s).tolist()
    series["path_passive_n_m"] = h3[0].max(axis=1).tolist()
    for joint in range(models[0].nv):
        series[f"path_residual_j{joint + 1}_n_m"] = task.residual(models[0], paths[0].q)[
            :, joint
        ].tolist()
    return {
        "H1": worst(h1),
        "H2": worst([holds(m, draws.holds, off) for m in models]),
        "H3": worst(h3),
    }


def backdrive(
    model: mujoco.MjModel, path: task.SampledPath, ff: np.ndarray | None = None
) -> np.ndarray:
    """|tau_a - clip(ff)| + frictionloss + damping |qd|: what a hand must give. Shape (n, nv), N m."""
    torque = task.residual(model, path.q)
    if ff is not None:
        torque = torque - np.clip(ff, -SERVO.limit_n_m, SERVO.limit_n_m)
    friction = PHYSICS.joint_frictionloss_n_m
    return np.abs(torque) + friction + PHYSICS.joint_damping_n_m_s_per_rad * np.abs(path.qd)


def holds(model: mujoco.MjModel, poses: np.ndarray, ff: np.ndarray) -> np.ndarray:
    """Displacement of the end effector after each hold, infinite where physics failed. Shape (n,), m."""
    moved = np.empty(len(poses))
    for k, (pose, torque) in enumerate(zip(poses, ff, strict=True)):
        try:
            moved[k] = task.simulate_hold(model, pose, torque)
        except SimulationError:
            moved[k] = math.inf
    return moved


def clear_share(lead: Lead, draws: Draws, notes: list[str]) -> Worst:
    """C1: share of clear paths; the first offence becomes a note."""
    paths = [task.sample_path(w, CLEARANCE.dt_s).q for w in draws.waypoints]
    share, offence = clearance.share_clear(lead, paths)
    if offence is not None:
        gap_mm = offence.distance_m * 1e3
        notes.append(
            f"clearance: {offence.a} and {offence.b} come to {gap_mm:.2f} mm on a path; "
            f"at least {CLEARANCE.gap_m * 1e3:g} mm (table: 0)"
        )
    return Worst(share)


def assisted(
    lead: Lead,
    draws: Draws,
    answers: Sequence[Answers],
    diagnostics: dict[str, float],
    series: dict[str, list[float]],
) -> dict[str, Worst]:
    """B1, B2, B3, B4: the mechanism with the best software of each pair."""
    models = _models(lead, draws.copies)
    grid = task.trim_grid(draws.arm)
    b1, b2, largest, b4 = [], [], [], []
    for k, (model, answer) in enumerate(zip(models, answers, strict=True)):
        path = task.sample_path(draws.waypoints[k], PROTOCOL.backdrive_dt_s)
        ff = answer.best or {
            "holds": np.zeros_like(draws.holds), "path": np.zeros_like(path.q), "grid": np.zeros_like(grid)
        }  # fmt: skip
        b1.append(holds(model, draws.holds, ff["holds"]))
        b2.append(backdrive(model, path, ff["path"]))
        largest.append(np.abs(ff["grid"]) if answer.best else np.full(grid.shape, math.inf))
        hardest = int(np.abs(ff["grid"]).max(axis=1).argmax())
        pushed = PROTOCOL.push_hold_poses
        poses = np.vstack([draws.holds[:pushed], grid[hardest]])
        torques = np.vstack([ff["holds"][:pushed], ff["grid"][hardest]])
        runs = np.array([_push(model, q, t) for q, t in zip(poses, torques, strict=True)])
        b4.append(np.array([metrics.push_m(peak, final) for peak, final in runs]))
        for name, column in (("push_peak_m", 0), ("push_final_m", 1)):
            diagnostics[name] = max(
                diagnostics.get(name, 0.0), float(min(runs[:, column].max(), 10.0))
            )
        if k == 0:
            series |= _pictured(model, draws, ff, b2[0])
    most = worst(largest)
    return {
        "B1": worst(b1),
        "B2": worst(b2),
        "B3": Worst(metrics.headroom_n_m(most.x), most.device, most.pose, most.joint),
        "B4": worst(b4),
    }


def _push(model: mujoco.MjModel, q: np.ndarray, ff: np.ndarray) -> tuple[float, float]:
    try:
        return task.simulate_push(model, q, ff)
    except SimulationError:
        return math.inf, math.inf


def _pictured(
    model: mujoco.MjModel, draws: Draws, ff: Mapping[str, np.ndarray], assisted_path: np.ndarray
) -> dict[str, list[float]]:
    """Curves of the first hold and push of device 0, 50 points a second at most."""
    curves = {"path_assisted_n_m": assisted_path.max(axis=1).tolist()}
    try:
        pose, torque, seconds = draws.holds[0], ff["holds"][0], PROTOCOL.hold_s
        hold = task.servo_run(model, pose, torque, seconds, is_recorded=True)
        passive_hold = task.servo_run(model, pose, 0 * torque, seconds, is_recorded=True)
        push = task.servo_run(
            model, draws.holds[0], ff["holds"][0], PROTOCOL.push_s, PROTOCOL.push_n
        )
    except SimulationError:
        return curves
    stride = 10
    for name, trace in (("hold", hold), ("hold_passive", passive_hold), ("push", push)):
        points = trace.displacement_m[stride - 1 :: stride]
        curves[f"{name}_t_s"] = (
            np.arange(1, len(points) + 1) * stride * PHYSICS.timestep_s
        ).tolist()
        curves[f"{name}_m"] = points.tolist()
    return curves


# ------------------------------------------------------------------------------- the reference arm


def _answers(whose: str, lead: Lead, draws: Draws, software: Software) -> list[Answers]:
    """Software of each copy, frozen. `whose`: own or ref."""
    arm = ARMS[draws.arm]
    copies = draws.copies if whose == "own" else draws.reference_copies
    poses = draws.holds if whose == "own" else draws.reference_holds
    grid = {"grid": task.trim_grid(draws.arm)} if whose == "own" else {}
    model_xml = scene.nominal_xml(lead.record)
    frozen = []
    for k, device in enumerate(_models(lead, copies)):
        path = task.sample_path(draws.waypoints[k], PROTOCOL.backdrive_dt_s)
        asked = {"holds": poses, "path": path.q, **grid}
        noise = draws.probe_noise[whose][k]

        def use(worker: Caller, device=device, asked=asked, noise=noise) -> Answers:
            return freeze(worker, arm, lambda q: task.run_probe(device, q, noise), asked)

        try:
            frozen.append(software(model_xml, use))
        except SimulationError:
            frozen.append(Answers(notes=("software absent: a probe was unstable",)))
    return frozen


def reference(
    draws: Draws, answers: Sequence[Answers], diagnostics: dict[str, float]
) -> dict[str, Worst]:
    """S2a and S2b: adapted software on the reference arm; absent software leaves them unmeasured."""
    models = _models(draws.reference, draws.reference_copies)
    x: dict[str, Worst] = {}
    for tier in ("adapted", "nominal"):
        tables = [getattr(answer, tier) for answer in answers]
        if any(table is None for table in tables):
            continue
        paths = [task.sample_path(w, PROTOCOL.backdrive_dt_s) for w in draws.waypoints]
        hold = worst(
            [
                holds(m, draws.reference_holds, t["holds"])
                for m, t in zip(models, tables, strict=True)
            ]
        )
        drive = worst(
            [backdrive(m, p, t["path"]) for m, p, t in zip(models, paths, tables, strict=True)]
        )
        if tier == "adapted":
            x = {"S2a": hold, "S2b": drive}
        else:
            diagnostics |= {
                "s_tier_nominal_hold_m": min(hold.x, 10.0),
                "s_tier_nominal_backdrive_n_m": drive.x,
            }
    return x
