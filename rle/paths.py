"""Where things are: the shipped assets (inside the wheel, else beside the checkout), and compiled code."""

import atexit
import importlib.util
import os
import shutil
import tempfile
from importlib.resources import files
from pathlib import Path

from rle.errors import UserError


def assets_dir() -> Path:
    """Returns the folder of models and data: `rle/_assets` of a wheel, else `assets/` of a checkout.

    Raises:
        UserError: Neither exists; names both places.
    """
    package = Path(str(files("rle")))
    wheel, checkout = package / "_assets", package.parent / "assets"
    for folder in (wheel, checkout):
        if folder.is_dir():
            return folder
    raise UserError(
        f"assets not found: looked for {wheel} (wheel) and {checkout} (checkout). "
        "Reinstall rle-bench, or run from a complete checkout.",
        code="assets.missing",
    )


def output_folder(path: Path, option: str) -> Path:
    """Makes a folder that the caller named, and returns it.

    Args:
        path: May exist.
        option: Where it was named, for the message ("--out").

    Raises:
        UserError: It is a file, lies below one, or may not be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        said = (
            "it is a file" if path.is_file() else (error.strerror or type(error).__name__).lower()
        )
        raise UserError(
            f"{option} {path} cannot be made a folder ({said}); give a folder or a new name",
            code="out.type",
        ) from error
    return path


def compiled_code_dir(package: str) -> None:
    """Gives numba a folder for a package's compiled code, where neither the package's nor the user's will do.

    Without one numba raises while the package is imported. The substitute is new and private, since numba
    unpickles what it finds there; it lives as long as this process, which then compiles for some seconds.

    Args:
        package: Installed package that numba compiles, not imported yet.

    Raises:
        UserError: Not even a temporary folder can be made.
    """
    found = importlib.util.find_spec(package)
    places = [Path(found.origin).parent] if found and found.origin else []
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if any(
        _can_write(place) for place in [*places, Path(home), *([Path(chosen)] if chosen else [])]
    ):
        return
    try:
        folder = tempfile.mkdtemp(prefix="rle-numba-")
    except OSError as error:
        raise UserError(
            f"numba has no folder for the compiled code of {package}: none of {home}, its own folder and "
            f"{tempfile.gettempdir()} can be written ({error}). Set NUMBA_CACHE_DIR to a folder of yours.",
            code="cache.unwritable",
        ) from error
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = folder


def _can_write(place: Path) -> bool:
    """True if a file can be made in a folder, or in the nearest one above it that exists."""
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            return True
    except OSError:
        return False
