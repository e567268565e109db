"""A metered evaluation: the verifier itself, on the design scenes, and what is told of its report."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from families.f06_pose import client, metrics, spec
from rle.report import Report, Row, read_report

REFUSED = ("file.", "intake.")
"""Codes of a copy that was not accepted: the call is given back."""


class EvaluationFailed(Exception):
    """The folder was refused, or our side failed.

    Args:
        kind: Of the reply.
        message: For the agent.
        is_used: Whether the call counts.
    """

    def __init__(self, kind: client.ErrorKind, message: str, is_used: bool) -> None:
        super().__init__(message)
        self.kind, self.is_used = kind, is_used


def evaluate(task_id: str, folder: Path, request_id: str, calls_left: int) -> client.Evaluation:
    """Runs the folder in the verifier's sandbox on the design scenes.

    Args:
        task_id: The task.
        folder: Submission; copied by the verifier's intake.
        request_id: Of the request.
        calls_left: After this call.

    Raises:
        EvaluationFailed: See there.
    """
    if not folder.is_dir():
        text = f"{folder} is not a folder that the renderer can read"
        raise EvaluationFailed("invalid_submission", text, is_used=False)
    with tempfile.TemporaryDirectory(prefix="rle-f06-") as name:
        out = Path(name) / "out"
        argv = [sys.executable, "-m", "verifier", "--task", task_id, "--artifacts", str(folder)]
        argv += ["--out", str(out), "--profile", "design", "--no-keep"]
        run = subprocess.run(argv, check=False, capture_output=True, text=True)
        path = out / "report.json"
        if not path.is_file():
            text = run.stderr.strip().splitlines()[-1:] or ["the verifier wrote no report"]
            raise EvaluationFailed("internal", text[0], is_used=False)
        report = read_report(path.read_bytes())
    if report.outcome == "invalid_submission":
        error = report.errors[0]
        used = not error.code.startswith(REFUSED)
        raise EvaluationFailed("invalid_submission", error.message, is_used=used)
    if report.outcome != "scored":
        text = report.errors[0].message if report.errors else report.outcome
        raise EvaluationFailed("internal", text, is_used=False)
    return summary(report, request_id, calls_left)


def summary(report: Report, request_id: str, calls_left: int) -> client.Evaluation:
    """What the agent is told: errors rounded to 0.1, the rate, the calls left; nothing per frame."""
    stages: dict[client.Kind, str] = {"single": metrics.STAGE_A, "push": metrics.STAGE_B}

    def over(key: str) -> dict[client.Kind, client.Interval]:
        return {
            kind: interval([r.series[key] for r in _stage(report.rows, stage)])
            for kind, stage in stages.items()
        }

    return client.Evaluation(
        request_id=request_id,
        xy_mm=over("xy_error_mm"),
        theta_deg=over("yaw_error_deg"),
        rate_hz=round(report.metrics.get("rate_hz", 0.0), 1),
        calls_left=calls_left,
    )


def _stage(rows: Sequence[Row], stage: str) -> list[Row]:
    return [row for row in rows if row.group == stage]


def interval(clusters: Sequence[Sequence[float]]) -> client.Interval:
    """Mean, SD, median and the 95 % bootstrap interval of the mean, resampling whole clusters.

    Args:
        clusters: Values of each design seed.
    """
    values = np.concatenate([np.asarray(c, float) for c in clusters]) if clusters else np.zeros(0)
    if values.size == 0:
        return client.Interval(0, None, None, None, None, None)
    sums = np.array([np.sum(c) for c in clusters])
    counts = np.array([len(c) for c in clusters])
    rng = np.random.default_rng(spec.BOOTSTRAP_SEED)
    picks = rng.integers(0, len(clusters), size=(spec.BOOTSTRAP_N, len(clusters)))
    drawn = counts[picks].sum(axis=1)
    means = sums[picks].sum(axis=1)[drawn > 0] / drawn[drawn > 0]
    low, high = np.percentile(means, (2.5, 97.5))
    rounded = [
        round(float(v), 1) for v in (values.mean(), values.std(), np.median(values), low, high)
    ]
    return client.Interval(int(values.size), *rounded)
