"""Names in a submission: which patterns name them, which are accepted, and how a message shows them."""

import fnmatch
import unicodedata

from rle.errors import InvalidSubmission

MAX_NAME_BYTES = 120
SHOWN_NAMES = 5


def matches(pattern: str, path: str) -> bool:
    """Whether a path is named by a pattern: `*` within one folder level, `**` over any number."""
    return _match(pattern.split("/"), path.split("/"))


def _match(pattern: list[str], parts: list[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_match(pattern[1:], parts[i:]) for i in range(len(parts) + 1))
    if not parts or not fnmatch.fnmatchcase(parts[0], pattern[0]):
        return False
    return _match(pattern[1:], parts[1:])


def leads_to(pattern: str, path: str) -> bool:
    """Whether `path` could be a folder above something that the pattern names."""
    for wanted, part in zip(pattern.split("/")[:-1], path.split("/"), strict=False):
        if wanted == "**":
            return True
        if not fnmatch.fnmatchcase(part, wanted):
            return False
    return len(path.split("/")) < len(pattern.split("/"))


def check_name(path: str) -> None:
    """Refuses a last part of a path that no ordinary file system has. Raises `file.name`."""
    name = path.rsplit("/", 1)[-1]
    try:
        raw = name.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidSubmission("file.name", name=printable(path)) from None
    bad = (
        len(raw) > MAX_NAME_BYTES
        or name.endswith(".")
        or any(c in "\\:" or unicodedata.category(c).startswith("C") for c in name)
    )
    if bad:
        raise InvalidSubmission("file.name", name=printable(path))


def check_names(paths: list[str]) -> None:
    """No two paths, nor a file and a folder, that a case-blind file system would merge."""
    seen: dict[str, str] = {}
    for path in paths:
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            shown = "/".join(parts[:end]) + ("/" if end < len(parts) else "")
            key = unicodedata.normalize("NFC", shown.rstrip("/")).casefold()
            if seen.setdefault(key, shown) != shown:
                raise InvalidSubmission("file.case", a=printable(seen[key]), b=printable(shown))


def printable(path: str) -> str:
    """A name out of a submission, for a message: quoted where it holds anything unusual."""
    shown = path if len(path) <= MAX_NAME_BYTES else path[: MAX_NAME_BYTES - 3] + "..."
    return shown if shown.isprintable() else ascii(shown)


def listed(names: list[str] | tuple[str, ...]) -> str:
    """The first few names, for a message."""
    return ", ".join(printable(n) for n in names[:SHOWN_NAMES]) or "nothing"
