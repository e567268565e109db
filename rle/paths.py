"""Where the shipped assets are: inside the wheel, else beside the checkout."""

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
