"""Pages for people: the Index page and the trial report, as static HTML that needs nothing else.

    write_index_page(run_index(options), path)
    write_report_page(out_folder, path)

A page answers three questions on its first screen: how good, how sure, can I trust it. It opens from the
file system, prints, and reads without JavaScript. Figures are inline SVG whose colours are the page's
variables, so that light and dark both hold.

Families say what is theirs in `families/fNN_x/figures.py`; `rle.pages.hooks` is the whole protocol.
matplotlib and jinja2 are imported when a page is drawn, not before.
"""

from collections.abc import Mapping
from pathlib import Path

from rle.index import IndexResult
from rle.pages.hooks import Curve, Native, Part

__all__ = ["Curve", "Native", "Part", "write_index_page", "write_report_page"]


def write_index_page(
    result: IndexResult, path: Path, looked_at: Mapping[str, Path] | None = None
) -> None:
    """Writes the Index page, and the result as JSON beside it (same name, `.json`).

    Args:
        result: Of `run_index`; the first system is the one the page is about.
        path: The HTML file; folders are made.
        looked_at: Tasks of which a part was run that is no score, with the OUT folder of each.
    """
    from rle.pages import index_page

    index_page.write(result, Path(path), looked_at or {})


def write_report_page(folder: Path, path: Path) -> None:
    """Writes the trial report of one verification.

    Args:
        folder: OUT folder of `rle verify` with `report.json`; videos there are linked.
        path: The HTML file; folders are made.

    Raises:
        UserError: No readable report in the folder.
    """
    from rle.pages import report_page

    report_page.write(Path(folder), Path(path))
