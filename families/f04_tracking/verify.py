"""Verification of f04: two smoke runs and eight hidden trials of one graph.

rows = run_trial for each trial: draws -> task.play(worker) -> metrics
reward = mean of the eight scores, capped when a gate is false
"""

import functools
import hashlib
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import mujoco
import numpy as np

from families.f04_tracking import draws, metrics, policy, reference, scene, spec, task
from rle.report import FamilyResult, Row, Threshold
from rle.scoring import gate
from rle.sim.film import film_states
from rle.sim.render import sphere
from rle.verify_api import Limits, Trial, VerifyContext

LIMITS = Limits(call_cap_s=spec.MAX_CALL_S, total_cap_s=spec.MAX_CALLS_TOTAL_S)
POLICY_FAULTS = frozenset({"timeout_call", "timeout_total", "worker_died"})
"""Endings of a policy process that does not answer; three of them end the protocol."""
UNSTABLE = POLICY_FAULTS | {"bad_action", "sim_unstable"}
"""Endings of a smoke run that close the gate `stable`; an ordinary fall does not."""
SERIES_STEPS = 10
"""Control steps per point of a row's curves."""
FALL_TEXTS = {
    "anchor_z": "torso {:.2f} m off its reference height",
    "tilt": "torso tilted {:.2f} off its reference",
    "ee_z": "a hand or foot {:.2f} m off its reference height",
}
REWARD_KEYS = {
    "tracking_multi": "T",
    "tracking_03": "T_03",
    "survival": "U",
    "action_jerk": "J",
    "falls": "F",
    "survived_s": "survived_s",
    "mpjpe_m": "mpjpe_m",
    "anchor_pos_err_m": "anchor_pos_err_m",
    "joint_rmse_rad": "joint_rmse_rad",
}
"""Metrics of `reward.json`, each the mean of a row metric over the trials that measured it."""


def verify(ctx: VerifyContext) -> FamilyResult:
    """A and E_eval of f04: the graph follows the clip in eight hidden trials."""
    clip = load_clip(ctx.task.slug)
    profile = ctx.options.get("profile", spec.SCORED_PROFILE)
    meta = policy.read_meta(ctx.submission.read(spec.META_FILE))
    checked = ctx.check("onnx", policy.contract(meta.obs_history_length))
    params = {"history": meta.obs_history_length, "profile": profile}
    rows = ctx.map_trials(run_trial, [*smoke_trials(params), *hidden_trials(params)])
    smoke, hidden = rows[: spec.N_SMOKE_RUNS], stop_after_faults(rows[spec.N_SMOKE_RUNS :])
    return compose(clip, profile, meta, checked.facts, smoke, hidden)


def smoke_trials(params: dict[str, Any]) -> list[Trial]:
    """The smoke draw, once per run."""
    return [
        Trial(id=f"s{run:02d}", index=0, namespace="smoke", group="smoke", params=params)
        for run in range(spec.N_SMOKE_RUNS)
    ]


def hidden_trials(params: dict[str, Any]) -> list[Trial]:
    """The scored trials."""
    return [Trial(id=f"t{i:02d}", index=i, params=params) for i in range(spec.N_HIDDEN)]


def run_trial(ctx: VerifyContext, trial: Trial) -> Row:
    """One trial in a fresh worker."""
    clip = load_clip(ctx.task.slug)
    history = trial.params["history"]
    sim = task.Trial(clip, draw(ctx, trial, clip))
    started_s = time.monotonic()
    with ctx.worker("onnx", policy.checked(history), LIMITS) as worker:
        record = task.play(sim, worker.act, history)
        policy_s = worker.wall_s
    row = to_row(record, metrics.jerk_limit(clip.joint_pos), trial.id, trial.group)
    if trial.namespace == "smoke":
        row = msgspec.structs.replace(row, series={"fingerprint": fingerprint(record)})
    return msgspec.structs.replace(row, wall_s=time.monotonic() - started_s, policy_s=policy_s)


def fingerprint(record: task.Record) -> list[float]:
    """SHA-256 over all bits of e_t and the actions, as eight 32-bit numbers."""
    digest = hashlib.sha256(record.error_m.tobytes() + record.action.tobytes()).digest()
    return np.frombuffer(digest, dtype="<u4").astype(float).tolist()


def draw(ctx: VerifyContext, trial: Trial, clip: reference.Reference) -> draws.TrialDraws:
    """The draws of a trial, from its own streams."""
    return draws.trial_draws(
        lambda stream: ctx.rng(stream, trial.index, namespace=trial.namespace),
        clip.body_pos_w,
        trial.params["profile"],
    )


def load_clip(slug: str) -> reference.Reference:
    """The clip of a task; checked once per process and data folder."""
    return _load_clip(slug, os.environ.get("RLE_LAFAN1_DIR"))


@functools.lru_cache(maxsize=8)
def _load_clip(slug: str, _folder: str | None) -> reference.Reference:
    return reference.load_clip(slug)


def to_row(record: task.Record, jerk_limit: float, trial_id: str, group: str = "") -> Row:
    """What a trial measured and what it scores."""
    t, u = metrics.tracking(record.error_m), metrics.survival(record.executed)
    j = metrics.jerk(record.action)
    anchor_z = record.fall_measures[: record.executed, 0]
    recovery = (
        metrics.recovery_s(record.error_m, record.push_steps[0]) if record.push_steps else None
    )
    worst = record.fall_measures.max(axis=0, initial=0.0)
    return Row(
        id=trial_id,
        group=group,
        score=metrics.score(t, u, j, jerk_limit, record.is_fall),
        ended=record.ended,
        metrics={
            "T": t,
            "U": u,
            "J": j,
            "F": float(record.is_fall),
            "T_03": metrics.tracking(record.error_m, sigmas_m=spec.KERNEL_SIGMA_M[:1]),
            "survived_s": record.executed / spec.CONTROL_HZ,
            "mpjpe_m": _mean(record.error_m),
            "anchor_pos_err_m": _mean(np.hypot(record.drift_m, anchor_z)),
            "joint_rmse_rad": _mean(record.joint_error_rad),
            "drift_m": float(record.drift_m.max(initial=0.0)),
            "yaw_drift_rad": float(np.abs(record.yaw_drift_rad).max(initial=0.0)),
            "first_push_recovery_s": recovery,
            "n_pushes": float(len(record.push_steps)),
            **{f"worst_{name}": float(v) for name, v in zip(task.FALL_NAMES, worst)},
        },
        series=_series(record),
        events=_events(record),
    )


def _mean(values: np.ndarray) -> float | None:
    """Mean of what was measured; None where nothing was."""
    return float(values.mean()) if len(values) else None


def _series(record: task.Record) -> dict[str, list[float]]:
    """Curves of a row: means of e_t and drift, and the worst share of a fall limit, every 0.2 s."""
    starts = np.arange(0, record.executed, SERIES_STEPS)
    if len(starts) == 0:
        return {}
    counts = np.diff([*starts, record.executed])
    share = (record.fall_measures / np.array(task.FALL_LIMITS)).max(axis=1)[: record.executed]
    return {
        "t_s": ((starts + counts) / spec.CONTROL_HZ).tolist(),
        "error_m": (np.add.reduceat(record.error_m, starts) / counts).tolist(),
        "drift_m": (np.add.reduceat(record.drift_m, starts) / counts).tolist(),
        "fall_share": np.maximum.reduceat(share, starts).tolist(),
    }


def _events(record: task.Record) -> list[tuple[float, str]]:
    """Pushes, and what ended the trial before its time."""
    events = [(step / spec.CONTROL_HZ, "push") for step in record.push_steps]
    if record.is_fall:
        text = record.ended
        if record.ended in FALL_TEXTS:
            measure = record.fall_measures[-1, task.FALL_NAMES.index(record.ended)]
            text = f"fall: {FALL_TEXTS[record.ended].format(measure)}"
        events.append((len(record.ctrl) / spec.CONTROL_HZ, text))
    return events


def stop_after_faults(rows: list[Row]) -> list[Row]:
    """Rows in order; those after the third dead or slow policy process are `not_run` and score 0.

    Decided by the order of the trials, so that the score does not depend on how many run at once.
    """
    faults, kept = 0, []
    for row in rows:
        if faults >= spec.MAX_POLICY_FAULTS:
            row = Row(id=row.id, group=row.group, score=0.0, ended="not_run")
        faults += row.ended in POLICY_FAULTS
        kept.append(row)
    return kept


def gates(smoke: list[Row]) -> dict[str, bool]:
    """`valid`: the contract held (else nothing ran); `stable` and `deterministic`: the smoke runs."""
    first, *others = ((row.series.get("fingerprint"), row.ended) for row in smoke)
    return {
        "valid": True,
        "stable": not any(row.ended in UNSTABLE for row in smoke),
        "deterministic": all(other == first for other in others),
    }


def compose(
    clip: reference.Reference,
    profile: str,
    meta: policy.Meta,
    facts: dict[str, Any],
    smoke: list[Row],
    hidden: list[Row],
) -> FamilyResult:
    """The result of a run: mean of the trials, the gates, and the flat metrics."""
    raw = float(np.mean([row.score for row in hidden]))
    opened = gates(smoke)
    limit = metrics.jerk_limit(clip.joint_pos)
    flat = {name: _mean_of(hidden, key) for name, key in REWARD_KEYS.items()}
    flat |= {f"gate_{name}": float(value) for name, value in opened.items()}
    flat |= {
        "raw_total": raw,
        "jerk_limit": limit,
        "n_params": facts.get("n_parameters"),
    }
    flags = []
    if meta.n_params is not None and meta.n_params != facts.get("n_parameters"):
        flags.append(
            f"n_params of {spec.META_FILE} is {meta.n_params}; counted {facts.get('n_parameters')}"
        )
    return FamilyResult(
        rows=hidden,
        score=gate(raw, all(opened.values()), spec.GATE_CAP),
        raw_total=raw,
        metrics={name: float(value) for name, value in flat.items() if value is not None},
        gates=opened,
        scored=profile == spec.SCORED_PROFILE,
        reference=clip.kind,
        extra={
            "reference_sha256": clip.sha256,
            "profile": profile,
            "jerk_reference": metrics.reference_jerk(clip.joint_pos),
            "jerk_limit": limit,
            "jerk_limit_source": "reference-derived",
            "obs_history_length": meta.obs_history_length,
            "smoke_ended": [row.ended for row in smoke],
            "graph": {k: v for k, v in facts.items() if isinstance(v, int | float)},
        },
        flags=flags,
        thresholds=thresholds(hidden, facts),
    )


def _mean_of(rows: list[Row], key: str) -> float | None:
    """Mean of a row metric over the rows that measured it; F and U of a trial not run are 1 and 0."""
    missing = {"F": 1.0, "U": 0.0, "T": 0.0, "T_03": 0.0, "survived_s": 0.0}.get(key)
    values = [row.metrics.get(key, missing) for row in rows]
    measured = [value for value in values if value is not None]
    return float(np.mean(measured)) if measured else None


def thresholds(rows: list[Row], facts: dict[str, Any]) -> list[Threshold]:
    """Every limit that was checked, with the worst measurement."""
    checks = [
        ("parameters", facts.get("n_parameters"), spec.MAX_PARAMS, "float32"),
        ("inference, median", facts.get("inference_ms"), 1e3 * spec.MAX_INFERENCE_S, "ms"),
        (
            "calls of one trial",
            max((r.policy_s for r in rows), default=None),
            spec.MAX_CALLS_TOTAL_S,
            "s",
        ),
    ]
    for name, limit, unit in zip(task.FALL_NAMES, task.FALL_LIMITS, ("m", "-", "m")):
        for row in rows:
            checks.append((f"{row.id} {name}", row.metrics.get(f"worst_{name}"), limit, unit))
    return [
        Threshold(name=name, measured=float(value), limit=float(limit), unit=unit, sense="at_most")
        for name, value, limit, unit in checks
        if value is not None
    ]


# ------------------------------------------------------------------------------------------ video


def media(ctx: VerifyContext, folder: Path) -> None:
    """Writes `trial<i>.mp4` of every scored trial, with posters; called after the score is on disk."""
    meta = policy.read_meta(ctx.submission.read(spec.META_FILE))
    profile = ctx.options.get("profile", spec.SCORED_PROFILE)
    for trial in hidden_trials({"history": meta.obs_history_length, "profile": profile}):
        film(ctx, trial, folder / f"trial{trial.index}.mp4")


def film(ctx: VerifyContext, trial: Trial, path: Path) -> None:
    """Runs a trial again and writes its video: the robot solid, the scored reference as spheres.

    Args:
        ctx: Context of the run.
        trial: One of the trials that was scored.
        path: Target file, ending in .mp4; nothing is written for a trial without a state.
    """
    clip = load_clip(ctx.task.slug)
    drawn, history = draw(ctx, trial, clip), trial.params["history"]
    with ctx.worker("onnx", policy.checked(history), LIMITS) as worker:
        record = task.play(task.Trial(clip, drawn), worker.act, history)
    film_record(clip, record, path, drawn)


def film_record(
    clip: reference.Reference, record: task.Record, path: Path, drawn: draws.TrialDraws
) -> None:
    """Video of a recorded trial, 25 frames per second, on the trial's own floor."""
    every = round(spec.CONTROL_HZ / spec.VIDEO.fps)
    g1 = scene.build(spec.EVAL_TIMESTEP_S, drawn.dynamics, drawn.terrain)
    g1.model.vis.quality.offsamples = 0  # two thirds of a frame on a software renderer
    states, video = record.qpos[::every], spec.VIDEO
    view, option = mujoco.MjvCamera(), mujoco.MjvOption()
    view.distance, view.azimuth, view.elevation = (
        video.distance_m,
        video.azimuth_deg,
        video.elevation_deg,
    )
    option.geomgroup[:] = 1

    def follow(data: mujoco.MjData) -> mujoco.MjvCamera:
        view.lookat[:] = (*data.qpos[:2], video.look_at_z_m)
        return view

    def show_reference(picture: mujoco.MjvScene, i: int) -> None:
        for position in record.reference_pos[max(i * every - 1, 0) :][:1].reshape(-1, 3):
            sphere(picture, position, video.marker_radius_m, np.array(video.marker_rgba))

    film_states(
        path,
        g1.model,
        states,
        video.fps,
        camera=follow,
        option=option,
        decorate=show_reference,
        poster_frame=len(states) - 1 if record.is_fall else None,
    )
