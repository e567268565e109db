"""The jinja2 environment of the pages, and the one way they are written."""

import functools
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from rle.pages import text

_TEMPLATES = Path(__file__).parent / "templates"


@functools.cache
def environment() -> jinja2.Environment:
    """Autoescaping, strict about unknown names; filters print numbers as `rle.pages.text` does."""
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {
        "x100": text.x100,
        "signed": text.signed,
        "interval": text.interval,
        "number": text.number,
        "compact": text.compact,
        "millions": text.millions,
        "plural": text.plural,
        "percent_style": text.percent_style,
        "plural_family": lambda n: "1 family" if n == 1 else f"{n} families",
        "figure_of_100": lambda value: text.DASH if value is None else f"{value:.1f}",
        "ran": text.ran,
    }
    return env


def write_page(path: Path, template: str, **context: Any) -> None:
    """Renders a template into a file; folders are made."""
    shared = {
        "sign": text.OUTCOME_SIGN,
        "words": text.OUTCOME_TEXT,
        "mark_text": text.MARK_TEXT,
        "style": Markup((_TEMPLATES / "style.css").read_text()),
        "script": Markup((_TEMPLATES / "script.js").read_text()),
    }
    html = environment().get_template(template).render(**shared, **context)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html, encoding="utf-8")
