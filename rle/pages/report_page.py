"""The trial report: what one verification measured, and what protected it."""

import hashlib
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from rle import registry
from rle.errors import NotAvailable, UserError
from rle.index.check import reference_kind
from rle.index.confidence import Draw, can_resample, cell_replicates, family_resampler, generator
from rle.index.model import cell_from_report
from rle.index.result import Estimate
from rle.pages import charts_report, media, text
from rle.pages.hooks import Hooks, curves_of, hooks_of
from rle.pages.render import write_page
from rle.pages.svg import COLOR, WORKFLOW_COLOR
from rle.pages.verdict import verdict
from rle.report import Report, Row, Threshold, read_report
from rle.spec import TaskSpec
from rle.stats import percentile_interval

_REPLICATES = 5000
_MAX_DRAWN = 60
"""Trials with a drawing, worst first; the others are told in words, so that the page stays small."""
_QUANTITY = re.compile(r"(?: for| at)? [-+]?\d[\d.]*(?: (?:s|m|mm|N|deg))?\b")
_MAX_KINDS = 4
"""Kinds of events named in the legend of the small multiples."""


def write(folder: Path, path: Path) -> None:
    """Writes the page of the `report.json` in a folder.

    Raises:
        UserError: No readable report there.
    """
    source = folder / "report.json"
    try:
        data = source.read_bytes()
        report = read_report(data)
    except FileNotFoundError:
        raise UserError(
            f"{folder} holds no report.json; run `rle verify` with --out {folder}"
        ) from None
    except msgspec.MsgspecError as error:
        raise UserError(
            f"{source} is no rle-report/1 ({error}); verify the submission again"
        ) from None
    page = context(report, hashlib.sha256(data).digest(), folder, path.parent)
    write_page(path, "report.html.j2", **page, json_href=media.href(source, path.parent))


def context(report: Report, seed: bytes, folder: Path, page_folder: Path) -> dict[str, Any]:
    """Everything that the template shows.

    Args:
        report: The record.
        seed: Digest of the record; the interval is drawn from it.
        folder: Where the report and its videos lie.
        page_folder: Where the page will lie; links are relative to it.
    """
    family = report.task.split("/")[0]
    hooks = hooks_of(family)
    task = _spec(report.task)
    hue = WORKFLOW_COLOR[registry.workflow_of(family)]
    interval = reward_interval(report, seed)
    reward = report.reward or 0.0
    terms = hooks.parts(report) if report.reward is not None and report.rows else []
    found = marks(report)
    return {
        "title": f"{report.task}: {text.x100(report.reward)}",
        "r": report,
        "family_title": f"{family} {registry.FAMILY_TITLES[family]}",
        "task_title": task.title if task else report.task,
        "instruction": task.instruction if task else "",
        "hue": hue,
        "score": Estimate(value=reward, trials=interval or (reward, reward)),
        "has_interval": interval is not None,
        "goals": _goals(task),
        "pass_mark": task.pass_mark if task else None,
        "passed": None if task is None or report.reward is None else reward >= task.pass_mark,
        "endings": [
            (hooks.ended.get(ended, ended.replace("_", " ")), n)
            for ended, n in Counter(row.ended for row in report.rows).most_common()
        ],
        "verdict": verdict(found, _trust_text(report)),
        "marks": found,
        "parts": charts_report.parts(terms, reward, COLOR[hue]) if terms else None,
        "trials": _trials(report, hooks, COLOR[hue], folder, page_folder),
        "legend": _legend(report.rows, hooks),
        "caption": f"The trial as the verifier saw it{hooks.video_note}.",
        "pictures": media.pictures(folder, page_folder),
        "gallery": media.gallery(folder, page_folder),
        "checks": _checks(report.thresholds),
        "native": sorted(report.metrics.items()),
        "facts": _facts(report),
        "command": report.command
        or f"rle verify {report.task} --submission DIR --out {folder} --html",
        "regrade": _regrade(folder),
    }


def _spec(task: str) -> TaskSpec | None:
    try:
        return registry.get(task)
    except NotAvailable:
        return None


def reward_interval(report: Report, seed: bytes) -> tuple[float, float] | None:
    """95 % bootstrap interval of the reward over its trials; None where there is nothing to resample."""
    cell = cell_from_report(report, "")
    resampler = family_resampler(report.task.split("/")[0])
    if not can_resample(cell, resampler):
        return None
    draw = Draw(generator(seed, report.task), len(cell.rows), _REPLICATES)
    low, high = percentile_interval(cell_replicates(cell, draw, resampler))
    return low, high


def marks(report: Report) -> list[str]:
    """Badges of one verification."""
    found = {
        "practice": report.practice,
        "reduced isolation": report.isolation is not None and report.isolation.mode == "reduced",
        "stand-in reference": report.reference is not None
        and reference_kind(report.reference) == "stand-in",
        "lite": report.options.get("tier") == "lite",
        "oracle": "oracle" in report.flags,
        "validation": report.validation,
        "diagnostic": not report.scored,
    }
    return [name for name, on in found.items() if on]


def _trust_text(report: Report) -> str:
    mode = report.isolation.mode if report.isolation else "unknown"
    salt = f"; salt {report.salt_id}" if report.salt_id else ""
    return f"Scored from the verifier's own measurements. Isolation: {mode}{salt}."


def _goals(task: TaskSpec | None) -> list[dict[str, Any]]:
    """The pass mark and the oracle's bar on the score's scale."""
    if task is None:
        return []
    return [{"at": 100 * task.pass_mark, "label": f"pass mark {text.x100(task.pass_mark, 0)}"}]


# ----------------------------------------------------------------------------------------- trials


def _trials(
    report: Report, hooks: Hooks, color: str, folder: Path, page_folder: Path
) -> list[dict[str, Any]]:
    """One entry per trial, worst first, each with its small multiple, media and row."""
    rows = sorted(report.rows, key=lambda row: (row.score, row.id))
    drawn = [curves_of(row, hooks) for row in rows]
    shown = list(dict.fromkeys(curve for curves in drawn for curve in curves))
    ends = charts_report.axis_ends(rows, shown)
    ends_s = [row.series["t_s"][-1] for row in rows if row.series.get("t_s")]
    span_s = charts_report.round_up(max(ends_s)) if ends_s else 1.0
    found = []
    for place, (row, curves) in enumerate(zip(rows, drawn)):
        sentence = hooks.sentence(row)
        alt = f"Trial {row.id}, score {text.x100(row.score)}: {sentence}."
        drawing = None
        if curves and place < _MAX_DRAWN:
            drawing = charts_report.trial(row, curves, span_s, ends, color, alt)
        video, poster = media.film(row, report.rows.index(row), folder, page_folder)
        found.append(
            {
                "row": row,
                "sentence": sentence[:1].upper() + sentence[1:],
                "drawing": drawing,
                "evidence": _evidence(row),
                "video": video,
                "poster": poster,
                "seen": media.seen(row, folder, page_folder),
            }
        )
    return found


def _evidence(row: Row) -> str:
    """The row without its curves, which are drawn above and stand in the file."""
    plain = msgspec.to_builtins(msgspec.structs.replace(row, series={}))
    plain["series"] = f"{len(row.series)} curves, see report.json"
    return json.dumps(plain, indent=1)


def _kind(event: str) -> str:
    """What sort of event it is: its words before a colon, without what was counted or measured."""
    return _QUANTITY.sub("", event.split(":")[0])


def _legend(rows: list[Row], hooks: Hooks) -> str:
    """What the marks in the small multiples mean."""
    curves = max((curves_of(row, hooks) for row in rows), key=len, default=[])
    if not curves:
        return ""
    words = list(
        dict.fromkeys(f"Dashed line: {meaning}." for c in curves for _, meaning in c.limits)
    )
    words += list(dict.fromkeys(f"Shaded: {c.shade_label}." for c in curves if c.shade))
    if any(row.events for row in rows):
        whats = dict.fromkeys(_kind(what) for row in rows for _, what in row.events)
        words.append(f"Dotted verticals: {', '.join(list(whats)[:_MAX_KINDS])}.")
    if any(row.ended != "done" for row in rows):
        words.append("Cross and grey: the trial ended there.")
    return " ".join(words)


# ------------------------------------------------------------------------------------------ trust


def _checks(thresholds: list[Threshold]) -> list[dict[str, Any]]:
    """Checks by margin, near misses and failures first."""
    found = [{"t": t, "margin": margin(t)} for t in thresholds]
    return sorted(
        found, key=lambda c: (c["t"].passed, math.inf if c["margin"] is None else c["margin"])
    )


def margin(threshold: Threshold) -> float | None:
    """Signed distance to the limit as a share of it: positive is inside. None for a limit of 0."""
    if threshold.limit == 0.0 or not math.isfinite(threshold.measured):
        return None
    distance = (threshold.limit - threshold.measured) / abs(threshold.limit)
    return distance if threshold.sense == "at_most" else -distance


def _facts(report: Report) -> list[tuple[str, str]]:
    """Rows of the trust section; what does not apply is left out."""
    facts: list[tuple[str, str]] = []
    if (iso := report.isolation) is not None:
        missing = f"; missing: {', '.join(iso.missing)}" if iso.missing else ""
        facts.append(("Isolation", f"{iso.mode}: {', '.join(iso.layers) or 'no layer'}{missing}"))
    if report.salt_id:
        facts.append(
            ("Salt", f"{report.salt_id}{' (public practice salt)' if report.practice else ''}")
        )
    if report.submission:
        facts.append(("Submission digest", report.submission.digest))
    if (ledger := report.ledger) is not None:
        facts.append(
            ("Ledger", f"trust {ledger.trust}, {ledger.records} records, replay {ledger.replay}")
        )
    if report.reference:
        facts.append(("Reference data", report.reference))
    options = ", ".join(f"{name} {value}" for name, value in sorted(report.options.items()))
    if options:
        facts.append(("Options", options))
    charged = sum(row.policy_s for row in report.rows)
    facts.append(
        ("Wall time", f"{report.wall_s:.1f} s, of it {charged:.1f} s charged to the submission")
    )
    if (machine := report.machine) is not None:
        speeds = [s for s in (machine.speed_before, machine.speed_after) if s is not None]
        speed = (
            f"; speed {' and '.join(f'{s:.2f}' for s in speeds)} of the reference" if speeds else ""
        )
        gl = f", {machine.gl}" if machine.gl else ""
        facts.append(
            ("Machine", f"{machine.cpu}, {machine.cores} cores, Linux {machine.kernel}{gl}{speed}")
        )
    versions = ", ".join(f"{name} {value}" for name, value in report.versions.items() if value)
    if versions:
        facts.append(("Versions", versions))
    return facts


class _Regraded(msgspec.Struct):
    """The fields of a `regrade.json` entry that the page tells."""

    path: str
    old: float | None
    new: float | None = None
    kind: str = ""
    note: str = ""


class _RegradeRecord(msgspec.Struct):
    results: list[_Regraded] = []


def _regrade(folder: Path) -> str:
    """What `rle regrade` last said of this folder's report; it writes beside it or one folder above."""
    report = (folder / "report.json").resolve()
    for base in (folder, folder.parent):
        if not (base / "regrade.json").is_file():
            continue
        record = msgspec.json.decode((base / "regrade.json").read_bytes(), type=_RegradeRecord)
        for found in record.results:
            if Path(found.path).resolve() == report:
                note = f" ({found.note})" if found.note else ""
                scores = f"{text.x100(found.new)} now, {text.x100(found.old)} then"
                return f"{found.kind.replace('_', ' ')}, {scores}{note}."
    return ""
