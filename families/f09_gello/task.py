"""E_dev and E_eval of f09: read a lead arm, build it, and measure it. It measures; metrics.py judges.

Poses are joint angles in rad, shape (nv,) or (n, nv); torques N m; lengths m. Randomness comes in as a
generator.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import mujoco
import numpy as np

from families.f09_gello import clearance, scene
from families.f09_gello.mechanism.record import Finding, Lead, Record, Spring, volume_m3
from families.f09_gello.mechanism.rules import read
from families.f09_gello.spec import (
    ARM_NAMES,
    ARMS,
    DEVICES,
    PART_RULES,
    PHYSICS,
    PROTOCOL,
    REFERENCE_SPRINGS,
    SERVO,
    Arm,
    payload_band_kg,
)
from rle.errors import UserError
from rle.sim import guard

_clip: np.ufunc = np.core.umath.clip  # ty: ignore[possibly-missing-submodule]
"""The ufunc inside `np.clip`, whose wrapper costs as much as a physics step of a lead arm."""

# ------------------------------------------------------------------------------ reading, composing


def load_lead(path: Path, arm: str) -> Lead:
    """Reads `lead.xml` (and the STL files beside it) as the verifier will.

    Args:
        path: The file, or the folder that holds it.
        arm: `franka`, `ur5e` or `xarm7`.

    Raises:
        UserError: No such file.
    """
    file = path / "lead.xml" if path.is_dir() else path
    if not file.is_file():
        raise UserError(
            f"{file} is missing; start from starter/{arm}/lead.xml", code="file.missing"
        )
    meshes = {f.name: f.read_bytes() for f in sorted(file.parent.glob("*.stl"))}
    return accept(arm, file.read_bytes(), meshes)


def accept(
    arm: str,
    xml: bytes,
    meshes: Mapping[str, bytes],
    lines: Sequence[int] = (),
    mesh_faults: Mapping[str, str] | None = None,
) -> Lead:
    """Text and mesh files to a lead: every rule of the card applied, every finding kept.

    Args: as `mechanism.rules.read`.
    """
    lead = read(arm, xml, meshes, lines, mesh_faults)
    if lead.refused("load"):
        return lead
    lead = clearance.drop_unbuildable(lead)
    mass_kg, limit = scene.compose(lead.record).mass_kg, PART_RULES.device_mass_max_kg
    if mass_kg <= limit:
        return lead
    parts = {p.name: p.density_kg_m3 * volume_m3(p, lead.record.meshes) for p in lead.record.parts}
    heaviest = sorted(parts, key=lambda name: -parts[name])[:3]
    named = ", ".join(f"{name} {parts[name]:.3f} kg" for name in heaviest)
    message = f"the device weighs {mass_kg:.4f} kg; at most {limit:g} kg. Heaviest parts: {named}"
    over = Finding("refused", "budget.mass", "lead_base", message)
    return msgspec.structs.replace(lead, findings=(*lead.findings, over))


def compose(
    lead: Lead,
    payload_kg: float = DEVICES.payload_nominal_kg,
    mass_scale: Mapping[str, float] | None = None,
) -> mujoco.MjModel:
    """The model that the verifier builds of a lead; see `scene.compose`."""
    return scene.compose(lead.record, payload_kg, mass_scale).model


# -------------------------------------------------------------------------------- hidden or public


def sample_device(
    arm: str, rng: np.random.Generator, device: int | None = None
) -> tuple[dict[str, float], float]:
    """Draws a built copy.

    Args:
        arm: Name of the arm.
        rng: Stream of this copy.
        device: Copy 0 .. 2, whose payload comes from that third of the range; None: from all of it.

    Returns:
        Factor on mass and inertia of each body, and the payload in kg.
    """
    half = DEVICES.mass_scale_half
    scale = {b: 1.0 + float(rng.uniform(-half, half)) for b in scene.lead_bodies(ARMS[arm])}
    low, high = DEVICES.payload_low_kg, DEVICES.payload_high_kg
    if device is not None:
        low, high = payload_band_kg(device)
    return scale, float(rng.uniform(low, high))


def reference_arm(arm: str, rng: np.random.Generator) -> Lead:
    """Draws a reference arm: the stock arm with springs near `REFERENCE_SPRINGS`."""
    spread = DEVICES.spring_spread

    def factor() -> float:
        return 1.0 + float(rng.uniform(-spread, spread))

    springs = tuple(
        Spring(
            joint=s.joint,
            stiffness_n_m_per_rad=s.stiffness_n_m_per_rad * factor(),
            ref_rad=ARMS[arm].home_rad[s.joint - 1] + s.preload_rad * factor(),
        )
        for s in REFERENCE_SPRINGS[arm]
    )
    return Lead(record=Record(arm=arm, springs=springs), n_springs=len(springs))


# ----------------------------------------------------------------------------------- poses, paths


def workspace_grid(arm: str) -> np.ndarray:
    """home - hw, home, home + hw of joints 2 .. N in all combinations, joint 1 at home.

    Returns:
        Shape (3^(N-1), nv), rad; the last joint varies fastest.
    """
    levels = np.linspace(-1.0, 1.0, PROTOCOL.grid_levels)
    a = ARMS[arm]
    axes = [h + w * levels for h, w in zip(a.home_rad[1:], a.half_width_rad[1:], strict=True)]
    return np.array([(a.home_rad[0], *q) for q in itertools.product(*axes)])


def trim_grid(arm: str) -> np.ndarray:
    """The grid poses that the trim is asked: every 9th. Shape (n, nv), rad."""
    return workspace_grid(arm)[:: PROTOCOL.headroom_stride]


def public_hold_configs(arm: str) -> np.ndarray:
    """The three hold poses that everyone knows: home, home + hw alt, home - hw alt; alt = (+, -, +, ...).

    Returns:
        Shape (3, nv), rad.
    """
    home, half = np.array(ARMS[arm].home_rad), np.array(ARMS[arm].half_width_rad)
    alternating = half * (-1.0) ** np.arange(len(half))
    return np.stack([home, home + alternating, home - alternating])


def random_poses(arm: str, rng: np.random.Generator, count: int) -> np.ndarray:
    """Uniform in home +- hw. Shape (count, nv), rad."""
    home, half = np.array(ARMS[arm].home_rad), np.array(ARMS[arm].half_width_rad)
    return home + half * rng.uniform(-1.0, 1.0, size=(count, len(home)))


def hold_configs(arm: str, rng: np.random.Generator) -> np.ndarray:
    """The public hold poses and hidden ones. Shape (12, nv), rad."""
    public = public_hold_configs(arm)
    return np.vstack([public, random_poses(arm, rng, PROTOCOL.hold_poses - len(public))])


class SampledPath(NamedTuple):
    """A sampled path."""

    q: np.ndarray
    """Shape (n, nv), rad."""
    qd: np.ndarray
    """Shape (n, nv), rad/s."""


def draw_waypoints(arm: str, rng: np.random.Generator) -> np.ndarray:
    """home, three random poses, home. Shape (5, nv), rad."""
    home = np.array(ARMS[arm].home_rad)[None]
    return np.vstack([home, random_poses(arm, rng, PROTOCOL.waypoints), home])


def sample_path(waypoints: np.ndarray, dt_s: float) -> SampledPath:
    """q(t) = a + (b - a) (1 - cos(pi t / T)) / 2 on every leg of T = 6 s, both ends included.

    Args:
        waypoints: Shape (legs + 1, nv), rad.
        dt_s: Sampling interval; must divide the leg.
    """
    per_leg = round(PROTOCOL.leg_s / dt_s)
    if not np.isclose(per_leg * dt_s, PROTOCOL.leg_s):
        raise ValueError(f"dt_s {dt_s} does not divide a leg of {PROTOCOL.leg_s} s")
    phase = np.pi * np.arange(per_leg) / per_leg
    rise, rate = (1 - np.cos(phase)) / 2, np.pi / PROTOCOL.leg_s * np.sin(phase) / 2
    q = [a + np.outer(rise, b - a) for a, b in itertools.pairwise(waypoints)]
    qd = [np.outer(rate, b - a) for a, b in itertools.pairwise(waypoints)]
    return SampledPath(
        np.vstack([*q, waypoints[-1:]]), np.vstack([*qd, np.zeros_like(waypoints[-1:])])
    )


def teleop_path(arm: str, rng: np.random.Generator, dt_s: float) -> SampledPath:
    """A path as a person would drive it: `draw_waypoints`, then `sample_path`."""
    return sample_path(draw_waypoints(arm, rng), dt_s)


# ---------------------------------------------------------------------------------------- statics


def gravity_torque(model: mujoco.MjModel, poses: np.ndarray) -> np.ndarray:
    """g(q): the torque that holds the arm without springs. Shape (n, nv), N m.

    Recursive Newton-Euler at zero velocity; nothing is stepped.
    """
    data = mujoco.MjData(model)
    torque = np.empty((len(poses), model.nv))
    mujoco.mj_comVel(model, data)  # at rest all velocity terms stay zero
    for row, pose in zip(torque, poses, strict=True):
        data.qpos[:] = pose
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_rne(model, data, 0, row)
    return torque


def spring_torque(model: mujoco.MjModel, poses: np.ndarray) -> np.ndarray:
    """k (q - springref): the torque that holds the springs. Shape (n, nv), N m."""
    return model.jnt_stiffness.reshape(model.njnt, -1)[:, 0] * (
        np.asarray(poses) - model.qpos_spring
    )


def residual(model: mujoco.MjModel, poses: np.ndarray) -> np.ndarray:
    """tau_a(q) = g(q) + k (q - springref): what is left for a servo or a hand. Shape (n, nv), N m."""
    return gravity_torque(model, poses) + spring_torque(model, poses)


# --------------------------------------------------------------------------------------- dynamics


class Trace(NamedTuple):
    """A servo run: how far the end effector went."""

    peak_m: float
    final_m: float
    q: np.ndarray
    """Pose at the end, rad."""
    qd: np.ndarray
    """Rates at the end, rad/s."""
    displacement_m: np.ndarray
    """Displacement after every step where the run was recorded or pushed, shape (steps,); else at the
    end alone, shape (1,), which is then also the peak."""
    poses: np.ndarray
    """Poses before every step, where they were recorded. Shape (steps, nv) or (0, nv), rad."""


def servo_run(
    model: mujoco.MjModel,
    target: np.ndarray,
    ff: np.ndarray,
    duration_s: float,
    push_n: float = 0.0,
    is_recorded: bool = False,
) -> Trace:
    """Starts at rest at `target` and lets the servos hold it.

    tau = clip(kp (target - q) - kv qd + clip(ff, +-limit), +-limit), written to `qfrc_applied` each step.

    Args:
        model: A composed device.
        target: Pose, shape (nv,), rad.
        ff: Constant feedforward, shape (nv,), N m.
        duration_s: Length of the run.
        push_n: Force on the handle along world +x during the push window.
        is_recorded: Whether to keep poses and displacements.

    Raises:
        SimulationError: MuJoCo warned, or the state is not finite.
    """
    data = mujoco.MjData(model)
    data.qpos[:] = target
    mujoco.mj_kinematics(model, data)
    site = data.site_xpos[model.site("lead_ee_site").id]
    start = site.copy()
    push = data.xfrc_applied[model.body("lead_handle").id]
    limit = np.full(model.nv, SERVO.limit_n_m)
    minus_kp, minus_kv = (
        -SERVO.kp_n_m_per_rad * np.ones(model.nv),
        -SERVO.kv_n_m_s_per_rad * np.ones(model.nv),
    )
    constant = np.clip(ff, -limit, limit) - minus_kp * target
    minus_limit, torque, damping = -limit, np.empty(model.nv), np.empty(model.nv)
    q, qd, applied = data.qpos, data.qvel, data.qfrc_applied
    dt = PHYSICS.timestep_s
    n = round(duration_s / dt)
    begin, end = (
        round(t / dt) if push_n else n for t in (PROTOCOL.push_from_s, PROTOCOL.push_to_s)
    )
    is_traced = is_recorded or push_n != 0.0
    places = np.empty((n if is_traced else 0, 3))
    poses = np.empty((n if is_recorded else 0, model.nv))
    add, multiply, clip, step = (
        np.add,
        np.multiply,
        _clip,
        mujoco.mj_step,
    )  # found once, not 750 times
    try:
        for start_k, stop_k, force_n in ((0, begin, 0.0), (begin, end, push_n), (end, n, 0.0)):
            push[0] = force_n
            for k in range(start_k, stop_k):
                if is_recorded:
                    poses[k] = q
                multiply(q, minus_kp, torque)
                add(torque, constant, torque)
                multiply(qd, minus_kv, damping)
                add(torque, damping, torque)
                clip(torque, minus_limit, limit, applied)
                step(model, data)
                if is_traced:
                    places[k] = site  # position of the step's start: one step behind
    except mujoco.FatalError as error:
        raise guard.diverged(data, "servo run", error) from error
    guard.check(model, data, "servo run")
    mujoco.mj_kinematics(model, data)
    moved = np.linalg.norm(np.vstack([places[1:], site]) - start, axis=1)
    return Trace(float(moved.max()), float(moved[-1]), q.copy(), qd.copy(), moved, poses)


def simulate_hold(model: mujoco.MjModel, q: np.ndarray, ff: np.ndarray) -> float:
    """Displacement of the end effector after a hold of 1.5 s, m."""
    return servo_run(model, q, ff, PROTOCOL.hold_s).final_m


def simulate_push(model: mujoco.MjModel, q: np.ndarray, ff: np.ndarray) -> tuple[float, float]:
    """Peak and final displacement of the end effector when its handle is pushed, m."""
    trace = servo_run(model, q, ff, PROTOCOL.push_s, PROTOCOL.push_n)
    return trace.peak_m, trace.final_m


def settle_speed(model: mujoco.MjModel, arm: Arm) -> float:
    """Largest joint speed after 1 s of passive hold at home, rad/s."""
    home = np.array(arm.home_rad)
    return float(np.abs(servo_run(model, home, np.zeros(arm.nv), PROTOCOL.settle_s).qd).max())


def probe_bounds(arm: Arm) -> tuple[np.ndarray, np.ndarray]:
    """Joint range cut to home +- hw: where probes may be. Two arrays of shape (nv,), rad."""
    home, half, limits = (
        np.array(arm.home_rad),
        np.array(arm.half_width_rad),
        np.array(arm.range_rad),
    )
    return np.maximum(home - half, limits[:, 0]), np.minimum(home + half, limits[:, 1])


def run_probe(model: mujoco.MjModel, targets: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Settled, noisy poses: start at rest at the target, feedforward off, read after 1.2 s.

    Args:
        model: The device.
        targets: Shape (n, nv), rad.
        rng: Stream of the reading noise.

    Returns:
        Shape (n, nv), rad.
    """
    targets = np.asarray(targets)
    off = np.zeros(model.nv)
    settled = np.array([servo_run(model, t, off, DEVICES.probe_settle_s).q for t in targets])
    return settled + rng.normal(0.0, DEVICES.probe_noise_rad, size=settled.shape)


def make_env(_task: object, arm: str = ARM_NAMES[0]):
    """The Gymnasium preview of one stock arm; see `dev.Preview`."""
    from families.f09_gello.dev import Preview  # Gymnasium is not needed for a score

    return Preview(arm)
