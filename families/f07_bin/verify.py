"""A and E_eval of f07, in reading order: contract, smoke pile, eight hidden piles, rows, result."""

import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from families.f07_bin import metrics, piles, scene, spec
from families.f07_bin.episode import Episode
from families.f07_bin.task import STATE, Played, picture_arrays, play
from rle.contracts import Arg, ArraySpec, Function, PythonContract
from rle.errors import InvalidSubmission
from rle.report import FamilyResult, Row, Threshold
from rle.scoring import gate
from rle.sim.film import film_states
from rle.verify_api import Checked, Limits, Trial, VerifyContext

FOLDER, ENTRY, CHANNELS_FILE = "policy", "policy.py", "policy/channels.json"
LIMITS = Limits(
    call_cap_s=spec.ACT_CAP_S,
    reset_cap_s=spec.RESET_CAP_S,
    total_cap_s=spec.POLICY_TOTAL_S,
    load_cap_s=spec.LOAD_CAP_S,
)
N_SMOKE_RUNS = 2
MAX_MARKS = 200
"""Events of a pile in a report; a policy can make slips without end."""
DIGEST_EVENT = "digest "
"""Start of the event that carries a smoke run's digest."""
SILENT = frozenset({"timeout_call", "worker_died"})
"""Endings after which the policy is gone and the last command is held."""


def verify(ctx: VerifyContext) -> FamilyResult:
    """The policy plays the smoke pile twice and then eight hidden piles, each in a fresh worker."""
    channels = read_channels(ctx)
    ctx.check("python", contract(channels))
    params = {"channels": list(channels)}
    if is_quick(ctx):
        rows = ctx.map_trials(run_trial, quick_trials(params))
        return msgspec.structs.replace(compose(rows, {}, channels), scored=False)
    smoke = ctx.map_trials(run_trial, smoke_trials(params))
    opened = gates(smoke)
    if not opened["load"]:
        hidden = [Row(id=t.id, score=0.0, ended="not_run") for t in hidden_trials(params)]
    else:
        hidden = ctx.map_trials(run_trial, hidden_trials(params))
    return compose(hidden, opened, channels)


# ----------------------------------------------------------------------------------- contract


def read_channels(ctx: VerifyContext) -> tuple[str, ...]:
    """Picture channels of the submission, in the order of `spec.CHANNELS`.

    Raises:
        InvalidSubmission: `f07.channels`.
    """
    if CHANNELS_FILE not in ctx.submission.names():
        return spec.CHANNELS
    return parse_channels(ctx.submission.read(CHANNELS_FILE))


def parse_channels(data: bytes) -> tuple[str, ...]:
    """Content of `channels.json`. Raises InvalidSubmission("f07.channels")."""
    allowed = ", ".join(spec.CHANNELS)
    try:
        asked = msgspec.json.decode(data, type=list[str])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidSubmission(
            "f07.channels", fact="is not a JSON list of names", allowed=allowed
        ) from None
    for name in asked:
        if name not in spec.CHANNELS:
            raise InvalidSubmission("f07.channels", fact=f'names "{name[:40]}"', allowed=allowed)
    return tuple(name for name in spec.CHANNELS if name in asked)


def contract(channels: Collection[str]) -> PythonContract:
    """`make_policy()` gives an object with `reset(cell_spec, seed)` and `act(obs)`.

    `act` without pictures and `act_frame` with them both call the policy's `act`.
    """
    returns = (ArraySpec("command", (spec.N_CTRL,)),)
    return PythonContract(
        folder=FOLDER,
        entry=ENTRY,
        factory="make_policy",
        required=("reset", "act"),
        functions=(
            Function(name="act", args=(Arg(kind="dict", arrays=STATE),), returns=returns),
            Function(
                name="act_frame",
                target="act",
                args=(Arg(kind="dict", arrays=(*STATE, *picture_arrays(channels))),),
                returns=returns,
            ),
        ),
        max_files=spec.MAX_FILES,
        max_total_bytes=spec.MAX_TOTAL_BYTES,
    )


# ------------------------------------------------------------------------------------- trials


def smoke_trials(params: dict[str, Any]) -> list[Trial]:
    """The smoke pile, once per run."""
    return [
        Trial(id=f"s{run:02d}", index=0, namespace="smoke", group="smoke", params=params)
        for run in range(N_SMOKE_RUNS)
    ]


def hidden_trials(params: dict[str, Any]) -> list[Trial]:
    """The scored piles."""
    return [Trial(id=f"t{i:02d}", index=i, params=params) for i in range(spec.N_HIDDEN)]


def is_quick(ctx: VerifyContext) -> bool:
    """Whether one pile is only looked at."""
    return ctx.options.get("profile") == "quick"


def quick_trials(params: dict[str, Any]) -> list[Trial]:
    """The first scored pile, cut short."""
    return [Trial(id="t00", index=0, params={**params, "ticks": spec.QUICK_TICKS})]


def run_trial(ctx: VerifyContext, trial: Trial) -> Row:
    """One pile in a fresh worker."""
    started_s = time.monotonic()
    is_smoke = trial.namespace == "smoke"
    ticks = spec.SMOKE_TICKS if is_smoke else trial.params.get("ticks", spec.TICKS)
    with _episode(ctx, trial) as episode:
        with _worker(ctx, trial) as worker:
            played = play(episode, worker, policy_seed(ctx, trial), ticks)
        row = to_row(episode, played, trial.id, trial.group, curves=ctx.practice or is_smoke)
    if is_smoke:
        digest = (0.0, DIGEST_EVENT + episode.digest())
        row = msgspec.structs.replace(row, events=[digest, *row.events])
    return msgspec.structs.replace(row, wall_s=time.monotonic() - started_s)


def policy_seed(ctx: VerifyContext, trial: Trial) -> int:
    """63 bits that say nothing about the pile."""
    rng = ctx.rng("policy_seed", trial.index, namespace=trial.namespace)
    return int(rng.integers(2**63, dtype=np.uint64))


def _episode(ctx: VerifyContext, trial: Trial) -> Episode:
    def streams(name: str, *ids: int) -> np.random.Generator:
        return ctx.rng(name, trial.index, *ids, namespace=trial.namespace)

    return Episode(piles.draw(streams), streams, trial.params["channels"])


def _worker(ctx: VerifyContext, trial: Trial):
    """A fresh worker that holds the policy."""
    checked = Checked(kind="python", contract=contract(trial.params["channels"]), files=())
    return ctx.worker("python", checked, LIMITS)


# --------------------------------------------------------------------------------------- rows


def outcome(episode: Episode) -> metrics.Outcome:
    """What the episode measured, for `metrics.score`."""
    return metrics.Outcome(
        n=episode.n_parts,
        cleared=episode.n_cleared,
        last_clear_s=episode.last_clear_s,
        floor=int(episode.is_dropped.sum()),
        damage=int(episode.is_damaged.sum()),
        bin_hits=episode.n_bin_hits,
    )


def to_row(
    episode: Episode, played: Played, row_id: str, group: str = "", *, curves: bool = True
) -> Row:
    """What a pile measured and scored. `curves=False` leaves out everything with a time in it."""
    measured = outcome(episode)
    terms = metrics.score(measured)
    return Row(
        id=row_id,
        group=group,
        score=terms.score,
        ended=played.ended,
        policy_s=played.reset_s + played.act_s,
        metrics={
            "n": float(measured.n),
            "cleared": float(measured.cleared),
            "f": terms.f,
            "h": terms.h,
            "p": terms.p,
            "den_s": terms.den_s,
            "clean": terms.clean,
            "floor": float(measured.floor),
            "damage": float(measured.damage),
            "bin_hits": float(measured.bin_hits),
            "slips": float(episode.n_slips),
            "peak_part_n": episode.peak_part_n,
            "peak_bin_n": episode.peak_bin_n,
            "solver_warnings": float(episode.n_solver_warnings),
            "ticks": float(episode.tick),
            "faults": float(played.faults),
            "reset_s": played.reset_s,
            "act_s": played.act_s,
            "render_s": episode.sensors.render_s,
            "physics_s": episode.physics_s,
        },
        series=episode.curves if curves else {},
        events=marks(episode) if curves else [],
    )


def marks(episode: Episode) -> list[tuple[float, str]]:
    """The first events of a time line, in words; grabs and releases are left to `rle dev`."""
    chosen = [e for e in episode.events if e.kind in _MARKS][:MAX_MARKS]
    return [
        (e.t_s, _MARKS[e.kind] if e.part < 0 else f"part {e.part} {_MARKS[e.kind]}") for e in chosen
    ]


_MARKS = {
    "clear": "cleared",
    "slip": "slipped off",
    "floor": "fell to the floor",
    "damage": "bent",
    "bin_hit": "bin hit",
}


def gates(smoke: list[Row]) -> dict[str, bool]:
    """What the smoke runs showed. A run that ended early is judged on the ticks it had."""
    first, *others = ([text for _, text in row.events[:1]] for row in smoke)
    faults = [_of(row, "faults") / max(_of(row, "ticks"), 1.0) for row in smoke]
    alive = [row.ended not in SILENT and share < 1.0 for row, share in zip(smoke, faults)]
    return {
        "load": all(alive),
        "contract": all(share <= spec.SMOKE_FAULT_SHARE for share in faults),
        "stable": all(row.ended != "sim_unstable" for row in smoke),
        "determinism": all(other == first for other in others),
    }


def compose(hidden: list[Row], opened: dict[str, bool], channels: Collection[str]) -> FamilyResult:
    """The result of a run: mean of the piles, the gates, and the flat metrics."""
    raw = float(np.mean([row.score for row in hidden]))
    score = gate(raw, all(opened.values()), spec.SMOKE_CAP) if opened.get("load", True) else 0.0
    total = {key: sum(_of(row, key) for row in hidden) for key in _SUMS.values()}
    complete = [_of(row, "den_s") for row in hidden if row.metrics.get("f") == 1.0]
    parts = total["n"]
    flat = {name: float(total[key]) for name, key in _SUMS.items()}
    flat |= {
        "clear_frac": total["cleared"] / parts if parts else 0.0,
        "throughput_ppm": float(np.mean([_of(row, "p") for row in hidden])),
        "clean_complete_share": float(np.mean([_of(row, "clean") for row in hidden])),
        "policy_s_total": sum(row.policy_s for row in hidden),
        "sim_s_total": total["ticks"] / spec.CONTROL_HZ,
        "harness_s_total": sum(row.wall_s - row.policy_s for row in hidden),
        "raw_total": raw,
    }
    del flat["ticks"]
    if complete:
        flat["makespan_s"] = float(np.mean(complete))
    flat |= {f"gate_{name}": float(value) for name, value in opened.items()}
    return FamilyResult(
        rows=hidden,
        score=score,
        raw_total=raw,
        metrics=flat,
        gates=opened,
        extra={"channels": list(channels)},
        thresholds=thresholds(hidden),
    )


_SUMS = {
    "parts_cleared": "cleared",
    "n_parts": "n",
    "floor_drops": "floor",
    "damage_events": "damage",
    "bin_hits": "bin_hits",
    "slips": "slips",
    "policy_faults": "faults",
    "ticks": "ticks",
}
"""Sums over the piles: key of `reward.json` and key of the row."""


def _of(row: Row, key: str) -> float:
    """A measurement of a row; 0 for a pile that was not run."""
    return row.metrics.get(key) or 0.0


def thresholds(hidden: list[Row]) -> list[Threshold]:
    """Limits of force and policy time, with what each pile measured."""
    return [
        Threshold(
            name=f"{row.id} {name}", measured=measured, limit=limit, unit=unit, sense="at_most"
        )
        for row in hidden
        if row.metrics
        for name, measured, limit, unit in (
            ("force on a part", _of(row, "peak_part_n"), spec.DAMAGE_FORCE_N, "N"),
            ("force on the bin", _of(row, "peak_bin_n"), spec.BIN_HIT_FORCE_N, "N"),
            ("policy time", row.policy_s, spec.POLICY_TOTAL_S, "s"),
        )
    ]


# -------------------------------------------------------------------------------------- video


class Film:
    """Collects states of an episode for a video, `spec.OVERVIEW_HZ` per second."""

    def __init__(self) -> None:
        self._states: list[np.ndarray] = []
        self._every = round(spec.CONTROL_HZ / spec.OVERVIEW_HZ)

    def __call__(self, episode: Episode) -> None:
        """To be passed as `on_tick`."""
        if episode.tick % self._every == 0 or episode.is_done:
            self._states.append(episode.data.qpos.copy())

    def write(self, path: Path, n_parts: int, lights: scene.Lights) -> None:
        """Writes the MP4 and its poster; cleared parts are out of the picture."""
        width, height = spec.OVERVIEW_WH_PX
        film_states(
            path,
            scene.build(n_parts, lights).model,
            np.array(self._states),
            spec.OVERVIEW_HZ,
            width_px=width,
            height_px=height,
            camera="overview",
        )


def media(ctx: VerifyContext, folder: Path) -> None:
    """Writes `trial<i>.mp4` of every scored pile, with posters; called after the score is on disk."""
    params = {"channels": list(read_channels(ctx))}
    for trial in (quick_trials if is_quick(ctx) else hidden_trials)(params):
        film(ctx, trial, folder / f"trial{trial.index}.mp4")


def film(ctx: VerifyContext, trial: Trial, path: Path) -> None:
    """Plays a pile again in a fresh worker and writes its video to `path`, ending in .mp4."""
    recorder = Film()
    with _episode(ctx, trial) as episode:
        with _worker(ctx, trial) as worker:
            ticks = trial.params.get("ticks", spec.TICKS)
            play(episode, worker, policy_seed(ctx, trial), ticks, on_tick=recorder)
    recorder.write(path, episode.n_parts, episode.lights)
