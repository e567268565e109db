"""A record replayed: the same states to the bit, the counters over time, the film of a trial."""

import math
import types

import numpy as np
import pytest

from families.f03_tabletop import instances, verify
from families.f03_tabletop import spec as s
from families.f03_tabletop.task import make
from rle import seeds
from rle.service import embedded
from rle.sim.arm_control import quat_xyzw, rotation_of

pytestmark = pytest.mark.xdist_group("f03")
TASK = "f03/balance"


def context(folder, task=TASK):
    """What replay needs of a verifier's context."""
    family, slug = task.split("/")

    def rng(stream, trial):
        key = seeds.trial_key(family, slug, "hidden", trial, seeds.PRACTICE_SALT)
        return seeds.stream(key, stream)

    submission = types.SimpleNamespace(
        read=lambda name: (folder / name).read_bytes(),
        names=lambda: tuple(p.name for p in folder.iterdir()),
    )
    return types.SimpleNamespace(
        task=types.SimpleNamespace(id=task, slug=slug), submission=submission, rng=rng
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A session with every kind of charged operation; its folder and last state."""
    folder = tmp_path_factory.mktemp("session")
    adapter = make(TASK)
    rng = np.random.default_rng(5)
    with embedded.open(s.SESSIONS[TASK], folder=folder, adapter=adapter) as sim:
        sim.step(rng.uniform(-1.0, 1.0, (4, 12)))
        sim.reset()
        sim.call("beam", locked=False)
        target = sim.observe()["eef_pos"] + [0.0, 0.03, -0.02]
        turned = rotation_of(sim.observe()["eef_quat"]) @ spin_z(0.4)
        moved = sim.move(target, quat_xyzw(turned), gripper=1.0, steps=5, observe=())
        sim.call("beam", locked=True)
        sim.step(rng.uniform(-1.0, 1.0, (3, 12)))
        state = adapter.ready.data.qpos.copy()
    return folder, adapter, state, (target, turned, moved)


def spin_z(angle_rad):
    """Rotation about z. Shape (3, 3)."""
    c, sn = math.cos(angle_rad), math.sin(angle_rad)
    return np.array([[c, -sn, 0.0], [sn, c, 0.0], [0.0, 0.0, 1.0]])


def test_a_move_tells_how_far_off_it_ended(played):
    # |p* - p| and the angle of R* R^T, acos((tr - 1) / 2), from the observation of the same reply.
    target, turned, moved = played[3]
    here, now = moved.observation["eef_pos"], rotation_of(moved.observation["eef_quat"])
    angle = math.acos((np.trace(turned @ now.T) - 1.0) / 2.0)
    assert moved.events["move_error_m"] == pytest.approx(np.linalg.norm(target - here), abs=1e-6)
    assert moved.events["move_error_rad"] == pytest.approx(angle, abs=1e-5)
    assert 0.001 < moved.events["move_error_m"] < 0.036 and 0.01 < angle < 0.4, "on its way"


def test_a_replayed_record_ends_in_the_same_state_to_the_bit(played):
    folder, adapter, state, _ = played
    ctx = context(folder)
    record = list(verify.recorded(ctx))
    assert [o.op for o in record] == [
        "open",
        "step",
        "reset",
        "beam",
        "move",
        "beam",
        "step",
        "close",
    ]
    actions = np.frombuffer((folder / "actions.f32").read_bytes(), "<f4").reshape(-1, 12)
    instance = instances.draw(TASK, ctx.rng(instances.STREAM, 0))
    steps = sum(1 for _ in verify.replay(adapter, instance, record, actions)) - 1
    assert steps == sum(o.executed for o in record) == 4 + 1 + 1 + 5 + 1 + 3
    assert np.array_equal(adapter.ready.data.qpos, state)


def test_counters_over_time_come_from_the_record(played):
    line = verify.timelines(context(played[0]))[0]
    assert set(line) == {"t_s", "weighings"}
    assert line["t_s"] == [0.0, 15 / s.CONTROL_HZ] and line["weighings"] == [0.0, 0.0]
    assert verify.timelines(context(played[0], "f03/tower")) == {}


def test_a_film_and_pictures_are_drawn_from_the_record(played, tmp_path):
    verify.media(context(played[0]), tmp_path)
    names = {p.name for p in tmp_path.iterdir()}
    seen = {f"t00_seen_{w}.jpg" for w in ("1_start_left", "2_halfway_left", "3_end_wrist")}
    assert {"t00.mp4", "t00.jpg"} | seen <= names
    assert (tmp_path / "t00.mp4").stat().st_size > 1000


def test_a_record_without_actions_has_no_film(played, tmp_path):
    folder = tmp_path / "hand"
    folder.mkdir()
    (folder / "ledger.jsonl").write_bytes((played[0] / "ledger.jsonl").read_bytes())
    out = tmp_path / "out"
    out.mkdir()
    verify.media(context(folder), out)
    assert not list(out.iterdir())
