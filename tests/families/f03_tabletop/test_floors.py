"""What nothing and chance are worth: bounds from the draws, and short random attempts in physics."""

import numpy as np
import pytest

from families.f03_tabletop import instances, metrics
from families.f03_tabletop import spec as s
from families.f03_tabletop.task import make
from families.f03_tabletop.verify import score_evidence
from rle import seeds
from rle.service.adapter import TrialPlan

pytestmark = pytest.mark.xdist_group("f03")
FLOORS = {task.id: task.floor for task in s.TASKS}


def plan(task: str, salt: bytes) -> TrialPlan:
    key = seeds.trial_key("f03", task[4:], "hidden", 0, salt)
    return TrialPlan(phase="attempt", kind="attempt", trial=0, key=key)


def test_the_rod_alone_is_the_floor_of_every_tower_that_can_be_drawn():
    # h / H with the rod at its largest and everything else at its smallest scale.
    low, high = s.SCALE_RANGE
    scales = tuple(high if p.name == "rod" else low for p in s.PIECES)
    rod = next(p for p in s.PIECES if p.name == "rod")
    worst = metrics.tower(high * rod.column_m, metrics.tower_optimum_m(scales))
    assert 0.25 < worst <= FLOORS["f03/tower"]


def test_guessing_pays_its_share():
    # One cube of nine on the mat without a weighing, one letter of four for a box: means over all truths.
    balance = np.mean([metrics.balance(frozenset({0}), heavy, 0) for heavy in range(s.CUBES)])
    boxes = np.mean([metrics.hidden_com([q == "A"] * s.BOXES) for q in s.QUADRANTS])
    assert balance == pytest.approx(1 / 9) and boxes == pytest.approx(1 / 4)


@pytest.mark.slow
@pytest.mark.parametrize("salt", [b"floor one", b"floor two", b"floor three"])
@pytest.mark.parametrize("task", [t for t in s.SESSIONS if t != "f03/hidden-com"])
def test_nothing_and_random_actions_stay_at_the_floor(task, salt):
    adapter = make(task)
    for amplitude in (0.0, 1.0):
        chosen = plan(task, salt)
        adapter.open_trial(chosen)
        instance = instances.draw(task, chosen.rng(instances.STREAM))
        rng = np.random.default_rng(1)
        for _ in range(30):
            adapter.step(amplitude * rng.uniform(-1.0, 1.0, adapter.action_dim))
        score, _ = score_evidence(task, instance, dict(adapter.finish()))
        assert score <= FLOORS[task]
    adapter.close()
