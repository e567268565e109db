"""Pages as text: structure, honesty of numbers, links, size, and nothing from a submission as markup."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import msgspec
import numpy as np
import pytest
from index_cases import report as make_report
from index_cases import rows, scored, tracking_rows, write_out
from pages_cases import HOSTILE, RECORDED, falling_row, pages

from families.f04_tracking import figures
from rle import registry
from rle.errors import UserError
from rle.index import IndexOptions, run_index
from rle.index.result import RunCell
from rle.pages import (
    charts_index,
    charts_report,
    hooks,
    index_page,
    text,
    write_index_page,
    write_report_page,
)
from rle.pages.report_page import margin, reward_interval
from rle.pages.verdict import verdict
from rle.report import COMMON_ENDED, Row, Threshold

pytestmark = pytest.mark.xdist_group("pages")
NAMES = (
    "index", "several", "f04-dance", "f04-run", "f04-sprint", "f04-fight", "f04-fall-and-get-up",
    "recorded", *(f"recorded-{path.stem}" for path in RECORDED),
)  # fmt: skip


class Page(HTMLParser):
    """Tags with their attributes, and text by tag."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.path = pages()[name]
        self.source = self.path.read_text()
        self.tags: list[tuple[str, dict]] = []
        self.feed(self.source)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def all(self, tag: str) -> list[dict]:
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture(params=NAMES)
def page(request):
    return Page(request.param)


def words(name: str) -> str:
    """Text of a page without tags, spaces folded."""
    source = re.sub(r"<(style|script|svg).*?</\1>", " ", pages()[name].read_text(), flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", source))


def row_of(name: str, task: str) -> str:
    """The table row of a task."""
    source = pages()[name].read_text()
    return next(r for r in re.findall(r"<tr.*?</tr>", source, re.S) if f'data-text="{task} ' in r)


# ------------------------------------------------------------------------------- rules for every page


def test_structure(page):
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == 1
    assert all("scope" in th for th in page.all("th"))
    assert all(svg["role"] == "img" and len(svg["aria-label"]) > 20 for svg in page.all("svg"))
    assert all(image["alt"] and image["width"] and image["height"] for image in page.all("img"))
    assert all(video["width"] and video["height"] for video in page.all("video"))
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_headings_go_down_one_step_at_a_time(page):
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:]))


def test_size_is_under_a_megabyte(page):
    assert len(page.source.encode()) < 1_000_000


def test_nothing_is_loaded_from_elsewhere(page):
    for _tag, attrs in page.tags:
        for name in ("src", "href", "poster", "srcset", "action"):
            assert "//" not in (attrs.get(name) or ""), attrs
    assert "@import" not in page.source and "url(http" not in page.source
    assert not page.all("link")[1:] and page.all("link")[0]["href"] == "data:,"


def test_every_link_and_reference_resolves(page):
    ids = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
    for tag, attrs in page.tags:
        for name in ("href", "src", "poster"):
            target = attrs.get(name)
            if target is None or target.startswith("data:"):
                continue
            if target.startswith("#"):
                assert target[1:] in ids, f"{tag} points to {target}"
            else:
                assert (page.path.parent / target).is_file(), f"{tag} points to {target}"
    assert {m[1] for m in re.finditer(r"url\(#([^)]+)\)", page.source)} <= ids


def test_json_can_be_downloaded(page):
    link = next(a for a in page.all("a") if "download" in a)
    assert json.loads((page.path.parent / link["href"]).read_text())["schema"].startswith("rle-")


def test_only_variables_colour_the_figures(page):
    for figure in re.findall(r"<svg.*?</svg>", page.source, re.S):
        assert not re.search(r"#[0-9a-f]{6}\b", figure)
        assert "font-family" not in figure


def test_a_submission_cannot_write_markup(page):
    assert HOSTILE not in page.source
    assert page.source.count("<script") == 1


# -------------------------------------------------------------------------------------- Index page


def test_index_first_screen_has_score_certainty_and_trust():
    found = words("index")
    assert "95 % interval" in found and "2/51 tasks scored, n = 16 trials" in found
    assert "It does not count: practice" in found
    assert "stand-in reference" in found
    assert "47 of 51 tasks have no result and count 0; 1 infrastructure error" in found


def test_index_of_several_names_rank_differences_and_published_rows():
    found = words("several")
    assert "rank 1 of 3" in found and "It counts Hidden trials. Isolation: strict." in found
    assert "model-a − model-b" in found
    assert "published, other physics: a paper, 2026-01-01" in found and "no rank" in found


def test_not_run_is_a_dash_and_a_zero_says_why():
    missing = row_of("index", "f09/gello")
    assert "not run" in missing and "0.0" not in missing
    refused = row_of("index", "f04/sprint")
    assert "invalid submission" in refused and ">0.0<" in refused and "&amp;" in refused
    ours = row_of("index", "f04/fight")
    assert "infrastructure error" in ours and "no space left" in ours and ">0.0<" not in ours
    over = row_of("index", "f04/fall-and-get-up")
    assert "over budget" in over and "time is up" in over


def test_every_task_has_a_row_and_results_have_evidence():
    source = pages()["index"].read_text()
    assert source.count('<tr class="task') == 51
    dance = row_of("index", "f04/dance")
    assert 'href="results/f04-dance/index.html"' in dance
    assert "&#34;id&#34;: &#34;t07&#34;" in dance  # the rows stand in the page


def test_failure_table_lists_the_attempts_behind_a_number():
    source = pages()["index"].read_text()
    table = source[source.index('id="failures"') :]
    assert "f04/fight run 1" in table and "f04/sprint run 1: 0.0" in table
    assert "Endings that did not occur:" in table and "agent gave up" in table


# ------------------------------------------------------------------------------------ trial report


def test_report_shows_worst_trial_first_with_sentence_and_media():
    source = pages()["f04-dance"].read_text()
    scores = [
        float(m) for m in re.findall(r"<h3 id=\"h-t\d\d\">.*?<span>([\d.]+)</span></h3>", source)
    ]
    assert scores == sorted(scores) and len(scores) == 8
    assert "Fell at" in source and "after a push" in source
    assert 'src="t00.mp4"' in source and 'poster="t00.jpg"' in source
    # 48 x 48 pixels, shown 240 wide.
    assert 't01_seen_7.4_s.png" alt="t01: 7.4 s" width="240" height="240"' in source
    assert '<a href="media/index.html">All pictures and films of this run</a>' in source
    assert "All pictures and films" not in pages()["f04-sprint"].read_text()


def test_pictures_of_a_submission_stand_on_both_pages():
    assert 'src="picture_front_view.png" alt="front view"' in pages()["f04-dance"].read_text()
    source = pages()["index"].read_text()
    assert 'src="results/f04-dance/picture_front_view.png"' in source
    assert 'alt="reference submissions: front view"' in source


def test_report_of_a_closed_gate_says_what_it_cost():
    found = words("f04-run")
    assert "✕ deterministic (closed)" in found and "without them" in found
    assert "a closed gate" in pages()["f04-run"].read_text()


def test_reports_without_a_score_say_why():
    assert "no reward was written" in words("f04-fight")
    assert "no space left on the device" in words("f04-fight")
    refused = words("f04-sprint")
    assert "file.extra" in refused and "too few for an interval" in refused


def test_report_needs_a_report(tmp_path):
    with pytest.raises(UserError, match="holds no report.json"):
        write_report_page(tmp_path, tmp_path / "x.html")
    (tmp_path / "report.json").write_text("{}")
    with pytest.raises(UserError, match="no rle-report/1"):
        write_report_page(tmp_path, tmp_path / "x.html")


def test_page_may_lie_elsewhere_and_still_finds_the_report(tmp_path):
    out = write_out(tmp_path / "out", make_report(rows=[]))
    write_report_page(out, tmp_path / "pages" / "dance.html")
    assert 'href="../out/report.json"' in (tmp_path / "pages" / "dance.html").read_text()


def test_many_trials_stay_under_a_megabyte(tmp_path):
    many = [
        msgspec.structs.replace(row, id=f"t{i:03d}")
        for i, row in enumerate(tracking_rows(np.random.default_rng(2), n=8) * 19)
    ]
    raw = float(np.mean([row.score for row in many]))
    out = write_out(tmp_path / "out", make_report(rows=many, reward=raw, raw_total=raw))
    write_report_page(out, out / "index.html")
    source = (out / "index.html").read_text()
    assert len(source) < 1_000_000
    assert source.count('<article class="trial"') == 152
    assert source.count("<svg") == 2 + 60  # the terms of the score, wide and narrow; the worst 60


def test_last_regrade_is_told(tmp_path):
    out = write_out(tmp_path / "out", make_report(rows=[]))
    entry = {
        "path": str(out / "report.json"),
        "task": "f04/dance",
        "old": 0.5,
        "new": 0.5,
        "kind": "same",
    }
    for place in (out, tmp_path):
        (place / "regrade.json").write_text(json.dumps({"results": [entry]}))
        write_report_page(out, out / "index.html")
        assert "same, 50.0 now, 50.0 then." in (out / "index.html").read_text()
        (place / "regrade.json").unlink()
    write_report_page(out, out / "index.html")
    assert "Not regraded yet" in (out / "index.html").read_text()


def test_interval_of_a_report_holds_its_reward():
    given = make_report()
    low, high = reward_interval(given, b"seed")
    assert low < given.reward < high
    assert (
        reward_interval(make_report(rows=rows([0.4]), reward=0.4, raw_total=0.4), b"seed") is None
    )


@pytest.mark.parametrize(
    ("measured", "limit", "sense", "expected"),
    [
        (9.0, 10.0, "at_most", 0.1),
        (11.0, 10.0, "at_most", -0.1),
        (11.0, 10.0, "at_least", 0.1),
        (-3.0, -2.0, "at_most", 0.5),
        (1.0, 0.0, "at_most", None),
        (float("nan"), 1.0, "at_most", None),
    ],
)
def test_margin_is_positive_inside(measured, limit, sense, expected):
    found = margin(Threshold(name="x", measured=measured, limit=limit, unit="", sense=sense))
    assert found == (None if expected is None else pytest.approx(expected))


def test_checks_stand_nearest_miss_first():
    source = words("f04-dance")
    assert source.index("parameters 9,900,000") < source.index("median inference time 0.0004")


@pytest.mark.parametrize("family", registry.landed_families())
def test_every_family_has_pages_for_every_ending(family, tmp_path):
    task = registry.get(registry.family_tasks(family)[0])
    endings = [*COMMON_ENDED, *task.ended]
    found = [
        Row(id=f"t{i:02d}", score=0.01, ended=ended, series={"t_s": [0.1], "x": [1.0]})
        for i, ended in enumerate(endings)
    ]
    given = make_report(task.id, rows=found, reward=0.01, raw_total=0.01, extra={}, metrics={})
    out = write_out(tmp_path / "out", given)
    write_report_page(out, out / "index.html")
    source = (out / "index.html").read_text()
    assert source.count('<article class="trial"') == len(endings)
    assert task.title in source
    index = run_index(IndexOptions(results=(out,)))
    write_index_page(index, tmp_path / "index.html")
    assert f'href="out/index.html">{task.id}</a>' in (tmp_path / "index.html").read_text()


def test_what_was_looked_at_without_a_score_stands_apart(tmp_path):
    scored = write_out(tmp_path / "f09-gello", make_report("f09/gello", metrics={}, extra={}))
    looked = write_out(tmp_path / "f08-mobile-base", make_report("f08/mobile-base"))
    write_report_page(looked, looked / "index.html")
    (looked / "media").mkdir()
    (looked / "media" / "picture_panda_front.png").write_bytes(b"png")
    index = run_index(IndexOptions(results=(scored,)))
    write_index_page(index, tmp_path / "index.html", {"f08/mobile-base": looked})
    source = (tmp_path / "index.html").read_text()
    apart = source[source.index("Looked at, not scored") :]
    assert 'href="f08-mobile-base/index.html">f08/mobile-base</a>' in apart
    assert 'src="f08-mobile-base/media/picture_panda_front.png"' in apart
    write_index_page(index, tmp_path / "alone.html")
    assert "Looked at" not in (tmp_path / "alone.html").read_text()


# ------------------------------------------------------------------------------------------- words


def test_numbers():
    assert (text.x100(0.12345), text.x100(None), text.x100(0.0)) == ("12.3", "–", "0.0")
    assert text.signed(-0.0512) == "−5.1"
    assert text.number(0.0817, 1, 1000.0) == "81.7"
    assert [text.compact(v) for v in (9.9e6, 0.0004, 12.345, 1e-7)] == [
        "9,900,000", "0.0004", "12.35", "1e-07",
    ]  # fmt: skip
    assert text.plural(1, "trial") == "1 trial" and text.plural(8, "trial") == "8 trials"


def test_verdict():
    assert verdict([], "x").counts
    assert not verdict(["practice"], "x").counts
    assert "own kind" in verdict(["reduced isolation"], "x").title


def test_axis_ends_are_round_and_hold_the_data():
    assert [charts_report.round_up(v) for v in (20.0, 0.21, 1.04, 7.9, 0.1)] == [
        20.0, 0.3, 1.5, 8.0, 0.1,
    ]  # fmt: skip


def test_axis_holds_a_margin_below_zero():
    curve = hooks.Curve(series="m", label="margin", unit="", limits=((0.0, "tips over"),))
    row = Row(id="t", score=0, ended="tilt", series={"t_s": [0.0, 1.0], "m": [0.7, -0.12]})
    assert charts_report.axis_ends([row], [curve]) == {"m": (-0.15, 0.8)}


# ------------------------------------------------------------------------------------------- hooks


def test_defaults_of_a_family_without_figures():
    plain = hooks.Hooks(hooks.default_sentence, hooks.no_parts)
    row = Row(id="t00", score=0.0, ended="tilt", events=[(7.44, "fell")], series={"t_s": [0.0, 1.0], "z_m": [1.0, 2.0]})  # fmt: skip
    assert plain.sentence(row) == "ended by tilt at 7.4 s: fell"
    assert [c.series for c in hooks.curves_of(row, plain)] == ["z_m"]
    assert hooks.default_sentence(Row(id="t", score=0, ended="not_run")) == "was not run"


def test_credits_stand_in_for_the_tasks_of_a_family_of_one():
    drawing = charts_index.credits("f09", [("franka", 0.3, 2.0), ("ur5e", None, 1.0)])
    assert drawing.alt.endswith("of 100: franka 60.0, ur5e –.")
    assert ">60.0<" in drawing.wide and "not run" in drawing.wide


def test_suspicions_are_said_beside_the_score():
    cell = scored(0.9, metrics={"suspect_embedded_knowledge": 1.0, "suspect_other": 0.0})
    item = RunCell(run=1, category="solved", cell=cell)
    assert index_page._flags(item) == ["suspect_embedded_knowledge"]


def test_f04_sentence_tells_the_fall_and_the_push_before_it():
    row = falling_row(events=[(6.9, "push"), (7.4, "fall: torso 0.26 m off its reference height")])
    assert figures.sentence(row) == (
        "fell at 7.4 s: torso 0.26 m off its reference height, 0.5 s after a push"
    )
    alone = falling_row(events=[(0.6, "fall: torso tilted 0.9 off its reference")])
    assert figures.sentence(alone).endswith(", before any push")
    done = falling_row(ended="done", events=[(2.0, "push")], metrics={"mpjpe_m": 0.031})
    assert figures.sentence(done) == "stayed up for 20 s through 1 push, 3.1 cm off on average"
    died = falling_row(ended="worker_died", events=[], metrics={"survived_s": 3.0})
    assert figures.sentence(died) == "ended at 3.0 s: worker died, before any push"


@pytest.mark.parametrize("reward", [None, 0.1])
def test_f04_parts_add_up_to_the_reward(reward):
    found = tracking_rows(np.random.default_rng(1))
    clipped = Row(id="t08", score=0.0, ended="anchor_z", metrics={"T": 0.01, "U": 0.05, "J": 0.5, "F": 1.0})  # fmt: skip
    found.append(clipped)
    raw = float(np.mean([row.score for row in found]))
    given = make_report(rows=found, raw_total=raw, reward=raw if reward is None else reward)
    terms = figures.parts(given)
    assert sum(term.value for term in terms) == pytest.approx(given.reward)
    assert "trials below 0 count 0" in [term.label for term in terms]
    assert ("a closed gate" in [term.label for term in terms]) is (reward is not None)


def test_pages_import_no_drawing_library_until_one_is_drawn():
    code = "import sys, rle.pages; print('matplotlib' in sys.modules, 'jinja2' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=".")
    assert run.stdout.split() == ["False", "False"], run.stderr
