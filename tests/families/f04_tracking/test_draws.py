"""What a trial draws: ranges, streams that do not touch each other, profiles, terrain."""

import msgspec
import numpy as np
import pytest

from families.f04_tracking import draws, spec
from families.f04_tracking.reference import load_clip
from rle import seeds

RANGES = spec.EVAL_DRAWS


@pytest.fixture(scope="module")
def clip():
    return load_clip("dance")


def streams(trial: int = 0, other: str = ""):
    """Streams of a trial; `other` names the one that comes from another trial."""

    def stream(name: str) -> np.random.Generator:
        key = seeds.trial_key("f04", "dance", "public", trial + (1000 if name == other else 0))
        return seeds.stream(key, name)

    return stream


def blocks(drawn: draws.TrialDraws) -> dict[str, list]:
    """Every drawn number, by stream."""
    return {
        "dynamics": list(msgspec.structs.astuple(drawn.dynamics)),
        "terrain": drawn.terrain.heights_m.tolist(),
        "init": [
            getattr(drawn.start, n).tolist() for n in ("pos_m", "rpy_rad", "vel", "joint_rad")
        ],
        "push": [(k, v.tolist()) for k, v in drawn.pushes.items()],
        "noise": drawn.noise.tolist(),
    }


@pytest.mark.parametrize("changed", spec.DRAW_STREAMS)
def test_changing_one_stream_leaves_the_other_values(clip, changed):
    before = blocks(draws.trial_draws(streams(), clip.body_pos_w))
    after = blocks(draws.trial_draws(streams(other=changed), clip.body_pos_w))
    assert {name for name in before if before[name] != after[name]} == {changed}


def test_draws_fill_their_ranges():
    drawn = [draws.draw_dynamics(np.random.default_rng(i)) for i in range(400)]
    for name in ("friction", "mass_scale", "kp_scale", "kd_scale"):
        values = [getattr(d, name) for d in drawn]
        low, high = getattr(RANGES, name)
        assert low <= min(values) < low + 0.05 * (high - low)
        assert high - 0.05 * (high - low) < max(values) <= high
    bias = np.array([d.encoder_bias_rad for d in drawn])
    assert bias.shape == (400, 29) and np.abs(bias).max() <= 0.01
    assert np.ptp(bias, axis=1).min() > 0.0  # one per joint
    latency = [d.latency_steps for d in drawn]
    assert set(latency) == {0, 1} and 150 < sum(latency) < 250


def test_torso_offset_is_wider_sideways():
    offsets = np.array(
        [draws.draw_dynamics(np.random.default_rng(i)).torso_com_offset_m for i in range(300)]
    )
    assert np.abs(offsets).max(axis=0) == pytest.approx([0.025, 0.05, 0.05], rel=0.05)


def test_start_offsets():
    drawn = [draws.draw_start(np.random.default_rng(i)) for i in range(400)]
    pos = np.abs([d.pos_m for d in drawn]).max(axis=0)
    assert pos == pytest.approx([0.05, 0.05, 0.01], rel=0.05) and (pos <= [0.05, 0.05, 0.01]).all()
    assert np.abs([d.rpy_rad for d in drawn]).max(axis=0) == pytest.approx(
        [0.1, 0.1, 0.2], rel=0.05
    )
    assert np.abs([d.vel for d in drawn]).max() == pytest.approx(0.2, rel=0.05)
    assert np.abs([d.joint_rad for d in drawn]).max() == pytest.approx(0.1, rel=0.05)


def test_pushes_are_one_to_three_seconds_apart():
    for seed in range(40):
        pushes = draws.draw_pushes(np.random.default_rng(seed))
        steps = [0, *pushes]
        gaps = np.diff(steps)
        assert (gaps >= 50 - 1).all() and (gaps <= 150 + 1).all()  # rounded up to a control step
        assert steps[1] >= 50 and 1000 - steps[-1] <= 151
        assert np.abs([v[:3] for v in pushes.values()]).max() <= 0.5
        assert np.abs([v[3:] for v in pushes.values()]).max() <= 0.78


def test_noise_has_the_half_widths_of_the_card():
    noise = draws.draw_noise(np.random.default_rng(0))
    assert noise.shape == (1000, 160)
    for block in spec.OBS_BLOCKS:
        largest = np.abs(noise[:, block.start : block.stop]).max()
        assert largest == pytest.approx(block.noise_half_width, rel=0.02)
        assert largest <= block.noise_half_width


def test_noise_of_a_step_does_not_depend_on_the_length():
    long, short = (draws.draw_noise(np.random.default_rng(0), n) for n in (50, 20))
    assert np.array_equal(long[:20], short)


def test_terrain_spans_exactly_its_draw_and_covers_the_clip(clip):
    terrain = draws.draw_terrain(np.random.default_rng(5), clip.body_pos_w)
    span = np.random.default_rng(5).uniform(*RANGES.terrain_span_m)
    assert terrain.heights_m.max() == pytest.approx(span / 2, abs=1e-15)
    assert terrain.heights_m.min() == pytest.approx(-span / 2, abs=1e-15)
    side_m = (np.array(terrain.heights_m.shape)[::-1] - 1) * spec.SCENE.cell_m
    flat = clip.body_pos_w.reshape(-1, 3)[:, :2]
    need = np.maximum(np.ptp(flat, axis=0) + 2 * spec.SCENE.terrain_margin_m, 8.0)
    assert (side_m >= need - 1e-9).all()


def test_terrain_is_smooth():
    """Noise smoothed with sigma = 2 cells: neighbours differ by a small part of the span."""
    heights = draws.draw_terrain(np.random.default_rng(1), np.zeros((1, 1, 3))).heights_m
    assert np.abs(np.diff(heights, axis=0)).max() < 0.25 * np.ptp(heights)


@pytest.mark.parametrize("name", spec.PROFILES)
def test_profile_leaves_out_what_it_says(clip, name):
    drawn, use = draws.trial_draws(streams(), clip.body_pos_w, name), spec.PROFILES[name]
    full = blocks(draws.trial_draws(streams(), clip.body_pos_w))
    assert (drawn.dynamics == draws.Draw()) is not use.dynamics
    assert (drawn.terrain is None) is not use.terrain
    assert (drawn.start is draws.NO_OFFSET) is not use.init
    assert (drawn.pushes == {}) is not use.push
    assert bool(drawn.noise.any()) is use.noise
    if use.dynamics:
        assert list(msgspec.structs.astuple(drawn.dynamics)) == full["dynamics"]
    if use.noise:
        assert drawn.noise.tolist() == full["noise"]


def test_trials_differ(clip):
    first, second = (draws.trial_draws(streams(i), clip.body_pos_w) for i in (0, 1))
    assert first.dynamics != second.dynamics and list(first.pushes) != list(second.pushes)
