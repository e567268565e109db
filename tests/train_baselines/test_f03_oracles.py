"""The reference solvers of f03 reach their bars through the metered service. Minutes each: `make test-full`."""

import json
import subprocess
import sys

import pytest

from families.f03_tabletop.spec import SESSIONS, TASKS
from families.f03_tabletop.verify import score_evidence
from rle import seeds
from rle.service import embedded
from rle.service.record import Expect, verify
from train_baselines.oracles import (
    f03_balance,
    f03_cantilever,
    f03_hidden_com,
    f03_pocket_cube,
    f03_tower,
)
from train_baselines.oracles.f03_driver import validation_profile

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("f03")]
SOLVERS = {
    "f03/tower": f03_tower.solve,
    "f03/cantilever": f03_cantilever.solve,
    "f03/balance": f03_balance.solve,
    "f03/hidden-com": f03_hidden_com.solve,
}
BARS = {task.id: task.bar for task in TASKS}


def play(task, folder, salt, solve, adapter=None):
    """A sealed session of a solver; returns the record's report."""
    profile = validation_profile(task)
    spec = SESSIONS[task]
    with embedded.open(spec, folder=folder, profile=profile, salt=salt, adapter=adapter) as sim:
        solve(sim)
        sim.session.seal("test")
        report = verify(folder / "ledger.jsonl", None, Expect(spec=spec))
    assert report.ok, report.reason
    assert report.steps_used < SESSIONS[task].phases[0].steps / 2
    return report


@pytest.mark.parametrize("task", SOLVERS)
def test_oracle_reaches_its_bar_through_the_verifier(task, tmp_path):
    play(task, tmp_path / "hand", seeds.PRACTICE_SALT, SOLVERS[task])
    argv = [sys.executable, "-m", "verifier", "--task", task, "--artifacts", str(tmp_path / "hand")]
    subprocess.run([*argv, "--out", str(tmp_path / "out")], check=True)
    reward = json.loads((tmp_path / "out" / "reward.json").read_text())
    assert reward["ledger_ok"] == 1.0 and reward["reward"] >= BARS[task]


@pytest.mark.parametrize("turns", [("+z-90",), f03_pocket_cube.PRACTICE_TURNS])
def test_the_pocket_cube_is_solved_from_a_named_scramble(turns, tmp_path):
    adapter = f03_pocket_cube.GivenCube(turns)
    report = play("f03/pocket-cube", tmp_path, b"x", f03_pocket_cube.solve, adapter)
    value, _ = score_evidence("f03/pocket-cube", adapter.given, report.trials[0].evidence)
    assert value >= BARS["f03/pocket-cube"]
