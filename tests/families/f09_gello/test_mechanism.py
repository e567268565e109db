"""What may be submitted: both sides of every limit, refused files, exporters, STL."""

import struct

import numpy as np
import pytest

from families.f09_gello.mechanism.record import Mesh, Part, Spring, read_stl, volume_m3
from families.f09_gello.mechanism.rules import check_part, read
from families.f09_gello.mechanism.text import ELEMENTS
from families.f09_gello.scene import stock_xml
from families.f09_gello.spec import ARMS, PART_RULES, XML_BYTES_MAX
from tests.families.f09_gello.build import (
    IDENTITY,
    STEEL,
    accept,
    ball,
    box,
    edited,
    kept,
    messages,
)
from train_baselines.oracles.f09_gello import prism, stl_bytes

HOME = ARMS["franka"].home_rad
ON_LINK = (0.0, 0.0, 0.017)
"""A place that touches the stock parts of link 2."""


def spring(k: float, preload: float) -> list[Spring]:
    return [Spring(2, k, HOME[1] + preload)]


@pytest.mark.parametrize(
    ("k", "preload", "legal"),
    [
        (1.0, 1.199, True),
        (1.0, 1.201, False),
        (1.0, -1.201, False),
        (1.999, 0.5, True),
        (2.001, 0.5, False),
    ],
)
def test_springs_at_their_limits(k, preload, legal):
    lead = accept(springs=spring(k, preload))
    assert len(lead.record.springs) == int(legal) and lead.n_springs == 1
    assert legal or "spring.illegal: lead_joint2" in messages(lead)


def test_a_spring_is_no_constant_torque_source_and_not_negative():
    assert not accept(springs=[Spring(2, 0.01, -26.0)]).record.springs
    assert not accept(springs=[Spring(2, -0.5, HOME[1])]).record.springs


@pytest.mark.parametrize(
    ("density", "legal"),
    [
        (7850 * 1.004, True),
        (7850 * 1.006, False),
        (8500 * 0.996, True),
        (8000.0, False),
        (11340.0, False),
        (0.0, False),
        (-7850.0, False),
    ],
)
def test_metal_is_steel_or_brass(density, legal):
    part = ball("cw_a", "lead_link2", (0.0, 0.0, 0.03), 0.014, density)
    if legal:
        check_part(part, {})
    else:
        with pytest.raises(ValueError, match="density"):
            check_part(part, {})


@pytest.mark.parametrize(
    ("density", "legal"), [(248.0, True), (247.0, False), (1240.0, True), (1241.0, False)]
)
def test_printed_parts_have_a_fill(density, legal):
    part = box("sup_a", "lead_link2", ON_LINK, (0.005, 0.005, 0.005), density)
    lead = accept([part])
    assert bool(kept(lead)) == legal


@pytest.mark.parametrize(("reach", "legal"), [(0.2999, True), (0.3001, False)])
def test_reach(reach, legal):
    part = ball("sup_a", "lead_link2", (0.0, reach - 0.01, 0.0), 0.01, 1000.0)
    if legal:
        check_part(part, {})
    else:
        with pytest.raises(ValueError, match="reaches 0.3001 m"):
            check_part(part, {})


@pytest.mark.parametrize(("half", "legal"), [(0.00101, True), (0.00099, False)])
def test_thickness(half, legal):
    part = box("sup_a", "lead_link2", ON_LINK, (0.005, half, 0.005))
    if legal:
        check_part(part, {})
    else:
        with pytest.raises(ValueError, match="thin"):
            check_part(part, {})


def test_volume_of_one_part_and_of_all():
    half = (PART_RULES.geom_volume_max_m3 / 8) ** (1 / 3)
    check_part(box("sup_a", "lead_link2", (0, 0, 0), (half * 0.999,) * 3), {})
    with pytest.raises(ValueError, match="volume"):
        check_part(box("sup_a", "lead_link2", (0, 0, 0), (half * 1.001,) * 3), {})
    parts = [
        box(f"sup_{i}", f"lead_link{2 + i % 6}", (0, 0, 0.01 * (i // 6)), (half * 0.99,) * 3)
        for i in range(7)
    ]
    lead = accept(parts)
    assert "brings all added parts" in messages(lead) and lead.n_parts == 7


def test_no_more_than_forty_parts():
    parts = [
        box(f"sup_{i}", "lead_link2", (0.0, 0.004 * (i - 20), 0.012), (0.0018, 0.0018, 0.003))
        for i in range(42)
    ]
    lead = accept(parts)
    assert messages(lead).count("at most 40 are accepted") == 2


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("<worldbody>", '<option gravity="0 0 0"/><worldbody>', "line 7: <option> is not accepted in mujoco; allowed: asset"),
        ("<worldbody>", '<include file="x.xml"/><worldbody>', "<include>"),
        ("<worldbody>", "<default/><worldbody>", "<default>"),
        ('name="lead_link2"', 'name="lead_link2" gravcomp="1"', "<body> may not have gravcomp"),
        ('name="lead_link2"', 'name="lead_link2" childclass="a"', "may not have childclass"),
        ('range="-1.7628 1.7628"', 'range="-1.7628 nan"', "finite numbers up to 10000 are expected"),
        ('range="-1.7628 1.7628"', 'range="-1.7628 1e999"', "finite numbers"),
        ('angle="radian"', 'angle="degree"', "allowed: radian"),
        ("<mujoco", "<!DOCTYPE m [<!ENTITY a 'b'>]><mujoco", "DOCTYPE"),
        ("</mujoco>", "", "line"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_used_are_refused_by_name(old, new, says):
    lead = edited(old, new)
    assert lead.refused("load") and says in messages(lead)
    assert lead.record.parts == () and lead.record.springs == ()


def test_size_and_encoding():
    text = stock_xml("franka")
    big = text.replace("</mujoco>", f"<!-- {'x' * XML_BYTES_MAX} --></mujoco>")
    assert "at most 262144" in messages(read("franka", big.encode(), {}))
    assert "not UTF-8" in messages(read("franka", text.encode("utf-16"), {}))
    assert read("franka", text.replace("\n", "\r\n").encode(), {}).findings == ()


@pytest.mark.parametrize(
    ("old", "new", "element"),
    [
        ('<body name="lead_link2" pos="0 0 0.1002"', '<body name="lead_link2" pos="0 0 0.1052"', "body lead_link2"),
        ('axis="0 0 1" range="-1.7628', 'axis="0 0.01 1" range="-1.7628', "joint lead_joint2"),
        ('range="-1.7628 1.7628"', 'range="-3 3"', "joint lead_joint2: expected range -1.7628 1.7628, found range -3 3"),
        ('name="lead_joint3"', 'name="joint3"', "joint lead_joint3: expected in world/lead_base/lead_link1"),
        ('<geom name="servo2"', '<geom name="servo_two"', "geom servo_two"),
        ('<site name="lead_ee_site"', '<site name="site"', "site lead_ee_site"),
        ('mass="0.018"', 'mass="0.001"', "geom servo1: expected mass 0.018, found mass 0.001"),
        ('density="1000"', 'density="500"', "geom printed_base"),
        ("<worldbody>", '<worldbody><geom name="cw_a" size="0.01" density="7850"/>', "geom cw_a"),
        ('<geom name="servo2"', '<body name="extra"/><geom name="servo2"', "body extra"),
    ],
)  # fmt: skip
def test_the_stock_arm_may_only_be_added_to(old, new, element):
    lead = edited(old, new)
    assert lead.refused("structure") and f"structure.changed: {element}" in messages(lead)


@pytest.mark.parametrize(("shift_mm", "legal"), [(1.9, True), (2.1, False)])
def test_a_frame_may_be_off_by_rounding_only(shift_mm, legal):
    lead = edited('pos="0 0 0.1002"', f'pos="0 0 {0.1002 + shift_mm * 1e-3:.6f}"')
    assert lead.refused("structure") != legal


@pytest.mark.parametrize(("y", "legal"), [(0.9e-5, True), (1.1e-5, False)])
def test_an_axis_may_be_off_by_rounding_only(y, legal):
    assert (
        edited('axis="0 0 1" range="-1.7628', f'axis="0 {y} 1" range="-1.7628').refused("structure")
        != legal
    )


def test_unusual_but_legal_files():
    turned = edited(
        '<body name="lead_handle" pos="0 0 0.03"',
        '<body pos="0 0 3e-2" name="lead_handle" euler="0 0 0"',
    )
    assert turned.findings == ()
    extra = edited(
        "</worldbody>",
        '</worldbody><actuator><position name="a" joint="lead_joint1" kp="8"/></actuator>',
    )
    assert extra.findings == ()


@pytest.mark.parametrize(
    ("shape", "size"),
    [("capsule", (0.01,)), ("cylinder", (0.01,)), ("box", (0.01,)), ("ellipsoid", (0.01,))],
)
def test_fromto_is_resolved_as_mujoco_does(shape, size):
    import mujoco

    geom = f'<geom name="sup_a" type="{shape}" size="0.01" fromto="0 0 0 0.02 0.03 0.05" density="1000"/>'
    text = stock_xml("franka").replace('<geom name="servo2"', geom + '<geom name="servo2"', 1)
    (part,) = read("franka", text.encode(), {}).record.parts
    model = mujoco.MjModel.from_xml_string(text)
    geom_id = model.geom("sup_a").id
    assert part.pos_m == pytest.approx(model.geom_pos[geom_id], abs=1e-9)
    assert part.size_m == pytest.approx(model.geom_size[geom_id][: len(part.size_m)])
    assert abs(np.dot(part.quat_wxyz, model.geom_quat[geom_id])) == pytest.approx(1.0)


def test_a_part_in_a_body_of_ones_own_is_dropped_with_it():
    lead = edited(
        '<geom name="servo2"',
        '<body name="extra"><geom name="cw_a" size="0.01" density="7850"/></body><geom name="servo2"',
    )
    assert lead.refused("structure") and "body 'extra' is not one of lead_base" in messages(lead)
    assert lead.record.parts == () and lead.n_parts == 1


# --------------------------------------------------------------------------------------------- STL


def test_stl_round_trip_and_volume():
    mesh = prism(0.005, 0.03)
    back = read_stl(stl_bytes(mesh))
    part = Part("sup_a", "lead_link2", "mesh", (), (0, 0, 0), IDENTITY, 1000.0, "m")
    # A prism of 16 sides on a circle of radius r: 16/2 sin(2 pi / 16) r^2 x length.
    expected = 8 * np.sin(np.pi / 8) * 0.005**2 * 0.06
    assert volume_m3(part, {"m": back}) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("faces", "says"),
    [
        (lambda f: f[:-1], "not closed"),
        (lambda f: f[:, ::-1], "inside out"),
        (lambda f: np.vstack([f, f]), "not closed"),
    ],
)
def test_surfaces_that_are_refused(faces, says):
    mesh = prism(0.005, 0.03)
    with pytest.raises(ValueError, match=says):
        read_stl(stl_bytes(Mesh(mesh.vertices_m, faces(mesh.faces))))


def test_stl_that_lies_or_is_not_finite():
    data = stl_bytes(prism(0.005, 0.03))
    with pytest.raises(ValueError, match="triangle count"):
        read_stl(data[:-1])
    with pytest.raises(ValueError, match="triangle count"):
        read_stl(data[:80] + struct.pack("<I", 2**32 - 1) + data[84:])
    with pytest.raises(ValueError, match="not finite"):
        read_stl(data[:96] + struct.pack("<f", float("nan")) + data[100:])


def test_a_closed_surface_that_mujoco_cannot_build_is_dropped(monkeypatch):
    from families.f09_gello import clearance

    monkeypatch.setattr(clearance, "mesh_fault", lambda mesh: "mesh volume is too small")
    part = Part("sup_a", "lead_link2", "mesh", (), (0.0, 0.0, 0.02), IDENTITY, 1240.0, "rod")
    lead = accept([part], meshes={"rod": prism(0.006, 0.03)})
    assert kept(lead) == [] and "cannot be built: mesh volume is too small" in messages(lead)


def test_mujoco_says_why_it_cannot_build_a_mesh():
    from families.f09_gello import scene

    cube = prism(0.006, 0.03)
    assert scene.mesh_fault(cube) == ""
    assert scene.mesh_fault(Mesh(cube.vertices_m, cube.faces[:, ::-1])) != ""


def test_a_mesh_part_weighs_what_its_surface_holds():
    mesh = prism(0.006, 0.03)
    part = Part("sup_a", "lead_link2", "mesh", (), (0.0, 0.0, 0.02), IDENTITY, 1240.0, "rod")
    lead = accept([part], meshes={"rod": mesh})
    assert kept(lead) == ["sup_a"] and lead.findings == ()
    from families.f09_gello import scene

    added = scene.compose(lead.record).mass_kg - scene.stock_device("franka").mass_kg
    assert added == pytest.approx(1240.0 * 8 * np.sin(np.pi / 8) * 0.006**2 * 0.06, rel=1e-4)


def test_every_element_of_the_list_is_one_of_mjcf_that_files_may_have():
    refused = {
        "default",
        "include",
        "option",
        "plugin",
        "extension",
        "inertial",
        "tendon",
        "equality",
        "contact",
        "sensor",
    }
    assert not refused & set(ELEMENTS)
    assert not any("class" in a or "gravcomp" in a for names in ELEMENTS.values() for a in names)
    assert STEEL in PART_RULES.metal_density_kg_m3
