"""The beam balance against closed forms; what is a weighing, what is at rest, what is on the mat."""

import math

import numpy as np
import pytest

from families.f03_tabletop import instances, tabletop, task
from families.f03_tabletop import spec as s
from rle.service.adapter import BadRequest, TrialPlan
from rle.sim.arm_control import rotation_of
from tests.families.f03_tabletop.scenes import check_options, check_piece, check_table, put, spread

pytestmark = pytest.mark.xdist_group("f03")
STILL = np.concatenate([np.zeros(11), [-1.0]])
FRICTIONS = tuple(0.8 + 0.05 * i for i in range(s.CUBES))


@pytest.fixture(scope="module")
def balance():
    made = tabletop.Balance("f03/balance")
    instance = instances.BalanceInstance(heavy=4, frictions=FRICTIONS, poses=spread(9))
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
    before = fresh.state()
    fresh.extra("beam", {"locked": False})
    now = fresh.state()
    assert np.array_equal(now["pan_positions"], before["pan_positions"]), (
        "not at rest: as last seen"
    )
    same = (now["cube_positions"] == before["cube_positions"]).all(axis=1)
    assert same.tolist() == [i in (4, 5) for i in range(s.CUBES)], "cubes off the pans are seen"
    rate = abs(float(fresh.ready.data.joint(tabletop.BEAM_HINGE).qvel[0]))
    assert rate < s.BEAM.rest_beam_rad_s and not fresh.state()["pan_at_rest"]
    steps = 1
    while not fresh.state()["pan_at_rest"]:
        run(fresh, 1)
        steps += 1
    assert steps / s.CONTROL_HZ == pytest.approx(2.8, abs=0.3), "s; measured"
    tilted = abs(beam_rad(fresh))
    assert tilted > 0.06, "what is read at rest is the tilt, not its beginning"
    fresh.extra("beam", {"locked": True})
    assert not fresh.state()["pan_at_rest"] and abs(beam_rad(fresh)) > 0.9 * tilted
    run(fresh, s.BEAM.lock_steps // 2 - 1)  # evenly over 20 steps
    assert abs(beam_rad(fresh)) == pytest.approx(tilted / 2, abs=0.05 * tilted)


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
    for low, high, count in (((4,), (5,), 1), ((5,), (4,), 2)):  # and the last counted pair
        load(fresh, low=low, high=high)
        run(fresh, 1)
        fresh.extra("beam", {"locked": False})
        fresh.extra("beam", {"locked": True})
        assert fresh.weighings.count == count


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


@pytest.mark.parametrize(
    ("body", "touches"),
    [
        ("beam", True),
        (tabletop.PANS[1], True),
        ("cube_1", True),
        ("cube_2", True),
        ("cube_3", False),
    ],
)
def test_what_is_a_touch_of_the_balance(fresh, monkeypatch, body, touches):
    # cube_1 lies on a plate, cube_2 on cube_1, cube_3 on the table.
    load(fresh, low=(1,))
    x, y, z = fresh.ready.data.body("cube_1").xpos
    put(fresh, "cube_2", (x, y, z + 2 * s.CUBE_HALF_M - 1e-5))
    run(fresh, 1)
    robot = fresh.ready.robots[0]
    monkeypatch.setattr(robot, "touched", lambda: {fresh.ready.model.body(body).id})
    assert fresh._robot_touches_balance() is touches


def test_the_beam_operation_is_one_step_that_keeps_the_grip(fresh, monkeypatch):
    grip = STILL.copy()
    grip[6] = 1.0
    fresh.step(grip)
    robot, sent = fresh.ready.robots[0], []
    whole = robot.set_action
    monkeypatch.setattr(robot, "set_action", lambda a: (sent.append(a.copy()), whole(a)))
    assert fresh.extra("beam", {"locked": True}).executed == 1
    assert len(sent) == 1 and sent[0].tolist() == [*[0.0] * 6, 1.0, *[0.0] * 5]


def test_a_touch_locks_a_released_beam_at_once(fresh, monkeypatch):
    fresh.extra("beam", {"locked": False})
    assert not fresh.is_locked
    monkeypatch.setattr(fresh, "_robot_touches_balance", lambda: True)
    run(fresh, 1)
    assert fresh.is_locked


@pytest.mark.parametrize(
    ("offset", "on"),
    [
        ((0.089, 0.0, 0.0), True),
        ((0.091, 0.0, 0.0), False),
        ((0.0, -0.089, 0.0), True),
        ((0.0, -0.091, 0.0), False),
        ((0.089, 0.089, 0.0), True),
        ((0.0, 0.0, 0.0099), True),
        ((0.0, 0.0, 0.0101), False),
    ],
)
def test_mat_reach(fresh, offset, on):
    rest = (*s.MAT.centre_m, s.TABLE.top_z_m + 2 * s.MAT.half_m[2] + s.CUBE_HALF_M)
    put(fresh, "cube_4", tuple(np.add(rest, offset)))
    assert fresh.is_on_mat("cube_4") is on


@pytest.mark.parametrize(
    ("first", "second", "excluded", "on_mat"),
    [
        (1.0, 1.0, {}, "4"),
        (0.0, 1.0, {}, ""),
        (1.0, 0.0, {}, ""),
        (1.0, 1.0, {"cube_4": "touches_robot"}, ""),
        (1.0, 1.0, {"cube_4": "moving"}, ""),
    ],
)
def test_the_mat_holds_what_is_on_it_at_both_readings(
    fresh, monkeypatch, first, second, excluded, on_mat
):
    def reading(value):
        values = {f"cube_{i}": 0.0 for i in range(s.CUBES)} | {"cube_4": value}
        return task.Reading(edges=frozenset(), on_robot=frozenset(), values=values)

    settled = task.Settled((reading(first), reading(second)), excluded, s.SETTLE_MIN_S)
    monkeypatch.setattr(tabletop, "settle", lambda *_: settled)
    assert fresh.finish()["on_mat"] == on_mat


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

    assert max(drift_m(4), drift_m(5)) < 1e-7, "not by 2 mm and by 1.4 mm, as without"


def test_noise_has_the_stated_spread(fresh):
    shown = []
    for _ in range(300):
        fresh._sense()
        shown.append(fresh.state())
    for key, sigma in (
        ("cube_positions", s.POSITION_NOISE_M),
        ("pan_positions", s.POSITION_NOISE_M),
        ("joint_pos", s.JOINT_NOISE_RAD),
    ):
        values = np.array([state[key] for state in shown]).reshape(len(shown), -1)
        assert np.std(values - values.mean(axis=0)) == pytest.approx(sigma, rel=0.07)
        assert np.unique(values, axis=0).shape[0] == len(shown), "anew for every control step"
    quiet = np.array([state["eef_pos"] for state in shown])
    assert (quiet == quiet[0]).all()


def test_pans_hang_where_the_numbers_say(fresh):
    b = s.BEAM
    z = s.TABLE.top_z_m + b.pivot_z_m - b.pan_drop_m + b.plate_thickness_m / 2
    expected = [(b.base_m[0], b.base_m[1] + side * b.beam_half_m[1], z) for side in (-1, 1)]
    seen = fresh.state()["pan_positions"]
    assert seen == pytest.approx(np.array(expected), abs=5 * s.POSITION_NOISE_M)
    assert fresh.is_locked and fresh.state()["beam_locked"] and fresh.state()["pan_at_rest"]


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
    model, b = balance.ready.model, s.BEAM
    check_options(model)
    check_table(model, s.TABLE)
    masses = [model.body(f"cube_{i}").mass[0] for i in range(s.CUBES)]
    assert masses == pytest.approx(
        [s.CUBE_MASS_KG * (s.HEAVY_FACTOR if i == 4 else 1.0) for i in range(9)]
    )
    for i in range(s.CUBES):
        check_piece(
            model, f"cube_{i}", (FRICTIONS[i], *s.CUBE_FRICTION_REST), s.PRIMITIVE_CONTACT.condim
        )
        assert model.geom(f"cube_{i}_geom").size.tolist() == [s.CUBE_HALF_M] * 3
    hinge = model.joint(tabletop.BEAM_HINGE)
    assert hinge.range.tolist() == [-b.range_rad, b.range_rad]
    assert hinge.axis.tolist() == [1.0, 0.0, 0.0]
    dampings = [
        model.dof_damping[model.joint(n).dofadr[0]] for n in (tabletop.BEAM_HINGE, "pan_low_hinge")
    ]
    assert dampings == pytest.approx([b.damping, b.pan_damping])
    assert model.body("beam").pos == pytest.approx([*b.base_m, s.TABLE.top_z_m + b.pivot_z_m])
    plate = model.body("pan_high").mass[0]
    area = math.pi * b.plate_radius_m**2
    assert plate == pytest.approx(area * b.plate_thickness_m * b.plate_density_kg_m3)


def test_only_plates_and_rims_of_the_balance_collide(balance):
    model = balance.ready.model
    bodies = {model.body(name).id for name in ("beam", *tabletop.PANS)}
    solid = [
        geom.name
        for geom in map(model.geom, range(model.ngeom))
        if (geom.bodyid[0] in bodies or geom.name.startswith("balance_")) and geom.contype[0]
    ]
    expected = [f"{pan}_plate" for pan in tabletop.PANS]
    expected += [f"{pan}_rim_{i}" for pan in tabletop.PANS for i in range(s.BEAM.rim_boxes)]
    assert sorted(solid) == sorted(expected)
    plate, rim = model.geom("pan_low_plate"), model.geom("pan_low_rim_0")
    top = plate.pos[2] + plate.size[1]
    assert rim.pos[2] + rim.size[2] - top == pytest.approx(s.BEAM.rim_height_m)


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
