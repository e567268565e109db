"""What each family says about its pages, held against a real report of its own."""

import msgspec
import pytest
from index_cases import write_out
from pages_cases import RECORDED, falling_row

from rle import registry
from rle.pages import hooks, report_page, write_report_page
from rle.report import read_report


@pytest.mark.parametrize("path", RECORDED, ids=lambda p: p.stem)
def test_what_a_family_says_about_its_pages_fits_its_own_report(path):
    report = read_report(path.read_bytes())
    family = report.task.split("/")[0]
    said = hooks.hooks_of(family)
    for share in said.credits:
        assert 0.0 <= share.scale * report.metrics[share.key] <= 1.0, share.key
    assert not said.native or any(n.key in report.metrics for n in said.native)
    terms = said.parts(report)
    if terms and all(report.gates.values()):
        assert sum(t.value for t in terms) == pytest.approx(report.reward, abs=1e-6)
    drawn = [row for row in report.rows if row.series]
    assert not drawn or any(hooks.curves_of(row, said) for row in drawn)
    for row in report.rows:
        assert said.sentence(row).strip(), row.id


def test_legend_names_kinds_of_events_once():
    first = falling_row(events=[(1.0, "two wheels lifted for 0.36 s"), (2.0, "push")])
    other = falling_row(
        events=[
            (1.5, "two wheels lifted for 0.08 s"),
            (2.0, "part 7 cleared"),
            (3.0, "fall: torso low"),
        ]
    )
    legend = report_page._legend([first, other], hooks.hooks_of("f04"))
    assert "Dotted verticals: two wheels lifted, push, part cleared, fall." in legend


def test_every_family_that_has_landed_has_a_recorded_report():
    assert set(registry.landed_families()) - {path.stem.split("-")[0] for path in RECORDED} == set()


@pytest.mark.parametrize(
    ("scores", "words"),
    [((0.9, 0.9), "All 2 trials scored alike"), ((1.0, 0.8), "too few of each kind")],
)
def test_an_interval_without_width_says_why(tmp_path, scores, words):
    """One trial of each kind: their redraw is themselves, whether or not they scored alike."""
    kept = read_report((RECORDED[0].parent / "f06-rgbd.json").read_bytes())
    one_each = [next(r for r in kept.rows if r.group == group) for group in ("a", "b")]
    few = [msgspec.structs.replace(r, score=s) for r, s in zip(one_each, scores, strict=True)]
    out = write_out(tmp_path / "f06-rgbd", msgspec.structs.replace(kept, rows=few))
    write_report_page(out, out / "index.html")
    assert words in (out / "index.html").read_text()


def test_a_closed_gate_decides_whatever_is_drawn(tmp_path):
    kept = read_report((RECORDED[0].parent / "f08-mobile-base.json").read_bytes())
    gates = {**kept.gates, "S1.structure": False}
    closed = msgspec.structs.replace(kept, gates=gates, reward=0.15)
    out = write_out(tmp_path / "f08-mobile-base", closed)
    write_report_page(out, out / "index.html")
    text = (out / "index.html").read_text()
    assert "<b>No interval</b>: a closed gate decides, whatever n = 141 trials were drawn." in text
    assert "too few of each kind" not in text
