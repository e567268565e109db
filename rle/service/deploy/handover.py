"""The hook that runs when the agent's time is over: end its processes, seal the session or move it on, and
copy the record to where the harness fetches it. It runs as root and takes nothing from the agent's side.
"""

import contextlib
import json
import os
import shutil
import signal
import stat
import time
from pathlib import Path
from typing import Any

from rle.errors import InfrastructureError
from rle.service.broker import control
from rle.service.deploy.places import Places
from rle.service.frames import ProtocolError
from rle.service.record.ledger import ACTIONS_NAME, LEDGER_NAME
from rle.service.supervisor import WORKER_LOG

FAILURE = "failure.json"
FROZEN = "frozen"
"""Folder of a staged harness beside the record."""
PATIENCE_S = 10.0
"""How long a broker may be gone before it counts as lost: the keeper restarts it in 1 s."""
MAX_FROZEN_FILES = 500
MAX_FROZEN_BYTES = 32 * 1024 * 1024
"""Limits of `frozen/`. Source: the artifact contract of a harness, f02."""
_GRACE_S = 0.1
"""Between SIGTERM and SIGKILL of the agent's processes."""


def end_processes(uid: int) -> int:
    """SIGTERM, then SIGKILL, to every process of a user; returns how many there were."""
    found = _processes_of(uid)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in _processes_of(uid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        time.sleep(_GRACE_S)
    while left := _processes_of(uid):  # what forked meanwhile
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_GRACE_S)
    return len(found)


def _processes_of(uid: int) -> list[int]:
    """Living processes of a user, zombies left out."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                text = (Path(entry.path) / "status").read_text()
                fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
                is_zombie = fields["State"].strip().startswith("Z")
                if int(fields["Uid"].split()[0]) == uid and not is_zombie:
                    found.append(int(entry.name))
    return found


def patient_control(
    places: Places,
    op: str,
    *,
    patience_s: float = PATIENCE_S,
    reason: str = "collected",
    to: str = "",
) -> dict[str, Any]:
    """Asks the broker, over a restart of it.

    Raises:
        InfrastructureError: It did not answer within `patience_s`.
    """
    end = time.monotonic() + patience_s
    while True:
        try:
            return control(places.control, op, reason=reason, to=to)
        except (OSError, TimeoutError, ProtocolError) as error:
            if time.monotonic() > end:
                raise InfrastructureError(
                    f"no broker answers at {places.control} ({error}); is it running?",
                    code="broker.gone",
                ) from error
            time.sleep(0.2)


def hand_over(places: Places, reason: str, *, patience_s: float = PATIENCE_S) -> bool:
    """The hook of a task with one step: seals and exports; `failure.json` says that no broker answered.

    Returns:
        True when the exported record is sealed.
    """
    sealed = False
    with contextlib.suppress(InfrastructureError):
        sealed = bool(
            patient_control(places, "seal", patience_s=patience_s, reason=reason)["sealed"]
        )
    export(places)
    return _conclude(places, sealed or _ends_sealed(places.handover / LEDGER_NAME))


def hand_over_step(places: Places, step: str, *, patience_s: float = PATIENCE_S) -> bool:
    """The hook of one step of several: the next phase begins, the record so far is exported.

    Args:
        places: See there.
        step: Name of the step that ended: that of its phase, `develop` for development. The last seals.
        patience_s: As `hand_over`.

    Raises:
        InfrastructureError: The task has no such phase.
    """
    phase = "development" if step == "develop" else step
    try:
        phases = patient_control(places, "status", patience_s=patience_s)["phases"]
    except InfrastructureError:
        export(places)
        return _conclude(places, _ends_sealed(places.handover / LEDGER_NAME))
    if phase not in phases:
        raise InfrastructureError(
            f"step {step!r} is not a phase of this task; phases: {', '.join(phases)}",
            code="handover.step",
        )
    after = phases[phases.index(phase) + 1 :]
    if not after:
        return hand_over(places, "collected", patience_s=patience_s)
    patient_control(places, "advance", patience_s=patience_s, to=after[0])
    export(places, partial=True)
    return _conclude(places, True)


def export(places: Places, *, partial: bool = False, session: Path | None = None) -> Path:
    """Copies the record to the hand-over folder (0700).

    Args:
        places: See there.
        partial: The broker signs the totals so far, and the copy ends there.
        session: Session folder; default that of `places`.

    Raises:
        InfrastructureError: `partial`, and no broker answers.
    """
    if partial:
        patient_control(places, "checkpoint")
    session, target = session or places.session, places.handover
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chmod(target, 0o700)
    for name in (LEDGER_NAME, ACTIONS_NAME, WORKER_LOG):
        source = session / name
        if source.is_file() and not source.is_symlink():
            shutil.copyfile(source, target / name)
    if partial:
        _cut_at_checkpoint(target / LEDGER_NAME)
    shutil.rmtree(target / FROZEN, ignore_errors=True)
    if (session / FROZEN).is_dir() and not (session / FROZEN).is_symlink():
        _copy_frozen(session / FROZEN, target / FROZEN)
    return target


def _cut_at_checkpoint(path: Path) -> None:
    """Drops what was recorded after the last signed checkpoint (a lease, a trial's opening)."""
    lines = path.read_bytes().splitlines(keepends=True)
    while lines and b'"k":"checkpoint"' not in lines[-1][:200]:
        lines.pop()
    path.write_bytes(b"".join(lines))


def _copy_frozen(source: Path, target: Path) -> None:
    """Regular files only, within the limits; what passes them was refused when it was staged."""
    files = size = 0
    for folder, names, leaves in os.walk(source):
        names[:] = sorted(n for n in names if not (Path(folder) / n).is_symlink())
        for leaf in sorted(leaves):
            path = Path(folder) / leaf
            info = path.lstat()
            files, size = files + 1, size + info.st_size
            if files > MAX_FROZEN_FILES or size > MAX_FROZEN_BYTES:
                return
            if stat.S_ISREG(info.st_mode):
                copy = target / path.relative_to(source)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy, follow_symlinks=False)


def _conclude(places: Places, whole: bool) -> bool:
    failure = places.handover / FAILURE
    if whole:
        failure.unlink(missing_ok=True)
        return True
    utc = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    failure.write_text(json.dumps({"reason": "broker_failed", "utc": utc}) + "\n")
    return False


def _ends_sealed(path: Path) -> bool:
    if not path.is_file():
        return False
    lines = path.read_bytes().splitlines()
    return bool(lines) and b'"k":"seal"' in lines[-1][:200]
