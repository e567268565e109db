"""`rle verify`: runs the verifier as a child process, on one task or on a set."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Literal

import tyro

from rle import registry
from rle.errors import UserError
from rle.report import Report, read_report

EXIT_MEANING = {
    2: "bad arguments",
    3: "infrastructure error, no reward",
    4: "isolation unavailable, no reward",
    130: "interrupted, no reward",
}


@dataclasses.dataclass
class Verify:
    """Scores a submission. Example: rle verify f04/dance --submission DIR --out results/dance --html"""

    task: tyro.conf.Positional[str | None] = None
    """Task id, as in `rle list`; leave it out with --all."""
    submission: Path | None = None
    """Folder that holds the artifact (`rle card TASK` says which files)."""
    out: Path | None = None
    """Folder for reward.json and report.json; default results/<family>-<slug>."""
    all: bool = False
    """Verify every available task that has a folder fNN-slug or fNN/slug in --submissions."""
    submissions: Path | None = None
    """Folder of submissions for --all."""
    salt_file: Path | None = None
    """The campaign's secret (mode 0600); without one the result is marked practice."""
    isolation: Literal["strict", "reduced"] = "strict"
    """`strict` refuses to run without a full sandbox; `reduced` runs and marks the result."""
    jobs: int | None = None
    """Parallel trials; default: CPUs of this process. The score never depends on it."""
    media: bool = False
    """Also write videos, after the score is on disk."""
    html: bool = False
    """Also write the trial report page."""
    replay: Literal["scored", "none"] = "none"
    """`scored` runs the actions of a session record (f01 to f03) again and compares; never changes the score."""
    json: bool = False
    """Print reward.json on stdout."""
    extra: tyro.conf.Suppress[tuple[str, ...]] = ()

    def run(self) -> int:
        if self.all:
            return self._run_all()
        if self.task is None or self.submission is None:
            raise UserError(
                "`rle verify` needs a task and --submission DIR, or --all --submissions DIR; "
                "see `rle list` and `rle verify --help`"
            )
        return self._run_one(self.task, self.submission, self.out or default_out(self.task))

    def _run_all(self) -> int:
        if self.submissions is None or not self.submissions.is_dir():
            raise UserError(
                f"--all needs --submissions DIR, an existing folder; got {self.submissions}"
            )
        base = self.out or Path("results")
        found = {
            t: f for t in registry.landed_tasks() if (f := find_submission(self.submissions, t))
        }
        if not found:
            raise UserError(
                f"{self.submissions} holds no submission of an available task; "
                "expected folders like f04-dance or f04/dance"
            )
        codes = [
            self._run_one(task, folder, base / task.replace("/", "-"))
            for task, folder in found.items()
        ]
        return max(codes)

    def _run_one(self, task: str, submission: Path, out: Path) -> int:
        spec = registry.get(task)
        if not submission.is_dir():
            entries = spec.artifact.entries
            needed = ", ".join([e.path for e in entries if e.required] or [e.path for e in entries])
            raise UserError(f"--submission {submission} is not a folder; it must hold {needed}")
        argv = [sys.executable, "-m", "verifier", "--task", task, "--artifacts", str(submission)]
        argv += ["--out", str(out), "--isolation", self.isolation, *self.extra]
        if self.salt_file is not None:
            argv += ["--salt-file", str(self.salt_file)]
        if self.jobs is not None:
            argv += ["--jobs", str(self.jobs)]
        if self.media:
            argv.append("--media")
        if self.replay != "none":
            argv += ["--replay", self.replay]
        code = subprocess.run(argv, check=False).returncode
        if code != 0:
            meaning = EXIT_MEANING.get(code)
            if meaning is None:
                print(
                    f"rle: the verifier of {spec.id} ended with exit code {code}", file=sys.stderr
                )
            return code
        if self.html:
            from rle.pages import write_report_page

            write_report_page(out, out / "index.html")
        if self.json:
            print((out / "reward.json").read_text().strip())
        else:
            print(summary(read_report((out / "report.json").read_bytes()), out))
        return 0


def default_out(task: str) -> Path:
    """results/<family>-<slug>."""
    return Path("results") / registry.check_task_id(task).replace("/", "-")


def find_submission(folder: Path, task: str) -> Path | None:
    """The task's folder in a set of submissions, or None."""
    for name in (task.replace("/", "-"), task):
        if (folder / name).is_dir():
            return folder / name
    return None


def summary(report: Report, out: Path) -> str:
    """One line for a person: score, trials, outcome, marks."""
    marks = [
        m for m, on in (("practice", report.practice), ("not scored", not report.scored)) if on
    ]
    if report.isolation is not None and report.isolation.mode == "reduced":
        marks.append("reduced isolation")
    if report.reference:
        marks.append(f"reference: {report.reference}")
    reward = "no reward" if report.reward is None else f"{100 * report.reward:.1f}"
    closed = ", ".join(gate for gate, is_open in report.gates.items() if not is_open)
    why = f" ({report.errors[0].message})" if report.errors else ""
    if closed:
        why = f" (closed: {closed}{''.join(f'; {flag}' for flag in report.flags[:1])})"
    return (
        f"{report.task:<24} {reward:>9}  n={len(report.rows):<3} {report.outcome}{why}  "
        f"[{', '.join(marks)}]  {out / 'report.json'}"
    )


def reward_of(out: Path) -> dict[str, float]:
    """The flat reward of an OUT folder."""
    return json.loads((out / "reward.json").read_text())
