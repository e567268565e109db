"""The beam balance against closed forms; what is a weighing, what is at rest, what is on the mat."""

import math

import mujoco
import numpy as np
import pytest

from families.f03_tabletop import instances, tabletop
from families.f03_tabletop import spec as s
from rle.service.adapter import BadRequest, TrialPlan
from rle.sim.arm_control import rotation_of
from tests.families.f03_tabletop.scenes import put, spread

pytestmark = pytest.mark.xdist_group("f03")
STILL = np.concatenate([np.zeros(11), [-1.0]])


@pytest.fixture(scope="module")
def balance():
    made = tabletop.Balance("f03/balance")
    instance = instances.BalanceInstance(heavy=4, frictions=(1.0,) * 9, poses=spread(9))
    plan = TrialPlan(phase="attempt", kind="attempt", trial=0, key=b"k" * 32)
    made.open_instance(instance, plan)
    return made


def load(balance, low=(), high=()):
    """Puts cubes on the two pans."""
    for pan, cubes in zip(tabletop.PANS, (low, high), strict=True):
        plate = balance.ready.data.geom(f"{pan}_plate").xpos
        z = plate[2] + s.BEAM.plate_thickness_m / 2 + s.CUBE_HALF_M
        for k, cube in enumerate(cubes):
            put(balance, f"cube_{cube}", (plate[0] - 0.05 + 0.05 * k, plate[1], z + 1e-5))


def run(balance, steps):
    for _ in range(steps):
        balance.step(STILL)


@pytest.fixture
def fresh(balance):
    balance.restore({})
    balance.reset()
    return balance


def beam_rad(balance) -> float:
    return float(balance.ready.data.joint(tabletop.BEAM_HINGE).qpos[0])


def test_equal_counts_tilt_by_the_heavy_cube_alone(fresh):
    # m_bob g d sin(theta) = (0.2 m_cube) g l  ->  sin(theta) = 0.2 m l / (m_bob d)
    bob = 4.0 / 3.0 * math.pi * s.BEAM.bob_radius_m**3 * s.BEAM.bob_density_kg_m3
    excess = (s.HEAVY_FACTOR - 1.0) * s.CUBE_MASS_KG * s.BEAM.beam_half_m[1]
    expected = math.asin(excess / (bob * s.BEAM.bob_drop_m))
    load(fresh, low=(4,), high=(5,))
    run(fresh, 2)
    fresh.extra("beam", {"locked": False})
    run(fresh, 160)
    assert fresh.is_at_rest
    assert abs(beam_rad(fresh)) == pytest.approx(expected, rel=0.03)
    low, high = fresh.state()["pan_positions"][:, 2]
    assert low < high, "the heavy side is lower"
    assert fresh.weighings.count == 1
    fresh.extra("beam", {"locked": True})
    run(fresh, s.BEAM.lock_steps + 5)
    assert abs(beam_rad(fresh)) < 1e-3
    fresh.extra("beam", {"locked": False})
    run(fresh, 2)
    assert fresh.weighings.count == 1, "the same contents are not weighed twice"


def test_at_rest_is_said_of_the_beam_as_it_is_now(fresh):
    # A released beam starts slowly, (0.2 m g l) t / I: in its first step it is below the limit of 0.01 rad/s.
    load(fresh, low=(4,), high=(5,))
    run(fresh, 2 * s.BEAM.rest_steps)
    assert fresh.is_at_rest and fresh.is_locked
    fresh.extra("beam", {"locked": False})
    rate = abs(float(fresh.ready.data.joint(tabletop.BEAM_HINGE).qvel[0]))
    assert rate < s.BEAM.rest_beam_rad_s and not fresh.state()["pan_at_rest"]
    while not fresh.state()["pan_at_rest"]:
        run(fresh, 1)
    tilted = abs(beam_rad(fresh))
    assert tilted > 0.06, "what is read at rest is the tilt, not its beginning"
    fresh.extra("beam", {"locked": True})
    assert not fresh.state()["pan_at_rest"] and abs(beam_rad(fresh)) > 0.9 * tilted


def test_a_pan_swings_under_lock_when_a_cube_leaves_it(fresh):
    x, y, z = fresh.ready.data.geom(f"{tabletop.PANS[0]}_plate").xpos
    put(fresh, "cube_4", (x, y + 0.06, z + s.BEAM.plate_thickness_m / 2 + s.CUBE_HALF_M))
    run(fresh, 60)
    assert fresh.is_at_rest
    put(fresh, "cube_4", (0.1, -0.6, s.TABLE.top_z_m + s.CUBE_HALF_M))
    run(fresh, 2)
    assert fresh.is_locked and not fresh.state()["pan_at_rest"]
    run(fresh, 60)
    assert fresh.state()["pan_at_rest"]


def test_equal_loads_stay_level_and_unequal_counts_lie_on_the_stop(fresh):
    load(fresh, low=(1,), high=(5,))
    run(fresh, 2)
    fresh.extra("beam", {"locked": False})
    run(fresh, 40)
    assert abs(beam_rad(fresh)) < 5e-4
    load(fresh, low=(1, 2), high=(5,))
    run(fresh, 60)
    assert abs(beam_rad(fresh)) == pytest.approx(s.BEAM.range_rad, abs=0.002)
    fresh.extra("beam", {"locked": True})  # from the stop: nothing on the pans is thrown or slides
    before = fresh.ready.data.xpos[fresh._cubes[[1, 2, 5]]].copy()
    fastest = 0.0
    for _ in range(s.BEAM.lock_steps):
        run(fresh, 1)
        speeds = [fresh.ready.data.joint(f"cube_{i}_joint").qvel[:3] for i in (1, 2, 5)]
        fastest = max(fastest, float(np.linalg.norm(speeds, axis=1).max()))
    moved = fresh.ready.data.xpos[fresh._cubes[[1, 2, 5]]] - before
    assert fastest < 0.03 and np.abs(moved[:, 0]).max() < 1e-3


def test_the_lock_holds_any_load(fresh):
    load(fresh, low=(0, 1, 2))
    run(fresh, 10)
    assert abs(beam_rad(fresh)) < 2e-4
    assert fresh.weighings.count == 0, "loading under lock is free"


def test_an_empty_beam_may_swing_for_free_and_a_dropped_cube_is_counted(fresh):
    fresh.extra("beam", {"locked": False})
    run(fresh, 3)
    assert fresh.weighings.count == 0
    load(fresh, high=(3,))
    run(fresh, 3)
    assert fresh.weighings.count == 1


def test_release_look_and_lock_is_counted(fresh):
    load(fresh, low=(4,), high=(5,))
    run(fresh, 1)
    fresh.extra("beam", {"locked": False})
    fresh.extra("beam", {"locked": True})
    assert fresh.weighings.count == 1
    fresh.reset()
    assert fresh.weighings.count == 1, "a reset keeps the weighings"


def test_weighings_survive_in_the_counters():
    pair = (frozenset({1, 4}), frozenset({2}))
    counted = tabletop.Weighings()
    counted.see(pair)
    again = tabletop.Weighings.of_counters(counted.to_counters())
    again.see(pair)
    assert (again.count, again.last) == (1, pair)
    again.see((frozenset(), frozenset()))
    assert again.count == 1


def test_release_is_refused_while_the_robot_touches_the_balance(fresh, monkeypatch):
    monkeypatch.setattr(fresh, "_robot_touches_balance", lambda: True)
    with pytest.raises(BadRequest, match="move the arm away"):
        fresh.extra("beam", {"locked": False})
    assert fresh.is_locked


def test_a_touch_locks_a_released_beam_at_once(fresh, monkeypatch):
    fresh.extra("beam", {"locked": False})
    assert not fresh.is_locked
    monkeypatch.setattr(fresh, "_robot_touches_balance", lambda: True)
    run(fresh, 1)
    assert fresh.is_locked


@pytest.mark.parametrize(("offset", "on"), [(0.089, True), (0.091, False)])
def test_mat_reach(fresh, offset, on):
    x, y = s.MAT.centre_m
    z = s.TABLE.top_z_m + 2 * s.MAT.half_m[2] + s.CUBE_HALF_M
    put(fresh, "cube_4", (x + offset, y, z))
    assert fresh.is_on_mat("cube_4") is on


def test_a_cube_held_above_the_mat_is_not_on_it(fresh):
    put(fresh, "cube_4", (*s.MAT.centre_m, s.TABLE.top_z_m + 0.05))
    assert not fresh.is_on_mat("cube_4")


def test_the_arm_cannot_weigh_a_held_cube(fresh):
    # A held cube's weight is compensated: the hand drifts alike with a normal and with the heavy cube.
    def drift_m(cube: int) -> float:
        fresh.restore({})
        fresh.reset()
        grip = STILL.copy()
        grip[6] = 1.0
        for _ in range(8):
            put(fresh, f"cube_{cube}", tuple(fresh.ready.robots[0].site_pose()[0]))
            fresh.step(grip)
        body = fresh.ready.model.body(f"cube_{cube}").id
        assert body in fresh.ready.robots[0].held()
        before, _ = fresh.ready.robots[0].site_pose()
        for _ in range(round(2.0 * s.CONTROL_HZ)):
            fresh.step(grip)
        after, _ = fresh.ready.robots[0].site_pose()
        return float(np.linalg.norm(after - before))

    assert abs(drift_m(4) - drift_m(5)) < 2e-5


def test_observation_is_noisy_and_repeats_within_a_step(fresh):
    run(fresh, 1)
    a, b = fresh.state(), fresh.state()
    assert all(np.array_equal(a[k], b[k]) for k in a)
    true = fresh.ready.data.xpos[fresh._cubes]
    error = a["cube_positions"] - true
    assert 0.0 < np.abs(error).max() < 0.006
    run(fresh, 1)
    assert not np.array_equal(fresh.state()["cube_positions"], a["cube_positions"])


def test_the_model_carries_the_spec(balance):
    model = balance.ready.model
    assert model.body("cube_4").mass[0] == pytest.approx(s.CUBE_MASS_KG * s.HEAVY_FACTOR)
    assert model.joint(tabletop.BEAM_HINGE).range[1] == pytest.approx(s.BEAM.range_rad)
    assert model.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC
    assert model.opt.timestep * s.SUBSTEPS == pytest.approx(1.0 / s.CONTROL_HZ)


def test_declared_cameras_are_those_of_the_model(balance):
    """What the agent is told of a camera's pose, composed with the observation, is where it is."""
    facts = s.SESSIONS["f03/balance"].calibration
    state, data, model = balance.state(), balance.ready.data, balance.ready.model
    frames = {"side_cameras": ("base_pos", "base_quat"), "wrist_camera": ("eef_pos", "eef_quat")}
    for group, (position, quat) in frames.items():
        origin, axes = state[position], rotation_of(state[quat])
        told = facts[group]
        for name, at, wxyz in zip(
            told["names"], told["position_m"], told["quat_wxyz"], strict=True
        ):
            camera = balance.camera_names.get(name, name)
            assert data.camera(camera).xpos == pytest.approx(origin + axes @ at, abs=1e-6)
            own = rotation_of(np.array(wxyz)[[1, 2, 3, 0]])
            assert data.camera(camera).xmat.reshape(3, 3) == pytest.approx(axes @ own, abs=1e-6)
            assert model.camera(camera).fovy[0] == pytest.approx(told["fovy_deg"])


def test_events_of_a_reply_are_declared(balance):
    declared = {event.name for event in s.SESSIONS["f03/balance"].events}
    told = {**balance.step(np.zeros(12)).events, **balance.extra("beam", {"locked": True}).events}
    assert told.keys() == declared
    everything = {event.name for event in s.SESSIONS["f03/balance"].all_events}
    assert everything == declared | {"move_error_m", "move_error_rad"}


def test_the_told_quaternion_points_down_and_closes_along_y():
    axes = rotation_of(np.array([0.7071, 0.7071, 0.0, 0.0]))
    assert "(0.7071, 0.7071, 0, 0) points the gripper straight down" in s.INSTRUCTIONS["balance"]
    assert axes[:, 2] == pytest.approx([0, 0, -1], abs=1e-4), "z approaches"
    assert axes[:, 0] == pytest.approx([0, 1, 0], abs=1e-4), "x closes"
