"""Physics of tower and cantilever against closed forms and known stacks; what counts and what does not."""

import math

import mujoco
import pytest

from families.f03_tabletop import instances, metrics, tabletop, task
from families.f03_tabletop import spec as s
from tests.families.f03_tabletop.scenes import check_options, check_piece, check_table, put, spread

pytestmark = pytest.mark.xdist_group("f03")
GAP_M = 1e-4
FLAT_STACK = ("cube_a", "cube_b", "cyl_b", "cyl_a", "cube_c", "plate_a", "plate_b", "rod")


@pytest.fixture(scope="module")
def tower():
    made = tabletop.Tower("f03/tower")
    made.open_instance(instances.TowerInstance(scales=(1.0,) * 12, poses=spread(12)))
    return made


@pytest.fixture(scope="module")
def cantilever():
    made = tabletop.Cantilever("f03/cantilever")
    made.open_instance(instances.CantileverInstance(poses=spread(4)))
    return made


def stack(adapter, names, x=0.1, y=0.55):
    z = s.TABLE.top_z_m
    pieces = {p.name: p for p in s.PIECES}
    for name in names:
        z += GAP_M + pieces[name].rest_z_m
        put(adapter, name, (x, y, z))
        z += pieces[name].rest_z_m


def cap(tower, name, x=0.1, y=0.55):
    """Stands a wedge on its small leg face on what is there, its centre of mass over (x, y)."""
    long_m, short_m, _ = next(p.size_m for p in s.PIECES if p.name == name)
    angle = math.pi / 2 + math.atan2(
        short_m, long_m
    )  # the long leg, at atan(short/long), turned down
    model, data = tower.ready.model, tower.ready.data
    top = max(tabletop.vertical_extent_m(model, data, f"{n}_geom")[1] for n in FLAT_STACK)
    for z in (2.0, None):
        if z is None:
            low, _ = tabletop.vertical_extent_m(model, data, f"{name}_geom")
            z = 2.0 - low + top + GAP_M
        put(tower, name, (x, y, z), pitch_quat=(math.cos(angle / 2), 0.0, math.sin(angle / 2), 0.0))


@pytest.mark.parametrize(
    ("wedge", "beside_m", "score"),
    [(None, (0.0, 0.0), 0.8350), ("wedge_a", (0.0, 0.0), 1.0), ("wedge_a", (-5e-4, 3e-4), 1.0)],
)
def test_the_flat_stack_stands_and_is_measured(tower, wedge, beside_m, score):
    """Also where MuJoCo's native convex collider, for one step, saw the rod 39 mm deep in its plate: that cap beside the middle."""
    tower.reset()
    stack(tower, FLAT_STACK)
    if wedge:
        cap(tower, wedge, 0.1 + beside_m[0], 0.55 + beside_m[1])
    names = tower.ready.robots[0].handles.joints
    posture = [float(tower.ready.data.joint(n).qpos[0]) for n in names]
    evidence = tower.finish()
    got = metrics.tower(evidence["height_m"], metrics.tower_optimum_m((1.0,) * 12))
    assert got == pytest.approx(score, abs=0.003)
    assert evidence["pieces_supported"] == 12 and evidence["excluded"] == ""
    assert evidence["settle_s"] == s.SETTLE_MIN_S, "quiet at once"
    assert [float(tower.ready.data.joint(n).qpos[0]) for n in names] == posture, "held as it was"


def test_nothing_done_is_the_rod_alone(tower):
    tower.reset()
    evidence = tower.finish()
    assert evidence["height_m"] == pytest.approx(0.120, abs=1e-3)
    floor = metrics.tower(evidence["height_m"], metrics.tower_optimum_m((1.0,) * 12))
    assert floor <= 0.27


def test_a_piece_that_falls_between_the_readings_counts_by_the_lower_one(tower):
    tower.reset()
    put(tower, "sphere", (0.1, 0.55, s.TABLE.top_z_m + 0.5))
    evidence = tower.finish()
    assert evidence["height_m"] < 0.2


def reading(edges, values=None) -> task.Reading:
    """Contacts and heights made by hand."""
    return task.Reading(edges=frozenset(edges), on_robot=frozenset(), values=values or {})


def test_a_stack_that_topples_between_the_readings_has_the_lower_height(tower, monkeypatch):
    on_table = [(n, "table") for n in s.PIECE_NAMES]
    before = reading(on_table, {n: 0.4 for n in s.PIECE_NAMES})
    after = reading(on_table, {n: 0.1 for n in s.PIECE_NAMES})
    monkeypatch.setattr(
        tabletop, "settle", lambda *_: task.Settled((before, after), {}, s.SETTLE_MIN_S)
    )
    evidence = tower.finish()
    assert evidence["height_m"] == 0.1 and evidence["height_first_m"] == 0.4


@pytest.mark.parametrize("reason", ["touches_robot", "moving"])
def test_what_leans_on_the_robot_or_moves_carries_nothing(reason):
    # table - a - b - c, with a propped by a hand (or sliding): a, b and c count nowhere, d does.
    now = reading([("a", "table"), ("a", "b"), ("c", "b"), ("table", "d")])
    settled = task.Settled((now, now), {"a": reason}, s.SETTLE_MIN_S)
    assert settled.supported(now) == {"d"}


@pytest.mark.parametrize("name", [p.name for p in s.PIECES])
def test_the_start_rests_exactly_on_the_table(tower, name):
    """Upright, flat, lying on the largest face; the table gives way by less than 0.2 mm."""
    piece = next(p for p in s.PIECES if p.name == name)
    height = piece.column_m or piece.cap_m
    if piece.shape == "wedge":  # the altitude on the hypotenuse
        height = piece.size_m[0] * piece.size_m[1] / math.hypot(*piece.size_m[:2])
    tower.reset()
    low, high = tabletop.vertical_extent_m(tower.ready.model, tower.ready.data, f"{name}_geom")
    assert low == pytest.approx(s.TABLE.top_z_m, abs=2e-4)
    assert high - low == pytest.approx(height, abs=2e-5)


VOLUMES_M3 = {
    "box": lambda a, b, c: 8 * a * b * c,
    "cylinder": lambda r, h: 2 * math.pi * r**2 * h,
    "sphere": lambda r: 4 / 3 * math.pi * r**3,
    "capsule": lambda r, h: 2 * math.pi * r**2 * h + 4 / 3 * math.pi * r**3,
    "wedge": lambda a, b, depth: a * b / 2 * depth,
}


@pytest.mark.parametrize("piece", s.PIECES, ids=lambda p: p.name)
def test_a_piece_weighs_and_rubs_as_stated(tower, piece):
    model = tower.ready.model
    volume = VOLUMES_M3[piece.shape](*piece.size_m)
    assert model.body(piece.name).mass[0] == pytest.approx(volume * piece.density_kg_m3)
    rolls = piece.shape in ("sphere", "capsule")
    friction = (*s.TOWER_FRICTION[:2], s.ROLLING_FRICTION) if rolls else s.TOWER_FRICTION
    contact = s.CONVEX_CONTACT if piece.shape in ("cylinder", "wedge") else s.PRIMITIVE_CONTACT
    check_piece(model, piece.name, friction, s.ROLLING_CONDIM if rolls else 4, contact)


def test_the_models_carry_options_table_and_robot(tower, cantilever):
    assert tower.ready.model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_NATIVECCD
    for adapter in (tower, cantilever):
        model, robot = adapter.ready.model, adapter.ready.robots[0]
        check_options(model)
        check_table(model, s.TABLE)
        adapter.reset()
        assert robot.action_dim == adapter.action_dim == 12
        assert model.body(robot.handles.root_body).pos == pytest.approx(s.ROBOT_BASE_M)
        torso = adapter.ready.data.joint(robot.handles.torso_joint).qpos[0]
        assert torso == pytest.approx(s.TORSO_START_M, abs=1e-4)
    for i in range(s.BLOCKS):
        check_piece(cantilever.ready.model, f"block_{i}", s.BLOCK_FRICTION, 4)
        mass = cantilever.ready.model.body(f"block_{i}").mass[0]
        assert mass == pytest.approx(s.BLOCK_MASS_KG) and mass == pytest.approx(0.216)


@pytest.mark.parametrize(
    ("name", "half_height"),
    [
        ("capsule", lambda c, sn: 0.018 + 0.030 * sn),  # its axis is along x
        ("cyl_a", lambda c, sn: 0.041 * c + 0.026 * sn),
        ("cube_a", lambda c, sn: 0.032 * (c + sn)),
        ("plate_a", lambda c, sn: 0.010 * c + 0.035 * sn),
        ("sphere", lambda c, sn: 0.030),
    ],
)
def test_the_height_of_a_tilted_piece_is_exact(tower, name, half_height):
    angle = 0.6
    tower.reset()
    put(tower, name, (0.1, 0.5, 1.3), pitch_quat=(math.cos(0.3), 0.0, math.sin(0.3), 0.0))
    low, high = tabletop.vertical_extent_m(tower.ready.model, tower.ready.data, f"{name}_geom")
    half = half_height(math.cos(angle), math.sin(angle))
    assert (low, high) == pytest.approx((1.3 - half, 1.3 + half))


class Clock:
    """Stands for the held scene: counts its steps."""

    steps = 0

    def __init__(self, scene) -> None:
        Clock.steps = 0

    def step(self, count: int = 1) -> None:
        Clock.steps += count


@pytest.mark.parametrize(
    ("moves_for_s", "settle_s", "reason"),
    [
        (0.0, 5.0, None),
        (5.0, 5.5, None),
        (12.2, 13.0, None),
        (29.5, 30.0, None),
        (99.0, 30.0, "moving"),
    ],
)
def test_the_final_measurement_waits_for_quiet_and_reads_twice(
    tower, monkeypatch, moves_for_s, settle_s, reason
):
    """5 s, then pieces of 0.5 s up to 30 s while the last 0.5 s was not quiet; read, 5 s, read."""
    read_at: list[float] = []

    def moving(_scene, hold, steps):
        begun = Clock.steps * s.TIMESTEP_S
        hold.step(steps)
        return frozenset({"rod"} if begun < moves_for_s else ())

    def seen(*_):
        read_at.append(round(Clock.steps * s.TIMESTEP_S, 6))
        on_robot = frozenset({"cube_a"} if len(read_at) == 1 else {"cube_b"})
        return task.Reading(edges=frozenset(), on_robot=on_robot, values={})

    monkeypatch.setattr(task, "HeldRobots", Clock)
    monkeypatch.setattr(task, "_moving", moving)
    monkeypatch.setattr(task, "read", seen)
    settled = task.settle(tower.ready, lambda _: 0.0)
    assert settled.settle_s == pytest.approx(settle_s)
    assert read_at == pytest.approx([settle_s, settle_s + s.HOLD_S])
    expected = {"cube_a": "touches_robot", "cube_b": "touches_robot"}
    assert settled.excluded == expected | ({"rod": reason} if reason else {})


@pytest.mark.parametrize("name", ["wedge_a", "wedge_b"])
def test_wedge_on_its_small_face_has_the_height_of_its_long_leg(tower, name):
    piece = next(p for p in s.PIECES if p.name == name)
    tower.reset()
    cap(tower, name)
    low, high = tabletop.vertical_extent_m(tower.ready.model, tower.ready.data, f"{name}_geom")
    assert high - low == pytest.approx(piece.cap_m, abs=1e-6)


def test_a_piece_in_the_hand_supports_nothing(tower):
    tower.reset()
    site, _ = tower.ready.robots[0].site_pose()
    put(tower, "cube_b", tuple(site))
    robot = tower.ready.robots[0]
    names = robot.handles.finger_joints
    for name, value in zip(names, (0.0258, -0.0258), strict=True):
        tower.ready.data.qpos[tower.ready.model.joint(name).qposadr[0]] = value
    reading = task.read(tower.ready, tower.top_m)
    settled = task.Settled(
        (reading, reading), {n: "touches_robot" for n in reading.on_robot}, s.SETTLE_MIN_S
    )
    assert "cube_b" in reading.on_robot
    assert "cube_b" not in settled.supported(reading)


@pytest.mark.parametrize(
    ("speed", "rate", "quiet"),
    [(0.0019, 0.0, True), (0.0021, 0.0, False), (0.0, 0.019, True), (0.0, 0.021, False)],
)
def test_quiet_limits(speed, rate, quiet):
    assert task.is_quiet(speed, rate) is quiet


# -------------------------------------------------------------------------------------- cantilever


def lay(cantilever, beyond_levels):
    """Blocks with their long side along +y over the +y edge; (centre beyond the edge in L, level)."""
    half = s.BLOCK_HALF_M[2]
    for i, (beyond, level) in enumerate(beyond_levels):
        y = s.TABLE.half_m[1] + beyond * s.BLOCK_LENGTH_M
        z = (
            s.TABLE.top_z_m + half + level * 2 * half
        )  # no gap: a stack this near its balance may not drop
        put(cantilever, f"block_{i}", (0.1, y, z))


HARMONIC = tuple((b, i) for i, b in enumerate((-0.379, -0.217, 0.025, 0.510)))
COUNTERWEIGHT = ((-0.1625, 0), (0.5575, 1), (-0.6425, 1), (0.0875, 2))


@pytest.mark.parametrize(("blocks", "score"), [(HARMONIC, 0.866), (COUNTERWEIGHT, 0.906)])
def test_known_stacks_stand_and_score(cantilever, blocks, score):
    cantilever.reset()
    lay(cantilever, blocks)
    evidence = cantilever.finish()
    assert metrics.cantilever(evidence["overhang_m"]) == pytest.approx(score, abs=0.003)
    assert evidence["blocks_supported"] == 4
    creep = abs(evidence["overhang_second_m"] - evidence["overhang_first_m"])
    assert creep < 0.0003 * s.BLOCK_LENGTH_M, "in 5 s"


@pytest.mark.parametrize(
    ("blocks", "factor"), [(HARMONIC, 0.995 / 0.97), (COUNTERWEIGHT, 0.97 / 0.9)]
)
def test_a_little_further_they_fall(cantilever, blocks, factor):
    cantilever.reset()
    lay(cantilever, [(beyond * factor, level) for beyond, level in blocks])
    evidence = cantilever.finish()
    assert metrics.cantilever(evidence["overhang_m"]) < 0.4 and evidence["blocks_supported"] == 2


def test_nothing_done_reaches_nowhere(cantilever):
    cantilever.reset()
    assert cantilever.finish()["overhang_m"] == 0.0


def test_a_diagonal_block_gains_nothing_from_its_corner(cantilever):
    cantilever.reset()
    half = s.BLOCK_HALF_M
    z = s.TABLE.top_z_m + half[2]
    put(cantilever, "block_0", (0.1, s.TABLE.half_m[1] - 0.02, z), yaw_rad=math.pi / 4)
    along = cantilever.overhang_m("block_0")
    assert along == pytest.approx(-0.02 + half[1] * math.cos(math.pi / 4), abs=1e-6)


@pytest.mark.parametrize(("axis", "side"), [(0, 1), (0, -1), (1, 1), (1, -1)])
def test_every_edge_of_the_table_counts(cantilever, axis, side):
    """o = n . (c +- (L/2) y) - d, with the block's long side along the edge's normal."""
    cantilever.reset()
    centre = [0.0, 0.0, s.TABLE.top_z_m + s.BLOCK_HALF_M[2]]
    centre[axis] = side * (s.TABLE.half_m[axis] - 0.05)
    put(cantilever, "block_0", tuple(centre), yaw_rad=math.pi / 2 if axis == 0 else 0.0)
    assert cantilever.overhang_m("block_0") == pytest.approx(-0.05 + s.BLOCK_LENGTH_M / 2)


@pytest.mark.parametrize(("low", "counts"), [(0.8901, True), (0.8899, False)])
def test_a_block_must_be_above_the_edge(cantilever, low, counts):
    cantilever.reset()
    put(cantilever, "block_0", (0.1, 0.9, low + s.BLOCK_HALF_M[2]))
    assert (cantilever.overhang_m("block_0") > 0.0) is counts
