"""Pages in headless Chromium: both widths, both schemes, silence, contrast, and life without JavaScript."""

import time

import pytest
from chromium import BINARY, Chromium
from pages_cases import RECORDED, folder, pages

pytestmark = [
    pytest.mark.skipif(
        BINARY is None, reason="chromium is not installed: apt-get install chromium"
    ),
    pytest.mark.xdist_group("pages"),
]
NAMES = ("index", "several", "f04-dance", "f04-sprint", "f04-fight")
KEPT = ("recorded", *(f"recorded-{path.stem}" for path in RECORDED))
WIDE, NARROW = 1440, 390
SCREEN_PX = 900

LOW_CONTRAST = """(() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const rgba = parse(getComputedStyle(e).backgroundColor);
      if (rgba.length === 3 || rgba[3] > 0.99) return rgba;
    }
    return [255, 255, 255];
  };
  const bad = [];
  let n = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, words = walker.currentNode.textContent.trim();
    if (!words || !element.getClientRects().length || element.closest("script, style, select")) continue;
    const style = getComputedStyle(element);
    const inside = element.closest("svg") ? style.fill : style.color;
    const [a, b] = [light(parse(inside)), light(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    n += 1;
    if (ratio < 4.5) bad.push(`${ratio.toFixed(2)}: ${words.slice(0, 40)} (${inside})`);
  }
  return [n, [...new Set(bad)]];
})()"""

OUTSIDE = """[...document.querySelectorAll("main *")].filter((e) => {
  const r = e.getBoundingClientRect();
  return r.width > 0 && r.right > innerWidth + 1 && !e.closest(".box, pre, .strip, .skip");
}).map((e) => e.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def browser():
    chromium = Chromium()
    yield chromium
    chromium.close()


@pytest.mark.parametrize(
    ("name", "width", "dark"),
    [(name, width, dark) for name in NAMES for width in (WIDE, NARROW) for dark in (False, True)]
    + [(name, width, dark) for name in KEPT for width, dark in ((WIDE, False), (NARROW, True))],
)
def test_page_is_silent_fits_and_can_be_read(browser, name, width, dark):
    browser.open(pages()[name], width, dark=dark)
    assert browser.problems == []
    root = folder().resolve().as_uri()
    assert [u for u in browser.requests if not u.startswith((root, "data:"))] == []
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask(OUTSIDE) == []
    n, bad = browser.ask(LOW_CONTRAST)
    assert n > 30
    assert bad == []


def test_the_checks_see_what_they_look_for(browser):
    browser.open(pages()["index"], WIDE)
    browser.ask("document.documentElement.style.setProperty('--muted', '#aab')")
    browser.ask("document.querySelector('h1').style.width = '3000px'")
    browser.ask("console.warn('noise')")
    _, bad = browser.ask(LOW_CONTRAST)
    assert any("Coverage" in words for words in bad)  # HTML
    assert any(": 75 (" in words for words in bad)  # a figure's axis
    assert len(browser.ask(OUTSIDE)) == 1
    assert browser.problems


def test_dark_is_dark_and_light_is_light(browser):
    background = "getComputedStyle(document.body).backgroundColor"
    browser.open(pages()["index"], WIDE)
    assert browser.ask(background) == "rgb(255, 255, 255)"
    browser.open(pages()["index"], WIDE, dark=True)
    assert browser.ask(background) == "rgb(17, 20, 24)"


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_images_keep_their_shape_and_their_place(browser, width):
    browser.open(pages()["f04-dance"], width)
    shapes = """[...document.images].map((i) =>
      [i.width / i.height, i.getAttribute("width") / i.getAttribute("height"), i.naturalWidth / i.naturalHeight])"""
    browser.ask("[...document.images].forEach((i) => { i.loading = 'eager'; })")
    while not browser.ask("[...document.images].every((i) => i.naturalWidth)"):
        time.sleep(0.02)
    found = browser.ask(shapes)
    assert sorted({round(natural, 2) for _, _, natural in found}) == [1.0, 1.33]
    for shown, reserved, natural in found:
        assert shown == pytest.approx(natural, rel=0.02)
        assert reserved == pytest.approx(natural, rel=0.02)


@pytest.mark.parametrize("name", ["index", "f04-dance"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_first_screen_answers_how_good_how_sure_and_can_i_trust_it(browser, name, width):
    browser.open(pages()[name], width)
    for selector in (".big b", ".sure", ".trust h2", ".trust .badge"):
        bottom = browser.ask(f"document.querySelector('{selector}').getBoundingClientRect().bottom")
        assert bottom <= SCREEN_PX, f"{selector} ends at {bottom} px"


def test_one_version_of_each_figure_is_shown(browser):
    shown = (
        "[...document.querySelectorAll('figure .{}')].every((e) => e.getClientRects().length {})"
    )
    browser.open(pages()["index"], WIDE)
    assert browser.ask(shown.format("wide", "> 0")) and browser.ask(shown.format("narrow", "== 0"))
    browser.open(pages()["index"], NARROW)
    assert browser.ask(shown.format("narrow", "> 0")) and browser.ask(shown.format("wide", "== 0"))


def test_page_reads_without_javascript(browser):
    browser.open(pages()["index"], WIDE, script=False)
    browser.call(
        "Emulation.setScriptExecutionDisabled", value=False
    )  # to ask, not to run the page's
    assert browser.ask("document.querySelectorAll('tr.task').length") == 51
    assert browser.ask("[...document.querySelectorAll('tr')].every((r) => !r.hidden)")
    assert browser.ask("document.querySelector('.filters').hidden")
    assert browser.ask("document.querySelector('thead button')") is None


VISIBLE = "[...document.querySelectorAll('#tasks tbody tr')].filter((r) => !r.hidden)"


def test_table_sorts_and_goes_back(browser):
    browser.open(pages()["index"], WIDE)
    before = browser.ask(f"{VISIBLE}.map((r) => r.innerText).join()")
    click = "document.querySelectorAll('#tasks thead button')[1].click()"
    scores = f"{VISIBLE}.map((r) => r.cells[1].dataset.v)"
    browser.ask(click)
    down = browser.ask(scores)
    known = [float(v) for v in down if v != ""]
    assert len(down) == 51 and known == sorted(known, reverse=True) and len(known) == 4
    assert down[len(known) :] == [""] * (51 - len(known))  # not run stays below, whatever the order
    browser.ask(click)
    up = [float(v) for v in browser.ask(scores) if v != ""]
    assert up == sorted(up)
    browser.ask(click)
    assert browser.ask(f"{VISIBLE}.map((r) => r.innerText).join()") == before


def test_table_filters_by_workflow_outcome_and_text(browser):
    browser.open(pages()["index"], WIDE)
    form = "document.querySelector('.filters')"
    tasks = f"{VISIBLE}.filter((r) => r.classList.contains('task')).length"
    choose = (
        "(() => {{ const f = " + form + ".elements['{}']; f.value = '{}';"
        " f.dispatchEvent(new Event('input', {{bubbles: true}})); }})()"
    )
    for field, value, left in (
        ("workflow", "policy learning", 9),
        ("outcome", "scored", 2),
        ("text", "DANCE", 1),
    ):
        browser.ask(choose.format(field, value))
        assert browser.ask(tasks) == left
    assert browser.ask(f"{form}.querySelector('output').textContent") == "1 of 51 tasks"
    browser.ask(f"{form}.querySelector('button').click()")
    browser.ask("new Promise((done) => setTimeout(done, 20))")
    assert browser.ask(choose.format("text", "") + f", {tasks}") == 51


def test_sorting_and_filtering_work_together(browser):
    browser.open(pages()["index"], WIDE)
    browser.ask("document.querySelectorAll('#tasks thead button')[1].click()")
    browser.ask(
        "(() => { const f = document.querySelector('.filters').elements.outcome; f.value = 'scored';"
        " f.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    assert browser.ask(f"{VISIBLE}.length") == 2
    assert browser.ask(f"{VISIBLE}.every((r) => r.classList.contains('task'))")


def test_keyboard_reaches_tables_and_controls_in_reading_order(browser):
    browser.open(pages()["index"], WIDE)
    order = browser.ask(
        "[...document.querySelectorAll('a, button, select, input, summary, [tabindex]')]"
        ".every((e) => e.tabIndex <= 0)"
    )
    assert order  # no positive tabindex: keyboard order is the order of the page
    assert browser.ask("[...document.querySelectorAll('.box')].every((e) => e.tabIndex === 0)")
