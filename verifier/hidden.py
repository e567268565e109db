"""The campaign's salt: read once, into memory, before anything of a submission is touched."""

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from rle.errors import UserError
from rle.seeds import PRACTICE_SALT, salt_id

ENV = "RLE_HIDDEN_SALT_FILE"
"""Environment variable that names the salt file where no option does."""
MIN_BYTES, MAX_BYTES = 32, 4096


@dataclass(frozen=True, repr=False)
class Salt:
    """The salt with its public name. It is not shown by `repr`, so that no log holds it."""

    value: bytes
    practice: bool
    folder: Path | None
    """Where it was read from; the self-test's canary lies beside it."""

    @property
    def id(self) -> str:
        return salt_id(self.value)

    def __repr__(self) -> str:
        return f"Salt(id={self.id}, practice={self.practice})"


def read_salt(path: str | None) -> Salt:
    """Reads the salt file, or gives the public practice salt where none is named.

    Args:
        path: Option `--salt-file`; else the variable `RLE_HIDDEN_SALT_FILE`.

    Raises:
        UserError: The file breaks a rule; the message names the command that fixes it.
    """
    name = path or os.environ.get(ENV)
    if not name:
        return Salt(PRACTICE_SALT, practice=True, folder=None)
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        why = "is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise _refused(name, f"{why}", "Name the regular file itself.") from None
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise _refused(name, "is not a regular file", "Name a regular file.")
        if info.st_uid != os.geteuid():
            raise _refused(
                name, f"belongs to uid {info.st_uid}", f"Run `chown {os.geteuid()} {name}`."
            )
        if info.st_mode & 0o077:
            mode = stat.S_IMODE(info.st_mode)
            raise _refused(name, f"has mode {mode:04o}", f"Run `chmod 600 {name}`.")
        if not MIN_BYTES <= info.st_size <= MAX_BYTES:
            raise _refused(
                name,
                f"has {info.st_size} bytes; {MIN_BYTES} to {MAX_BYTES} are accepted",
                f"Run `(umask 077; head -c 64 /dev/urandom > {name})`.",
            )
        value = os.read(fd, MAX_BYTES + 1)
    finally:
        os.close(fd)
    return Salt(value, practice=False, folder=Path(name).absolute().parent)


def _refused(name: str, fact: str, fix: str) -> UserError:
    return UserError(f"salt file {name} {fact}. {fix}", code="salt.file")
