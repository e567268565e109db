"""Keeps a real verification as a small fixture of the page tests.

    python tests/rle/record_report.py results/f09-gello

writes `tests/rle/reports/f09-gello.json`: the report as it was, all rows, with the curves of three of them (worst,
middle, best) thinned, so that a family's figures are drawn from what its verifier really wrote.
"""

import math
import sys
from pathlib import Path

import msgspec

from rle.report import Report, Row, read_report

FOLDER = Path(__file__).parent / "reports"
POINTS = 48
DIGITS = 4


def thinned(row: Row) -> Row:
    """The row with at most `POINTS` samples a curve; curves of one length stay aligned."""

    def pick(values: list[float]) -> list[float]:
        n = min(len(values), POINTS)
        at = [round(i * (len(values) - 1) / max(n - 1, 1)) for i in range(n)]
        return [rounded(values[i]) for i in at]

    return msgspec.structs.replace(row, series={k: pick(v) for k, v in row.series.items()})


def rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else value


def small(report: Report) -> Report:
    """The report with curves in three rows, and without the paths of the machine that made it."""
    drawn = [i for i, row in enumerate(report.rows) if row.series]
    order = sorted(drawn, key=lambda i: report.rows[i].score)
    keep = {order[i] for i in (0, len(order) // 2, -1)} if order else set()
    rows = [
        thinned(row) if i in keep else msgspec.structs.replace(row, series={})
        for i, row in enumerate(report.rows)
    ]
    slug = report.task.replace("/", "-")
    command = f"rle verify {report.task} --submission {slug} --out results/{slug}"
    return msgspec.structs.replace(report, rows=rows, command=command, machine=None)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for out in map(Path, sys.argv[1:]):
        report = small(read_report((out / "report.json").read_bytes()))
        path = FOLDER / f"{report.task.replace('/', '-')}.json"
        path.write_bytes(msgspec.json.encode(report) + b"\n")
        print(f"{path} ({path.stat().st_size / 1024:.0f} KiB)")


if __name__ == "__main__":
    main()
