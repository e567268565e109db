"""`rle audit`: records what a person found when looking at a trial; `rle index --corrected` reads it."""

import dataclasses
import datetime
from pathlib import Path
from typing import Literal

import msgspec
import tyro

from rle.errors import UnknownName, UserError
from rle.index import AuditEntry, append_entry
from rle.report import read_report


@dataclasses.dataclass
class Audit:
    """Records an audited trial. Example: rle audit add results/f04-dance --trial t03 --label model_error --note TEXT"""

    action_name: tyro.conf.Positional[Literal["add"]]
    """`add` appends one entry."""
    result: tyro.conf.Positional[Path]
    """OUT folder of the verification."""
    trial: str
    """Id of the trial, a row of report.json."""
    label: Literal["model_error", "grader_error", "benchmark_error"]
    """Who was wrong: the submission, the verifier, or the task itself."""
    note: str
    """What was seen, in a sentence."""
    action: Literal["none", "repair", "exclude"] = "none"
    """What follows: nothing; the task counts from a newer family version; it leaves the set for all."""
    file: Path = Path("audit.jsonl")
    """Where entries are kept."""

    def run(self) -> int:
        path = self.result / "report.json"
        try:
            report = read_report(path.read_bytes())
        except (OSError, msgspec.MsgspecError) as error:
            raise UserError(f"{path} cannot be read ({error}); give an OUT folder") from None
        if self.trial not in (ids := [row.id for row in report.rows]):
            raise UnknownName("trial", self.trial, ids, f"See {path}.")
        digest = report.submission.digest if report.submission else self.result.resolve().name
        append_entry(
            self.file,
            AuditEntry(
                id=digest,
                task=report.task,
                family_version=report.family_version,
                trial=self.trial,
                label=self.label,
                action=self.action,
                note=self.note,
                date=datetime.datetime.now(datetime.UTC).date().isoformat(),
            ),
        )
        print(f"{self.file}: {report.task} {self.trial} {self.label}, action {self.action}")
        return 0
