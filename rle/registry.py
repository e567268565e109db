"""The 51 tasks in the paper's order. Families load lazily: listing the tasks imports no simulator."""

import importlib
import importlib.util

from rle.errors import NotAvailable, UnknownName
from rle.spec import TaskSpec, Workflow

_LEVELS = ("l1", "l2", "l3")
_F01_ACTIVITIES = (
    "open-fridge", "close-cabinet", "turn-on-stove",
    "pick-place-counter-to-drawer", "pick-place-microwave-to-counter",
)  # fmt: skip

PACKAGES: dict[str, str] = {
    "f01": "families.f01_kitchen",
    "f02": "families.f02_harness",
    "f03": "families.f03_tabletop",
    "f04": "families.f04_tracking",
    "f05": "families.f05_nanovla",
    "f06": "families.f06_pose",
    "f07": "families.f07_bin",
    "f08": "families.f08_mobile_base",
    "f09": "families.f09_gello",
}

FAMILY_TITLES: dict[str, str] = {
    "f01": "Kitchen learning",
    "f02": "Kitchen harness transfer",
    "f03": "Tabletop physical reasoning",
    "f04": "Whole-body motion tracking",
    "f05": "nanoVLA recipe engineering",
    "f06": "Blind planar pose estimation",
    "f07": "Contact-rich bin clearing",
    "f08": "Universal mobile-manipulator base",
    "f09": "GELLO gravity-compensation co-design",
}

WORKFLOWS: dict[Workflow, tuple[str, ...]] = {
    "interactive control": ("f01", "f02", "f03"),
    "policy learning": ("f04", "f05"),
    "perception and estimation": ("f06", "f07"),
    "mechanical design": ("f08", "f09"),
}

_SLUGS: dict[str, tuple[str, ...]] = {
    "f01": tuple(f"{activity}-{level}" for activity in _F01_ACTIVITIES for level in _LEVELS),
    "f02": (
        "washing-dishes", "sauteing-vegetables", "baking", "reheating-food", "chopping-food",
        "setting-the-table", "portioning-meals", "defrosting-food", "arranging-buffet",
        "serving-beverages", "loading-fridge", "managing-freezer-space", "clearing-table",
        "microwaving-food", "storing-leftovers",
    ),
    "f03": ("tower", "cantilever", "balance", "pocket-cube", "hidden-com"),
    "f04": ("dance", "fight", "fall-and-get-up", "run", "sprint"),
    "f05": ("libero-open", "libero-robust", "robotwin-open", "robotwin-robust"),
    "f06": ("rgb", "rgbd", "learned-rgbd", "method-agnostic"),
    "f07": ("bin-clearing",),
    "f08": ("mobile-base",),
    "f09": ("gello",),
}  # fmt: skip

TASK_IDS: tuple[str, ...] = tuple(f"{f}/{slug}" for f, slugs in _SLUGS.items() for slug in slugs)
"""All 51 ids; the fixed denominator of the Index."""


def family_tasks(family: str) -> tuple[str, ...]:
    """Task ids of a family, in order.

    Raises:
        UnknownName: No such family.
    """
    if family not in _SLUGS:
        raise UnknownName("family", family, _SLUGS, "See `rle list`.")
    return tuple(f"{family}/{slug}" for slug in _SLUGS[family])


def workflow_of(family: str) -> Workflow:
    """Workflow that a family counts towards."""
    return next(name for name, families in WORKFLOWS.items() if family in families)


def landed_families() -> tuple[str, ...]:
    """Families whose package is in this version, in order. Looks for the files, imports nothing."""
    return tuple(f for f, package in PACKAGES.items() if _has_module(package, "verify"))


def landed_tasks() -> tuple[str, ...]:
    """Ids of all tasks that can be verified here."""
    return tuple(t for f in landed_families() for t in family_tasks(f))


def check_task_id(task_id: str) -> str:
    """Returns the id unchanged if it is one of the 51.

    Raises:
        UnknownName: With the nearest id, and the tasks of the family where the family is known.
    """
    if task_id in TASK_IDS:
        return task_id
    family = task_id.split("/")[0]
    raise UnknownName(
        "task", task_id, family_tasks(family) if family in _SLUGS else TASK_IDS, "See `rle list`."
    )


def get(task_id: str) -> TaskSpec:
    """The task's spec; imports the family's `spec` module, which holds no simulator.

    Raises:
        UnknownName: Not one of the 51 ids.
        NotAvailable: The family is not in this version.
    """
    family = check_task_id(task_id).split("/")[0]
    if family not in landed_families():
        raise NotAvailable(task_id, landed_families())
    tasks: tuple[TaskSpec, ...] = importlib.import_module(f"{PACKAGES[family]}.spec").TASKS
    return next(task for task in tasks if task.id == task_id)


def room(family: str, name: str):
    """Imports a room of a family (`verify`, `task`, `scene`, `metrics`, `spec`, or an own module)."""
    if family not in landed_families():
        raise NotAvailable(f"{family}/*", landed_families())
    return importlib.import_module(f"{PACKAGES[family]}.{name}")


def has_room(family: str, name: str) -> bool:
    """Whether a family has a module of this name. Looks for the file, imports nothing."""
    return family in PACKAGES and _has_module(PACKAGES[family], name)


def _has_module(package: str, module: str) -> bool:
    return (
        importlib.util.find_spec(package) is not None
        and importlib.util.find_spec(f"{package}.{module}") is not None
    )
