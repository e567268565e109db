"""The pocket cube in physics: start, mechanism, what is read and when, rescue rules."""

import mujoco
import numpy as np
import pytest

from families.f03_tabletop import cube, cube_solver, instances
from families.f03_tabletop import spec as s
from families.f03_tabletop.task import make
from rle.service.adapter import BadRequest
from rle.service.protocol import ObserveSpec
from rle.service.worker import check_observation, checked_evidence
from tests.families.f03_tabletop.scenes import check_camera, check_options, check_table

pytestmark = pytest.mark.xdist_group("f03")


@pytest.fixture(scope="module")
def puzzle():
    made = make("f03/pocket-cube")
    made.open_instance(instances.CubeInstance(turns=("+z-90", "+x-90"), optimum_qtm=2))
    return made


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


def test_a_solve_must_hold_for_five_control_steps_in_a_row(puzzle, monkeypatch):
    puzzle.reset()
    seen = iter([True] * 4 + [False] + [True] * 5)
    monkeypatch.setattr(puzzle, "_is_still_and_solved", lambda: next(seen))
    ended = [puzzle.after_step().ended for _ in range(10)]
    assert ended == [None] * 9 + ["success"]


@pytest.mark.parametrize(
    ("z", "lin", "ang", "cubie", "counts"),
    [
        (0.821, 0.0, 0.0, 0.0, True),
        (0.819, 0.0, 0.0, 0.0, False),
        (1.04, 0.0199, 0.149, 0.149, True),
        (1.04, 0.0201, 0.0, 0.0, False),
        (1.04, 0.0, 0.151, 0.0, False),
        (1.04, 0.0, 0.0, 0.151, False),
    ],
)
def test_what_is_still_enough_to_be_solved(puzzle, monkeypatch, z, lin, ang, cubie, counts):
    puzzle.reset()
    puzzle.counter = cube.TurnCounter(cube_solver.SOLVED)
    monkeypatch.setattr(type(puzzle), "core_z_m", property(lambda self: z))
    rates = puzzle.ready.data.qvel
    rates[puzzle._core_dof : puzzle._core_dof + 6] = (0.0, 0.6 * lin, 0.8 * lin, ang, 0.0, 0.0)
    rates[puzzle._cubie_dofs] = 0.0
    rates[puzzle._cubie_dofs[6]] = (0.6 * cubie, 0.0, 0.8 * cubie)
    assert puzzle._is_still_and_solved() is counts
    puzzle.counter = cube.TurnCounter(puzzle._scramble)
    assert not puzzle._is_still_and_solved(), "still, but not solved"


def test_the_cube_is_read_a_hundred_times_a_second(puzzle, monkeypatch):
    puzzle.reset()
    readings = []
    monkeypatch.setattr(puzzle.counter, "see", readings.append)
    for _ in range(2):
        puzzle.step(np.zeros(14))
    assert len(readings) == 2 * 100 / s.CONTROL_HZ


def test_a_solve_on_the_fork_ends_the_attempt(puzzle):
    puzzle.reset()
    puzzle.counter = cube.TurnCounter(cube_solver.SOLVED)
    puzzle._put_cube(cube_solver.SOLVED)
    seen = [puzzle.step(np.zeros(14)).ended for _ in range(8)]
    first = seen.index("success")
    assert first >= s.TURNS.solved_steps - 1
    assert puzzle.finish()["solved"] is True


@pytest.mark.parametrize(
    ("z", "speed", "allowed"),
    [(0.899, 0.0, True), (0.901, 0.0, False), (0.899, 0.049, True), (0.899, 0.051, False)],
)
def test_rescue_height_and_speed(puzzle, z, speed, allowed, monkeypatch):
    puzzle.reset()
    start = puzzle.observe(ObserveSpec())
    puzzle.step(np.tile([0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0], 2))
    puzzle.counter.turns, before = 3, puzzle.recoveries
    core = slice(puzzle._core_dof, puzzle._core_dof + 3)
    puzzle.ready.data.qvel[core] = (0.0, 0.6 * speed, -0.8 * speed)
    monkeypatch.setattr(type(puzzle), "core_z_m", property(lambda self: z))
    if not allowed:
        with pytest.raises(BadRequest, match="below z 0.9"):
            puzzle.extra("recover_drop", {})
        return
    out = puzzle.extra("recover_drop", {})
    assert out.executed == 1 and puzzle.recoveries == before + 1
    told = {**puzzle.step(np.zeros(14)).events, **out.events}
    assert told.keys() == {event.name for event in s.SESSIONS["f03/pocket-cube"].all_events}
    assert puzzle.counter.turns == 3, "counted turns stay"
    puzzle.extra("recover_drop", {})  # what it leaves, before anything moves
    assert puzzle.privileged()[cube.CORE][:3] == pytest.approx(s.CUBE_START_M, abs=1e-6)
    assert not puzzle.ready.data.qvel.any()
    now = puzzle.observe(ObserveSpec())
    for name in ("arm0_joint_pos", "arm1_joint_pos", "arm0_eef_pos", "arm1_eef_quat"):
        assert now[name] == pytest.approx(start[name], abs=2e-3)


def test_the_cube_weighs_and_measures_what_the_spec_says(puzzle):
    model = puzzle.ready.model
    assert sum(model.body(name).mass[0] for name in cube.CUBIES) == pytest.approx(0.064)
    assert model.body(cube.CORE).mass[0] == pytest.approx(s.MECHANISM.core_mass_kg)
    size = model.geom("cubie_0_geom").size
    assert 2 * size[0] == pytest.approx(s.MECHANISM.outer_m - s.MECHANISM.inner_m)
    m, cubie = s.MECHANISM, model.geom("cubie_0_geom")
    assert (cubie.condim[0], *cubie.friction) == (m.contact.condim, 0.0, 0.0, 0.0)
    assert cubie.solref == pytest.approx(m.contact.solref)
    assert cubie.solimp == pytest.approx(m.contact.solimp) and cubie.solmix[0] == m.solmix
    dof = int(model.joint("cubie_0_joint").dofadr[0])
    assert model.dof_frictionloss[dof : dof + 3] == pytest.approx(m.frictionloss)
    assert model.dof_armature[dof : dof + 3] == pytest.approx(m.armature)
    core = model.geom("core_geom")
    assert core.contype[0] == 0 and core.size[0] == m.core_radius_m
    for robot in puzzle.ready.robots:
        for pad in map(model.geom, robot.handles.pads):
            assert pad.friction == pytest.approx(s.CUBE_PAD_FRICTION)
            assert pad.condim[0] == s.CUBE_PAD_CONDIM
    check_options(model)
    check_table(model, s.CUBE_TABLE)
    posts = [model.geom(f"fork_post_{i}") for i in range(4)]
    assert all(g.type[0] == mujoco.mjtGeom.mjGEOM_BOX for g in posts), (
        "cylinders shoot the cube off"
    )
    assert {tuple(np.sign(g.pos[:2])) for g in posts} == {(x, y) for x in (-1, 1) for y in (-1, 1)}
    for post in posts:
        assert np.abs(post.pos[:2]) == pytest.approx(s.FORK.post_xy_m)
        ends = post.pos[2] - post.size[2], post.pos[2] + post.size[2]
        assert ends == pytest.approx(s.FORK.post_z_m)


def test_a_solved_cube_shows_one_colour_a_face(puzzle):
    """Red, orange, blue, green, white, yellow on +x, -x, +y, -y, +z, -z; stickers are drawn and touch nothing."""
    puzzle.reset()
    puzzle._put_cube(cube_solver.SOLVED)
    model, data = puzzle.ready.model, puzzle.ready.data
    stickers = [g for g in map(model.geom, range(model.ngeom)) if "_sticker_" in g.name]
    assert len(stickers) == 24 and not any(g.contype[0] or g.conaffinity[0] for g in stickers)
    centre = data.body(cube.CORE).xpos
    for sticker in stickers:
        away = data.geom(sticker.name).xpos - centre
        axis = int(np.argmax(np.abs(away)))
        face = ("+" if away[axis] > 0 else "-") + "xyz"[axis]
        assert sticker.rgba == pytest.approx(s.STICKER_RGBA[face], abs=1e-6)


def test_both_arms_start_pointing_at_the_cube_and_act_in_their_own_frame(puzzle):
    model = puzzle.ready.model
    for i, robot in enumerate(puzzle.ready.robots):
        root = model.body(robot.handles.root_body)
        assert root.pos == pytest.approx(s.ARM_BASES_M[i])
        assert root.quat == pytest.approx(s.ARM_QUATS_WXYZ[i])
    for i, towards in enumerate((1.0, -1.0)):
        puzzle.reset()
        position, rotation = puzzle.ready.robots[i].site_pose()
        assert rotation[:, 2] == pytest.approx([towards, 0.0, 0.0], abs=0.01), "approaches along x"
        assert abs(rotation[2, 0]) == pytest.approx(1.0, abs=0.01), "opens along z"
        _, frame = puzzle.ready.robots[i].base_pose()
        action = np.zeros(14)
        action[7 * i + 2] = 0.5  # own z, which leans by 45 degrees
        for _ in range(4):
            puzzle.step(action)
        moved = puzzle.ready.robots[i].site_pose()[0] - position
        assert moved @ frame[:, 2] / np.linalg.norm(moved) > 0.97
        assert abs(frame[2, 2]) == pytest.approx(np.sqrt(0.5), abs=1e-3)


def test_the_front_camera_is_where_the_task_says(puzzle):
    eye, told = check_camera(puzzle, s.SESSIONS["f03/pocket-cube"].calibration["front"])
    looks = np.array([0.0, 0.0, 1.055]) - eye
    assert -told[:, 2] == pytest.approx(looks / np.linalg.norm(looks))


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
