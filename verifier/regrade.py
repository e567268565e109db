"""`python -m verifier.regrade`: verifies stored artifacts again with today's code, and compares.

    python -m verifier.regrade results                  every report below, verified again
    python -m verifier.regrade --reproduce mine theirs  two result sets, task by task

A report is never overwritten; what was found goes to `regrade.json` in the first folder.
"""

import argparse
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from rle import registry
from rle.errors import InvalidSubmission, RleError, UserError
from rle.report import Report, read_report
from verifier import hidden, output
from verifier.submission import freeze

Class = Literal[
    "same", "family_version", "code", "nondeterministic", "missing_artifact", "digest_mismatch"
]
EQUAL = 1e-9
"""Rewards that differ by no more are the same."""
REVIEW_DIFFERENCE = 0.25
"""Mean or single difference of two result sets above which a person looks."""
SCHEMA = "rle-regrade/1"
REGRADE = "regrade.json"
ARTIFACTS = ("submission", "../artifacts/submission", "../artifacts/var/lib/rle/handover")
"""Where a report's artifact lies: kept beside it, or in Harbor's trial folder."""
NOT_REPLAYABLE = "replay_deterministic"
"""Key of `Report.extra` that a family sets to False where two runs may differ (f05)."""


class Regraded(msgspec.Struct, frozen=True, kw_only=True):
    """One report, verified again."""

    path: str
    task: str
    old: float | None
    new: float | None = None
    difference: float | None = None
    kind: Class
    note: str = ""


class Reproduced(msgspec.Struct, frozen=True, kw_only=True):
    """Two results of one task."""

    task: str
    first: float
    second: float
    difference: float


def find_reports(folder: Path) -> list[Path]:
    """Every `report.json` below a folder, kept submissions left out.

    Raises:
        UserError: There is none.
    """
    found = sorted(p for p in folder.rglob(output.REPORT) if "submission" not in p.parent.parts)
    if not found:
        raise UserError(f"{folder} holds no {output.REPORT}; give OUT folders or Harbor jobs.")
    return found


def artifact_of(report_path: Path) -> Path | None:
    """Folder of the stored artifact, or None."""
    for relative in ARTIFACTS:
        folder = report_path.parent / relative
        if folder.is_dir() and not folder.is_symlink():
            return folder
    return None


def digest_of(folder: Path, task_id: str) -> str | None:
    """Digest of a stored artifact under the task's contract; None where it is refused."""
    with tempfile.TemporaryDirectory(prefix="rle-regrade-") as work:
        try:
            return freeze(folder, Path(work) / "copy", registry.get(task_id)).digest
        except InvalidSubmission:
            return None


def compare(old: Report, new: Report) -> Class:
    """Why two reports of the same bytes differ, if they do.

    `nondeterministic` is left when family, versions and machine are equal: a fault of ours.
    """
    rewarded = old.reward is not None and new.reward is not None
    if rewarded and abs(old.reward - new.reward) <= EQUAL and old.outcome == new.outcome:
        return "same"
    if old.family_version != new.family_version:
        return "family_version"
    cpus = [report.machine.cpu if report.machine else None for report in (old, new)]
    replayable = new.extra.get(NOT_REPLAYABLE, True)
    if old.versions != new.versions or cpus[0] != cpus[1] or not replayable:
        return "code"
    return "nondeterministic"


def regrade(path: Path, salt: hidden.Salt, salt_file: str | None, jobs: int | None) -> Regraded:
    """Verifies one stored result again.

    Raises:
        UserError: The result was made under another salt than the one given.
    """
    old = read_report(path.read_bytes())
    base = Regraded(path=str(path), task=old.task, old=old.reward, kind="same")
    folder = artifact_of(path)
    if folder is None or old.submission is None:
        return _with(base, "missing_artifact", note="no stored artifact beside it")
    if digest_of(folder, old.task) != old.submission.digest:
        return _with(base, "digest_mismatch", note="the files are not those reported")
    if old.salt_id != salt.id:
        raise UserError(
            f"{path} was made under salt {old.salt_id}; the one given is {salt.id}. "
            "Give its --salt-file."
        )
    with tempfile.TemporaryDirectory(prefix="rle-regrade-") as out:
        command = [sys.executable, "-m", "verifier", "--task", old.task]
        command += ["--artifacts", str(folder), "--out", out, "--no-keep"]
        command += ["--salt-file", salt_file] if salt_file else []
        command += ["--jobs", str(jobs)] if jobs else []
        command += ["--replay", "scored"] if old.ledger else []
        if old.isolation:
            command += ["--isolation", old.isolation.mode]
        for name, value in old.options.items():
            command += [f"--{name}", value]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        written = Path(out) / output.REPORT
        if not written.is_file():
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            return _with(base, "code", note=lines[-1][:300])
        new = read_report(written.read_bytes())
    difference = None
    if old.reward is not None and new.reward is not None:
        difference = new.reward - old.reward
    note = new.errors[0].message if new.errors else ""
    kind = compare(old, new)
    return _with(base, kind, new=new.reward, difference=difference, note=note)


def _with(base: Regraded, kind: Class, **fields: Any) -> Regraded:
    return msgspec.structs.replace(base, kind=kind, **fields)


def rewards_of(folder: Path) -> dict[str, float]:
    """Mean reward of each task with a reward below a folder."""
    found = defaultdict(list)
    for path in find_reports(folder):
        report = read_report(path.read_bytes())
        if report.reward is not None:
            found[report.task].append(report.reward)
    return {task: sum(values) / len(values) for task, values in found.items()}


def reproduce(
    first: dict[str, float], second: dict[str, float]
) -> tuple[list[Reproduced], float, bool]:
    """Pairs two result sets by task.

    Returns:
        Pairs, mean |difference|, and whether a person should look: the mean, or any single
        difference, strictly above 0.25. It disqualifies nobody.

    Raises:
        UserError: No task is in both.
    """
    tasks = [task for task in registry.TASK_IDS if task in first and task in second]
    if not tasks:
        raise UserError("the two result sets have no task in common")
    pairs = [
        Reproduced(task=t, first=first[t], second=second[t], difference=abs(first[t] - second[t]))
        for t in tasks
    ]
    differences = [pair.difference for pair in pairs]
    mean = sum(differences) / len(differences)
    return pairs, mean, max(mean, *differences) > REVIEW_DIFFERENCE + EQUAL


def _lines(results: list[Regraded]) -> Iterator[str]:
    yield f"{'task':<28} {'old':>8} {'new':>8} {'difference':>10}  class"
    for r in results:
        cells = ["-" if x is None else f"{x:.4f}" for x in (r.old, r.new, r.difference)]
        yield f"{r.task:<28} {cells[0]:>8} {cells[1]:>8} {cells[2]:>10}  {r.kind} {r.note}".rstrip()


def run(arguments: argparse.Namespace) -> int:
    """Runs a parsed command; 1 when a result was not repeated on the same code and machine."""
    if arguments.reproduce:
        pairs, mean, review = reproduce(*map(rewards_of, arguments.reproduce))
        record = {"schema": SCHEMA, "pairs": pairs, "mean_difference": mean, "needs_review": review}
        lines = [f"{p.task:<28} {p.first:8.4f} {p.second:8.4f} {p.difference:10.4f}" for p in pairs]
        lines.append(f"mean |difference| {mean:.4f}; needs_review: {str(review).lower()}")
        folder, code = arguments.reproduce[0], 0
    else:
        if not arguments.results:
            raise UserError("give result folders, or --reproduce A B")
        salt = hidden.read_salt(arguments.salt_file)
        paths = [path for folder in arguments.results for path in find_reports(folder)]
        results = [regrade(p, salt, arguments.salt_file, arguments.jobs) for p in paths]
        record = {"schema": SCHEMA, "set_version": arguments.set_version, "results": results}
        lines = list(_lines(results))
        folder = arguments.results[0]
        code = int(any(result.kind == "nondeterministic" for result in results))
    encoded = msgspec.json.format(msgspec.json.encode(record), indent=1)
    output.write_atomic(folder / REGRADE, encoded + b"\n")
    sys.stdout.write(encoded.decode() + "\n" if arguments.json else "\n".join(lines) + "\n")
    return code


def main(argv: list[str] | None = None) -> int:
    """Entry of `python -m verifier.regrade`."""
    parser = argparse.ArgumentParser(prog="python -m verifier.regrade", description=__doc__)
    parser.add_argument("results", nargs="*", type=Path, help="OUT folders or Harbor job folders")
    parser.add_argument("--jobs", type=int, help="trials at a time")
    parser.add_argument("--set-version", default="rle-51", help="name of the task set")
    parser.add_argument("--salt-file", help="secret of the campaign that made the results")
    parser.add_argument("--reproduce", nargs=2, type=Path, metavar=("A", "B"))
    parser.add_argument("--json", action="store_true", help="print the record as JSON")
    try:
        return run(parser.parse_args(argv))
    except RleError as error:
        sys.stderr.write(f"rle: {error.message}\n")
        return 2 if isinstance(error, UserError) else 3


if __name__ == "__main__":
    sys.exit(main())
