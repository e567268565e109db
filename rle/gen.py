"""`rle gen`: writes everything that is generated from specs and types; `--check` only compares.

Generated: the card block of each landed family's README, the task table of the top README, and the
JSON schemas under `docs/schema/`.
"""

import json
from pathlib import Path

from rle import cards, registry
from rle.errors import UserError
from rle.index import input_schema, result_schema
from rle.report import report_schema
from rle.service.deploy import wheel


def root() -> Path:
    """The checkout. Raises UserError where the package is installed without one."""
    folder = Path(__file__).resolve().parent.parent
    if not (folder / "pyproject.toml").is_file():
        raise UserError(
            "`rle gen` writes into a checkout; this is an installed package", code="gen"
        )
    return folder


def outputs() -> dict[Path, str]:
    """Every generated file with the text it must have, hand-written parts as they stand."""
    base = root()
    found: dict[Path, str] = {}
    readme = base / "README.md"
    found[readme] = cards.fill_blocks(_read(readme), {"tasks": cards.all_tasks_table}, readme.name)
    for family in registry.landed_families():
        path = base / registry.PACKAGES[family].replace(".", "/") / "README.md"
        found[path] = cards.fill_blocks(
            _read(path),
            {"card": lambda f=family: cards.family_card(f)},
            str(path.relative_to(base)),
        )
    for name, schema in schemas().items():
        found[base / "docs" / "schema" / name] = json.dumps(schema, indent=2, sort_keys=True) + "\n"
    return found


def schemas() -> dict[str, dict]:
    """Exported JSON schemas by file name."""
    return {
        "report.schema.json": report_schema(),
        "index-input.schema.json": input_schema(),
        "index-result.schema.json": result_schema(),
    }


def client(out: Path, family: str | None = None) -> Path:
    """Builds the wheel of `rle_client` and returns its path.

    Args:
        out: Folder.
        family: With the modules that this family adds.

    Raises:
        UserError: No such family here, or it adds none.
    """
    if family is None:
        return wheel.build(out)
    if family not in registry.landed_families() or not registry.has_room(family, "service"):
        raise UserError(f"family {family!r} adds nothing to rle_client; leave --family out")
    return registry.room(family, "service.package").build(out)


def check() -> list[Path]:
    """Generated files that differ from what the code would write, sorted."""
    return sorted(p for p, text in outputs().items() if not p.is_file() or p.read_text() != text)


def write() -> list[Path]:
    """Writes every generated file that differs; returns those, sorted."""
    changed = check()
    texts = outputs()
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts[path])
    return changed


def _read(path: Path) -> str:
    if not path.is_file():
        raise UserError(f"{path} is missing; write it with a generated block and run `rle gen`")
    return path.read_text()
