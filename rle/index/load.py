"""Finds results on disk and joins them into systems: OUT folders, Harbor jobs, `rle-index-input/1`."""

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec

from rle.errors import UserError
from rle.index.harbor import read_jobs
from rle.index.model import (
    INPUT_SCHEMA,
    Attempt,
    Cell,
    IndexInput,
    Run,
    System,
    cell_from_report,
    report_at,
)
from rle.report import Report

_RUN_FOLDER = re.compile(r"run[-_ ]?(\d+)", re.IGNORECASE)
_TASK_KEY = re.compile(rb'"f\d\d/[a-z0-9-]+"\s*:')
_PAGES = frozenset({".html", ".csv"})
_OUTPUT_SCHEMAS = ("rle-index/1", "rle-regrade/1")
MAX_INFRA = 2
"""Infrastructure errors of one cell after which it stays missing: re-runs cannot be bought."""


def load(
    results: tuple[Path, ...], harbor: tuple[Path, ...], system: str | None, runs: int | None
) -> list[System]:
    """Reads every source and joins it.

    Args:
        results: Folders with `report.json` in them or below, or `rle-index-input/1` files. `NAME=PATH`
            names the system; without a name, a folder belongs to `system`.
        harbor: Harbor job folders.
        system: Name for folders without one; default: name of the folder that holds them all.
        runs: Expected number of runs. With exactly that many folders, each folder is one run.

    Raises:
        UserError: A source that is missing, unreadable or holds two results for one cell.
    """
    named = [(n, p) for n, p in (_split_name(str(path)) for path in results) if not _is_output(p)]
    folders = [(name, path) for name, path in named if not path.is_file()]
    unnamed = [path for name, path in folders if name is None]
    common = os.path.commonpath([path.resolve() for path in unnamed]) if unnamed else ""
    default = system or Path(common).name or "system"
    attempts: list[Attempt] = []
    given: list[System] = []
    for name, path in named:
        if path.is_file():
            given += _from_json(path, name)
            continue
        owner = name or default
        siblings = [p for n, p in folders if (n or default) == owner]
        one_each = runs is not None and runs > 1 and len(siblings) == runs
        attempts += _from_folder(path, owner, siblings.index(path) + 1 if one_each else None)
    for path in harbor:
        attempts += read_jobs(path)
    systems = given + _join(attempts)
    if not systems:
        raise UserError(
            "no results given; name OUT folders of `rle verify`, an rle-index-input/1 file, "
            "or --harbor jobs/<job>"
        )
    return systems


def _split_name(text: str) -> tuple[str | None, Path]:
    """`NAME=PATH` -> (NAME, PATH), unless the whole text is a path that exists."""
    name, found, rest = text.partition("=")
    if found and name and not Path(text).exists():
        return name, Path(rest)
    return None, Path(text)


def _is_output(path: Path) -> bool:
    """Whether a file is something our own commands wrote there: `rle index results/*` meets its pages."""
    if not path.is_file():
        return False
    if path.suffix in _PAGES:
        return True
    head = path.read_bytes()[:200].decode(errors="replace") if path.suffix == ".json" else ""
    return any(f'"{schema}"' in head for schema in _OUTPUT_SCHEMAS)


# ------------------------------------------------------------------------------------ OUT folders


def _from_folder(folder: Path, owner: str, run: int | None) -> list[Attempt]:
    if not folder.is_dir():
        raise UserError(f"{folder} does not exist; give the --out folder of `rle verify`")
    reports = []
    for base, dirs, files in os.walk(folder, followlinks=False):
        dirs[:] = sorted(d for d in dirs if d != "submission")
        if "report.json" in files and not (Path(base) / "report.json").is_symlink():
            reports.append(Path(base) / "report.json")
    if not reports:
        raise UserError(
            f"{folder} holds no report.json; run `rle verify TASK --out {folder}` first"
        )
    return [
        Attempt(
            system=System(name=owner, runs=[]),
            run=run or _run_number(path.relative_to(folder.parent)),
            task=report.task,
            cell=_cell(report, path),
            source=str(path.parent),
        )
        for path, report in ((path, report_at(path)) for path in reports)
    ]


def _run_number(path: Path) -> int:
    """The number of a folder `run2` on the way; 1 where no folder says so."""
    numbers = [int(m[1]) for part in path.parts if (m := _RUN_FOLDER.fullmatch(part))]
    return numbers[-1] if numbers else 1


def _cell(report: Report, path: Path) -> Cell:
    cell = cell_from_report(report, str(path))
    if not digest_matches(report, path.parent / "submission"):
        return msgspec.structs.replace(cell, flags=[*cell.flags, "digest_mismatch"])
    return cell


def digest_matches(report: Report, folder: Path) -> bool:
    """True unless the kept submission beside a report is another one than the report names.

    SHA-256 over `rle-submission/1` and one line `<sha256> <size> <path>` per recorded file, sorted by
    path bytes, over the files as they lie there now. Nothing kept: nothing to compare.
    """
    if report.submission is None or not report.submission.files or not folder.is_dir():
        return True
    lines = []
    for record in sorted(report.submission.files, key=lambda f: f.path.encode()):
        path = folder / record.path
        if path.is_symlink() or not path.is_file():
            return False
        data = path.read_bytes()
        lines.append(f"{hashlib.sha256(data).hexdigest()} {len(data)} {record.path}\n")
    digest = hashlib.sha256(("rle-submission/1\n" + "".join(lines)).encode()).hexdigest()
    return digest == report.submission.digest


# ------------------------------------------------------------------------------------------- JSON


def _from_json(path: Path, name: str | None) -> list[System]:
    data = path.read_bytes()
    try:
        given = msgspec.json.decode(data, type=IndexInput)
    except msgspec.MsgspecError as error:
        raise UserError(
            f"{path} is no {INPUT_SCHEMA} ({error}); its schema is docs/schema/index-input.schema.json"
        ) from None
    if given.schema != INPUT_SCHEMA:
        raise UserError(f"{path}: schema {given.schema!r} is not {INPUT_SCHEMA!r}")
    decoded = sum(len(run.tasks) for system in given.systems for run in system.runs)
    if len(_TASK_KEY.findall(data)) != decoded:
        json.loads(data, object_pairs_hook=_refuse_repeated_keys)
    if name is not None and len(given.systems) != 1:
        raise UserError(
            f"{name}={path}: a name needs a file with one system, got {len(given.systems)}"
        )
    return [msgspec.structs.replace(s, name=name or s.name) for s in given.systems]


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON readers keep the last of two equal keys in silence; a result must not vanish like that."""
    keys = [key for key, _ in pairs]
    repeated = (
        sorted({key for key in keys if keys.count(key) > 1}) if len(set(keys)) < len(keys) else []
    )
    if repeated:
        raise UserError(
            f"{', '.join(repeated)} appears twice in one run; keep one result of each task"
        )
    return dict(pairs)


# ------------------------------------------------------------------------------------------- join


def _join(attempts: list[Attempt]) -> list[System]:
    """Groups attempts by system and run; several attempts of one cell follow the re-run rule."""
    systems: dict[str, System] = {}
    cells: dict[str, dict[int, dict[str, list[Attempt]]]] = {}
    for attempt in attempts:
        systems.setdefault(attempt.system.name, attempt.system)
        by_run = cells.setdefault(attempt.system.name, {})
        by_run.setdefault(attempt.run, {}).setdefault(attempt.task, []).append(attempt)
    return [
        msgspec.structs.replace(
            system,
            runs=[
                Run(
                    run=run,
                    tasks={task: _one_cell(name, run, found) for task, found in tasks.items()},
                )
                for run, tasks in sorted(cells[name].items())
            ],
        )
        for name, system in systems.items()
    ]


def _one_cell(system: str, run: int, attempts: list[Attempt]) -> Cell:
    """One result, or a re-run after infrastructure errors; two results are refused.

    After `MAX_INFRA` infrastructure errors the cell stays missing, whatever came later.
    """
    failed = [a for a in attempts if a.cell.outcome == "infrastructure_error"]
    good = [a for a in attempts if a.cell.outcome != "infrastructure_error"]
    if len(good) > 1:
        places = "; ".join(a.source for a in good)
        raise UserError(
            f"{attempts[0].task} appears twice in run {run} of {system!r}: {places}. Keep one, put each "
            "run's results below a folder run1, run2, ..., or name systems with NAME=PATH."
        )
    kept = good[0] if good and len(failed) < MAX_INFRA else failed[-1] if failed else good[0]
    return msgspec.structs.replace(kept.cell, n_infra=len(failed))
