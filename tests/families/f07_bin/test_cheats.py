"""What must not pay: throwing, holding still in the nest, toggling, parking low, reading the seed."""

import numpy as np
import pytest

from families.f07_bin import metrics, piles, spec, verify
from families.f07_bin.task import play
from tests.families.f07_bin.cells import NEST, OFF, ON, Host, episode, grab, put, under_head


def score(e) -> float:
    return metrics.score(verify.outcome(e)).score


def test_holding_a_part_still_in_the_nest_earns_nothing():
    e = episode()
    grab(e)
    for _ in range(spec.CLEAR_TICKS + 5):
        address = e.cell.part_qpos[0]
        e.data.qpos[address : address + 3] = NEST
        e.data.qvel[:] = 0.0
        e._note_clearing()
    assert e.n_cleared == 0 and score(e) == 0.0


def test_parking_a_held_part_under_the_floor_line_is_neither_drop_nor_clear():
    e = episode()
    grab(e)
    put(e, 0, (0.9, 0.0, 0.02))
    e._note_floor()
    e._note_clearing()
    assert not e.is_dropped.any() and e.n_cleared == 0
    e._magnet.release(e.data)
    e._note_floor()
    assert e.is_dropped[0], "let go down there, it has fallen"


def test_a_part_shot_through_the_nest_clears_nothing():
    e = episode()
    put(e, 0, (0.45, 0.30, 0.35), velocity=(0.0, 1.5, -0.5))
    for _ in range(12):
        e.step(OFF)
    assert e.n_cleared == 0 and score(e) == 0.0


def test_switching_each_tick_does_not_reset_the_load():
    # 200 N along the tool while the magnet is switched off and on: it lets go within five steps.
    e = episode()
    grab(e)
    e.step(OFF)
    under_head(e, 0.0005)
    body = e.cell.part_bodies[0]
    e.data.xfrc_applied[body, :3] = 200.0 * e.data.xmat[e.cell.tool_body].reshape(3, 3)[:, 2]
    e.step(ON)
    assert e.n_slips == 1 and e.held == ()


def test_the_policys_seed_is_the_same_for_the_same_pile_and_unrelated_to_its_draw():
    seeds = set()
    for pile in range(20):
        streams = piles.public_streams("public", pile)
        value = int(streams("policy_seed").integers(2**63, dtype=np.uint64))
        assert value == int(streams("policy_seed").integers(2**63, dtype=np.uint64))
        assert 0 <= value < 2**63
        # Seeding the pile's generator with it gives another pile than the real one.
        guess = piles.drop_poses(12, np.random.default_rng(value))
        assert not np.allclose(guess, piles.drop_poses(12, streams("pile", 0)))
        seeds.add(value)
    assert len(seeds) == 20


def test_lock_step_a_slow_policy_gets_no_more_ticks():
    slow, fast = episode(), episode()
    lazy = Host()
    lazy.wall_s = 0.0

    def answer(*_):
        lazy.wall_s += 29.0
        return OFF

    lazy._answer = answer
    play(slow, lazy, 0, 6)
    play(fast, Host(), 0, 6)
    assert slow.tick == fast.tick == 6
    assert slow.digest() == fast.digest()


@pytest.mark.slow
def test_floors_of_blind_policies():
    """Home, random targets, and blind pushing with the magnet on, on a whole design pile."""
    streams = piles.public_streams("design", 35)
    pile = piles.draw(streams, spec.DESIGN_PILES[35])
    low, high = np.array(spec.BIN_LO_M), np.array(spec.BIN_HI_M)

    def run(answer):
        from families.f07_bin.episode import Episode

        e = Episode(pile, streams, ())
        play(e, Host(answer), 0)
        return score(e)

    assert run(lambda *_: OFF) == 0.0
    rng = np.random.default_rng(1)

    def random(*_):
        return np.append(
            np.array(spec.ARM_HOME_RAD) + rng.uniform(-0.5, 0.5, 7), rng.uniform(0, 255)
        )

    assert run(random) <= 0.01

    from families.f07_bin import scene
    from train_baselines.oracles.f07_arm import Arm, Glide

    arm = Arm(scene.model_xml(), np.array(spec.ARM_HOME_RAD))
    glide = Glide(arm.grip_m(np.array(spec.ARM_HOME_RAD)))
    goals = [np.append(rng.uniform(low[:2] + 0.03, high[:2] - 0.03), z) for z in (0.36, 0.11) * 60]
    state = {"i": 0}

    def push(*_):
        goal = goals[state["i"] % len(goals)]
        if np.linalg.norm(goal - glide.position_m) < 0.003:
            state["i"] += 1
        return arm.command(glide.advance(goal, 0.5, 0.3), 255.0)

    assert run(push) <= 0.03
