"""Whole batteries of the stored designs on the published draws: bars, floors and what each one loses."""

import functools
from pathlib import Path

import pytest

from families.f08_mobile_base import dev, shelf, spec, verify
from rle.paths import assets_dir
from rle.report import FamilyResult
from tests.families.f08_mobile_base.designs import COMPACT, ORACLE, STARTER
from tests.families.f08_mobile_base.fakes import FakeContext
from train_baselines.oracles.f08_frames import to_xml

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("f08-reference")]
STARTER_CONTROLLER = assets_dir() / "f08/starter_controller.py"


@functools.cache
def stored(name: str) -> FamilyResult:
    return dev.evaluate_design(assets_dir() / "oracles/f08" / name)


@pytest.fixture
def short_shelf(monkeypatch):
    """Two seconds of each shelf trial: a controller that holds still does nothing else in the rest."""
    monkeypatch.setattr(shelf, "TICKS", 100)


def written(folder: Path, frame) -> FamilyResult:
    (folder / "robot.xml").write_text(to_xml(frame))
    (folder / "controller.py").write_text(STARTER_CONTROLLER.read_text())
    return dev.evaluate_design(folder)


def test_oracle_reaches_its_bar_and_holds_every_target():
    result = stored("oracle")
    assert result.score >= spec.BAR
    assert result.metrics["stage_integration"] >= 0.14
    failed = [r.group for r in result.rows if "shelf" in r.group and r.score < 1.0]
    assert failed == []
    assert result.metrics["stage_static"] > 0.13 and all(result.gates.values())


def test_other_salts_move_the_oracle_little():
    """Only the drawn tests depend on the salt; the shelf and the chassis are taken as perfect here."""
    files = {"robot.xml": to_xml(ORACLE).encode(), "controller.py": b""}
    rewards = []
    for salt in (b"a", b"b", b"c"):
        context = FakeContext(
            files, run=lambda t: t.group.split("/")[1] in verify.DRAWN_TESTS, salt=32 * salt
        )
        rewards.append(verify.verify(context).score)
    assert max(rewards) - min(rewards) < 0.05, rewards


def test_light_wins_design_and_loses_stability():
    light, oracle = stored("light"), stored("oracle")
    assert 0.65 <= light.score <= 0.92
    assert light.metrics["stage_design"] > oracle.metrics["stage_design"]
    assert light.metrics["stage_dynamic"] < oracle.metrics["stage_dynamic"]
    missed = {
        r.metrics["target_index"] for r in light.rows
        if r.group.startswith("xarm7/shelf") and r.score < 1.0
    }  # fmt: skip
    assert {10.0, 11.0} <= missed


def test_another_sound_design_is_accepted():
    assert stored("braced").score >= 0.60


def test_starter_is_at_the_floor(tmp_path, short_shelf):
    result = written(tmp_path, STARTER)
    assert result.score <= spec.FLOOR
    assert result.metrics["stage_static"] == result.metrics["stage_integration"] == 0.0


def test_compact_earns_design_and_tips(tmp_path, short_shelf):
    result = written(tmp_path, COMPACT)
    assert result.score <= 0.65
    for stage in ("static", "integration"):
        assert result.metrics[f"stage_{stage}"] == 0.0
    for test in ("testB", "testC", "testE"):
        assert result.metrics[f"cp_S5_{test}"] == 0.0
