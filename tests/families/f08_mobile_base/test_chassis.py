"""Rules of construction on both sides of every limit, readings of sections, and refused files."""

import dataclasses
import math
import re

import numpy as np
import pytest

from families.f08_mobile_base import chassis, task
from rle.errors import InvalidSubmission
from tests.families.f08_mobile_base.designs import (
    BRACED,
    COMPACT,
    LIGHT,
    ORACLE,
    STARTER,
    Bar,
    built,
    failing,
    moved,
    with_bars,
)
from train_baselines.oracles.f08_frames import to_xml

XML = to_xml(ORACLE)


def read(text: str) -> chassis.Record:
    return chassis.read_text(text.encode())


@pytest.mark.parametrize("frame", [ORACLE, LIGHT, BRACED, STARTER, COMPACT], ids=lambda f: f.name)
def test_stored_frames_are_sound(frame):
    design = built(frame)
    assert failing(design) == [] and design.overlaps == ()
    assert design.structure_share == 1.0 and design.clean_member_share == 1.0


def test_oracle_and_light_have_the_cards_numbers():
    # oracle: 4.28 m of 4040 = 6.4 kg, E .349; light: 1.91 m = 2.9 kg, E .479
    for frame, length, mass, efficiency in ((ORACLE, 4.28, 6.4, 0.349), (LIGHT, 1.91, 2.9, 0.479)):
        card = task.design_card(built(frame))
        assert card["profile_length_m"] == pytest.approx(length, abs=0.01)
        assert card["base_mass_kg"] - 17.36 == pytest.approx(mass, abs=0.05)
        assert card["efficiency"] == pytest.approx(efficiency, abs=0.0006)
    assert task.design_card(built(STARTER))["profile_length_m"] == pytest.approx(11.9)


def test_footprint_counts_wheel_envelopes():
    design = built(ORACLE)
    assert design.footprint_m == pytest.approx((2 * (0.203 + 0.076), 2 * (0.243 + 0.030)))
    assert design.lower_m == pytest.approx((-0.279, -0.273))


@pytest.mark.parametrize(
    ("size_m", "section", "length_m"),
    [
        ((0.02, 0.02, 0.30), "2020", 0.30),
        ((0.30, 0.02, 0.04), "2040", 0.30),
        ((0.04, 0.50, 0.02), "2040", 0.50),
        ((0.04, 0.04, 0.12), "4040", 0.12),
        ((0.04, 0.04, 0.04), "4040", 0.04),
        ((0.02, 0.02, 0.04), "2020", 0.04),  # 2020 of .04 m: .018 kg; 2040 of .02 m: .0164 kg
        ((0.04, 0.04, 0.02), "2040", 0.04),  # 2040 of .04 m: .0328 kg; 4040 of .02 m: .03 kg
    ],
)
def test_the_heaviest_reading_is_taken(size_m, section, length_m):
    member = chassis.read_member(0, np.zeros(3), np.array([1.0, 0, 0, 0]), np.array(size_m) / 2)
    assert member is not None
    assert (member.section.name, member.length_m) == (section, pytest.approx(length_m))


@pytest.mark.parametrize(("off_mm", "is_member"), [(0.4, True), (-0.4, True), (0.6, False)])
def test_section_tolerance(off_mm, is_member):
    half = np.array([0.5 * (0.04 + off_mm / 1000), 0.02, 0.15])
    member = chassis.read_member(0, np.zeros(3), np.array([1.0, 0, 0, 0]), half)
    assert (member is not None) is is_member
    if member is not None:  # the section is snapped, the length kept
        assert member.half_m.tolist() == [0.02, 0.02, 0.15]


def test_plate_is_no_profile_and_is_named():
    record = read(XML.replace('size="0.02 0.208 0.02"', 'size="0.1 0.208 0.02"', 1))
    design = chassis.inspect(record)
    assert "members" in failing(design)
    assert "200.0 x 416.0 x 40.0 mm" in design.checks[0].findings[0]


def test_other_shapes_on_base_close_the_gate_without_refusal():
    record = read(XML.replace('type="box"', 'type="capsule"', 1))
    assert "members" in failing(chassis.inspect(record))


@pytest.mark.parametrize(("length_m", "ok"), [(0.0401, True), (0.0395, False), (0.801, False)])
def test_member_length(length_m, ok):
    bar = Bar("2020", "x", (0.0, 0.0, 0.08), length_m)
    assert ("members" not in failing(built(with_bars(ORACLE, bar)))) is ok


def test_at_most_48_members():
    bars = [Bar("2020", "x", (0.0, 0.0, 0.4 + 0.001 * k), 0.1) for k in range(40)]
    assert "members" in failing(built(with_bars(ORACLE, *bars)))


@pytest.mark.parametrize(("gap_mm", "ok"), [(0.0, True), (1.9, True), (2.1, False), (50, False)])
def test_join_gap(gap_mm, ok):
    # A bar above the top members (their upper face is z = .343), beside the adapter.
    z = 0.343 + 0.01 + gap_mm / 1000
    design = built(with_bars(ORACLE, Bar("2020", "x", (0.0, 0.12, z), 0.1)))
    assert ("cluster" not in failing(design)) is ok
    if not ok:
        assert (
            f"{gap_mm:.1f} mm from profile_"
            in next(c for c in design.checks if not c.ok).findings[0]
        )


def test_floating_members_are_no_cluster():
    design = built(with_bars(ORACLE, Bar("4040", "x", (0.0, 0.0, 0.6), 0.1)))
    assert failing(design) == ["cluster"]


def test_what_hangs_free_is_named_with_what_it_is_nearest_to():
    """The frame is the largest group, wherever its bars stand in the file; z: .6 - .02 to .343 of the top bars."""
    first = dataclasses.replace(
        ORACLE, bars=(Bar("4040", "x", (0.0, 0.07, 0.6), 0.1), *ORACLE.bars)
    )
    pair = with_bars(first, Bar("4040", "x", (0.1, 0.07, 0.6), 0.1))
    (cluster,) = [c for c in built(first).checks if c.name == "cluster"]
    (finding,) = cluster.findings
    assert finding.startswith("profile_0 is not joined to the frame: 237.0 mm from profile_1")
    (cluster,) = [c for c in built(pair).checks if c.name == "cluster"]
    assert (
        len(cluster.findings) == 1
        and "and the 1 joined to it are not joined" in cluster.findings[0]
    )


@pytest.mark.parametrize(("reach_mm", "ok"), [(39.9, True), (40.1, False)])
def test_bracket_reach(reach_mm, ok):
    # light: axle point (.203, .180, 0); the nearest bar ends at y .18, x to .185, z from .03.
    # Raising both y-bars moves its lower face: distance sqrt(.018^2 + z^2).
    z = math.sqrt((reach_mm / 1000) ** 2 - 0.018**2)
    frame = LIGHT
    for index in (0, 1):
        x = LIGHT.bars[index].pos_m[0]
        frame = moved(frame, index, pos_m=(x, 0.0, z + 0.02))
    assert ("brackets" not in failing(built(frame))) is ok


@pytest.mark.parametrize(("gap_mm", "ok"), [(1.9, True), (2.1, False)])
def test_adapter_and_battery_are_attached(gap_mm, ok):
    raised = dataclasses.replace(ORACLE, mount_m=(0.0, 0.0, 0.343 + gap_mm / 1000))
    assert ("adapter" not in failing(built(raised))) is ok
    # The x-bars at y = .11 start at z .03; the battery's top is z .04, its side y .09 (2 faces).
    lowered = dataclasses.replace(LIGHT, battery_m=(0.0, 0.0, -0.01 - gap_mm / 1000))
    assert ("battery" not in failing(built(lowered))) is ok


@pytest.mark.parametrize(("depth_mm", "ok"), [(0.9, True), (1.1, False)])
def test_interference_with_trusted_parts(depth_mm, ok):
    # The adapter's top is z .353: a bar lying on it, sunk in by the depth.
    z = 0.353 + 0.01 - depth_mm / 1000
    bar = Bar("2020", "x", (0.0, 0.06, z), 0.1)
    assert ("interference" not in failing(built(with_bars(ORACLE, bar)))) is ok


@pytest.mark.parametrize(("depth_mm", "ok"), [(0.9, True), (1.1, False)])
def test_interference_with_a_wheel_envelope(depth_mm, ok):
    # Envelope of FL: |y - .243| <= .030, so it starts at y = .213; the y-bars end at .208.
    length = 2 * (0.213 + depth_mm / 1000)
    frame = moved(ORACLE, 0, length_m=length)
    assert ("interference" not in failing(built(frame))) is ok


def test_wheels_may_not_share_their_place():
    design = built(dataclasses.replace(COMPACT, wheels_m=(0.05, 0.1215)))
    assert "interference" in failing(design)


def test_battery_inside_frame_tubes_is_found():
    design = built(dataclasses.replace(ORACLE, battery_m=(0.05, 0.0, 0.0)))
    assert "interference" in failing(design)


@pytest.mark.parametrize(("overlap_mm", "n"), [(0.9, 0), (1.1, 1)])
def test_overlap_costs_resource_credit_only(overlap_mm, n):
    z = 0.07 + 0.01 - overlap_mm / 1000  # on the x-bar at y .15, whose top is z .07
    design = built(with_bars(ORACLE, Bar("2020", "x", (0.0, 0.15, z), 0.1)))
    assert failing(design) == [] and len(design.overlaps) == n
    if n:
        assert design.overlaps[0][2] == pytest.approx(overlap_mm / 1000, abs=1e-6)
        assert design.clean_member_share == pytest.approx(1 - 2 / 15)


@pytest.mark.parametrize(("height_mm", "ok"), [(30.1, True), (29.9, False)])
def test_ground_clearance(height_mm, ok):
    # Battery half height .04: its lower face is at z - .04, the ground at -.076.
    z = height_mm / 1000 - 0.076 + 0.04
    design = built(dataclasses.replace(ORACLE, battery_m=(0.0, 0.0, z)))
    assert ("clearance" not in failing(design)) is ok


@pytest.mark.parametrize(("z_mm", "ok"), [(0.9, True), (1.1, False)])
def test_wheel_height(z_mm, ok):
    text = XML.replace('pos="0.203 0.243 0"', f'pos="0.203 0.243 {z_mm / 1000}"')
    assert ("placement" not in failing(chassis.inspect(read(text)))) is ok


@pytest.mark.parametrize(
    "change",
    [
        ('name="arm_mount_site" pos="0 0 0.343"', 'name="arm_mount_site" pos="0 0 0.343" euler="0.01 0 0"'),
        ('name="wheel_FL" pos="0.203 0.243 0"', 'name="wheel_FL" pos="0.203 0.243 0" euler="0 0 0.1"'),
        ('name="wheel_FL" pos="0.203 0.243 0"', 'name="wheel_FL" pos="-0.203 0.243 0"'),
    ],
)  # fmt: skip
def test_placement_rules(change):
    assert "placement" in failing(chassis.inspect(read(XML.replace(*change))))


def test_mount_may_be_yawed():
    yawed = XML.replace('pos="0 0 0.343"', 'pos="0 0 0.343" euler="0 0 0.7"')
    assert "placement" not in failing(chassis.inspect(read(yawed)))


def test_masses_of_the_file_are_never_read():
    heavy = XML.replace('<geom type="box"', '<geom mass="0" friction="9" type="box"')
    assert built(ORACLE).profile_kg == chassis.inspect(read(heavy)).profile_kg
    odd = XML.replace('size="0.14 0.09 0.04"', 'size="0.01 0.01 0.01"')
    record = read(odd)
    assert record.notices and chassis.inspect(record).base_kg == built(ORACLE).base_kg


def test_unusual_but_legal_text_is_the_same_chassis():
    text = XML.replace("\n", "\r\n").replace(
        "<worldbody>", "<worldbody><light pos='0 0 3'/><camera name='c' pos='1 0 1'/>"
    )
    text = text.replace("</mujoco>", "<keyframe><key qpos='0 0'/></keyframe></mujoco>")
    text = text.replace('size="0.14 0.09 0.04"', 'rgba="1 0 0 1" size="0.14 0.09 0.04"')
    same, plain = read(text), read(XML)
    assert np.array_equal(same.box_pos_m, plain.box_pos_m)
    framed = re.sub(r"(<geom .*/>)", r'<frame pos="0 0 0">\1</frame>', XML, count=1)
    assert np.array_equal(read(framed).box_pos_m, plain.box_pos_m)


@pytest.mark.parametrize(
    ("old", "new", "code", "names"),
    [
        ("<worldbody>", "<include file='x.xml'/><worldbody>", "mjcf.element", "include"),
        ("<worldbody>", "<option gravity='0 0 0'/><worldbody>", "mjcf.element", "option"),
        ("<worldbody>", "<size memory='1G'/><worldbody>", "mjcf.element", "size"),
        ("<worldbody>", "<default/><worldbody>", "mjcf.element", "default"),
        ("</worldbody>", "</worldbody><equality><weld body1='base'/></equality>", "mjcf.element",
         "equality"),
        ("</worldbody>", "</worldbody><contact/>", "mjcf.element", "contact"),
        ("</worldbody>", "</worldbody><sensor/>", "mjcf.element", "sensor"),
        ("</worldbody>", "</worldbody><extension/>", "mjcf.element", "extension"),
        ('name="base" ', 'name="base" gravcomp="1" ', "mjcf.attribute", "gravcomp"),
        ('name="base" ', 'name="base" mocap="true" ', "mjcf.attribute", "mocap"),
        ('name="base_free"', 'name="free"', "mjcf.required", "base_free"),
        ('name="arm_mount_site"', 'name="site"', "mjcf.required", "arm_mount_site"),
        ('name="battery_geom" ', "", "mjcf.required", "battery_geom"),
        ('name="motor_FL"', 'name="m"', "mjcf.required", "motor_FL"),
        ('      <body name="battery"', '<body name="extra"/><body name="battery"', "mjcf.extra",
         "extra"),
        ('<joint name="drive_FL"', '<joint name="slip" axis="1 0 0"/><joint name="drive_FL"',
         "mjcf.extra", "slip"),
        ("</mujoco>", "", "mjcf.xml", "line"),
        ('size="0.02 0.208 0.02"', 'size="0.02 nan 0.02"', "mjcf.number", "finite"),
    ],
)  # fmt: skip
def test_refused_files(old, new, code, names):
    with pytest.raises(InvalidSubmission) as error:
        read(XML.replace(old, new, 1))
    assert error.value.code == code and names in str(error.value)


def test_missing_file_names_what_is_there(tmp_path):
    (tmp_path / "chassis.xml").write_text(XML)
    with pytest.raises(InvalidSubmission, match="robot.xml is missing; found: chassis.xml"):
        task.load_chassis(tmp_path / "robot.xml")
