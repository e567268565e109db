"""Draws the learning curve of a PPO run from its log.jsonl, and says in numbers whether it rises.

python -m train_baselines.f04_curve runs/dance/log.jsonl --out docs/design/f04_ppo_dance.svg
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import matplotlib
import numpy as np
import tyro
from matplotlib.figure import Figure

SERIES = (("mean_reward", "reward per step"), ("episode_len", "episode length, steps"))
"""Key of the log and what it is called."""
POINTS = 150
"""Points of the drawn means; together they hold every iteration."""


@dataclass(frozen=True)
class Arguments:
    """Draw reward and episode length of a run over its environment steps."""

    log: Annotated[Path, tyro.conf.Positional]
    """log.jsonl of the run."""
    out: Path
    """SVG file."""


def means(values: np.ndarray, parts: int) -> np.ndarray:
    """Means of `parts` consecutive pieces that are as equal as can be, shape (parts,)."""
    return np.array([piece.mean() for piece in np.array_split(values, parts)])


def trend(values: np.ndarray) -> tuple[float, float, float]:
    """Mean of the first tenth, of the last tenth, and their difference in standard errors.

    z = (last - first) / sqrt(var_first / n_first + var_last / n_last), iterations taken as independent.
    """
    first, *_, last = np.array_split(np.asarray(values, float), 10)
    error = np.sqrt(first.var(ddof=1) / len(first) + last.var(ddof=1) / len(last))
    return float(first.mean()), float(last.mean()), float((last.mean() - first.mean()) / error)


def draw(rows: list[dict[str, float]]) -> Figure:
    """One panel per series of `SERIES`."""
    parts = min(POINTS, len(rows))
    steps = means(np.array([row["env_steps"] for row in rows]), parts) / 1e6
    figure = Figure(figsize=(8.0, 2.8), layout="constrained")
    for axes, (key, name) in zip(figure.subplots(1, len(SERIES)), SERIES, strict=True):
        axes.plot(
            steps, means(np.array([row[key] for row in rows]), parts), color="#0072b2", lw=1.2
        )
        axes.set(xlabel="control steps, millions", ylabel=name, ylim=(0.0, None), xlim=(0.0, None))
        axes.grid(color="#dddddd", lw=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def main(arguments: Arguments) -> None:
    """Command line entry point."""
    rows = [json.loads(line) for line in arguments.log.read_text().splitlines()]
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "rle"}):
        draw(rows).savefig(arguments.out, format="svg", metadata={"Date": None, "Creator": None})
    print(f"{len(rows)} iterations, {rows[-1]['env_steps']} steps, {rows[-1]['wall_s']:.0f} s")
    for key, name in SERIES:
        first, last, z = trend(np.array([row[key] for row in rows]))
        print(f"{name}: first tenth {first:.4f}, last tenth {last:.4f}, z {z:.1f}")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
