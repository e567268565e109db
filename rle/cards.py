"""Cards: what a reader needs to know of a family, generated from its `spec.py` and never typed twice.

A file with generated text holds blocks `<!-- generated: NAME -->` ... `<!-- end generated -->`;
everything outside them is written by hand and left alone.
"""

import re
from collections.abc import Callable, Sequence

import msgspec

from rle import registry
from rle.errors import UserError
from rle.spec import ArtifactContract, Channel, FamilyCard, TaskSpec

_BLOCK = re.compile(
    r"(?P<open><!-- generated: (?P<name>[a-z-]+) -->\n).*?(?P<close><!-- end generated -->)",
    re.DOTALL,
)


def fill_blocks(text: str, writers: dict[str, Callable[[], str]], where: str) -> str:
    """Returns `text` with every generated block written anew.

    Raises:
        UserError: A block without a writer, or a writer without its block.
    """
    seen: list[str] = []

    def write(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in writers:
            raise UserError(f"{where}: unknown generated block {name!r}; known: {sorted(writers)}")
        seen.append(name)
        return f"{match['open']}{writers[name]().strip()}\n{match['close']}"

    filled = _BLOCK.sub(write, text)
    for name in sorted(set(writers) - set(seen)):
        raise UserError(
            f"{where} lacks the block '<!-- generated: {name} -->'; add it and run `rle gen`"
        )
    return filled


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; a `|` inside a cell is escaped."""
    cells = [[c.replace("|", "\\|") for c in row] for row in rows]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in cells])


def family_card(family: str) -> str:
    """The generated part of a family's README: tasks, interface, budget, artifact, score, history."""
    spec = registry.room(family, "spec")
    card: FamilyCard = spec.CARD
    tasks: tuple[TaskSpec, ...] = spec.TASKS
    first = tasks[0]
    parts = [
        card.summary,
        f"Workflow: {first.workflow}. Version: {first.version}. Robot: {card.robot}. {card.rate}",
        "### Tasks\n\n" + _task_table(tasks),
        "### Observation\n\n" + _channel_table(card.observations),
        "### Action\n\n" + _channel_table(card.actions),
        "### Development side\n\n" + card.dev,
        "### Budget\n\n" + _budget_table(tasks),
        "### Artifact\n\n" + artifact_text(first.artifact),
        "### Score\n\n```\n" + "\n".join(card.score_equation) + "\n```",
        "### Version history\n\n" + "\n".join(f"- **{v}** {what}" for v, what in card.history),
    ]
    return "\n\n".join(parts)


def task_card(task: TaskSpec) -> str:
    """What `rle card TASK` prints: one task in plain Markdown."""
    card: FamilyCard = registry.room(task.family, "spec").CARD
    return "\n\n".join(
        [
            f"# {task.id}: {task.title}",
            task.instruction.strip(),
            f"Robot: {card.robot_of.get(task.slug, card.robot)}. {card.rate}",
            "## Observation\n\n" + _channel_table(_of(task, card.observations)),
            "## Action\n\n" + _channel_table(_of(task, card.actions)),
            "## Development side\n\n" + card.dev,
            "## Budget\n\n" + _budget_table((task,)),
            "## Artifact\n\n" + artifact_text(task.artifact),
            "## Score\n\n```\n" + "\n".join(_score_of(task, card)) + "\n```",
            f"Hidden trials: {task.n_trials}. Floor: {task.floor:g}. Oracle's bar: {task.bar:g}. "
            f"Pass mark: {task.pass_mark:g}. Version: {task.version}.",
        ]
    )


def artifact_text(contract: ArtifactContract) -> str:
    """The artifact contract as a table and one sentence."""
    rows = [
        [f"`{e.path}`", e.kind, "required" if e.required else "optional", f"{e.max_bytes:,}"]
        for e in contract.entries
    ]
    rule = "are refused" if contract.extra == "refuse" else "are ignored and listed in the report"
    return (
        table(["path", "kind", "", "bytes at most"], rows)
        + f"\n\nAt most {contract.max_files} files and {contract.max_total_bytes:,} bytes in all; "
        f"other files {rule}. Links are never followed."
    )


def all_tasks_table() -> str:
    """The 51 tasks by workflow and family, with what has landed."""
    landed = registry.landed_families()
    rows = []
    for workflow, families in registry.WORKFLOWS.items():
        for family in families:
            slugs = [t.split("/")[1] for t in registry.family_tasks(family)]
            shown = (
                ", ".join(slugs)
                if len(slugs) <= 5
                else f"{', '.join(slugs[:3])}, ... ({len(slugs)})"
            )
            state = "yes" if family in landed else "not yet"
            rows.append([workflow, f"{family} {registry.FAMILY_TITLES[family]}", shown, state])
    return table(["workflow", "family", "tasks", "here"], rows)


def _task_table(tasks: Sequence[TaskSpec]) -> str:
    rows = [
        [f"`{t.id}`", t.title, str(t.n_trials), f"{t.floor:g}", f"{t.bar:g}", f"{t.pass_mark:g}",
         f"`{t.gym_id}`" if t.gym_id else "-"]
        for t in tasks
    ]  # fmt: skip
    return table(["task", "", "trials", "floor", "oracle's bar", "pass mark", "Gymnasium id"], rows)


def _of(task: TaskSpec, channels: Sequence[Channel]) -> list[Channel]:
    """The channels that a task has, without saying so."""
    mine = [c for c in channels if not c.tasks or task.slug in c.tasks]
    return [msgspec.structs.replace(c, tasks=()) for c in mine]


def _score_of(task: TaskSpec, card: FamilyCard) -> list[str]:
    """The lines of the score but those of other tasks."""
    tasks: tuple[TaskSpec, ...] = registry.room(task.family, "spec").TASKS
    others = {other.slug for other in tasks} - {task.slug}
    return [line for line in card.score_equation if line.partition(" ")[0] not in others]


def _channel_table(channels: Sequence[Channel]) -> str:
    head = ["name", "meaning", "shape", "unit", "frame", "range", "noise"]
    rows = [
        [f"`{c.name}`", c.meaning, c.shape, c.unit, c.frame, c.range, c.noise] for c in channels
    ]
    if any(c.tasks for c in channels):
        head.insert(1, "tasks")
        for row, channel in zip(rows, channels, strict=True):
            row.insert(1, ", ".join(channel.tasks) or "all")
    return table(head, rows)


def _budget_table(tasks: Sequence[TaskSpec]) -> str:
    def count(value: int | None) -> str:
        return "-" if value is None else f"{value:,}"

    rows = [
        [f"`{t.slug}`", f"{b.agent_wall_s:,}", count(b.sim_steps), count(b.calls), str(b.gpus),
         str(b.cpus), f"{b.memory_mib:,}", f"{b.verify_wall_s:,}"]
        for t in tasks
        for b in (t.budget,)
    ]  # fmt: skip
    head = ["task", "agent s", "metered steps", "metered calls", "GPU", "CPU", "MiB", "verifier s"]
    return table(head, rows)
