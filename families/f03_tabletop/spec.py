"""Spec of f03: five interactive tabletop tasks. Numbers stand in `numbers/` by scene and are imported from
here; this module composes them into the tasks, their sessions and the card."""

from collections.abc import Iterable, Iterator

import msgspec

from families.f03_tabletop.numbers.common import *  # noqa: F403 - one place to import numbers from
from families.f03_tabletop.numbers.common import (
    BUDGET_STEPS,
    CONTROL_HZ,
    FAMILY_VERSION,
    HIDDEN_COM_STEPS,
    HIDDEN_COM_WALL_S,
    IMAGE_PX,
    TIMESTEP_S,
    WALL_S,
    Film,
)
from families.f03_tabletop.numbers.others import *  # noqa: F403
from families.f03_tabletop.numbers.others import BOXES
from families.f03_tabletop.numbers.sessions import session
from families.f03_tabletop.numbers.tabletop import *  # noqa: F403
from families.f03_tabletop.numbers.texts import INSTRUCTIONS, TITLES
from rle.service.adapter import SessionSpec
from rle.spec import (
    ArtifactContract,
    ArtifactEntry,
    Budget,
    Channel,
    FamilyCard,
    TaskSpec,
)

SLUGS = ("tower", "cantilever", "balance", "pocket-cube", "hidden-com")
MAX_LEDGER_BYTES = 268_435_456
"""Size of `ledger.jsonl`. Source: ours; 50,000 single-step requests are 30 MB."""
MAX_ACTIONS_BYTES = 16_777_216
"""Size of `actions.f32`. Source: ours; 50,000 actions of 14 numbers are 2.8 MB."""

_RULES: dict[str, tuple[float, float]] = {
    "tower": (0.27, 0.55),
    "cantilever": (0.0, 0.60),
    "balance": (0.0, 1.0),
    "pocket-cube": (0.0, 0.5),
    "hidden-com": (0.0, 0.95),
}
"""Floor and oracle's bar. Source: card, section 9. Tower's floor is the upright rod of the start scene;
pocket-cube's bar is on a practice instance of optimum 3."""

_TABLETOP_FILM = Film(target_m=(-0.1, 0.05, 1.0), distance_m=1.7, azimuth_deg=150.0)
FILMS: dict[str, Film] = {
    "tower": _TABLETOP_FILM,
    "cantilever": _TABLETOP_FILM,
    "balance": _TABLETOP_FILM,
    "pocket-cube": Film(target_m=(0.0, 0.1, 1.05), distance_m=1.1, azimuth_deg=90.0),
    "hidden-com": Film(target_m=(0.0, 0.0, 0.95), distance_m=1.4, azimuth_deg=125.0),
}
"""View of each task's film."""
COUNTED: dict[str, tuple[str, ...]] = {
    "balance": ("weighings",),
    "pocket-cube": ("turns", "unclassified"),
}
"""Counters of the record that the trial report draws over time."""

ARTIFACT = ArtifactContract(
    entries=(
        ArtifactEntry(path="ledger.jsonl", kind="ledger", max_bytes=MAX_LEDGER_BYTES),
        ArtifactEntry(path="actions.f32", kind="data", max_bytes=MAX_ACTIONS_BYTES, required=False),
        ArtifactEntry(path="worker.log", kind="data", max_bytes=MAX_ACTIONS_BYTES, required=False),
        ArtifactEntry(path="failure.json", kind="data", max_bytes=4096, required=False),
    ),
    max_files=8,
    max_total_bytes=MAX_LEDGER_BYTES + 2 * MAX_ACTIONS_BYTES,
    extra="ignore",
)
"""The hand-over folder of the simulator service."""

SESSIONS: dict[str, SessionSpec] = {f"f03/{slug}": session(slug) for slug in SLUGS}
"""How each task is served."""


def _task(slug: str) -> TaskSpec:
    is_hidden = slug == "hidden-com"
    floor, bar = _RULES[slug]
    return TaskSpec(
        id=f"f03/{slug}",
        title=TITLES[slug],
        workflow="interactive control",
        version=FAMILY_VERSION,
        instruction=INSTRUCTIONS[slug],
        budget=Budget(
            agent_wall_s=HIDDEN_COM_WALL_S if is_hidden else WALL_S,
            verify_wall_s=900 if is_hidden else 1_800,
            sim_steps=BOXES * HIDDEN_COM_STEPS if is_hidden else BUDGET_STEPS,
            gpus=1,
            cpus=8,
            memory_mib=24_576,
            disk_mib=20_480,
        ),
        artifact=ARTIFACT,
        profiles=(),
        n_trials=BOXES if is_hidden else 1,
        draw_key=slug,
        ended=(
            "success",
            "horizon",
            "finished",
            "submitted",
            "forfeited",
            "wall_time",
            "sim_error",
            "phase_closed",
        ),
        floor=floor,
        bar=bar,
        oracle_script="train_baselines.oracles.f03_hidden_com" if is_hidden else None,
        gym_id=f"rle/f03-{slug}-v{FAMILY_VERSION.split('.')[0]}",
    )


TASKS = tuple(_task(slug) for slug in SLUGS)
"""The five tasks."""


def _shared(rows: Iterable[tuple[str, Channel]]) -> tuple[Channel, ...]:
    """Rows of (slug, channel) as the channels of the family, each with the tasks that have it."""
    tasks: dict[Channel, list[str]] = {}
    for slug, channel in rows:
        tasks.setdefault(channel, []).append(slug)
    return tuple(
        msgspec.structs.replace(c, tasks=() if tuple(s) == SLUGS else tuple(s))
        for c, s in tasks.items()
    )


def _observed(slug: str) -> Iterator[Channel]:
    """What a task's observation has, pictures included."""
    served = SESSIONS[f"f03/{slug}"]
    for key in served.observation:
        yield Channel(name=key.name, meaning=key.help, shape=str(key.shape), unit=key.unit)
    for camera in served.cameras:
        yield Channel(
            name=f"{camera}_image", meaning="RGB, row 0 at the top", shape="(H, W, 3)",
            unit="uint8", range=f"sides up to {IMAGE_PX} px",
        )  # fmt: skip
    for camera in served.depth_cameras:
        yield Channel(
            name=f"{camera}_depth",
            meaning="float32, along the optical axis",
            shape="(H, W)",
            unit="m",
        )


def _acted(slug: str) -> Iterator[Channel]:
    """The parts of a task's action."""
    for part in SESSIONS[f"f03/{slug}"].action_layout:
        yield Channel(
            name=f"{part.start}:{part.stop}", meaning=f"{part.name}: {part.help}",
            shape=f"({part.stop - part.start},)", unit="-", range="[-1, 1]",
        )  # fmt: skip


_MOBILE = "Panda arm on a mobile base"
_ROBOTS = {slug: _MOBILE for slug in ("tower", "cantilever", "balance")} | {
    "pocket-cube": "two fixed Pandas",
    "hidden-com": "one fixed Panda",
}

CARD = FamilyCard(
    summary="The agent works a robot through a metered client, in one continuous attempt, and must make a physical "
    "structure or learn a physical fact; measured is the final scene, the solve or the answers.",
    robot=f"{_MOBILE} (tower, cantilever, balance), {_ROBOTS['pocket-cube']} (pocket-cube), {_ROBOTS['hidden-com']} (hidden-com)",
    robot_of=_ROBOTS,
    rate=f"Control at {CONTROL_HZ:g} Hz; physics at {1000 * TIMESTEP_S:g} ms.",
    observations=_shared((slug, channel) for slug in SLUGS for channel in _observed(slug)),
    actions=_shared((slug, channel) for slug in SLUGS for channel in _acted(slug)),
    score_equation=(
        "tower        R = clip(h / H_opt, 0, 1),  H_opt = sum_i f_i + max_c E_c over pieces c with f_c = 0",
        "cantilever   R = clip(o / o_opt, 0, 1),  o_opt = (15 - 4 sqrt 2)/8 L = 0.1401472 m",
        "balance      R = 0 unless the mat holds exactly the heavy cube; else 1 if w <= 2, else 2/w",
        "pocket-cube  R = 0 if not solved; else g = 2^(-max(0, q/q* - 1)), at most 0.5 if a transition was unclassified",
        "hidden-com   R = correct / 3",
    ),
    dev="`rle serve TASK` starts the metered service on this machine; `rle_client.connect()` talks to it. Development "
    "and evaluation are the same attempt. Practice sessions draw from the public practice salt.",
    history=(("1.0.0", "first version"),),
)  # fmt: skip
"""Content of the generated card."""
