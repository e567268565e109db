"""Films and pictures beside a report, found by their names; `rle.pages.hooks` lists the names."""

import os
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from rle.report import Row

_IMAGES = (".jpg", ".png")
_STRIP_WIDTH_PX = 240
"""Width at which a page shows an image of a strip; the height follows from the image."""


def href(path: Path, page_folder: Path) -> str:
    """Link from a page to a file, relative."""
    return Path(os.path.relpath(path, page_folder)).as_posix()


def film(row: Row, number: int, folder: Path, page_folder: Path) -> tuple[str | None, str | None]:
    """Video of a trial and its poster: `t00.mp4` or `trial0.mp4`, each with an image of that name."""
    for base in _bases(folder):
        for name in (row.id, f"trial{number}"):
            video = base / f"{name}.mp4"
            if not video.is_file():
                continue
            posters = (video.with_suffix(suffix) for suffix in _IMAGES)
            poster = next((href(p, page_folder) for p in posters if p.is_file()), None)
            return href(video, page_folder), poster
    return None, None


def seen(row: Row, folder: Path, page_folder: Path) -> list[dict[str, str]]:
    """Camera images `<trial>_seen_<what>.jpg`, in order of name."""
    return _images(folder, page_folder, f"{row.id}_seen_", f"{row.id}: ")


def pictures(folder: Path, page_folder: Path) -> list[dict[str, str]]:
    """Pictures `picture_<what>.png` of a submission, in order of name."""
    return _images(folder, page_folder, "picture_", "")


def gallery(folder: Path, page_folder: Path) -> str | None:
    """Link to the family's own page of pictures and films, where it wrote one."""
    page = folder / "media" / "index.html"
    return href(page, page_folder) if page.is_file() else None


def _images(folder: Path, page_folder: Path, prefix: str, before: str) -> list[dict[str, str]]:
    """Link, alternative text, and width and height in px of each, so that nothing jumps."""
    files = [f for base in _bases(folder) for f in sorted(base.glob(f"{prefix}*"))]
    return [
        {
            "href": href(file, page_folder),
            "alt": before + file.stem.removeprefix(prefix).replace("_", " "),
            "width": str(_STRIP_WIDTH_PX),
            "height": str(_strip_height_px(file)),
        }
        for file in files
        if file.suffix in _IMAGES
    ]


def _strip_height_px(file: Path) -> int:
    try:
        with Image.open(file) as image:
            width, height = image.size
    except UnidentifiedImageError:  # a page shows the link all the same
        width, height = 16, 9
    return round(_STRIP_WIDTH_PX * height / width)


def _bases(folder: Path) -> tuple[Path, Path]:
    return folder, folder / "media"
