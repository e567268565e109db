"""What a task is: tau = (I, E_dev, B, A, E_eval, M), as typed frozen values that families fill in."""

from typing import Literal

import msgspec

Workflow = Literal[
    "interactive control", "policy learning", "perception and estimation", "mechanical design"
]
Kind = Literal["onnx", "torchscript", "mjcf", "python", "recipe", "ledger", "data"]
Profile = Literal[
    "onnx", "torchscript", "mjcf", "python", "recipe_train", "recipe_serve", "session"
]

REFERENCE_STEPS_PER_S = 13_000.0
"""MuJoCo steps per second of the G1 speed probe on the reference core. Source: measured, one idle core."""


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """B: what the agent and the verifier may spend, and the machine that the task asks for."""

    agent_wall_s: int
    """Wall time of the agent's session."""
    verify_wall_s: int
    """Wall time of the verifier."""
    sim_steps: int | None = None
    """Metered simulator steps; None where only wall time is limited."""
    calls: int | None = None
    """Metered calls (practice evaluations, weighings); None where there are none."""
    gpus: int = 0
    cpus: int = 4
    memory_mib: int = 8192
    disk_mib: int = 10_240
    verify_cpus: int = 4
    verify_memory_mib: int = 8192


class ArtifactEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One file, or one pattern of files, of the contract."""

    path: str
    """Path below the submission folder; `*` and `**` as in `pathlib` patterns."""
    kind: Kind
    max_bytes: int
    required: bool = True
    is_text: bool = False
    """UTF-8 text; anything else is refused before it is read."""


class ArtifactContract(msgspec.Struct, frozen=True, kw_only=True):
    """A: what a submission folder holds."""

    entries: tuple[ArtifactEntry, ...]
    max_files: int
    max_total_bytes: int
    max_depth: int = 8
    extra: Literal["refuse", "ignore"] = "refuse"
    """What happens to files that no entry names."""
    by_part: bool = False
    """Whether files are judged one by one: an empty one stands for a refused one, which costs only what needs it."""


class VerifyOption(msgspec.Struct, frozen=True, kw_only=True):
    """A command line option that a family adds to `rle verify`, e.g. f04's `--profile`."""

    name: str
    choices: tuple[str, ...]
    default: str
    help: str


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One of the 51 tasks."""

    id: str
    """`fNN/slug`."""
    title: str
    workflow: Workflow
    version: str
    """Family version, "1.0.0"; any change of physics, thresholds or agent-visible bytes bumps it."""
    instruction: str
    """I: the plain text an agent gets. Its first sentence describes the task."""
    budget: Budget
    artifact: ArtifactContract
    profiles: tuple[Profile, ...]
    """Worker profiles that the verifier must be able to start."""
    n_trials: int
    """Scored hidden trials; each missing one counts as failed."""
    agent_files: tuple[str, ...] = ()
    """Paths of the checkout, or patterns, that the agent may read."""
    hidden_tokens: tuple[str, ...] = ()
    """Strings that must appear in nothing that the agent can read."""
    draw_key: str
    """Tasks with one key share their hidden trials; usually the slug."""
    ended: tuple[str, ...] = ()
    """Family values of `Row.ended` beside the common ones."""
    floor: float
    """Reward that comes for free: no trivial submission scores above it."""
    bar: float
    """Reward that the oracle must reach."""
    oracle: str | None = None
    """Reference submission, path below `assets/` or the checkout; None where a script plays it."""
    oracle_bar: float | None = None
    """Reward that the reference submission must reach where the bar is that of a reference which reads
    the simulator's state and cannot be handed in; None: the bar."""
    oracle_script: str | None = None
    """Module that plays the reference in a metered session and leaves its hand-over in `--folder`; the
    demo plays it. None where there is none, or where it takes minutes."""
    options: tuple[VerifyOption, ...] = ()
    in_demo: bool = True
    """Whether the demo shows the quick profile of a task whose family has one; `--long` runs all tasks."""
    gym_id: str | None = None

    @property
    def family(self) -> str:
        return self.id.split("/")[0]

    @property
    def slug(self) -> str:
        return self.id.split("/")[1]

    @property
    def pass_mark(self) -> float:
        """Half of the bar, rounded down to 0.05, at least 0.05 and above the floor."""
        half = int(round(self.bar * 1e6) // 100_000) * 0.05
        mark = max(half, 0.05)
        while mark <= self.floor:
            mark += 0.05
        return round(mark, 2)


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a card's observation or action table."""

    name: str
    """Key, or slice of a vector ("0:29")."""
    meaning: str
    shape: str
    unit: str
    frame: str = "-"
    range: str = "-"
    noise: str = "-"
    tasks: tuple[str, ...] = ()
    """Slugs of the tasks that have it; empty: all of the family."""


class FamilyCard(msgspec.Struct, frozen=True, kw_only=True):
    """What the generated card of a family shows beside its tasks. Each spec defines one as `CARD`."""

    summary: str
    """One sentence: what is asked of the agent and what is measured."""
    robot: str
    robot_of: dict[str, str] = {}
    """Robot of a task by slug, where the tasks have different ones."""
    rate: str
    """Control rate, physics step and length of a trial, in words with units."""
    observations: tuple[Channel, ...]
    actions: tuple[Channel, ...]
    score_equation: tuple[str, ...]
    """The equation of `metrics.score`, one line per symbol; a line that begins with a task's slug is that task's alone."""
    dev: str
    """E_dev: what `rle dev` gives the agent."""
    history: tuple[tuple[str, str], ...]
    """(version, what changed), newest first."""
