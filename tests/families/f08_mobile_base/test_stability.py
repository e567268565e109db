"""Support polygon and margins against closed forms (all within 1 %, most exact)."""

import math

import numpy as np
import pytest

from families.f08_mobile_base import spec, stability

SQUARE = np.array([[0.2, 0.25, 0.0], [-0.2, 0.25, 0.0], [-0.2, -0.25, 0.0], [0.2, -0.25, 0.0]])
DOWN = np.array([0.0, 0.0, -9.81])


def test_hull_of_a_grid_is_its_four_corners():
    grid = np.stack(np.meshgrid(np.linspace(-1, 1, 7), np.linspace(-2, 2, 5)), -1).reshape(-1, 2)
    hull = stability.convex_hull(grid)
    assert sorted(map(tuple, hull)) == [(-1, -2), (-1, 2), (1, -2), (1, 2)]
    x, y = hull.T  # counter-clockwise: positive area, 2 x 4 = 8 m2
    assert 0.5 * np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y) == pytest.approx(8.0)


def test_hull_contains_every_point():
    points = np.random.default_rng(3).normal(size=(64, 2))
    hull = stability.convex_hull(points)
    assert all(stability.signed_distance(p, hull) >= -1e-9 for p in points)
    assert stability.signed_distance(hull[0], hull) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("point", "distance"),
    [
        ((0.0, 0.0), 0.2),  # nearest edge x = +-.2
        ((0.15, 0.0), 0.05),
        ((0.0, 0.30), -0.05),  # outside an edge
        ((0.23, 0.29), -0.05),  # outside a corner: 3-4-5 triangle with .03, .04
    ],
)
def test_signed_distance(point, distance):
    corners = stability.convex_hull(SQUARE[:, :2])
    assert stability.signed_distance(np.array(point), corners) == pytest.approx(distance)


def test_two_contacts_have_no_inside():
    line = np.array([[0.0, -1.0], [0.0, 1.0]])
    assert stability.signed_distance(np.array([0.1, 0.0]), line) == pytest.approx(-0.1)
    assert stability.signed_distance(np.array([0.0, 0.0]), line) == 0.0


def test_no_contact_is_minus_infinity():
    assert stability.static_margin(np.zeros(3), DOWN, np.empty((0, 3))) == -math.inf


def test_static_margin_on_a_slope():
    # Mass centre .3 m up; gravity tilted by 10 deg moves its projection by .3 tan 10 deg = .0529 m.
    centre = np.array([0.0, 0.0, 0.3])
    tilted = 9.81 * np.array([math.sin(math.radians(10)), 0.0, -math.cos(math.radians(10))])
    margin = stability.static_margin(centre, tilted, SQUARE)
    assert margin == pytest.approx(0.2 - 0.3 * math.tan(math.radians(10)))


def test_force_angle_of_a_centred_box():
    # Edge x = .2: l = (.2, 0, -.3), |l| = .36056; f = m g down; theta = atan(.2/.3) = .5880 rad.
    # Edge y = .25: theta = atan(.25/.3), |l| = .39051 is larger in both factors, so x decides.
    weight_n = 40.0 * 9.81
    centre = np.array([0.0, 0.0, 0.3])
    margin = stability.force_angle_margin(centre, np.array([0.0, 0.0, -weight_n]), SQUARE)
    assert margin == pytest.approx(math.atan2(0.2, 0.3) * weight_n * math.hypot(0.2, 0.3))


def test_force_angle_is_zero_at_the_tipping_acceleration():
    # Braking with a: the inertial force m a forward tips over the front edge at a = g x / h.
    mass_kg, height_m = 40.0, 0.3
    tipping = 9.81 * 0.2 / height_m
    centre = np.array([0.0, 0.0, height_m])
    for share, sign in ((0.99, 1), (1.0, 0), (1.01, -1)):
        net = mass_kg * np.array([share * tipping, 0.0, -9.81])
        margin = stability.force_angle_margin(centre, net, SQUARE)
        assert np.sign(round(margin, 9)) == sign


def test_force_angle_falls_as_the_mass_centre_rises_or_moves_out():
    net = np.array([0.0, 0.0, -400.0])
    high = [stability.force_angle_margin(np.array([0, 0, h]), net, SQUARE) for h in (0.2, 0.4, 0.8)]
    out = [stability.force_angle_margin(np.array([x, 0, 0.3]), net, SQUARE) for x in (0, 0.1, 0.19)]
    assert out[0] > out[1] > out[2] > 0
    # theta |l| = h-dependent: atan(.2/h) sqrt(.04 + h^2) tends to .2 from above as h grows
    assert high[0] > high[1] > high[2] > 400 * 0.2


def test_force_angle_without_area_is_zero():
    assert stability.force_angle_margin(np.array([0, 0, 0.3]), DOWN, SQUARE[:2]) == 0.0


def test_short_edges_do_not_count():
    # A corner cut at 20 mm: its edge is shorter than .03 m and must not decide.
    cut = np.vstack([SQUARE[1:], [[0.2, 0.236, 0.0], [0.186, 0.25, 0.0]]])
    centre, net = np.array([0.15, 0.2, 0.3]), np.array([0.0, 0.0, -400.0])
    assert math.dist(cut[-1], cut[-2]) < spec.MIN_EDGE_M
    expected = stability.force_angle_margin(centre, net, SQUARE)
    assert stability.force_angle_margin(centre, net, cut) == pytest.approx(expected)


def test_rolling_median_ignores_one_spike():
    values = np.ones(20)
    values[10] = -50.0
    assert stability.rolling_median(values, 5).min() == 1.0
    assert stability.rolling_median(np.array([1.0, 3.0]), 5).tolist() == [1.0, 2.0]


def test_tilt_is_the_rotation_angle():
    angle = math.radians(7.0)
    rotation = np.array(
        [[math.cos(angle), 0, math.sin(angle)], [0, 1, 0], [-math.sin(angle), 0, math.cos(angle)]]
    )
    assert stability.tilt_rad(rotation, np.array([0, 0, 1.0])) == pytest.approx(angle)


@pytest.mark.parametrize(("steps", "n_events"), [(150, 0), (151, 1)])
def test_lift_off_needs_more_than_300_ms(steps, n_events):
    load = np.full((500, 4), 100.0)
    load[100 : 100 + steps, 2:] = 0.99  # just under 1 N: two wheels left
    events = stability.lift_off_events(load, spec.TIMESTEP_S)
    assert len(events) == n_events
    if events:
        assert events[0] == pytest.approx((0.2, 0.302))


def test_three_loaded_wheels_are_no_event():
    load = np.full((500, 4), 100.0)
    load[:, 3] = 0.0
    assert stability.lift_off_events(load, spec.TIMESTEP_S) == []


def test_tracking_error_worked_example():
    # Command (1, 0, 0); actual (.9, .1, .2): sqrt(.01 + .01 + .3 x .04) / 1 = .1789
    command = np.tile([1.0, 0.0, 0.0], (10, 1))
    actual = np.tile([0.9, 0.1, 0.2], (10, 1))
    assert stability.tracking_error(actual, command) == pytest.approx(math.sqrt(0.032))
    assert stability.tracking_error(np.zeros((3, 3)), np.zeros((3, 3))) == 0.0


def test_moving_mean():
    assert stability.moving_mean(np.array([2.0, 4.0, 6.0, 8.0]), 2).tolist() == [2, 3, 5, 7]
    assert stability.moving_mean(np.array([[0.0, 1.0], [2.0, 1.0]]), 5).tolist() == [[0, 1], [1, 1]]


def test_many_points_at_once_equal_one_by_one():
    corners = stability.convex_hull(SQUARE[:, :2])
    points = np.random.default_rng(2).uniform(-0.4, 0.4, size=(40, 2))
    one_by_one = [float(stability.signed_distance(p, corners)) for p in points]
    assert stability.signed_distance(points, corners).tolist() == one_by_one


def plain_loop(points: np.ndarray) -> list[tuple[float, float]]:
    """Corners of one set by monotone chain, from the leftmost and lowest one on."""
    return list(map(tuple, stability.convex_hull(points[:, :2])))


@pytest.mark.parametrize("on_grid", [False, True], ids=["scattered", "on a grid"])
def test_hulls_of_many_sets_equal_the_plain_chain(on_grid):
    """Sets of different size; on a grid with points in line, above each other and twice."""
    rng = np.random.default_rng(0)
    clusters = rng.choice([-20.0, 20.0], size=(60, 70, 2))
    points = np.zeros((60, 70, 3))
    points[..., :2] = clusters + rng.normal(size=clusters.shape)
    if on_grid:
        points = np.round(points)
    points[rng.random((60, 70)) < rng.random((60, 1))] = np.nan
    loops = stability.hull_loops(points)
    for k in range(len(points)):
        there = points[k][~np.isnan(points[k, :, 0])]
        corners = [tuple(c) for c in loops[:, k, :2] if not np.isnan(c).any()]
        once = [c for i, c in enumerate(corners) if i == 0 or c != corners[i - 1]]
        if len(once) > 1 and once[-1] == once[0]:
            once.pop()
        assert once == plain_loop(there), k


def test_sets_at_once_equal_one_by_one():
    rng = np.random.default_rng(1)
    points = rng.normal(scale=0.2, size=(20, 30, 3)) * (1.0, 1.0, 0.01)
    points[rng.random((20, 30)) < 0.4] = np.nan
    points[3], points[4, 2:] = np.nan, np.nan  # no contact, and two at most
    centre = rng.normal(scale=0.1, size=(20, 3)) + (0.0, 0.0, 0.3)
    net = rng.normal(scale=50.0, size=(20, 3)) - (0.0, 0.0, 400.0)
    margins = stability.force_angle_margin(centre, net, points)
    static = stability.static_margin(centre, DOWN, points)
    assert margins[3] == margins[4] == 0.0 and static[3] == -math.inf and static[4] < 0.0
    for k in range(20):
        some = points[k][~np.isnan(points[k, :, 0])]
        assert margins[k] == stability.force_angle_margin(centre[k], net[k], some)
        assert static[k] == pytest.approx(float(stability.static_margin(centre[k], DOWN, some)))
