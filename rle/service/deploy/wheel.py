"""Builds `rle_client`, the one package of ours that an agent of f01 to f03, f05 and f06 may read: the wire
protocol, the client and its errors, nothing else. A pure-Python wheel is a zip with two text files, so no tool is needed.
"""

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import rle

NAME = "rle_client"
MODULES = ("frames.py", "protocol.py", "errors.py", "client.py")
"""Those of `rle/service/` that are the agent's too."""
_INIT = '''"""Client of the metered simulator service: `rle_client.connect()`."""

from rle_client.client import *  # noqa: F403
from rle_client.client import __all__  # noqa: F401
'''
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Fixed time stamp: the same sources give the same bytes."""


def sources(
    extra: Mapping[str, Path] | None = None, renames: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Files of the package by their path in it.

    Args:
        extra: More modules by name, e.g. {"f06/__init__.py": families/f06_pose/client.py}.
        renames: Module names of the project in those, and what they are called in the package.
    """
    here = Path(__file__).parent.parent
    shared = {f"rle.service.{name}": f"{NAME}.{name}" for name in ("frames", "protocol")}
    names = {**shared, **(renames or {})}
    files = {"__init__.py": _INIT}
    files |= {name: (here / name).read_text() for name in MODULES}
    for name, path in (extra or {}).items():
        text = path.read_text()
        for ours, theirs in names.items():
            text = text.replace(f"from {ours} import", f"from {theirs} import")
        files[name] = text
    return files


def build(
    folder: Path,
    extra: Mapping[str, Path] | None = None,
    renames: Mapping[str, str] | None = None,
) -> Path:
    """Writes `rle_client-VERSION-py3-none-any.whl` into a folder and returns its path."""
    version = rle.__version__
    info = f"{NAME}-{version}.dist-info"
    files = {f"{NAME}/{name}": text for name, text in sources(extra, renames).items()}
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n"
        "Summary: Client of the metered simulator service\nRequires-Python: >=3.11\n"
        "Requires-Dist: msgspec>=0.19\nRequires-Dist: numpy>=1.26\n"
    )
    files[f"{info}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: rle\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    record = "".join(
        f"{name},{_digest(text)},{len(text.encode())}\n" for name, text in files.items()
    )
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{NAME}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, text in files.items():
            wheel.writestr(zipfile.ZipInfo(name, _EPOCH), text)
    return path


def _digest(text: str) -> str:
    raw = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
