"""E_dev and E_eval of f08: named measurements, and what an agent may call while it designs.

It measures and never judges; credits are in `metrics.py`.
"""

import functools
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from families.f08_mobile_base import battery, chassis, metrics, scene, shelf, spec, stability
from rle.errors import InvalidSubmission, UnknownName
from rle.paths import assets_dir
from rle.spec import TaskSpec

# ---------------------------------------------------------------------------------- measurements


def measure_equilibrium(trace: battery.Trace) -> dict[str, float]:
    """How far the stowed robot moves in the 2 s after it has settled, m, deg and m/s."""
    start = battery.steps(spec.EQUILIBRIUM_SETTLE_S)
    if trace.ended != "done":
        return dict.fromkeys(spec.EQUILIBRIUM_LIMITS, float("inf"))
    path = trace.position_m[start:] - trace.position_m[start]
    return {
        "drift_m": float(np.hypot(path[:, 0], path[:, 1]).max()),
        "rise_m": float(np.abs(path[:, 2]).max()),
        "tilt_deg": float(np.degrees(trace.tilt_rad[start:].max())),
        "speed_m_s": float(trace.speed_m_s[-1]),
        "penetration_m": trace.depth_m,
    }


def measure_mecanum(trace: battery.Trace) -> np.ndarray:
    """Mean twist over the window of every command, shape (4, 3); NaN for what was not reached."""
    return np.array(
        [
            trace.twist[a:b].mean(axis=0) if b <= trace.n_steps else np.full(3, np.nan)
            for a, b in trace.program.twists
        ]
    )


def measure_static(trace: battery.Trace) -> list[float | None]:
    """Smallest SSM over the quiet samples of every dwell, m; None for a dwell that is never quiet."""
    quiet, worst = trace.quiet(), []
    for first, last in trace.program.dwells:
        margins = trace.static_margin_m(first + np.flatnonzero(quiet[first:last]))
        worst.append(float(margins.min()) if len(margins) else None)
    return worst


def measure_dynamic(trace: battery.Trace) -> dict[str, float]:
    """Margins, tilt, lift-offs and tracking of a moving test; every number finite.

    `fasm_min` is the smallest rolling median over 0.2 s after the first 0.5 s, and `fasm_at_s` its time.
    """
    margins = stability.rolling_median(trace.force_angle, battery.steps(spec.ROLLING_WINDOW_S))
    start = battery.steps(spec.MARGIN_START_S)
    events = trace.lift_offs()
    worst = start + int(np.argmin(margins[start:])) if trace.n_steps > start else 0
    finished = trace.ended == "done"
    return {
        "tracking": min(trace.tracking(), 10.0) if finished else 10.0,
        "tilt_max_deg": float(np.degrees(trace.tilt_rad.max(initial=0.0))) if finished else 90.0,
        "n_events": float(len(events)),
        "longest_event_s": max((length for _, length in events), default=0.0),
        "fasm_min": float(margins[worst]) if trace.n_steps > start else 0.0,
        "fasm_at_s": worst * spec.TIMESTEP_S,
    }


def tool_reach_m(robot: scene.Robot, data: mujoco.MjData) -> float:
    """Horizontal distance of the tool from the arm's own axis."""
    foot = data.xpos[robot.model.body(f"arm_{robot.arm.name}_link0").id]
    return float(np.hypot(*(data.site_xpos[robot.ee] - foot)[:2]))


def measure_reach(design: chassis.Chassis, arm: spec.Arm) -> tuple[float, float]:
    """(reach after 2 s in the extended pose, kinematic reach), m, without load."""
    robot, program = scene.compose(design, arm), battery.reach(arm)
    trace = battery.simulate(robot, program, start_rad=np.array(arm.extended_rad))
    data = robot.stowed()
    data.qpos[robot.arm_qpos] = arm.extended_rad
    mujoco.mj_kinematics(robot.model, data)
    kinematic = tool_reach_m(robot, data)
    if trace.ended != "done" or trace.last_qpos is None:
        return 0.0, kinematic
    data.qpos[:] = trace.last_qpos
    mujoco.mj_kinematics(robot.model, data)
    return tool_reach_m(robot, data), kinematic


def measure_reach_beyond(design: chassis.Chassis, arm: spec.Arm) -> float:
    """Smallest distance of the extended tool outside the footprint over the slew angles, m."""
    robot = scene.compose(design, arm)
    data = robot.stowed()
    lower = np.array(design.lower_m)
    upper = lower + design.footprint_m
    gaps = []
    for k in range(spec.REACH_ANGLES):
        pose = battery.extended(arm, 2.0 * np.pi * k / spec.REACH_ANGLES)
        data.qpos[robot.arm_qpos] = pose
        mujoco.mj_kinematics(robot.model, data)
        tool = (data.site_xpos[robot.ee] - data.xpos[robot.base])[:2]
        gaps.append(float(np.linalg.norm(np.maximum(np.maximum(lower - tool, tool - upper), 0.0))))
    return min(gaps)


def is_battery_onboard(design: chassis.Chassis) -> bool:
    """The battery lies inside the rectangle of the wheel envelopes, in x and y, and is attached."""
    wheels = design.record.wheel_pos_m[:, :2]
    reach = np.array([spec.WHEEL_ENVELOPE_RADIUS_M, spec.WHEEL_ENVELOPE_HALF_WIDTH_M])
    low, high = wheels.min(axis=0) - reach, wheels.max(axis=0) + reach
    turn = scene.rotation(design.record.battery_quat_wxyz)
    half = (np.abs(turn) @ np.array(spec.BATTERY_HALF_M))[:2]
    centre = design.record.battery_pos_m[:2]
    attached = next(check.ok for check in design.checks if check.name == "battery")
    return bool(attached and (centre - half >= low).all() and (centre + half <= high).all())


def inertia_share(model: mujoco.MjModel) -> float:
    """Share of bodies with finite positive mass and principal moments that a solid can have."""
    mass, moments = model.body_mass[1:], np.sort(model.body_inertia[1:], axis=1)
    good = (mass > 0) & (moments[:, 0] > 0) & np.isfinite(moments).all(axis=1)
    good &= moments[:, 0] + moments[:, 1] >= moments[:, 2] * (1.0 - 1e-6)
    return float(np.mean(good))


# ------------------------------------------------------------------------------------ development


def load_chassis(path: str | Path) -> chassis.Chassis:
    """Record and findings of a chassis file; `checks` says which rule is broken and by how much.

    Raises:
        InvalidSubmission: `file.missing` or `mjcf.*`.
    """
    path = Path(path)
    if not path.is_file():
        found = ", ".join(sorted(p.name for p in path.parent.glob("*"))[:5]) or "nothing"
        raise InvalidSubmission("file.missing", path=path.name, found=found)
    return chassis.inspect(chassis.read_text(path.read_bytes()))


def find_arm(name: str) -> spec.Arm:
    """The canonical arm of that name.

    Raises:
        UnknownName: With the nearest one.
    """
    if name not in spec.ARM_NAMES:
        raise UnknownName("arm", name, spec.ARM_NAMES)
    return scene.find_arm(name)


def design_card(design: chassis.Chassis) -> dict[str, Any]:
    """Lengths, masses, footprint, E with its three terms, mass centres, and broken rules."""
    terms = metrics.efficiency_terms(design.base_kg, design.length_m, design.area_m2)
    centres = {}
    for arm in spec.ARMS:
        robot = scene.compose(design, arm)
        data = robot.stowed()
        centres[arm.name] = (data.subtree_com[robot.base] - data.xpos[robot.base]).tolist()
    return {
        "members": [
            {
                "name": f"profile_{m.index}", "section": m.section.name, "length_m": m.length_m,
                "mass_kg": m.mass_kg, "neighbours": list(design.neighbours[m.index]),
            }
            for m in design.members
        ],
        "profile_length_m": design.length_m,
        "base_mass_kg": design.base_kg,
        "total_mass_kg": {arm.name: design.total_kg(arm) for arm in spec.ARMS},
        "footprint_m": list(design.footprint_m),
        "efficiency": float(np.mean(terms)),
        "efficiency_terms": dict(zip(("mass", "length", "area"), terms, strict=True)),
        "mass_centre_stowed_m": centres,
        "findings": [finding for check in design.checks for finding in check.findings],
        "overlaps_mm": [(a, b, round(1000 * depth, 2)) for a, b, depth in design.overlaps],
        "notices": list(design.record.notices),
    }  # fmt: skip


def static_margin(
    design: chassis.Chassis, arm: str, payload_kg: float = 2.0, n_azimuth: int = 36
) -> np.ndarray:
    """Kinematic margin of the extended pose over the rectangle of wheel centres, no simulation.

    Returns:
        Margin at every azimuth of the tool, shape (n_azimuth,), m.
    """
    wheels, centre, axis, share, moved = _extended(design, arm, payload_kg)
    angle = 2.0 * np.pi * np.arange(n_azimuth) / n_azimuth
    c, s = np.cos(angle), np.sin(angle)
    turned = np.stack([c * moved[0] - s * moved[1], s * moved[0] + c * moved[1]], axis=-1)
    return stability.signed_distance(centre + share * (axis + turned), wheels)


@functools.lru_cache(maxsize=8)
def _extended(design: chassis.Chassis, arm: str, payload_kg: float) -> tuple[Any, ...]:
    """Wheel rectangle, and the mass centre split at joint 1: what stands still, axis, share and place
    of what turns, in the base's x-y plane. The axis of joint 1 is vertical."""
    robot = scene.compose(design, find_arm(arm), payload_kg)
    model, data = robot.model, robot.stowed()
    data.qpos[robot.arm_qpos] = battery.extended(robot.arm, 0.0)
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    link = model.body(f"arm_{arm}_link1").id
    share = model.body_subtreemass[link] / model.body_subtreemass[robot.base]
    origin, axis = data.xpos[robot.base], data.xpos[link]
    whole, turning = data.subtree_com[robot.base], data.subtree_com[link]
    wheels = stability.convex_hull(design.record.wheel_pos_m[:, :2])
    still = (whole - share * turning - (1.0 - share) * origin)[:2]
    return wheels, still, (axis - origin)[:2], np.array(share), (turning - axis)[:2]


def reach_table(design: chassis.Chassis, arm: str, front_gap_m: float = 0.03) -> np.ndarray:
    """Position residual at every target of an inverse-kinematics solve, collisions ignored.

    The base stands straight with its foremost part `front_gap_m` before the shelf.

    Returns:
        Shape (12,), m.
    """
    from scipy.optimize import least_squares  # a score does not need it

    robot = shelf.make_robot(design, find_arm(arm), 0.0)
    model, data = robot.model, robot.stowed()
    data.qpos[0] = spec.SHELF_FACE_X_M - front_gap_m - (design.lower_m[0] + design.footprint_m[0])
    data.qpos[2] = spec.WHEEL_RADIUS_M
    joints = [model.joint(f"arm_{arm}_joint{k + 1}").id for k in range(robot.arm.n_joints)]
    low, high = model.jnt_range[joints].T

    def miss(pose: np.ndarray, target: np.ndarray) -> np.ndarray:
        data.qpos[robot.arm_qpos] = pose
        mujoco.mj_kinematics(model, data)
        return data.site_xpos[robot.ee] - target

    residual = np.empty(len(spec.TARGETS_M))
    for k, target in enumerate(map(np.array, spec.TARGETS_M)):
        fits = []
        for start in (robot.arm.stow_rad, battery.extended(robot.arm, np.arctan2(target[1], 0.5))):
            pose = np.clip(start, low + 1e-6, high - 1e-6)
            fits.append(least_squares(miss, pose, bounds=(low, high), args=(target,)))
        residual[k] = min(float(np.linalg.norm(fit.fun)) for fit in fits)
    return residual


def run_scenario(
    design: chassis.Chassis, arm: str, name: str, rng: np.random.Generator
) -> tuple[battery.Trace, dict[str, Any]]:
    """One scenario of the battery with its measurements.

    Args:
        design: From `load_chassis`.
        arm: Canonical arm.
        name: "equilibrium", "mecanum", "static" or one of `spec.SCENARIOS`.
        rng: Its draws.
    """
    robot, program = prepare(design, find_arm(arm), name, rng)
    trace = battery.simulate(robot, program)
    if name == "equilibrium":
        return trace, measure_equilibrium(trace)
    if name == "mecanum":
        return trace, {"mean_twist": measure_mecanum(trace)}
    if name == "static":
        return trace, {"ssm_min_m": measure_static(trace)}
    return trace, measure_dynamic(trace)


def prepare(
    design: chassis.Chassis, arm: spec.Arm, name: str, rng: np.random.Generator
) -> tuple[scene.Robot, battery.Program]:
    """The robot on its ground, and the program of a scenario.

    Raises:
        UnknownName: No such scenario.
    """
    if name == "static":
        robot = scene.compose(design, arm, spec.STATIC_PAYLOAD_KG)
        joint = robot.model.joint(f"arm_{arm.name}_joint1").range
        return robot, battery.static(arm, (joint[0], joint[1]), rng)
    if name in spec.SCENARIOS:
        program = battery.dynamic(name, arm, rng)
    elif name in ("equilibrium", "mecanum"):
        program = getattr(battery, name)(arm)
    else:
        known = ("equilibrium", "mecanum", "static", *spec.SCENARIOS)
        raise UnknownName("scenario", name, known)
    return scene.compose(design, arm, program.payload_kg, program.terrain), program


def run_shelf(
    design: chassis.Chassis, controller_path: str | Path, arm: str, target: int, payload_kg: float
) -> shelf.ShelfTrial:
    """One shelf trial with the scored loop and its limits; `detail` names what touched the shelf."""
    robot = shelf.make_robot(design, find_arm(arm), payload_kg)
    return shelf.run_trial(robot, shelf.LocalController(Path(controller_path)), target)


def make_env(task: TaskSpec, arm: str = "panda", payload_kg: float = 1.0):
    """The Gymnasium preview: the starter chassis before the shelf; see `dev.Preview`."""
    from families.f08_mobile_base.dev import Preview  # Gymnasium is not needed for a score

    design = load_chassis(assets_dir() / "f08" / "starter_robot.xml")
    return Preview(shelf.make_robot(design, find_arm(arm), payload_kg))
