"""Overlap, gaps, hidden parts, mass and clearance: both sides of each limit, and distances in closed form."""

import mujoco
import numpy as np
import pytest

from families.f09_gello import clearance, scene, task
from families.f09_gello.mechanism.record import Lead, Part, Record
from families.f09_gello.spec import ARMS, CLEARANCE, PART_RULES, PARTS
from tests.families.f09_gello.build import (
    IDENTITY,
    PLASTIC,
    STEEL,
    accept,
    ball,
    box,
    kept,
    messages,
)

LINK_R = PARTS.link_radius_m
BACK = -0.03
"""y of a place beside link 2 (which runs along +y of its frame) where no other part of the link is."""


@pytest.mark.parametrize(("overlap_mm", "legal"), [(0.9, True), (1.1, False)])
def test_metal_may_sink_into_its_link_by_a_millimetre(overlap_mm, legal):
    # A ball beside the middle of link 2's capsule: depth = R + r - distance of the axes.
    r, middle = 0.012, np.array(ARMS["franka"].links[2][:3]) / 2
    side = np.cross(middle, (1.0, 0.0, 0.0))
    at = middle + side / np.linalg.norm(side) * (LINK_R + r - overlap_mm * 1e-3)
    lead = accept([ball("cw_a", "lead_link2", tuple(at), r)])
    assert bool(kept(lead)) == legal
    assert legal or "overlaps printed_link2 by 1.1 mm" in messages(lead)


@pytest.mark.parametrize(("gap_mm", "legal"), [(0.9, True), (1.1, False)])
def test_a_part_must_touch(gap_mm, legal):
    r, middle = 0.012, np.array(ARMS["franka"].links[2][:3]) / 2
    side = np.cross(middle, (1.0, 0.0, 0.0))
    at = middle + side / np.linalg.norm(side) * (LINK_R + r + gap_mm * 1e-3)
    lead = accept([ball("cw_a", "lead_link2", tuple(at), r)])
    assert bool(kept(lead)) == legal
    assert legal or (lead.n_unconnected == 1 and "part.unconnected: cw_a" in messages(lead))


def test_a_chain_carries_and_a_broken_chain_drops_what_hangs_on_it():
    rod = Part(
        "sup_a",
        "lead_link3",
        "capsule",
        (0.005, 0.03),
        (0.0, -0.035, 0.0),
        (0.70710678, 0.70710678, 0, 0),
        PLASTIC,
    )
    weight = ball("cw_a", "lead_link3", (0.0, -0.083, 0.0), 0.014)
    assert sorted(kept(accept([weight, rod]))) == ["cw_a", "sup_a"]
    alone = accept([weight])
    assert kept(alone) == [] and alone.n_unconnected == 1


def test_two_counterweights_in_one_place_are_one():
    at = (0.0, 0.0, 0.0308)
    twins = [ball("cw_a", "lead_link2", at, 0.0145), ball("cw_b", "lead_link2", at, 0.0145)]
    assert kept(accept(twins)) == ["cw_a"]


def test_supports_in_one_place_are_no_dense_material():
    pile = [
        box(f"sup_{i}", "lead_link2", (0.0, 0.0, 0.02), (0.012, 0.012, 0.012)) for i in range(10)
    ]
    lead = accept(pile)
    assert kept(lead) == ["sup_0"] and "100% of it lies inside" in messages(lead)


def test_crossing_struts_and_a_strut_in_a_ball_are_fine():
    cross = [
        box("sup_a", "lead_link2", (0.0, 0.0, 0.018), (0.03, 0.004, 0.004)),
        box("sup_b", "lead_link2", (0.0, 0.0, 0.018), (0.004, 0.03, 0.004)),
    ]
    assert len(kept(accept(cross))) == 2


@pytest.mark.parametrize(("excess_kg", "legal"), [(-0.001, True), (0.001, False)])
def test_mass_limit_of_the_device(excess_kg, legal):
    base = scene.stock_device("franka").mass_kg
    left = PART_RULES.device_mass_max_kg + excess_kg - base
    size = (left / 3 / STEEL / 8) ** (1 / 3)
    parts = [
        Part(
            f"cw_{i}",
            f"lead_link{i}",
            "box",
            (size, size, size),
            (0.0, -size - 0.0112, 0.0),
            IDENTITY,
            STEEL,
        )
        for i in (3, 5)
    ] + [
        Part(
            "cw_6",
            "lead_base",
            "box",
            (size, size, size),
            (0.0, 0.0, PARTS.base_half_length_m + size),
            IDENTITY,
            STEEL,
        )
    ]
    lead = accept(parts)
    assert len(kept(lead)) == 3, messages(lead)
    assert lead.refused("budget") != legal
    assert legal or "at most 2.3 kg. Heaviest parts: cw_" in messages(lead)


# ------------------------------------------------------------------------------------------ paths


@pytest.mark.parametrize(("gap_mm", "clear"), [(2.1, True), (1.9, False)])
def test_clearance_at_its_limit(gap_mm, clear):
    # Two balls on base and link 1, beside each other at home and nowhere near a joint.
    arm = ARMS["franka"]
    device = scene.compose(Record("franka"))
    data = clearance.home_data(device)
    body = device.model.body("lead_link3").id
    world = np.array([-0.30, -0.20, 0.10])
    other = world + (0.0, 0.0, 0.02 + gap_mm * 1e-3)
    local = data.xmat[body].reshape(3, 3).T @ (other - data.xpos[body])
    parts = (
        ball("cw_a", "lead_base", tuple(world), 0.01),
        ball("cw_b", "lead_link3", tuple(local), 0.01),
    )
    composed = scene.compose(Record("franka", parts=parts))
    offence = clearance.first_offence(composed, np.array([arm.home_rad]))
    assert (offence is None) == clear
    if offence:
        assert {offence.a, offence.b} == {"cw_a", "cw_b"}
        assert offence.distance_m == pytest.approx(gap_mm * 1e-3, abs=1e-6)


def test_a_part_inside_another_body_is_found():
    part = ball("cw_a", "lead_base", (-0.07225, 0.0, 0.09), 0.003)  # inside link 1's capsule
    device = scene.compose(Record("franka", parts=(part,)))
    offence = clearance.first_offence(device, np.array([ARMS["franka"].home_rad]))
    assert offence is not None and offence.distance_m < -0.003


def test_parent_and_child_may_meet_at_their_joint_only():
    near = ball("cw_a", "lead_link2", (0.0, -0.016, 0.0), 0.006)
    device = scene.compose(Record("franka", parts=(near,)))
    assert clearance.first_offence(device, np.array([ARMS["franka"].home_rad])) is None
    down = scene.compose(
        Record("franka", parts=(ball("cw_b", "lead_link2", (0.0, -0.05, 0.0), 0.01),))
    )
    data = clearance.home_data(down)
    spot = data.geom_xpos[down.added_geom["cw_b"]] - data.xpos[down.model.body("lead_link2").id]
    assert np.linalg.norm(spot) > CLEARANCE.joint_exempt_m


def test_the_table_is_found_and_the_base_may_stand_on_it():
    arm = ARMS["franka"]
    device = scene.compose(Record("franka"))
    data = clearance.home_data(device)
    body = device.model.body("lead_link3").id
    local = data.xmat[body].reshape(3, 3).T @ (np.array([0.2, -0.2, -0.015]) - data.xpos[body])
    low = scene.compose(Record("franka", parts=(ball("cw_a", "lead_link3", tuple(local), 0.006),)))
    offence = clearance.first_offence(low, np.array([arm.home_rad]))
    assert (
        offence is not None
        and offence.b == "table"
        and offence.distance_m == pytest.approx(-0.001, abs=1e-6)
    )
    foot = scene.compose(
        Record("franka", parts=(box("sup_a", "lead_base", (0.2, -0.2, -0.03), (0.01,) * 3),))
    )
    assert clearance.first_offence(foot, np.array([arm.home_rad])) is None


@pytest.mark.parametrize("shape", ["box", "sphere", "capsule", "cylinder", "ellipsoid"])
def test_lowest_point_is_the_distance_to_a_plane(shape):
    size = {
        "box": (0.01, 0.02, 0.03),
        "sphere": (0.02,),
        "capsule": (0.01, 0.03),
        "cylinder": (0.01, 0.03),
        "ellipsoid": (0.01, 0.02, 0.03),
    }[shape]
    quat = np.array([0.7, 0.3, -0.5, 0.4])
    part = Part(
        "sup_a",
        "lead_base",
        shape,
        size,
        (0.1, 0.1, 0.2),
        tuple(quat / np.linalg.norm(quat)),
        1000.0,
    )
    device = scene.compose(Record("franka", parts=(part,)))
    data = clearance.home_data(device)
    geom = device.added_geom["sup_a"]
    rng = np.random.default_rng(0)
    points = rng.normal(size=(200_000, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    half = device.model.geom_aabb[geom, 3:]
    cloud = (
        data.geom_xpos[geom]
        + (points * 1.8 * half * rng.uniform(size=(len(points), 1)) ** (1 / 3))
        @ data.geom_xmat[geom].reshape(3, 3).T
    )
    inside = cloud[clearance.contains(device.model, data, geom, cloud)]
    lowest = clearance.lowest_m(device, data, geom)
    assert lowest <= inside[:, 2].min()
    assert lowest == pytest.approx(inside[:, 2].min(), abs=1.5e-3)


def test_share_counts_paths():
    # A ball on the base where the handle is in one pose of the second path.
    home = np.array([ARMS["franka"].home_rad])
    hit = task.public_hold_configs("franka")[1]
    stock = scene.stock_device("franka")
    data = mujoco.MjData(stock.model)
    data.qpos[:] = hit
    mujoco.mj_kinematics(stock.model, data)
    part = ball("cw_a", "lead_base", tuple(data.site_xpos[stock.ee_site]), 0.01)
    lead = Lead(record=Record("franka", parts=(part,)))
    share, offence = clearance.share_clear(lead, [home, np.vstack([home, hit]), home])
    assert share == pytest.approx(2 / 3)
    assert offence is not None and (offence.path, offence.pose) == (1, 1)
    assert offence.b in ("printed_handle", "printed_trigger", "servo_trigger")


def test_bounding_spheres_reject_no_offender():
    part = ball("cw_a", "lead_link6", (0.0, -0.06, 0.02), 0.02)
    device = scene.compose(Record("xarm7", parts=(part,)))
    data, pairs = mujoco.MjData(device.model), clearance.candidate_pairs(device)
    poses = task.random_poses("xarm7", np.random.default_rng(2), 40)
    passed = clearance.near(device, clearance.centres_m(device, poses), pairs)
    assert 0 < passed.sum() < passed.size
    for k, q in enumerate(poses):
        data.qpos[:] = q
        mujoco.mj_kinematics(device.model, data)
        for i, (a, b) in enumerate(zip(pairs.a, pairs.b, strict=True)):
            if clearance.distance_m(device, data, int(a), int(b)) < CLEARANCE.gap_m:
                assert passed[k, i]
