"""Physics of tower and cantilever against closed forms and known stacks; what counts and what does not."""

import math

import pytest

from families.f03_tabletop import instances, metrics, tabletop, task
from families.f03_tabletop import spec as s
from tests.families.f03_tabletop.scenes import put, spread

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


def test_the_flat_stack_stands_and_is_measured(tower):
    tower.reset()
    stack(tower, FLAT_STACK)
    evidence = tower.finish()
    score = metrics.tower(evidence["height_m"], metrics.tower_optimum_m((1.0,) * 12))
    assert score == pytest.approx(0.8350, abs=0.003)
    assert evidence["pieces_supported"] == 12


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
    tower.reset()
    low, high = tabletop.vertical_extent_m(tower.ready.model, tower.ready.data, f"{name}_geom")
    assert low == pytest.approx(s.TABLE.top_z_m, abs=2e-4)
    assert high - low == pytest.approx(2 * 0.5 * (high - low))


def test_wedge_on_its_small_face_has_the_height_of_its_long_leg(tower):
    # Lying on the hypotenuse, the long leg rises at asin(short/hypotenuse); standing it is vertical.
    piece = next(p for p in s.PIECES if p.name == "wedge_a")
    long_m, short_m, _ = piece.size_m
    lean = math.atan2(short_m, long_m)
    angle = -(math.pi / 2 - lean)
    quat = (math.cos(angle / 2), 0.0, math.sin(angle / 2), 0.0)
    tower.reset()
    put(tower, "wedge_a", (0.1, 0.55, 1.2), pitch_quat=quat)
    low, high = tabletop.vertical_extent_m(tower.ready.model, tower.ready.data, "wedge_a_geom")
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


@pytest.mark.parametrize(("low", "counts"), [(0.8901, True), (0.8899, False)])
def test_a_block_must_be_above_the_edge(cantilever, low, counts):
    cantilever.reset()
    put(cantilever, "block_0", (0.1, 0.9, low + s.BLOCK_HALF_M[2]))
    assert (cantilever.overhang_m("block_0") > 0.0) is counts
