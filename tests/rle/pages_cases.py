"""One set of pages for the tests: every kind of outcome, one system alone and several beside each other."""

import functools
import json
import tempfile
from pathlib import Path

import numpy as np
from index_cases import (
    cell_of,
    infrastructure,
    invalid,
    report,
    system,
    tracking_rows,
    write_input,
    write_out,
)
from PIL import Image

from rle import registry
from rle.index import IndexOptions, run_index
from rle.pages import write_index_page, write_report_page
from rle.report import ErrorRecord, Row, read_report

RECORDED = tuple(sorted((Path(__file__).parent / "reports").glob("*.json")))
"""Real verifications of the shipped references, one at least of each family: see `record_report.py`."""
KEPT_UNTIL_EXIT = tempfile.TemporaryDirectory(prefix="rle-pages-")
HOSTILE = "<script>document.title = 'owned'</script> & \"quotes\""


@functools.cache
def folder() -> Path:
    """Folder of the pages; drawn once per process, gone with it."""
    base = Path(KEPT_UNTIL_EXIT.name)
    results = base / "results"
    practice = {"practice": True, "reference": "stand-in"}
    write_out(results / "f04-dance", report("f04/dance", **practice))
    closed = {"stable": True, "deterministic": False}
    write_out(results / "f04-run", report("f04/run", reward=0.1, gates=closed, **practice))
    write_out(
        results / "f04-sprint",
        invalid("f04/sprint", code="file.extra", message=HOSTILE, practice=True),
    )
    write_out(results / "f04-fight", infrastructure("f04/fight", practice=True))
    partial = report(
        "f04/fall-and-get-up",
        outcome="budget_exceeded",
        reward=0.0,
        raw_total=None,
        rows=[],
        errors=[ErrorRecord(code="budget", message="time is up")],
        **practice,
    )
    write_out(results / "f04-fall-and-get-up", partial)
    _media(results / "f04-dance")
    for path in sorted(results.glob("*/report.json")):
        write_report_page(path.parent, path.parent / "index.html")
    for path in RECORDED:
        out = write_out(base / "recorded" / path.stem, read_report(path.read_bytes()))
        write_report_page(out, out / "index.html")
    kept = run_index(IndexOptions(results=(base / "recorded",), system="recorded"))
    write_index_page(kept, base / "recorded.html")
    alone = run_index(IndexOptions(results=(results,), system="reference submissions"))
    write_index_page(alone, base / "index.html")
    write_index_page(several(base), base / "several.html")
    return base


def several(base: Path):
    """Three systems with costs over three runs, and a published row."""
    rng = np.random.default_rng(3)

    def one(name: str, level: float, usd: float):
        def cell(task: str):
            scores = np.clip(rng.normal(level, 0.2, 1 if task.startswith("f09") else 4), 0, 1)
            return cell_of(
                scores, cost_usd=usd, input_tokens=1_000_000, output_tokens=20_000,
                started_at="2026-11-29T10:00:00Z", finished_at="2026-11-29T11:00:00Z",
                status="completed", isolation="strict",
            )  # fmt: skip

        runs = [{t: cell(t) for t in registry.TASK_IDS if rng.uniform() < 0.95} for _ in range(3)]
        return system(name, *runs, model=f"maker/{name}", harness="claude-code")

    published = base / "published.json"
    published.write_text(
        json.dumps(
            {
                "schema": "rle-published/1", "source": "a paper", "date": "2026-01-01",
                "systems": [{"name": "system p", "index": 40.0, "families": {"f04": 30.0}}],
            }
        )
    )  # fmt: skip
    path = write_input(
        base, one("model-a", 0.5, 2.0), one("model-b", 0.4, 1.0), one("model-c", 0.3, 3.0)
    )
    return run_index(IndexOptions(results=(path,), published=published))


def pages() -> dict[str, Path]:
    """Every page by name."""
    base = folder()
    found = {p.parent.name: p for p in sorted(base.glob("results/*/index.html"))}
    kept = {f"recorded-{p.parent.name}": p for p in sorted(base.glob("recorded/*/index.html"))}
    alone = {name: base / f"{name}.html" for name in ("index", "several", "recorded")}
    return {**alone, **found, **kept}


def _media(out: Path) -> None:
    """A poster, a camera image and a picture of other shapes than a film; the video itself is never
    loaded by a page that is only opened. And the family's own page."""
    (out / "t00.mp4").write_bytes(b"not a film")
    Image.new("RGB", (64, 36), (40, 90, 60)).save(out / "t00.jpg")
    Image.new("RGB", (48, 48), (90, 40, 60)).save(out / "t01_seen_7.4_s.png")
    Image.new("RGB", (64, 48), (40, 60, 90)).save(out / "picture_front_view.png")
    (out / "media").mkdir()
    (out / "media" / "index.html").write_text("<!doctype html><title>all</title>")


def falling_row(**fields) -> Row:
    """A trial of f04 that fell."""
    row = tracking_rows(np.random.default_rng(0))[0]
    return Row(**{**{name: getattr(row, name) for name in row.__struct_fields__}, **fields})
