"""`rle demo`: verifies the shipped reference submissions for real, and ends with scores and a page."""

import dataclasses
import shutil
import subprocess
import sys
import time
from pathlib import Path

from rle import registry
from rle.commands.verify import Verify
from rle.errors import UserError
from rle.paths import assets_dir
from rle.spec import TaskSpec

LONG = frozenset({"f06", "f07", "f08"})
"""Families whose reference runs for ten minutes and more on two cores; `--long` runs them. Without it, a
family that has a profile `quick` shows that."""
QUICK = ("--profile", "quick")


@dataclasses.dataclass
class Demo:
    """Verifies every shipped reference submission in the sandbox and writes the pages. Example: rle demo"""

    out: Path = Path("demo")
    """Folder for results and pages."""
    only: str | None = None
    """One family (`f04`) or one task (`f04/dance`)."""
    media: bool = True
    """Also draw the videos."""
    long: bool = False
    """Verify the references whose battery takes ten minutes and more (f06, f07, f08) in full."""

    def run(self) -> int:
        tasks = [t for t in map(registry.get, registry.landed_tasks()) if self._wanted(t)]
        if not tasks:
            raise UserError(
                f"no shipped reference submission matches {self.only!r}; see `rle list`"
            )
        started = time.monotonic()
        failed = []
        for task in tasks:
            out = self._folder(task.id)
            print(f"{task.id}: {task.title}", flush=True)
            code = Verify(
                task=task.id,
                submission=self._submission(task, out),
                out=out,
                media=self.media,
                html=True,
                extra=QUICK if self._is_quick(task) else (),
            ).run()
            if code != 0:
                failed.append(task.id)
        looked_at = [t.id for t in tasks if self._is_quick(t) and t.id not in failed]
        scored = [t for t in tasks if t.id not in (*failed, *looked_at)]
        took_s = time.monotonic() - started
        print(f"\n{len(scored)} of {len(tasks)} tasks verified in {took_s:.0f} s")
        if scored:
            print(f"Page: {self._write_index(scored, looked_at).resolve()}")
        if looked_at:
            pages = ", ".join(str(self._folder(t) / "index.html") for t in looked_at)
            print(f"Looked at, not scored: {pages}; --long runs the whole battery")
        if failed:
            print(f"rle: failed: {', '.join(failed)}", file=sys.stderr)
        return 3 if failed else 0

    def _folder(self, task_id: str) -> Path:
        return self.out / task_id.replace("/", "-")

    def _write_index(self, tasks: list[TaskSpec], looked_at: list[str]) -> Path:
        """Writes the page over the tasks' results, with links to what was looked at; returns where it lies."""
        from rle.index import IndexOptions, run_index
        from rle.pages import write_index_page

        options = IndexOptions(
            results=tuple(self._folder(t.id) for t in tasks),
            system="reference submissions",
            allow_validation=True,  # references of the tabletop read true poses: rehearsals,
            allow_mixed=True,  # beside real results; the page is marked `mixed`
        )
        page = self.out / "index.html"
        write_index_page(run_index(options), page, {t: self._folder(t) for t in looked_at})
        return page

    def _wanted(self, task: TaskSpec) -> bool:
        has_reference = task.oracle is not None or task.oracle_script is not None
        if self.only is None:
            return has_reference and (self.long or task.family not in LONG or self._is_quick(task))
        return has_reference and self.only in (task.family, task.id)

    def _is_quick(self, task: TaskSpec) -> bool:
        """Whether the task is shown by its quick profile, which scores nothing."""
        has_quick = any(o.name == "profile" and "quick" in o.choices for o in task.options)
        return has_quick and task.in_demo and task.family in LONG and not self.long

    def _submission(self, task: TaskSpec, out: Path) -> Path:
        """The shipped folder; or the hand-over of a session that the reference plays here and now."""
        if task.oracle_script is None:
            return reference_submission(task)
        folder = out.with_name(f"{out.name}-session")
        shutil.rmtree(folder, ignore_errors=True)
        argv = [sys.executable, "-m", task.oracle_script, "--folder", str(folder)]
        played = subprocess.run(argv, check=False, stdout=subprocess.DEVNULL)
        if played.returncode != 0:
            raise UserError(f"the reference of {task.id} did not finish; run `{' '.join(argv)}`")
        return folder


def reference_submission(task: TaskSpec) -> Path:
    """Folder of the task's shipped reference: below the assets, else below the checkout."""
    if task.oracle is None:
        raise UserError(
            f"{task.id} ships no reference submission: its oracle is played by a script"
        )
    for base in (assets_dir(), assets_dir().parent):
        if (base / task.oracle).is_dir():
            return base / task.oracle
    raise UserError(
        f"{task.id}: reference submission {task.oracle} is missing; reinstall rle-bench"
    )
