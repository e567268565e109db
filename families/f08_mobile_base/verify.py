"""Verification of f08: three arms on one chassis, drawn scenarios, and shelf trials with the controller.

rows = run_trial for each (arm, test, draw or target) -> measurements of task.py -> credits of metrics.py
reward = weighted sum of the worst arm's credits, capped when a gate is closed
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from families.f08_mobile_base import (
    battery,
    chassis,
    metrics,
    pictures,
    scene,
    shelf,
    spec,
    stability,
    task,
)
from rle.errors import InvalidSubmission
from rle.report import FamilyResult, Row, read_report
from rle.verify_api import Checked, Limits, Trial, TrialFault, VerifyContext, Worker

LIMITS = Limits(
    call_cap_s=spec.CONTROLLER_CALL_S,
    total_cap_s=spec.CONTROLLER_STARTUP_S + spec.CONTROLLER_TOTAL_S,
    load_cap_s=spec.CONTROLLER_STARTUP_S,
    reset_cap_s=spec.CONTROLLER_STARTUP_S,
    memory_bytes=spec.CONTROLLER_MEMORY_BYTES,
)
ONE_RUN_TESTS = ("equilibrium", "mecanum", "reach")
DRAWN_TESTS = ("static", *spec.SCENARIOS)
SHELF_TESTS = {f"shelf-{kg:g}kg": kg for kg in spec.SHELF_PAYLOADS_KG}
FIRST_SHELF = next(iter(SHELF_TESTS))


def verify(ctx: VerifyContext) -> FamilyResult:
    """A and E_eval of f08."""
    try:
        checked = ctx.check("mjcf", chassis.CONTRACT)
    except InvalidSubmission as error:
        if error.code != "mjcf.compile":
            raise
        return unloadable(str(error))
    assert checked.canonical is not None
    design = chassis.inspect(chassis.read_canonical(checked.canonical))
    try:
        design_rows = [design_row(design, arm) for arm in spec.ARMS]
    except ValueError as error:  # MuJoCo refuses the composition: nothing can be simulated
        return unloadable(str(error).splitlines()[0])
    controller, flags = check_controller(ctx)
    params = {"robot_xml": checked.canonical.decode(), "controller": controller}
    planned = quick_trials(params) if is_quick(ctx) else trials(params)
    rows = design_rows + repeated(ctx.map_trials(run_trial, planned))
    return msgspec.structs.replace(compose(design, rows, flags), scored=not is_quick(ctx))


def unloadable(why: str) -> FamilyResult:
    """Accepted text from which no robot can be built: S1.load is 0 and nothing else can run."""
    rows = [
        Row(id=f"d{k}", group=f"{arm}/{metrics.DESIGN}", score=0.0, ended="not_run")
        for k, arm in enumerate(spec.ARM_NAMES)
    ]
    return FamilyResult(
        rows=rows, score=0.0, raw_total=0.0, gates=dict.fromkeys(spec.GATES, False), flags=[why]
    )


def check_controller(ctx: VerifyContext) -> tuple[Checked | None, list[str]]:
    """The controller, or None with the reason: the chassis is scored without it.

    One that cannot be started twice in a row is not started for every shelf trial again: with 75 trials of
    `CONTROLLER_STARTUP_S` that would be most of an hour.
    """
    why = ""
    for _ in range(2):
        try:
            checked = ctx.check("python", shelf.contract(spec.ARMS[0]))
            with ctx.worker("python", checked, LIMITS) as worker:
                worker.load()
        except (InvalidSubmission, TrialFault) as error:
            why = str(error)
        else:
            return checked, []
    return None, [f"integration scores 0: {why}"]


def trials(params: dict[str, Any], arms: Sequence[str] = spec.ARM_NAMES) -> list[Trial]:
    """Every trial of a run; the order does not matter."""
    planned = []
    for arm in arms:
        planned += [(f"{arm}/{test}", 0) for test in ONE_RUN_TESTS]
        planned += [(f"{arm}/{test}", k) for test in DRAWN_TESTS for k in range(spec.N_DRAWS)]
        planned += [(f"{arm}/{t}", k) for t in SHELF_TESTS for k in range(len(spec.TARGETS_M))]
        planned.append((f"{arm}/{metrics.REPEAT}", 0))
    return [
        Trial(id=f"t{n:03d}", index=k, group=group, params=params)
        for n, (group, k) in enumerate(planned)
    ]


def is_quick(ctx: VerifyContext) -> bool:
    """Whether the run is a look at the submission instead of a score."""
    return ctx.options.get("profile") == "quick"


def quick_trials(params: dict[str, Any]) -> list[Trial]:
    """The first draw of every test and two shelf targets, out of all trials."""

    def is_kept(trial: Trial) -> bool:
        is_shelf = trial.group.partition("/")[2] in SHELF_TESTS
        return trial.index in spec.QUICK_TARGETS if is_shelf else trial.index < spec.QUICK_DRAWS

    return [trial for trial in trials(params) if is_kept(trial)]


def run_trial(ctx: VerifyContext, trial: Trial) -> Row:
    """One scenario or one shelf trial."""
    started_s = time.monotonic()
    design, arm, test = unpack(trial)
    policy_s = 0.0
    if test in DRAWN_TESTS or test in ("equilibrium", "mecanum"):
        trace = play_scenario(ctx, trial)
        ctx.keep(trial.id, trace.qpos)
        row = scenario_row(trial, test, trace)
    elif test == "reach":
        simulated, kinematic = task.measure_reach(design, arm)
        row = Row(
            id=trial.id, group=trial.group, score=metrics.reach_preserved(simulated, kinematic),
            ended="done", metrics={"reach_m": simulated, "kinematic_reach_m": kinematic},
        )  # fmt: skip
    else:
        result, policy_s = play_shelf(ctx, trial)
        ctx.keep(trial.id, np.array(result.qpos))
        row = shelf_row(trial, result)
    return msgspec.structs.replace(row, wall_s=time.monotonic() - started_s, policy_s=policy_s)


def unpack(trial: Trial) -> tuple[chassis.Chassis, spec.Arm, str]:
    """Chassis, arm and test of a trial."""
    name, _, test = trial.group.partition("/")
    record = chassis.read_canonical(trial.params["robot_xml"].encode())
    return chassis.inspect(record), scene.find_arm(name), test


def play_scenario(ctx: VerifyContext, trial: Trial) -> battery.Trace:
    """Runs a scenario."""
    return battery.simulate(*prepare(ctx, trial))


def prepare(ctx: VerifyContext, trial: Trial) -> tuple[scene.Robot, battery.Program]:
    """Robot and program of a scenario with the draws of its stream, which are the same for every arm."""
    design, arm, test = unpack(trial)
    stream = test if test == "static" else f"dyn/{test}"
    rng = ctx.rng(stream, trial.index, namespace=trial.namespace)
    return task.prepare(design, arm, test, rng)


def play_shelf(ctx: VerifyContext, trial: Trial) -> tuple[shelf.ShelfTrial, float]:
    """Runs a shelf trial in a fresh worker; returns it and the time charged to the controller."""
    design, arm, test = unpack(trial)
    checked = trial.params["controller"]
    payload_kg = SHELF_TESTS.get(test, SHELF_TESTS[FIRST_SHELF])
    if checked is None:
        return shelf.ShelfTrial(trial.index, payload_kg, ended="no_submission"), 0.0
    checked = msgspec.structs.replace(checked, contract=shelf.contract(arm))
    with ctx.worker("python", checked, LIMITS) as worker:
        try:
            worker.load()
        except (InvalidSubmission, TrialFault) as error:
            failed = shelf.ShelfTrial(trial.index, payload_kg, ended="no_submission")
            failed.ended, failed.detail = getattr(error, "ended", failed.ended), str(error)
            return failed, worker.wall_s
        robot = shelf.make_robot(design, arm, payload_kg)
        result = shelf.run_trial(robot, _Remote(worker), trial.index)
        return result, worker.wall_s


class _Remote:
    """A worker behind the interface of a controller."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def reset(self, context: dict[str, Any], seed: int) -> None:
        self._worker.reset(context=context, seed=seed)

    def act(self, obs: dict[str, Any]) -> np.ndarray:
        return self._worker.act(np.array(obs["time"]), obs["qpos"], obs["qvel"], obs["ctrl"])


# ------------------------------------------------------------------------------------------ rows


def design_row(design: chassis.Chassis, arm: spec.Arm) -> Row:
    """Credits that follow from the chassis and one arm, with the numbers behind them."""
    robot = scene.compose(design, arm)
    mass_kg = design.total_kg(arm)
    resource = metrics.resource_constraints(
        design.footprint_m, mass_kg, design.length_m, design.clean_member_share
    )
    beyond_m = task.measure_reach_beyond(design, arm)
    known = {
        "S1.load": 1.0,
        "S1.inertia": task.inertia_share(robot.model),
        "S1.structure": design.structure_share,
        "S3.resource_constraints": resource,
        "S3.design_efficiency": metrics.design_efficiency(
            design.base_kg, design.length_m, design.area_m2, resource, design.structure_share
        ),
        "S3.reach_beyond": metrics.reach_beyond(beyond_m),
        "S3.battery_onboard": float(task.is_battery_onboard(design)),
    }
    return Row(
        id=f"d{spec.ARM_NAMES.index(arm.name)}",
        group=f"{arm.name}/{metrics.DESIGN}",
        score=min(known.values()),
        ended="done",
        metrics={**known, "total_mass_kg": mass_kg, "reach_beyond_m": beyond_m},
    )


def scenario_row(trial: Trial, test: str, trace: battery.Trace) -> Row:
    """What a scenario measured and what it scores."""
    values: dict[str, float | None] = {}
    if test == "equilibrium":
        moved = task.measure_equilibrium(trace)
        score, values = metrics.equilibrium(moved), {k: _finite(v) for k, v in moved.items()}
    elif test == "mecanum":
        measured = task.measure_mecanum(trace)
        score = metrics.mecanum(measured, np.array(spec.MECANUM_TWISTS))
        values = {"twists_followed": score * len(measured)}
    elif test == "static":
        worst = task.measure_static(trace)
        score = metrics.static_margin(worst)
        known = [m for m in worst if m is not None]
        values = {
            "ssm_min_m": min(known, default=None),
            "quiet_dwells": float(len(known)),
        }
    else:
        numbers = task.measure_dynamic(trace)
        score = metrics.dynamic(test, numbers)
        values.update(numbers)
    return Row(
        id=trial.id,
        group=trial.group,
        score=score,
        ended=trace.ended,
        metrics=values,
        series=_series(trace, test),
        events=_events(trace),
    )


def _series(trace: battery.Trace, test: str) -> dict[str, list[float]]:
    """Curves at `SERIES_HZ`: tilt, smallest wheel load, and the margin that the test is about."""
    every = round(1.0 / (spec.SERIES_HZ * spec.TIMESTEP_S))
    picks = np.arange(0, trace.n_steps, every)
    window = battery.steps(spec.SUPPORT_WINDOW_S)
    load = stability.moving_mean(trace.wheel_load_n, window)
    curves = {
        "t_s": picks * spec.TIMESTEP_S,
        "tilt_deg": np.degrees(trace.tilt_rad[picks]),
        "min_wheel_load_n": load[picks].min(axis=1) if len(picks) else picks,
    }
    if test == "static":
        curves["ssm_m"] = np.maximum(trace.static_margin_m(picks), spec.SERIES_SSM_FLOOR_M)
    elif test in spec.SCENARIOS and trace.n_steps:
        curves["fasm"] = np.maximum(trace.force_angle[picks], spec.SERIES_FASM_FLOOR)
    return {name: np.round(values, 4).tolist() for name, values in curves.items()}


def _events(trace: battery.Trace) -> list[tuple[float, str]]:
    events = [(round(t, 3), f"two wheels lifted for {d:.2f} s") for t, d in trace.lift_offs()]
    if trace.ended == "tilt":
        events.append((trace.n_steps * spec.TIMESTEP_S, "tilted beyond 30 deg"))
    if trace.ended == "sim_unstable":
        events.append((trace.n_steps * spec.TIMESTEP_S, trace.cause))
    return events


def shelf_row(trial: Trial, result: shelf.ShelfTrial) -> Row:
    """A shelf trial as the report keeps it."""
    return Row(
        id=trial.id,
        group=trial.group,
        score=float(result.ok),
        ended=result.ended,
        metrics={
            "target_index": float(result.target_index),
            "payload_kg": result.payload_kg,
            "ee_err_m": _finite(result.ee_err_m),
            "min_ee_err_m": _finite(result.min_ee_err_m),
            "min_fasm": result.min_fasm,
            "shelf_force_max_n": result.shelf_force_max_n,
            "tilt_max_deg": result.tilt_max_deg,
            "hold_s": result.hold_s,
            "elapsed_s": result.elapsed_s,
        },
        series=result.series,
        events=[(result.elapsed_s, result.detail)] if result.detail else [],
        actions_sha256=result.action_sha256,
    )


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def repeated(rows: list[Row]) -> list[Row]:
    """Rows with the score of every repeat: 1 if it equals the first shelf trial of its arm."""
    first = {row.group: row for row in rows if row.metrics.get("target_index") == 0.0}
    result = []
    for row in rows:
        arm, _, test = row.group.partition("/")
        if test == metrics.REPEAT:
            other = first.get(f"{arm}/{FIRST_SHELF}")
            same = other is not None and (row.events, row.ended, row.metrics) == (
                other.events, other.ended, other.metrics,
            )  # fmt: skip
            row = msgspec.structs.replace(row, score=float(same))
        result.append(row)
    return result


# ---------------------------------------------------------------------------------------- result


def compose(
    design: chassis.Chassis,
    rows: list[Row],
    flags: list[str],
    arms: Sequence[str] = spec.ARM_NAMES,
) -> FamilyResult:
    """The result of a run: worst credits, stages, gates, and the numbers behind them."""
    credits, limiting = metrics.worst_credits(rows, arms)
    reward, total = metrics.score(credits)
    flat = {f"stage_{s}": metrics.stage_total(credits, s) for s in spec.STAGES}
    flat |= {f"cp_{cp.replace('.', '_')}": value for cp, value in credits.items()}
    terms = metrics.efficiency_terms(design.base_kg, design.length_m, design.area_m2)
    flat |= {
        "raw_total": total,
        "design_efficiency": float(np.mean(terms)),
        "design_base_mass_kg": design.base_kg,
        "design_total_mass_kg": max(design.total_kg(arm) for arm in spec.ARMS),
        "design_profile_length_m": design.length_m,
        "design_footprint_x_m": design.footprint_m[0],
        "design_footprint_y_m": design.footprint_m[1],
        "design_area_m2": design.area_m2,
    }
    return FamilyResult(
        rows=rows,
        score=reward,
        raw_total=total,
        metrics=flat,
        gates={gate: credits[gate] >= 1.0 for gate in spec.GATES},
        extra={
            "limiting_arm": limiting,
            "per_arm": {arm: metrics.arm_credits(rows, arm) for arm in arms},
            "design_card": task.design_card(design),
            "checks": {check.name: check.ok for check in design.checks},
            "lost": pictures.lost_points(rows),
            "frame_span_stress_mpa": pictures.span_stress_mpa(design),
            "yield_mpa": spec.YIELD_MPA,
        },
        flags=[*flags, *(f for check in design.checks for f in check.findings)],
        thresholds=pictures.thresholds(design, rows),
    )


def media(ctx: VerifyContext, folder: Path) -> None:
    """Pictures of the design, margin plots and films of chosen trials, after the score is on disk."""
    report = read_report((folder.parent / "report.json").read_bytes())
    rows = report.rows
    if not report.gates["S1.load"]:  # nothing was built, so there is nothing to draw
        return
    checked = ctx.check("mjcf", chassis.CONTRACT)
    assert checked.canonical is not None
    design = chassis.inspect(chassis.read_canonical(checked.canonical))
    pictures.write_pictures(design, folder)
    pictures.plot_margins(design, rows, folder / "picture_margins.png")
    params = {"robot_xml": checked.canonical.decode(), "controller": None}
    wanted = set(pictures.filmed(rows, is_quick(ctx)))
    for trial in trials(params):
        states = ctx.kept(trial.id) if trial.id in wanted else None
        if states is not None and len(states):
            film(ctx, trial, states, folder / f"{trial.id}.mp4")


def film(ctx: VerifyContext, trial: Trial, states: np.ndarray, path: Path) -> None:
    """Writes the video of a trial from the states that it went through, shape (T, nq)."""
    from rle.sim.film import film_states  # needs a renderer, which a score does not

    design, arm, test = unpack(trial)
    if test in SHELF_TESTS:
        model = shelf.make_robot(design, arm, SHELF_TESTS[test]).model
        view = pictures.follow(model, "integration")
        if trial.index == 0 and test == FIRST_SHELF:
            last = path.with_name(f"picture_{arm.name}_integration.png")
            pictures.write_last_frame(design, arm.name, SHELF_TESTS[test], states[-1], last)
    else:
        model = prepare(ctx, trial)[0].model
        view = pictures.follow(model, "scenario")
    pictures.simplify_floor(model)
    film_states(path, model, states, spec.VIDEO_HZ, camera=view)
