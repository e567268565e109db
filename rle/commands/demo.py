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

ARGUMENTS = {"f08": ("--films", "few")}
"""Options of `rle verify` for families whose full set of videos takes minutes."""


@dataclasses.dataclass
class Demo:
    """Verifies every shipped reference submission in the sandbox and writes the pages. Example: rle demo"""

    out: Path = Path("demo")
    """Folder for results and pages."""
    only: str | None = None
    """One family (`f04`) or one task (`f04/dance`)."""
    media: bool = True
    """Also draw the videos."""

    def run(self) -> int:
        tasks = [t for t in map(registry.get, registry.landed_tasks()) if self._wanted(t)]
        if not tasks:
            raise UserError(
                f"no shipped reference submission matches {self.only!r}; see `rle list`"
            )
        started = time.monotonic()
        failed = []
        for task in tasks:
            out = self.out / task.id.replace("/", "-")
            print(f"{task.id}: {task.title}", flush=True)
            code = Verify(
                task=task.id,
                submission=self._submission(task, out),
                out=out,
                media=self.media,
                html=True,
                extra=ARGUMENTS.get(task.family, ()),
            ).run()
            if code != 0:
                failed.append(task.id)
        from rle.index import IndexOptions, run_index
        from rle.pages import write_index_page

        results = [self.out / t.id.replace("/", "-") for t in tasks if t.id not in failed]
        options = IndexOptions(
            results=tuple(results), system="reference submissions", allow_validation=True
        )
        index = run_index(options)
        page = self.out / "index.html"
        write_index_page(index, page)
        print(
            f"\n{len(results)} of {len(tasks)} tasks verified in {time.monotonic() - started:.0f} s"
        )
        print(f"Page: {page.resolve()}")
        if failed:
            print(f"rle: failed: {', '.join(failed)}", file=sys.stderr)
        return 3 if failed else 0

    def _wanted(self, task: TaskSpec) -> bool:
        has_reference = task.oracle is not None or task.oracle_script is not None
        if self.only is None:
            return has_reference
        return has_reference and self.only in (task.family, task.id)

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
