"""What earns nothing: standing still, chance, open loop, on every clip; and tricks that must not pay."""

import numpy as np
import pytest
from onnx import helper

from families.f04_tracking import spec, verify
from families.f04_tracking.reference import load_clip
from tests.families.f04_tracking import graphs
from tests.families.f04_tracking.fakes import context_of

SLUGS = tuple(spec.CLIPS)
TRIVIAL = {
    "zero_action": lambda slug: (graphs.zero_action(), 1),
    "random_mlp": lambda slug: (graphs.random_mlp(3), 4),
    "open_loop": lambda slug: (graphs.open_loop(1), 1),
    "frozen_pose": lambda slug: (graphs.frozen_pose(load_clip(slug).joint_pos[0]), 1),
    "huge_action": lambda slug: (graphs.huge_action(), 1),
}


def reward(slug: str, model, history: int) -> float:
    return verify.verify(context_of(slug, model.SerializeToString(), history)).score


@pytest.mark.parametrize("slug", SLUGS)
@pytest.mark.parametrize("name", TRIVIAL)
def test_trivial_submissions_stay_at_the_floor(slug, name):
    assert reward(slug, *TRIVIAL[name](slug)) <= spec.FLOOR


def test_nan_before_the_fall_is_a_fall():
    """An early end by NaN is F = 1, as a fall: it cannot be cheaper."""
    model = graphs.nan_when_falling()
    result = verify.verify(context_of("dance", model.SerializeToString()))
    assert result.score <= spec.FLOOR
    assert any(row.ended == "bad_action" for row in result.rows)
    assert all(row.metrics["F"] == 1.0 for row in result.rows)


def test_replay_by_the_previous_action_stays_at_the_floor():
    """The graph has no clock; counting through its own last action does not help to stand."""
    node, bounds = graphs.newest(1, 131, 160)
    nodes = [
        node,
        helper.make_node("Add", ["part", "tick"], ["count"]),
        helper.make_node("Sin", ["count"], ["actions"]),
    ]
    model = graphs.graph(nodes, {**bounds, "tick": np.full((1, 29), 0.05, np.float32)})
    assert reward("dance", model, 1) <= spec.FLOOR


def test_a_table_for_the_smoke_draw_stays_at_the_floor():
    """Recognising one start and answering a stored action is open loop on every other trial."""
    clip = load_clip("dance")
    node, bounds = graphs.newest(1, 73, 102)
    nodes = [
        node,
        helper.make_node("Sub", ["part", "known"], ["off"]),
        helper.make_node("ReduceMax", ["off"], ["worst"], keepdims=1),
        helper.make_node("Less", ["worst", "near"], ["is_known"]),
        helper.make_node("Where", ["is_known", "stored", "other"], ["table"]),
        helper.make_node("Mul", ["off", "tiny"], ["trace"]),
        helper.make_node("Add", ["table", "trace"], ["actions"]),
    ]
    pose = ((clip.joint_pos[0] - graphs.DEFAULT) / graphs.SCALE).astype(np.float32)[None]
    constants = {
        **bounds,
        "known": (clip.joint_pos[0] - graphs.DEFAULT).astype(np.float32)[None],
        "near": np.array([[0.05]], np.float32),
        "stored": pose,
        "other": np.zeros((1, 29), np.float32),
        "tiny": np.full((1, 29), 1e-4, np.float32),
    }
    assert reward("dance", graphs.graph(nodes, constants), 1) <= spec.FLOOR
