"""What a policy sees (layout, frames, history) and what its files must be."""

import msgspec
import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from families.f04_tracking import policy, spec
from rle.errors import InvalidSubmission
from tests.families.f04_tracking import graphs

N = 5


def random_quat(rng: np.random.Generator, *shape: int) -> np.ndarray:
    quat = rng.standard_normal((*shape, 4))
    return quat / np.linalg.norm(quat, axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def batch():
    """Five random states, reference frames, offsets and actions."""
    rng = np.random.default_rng(0)
    bodies = (N, spec.N_TRACKED)
    robot = policy.Robot(
        joint_pos=rng.standard_normal((N, 29)),
        joint_vel=rng.standard_normal((N, 29)),
        imu_lin_vel=rng.standard_normal((N, 3)),
        imu_ang_vel=rng.standard_normal((N, 3)),
        body_pos=rng.standard_normal((*bodies, 3)),
        body_quat_wxyz=random_quat(rng, *bodies),
    )
    ref_quat_wxyz = random_quat(rng, *bodies)
    anchor = ref_quat_wxyz[:, spec.ANCHOR_INDEX]
    target = policy.Target(
        joint_pos=rng.standard_normal((N, 29)),
        joint_vel=rng.standard_normal((N, 29)),
        body_pos=rng.standard_normal((*bodies, 3)),
        body_quat_wxyz=ref_quat_wxyz,
        body_lin_vel=np.zeros((*bodies, 3)),
        body_ang_vel=np.zeros((*bodies, 3)),
        anchor_rotation=np.array([rotation(q).as_matrix() for q in anchor]),
    )
    return robot, target, rng.standard_normal((N, 29)), rng.standard_normal((N, 29))


def rotation(quat_wxyz: np.ndarray) -> Rotation:
    return Rotation.from_quat(np.roll(quat_wxyz, -1))


def test_frame_is_what_the_card_says(batch):
    """Each block against scipy, robot by robot."""
    robot, target, offset, last = batch
    frames = policy.observe(robot, target, offset, last)
    assert frames.shape == (N, spec.OBS_DIM)
    anchor = spec.ANCHOR_INDEX
    for i in range(N):
        torso = rotation(robot.body_quat_wxyz[i, anchor])
        ref = rotation(target.body_quat_wxyz[i, anchor])
        difference = target.body_pos[i, anchor] - robot.body_pos[i, anchor]
        turn = (torso.inv() * ref).as_matrix()
        expected = {
            "ref_joint_pos": target.joint_pos[i],
            "ref_joint_vel": target.joint_vel[i],
            "anchor_pos_error": torso.apply(difference, inverse=True),
            "anchor_rot_error": [turn[r, c] for r in range(3) for c in range(2)],
            "imu_lin_vel": robot.imu_lin_vel[i],
            "imu_ang_vel": robot.imu_ang_vel[i],
            "joint_pos": robot.joint_pos[i] + offset[i],
            "joint_vel": robot.joint_vel[i],
            "last_action": last[i],
        }
        for block in spec.OBS_BLOCKS:
            assert frames[i, block.start : block.stop] == pytest.approx(expected[block.name]), block


def test_critic_is_what_the_card_says(batch):
    robot, target, offset, last = batch
    frame = policy.observe(robot, target, offset, last)
    critic = policy.observe_critic(frame, robot)
    assert critic.shape == (N, spec.CRITIC_DIM)
    assert np.array_equal(critic[:, :67], frame[:, :67])
    assert np.array_equal(critic[:, 67 + 126 :], frame[:, 67:])
    for i in range(N):
        torso = rotation(robot.body_quat_wxyz[i, spec.ANCHOR_INDEX])
        for j in range(spec.N_TRACKED):
            arm = robot.body_pos[i, j] - robot.body_pos[i, spec.ANCHOR_INDEX]
            position = critic[i, 67 + 3 * j : 70 + 3 * j]
            assert position == pytest.approx(torso.apply(arm, inverse=True))
            turn = (torso.inv() * rotation(robot.body_quat_wxyz[i, j])).as_matrix()
            six = critic[i, 67 + 42 + 6 * j : 67 + 48 + 6 * j]
            assert six == pytest.approx(turn[:, :2].ravel())


def test_torch_builds_the_same_observations(batch):
    robot, target, offset, last = batch
    frame = policy.observe(robot, target, offset, last)
    t_robot = policy.Robot(*map(torch.as_tensor, robot))
    t_target = policy.Target(*map(torch.as_tensor, target))
    t_frame = policy.observe(
        t_robot, t_target, torch.as_tensor(offset), torch.as_tensor(last), xp=torch
    )
    assert t_frame.numpy() == pytest.approx(frame, abs=1e-12)
    t_critic = policy.observe_critic(t_frame, t_robot, xp=torch)
    assert t_critic.numpy() == pytest.approx(policy.observe_critic(frame, robot), abs=1e-12)


def test_a_batch_is_its_robots_one_by_one(batch):
    robot, target, offset, last = batch
    frames = policy.observe(robot, target, offset, last)
    for i in range(N):
        one = policy.Robot(*(a[i : i + 1] for a in robot))
        single = policy.observe(one, target.at(slice(i, i + 1)), offset[i], last[i : i + 1])
        assert single[0] == pytest.approx(frames[i], abs=1e-12)


@pytest.mark.parametrize(
    "like", [None, torch.zeros(1, dtype=torch.float32)], ids=["numpy", "torch"]
)
def test_history_is_oldest_to_newest_with_zeros_before(like):
    window = policy.History(2, 3, like)
    make = np.full if like is None else torch.full
    for value in (1.0, 2.0):
        window.push(make((2, 160), value))
    array = np.asarray(window.array)
    assert array.shape == (2, 480) and array.dtype == np.float32
    assert (array[:, :160] == 0.0).all()
    assert (array[:, 160:320] == 1.0).all() and (array[:, 320:] == 2.0).all()
    window.clear([1])
    assert np.asarray(window.array)[0].any() and not np.asarray(window.array)[1].any()


# ------------------------------------------------------------------------------------------ files


@pytest.mark.parametrize("history", [1, 16])
def test_meta_accepts_the_ends_of_the_range(history):
    meta = {
        "obs_history_length": history,
        "obs_dim": 160,
        "action_dim": 29,
        "n_params": 5,
        "by": "me",
    }
    read = policy.read_meta(msgspec.json.encode(meta))
    assert (read.obs_history_length, read.n_params) == (history, 5)


@pytest.mark.parametrize(
    ("text", "code", "fact"),
    [
        (b"{", "f04.meta", "JSON"),
        (b"\xff", "f04.meta", "JSON"),
        (b"[1]", "f04.meta", "list"),
        (b"{}", "f04.history", "1..16, got nothing"),
        (b'{"obs_history_length": 0}', "f04.history", "got 0"),
        (b'{"obs_history_length": 17}', "f04.history", "1..16, got 17"),
        (b'{"obs_history_length": true}', "f04.history", "got true"),
        (b'{"obs_history_length": "4"}', "f04.history", 'got "4"'),
        (b'{"obs_history_length": 4.0}', "f04.history", "got 4.0"),
        (b'{"obs_history_length": 4, "obs_dim": 161}', "f04.meta_dim", "obs_dim must be 160"),
        (b'{"obs_history_length": 4, "action_dim": 23}', "f04.meta_dim", "action_dim must be 29"),
    ],
)
def test_meta_refuses_with_the_fact(text, code, fact):
    with pytest.raises(InvalidSubmission, match="policy_meta|obs|action") as caught:
        policy.read_meta(text)
    assert caught.value.code == code and fact in caught.value.message


def test_contract_repeats_the_card():
    contract = policy.contract(4)
    assert contract.inputs[0].shape == (1, 640) and contract.outputs[0].shape == (1, 29)
    assert (contract.inputs[0].dtype, contract.outputs[0].dtype) == ("float32", "float32")
    assert contract.max_parameters == 10_000_000 and contract.max_bytes == 64 * 2**20
    assert contract.probes.latency_cap_s == 0.010


def test_local_graph_runs_and_names_what_does_not_fit():
    graph = policy.LocalGraph(graphs.open_loop(4).SerializeToString(), 4)
    frames = np.zeros((1, 640), np.float32)
    assert graph.act(frames)[0] == pytest.approx(-graphs.DEFAULT / graphs.SCALE)
    with pytest.raises(InvalidSubmission, match="history 1") as caught:
        policy.LocalGraph(graphs.open_loop(4).SerializeToString(), 1)
    assert caught.value.code == "onnx.io"
    with pytest.raises(InvalidSubmission) as caught:
        policy.LocalGraph(b"not a graph", 1)
    assert caught.value.code == "onnx.load"
