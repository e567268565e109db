"""Where the arms can be: the tables of reach and of grips that the scenes were laid out by, and the elbow's stop."""

import math

import mujoco
import numpy as np
import pytest

from families.f03_tabletop import instances
from families.f03_tabletop import spec as s
from families.f03_tabletop.task import make
from tests.families.f03_tabletop.ik import Reach

pytestmark = pytest.mark.xdist_group("f03")
DOWN = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
"""Hand straight down, closing along y."""
GRASP_Z_M = s.TABLE.top_z_m + s.CUBE_HALF_M


def reach_of(adapter, index: int = 0) -> Reach:
    scene = adapter.ready
    return Reach(scene.model, scene.data, scene.robots[index])


@pytest.fixture(scope="module")
def balance():
    made = make("f03/balance")
    poses = tuple(
        instances.Pose2(-0.28 + 0.1 * (i % 3), -0.3 + 0.1 * (i // 3), 0.0) for i in range(9)
    )
    made.open_instance(instances.BalanceInstance(heavy=0, frictions=(1.0,) * 9, poses=poses))
    return made


@pytest.fixture(scope="module")
def puzzle():
    made = make("f03/pocket-cube")
    made.open_instance(instances.CubeInstance(turns=("+z-90",), optimum_qtm=1))
    return made


@pytest.mark.parametrize("bearing_deg", [-40.0, 0.0, 60.0])
def test_top_down_grasps_end_at_three_quarters_of_a_metre_from_the_base(balance, bearing_deg):
    reach, (x, y, _) = reach_of(balance), s.ROBOT_BASE_M
    way = np.array([math.cos(math.radians(bearing_deg)), math.sin(math.radians(bearing_deg))])

    def at(radius_m: float) -> tuple[float, float, float]:
        return (x + radius_m * way[0], y + radius_m * way[1], GRASP_Z_M)

    assert reach.reaches(at(s.TOP_DOWN_REACH_M), DOWN, spare_rad=0.3) and not reach.reaches(
        at(0.80), DOWN
    )
    assert reach.reaches(at(0.85)) and not reach.reaches(at(0.90)), "with any rotation"


def test_the_far_pan_and_the_far_corner_need_the_base(balance):
    reach = reach_of(balance)
    pan_x, pan_y = s.BEAM.base_m
    z = s.TABLE.top_z_m + s.BEAM.pivot_z_m - s.BEAM.pan_drop_m
    near, far = (pan_y + side * s.BEAM.beam_half_m[1] for side in (-1.0, 1.0))
    assert reach.reaches((pan_x, near, z), DOWN)
    assert not reach.reaches((pan_x, far, z))
    assert not reach.reaches((s.TABLE.half_m[0], s.TABLE.half_m[1], GRASP_Z_M))


def test_the_elbow_stops_before_its_dead_centre_and_loses_a_centimetre(balance):
    # Shoulder to wrist: d(q)^2 = a^2 + b^2 + 2 a b cos(q - q0), longest at q0, the dead centre.
    upper, fore, offset = 0.316, 0.384, 0.0825
    a, b = math.hypot(upper, offset), math.hypot(fore, offset)
    dead = -math.atan2(offset, upper) - math.atan2(offset, fore)
    scene = balance.ready
    arm = scene.robots[0].handles.arm_joints
    data = mujoco.MjData(scene.model)
    for angle in (-2.0, s.ELBOW_MOST_RAD, dead, -0.07):
        data.joint(arm[3]).qpos[0] = angle
        mujoco.mj_kinematics(scene.model, data)
        wrist = data.joint(arm[5]).xanchor - data.joint(arm[1]).xanchor
        expected = math.sqrt(a * a + b * b + 2 * a * b * math.cos(angle - dead))
        assert np.linalg.norm(wrist) == pytest.approx(expected, abs=1e-6)
    stop = scene.model.joint(arm[3]).range[1]
    assert stop == s.ELBOW_MOST_RAD < dead
    at_stop = math.sqrt(a * a + b * b + 2 * a * b * math.cos(stop - dead))
    assert a + b - at_stop < 0.011


def drive_to(adapter, position, steps):
    """`move` with the hand pointing down; returns the hand's position, m."""
    quat = np.array([math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0])
    for _ in range(steps):
        adapter.step(np.clip(adapter.move_action(np.array(position), quat, -1.0), -1.0, 1.0))
    return adapter.state()["eef_pos"].copy()


def test_move_has_the_pace_that_is_told(balance):
    balance.reset()
    drive_to(balance, (-0.1, 0.0, 1.2), 30)
    first = drive_to(balance, (-0.1, -0.45, 1.2), 8)
    second = drive_to(balance, (-0.1, -0.45, 1.2), 10)
    assert np.linalg.norm(second - first) == pytest.approx(s.MOVE_PACE_M, rel=0.1)


@pytest.mark.parametrize(
    "beyond", [(0.3, 0.0, 1.3), (0.4, 0.3, 1.0), (0.2, -0.6, 1.0), (-0.4, 0.0, 2.2)]
)
def test_a_target_beyond_reach_is_no_trap(balance, beyond):
    # With the Panda's own stop the elbow passes its dead centre here, and the hand never comes back.
    start = (-0.1, 0.0, 1.2)
    balance.reset()
    assert np.linalg.norm(drive_to(balance, beyond, 100) - beyond) > 0.1
    assert np.linalg.norm(drive_to(balance, start, 80) - start) < 0.005


def test_the_cube_arms_start_far_from_their_limits(puzzle):
    for index, angles in enumerate(s.ARM_START_RAD):
        assert reach_of(puzzle, index).spare_rad(np.array(angles)) >= 0.43


@pytest.mark.parametrize("roll_deg", [-90.0, 0.0, 90.0])
@pytest.mark.parametrize(("arm", "x_m"), [(0, -0.018), (1, 0.018)])
def test_both_hands_hold_a_lifted_half_in_every_roll(puzzle, arm, x_m, roll_deg):
    _, start = puzzle.ready.robots[arm].site_pose()
    rotation = spin(0, roll_deg) @ start
    for z in (1.04, 1.10, 1.16):
        assert reach_of(puzzle, arm).reaches((x_m, 0.0, z), rotation, spare_rad=0.12), z


@pytest.mark.parametrize("yaw_deg", [0.0, 45.0, 90.0])
def test_hand_one_turns_the_upper_half_from_above(puzzle, yaw_deg):
    above = spin(2, yaw_deg) @ np.diag([1.0, -1.0, -1.0])
    top = (0.0, 0.0, s.CUBE_START_M[2] + 0.023)
    assert reach_of(puzzle, 1).reaches(top, above, spare_rad=0.12)


def spin(axis: int, angle_deg: float) -> np.ndarray:
    """Rotation about a world axis. Shape (3, 3)."""
    vector, quat, out = np.eye(3)[axis], np.zeros(4), np.zeros(9)
    mujoco.mju_axisAngle2Quat(quat, vector, math.radians(angle_deg))
    mujoco.mju_quat2Mat(out, quat)
    return out.reshape(3, 3)
