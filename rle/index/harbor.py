"""Reads Harbor job folders: one trial folder is one attempt at one task.

A trial folder holds Harbor's `result.json` (agent, costs, times, exception) and our
`verifier/report.json`. Harbor exits 0 even when every trial failed, so only these files count.
"""

import os
from pathlib import Path
from typing import Any

import msgspec

from rle import registry
from rle.errors import UserError
from rle.index.model import Attempt, Cell, Status, System, cell_from_report, report_at

_AGENT_TIMEOUTS = ("AgentTimeoutError", "AgentSetupTimeoutError")
_VERIFIER_TIMEOUTS = ("VerifierTimeoutError",)
_ENVIRONMENT_ERRORS = (
    "EnvironmentStartTimeoutError",
    "SandboxBuildFailedError",
    "HealthcheckError",
    "SandboxLikelyOutOfMemoryError",
    "MemoryLimitExceededError",
    "AddTestsDirError",
    "DownloadVerifierDirError",
    "RewardFileNotFoundError",
    "RewardFileEmptyError",
    "VerifierOutputParseError",
)


def read_jobs(folder: Path) -> list[Attempt]:
    """All attempts below a Harbor job folder, or a folder of jobs. Links are not followed.

    Runs are numbered by `started_at` among the attempts of one task and system; an attempt whose
    environment failed does not use up a number, so that a re-run takes its place.

    Raises:
        UserError: No folder, no trial in it, or a `result.json` that cannot be read.
    """
    if not folder.is_dir():
        raise UserError(f"--harbor {folder} is no folder; give jobs/<job> of `harbor run`")
    found = [_attempt(path) for path in trial_results(folder)]
    attempts = [item for item in found if item is not None]
    if not attempts:
        raise UserError(
            f"{folder} holds no Harbor trial of an RLE task (a folder with result.json whose task is "
            "one of the 51); give jobs/<job> of `harbor run`"
        )
    return _number_runs(attempts)


def trial_results(folder: Path) -> list[Path]:
    """`result.json` of every trial below the folder, links not followed, in order of path."""
    found = []
    for base, dirs, files in os.walk(folder, followlinks=False):
        dirs.sort()
        path = Path(base) / "result.json"
        if "result.json" in files and not path.is_symlink():
            found.append(path)
    return found


def _attempt(path: Path) -> Attempt | None:
    """One trial; None for a job's own `result.json`, which names no task."""
    try:
        result = msgspec.json.decode(path.read_bytes())
    except msgspec.DecodeError as error:
        raise UserError(f"{path} is not JSON ({error}); copy the job folder again") from None
    task = task_id(str(result.get("task_name", ""))) if isinstance(result, dict) else None
    if task is None:
        return None
    return Attempt(
        system=_system(result),
        run=0,
        task=task,
        cell=_cell(path.parent, result),
        source=str(path.parent),
    )


def task_id(task_name: str) -> str | None:
    """`org/f04-dance` or `f04-dance` -> `f04/dance`; None where it is no task of ours."""
    name = task_name.rsplit("/", 1)[-1].replace("-", "/", 1)
    return name if name in registry.TASK_IDS else None


def _system(result: dict[str, Any]) -> System:
    config = result.get("config") or {}
    agent = config.get("agent") or {}
    info = result.get("agent_info") or {}
    model = info.get("model_info") or {}
    identifier = "/".join(p for p in (model.get("provider"), model.get("name")) if p)
    harness = agent.get("name") or info.get("name") or "agent"
    kwargs = agent.get("kwargs") or {}
    effort = next((str(v) for k, v in sorted(kwargs.items()) if "effort" in k), "")
    factor = config.get("agent_timeout_multiplier") or config.get("timeout_multiplier") or 1.0
    return System(
        name=" ".join(p for p in (harness, identifier, effort) if p),
        model=identifier,
        harness=harness,
        harness_version=str(info.get("version") or ""),
        effort=effort,
        budget="the tasks' own limits" if factor == 1.0 else f"the tasks' time limits x {factor:g}",
        runs=[],
    )


def _cell(trial: Path, result: dict[str, Any]) -> Cell:
    status = status_of(result)
    path = trial / "verifier" / "report.json"
    session: dict[str, Any] = {
        **_usage(result),
        "started_at": result.get("started_at"),
        "finished_at": result.get("finished_at"),
        "status": status,
    }
    if path.is_file() and not path.is_symlink():
        cell = cell_from_report(report_at(path), str(path))
        if result.get("reward_valid", True) or cell.outcome == "infrastructure_error":
            return msgspec.structs.replace(cell, **session)
        return msgspec.structs.replace(
            cell, **session, outcome="infrastructure_error", reward=None, rows=[], n_infra=1
        )
    return Cell(outcome="infrastructure_error", n_infra=1, **session)


def status_of(result: dict[str, Any]) -> Status:
    """How the session ended, from the first recorded exception of the trial or its steps."""
    steps = result.get("step_results") or []
    infos = [result.get("exception_info"), *(step.get("exception_info") for step in steps)]
    kind = next((i.get("exception_type", "") for i in infos if i), None)
    if kind is None:
        return "completed"
    if kind in _AGENT_TIMEOUTS:
        return "agent_timeout"
    if kind in _VERIFIER_TIMEOUTS:
        return "verifier_timeout"
    return "environment_error" if kind in _ENVIRONMENT_ERRORS else "agent_error"


def _usage(result: dict[str, Any]) -> dict[str, Any]:
    """Sums over steps; null where nobody reported a number."""
    one = result.get("agent_result")
    steps = [s.get("agent_result") for s in result.get("step_results") or []]
    parts = [part for part in ([one] if one else steps) if part]
    fields = {
        "cost_usd": "cost_usd",
        "input_tokens": "n_input_tokens",
        "cached_tokens": "n_cache_tokens",
        "output_tokens": "n_output_tokens",
    }
    totals: dict[str, Any] = {}
    for ours, theirs in fields.items():
        values = [p[theirs] for p in parts if p.get(theirs) is not None]
        totals[ours] = sum(values) if values else None
    return totals


def _number_runs(attempts: list[Attempt]) -> list[Attempt]:
    ordered = sorted(attempts, key=lambda a: (a.cell.started_at or "", a.source))
    used: dict[tuple[str, str], int] = {}
    numbered = []
    for attempt in ordered:
        key = (attempt.system.name, attempt.task)
        run = used.get(key, 0) + 1
        numbered.append(msgspec.structs.replace(attempt, run=run))
        if attempt.cell.outcome != "infrastructure_error":
            used[key] = run
    return numbered
