"""Time of `rle index` on 11 systems x 51 tasks x 3 runs of 8 trials. Limit: 2 s of one core.

python benchmarks/index.py
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rle import registry
from rle.index import IndexInput, IndexOptions, run_index
from rle.index.model import Cell, Run, System
from rle.report import Row

SYSTEMS, RUNS, TRIALS = 11, 3, 8
LIMIT_S = 2.0
"""Source: the verifier's page, engines and speed."""


def synthetic(rng: np.random.Generator) -> IndexInput:
    """Random scores with the size of a full comparison; only their number matters here."""

    def cell() -> Cell:
        scores = rng.uniform(size=TRIALS)
        rows = [
            Row(id=f"t{i:02d}", score=float(s), ended="done", metrics={"a": 1.0, "b": 2.0})
            for i, s in enumerate(scores)
        ]
        return Cell(outcome="scored", reward=float(scores.mean()), rows=rows, cost_usd=1.0)

    return IndexInput(
        systems=[
            System(
                name=f"system {s:02d}",
                runs=[
                    Run(run=r + 1, tasks={t: cell() for t in registry.TASK_IDS})
                    for r in range(RUNS)
                ],
            )
            for s in range(SYSTEMS)
        ]
    )


def main() -> None:
    data = msgspec.json.encode(synthetic(np.random.default_rng(0)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "input.json"
        path.write_bytes(data)
        spent, walls = [], []
        for _ in range(3):
            wall, cpu = time.perf_counter(), time.process_time()
            run_index(IndexOptions(results=(path,)))
            spent.append(time.process_time() - cpu)
            walls.append(time.perf_counter() - wall)
    took = sorted(spent)[1]
    verdict = "ok" if took <= LIMIT_S else "over"
    what = f"rle index, {SYSTEMS} x {len(registry.TASK_IDS)} x {RUNS}, B = 5000"
    print(f"{'':<36}{'CPU':>8}{'wall':>9}{'limit':>8}  {'':<6}load")
    print(
        f"{what:<36}{took:>6.2f} s{sorted(walls)[1]:>7.2f} s{LIMIT_S:>6.1f} s  {verdict:<6}"
        f"{os.getloadavg()[0]:.1f}"
    )
    if took > LIMIT_S:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
