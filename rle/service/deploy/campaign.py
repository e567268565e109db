"""The secrets of one evaluation campaign: a salt per draw, a key pair per task with a metered simulator.

    DIR/fNN-slug/environment/private/{profile.json, salt, broker.key}    where the broker runs
    DIR/fNN-slug/tests/private/{salt, broker.pub}                        where the verifier runs

One campaign is one use: a second campaign gets a folder of its own.
"""

import fnmatch
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rle import registry
from rle.errors import UserError
from rle.service.course import Profile
from rle.service.record.keys import SigningKey

SALT_BYTES = 32
"""Length of a campaign's salt. Source: the shortest that the verifier accepts."""
LAYOUTS = ("deployment", "sidecar")


def deploy(
    folder: Path,
    patterns: Sequence[str] = (),
    *,
    layout: str = "deployment",
    validation: bool = False,
) -> list[str]:
    """Writes the secrets of a campaign.

    Args:
        folder: New or empty folder outside any repository, made 0700.
        patterns: Task ids or globs ("f03/*"); none: every task that is here.
        layout: `deployment`: broker under its own user; `sidecar`: in its own container.
        validation: The services answer the reference solvers; such runs are never ranked.

    Returns:
        Ids of the deployed tasks.

    Raises:
        UserError: The folder holds something or lies in a repository, or no task matches.
    """
    folder = folder.resolve()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is not an empty folder; a campaign gets one of its own")
    inside = next((p for p in (folder, *folder.parents) if (p / ".git").exists()), None)
    if inside is not None:
        raise UserError(
            f"{folder} lies in the repository {inside}; secrets never go there. Choose another folder"
        )
    tasks = [
        task for task in registry.landed_tasks()
        if not patterns or any(fnmatch.fnmatch(task, pattern) for pattern in patterns)
    ]  # fmt: skip
    if not tasks:
        raise UserError(f"no task matches {', '.join(patterns)}; see `rle list`")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chmod(folder, 0o700)
    salts: dict[tuple[str, str], bytes] = {}
    for task in tasks:
        declared = registry.get(task)
        draw = (declared.family, declared.draw_key)
        salt = salts.setdefault(draw, secrets.token_bytes(SALT_BYTES))
        base = folder / task.replace("/", "-")
        _write(base / "tests" / "private" / "salt", salt)
        if task in getattr(registry.room(declared.family, "spec"), "SESSIONS", {}):
            private = base / "environment" / "private"
            profile = Profile(task=task, layout=layout, validation=validation)
            _write(private / "salt", salt)
            _write(private / "profile.json", msgspec.json.format(msgspec.json.encode(profile)))
            SigningKey.generate().save(
                private / "broker.key", base / "tests" / "private" / "broker.pub"
            )
    return tasks


def _write(path: Path, data: bytes) -> None:
    """A new file that its owner alone may read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
