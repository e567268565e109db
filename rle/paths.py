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
