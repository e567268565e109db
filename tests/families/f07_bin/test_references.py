"""Oracle and baselines: what they are built from, and (slow) that they reach their bars."""

import numpy as np
import pytest

from families.f07_bin import dev, metrics, scene, spec, verify
from families.f07_bin.task import play
from tests.families.f07_bin.cells import episode
from tests.families.f07_bin.test_verify import PICKER
from train_baselines.oracles import f07_privileged
from train_baselines.oracles.f07_arm import Arm, Glide

HOME = np.array(spec.ARM_HOME_RAD)


def test_inverse_kinematics_reaches_the_cell():
    arm = Arm(scene.model_xml(), HOME)
    for target in (
        (0.47, -0.27, 0.13),
        (0.33, -0.36, 0.20),
        (0.45, 0.38, 0.15),
        (0.26, 0.46, 0.30),
    ):
        q = arm.solve(np.array(target))
        assert arm.grip_m(q) == pytest.approx(target, abs=2e-4)


def test_servo_inversion_follows_a_moving_set_point():
    e = episode()
    arm = Arm(scene.model_xml(), HOME)
    glide = Glide(arm.grip_m(HOME))
    goal = np.array((0.45, 0.30, 0.40))
    worst = 0.0
    for _ in range(25):
        target = glide.advance(goal, 1.0, 0.5).copy()
        e.step(arm.command(target, 0.0))
        worst = max(worst, float(np.linalg.norm(arm.grip_m(e.data.qpos[:7]) - target)))
    assert worst < 0.02, f"{1000 * worst:.0f} mm off"
    assert arm.grip_m(e.data.qpos[:7]) == pytest.approx(goal, abs=1e-3)


def test_oracle_clears_two_lone_parts_without_an_event():
    e = episode(2)
    f07_privileged.Picker(e).run(until_s=12.0)
    assert e.n_cleared == 2
    assert not e.is_dropped.any() and not e.is_damaged.any() and e.n_bin_hits == 0
    assert e.peak_part_n < spec.DAMAGE_FORCE_N / 2
    assert metrics.score(verify.outcome(e)).clean == 1.0


def test_depth_picker_clears_a_lone_part():
    policy = dev.LocalPolicy(PICKER)
    with episode(1, policy.channels) as e:
        played = play(e, policy, 0, ticks=round(7.0 * spec.CONTROL_HZ))
    assert e.n_cleared == 1 and played.faults == 0
    assert not e.is_damaged.any() and e.n_bin_hits == 0


@pytest.mark.slow
def test_oracle_reaches_its_bar_on_eight_public_piles():
    scores, shares, clean = [], [], 0
    for seed in range(1, 9):
        e, _ = f07_privileged.play("public", seed)
        measured = verify.outcome(e)
        terms = metrics.score(measured)
        scores.append(terms.score)
        shares.append(terms.f)
        clean += measured.floor == measured.damage == measured.bin_hits == 0
    assert np.mean(shares) >= 0.95 and np.mean(scores) >= 0.75 and clean >= 6


@pytest.mark.slow
def test_depth_picker_reaches_its_bar_on_four_public_piles():
    from families.f07_bin import piles
    from families.f07_bin.episode import Episode

    scores, shares = [], []
    for seed in range(1, 5):
        streams = piles.public_streams("public", seed)
        policy = dev.LocalPolicy(PICKER)
        with Episode(piles.draw(streams), streams, policy.channels) as e:
            played = play(e, policy, 0)
        measured = verify.outcome(e)
        assert measured.floor <= 1 and played.faults == 0 and played.act_s <= 60.0
        scores.append(metrics.score(measured).score)
        shares.append(metrics.score(measured).f)
    assert np.mean(shares) >= 0.70 and np.mean(scores) >= 0.15
