"""Whether a checkpoint is plain data: a zip that `torch.load(weights_only=True)` reads, of bounded size.

A pickle that names anything but tensors and containers is refused by torch's own restricted reader; what
it can still do is to claim sizes, so elements are counted before anybody touches a tensor's values.
"""

import zipfile
from pathlib import Path
from typing import Any

import torch

from ..roles import quoted
from ..wire import Fault

MAX_PICKLE_BYTES = 16 * 2**20
"""Largest structure (names, shapes) beside the stored numbers."""
PLAIN = (str, int, float, bool, type(None))
CONTAINERS = (dict, list, tuple)
LOAD_ERRORS = (torch._weights_only_unpickler.UnpicklingError, RuntimeError, ValueError, TypeError,
               KeyError, IndexError, AttributeError, EOFError, OSError, MemoryError, AssertionError)  # fmt: skip
"""What torch raises for files that are not what it writes."""


def check(path: Path, contract: dict) -> dict:
    """Opens a checkpoint and counts what it holds.

    Args:
        path: The frozen file.
        contract: `rle.contracts.CheckpointContract` as plain data.

    Returns:
        `ckpt_elements`, `ckpt_bytes`.

    Raises:
        Fault: `ckpt.load` or `ckpt.size`.
    """
    name = contract["path"]
    _check_archive(path, name)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except LOAD_ERRORS as error:
        raise Fault("ckpt.load", path=name, fact=_reason(error)) from None
    if not isinstance(found, dict) or not found:
        raise Fault("ckpt.load", path=name, fact="a dict with something in it is expected")
    elements = count(found, contract)
    return {"ckpt_elements": elements, "ckpt_bytes": path.stat().st_size}


def count(found: dict, contract: dict) -> int:
    """Elements of every tensor, by shape and not by storage.

    Raises:
        Fault: `ckpt.size` above `max_elements`, `ckpt.load` for anything but plain data, or too deep.
    """
    name, total, seen = contract["path"], 0, set()
    pending: list[tuple[Any, int]] = [(found, 1)]
    while pending:
        value, depth = pending.pop()
        if isinstance(value, PLAIN) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            if value.layout is not torch.strided:
                raise Fault("ckpt.load", path=name, fact="sparse tensors are not accepted")
            total += value.numel()
            if total > contract["max_elements"]:
                raise Fault("ckpt.size", path=name, n=total, max=contract["max_elements"])
        elif isinstance(value, CONTAINERS):
            if depth > contract["max_depth"]:
                fact = f"nested more than {contract['max_depth']} deep"
                raise Fault("ckpt.load", path=name, fact=fact)
            inner = [*value, *value.values()] if isinstance(value, dict) else value
            pending += [(part, depth + 1) for part in inner]
        else:
            fact = (
                f"holds a {quoted(type(value).__name__, 60)}; tensors and plain data are accepted"
            )
            raise Fault("ckpt.load", path=name, fact=fact)
    return total


def _check_archive(path: Path, name: str) -> None:
    """A stored zip with one small pickle: what `torch.save` writes, and what can be mapped."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            pickles = [info for info in infos if info.filename.endswith(".pkl")]
            plain = all(info.compress_type == zipfile.ZIP_STORED for info in infos)
            if not plain or len(pickles) != 1 or len({i.filename for i in infos}) != len(infos):
                raise Fault("ckpt.load", path=name, fact="not an archive as torch.save writes it")
            if pickles[0].file_size > MAX_PICKLE_BYTES:
                fact = f"its structure has {pickles[0].file_size} bytes"
                raise Fault("ckpt.load", path=name, fact=fact)
    except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, EOFError, OSError):
        fact = "not an archive as torch.save writes it"
        raise Fault("ckpt.load", path=name, fact=fact) from None


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next((line for line in lines if "Unsupported" in line), "".join(lines[:1]))
    return quoted(told or type(error).__name__, 160)


class CheckpointRole:
    """Serves one LOAD: `{"root": folder, "files": [path], "contract": {...}}`."""

    def load(self, fields: dict) -> dict:
        return check(Path(fields["root"]) / fields["files"][0], fields["contract"])

    def reset(self, fields: dict) -> None:
        raise Fault("ipc.frame")

    def act(self, payload: memoryview) -> bytes:
        raise Fault("ipc.frame")


def build(config: dict) -> CheckpointRole:
    torch.set_num_threads(1)
    return CheckpointRole()
