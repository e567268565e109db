"""The role of a check worker: reads the named files, runs a pure check, answers with its findings."""

from collections.abc import Callable
from pathlib import Path

from . import wire

Check = Callable[[dict[str, bytes], dict], dict]
"""`check(files, contract) -> findings`; raises `wire.Fault(code, **short_fields)`."""


class CheckRole:
    """Serves one LOAD: `{"root": folder, "files": [paths], "contract": {...}}`."""

    def __init__(self, check: Check) -> None:
        self._check = check

    def load(self, fields: dict) -> dict:
        root = Path(fields["root"])
        files = {path: (root / path).read_bytes() for path in fields["files"]}
        return self._check(files, fields["contract"])

    def reset(self, fields: dict) -> None:
        raise wire.Fault("ipc.frame")

    def act(self, payload: memoryview) -> bytes:
        raise wire.Fault("ipc.frame")


def quoted(text: object, limit: int = 80) -> str:
    """A name out of a submission, shortened and made printable for a message."""
    shown = str(text)
    shown = shown if len(shown) <= limit else shown[: limit - 3] + "..."
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in shown)
