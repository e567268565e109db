"""Results for the tests of the Index and its pages: reports on disk, cells and systems in memory."""

import json
from pathlib import Path

import msgspec
import numpy as np

from rle.index.model import Cell, IndexInput, Run, System
from rle.report import (
    ErrorRecord,
    FileRecord,
    IsolationRecord,
    Machine,
    Report,
    Row,
    SelfTest,
    SubmissionRecord,
    Threshold,
)


def rows(scores, ended="done") -> list[Row]:
    return [Row(id=f"t{i:02d}", score=float(s), ended=ended) for i, s in enumerate(scores)]


def scored(reward: float, **fields) -> Cell:
    """A scored cell of one row, unless rows are given."""
    return Cell(outcome="scored", reward=reward, **{"rows": rows([reward]), **fields})


def cell_of(scores, **fields) -> Cell:
    """A cell whose reward is the mean of its row scores."""
    return Cell(outcome="scored", reward=float(np.mean(scores)), rows=rows(scores), **fields)


def system(name: str, *runs: dict[str, Cell], **fields) -> System:
    return System(
        name=name, runs=[Run(run=i, tasks=t) for i, t in enumerate(runs, start=1)], **fields
    )


def write_input(folder: Path, *systems: System) -> Path:
    path = folder / "input.json"
    path.write_bytes(msgspec.json.encode(IndexInput(systems=list(systems))))
    return path


def tracking_rows(rng: np.random.Generator, n: int = 8, points: int = 100) -> list[Row]:
    """Trials with the curves, events and metrics of f04: two run to the end, the others fall."""
    found = []
    for i in range(n):
        executed = int(rng.integers(20, points)) if i < n - 2 else points
        t_s = 0.2 * np.arange(1, executed + 1)
        error_m = 0.04 + 0.02 * np.abs(np.sin(t_s + i)) + 0.1 * (t_s / t_s[-1]) ** 8
        share = np.minimum(error_m * 4, 0.9)
        u, fell = executed / points, executed < points
        pushes = [(float(p), "push") for p in np.arange(2.0, t_s[-1], 2.5)]
        if fell:
            share[-1] = 1.04
        fall = [(float(t_s[-1]), "fall: torso 0.26 m off its reference height")] if fell else []
        t = 0.8 * u
        found.append(
            Row(
                id=f"t{i:02d}",
                score=max(0.7 * t + 0.3 * u - 0.15 * 0.5 - 0.05 * fell, 0.0),
                metrics={
                    "T": t, "U": u, "J": 0.15, "F": float(fell), "survived_s": float(t_s[-1]),
                    "mpjpe_m": float(error_m.mean()), "first_push_recovery_s": None,
                },
                ended="anchor_z" if fell else "done",
                wall_s=3.1,
                policy_s=0.4,
                series={
                    "t_s": t_s.tolist(), "error_m": error_m.tolist(), "fall_share": share.tolist(),
                },
                events=pushes + fall,
            )
        )  # fmt: skip
    return found


def report(task: str = "f04/dance", **fields) -> Report:
    """A complete report; every field can be replaced."""
    found = tracking_rows(np.random.default_rng(len(task)))
    reward = float(np.mean([row.score for row in found]))
    given = {
        "task": task,
        "family_version": "1.0.0",
        "outcome": "scored",
        "reward": reward,
        "raw_total": reward,
        "gates": {"stable": True, "deterministic": True},
        "metrics": {"mpjpe_m": 0.081, "survival": 0.42, "falls": 0.75, "action_jerk": 0.15},
        "extra": {"jerk_limit": 0.3},
        "rows": found,
        "submission": SubmissionRecord(
            digest="ab" * 32, files=[FileRecord(path="policy.onnx", size=2_301_554, sha256="cd" * 32)]
        ),
        "versions": {"rle": "1.0.0", "mujoco": "3.9.0", "numpy": "1.26.4", "torch": None},
        "isolation": IsolationRecord(
            mode="strict",
            layers=["rlimits", "uid", "nnp", "landlock", "seccomp"],
            selftest=SelfTest(blocked=["open the canary", "fork"], allowed=["read own file"]),
        ),
        "practice": False,
        "salt_id": "0f1e2d3c",
        "machine": Machine(cpu="a cpu", cores=2, kernel="6.1", gl="egl", speed_before=1.02),
        "started_at": "2026-11-29T20:00:00+00:00",
        "finished_at": "2026-11-29T20:01:00+00:00",
        "wall_s": 60.0,
        "thresholds": [
            Threshold(name="median inference time", measured=0.0004, limit=0.01, unit="s",
                      sense="at_most"),
            Threshold(name="parameters", measured=9.9e6, limit=1e7, unit="", sense="at_most"),
        ],
        "command": f"rle verify {task} --submission DIR --out OUT",
    }  # fmt: skip
    return Report(**{**given, **fields})


def invalid(task: str, code="onnx.operator", message="operator Loop is not in the list", **fields):
    return report(
        task, outcome="invalid_submission", reward=0.0, raw_total=None, rows=[], metrics={},
        gates={}, thresholds=[], errors=[ErrorRecord(code=code, message=message)], **fields,
    )  # fmt: skip


def infrastructure(task: str, **fields) -> Report:
    return report(
        task, outcome="infrastructure_error", reward=None, raw_total=None, rows=[], metrics={},
        gates={}, thresholds=[],
        errors=[ErrorRecord(code="output.disk", message="no space left on the device")], **fields,
    )  # fmt: skip


def write_out(folder: Path, value: Report) -> Path:
    """An OUT folder as the verifier leaves it."""
    folder.mkdir(parents=True)
    (folder / "report.json").write_bytes(msgspec.json.encode(value))
    return folder


def write_harbor_trial(job: Path, name: str, value: Report | None, **result) -> Path:
    """A Harbor trial folder with the fields of `result.json` that we read."""
    trial = job / name
    (trial / "verifier").mkdir(parents=True)
    given = {
        "task_name": "rle/f04-dance",
        "trial_name": name,
        "config": {"agent": {"name": "claude-code", "kwargs": {"reasoning_effort": "high"}}},
        "agent_info": {
            "name": "claude-code", "version": "2.1",
            "model_info": {"name": "model-x", "provider": "maker"},
        },
        "agent_result": {
            "n_input_tokens": 1000, "n_cache_tokens": 800, "n_output_tokens": 50, "cost_usd": 1.5,
        },
        "exception_info": None,
        "started_at": "2026-11-29T10:00:00Z",
        "finished_at": "2026-11-29T12:00:00Z",
        "reward_valid": True,
    }  # fmt: skip
    (trial / "result.json").write_text(json.dumps({**given, **result}))
    if value is not None:
        (trial / "verifier" / "report.json").write_bytes(msgspec.json.encode(value))
    return trial
