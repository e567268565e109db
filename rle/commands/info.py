"""Commands that tell: list, card, doctor, gen."""

import dataclasses
import itertools
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console

from rle import cards, registry
from rle.spec import TaskSpec


@dataclasses.dataclass
class List:
    """All 51 tasks, and which of them can be verified here."""

    json: bool = False
    """Machine-readable output."""

    def run(self) -> int:
        rows: list[dict[str, Any]] = []
        for task_id in registry.TASK_IDS:
            family = task_id.split("/")[0]
            spec = registry.get(task_id) if family in registry.landed_families() else None
            rows.append(
                {
                    "id": task_id,
                    "workflow": registry.workflow_of(family),
                    "available": spec is not None,
                    "title": spec.title if spec else registry.FAMILY_TITLES[family],
                    "floor": spec.floor if spec else None,
                    "bar": spec.bar if spec else None,
                }
            )
        if self.json:
            print(json.dumps(rows, indent=2))
            return 0
        print(
            task_table(rows, width=shutil.get_terminal_size().columns if _is_terminal() else None)
        )
        return 0


def task_table(rows: list[dict[str, Any]], width: int | None) -> str:
    """The tasks below their workflows, one line each.

    Args:
        rows: As `rle list --json` prints them, tasks of a workflow together.
        width: Columns of the terminal; longer titles are cut, ids and states never. None: no limit.
    """
    lines = [f"{len(rows)} tasks, {sum(bool(r['available']) for r in rows)} here"]
    for workflow, group in itertools.groupby(rows, key=lambda r: r["workflow"]):
        members = list(group)
        id_width = max(len(r["id"]) for r in members)
        lines += ["", workflow]
        for row in members:
            state = "ready" if row["available"] else "not yet"
            fixed = f"  {row['id']:<{id_width}}  {state:<7}  "
            room = len(row["title"]) if width is None else max(width - len(fixed), 0)
            cut = len(row["title"]) > room
            title = row["title"][: room - 1] + "\u2026" if cut and room else row["title"][:room]
            lines.append((fixed + title).rstrip())
    return "\n".join(lines)


def _is_terminal() -> bool:
    return sys.stdout.isatty() or "COLUMNS" in os.environ


@dataclasses.dataclass
class Card:
    """One task: instruction, observation, action, budget, artifact, score. Example: rle card f04/dance"""

    task: tyro.conf.Positional[str]
    """Task id, as in `rle list`."""
    json: bool = False
    """The TaskSpec as JSON."""

    def run(self) -> int:
        spec: TaskSpec = registry.get(self.task)
        if self.json:
            import msgspec

            print(msgspec.json.format(msgspec.json.encode(spec), indent=2).decode())
        else:
            print(cards.task_card(spec))
        return 0


@dataclasses.dataclass
class Doctor:
    """Checks this machine (versions, rendering, sandbox) and prints the fix for what fails."""

    json: bool = False
    """Machine-readable output."""

    def run(self) -> int:
        from rle.doctor import examine

        findings = examine()
        if self.json:
            print(json.dumps([f._asdict() for f in findings], indent=2))
        else:
            console = Console()
            for f in findings:
                console.print(
                    f"{f.verdict:>4}  {f.name:<10} {f.fact}", highlight=False, markup=False
                )
                if f.fix:
                    console.print(f"      fix: {f.fix}", highlight=False, markup=False)
        return 1 if any(f.verdict == "fail" for f in findings) else 0


@dataclasses.dataclass
class Gen:
    """Writes the generated text (cards, task table, schemas), or the agent's client: rle gen client --out dist"""

    what: tyro.conf.Positional[Literal["text", "client"]] = "text"
    """`client` builds the wheel `rle_client`, the one package of ours that agents of metered tasks get."""
    check: bool = False
    """Exit 1 and list the texts that differ, writing nothing."""
    out: Path = Path("dist")
    """Folder for the wheel."""
    family: str | None = None
    """With the modules that this family adds to the client (f06)."""

    def run(self) -> int:
        from rle import gen

        if self.what == "client":
            print(gen.client(self.out, self.family))
            return 0
        paths = gen.check() if self.check else gen.write()
        for path in paths:
            print(f"{'differs' if self.check else 'written'}: {path.relative_to(gen.root())}")
        if self.check and paths:
            print("run `rle gen` and commit the result")
        return 1 if self.check and paths else 0
