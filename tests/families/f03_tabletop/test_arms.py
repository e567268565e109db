"""Pocket cube and sealed boxes in physics: starts, secrecy before contact, mass properties, rescue rules."""

import mujoco
import numpy as np
import pytest

from families.f03_tabletop import cube, cube_solver, hidden_com, instances
from families.f03_tabletop import spec as s
from families.f03_tabletop.task import make
from rle.errors import SimulationError
from rle.service import embedded
from rle.service.adapter import BadRequest
from rle.service.client import SimError
from rle.service.protocol import ObserveSpec
from rle.service.worker import check_observation, checked_evidence
from rle.sim.arm_control import quat_xyzw

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


@pytest.fixture(scope="module")
def puzzle():
    made = make("f03/pocket-cube")
    made.open_instance(instances.CubeInstance(turns=("+z-90", "+x-90"), optimum_qtm=2))
    return made


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


def test_the_cube_starts_scrambled_upright_and_still(puzzle):
    puzzle.reset()
    state = puzzle.privileged()
    expected = cube_solver.apply(cube_solver.SOLVED, ["+z-90", "+x-90"])
    canonical = cube_solver.canonical(state["state"].astype(np.uint8))
    assert (canonical == cube_solver.canonical(expected)).all()
    assert state[cube.CORE][:3] == pytest.approx(s.CUBE_START_M, abs=1e-3)
    observed = puzzle.observe(ObserveSpec())
    check_observation(observed, s.SESSIONS["f03/pocket-cube"], ObserveSpec())
    assert observed["arm0_eef_pos"] == pytest.approx([-0.136, 0.0, 1.04], abs=2e-3)
    assert observed["arm1_eef_pos"] == pytest.approx([0.136, 0.0, 1.04], abs=2e-3)
    out = puzzle.step(np.zeros(14))
    assert out.success is False and out.events == {"turns": 0, "unclassified": 0}
    evidence = checked_evidence(puzzle.finish())
    assert evidence == {"solved": False, "turns": 0, "unclassified": 0, "recoveries": 0}


def test_no_renderer_exists_before_a_picture_is_asked_for(puzzle):
    puzzle.reset()
    puzzle.step(np.zeros(14))
    puzzle.observe(ObserveSpec())
    assert puzzle._frames is None


def test_a_solve_must_hold_for_five_control_steps(puzzle):
    puzzle.reset()
    puzzle.counter = cube.TurnCounter(cube_solver.SOLVED)
    puzzle._put_cube(cube_solver.SOLVED)
    seen = [puzzle.step(np.zeros(14)).ended for _ in range(8)]
    first = seen.index("success")
    assert first >= s.TURNS.solved_steps - 1
    assert puzzle.finish()["solved"] is True


@pytest.mark.parametrize(("z", "allowed"), [(0.899, True), (0.901, False)])
def test_rescue_height(puzzle, z, allowed, monkeypatch):
    puzzle.reset()
    puzzle.counter.turns = 3
    monkeypatch.setattr(type(puzzle), "core_z_m", property(lambda self: z))
    if not allowed:
        with pytest.raises(BadRequest, match="below z 0.9"):
            puzzle.extra("recover_drop", {})
        return
    out = puzzle.extra("recover_drop", {})
    assert out.executed == 1 and puzzle.recoveries == 1
    told = {**puzzle.step(np.zeros(14)).events, **out.events}
    assert told.keys() == {event.name for event in s.SESSIONS["f03/pocket-cube"].all_events}
    assert puzzle.counter.turns == 3, "counted turns stay"
    assert puzzle.privileged()[cube.CORE][:3] == pytest.approx(s.CUBE_START_M, abs=1e-6)


def test_the_cube_weighs_and_measures_what_the_spec_says(puzzle):
    model = puzzle.ready.model
    assert sum(model.body(name).mass[0] for name in cube.CUBIES) == pytest.approx(0.064)
    assert model.body(cube.CORE).mass[0] == pytest.approx(s.MECHANISM.core_mass_kg)
    size = model.geom("cubie_0_geom").size
    assert 2 * size[0] == pytest.approx(s.MECHANISM.outer_m - s.MECHANISM.inner_m)
    assert sum(model.geom(i).name.startswith("cubie_") and "sticker" in model.geom(i).name
               for i in range(model.ngeom)) == 24  # fmt: skip


def test_a_layer_turned_low_is_not_kept_by_the_rescue(puzzle, monkeypatch):
    puzzle.reset()
    monkeypatch.setattr(type(puzzle), "core_z_m", property(lambda self: 0.85))
    puzzle._put_cube(cube_solver.SOLVED)  # as if turned by hand while it lies on the table
    puzzle.step(np.zeros(14))
    puzzle.extra("recover_drop", {})
    state = cube_solver.canonical(puzzle.privileged()["state"].astype(np.uint8))
    assert (state == cube_solver.canonical(puzzle._scramble)).all()


def test_a_freed_layer_stops_within_five_degrees(puzzle):
    # Dry friction takes E = n tau angle from n = 4 cubies; I = n (m (2 (l/2)^2 + l^2/6) + armature).
    m, energy_j = s.MECHANISM, 3e-4
    side = m.outer_m - m.inner_m
    each = m.cubie_mass_kg * (2 * ((m.outer_m + m.inner_m) / 2) ** 2 + side**2 / 6) + m.armature
    expected_rad = energy_j / (4 * m.frictionloss)
    puzzle.reset()
    puzzle._put_cube(cube_solver.SOLVED)
    scene = puzzle.ready
    inertia = scene.model.body(cube.CORE).inertia
    light = inertia.copy()
    inertia[:] = 1.0  # the core does not give way
    upper = cube.CORNERS[:, 2] > 0
    scene.data.qvel[puzzle._cubie_dofs[upper, 2]] = np.sqrt(2 * energy_j / (4 * each))
    core = slice(puzzle._core_qpos, puzzle._core_qpos + 7)
    rest = puzzle._cubie_qpos[~upper]
    kept = scene.data.qpos[core].copy(), scene.data.qpos[rest].copy()
    for _ in range(100):  # the lower half and the core are held
        mujoco.mj_step(scene.model, scene.data)
        scene.data.qpos[core], scene.data.qpos[rest] = kept
        scene.data.qvel[puzzle._core_dof : puzzle._core_dof + 6] = 0.0
        scene.data.qvel[puzzle._cubie_dofs[~upper]] = 0.0
    mujoco.mj_forward(scene.model, scene.data)
    inertia[:] = light
    state, angle = cube.nearest(puzzle.relative_rotations())
    assert (state == cube_solver.SOLVED).all()
    assert angle == pytest.approx(expected_rad, rel=0.15) and angle < np.radians(5.0)
    assert np.abs(scene.data.qvel[puzzle._cubie_dofs[upper]]).max() < 0.01


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
