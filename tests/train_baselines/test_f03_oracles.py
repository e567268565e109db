"""The reference solvers of f03 reach their bars through the metered service. Minutes each: `make test-full`."""

import pytest

from families.f03_tabletop import instances
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
    """A sealed session of a solver; returns the scores of its trials."""
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
def test_oracle_reaches_its_bar(task, tmp_path):
    report = play(task, tmp_path, seeds.PRACTICE_SALT, SOLVERS[task])
    scores = []
    for trial in report.trials:
        key = seeds.trial_key("f03", task[4:], "hidden", trial.trial, seeds.PRACTICE_SALT)
        instance = instances.draw(task, seeds.stream(key, instances.STREAM))
        scores.append(score_evidence(task, instance, trial.evidence, trial.answer)[0])
    assert sum(scores) / len(scores) >= BARS[task]


@pytest.mark.parametrize("turns", [("+z-90",), f03_pocket_cube.PRACTICE_TURNS])
def test_the_pocket_cube_is_solved_from_a_named_scramble(turns, tmp_path):
    adapter = f03_pocket_cube.GivenCube(turns)
    report = play("f03/pocket-cube", tmp_path, b"x", f03_pocket_cube.solve, adapter)
    value, _ = score_evidence("f03/pocket-cube", adapter.given, report.trials[0].evidence)
    assert value >= BARS["f03/pocket-cube"]
