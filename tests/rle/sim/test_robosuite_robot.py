"""What the robot adapter hides of robosuite, each fact on its own."""

import mujoco
import numpy as np
import pytest

from families.f03_tabletop.spec import BASE_CREEPS_BELOW
from rle.errors import SimulationError
from rle.sim import guard
from rle.sim.arm_control import quat_xyzw, rotation_of, rotation_vector
from rle.sim.robosuite_robot import (
    MODE,
    POSITION_SCALE_M,
    ROTATION_SCALE_RAD,
    RobosuiteRobot,
    RobotConfig,
    drive,
    pose_action,
)

pytestmark = pytest.mark.xdist_group("f03")
SUBSTEPS = 25


class Bench:
    """A mobile robot alone on a floor."""

    def __init__(self) -> None:
        spec = mujoco.MjSpec()
        spec.compiler.degree = False
        spec.option.timestep = 0.002
        spec.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=(5, 5, 0.1))
        self.robot = RobosuiteRobot(
            RobotConfig(kind="PandaOmron", index=0, base_pos_m=(-0.62, 0.0, 0.0), torso_m=0.2)
        )
        self.robot.attach(spec)
        self.model = spec.compile()
        self.data = self.robot.bind(self.model)
        self.reset()

    def reset(self) -> None:
        mujoco.mj_resetData(self.model, self.data)
        self.robot.reset()

    def run(self, steps: int, **values: float) -> dict[str, np.ndarray]:
        action = np.zeros(12)
        action[MODE] = -1.0
        for name, value in values.items():
            action[int(name[1:])] = value
        for _ in range(steps):
            self.robot.set_action(action)
            drive(self.model, self.data, [self.robot], SUBSTEPS)
        return self.robot.proprio()


@pytest.fixture(scope="module")
def bench():
    return Bench()


@pytest.fixture(autouse=True)
def start(bench):
    bench.reset()


def test_two_resets_and_the_same_actions_give_the_same_bits(bench):
    seen = []
    for _ in range(2):
        bench.reset()
        rng = np.random.default_rng(3)
        for _ in range(15):
            bench.robot.set_action(rng.uniform(-1, 1, 12))
            drive(bench.model, bench.data, [bench.robot], SUBSTEPS)
        seen.append(bench.data.qpos.copy())
    assert np.array_equal(*seen)


def test_torques_are_those_of_robosuite_to_the_bit(bench):
    # Both use the goal's own reading of the state in its first physics step and a fresh one in each other.
    rng = np.random.default_rng(4)
    composite = bench.robot._robot.composite_controller
    parts = composite.part_controllers
    for count in range(75):
        if count % SUBSTEPS == 0:
            bench.robot.set_action(rng.uniform(-1, 1, 12))
        mujoco.mj_step1(bench.model, bench.data)
        is_fresh = parts["right"].new_update
        assert is_fresh is (count % SUBSTEPS > 0)
        bench.robot.control()
        for name in ("right", "torso"):
            parts[name].new_update = is_fresh
        theirs = composite.run_controller({"right": True, "torso": True})
        for name, wanted in theirs.items():
            index, low, high = bench.robot._actuators[name]
            assert np.array_equal(bench.data.ctrl[index], np.clip(wanted, low, high)), (count, name)
        mujoco.mj_step2(bench.model, bench.data)
    assert np.abs(bench.data.qvel).max() > 0.05, "it moves"


def test_a_controller_of_another_kind_is_refused(bench):
    part = bench.robot._robot.composite_controller.part_controllers["right"]
    part.uncoupling = False
    with pytest.raises(ValueError, match="uncoupled"):
        bench.robot._controllers()
    part.uncoupling = True


def test_a_solver_that_gives_up_is_a_named_error(bench, monkeypatch):
    def gives_up(*_):
        raise mujoco.FatalError("FactorizeHessian: rank-deficient")

    bench.robot.set_action(np.zeros(12))
    monkeypatch.setattr(mujoco, "mj_step2", gives_up)
    with pytest.raises(SimulationError, match=r"control step at 0\.000 s: FactorizeHessian"):
        drive(bench.model, bench.data, [bench.robot], SUBSTEPS)


def test_a_state_that_is_no_number_is_a_named_error(bench):
    bench.data.qvel[0] = np.nan
    bench.robot.set_action(np.zeros(12))
    with pytest.raises(SimulationError):
        drive(bench.model, bench.data, [bench.robot], SUBSTEPS)
        guard.check(bench.model, bench.data)


def test_the_grip_site_approaches_along_z_and_closes_along_x(bench):
    _, rotation = bench.robot.site_pose()
    pads = [bench.data.geom(name).xpos for name in bench.robot.handles.pads]
    across = (pads[1] - pads[0]) / np.linalg.norm(pads[1] - pads[0])
    assert abs(across @ rotation[:, 0]) > 0.999
    wrist = bench.data.body(bench.robot.handles.wrist_camera.split("_")[0] + "_right_hand").xpos
    assert (bench.robot.site_pose()[0] - wrist) @ rotation[:, 2] > 0.05


def test_pads_and_fingers_have_the_stated_friction_and_force(bench):
    model, handles = bench.model, bench.robot.handles
    assert [model.geom(name).friction[0] for name in handles.pads] == [2.0, 2.0]
    fingers = [
        i for i in range(model.nu)
        if model.joint(model.actuator(i).trnid[0]).name in handles.finger_joints
    ]  # fmt: skip
    assert len(fingers) == 2
    assert model.actuator_forcerange[fingers].tolist() == [[-20.0, 20.0]] * 2


def test_collision_shapes_of_the_robot_are_not_drawn(bench):
    shown = mujoco.MjvOption().geomgroup
    mine = [bench.model.geom(i) for i in range(bench.model.ngeom)]
    mine = [g for g in mine if g.bodyid[0] in bench.robot.bodies]
    hidden = [g for g in mine if g.name.endswith("_collision")]
    assert hidden and not any(shown[g.group[0]] for g in hidden)
    assert not any(g.group[0] == 0 for g in mine)


def test_the_controllers_have_the_stated_gains_and_scales(bench):
    parts = bench.robot._robot.composite_controller.part_controllers
    arm, torso = parts["right"], parts["torso"]
    assert arm.uncoupling and arm.input_type == "delta"
    assert arm.kp == pytest.approx(150.0)
    assert arm.kd == pytest.approx(2 * np.sqrt(150.0)), "damping ratio 1"
    scales = [POSITION_SCALE_M] * 3 + [ROTATION_SCALE_RAD] * 3
    assert arm.output_max == pytest.approx(scales) and arm.output_min == pytest.approx(
        -arm.output_max
    )
    assert (arm.input_max == 1.0).all() and (arm.input_min == -1.0).all()
    assert torso.kp == pytest.approx(2000.0)


def test_pose_action_is_the_error_over_the_scales_in_the_base_frame(bench):
    bench.run(12, a9=1.0)  # the base has turned
    here, now = bench.robot.site_pose()
    _, turn = bench.robot.base_pose()
    assert abs(turn[0, 0]) < 0.95
    offset, angle = np.array([0.01, -0.02, 0.03]), 0.1
    about_z = np.array(
        [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1.0]]
    )
    action = pose_action(bench.robot, here + offset, about_z @ now, 1.0)
    assert action[:3] == pytest.approx(turn.T @ offset / 0.05)
    assert action[3:6] == pytest.approx(turn.T @ [0.0, 0.0, angle] / 0.5)
    assert action[6:].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0, -1.0], "base and torso stand still"
    far = pose_action(bench.robot, here + 10.0 * turn[:, 0], now, -1.0)
    assert far[:3] == pytest.approx([1.0, 0.0, 0.0], abs=1e-9) and np.abs(far).max() <= 1.0


def test_the_base_frame_of_the_observation(bench):
    seen = bench.run(12, a9=1.0, a0=0.3)
    turn = rotation_of(seen["base_quat"])
    assert seen["eef_base_pos"] == pytest.approx(turn.T @ (seen["eef_pos"] - seen["base_pos"]))
    in_base = turn.T @ rotation_of(seen["eef_quat"])
    assert rotation_of(seen["eef_base_quat"]) == pytest.approx(in_base, abs=1e-9)


def test_the_pose_is_held(bench):
    before = bench.robot.proprio()
    after = bench.run(60)
    assert np.abs(after["eef_pos"] - before["eef_pos"]).max() < 1e-5


def test_gripper_zero_opens_and_any_positive_value_closes(bench):
    assert bench.robot.proprio()["gripper_pos"][0] == pytest.approx(0.0208, abs=1e-3)
    assert bench.run(20)["gripper_pos"][0] > 0.035
    assert bench.run(30, a6=0.1)["gripper_pos"][0] < 0.005


def test_arm_indices_move_the_hand_along_the_base_axes(bench):
    for axis in range(3):
        bench.reset()
        before = bench.robot.proprio()["eef_pos"]
        moved = bench.run(6, **{f"a{axis}": 0.5})["eef_pos"] - before
        assert moved[axis] > 0.02
        assert np.abs(np.delete(moved, axis)).max() < 0.01


def test_base_index_seven_drives_forward_and_a_small_value_does_not(bench):
    before = bench.robot.proprio()["base_pos"]
    assert bench.run(10, a7=0.2)["base_pos"] == pytest.approx(before, abs=1e-3)
    moved = bench.run(10, a7=1.0)["base_pos"] - before
    assert moved[0] == pytest.approx(0.17, abs=0.03) and abs(moved[1]) < 1e-3
    coasted = bench.run(20)["base_pos"] - before - moved
    assert 0.03 < coasted[0] < 0.10, "several centimetres after a zero"


def test_the_base_creeps_below_the_told_value(bench):
    """A third of what the value asks for, 1 m/s times 0.3 over 1 s, is not reached; at 0.35 it moves."""
    before = bench.robot.proprio()["base_pos"]
    crept = bench.run(20, a8=BASE_CREEPS_BELOW)["base_pos"] - before
    assert abs(crept[1]) < BASE_CREEPS_BELOW / 3
    bench.reset()
    assert bench.run(20, a8=0.35)["base_pos"][1] - before[1] > 0.05


def test_forward_is_forward_after_a_turn(bench):
    bench.run(22, a9=1.0)
    bench.run(10)
    _, turn = bench.robot.base_pose()
    heading = turn[:2, 0]
    assert abs(heading[0]) < 0.75, "the base has turned"
    before = bench.robot.proprio()["base_pos"][:2]
    moved = bench.run(10, a7=1.0)["base_pos"][:2] - before
    assert moved @ heading / np.linalg.norm(moved) > 0.98


def test_torso_index_lifts_the_frame_of_the_arm(bench):
    before = bench.robot.proprio()["base_pos"][2]
    assert bench.run(20, a10=1.0)["base_pos"][2] > before + 0.005


def test_pose_action_reaches_a_pose(bench):
    position, rotation = bench.robot.site_pose()
    target = position + [0.05, 0.08, -0.06]
    for _ in range(40):
        bench.robot.set_action(pose_action(bench.robot, target, rotation, 0.0))
        drive(bench.model, bench.data, [bench.robot], SUBSTEPS)
    assert np.linalg.norm(bench.robot.site_pose()[0] - target) < 0.003


def test_quaternions_are_xyzw_and_come_back():
    rng = np.random.default_rng(0)
    for _ in range(5):
        quat = rng.normal(size=4)
        quat /= np.linalg.norm(quat) * np.sign(quat[3])
        assert quat_xyzw(rotation_of(quat)) == pytest.approx(quat)
    turn = rotation_of(np.array([0.0, 0.0, np.sin(0.2), np.cos(0.2)]))
    assert rotation_vector(turn) == pytest.approx([0.0, 0.0, 0.4])
