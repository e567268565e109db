"""Which layers protect a worker: what this machine offers, and what a mode demands.

`strict` needs every name of `REQUIRED`, alternatives within a set; `reduced` takes what exists and
marks the result. No mode is off.
"""

import os
import platform
import stat
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from rle.errors import IsolationUnavailable
from rle.spec import Profile
from verifier.isolation import landlock

Mode = Literal["strict", "reduced"]
GIB = 2**30

ORDER = ("rlimits", "uid", "nocap", "nnp", "landlock", "seccomp")
"""Names of the layers, in the order in which a worker applies them."""
REQUIRED: tuple[frozenset[str], ...] = (
    frozenset({"rlimits"}),
    frozenset({"nnp"}),
    frozenset({"seccomp"}),
    frozenset({"uid", "nocap"}),
    frozenset({"landlock", "uid"}),
)
"""What `strict` demands: at least one layer of each set."""

FIRST_UID, LAST_UID = 62_000, 63_999
"""Uids of workers; one per live worker."""
WORKER_THREADS = 64
"""Threads of a profile that may have them."""

BOX = Path(__file__).resolve().parent.parent / "box"


@dataclass(frozen=True)
class ProfileSpec:
    """Numbers of a worker profile. A family's limits may lower them, never raise them."""

    memory_bytes: int | None
    """Address space; None where a GPU driver maps more than is used."""
    load_cap_s: float
    """Longest time from LOAD to READY."""
    run_role: str
    """Module of the box that serves its requests."""
    threads: int = 0
    """Threads beside the first that may be started."""
    freeze: bool = False
    """Stopped between calls, so that nothing is computed for free."""
    unix_sockets: bool = False
    fsize_bytes: int = 0
    """Largest file that may be written."""


PROFILES: dict[Profile, ProfileSpec] = {
    "onnx": ProfileSpec(2 * GIB, 30.0, "onnx_box"),
    "torchscript": ProfileSpec(8 * GIB, 60.0, "torchscript_box", freeze=True),
    "mjcf": ProfileSpec(2 * GIB, 20.0, "mjcf_box"),
    "python": ProfileSpec(4 * GIB, 60.0, "python_box", freeze=True),
    "recipe_train": ProfileSpec(
        32 * GIB, 60.0, "recipe.run_box", threads=WORKER_THREADS, fsize_bytes=2 * GIB
    ),
    "recipe_serve": ProfileSpec(
        32 * GIB, 300.0, "recipe.run_box", threads=WORKER_THREADS, unix_sockets=True
    ),
    "session": ProfileSpec(4 * GIB, 60.0, "python_box"),
}


@dataclass(frozen=True)
class Plan:
    """Layers that a worker applies on this machine, and what is missing as (layer, fact, fix)."""

    mode: Mode
    layers: tuple[str, ...]
    missing: tuple[tuple[str, str, str], ...] = field(default=())

    @property
    def own_uid(self) -> bool:
        return "uid" in self.layers

    def require(self, layers: tuple[str, ...] | None = None, facts: dict | None = None) -> None:
        """Checks layers (planned or, from a HELLO, reached) against the mode.

        Raises:
            IsolationUnavailable: `strict`, and a demanded layer is missing.
        """
        if self.mode == "reduced":
            return
        have = set(self.layers if layers is None else layers)
        known = {layer: (fact, fix) for layer, fact, fix in self.missing}
        for alternatives in REQUIRED:
            if not alternatives & have:
                layer = sorted(alternatives, key=ORDER.index, reverse=True)[0]
                fact, fix = known.get(layer, ("the kernel refused it", "Run `rle doctor`."))
                raise IsolationUnavailable(layer, (facts or {}).get(layer, fact), fix)


def landlock_abi() -> int:
    """ABI of this kernel's Landlock, 0 for none."""
    return landlock.abi()


@cache
def seccomp_fault() -> str | None:
    """Why no filter can be installed here, or None."""
    try:
        import pyseccomp  # noqa: F401
    except (ImportError, RuntimeError) as error:
        return str(error)
    return None if Path("/proc/sys/kernel/seccomp/actions_avail").exists() else "no CONFIG_SECCOMP"


@cache
def unreachable_path() -> str | None:
    """First path of the interpreter, its libraries or the box that other users cannot enter."""
    needed = [
        Path(sys.executable).resolve(),
        Path(sys.base_prefix) / "lib",
        Path(sys.prefix) / "lib",
        BOX,
    ]
    for path in needed:
        for part in (*reversed(path.parents), path):
            mode = part.stat().st_mode
            wanted = stat.S_IXOTH | (stat.S_IROTH if part == path else 0)
            if mode & wanted != wanted:
                return str(part)
    return None


def effective_uid() -> int:
    return os.geteuid()


def plan(mode: Mode) -> Plan:
    """What this machine offers.

    Raises:
        IsolationUnavailable: `strict` and something demanded is missing.
    """
    layers, missing = {"rlimits", "nnp"}, []
    if effective_uid() == 0 and (where := unreachable_path()) is None:
        layers.add("uid")
    else:
        layers.add("nocap")
        fact = "not root" if effective_uid() else f"{where} is closed to other users"
        missing.append(("uid", fact, "Install Python where every user can read it."))
    if landlock_abi() > 0:
        layers.add("landlock")
    else:
        fact = f"kernel {platform.release()} has no Landlock"
        missing.append(("landlock", fact, "Use Linux 5.13 or newer with lsm=landlock."))
    if (fault := seccomp_fault()) is None:
        layers.add("seccomp")
    else:
        missing.append(("seccomp", fault, "Install libseccomp2 and pyseccomp."))
    result = Plan(mode, tuple(name for name in ORDER if name in layers), tuple(missing))
    result.require()
    return result


def readable_paths(*given: Path | None) -> list[str]:
    """What a worker may read and execute: libraries, two devices, the box, and what it is given."""
    paths = [
        f"{sys.base_prefix}/lib",
        f"{sys.prefix}/lib",
        "/usr/lib",
        *sorted(str(p) for p in Path("/").glob("lib*")),
        "/usr/local/lib",
        "/usr/share/zoneinfo",
        "/dev/null",
        "/dev/urandom",
        "/proc/cpuinfo",
        "/sys/devices/system/cpu",
        str(BOX),
    ]
    return [*paths, *(str(path) for path in given if path is not None)]
