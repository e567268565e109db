"""`rle dev f04/TASK`: a submission on the published design seeds, in this process, through the scored loop.

python -m families.f04_tracking.dev f04/dance --submission DIR
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import tyro

from families.f04_tracking import draws, metrics, policy, spec, task, verify
from rle import registry, seeds
from rle.errors import InvalidSubmission, RleError, UserError
from rle.paths import output_folder
from rle.report import Row


class DesignResult(msgspec.Struct, frozen=True, kw_only=True):
    """A submission on the published design seeds."""

    task: str
    profile: str
    reference: str
    """Kind of the reference, `lafan1` or `stand-in`."""
    score: float
    """Mean of the rows' scores; no gate is applied."""
    rows: list[Row]


def evaluate_design(
    task_id: str,
    submission: Path,
    profile: str = spec.SCORED_PROFILE,
    design_seeds: tuple[int, ...] = spec.DESIGN_SEEDS,
    on_row: Callable[[Row], None] | None = None,
    video_folder: Path | None = None,
) -> DesignResult:
    """Runs a submission on the design seeds.

    Args:
        task_id: Task id or slug.
        submission: Folder with the two files; trusted, it runs without a sandbox.
        profile: Key of `spec.PROFILES`.
        design_seeds: Seeds; the published ones by default.
        on_row: Told of every finished row.
        video_folder: Where a video per seed is written; None for none.

    Raises:
        InvalidSubmission: A file is missing, the meta file is wrong, or the graph does not load or
            does not fit.
    """
    slug = task_id.removeprefix("f04/")
    clip = verify.load_clip(slug)
    meta = policy.read_meta(_read(submission, spec.META_FILE))
    graph = policy.LocalGraph(_read(submission, spec.ONNX_FILE), meta.obs_history_length)
    limit = metrics.jerk_limit(clip.joint_pos)
    if video_folder is not None:
        output_folder(video_folder, "--video")
    rows = []
    for seed in design_seeds:
        started_s = time.monotonic()
        drawn = draws.trial_draws(design_streams(slug, seed), clip.body_pos_w, profile)
        record = task.play(task.Trial(clip, drawn), graph.act, meta.obs_history_length)
        row = verify.to_row(record, limit, f"seed{seed}")
        rows.append(msgspec.structs.replace(row, wall_s=time.monotonic() - started_s))
        if on_row is not None:
            on_row(rows[-1])
        if video_folder is not None:
            verify.film_record(clip, record, video_folder / f"seed{seed}.mp4", drawn)
    return DesignResult(
        task=f"f04/{slug}",
        profile=profile,
        reference=clip.kind,
        score=float(np.mean([row.score for row in rows])),
        rows=rows,
    )


def design_streams(slug: str, seed: int) -> draws.Streams:
    """Streams of a design seed; public, so that anybody can draw the same trial."""
    key = seeds.trial_key("f04", slug, "design", seed)
    return lambda stream: seeds.stream(key, stream)


def _read(folder: Path, name: str) -> bytes:
    path = folder / name
    if not path.is_file():
        found = ", ".join(sorted(p.name for p in folder.glob("*"))[:5]) or "nothing"
        raise InvalidSubmission("file.missing", path=name, found=found)
    return path.read_bytes()


@dataclass
class Options:
    """Evaluates a submission on the published design seeds, as the verifier would run it.

    Example: rle dev f04/dance --submission out/ --profile no_push --video out/videos
    """

    submission: Path
    """Folder with policy.onnx and policy_meta.json."""
    profile: Literal["full", "no_push", "noise", "nominal"] = "full"
    """Perturbations; only `full` is what is scored."""
    seeds: tuple[int, ...] = spec.DESIGN_SEEDS
    """Design seeds to run."""
    video: Path | None = None
    """Folder for one video per seed."""
    json: bool = False
    """Print the whole result as JSON."""


def main(args: list[str], task_id: str) -> int:
    """What `rle dev TASK` runs with the rest of its command line; returns the exit code."""
    given = tyro.cli(Options, prog=f"rle dev {task_id}", args=args)
    if not given.submission.is_dir():
        raise UserError(
            f"--submission {given.submission} is no folder; it needs {spec.ONNX_FILE} and {spec.META_FILE}"
        )
    show = (lambda row: None) if given.json else _print_row
    result = evaluate_design(
        task_id, given.submission, given.profile, given.seeds, show, given.video
    )
    if given.json:
        _say(msgspec.json.format(msgspec.json.encode(result), indent=1).decode())
    else:
        note = (
            "" if given.profile == spec.SCORED_PROFILE else f"; profile {given.profile}, not scored"
        )
        _say(
            f"{task_id}: {result.score:.4f} on {len(result.rows)} design seeds, {result.reference} clip{note}"
        )
    return 0


def _print_row(row: Row) -> None:
    m = row.metrics
    error = "-" if m["mpjpe_m"] is None else f"{100 * m['mpjpe_m']:.1f} cm"
    _say(
        f"{row.id:>8}  score {row.score:.4f}  T {m['T']:.3f}  U {m['U']:.3f}  J {m['J']:.3f}  "
        f"error {error:>7}  {row.events[-1][1] if m['F'] else 'whole clip'}  ({row.wall_s:.1f} s)"
    )


def _say(text: str) -> None:
    print(text)  # noqa: T201  (this module is a command)


def _module_main(args: list[str]) -> int:
    """Entry of `python -m families.f04_tracking.dev`; a wrong argument is one line and exit code 2."""
    try:
        if not args:
            raise UserError("give a task and --submission DIR, e.g. f04/dance --submission out/")
        return main(args[1:], registry.check_task_id(args[0]))
    except RleError as error:
        sys.stderr.write(f"rle: {error.message}\n")
        return 2


if __name__ == "__main__":
    raise SystemExit(_module_main(sys.argv[1:]))
