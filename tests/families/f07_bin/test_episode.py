"""The tick's rules: clearing, the nest, the floor, removal, sensors, and replay."""

import mujoco
import numpy as np
import pytest

from families.f07_bin import piles, scene, sensors, spec
from families.f07_bin.episode import Episode
from tests.families.f07_bin.cells import NEST, OFF, ON, UPRIGHT, episode, grab, put, streams


def note_clearing(e, ticks: int) -> None:
    """Applies the rule for some ticks to a state that is held still."""
    for _ in range(ticks):
        e._note_clearing()


@pytest.mark.parametrize(("speed_m_s", "cleared"), [(0.0199, 1), (0.0201, 0)])
def test_speed_limit(speed_m_s, cleared):
    e = episode()
    put(e, 0, NEST, velocity=(speed_m_s, 0.0, 0.0))
    note_clearing(e, spec.CLEAR_TICKS)
    assert e.n_cleared == cleared


@pytest.mark.parametrize(("ticks", "cleared"), [(9, 0), (10, 1)])
def test_rest_time(ticks, cleared):
    e = episode()
    put(e, 0, NEST)
    note_clearing(e, ticks)
    assert e.n_cleared == cleared


@pytest.mark.parametrize(("beyond_m", "cleared"), [(0.0, 1), (0.0001, 0)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_zone_faces_belong_to_the_zone(axis, beyond_m, cleared):
    e = episode()
    position = np.array(NEST)
    position[axis] = spec.ZONE_HI_M[axis] + beyond_m
    put(e, 0, position)
    note_clearing(e, spec.CLEAR_TICKS)
    assert e.n_cleared == cleared


def test_rest_must_be_consecutive():
    e = episode()
    put(e, 0, NEST)
    note_clearing(e, 9)
    put(e, 0, NEST, velocity=(0.05, 0.0, 0.0))
    note_clearing(e, 1)
    put(e, 0, NEST)
    note_clearing(e, 9)
    assert e.n_cleared == 0


def test_two_parts_block_the_nest_until_one_is_taken_away():
    e = episode(2)
    put(e, 0, NEST)
    put(e, 1, np.array(NEST) + (0.05, 0.05, 0.0))
    note_clearing(e, 40)
    assert e.n_cleared == 0
    put(e, 1, (0.80, 0.46, NEST[2]))
    note_clearing(e, spec.CLEAR_TICKS - 1)
    assert e.n_cleared == 0
    note_clearing(e, 1)
    assert e.is_cleared.tolist() == [True, False]


def test_a_held_part_in_the_nest_neither_clears_nor_blocks():
    e = episode(2)
    grab(e)
    put(e, 0, NEST)
    note_clearing(e, 40)
    assert e.n_cleared == 0
    put(e, 1, NEST)
    note_clearing(e, spec.CLEAR_TICKS)
    assert e.is_cleared.tolist() == [False, True]


def test_a_part_set_down_in_the_nest_is_cleared_half_a_second_later():
    e = episode()
    put(e, 0, np.array(NEST) + (0.0, 0.0, 0.002))
    for _ in range(30):
        e.step(OFF)
        if e.is_done:
            break
    assert e.n_cleared == 1 and e.is_done
    assert spec.CLEAR_REST_S <= e.last_clear_s <= spec.CLEAR_REST_S + 0.5
    assert e.last_clear_s == e.t_s
    assert e.events[-1].kind == "clear"


def test_a_thrown_part_is_not_cleared_in_flight():
    e = episode()
    put(e, 0, (0.45, 0.20, 0.30), velocity=(0.0, 2.5, 0.0))
    for _ in range(8):
        e.step(OFF)
        inside = spec.ZONE_LO_M[1] < e.part_poses[0, 1] < spec.ZONE_HI_M[1]
        assert not (inside and e.n_cleared)
    assert e.n_cleared == 0


def test_cleared_part_is_weightless_untouchable_and_still():
    e = episode(2)
    put(e, 0, NEST)
    note_clearing(e, spec.CLEAR_TICKS)
    place = e.part_poses[0].copy()
    assert place[:3] == pytest.approx(spec.CLEARED_POS_M)
    mujoco.mj_step(e.cell.model, e.data, 5000)  # 10 s; the drift per time does not grow
    assert np.abs(e.part_poses[0] - place).max() < 1e-10
    touching = e.cell.part_of_geom[e.data.contact.geom]
    assert not (touching == 0).any()
    other = scene.build(2).model
    assert (other.geom_contype[np.flatnonzero(e.cell.part_of_geom == 0)] == 1).all()


def test_floor_counts_once_only_unheld_and_may_still_be_cleared():
    e = episode(2)
    grab(e)
    put(e, 0, (0.9, 0.0, 0.04))
    e._note_floor()
    assert not e.is_dropped.any(), "carrying low is no drop"
    put(e, 1, (0.9, 0.0, 0.04))
    e._note_floor()
    e._note_floor()
    assert e.is_dropped.tolist() == [False, True]
    assert [event.kind for event in e.events].count("floor") == 1
    put(e, 1, NEST)
    note_clearing(e, spec.CLEAR_TICKS)
    assert e.is_cleared[1] and e.is_dropped[1]


def test_commands_are_clamped_and_none_holds_the_last():
    e = episode()
    e.step(np.append(np.full(7, 100.0), 1e9))
    assert e.data.ctrl == pytest.approx(e.cell.model.actuator_ctrlrange[:, 1])
    assert e._command[-1] == spec.MAG_CTRL_RANGE[1]
    e.step(None)
    assert e.data.ctrl == pytest.approx(e.cell.model.actuator_ctrlrange[:, 1]) and e.is_on


def test_non_finite_physics_ends_the_episode():
    e = episode()
    e.data.qvel[0] = np.nan
    e.step(OFF)
    assert e.is_unstable and e.is_done


def test_same_commands_same_digest_other_commands_another():
    def run(magnet):
        e = episode(2)
        for i in range(6):
            e.step(np.append(np.array(spec.ARM_HOME_RAD) + 0.01 * i, magnet))
        return e.digest()

    assert run(0.0) == run(0.0)
    moved = episode(2)
    for _ in range(6):
        moved.step(OFF)
    assert moved.digest() != run(0.0)


def test_observation_has_its_keys_shapes_and_noise():
    e = episode()
    obs = e.observe()
    assert obs["frame"] == 1.0 and obs["t"] == 0.0 and obs["mag_on"] == 0.0
    assert obs["wrist_T_world_cam"].shape == (4, 4)
    assert not set(obs) & set(spec.CHANNELS), "no channel was asked for"
    assert e.sensors.n_renders == 0
    truth = e.data.sensordata[e.cell.ft_force]
    noise = np.array(
        [e.sensors.observe(e.data, tick, False)["ft"][:3] - truth for tick in range(1, 800, 2)]
    )
    # 400 draws of three axes: the standard error of sigma is sigma / sqrt(2400).
    assert noise.std() == pytest.approx(spec.FT_FORCE_SIGMA_N, rel=0.1)
    assert np.array_equal(
        e.sensors.observe(e.data, 7, False)["ft"], e.sensors.observe(e.data, 7, False)["ft"]
    )
    e.step(ON)
    odd = e.observe()
    assert odd["frame"] == 0.0 and "wrist_T_world_cam" not in odd and odd["mag_on"] == 1.0
    assert odd["t"] == pytest.approx(0.05)


def test_pictures_only_of_what_was_asked_and_in_metres():
    e = episode(channels=("overhead_depth", "wrist_rgb"))
    with e:
        obs = e.observe()
        assert e.sensors.n_renders == 2
        assert obs["wrist_rgb"].shape == (240, 320, 3) and obs["wrist_rgb"].dtype == np.uint8
        depth = obs["overhead_depth"]
        assert depth.shape == (480, 640) and depth.dtype == np.float32
        assert "overhead_rgb" not in obs and "wrist_depth" not in obs
        # The bin's bottom straight below the camera: 0.98 - 0.112 m.
        patch = depth[230:250, 310:330]
        assert np.nanmean(patch) == pytest.approx(
            spec.OVERHEAD_POS_M[2] - spec.BIN_LO_M[2], abs=2e-3
        )
        e.step(OFF)
        e.observe()
        assert e.sensors.n_renders == 2, "nothing is drawn on odd ticks"


def test_depth_is_the_same_with_and_without_the_colour_picture():
    """One drawing gives both; a part that was cleared and is drawn no more changes nothing in that."""
    seen = []
    for channels in (("overhead_depth",), ("overhead_depth", "overhead_rgb")):
        with episode(2, channels) as e:
            put(e, 0, NEST)
            note_clearing(e, spec.CLEAR_TICKS)
            assert e.n_cleared == 1
            seen.append(e.observe()["overhead_depth"])
    assert np.array_equal(*seen, equal_nan=True)


def test_cell_spec_is_plain_data_that_names_the_limits():
    given = sensors.cell_spec()
    assert given["n_ctrl"] == 8 and given["damage_force_n"] == spec.DAMAGE_FORCE_N
    assert given["force_window_s"] == pytest.approx(0.010)
    assert len(given["part_boxes"]) == 3 and given["bin_lo"] == pytest.approx([0.29, -0.40, 0.112])

    def plain(value):
        if isinstance(value, list):
            return all(map(plain, value))
        if isinstance(value, dict):
            return all(map(plain, value.values()))
        return isinstance(value, int | float | str)

    assert plain(given)


def test_piles_do_not_share_a_model():
    pile = piles.Pile(np.array([(*NEST, *UPRIGHT)]), scene.Lights(), 1)
    first, second = (Episode(pile, streams, ()) for _ in range(2))
    note_clearing(first, spec.CLEAR_TICKS)
    assert first.n_cleared == 1 and second.n_cleared == 0
    assert (second.cell.model.geom_contype[second.cell.part_of_geom == 0] == 1).all()
