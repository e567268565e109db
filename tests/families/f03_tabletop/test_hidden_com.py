"""Sealed boxes in physics: secrecy before contact, mass properties, how a lifted box hangs, failures of the scene."""

import gymnasium
import mujoco
import numpy as np
import pytest

from families.f03_tabletop import hidden_com, instances
from families.f03_tabletop import spec as s
from families.f03_tabletop.task import make
from families.f03_tabletop.verify import score_evidence
from rle.envs.served import AdapterEnv
from rle.errors import SimulationError
from rle.service import embedded
from rle.service.client import SimError
from rle.service.protocol import ObserveSpec
from rle.service.worker import check_observation
from rle.sim.arm_control import quat_xyzw
from tests.families.f03_tabletop.scenes import check_camera, check_options, check_table

pytestmark = pytest.mark.xdist_group("f03")


def box(quadrant: str, offset=(0.037, 0.037)) -> instances.BoxInstance:
    signs = s.QUADRANTS[quadrant]
    return instances.BoxInstance(
        quadrant=quadrant, shell_kg=0.17, ballast_kg=0.30,
        offset_m=(signs[0] * offset[0], signs[1] * offset[1]), ballast_half_m=(0.015, 0.015, 0.015),
    )  # fmt: skip


@pytest.fixture(scope="module")
def hidden():
    return make("f03/hidden-com")


def test_pictures_before_contact_are_the_same_bytes_for_every_quadrant(hidden):
    look = ObserveSpec(cameras=("workspace", "closeup", "top"), width_px=64, height_px=64)
    seen = []
    for quadrant in "ABCD":
        hidden.open_instance(box(quadrant))
        for _ in range(2):
            hidden.step(np.array([0.0, 0.0, 0.2, 0.0, 0.0, 0.0, 1.0]))
        seen.append(hidden.observe(look))
    for other in seen[1:]:
        assert all(np.array_equal(seen[0][name], other[name]) for name in seen[0])
    check_observation(seen[0], s.SESSIONS["f03/hidden-com"], look)
    hidden.ready.model.site_rgba[:] = (1.0, 0.0, 0.0, 1.0)
    hidden.ready.model.site_size[:] = 0.05
    again = hidden.observe(ObserveSpec(cameras=("closeup",), width_px=64, height_px=64))
    assert np.array_equal(again["closeup_image"], seen[-1]["closeup_image"]), "sites are not drawn"
    assert hidden.finish() == {"touched": False}


def test_the_model_has_the_drawn_mass_properties(hidden):
    instance = box("B")
    hidden.open_instance(instance)
    model = hidden.ready.model
    body, bar = model.body(hidden_com.BODY), model.body(hidden_com.BAR)
    total = instances.total_mass_kg(0.17, 0.30)
    assert body.mass[0] + bar.mass[0] == pytest.approx(total)
    # Only the ballast is off the middle: x_com = m_b x_b / M, the bar's mass included.
    moment = body.mass[0] * body.ipos[:2]
    assert moment / total == pytest.approx(np.array([0.037, 0.037]) * 0.30 / total)
    _, _, inertia = hidden_com.mass_properties(instance)
    assert np.sort(body.inertia) == pytest.approx(np.linalg.eigvalsh(inertia))
    check_options(model)
    check_table(model, s.HIDDEN_TABLE)
    assert model.geom("box_shell").friction[0] == s.BOX.friction
    assert model.geom("handle_bar_geom").friction[0] == s.BOX.handle_friction
    assert hidden.action_dim == 7 and len(hidden.ready.robots) == 1


def test_letters_are_ink_in_their_quadrants(hidden):
    hidden.open_instance(box("A"))
    model = hidden.ready.model
    dots: dict[str, list[np.ndarray]] = {}
    for geom in map(model.geom, range(model.ngeom)):
        if geom.name.startswith("letter_"):
            assert geom.contype[0] == geom.conaffinity[0] == 0
            dots.setdefault(geom.name.split("_")[1], []).append(geom.pos.copy())
    assert dots.keys() == set("ABCD")
    where = {"A": (-1, 1), "B": (1, 1), "C": (-1, -1), "D": (1, -1)}
    for letter, places in dots.items():
        middle = np.mean(places, axis=0)[:2]
        assert middle == pytest.approx(0.039 * np.array(where[letter]), abs=0.005)
    assert set(hidden.privileged()) == {hidden_com.BODY}


@pytest.mark.parametrize("quadrant", ["A", "D"])
def test_a_lifted_box_hangs_with_its_centre_of_mass_below_the_bar(hidden, quadrant):
    # tan(lean) = y_com / (z_bar - z_com); the smallest shift that is drawn.
    hidden.open_instance(box(quadrant, offset=(0.032, 0.032)))
    start, rotation = hidden.ready.robots[0].site_pose()
    x, y, z = s.BOX.start_m
    bar = np.array([x, y, z + s.BOX.bar_z_m - 0.003])
    quat = quat_xyzw(rotation)
    for target, gripper, steps in (
        (bar + [0, 0, 0.05], -1.0, 40), (bar, -1.0, 30), (bar, 1.0, 12),
        (bar + [0, 0, 0.20], 1.0, 40),
    ):  # fmt: skip
        for _ in range(steps):
            hidden.step(hidden.move_action(target, quat, gripper))
    leans = []
    for _ in range(40):  # the fingers give way together, and the box swings a little about its rest
        hidden.step(hidden.move_action(target, quat, gripper))
        leans.append(hidden.lean_rad())
    about_x, about_y = np.mean(leans, axis=0)
    com = hidden.ready.model.body(hidden_com.BODY).ipos
    expected = np.arctan2(com[1], s.BOX.bar_z_m - com[2])
    assert about_x == pytest.approx(-expected, abs=np.radians(1.5))
    assert np.sign(about_y) == np.sign(com[0]) and abs(about_y) > np.radians(3.0)


def test_an_episode_is_worth_its_answer(hidden):
    """The environment: reward 0 until the box is answered, then the score; nothing after it."""
    env = AdapterEnv(s.SESSIONS["f03/hidden-com"], hidden, score_evidence)
    rewards = []
    for right in (True, False):
        env.reset(seed=3)
        _, reward, ended, _, _ = env.step(np.zeros(7))
        assert (reward, ended) == (0.0, False)
        truth = env.adapter.instance.quadrant
        _, reward, ended, _, info = env.submit(truth if right else "ABCD".replace(truth, "")[0])
        assert ended and info["ended"] == "submitted"
        rewards.append(reward)
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(np.zeros(7))
    assert rewards == [1.0, 0.0]


def test_mass_properties_in_the_limits():
    # A lone thin-walled box: the inertia of six plates, about its centre by symmetry.
    light = instances.BoxInstance(
        quadrant="A", shell_kg=1.0, ballast_kg=1e-12, offset_m=(0.0, 0.0),
        ballast_half_m=(0.01, 0.01, 0.01),
    )  # fmt: skip
    mass, centre, inertia = hidden_com.mass_properties(light)
    assert mass == pytest.approx(1.0 + 2 * s.BOX.post_mass_kg)
    assert centre[:2] == pytest.approx([0.0, 0.0], abs=1e-9)
    values = np.linalg.eigvalsh(inertia)
    assert values.min() > 0 and values[0] + values[1] >= values[2], "a rigid body's inertia"
    # Parallel axes: a point mass at d has m (|d|^2 E - d d^T).
    shifted = hidden_com.shifted(np.zeros((3, 3)), 2.0, np.array([0.0, 0.0, 3.0]))
    assert shifted == pytest.approx(np.diag([18.0, 18.0, 0.0]))


def test_the_cameras_of_the_boxes_are_where_the_task_says(hidden):
    hidden.open_instance(box("A"))
    seen = {
        facts["name"]: check_camera(hidden, facts)
        for facts in s.SESSIONS["f03/hidden-com"].calibration["cameras"]
    }
    assert tuple(seen) == s.SESSIONS["f03/hidden-com"].cameras == ("workspace", "closeup", "top")
    eye, axes = seen["top"]
    assert eye == pytest.approx([0.03, 0.0, 1.71])
    assert axes == pytest.approx(np.eye(3), abs=1e-9), "straight down, +y up in the picture"


def test_physics_that_gives_up_ends_the_scene_and_not_the_session(hidden, monkeypatch):
    # MuJoCo's fatal error of a diverged state: the box starts again once with its steps used, then it is closed
    # as `sim_error`, and the next box opens.
    def gives_up(*_):
        raise mujoco.FatalError("FactorizeHessian: rank-deficient")

    whole = mujoco.mj_step2
    with embedded.open(s.SESSIONS["f03/hidden-com"], adapter=hidden) as sim:
        for trial, live_trial in ((0, 0), (0, 1)):
            sim.step(np.zeros((1, 7)))
            monkeypatch.setattr(mujoco, "mj_step2", gives_up)
            with pytest.raises(SimError, match=f"in trial {trial}; .* steps stay charged"):
                sim.step(np.zeros((3, 7)))
            monkeypatch.setattr(mujoco, "mj_step2", whole)
            assert (sim.status.trial, sim.status.live) == (live_trial, True)
        assert sim.step(np.zeros((1, 7))).executed == 1
        assert sim.session.trials()[0].ended == "sim_error"


def test_a_held_scene_that_gives_up_is_a_named_error(hidden, monkeypatch):
    def gives_up(*_):
        raise mujoco.FatalError("FactorizeHessian: rank-deficient")

    hidden.open_instance(box("A"))
    monkeypatch.setattr(mujoco, "mj_step", gives_up)
    with pytest.raises(SimulationError, match=r"held scene at 0\.\d+ s: FactorizeHessian"):
        hidden.reset()
