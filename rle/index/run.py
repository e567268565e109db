"""`run_index`: load, check, correct, fold, bootstrap, sort."""

import dataclasses
import datetime
import hashlib
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import tyro

from rle.errors import UserError
from rle.index import assemble, check, corrected, published
from rle.index.confidence import Bootstrap
from rle.index.fold import FULL_SET, TaskSet
from rle.index.load import load
from rle.index.model import System
from rle.index.result import Comparison, Correction, IndexResult, SystemResult


@dataclasses.dataclass
class IndexOptions:
    """What to fold, and how."""

    results: tyro.conf.Positional[tuple[Path, ...]] = ()
    """OUT folders of `rle verify` (or folders of them), rle-index-input/1 files; NAME=PATH names a system."""
    harbor: tuple[Path, ...] = ()
    """Harbor job folders, jobs/<job>."""
    system: str | None = None
    """Name for results that bring none; default: name of the folder that holds them all."""
    runs: int | None = None
    """Runs of each system; a run without a task counts 0. With as many folders, each is one run."""
    tier: Literal["full", "lite"] = "full"
    """Which results of f05 count; `lite` is said on every page."""
    published: Path | None = None
    """rle-published/1 file: figures for comparison, drawn grey."""
    corrected: Path | None = None
    """audit.jsonl: shows scores before and after its corrections."""
    boot: int = 5000
    """Bootstrap replicates."""
    allow_mixed: bool = False
    """Mark mixed results instead of refusing them."""
    allow_validation: bool = False
    """Accept rehearsals; they are marked and never ranked."""


def run_index(options: IndexOptions) -> IndexResult:
    """Folds results into the RLE Index.

    Raises:
        UserError: Nothing to fold, or results that must not share one number.
    """
    if options.boot < 100:
        raise UserError(f"--boot {options.boot}: an interval needs at least 100 replicates")
    systems = load(options.results, options.harbor, options.system, options.runs)
    marks = check.check(
        systems,
        tier=options.tier,
        allow_mixed=options.allow_mixed,
        allow_validation=options.allow_validation,
    )
    n_runs = _count_runs(systems, options.runs)
    seed = hashlib.sha256(msgspec.json.encode(systems)).digest()
    result = IndexResult(
        set=FULL_SET.name,
        tier=options.tier,
        n_runs=n_runs,
        n_replicates=options.boot,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        marks=marks,
        systems=[],
        comparisons=[],
        published=published.read_published(options.published) if options.published else [],
    )
    before, pairs = fold_systems(systems, n_runs, FULL_SET, seed, options.boot)
    if options.corrected is None:
        return msgspec.structs.replace(result, systems=before, comparisons=pairs)
    entries = corrected.read_entries(options.corrected)
    audit = corrected.summarise(entries)
    task_set = corrected.corrected_set(audit)
    after = [corrected.correct(system, entries) for system in systems]
    found, pairs = fold_systems(after, n_runs, task_set, seed, options.boot)
    old = {s.name: Correction(set=FULL_SET.name, index=s.index) for s in before}
    return msgspec.structs.replace(
        result,
        set=task_set.name,
        systems=[msgspec.structs.replace(s, before=old[s.name]) for s in found],
        comparisons=pairs,
        audit=audit,
    )


def _count_runs(systems: list[System], given: int | None) -> int:
    """One number of runs for all systems: the one given, else the most that any system has."""
    most = max((run.run for system in systems for run in system.runs), default=1)
    if given is None:
        return most
    if given < max(most, 1):
        raise UserError(f"--runs {given}, but the results hold run {most}; give --runs {most}")
    return given


def fold_systems(
    systems: list[System], n_runs: int, task_set: TaskSet, seed: bytes, n_replicates: int
) -> tuple[list[SystemResult], list[Comparison]]:
    """Every system's result, best first, and the paired comparison of each two.

    Args:
        systems: Checked systems.
        n_runs: Runs of each; missing ones count 0.
        task_set: The denominator.
        seed: Digest of the input; the same input gives the same intervals.
        n_replicates: Bootstrap replicates.
    """
    cells = [{run.run: run.tasks for run in system.runs} for system in systems]
    boot = Bootstrap(cells, n_runs, task_set, seed, n_replicates)
    over_tasks = [boot.over_tasks(s) for s in range(len(systems))]
    found = [
        assemble.system_result(system, n_runs, boot, s, over_tasks[s])
        for s, system in enumerate(systems)
    ]
    order = sorted(range(len(found)), key=lambda s: (-found[s].index.value, found[s].name))
    replicates = [task_set.index(reps) for reps in over_tasks]
    pairs = [
        _compare(found[a], found[b], replicates[a] - replicates[b])
        for i, a in enumerate(order)
        for b in order[i + 1 :]
    ]
    return [found[s] for s in order], pairs


def _compare(a: SystemResult, b: SystemResult, differences: np.ndarray) -> Comparison:
    low, high = np.percentile(differences, [2.5, 97.5])
    return Comparison(
        a=a.name,
        b=b.name,
        difference=a.index.value - b.index.value,
        interval=(float(low), float(high)),
        share_above=float(np.mean(differences > 0)),
        differs=differences_of_kind(a, b),
    )


def differences_of_kind(a: SystemResult, b: SystemResult) -> list[str]:
    """What makes two systems' numbers incomparable: marks of one alone, other family versions."""
    found = [
        f"only {s.name} is {m}" for s, o in ((a, b), (b, a)) for m in s.marks if m not in o.marks
    ]
    versions = [_family_versions(s) for s in (a, b)]
    for family in sorted(versions[0].keys() & versions[1].keys()):
        if versions[0][family] != versions[1][family]:
            mine, other = ("/".join(sorted(v[family])) for v in versions)
            found.append(f"{family} {mine} against {other}")
    return found


def _family_versions(system: SystemResult) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for task in system.tasks:
        for item in task.cells:
            if item.cell.family_version:
                found.setdefault(task.id.split("/")[0], set()).add(item.cell.family_version)
    return found
