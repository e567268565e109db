"""What a Python package holds: names that could replace trusted modules, sizes, and syntax.

Nothing is executed here; importing it is `python_box`, in a worker that lives for one trial.
"""

import posixpath
import sys

from .roles import CheckRole, quoted
from .wire import Fault

TRUSTED = frozenset(
    [
        "numpy",
        "scipy",
        "cv2",
        "mujoco",
        "torch",
        "onnxruntime",
        "onnx",
        "msgspec",
        "pyseccomp",
        "PIL",
        "google",
        "ml_dtypes",
        "rle",
        "rle_box",
        "rle_client",
        "rle_skills",
        "families",
        "verifier",
        "train_baselines",
    ]
)
"""Modules of the environment that a package may not be named like."""
HOOKS = frozenset({"sitecustomize.py", "usercustomize.py"})
"""Files that an interpreter runs by itself."""


def check(files: dict[str, bytes], contract: dict) -> dict:
    """Static check of a package.

    Args:
        files: Everything below the contract's folder, by path.
        contract: `rle.contracts.PythonContract` as plain data.

    Returns:
        `n_files`, `n_bytes`.

    Raises:
        Fault: `python.*`, `file.count` or `file.size`.
    """
    folder = contract["folder"] + "/" if contract["folder"] else ""
    if len(files) > contract["max_files"]:
        raise Fault("file.count", n=len(files), max=contract["max_files"])
    total = sum(map(len, files.values()))
    if total > contract["max_total_bytes"]:
        raise Fault("file.size", path="the package", n=total, max=contract["max_total_bytes"])
    for path in sorted(files):
        _check_name(path, path.removeprefix(folder), contract["suffixes"])
    for path in sorted(files):
        if path.endswith(".py"):
            check_syntax(path, files[path])
    return {"n_files": len(files), "n_bytes": total}


def _check_name(path: str, inner: str, suffixes: list[str]) -> None:
    name, suffix = posixpath.basename(inner), posixpath.splitext(inner)[1]
    if name in HOOKS or suffix == ".pth":
        raise Fault("python.shadow", path=quoted(path))
    top = inner.split("/")[0]
    if top.removesuffix(".py") in sys.stdlib_module_names | TRUSTED:
        raise Fault("python.shadow", path=quoted(top))
    if suffixes and suffix not in suffixes:
        raise Fault("python.suffix", path=quoted(path), allowed=" ".join(suffixes))


def check_syntax(path: str, data: bytes) -> None:
    """Compiles a file without running it. Raises Fault("python.syntax")."""
    try:
        compile(data, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise Fault(
            "python.syntax", path=quoted(path), line=error.lineno or 0, fact=quoted(error.msg)
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Fault("python.syntax", path=quoted(path), line=0, fact=type(error).__name__) from None


def build(config: dict) -> CheckRole:
    return CheckRole(check)
