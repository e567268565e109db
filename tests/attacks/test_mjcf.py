"""Attack book, kind mjcf: rows 41 to 55 as far as they end before a family's physics."""

import numpy as np
import pytest

from rle.contracts import MjcfContract
from tests.attacks.support import refused
from verifier.box import meshes, mjcf_check

BODY = ("name", "pos", "quat")
GEOM = ("name", "type", "size", "pos", "quat", "density", "mesh", "fromto", "mass")
CONTRACT = MjcfContract(
    path="robot.xml",
    elements={
        "mujoco": ("model",),
        "compiler": ("angle", "autolimits"),
        "asset": (),
        "mesh": ("name", "file", "scale", "inertia"),
        "worldbody": (),
        "body": BODY,
        "inertial": ("pos", "mass", "diaginertia"),
        "joint": ("name", "type", "axis", "damping", "stiffness", "armature", "range"),
        "freejoint": ("name",),
        "geom": GEOM,
        "site": ("name", "pos"),
        "actuator": (),
        "velocity": ("name", "joint", "gear", "forcerange", "kv"),
    },
    drop_elements=("light", "camera", "keyframe"),
    drop_attributes={"geom": ("rgba", "friction", "contype", "conaffinity", "solref", "margin")},
    values={"compiler@angle": ("radian",)},
    allow_names=("arm_mount_site",),
    roots=("base",),
)
INNER = '<geom name="box" type="box" size=".1 .2 .3" density="1000"/>'


def robot(inner: str = INNER, *, before: str = "", after: str = "", world: str = "") -> str:
    return (
        f'<mujoco model="m">{before}<compiler angle="radian"/><worldbody>{world}'
        f'<body name="base"><freejoint name="free"/>{inner}</body></worldbody>{after}</mujoco>'
    )


def cube_stl() -> bytes:
    corner = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32) * np.float32(0.1)
    faces = corner[[[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]]
    return meshes.to_stl(faces)


MESH = '<geom name="m" type="mesh" mesh="part"/>'
MESH_ASSET = '<asset><mesh name="part" file="part.stl"/></asset>'


def mesh_robot() -> str:
    return robot(INNER + MESH, before=MESH_ASSET)


def test_honest_file_is_accepted_and_rewritten(make_context):
    text = "\ufeff" + robot(
        '<!-- mine --><geom density="1e3" size=".1 0.20 +.3" type="box" name="box" rgba="1 0 0 1"'
        ' friction="1000 1 1"/><site name="arm_mount_site" pos="0 0 .3"/>',
        world='<light pos="0 0 3"/>',
        after='<keyframe><key name="home" qpos="0 0 1 1 0 0 0"/></keyframe>',
    ).replace("\n", "\r\n")
    checked = make_context({"robot.xml": text}).check("mjcf", CONTRACT)
    canonical = checked.canonical.decode()
    # 0.2 x 0.4 x 0.6 m of 1000 kg/m3 is 48 kg
    assert checked.facts["mass_kg"] == pytest.approx(48.0)
    assert '<geom density="1000" name="box" size="0.1 0.2 0.3" type="box"/>' in canonical
    assert not any(word in canonical for word in ("friction", "light", "key", "rgba", "mine"))


def test_honest_mesh_is_accepted(make_context):
    files = {"robot.xml": mesh_robot(), "part.stl": cube_stl()}
    checked = make_context(files).check("mjcf", CONTRACT)
    assert checked.assets == {"part.stl": cube_stl()}


def test_obj_becomes_the_same_solid_in_stl(make_context):
    obj = "\n".join(
        ["v 0 0 0", "v .1 0 0", "v 0 .1 0", "v 0 0 .1", "f 1 3 2", "f 1 2 4", "f 1 4 3", "f 2 3 4"]
    )
    files = {"robot.xml": mesh_robot().replace("part.stl", "part.obj"), "part.obj": obj}
    checked = make_context(files).check("mjcf", CONTRACT)
    assert checked.assets == {"part-obj.stl": cube_stl()}


def static(text: str | bytes, files: dict[str, bytes] | None = None):
    """The text stage alone, outside a sandbox: cheap, and what most attacks end in."""
    import msgspec

    data = text.encode() if isinstance(text, str) else text
    return mjcf_check.rewrite(data, files or {}, msgspec.to_builtins(CONTRACT))[:2]


def refused_text(text: str | bytes, code: str, files: dict[str, bytes] | None = None):
    from verifier.box.wire import Fault

    with pytest.raises(Fault) as caught:
        static(text, files)
    assert caught.value.code == code, caught.value.fields
    return caught.value.fields


ELEMENTS = {
    "include absolute (41)": robot(before='<include file="/etc/passwd"/>'),
    "include upwards (41)": robot(before='<include file="../../x.xml"/>'),
    "model and attach (41)": robot(before='<asset><model name="a" file="x.xml"/></asset>'),
    "attach (41)": robot('<attach model="a" body="b" prefix="c"/>'),
    "extension (42)": robot(before='<extension><plugin plugin="mujoco.pid"/></extension>'),
    "plugin (42)": robot('<plugin plugin="mujoco.elasticity.cable"/>'),
    "replicate (43)": robot('<replicate count="20000"><geom size="1"/></replicate>'),
    "flexcomp (43)": robot('<flexcomp name="f" count="90 90 90" type="grid"/>'),
    "composite (43)": robot('<composite type="cable" count="5000 1 1"/>'),
    "option (45)": robot(before='<option gravity="0 0 0" timestep="1" o_solref="1 1"/>'),
    "size (45)": robot(before='<size memory="64G"/>'),
    "equality (48)": robot(after='<equality><weld body1="base"/></equality>'),
    "exclude (48)": robot(after='<contact><exclude body1="base" body2="base"/></contact>'),
    "tendon (52)": robot(after='<tendon><spatial stiffness="9"/></tendon>'),
    "adhesion (52)": robot(after='<actuator><adhesion body="base"/></actuator>'),
    "site force (52)": robot(after='<actuator><general site="s"/></actuator>'),
    "user sensor (52)": robot(after='<sensor><user dim="9"/></sensor>'),
}


@pytest.mark.parametrize("case", ELEMENTS)
def test_element_outside_the_list(case):
    fields = refused_text(ELEMENTS[case], "mjcf.element")
    assert fields["line"] == 1 and fields["allowed"]


TEXTS = {
    "doctype (44)": ('<!DOCTYPE m [<!ENTITY a "b">]>' + robot(), "mjcf.doctype"),
    "external entity (44)": (
        '<!DOCTYPE m SYSTEM "file:///etc/passwd">' + robot(),
        "mjcf.doctype",
    ),
    "processing instruction (44)": ("<?php x?>" + robot(), "mjcf.doctype"),
    "utf-7 (44)": ('<?xml version="1.0" encoding="UTF-7"?>' + robot(), "mjcf.doctype"),
    "utf-16 (44)": (robot().encode("utf-16"), "file.encoding"),
    "not closed": (robot()[:-9], "mjcf.xml"),
    "mocap (48)": (robot('<body name="b" mocap="true"/>'), "mjcf.attribute"),
    "gravcomp (48)": (robot('<body name="b" gravcomp="1"/>'), "mjcf.attribute"),
    "priority (49)": (robot('<geom size=".1" priority="9"/>'), "mjcf.attribute"),
    "world geom (50)": (robot(world='<geom size="1"/>'), "mjcf.root"),
    "world geom in a frame (50)": (robot(world='<frame><geom size="1"/></frame>'), "mjcf.element"),
    "second root (50)": (robot(world='<body name="other"/>'), "mjcf.root"),
    "renamed root (50)": (robot().replace('"base"', '"bass"'), "mjcf.root"),
    "reserved name (55)": (robot('<geom name="arm_link0" size=".1"/>'), "mjcf.name"),
    "odd name (55)": (robot('<geom name="a b" size=".1"/>'), "mjcf.name"),
    "twice (55)": (robot('<geom name="a" size=".1"/><geom name="a" size=".1"/>'), "mjcf.twice"),
    "long names (55)": (robot(f'<geom name="{"a" * 10**7}" size=".1"/>'), "file.size"),
    "deep": (robot("<body>" * 60 + "</body>" * 60), "mjcf.depth"),
    "many geoms": (robot('<geom size=".1"/>' * 401), "mjcf.count"),
    "angle in degrees": (robot().replace("radian", "degree"), "mjcf.value"),
    "no mesh file (53)": (mesh_robot(), "mesh.missing"),
    "mesh elsewhere (53)": (mesh_robot().replace("part.stl", "../x.stl"), "mesh.missing"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_text_that_is_refused(case):
    refused_text(*TEXTS[case])


@pytest.mark.parametrize(
    "value", ["nan", "inf", "-inf", "1e999", "0x1", "1e300", "10001", "1,2", "1e", "1_0"]
)
def test_number_that_is_none(value):
    """Row 46."""
    refused_text(robot(f'<body name="b" pos="{value} 0 0"/>'), "mjcf.number")


def test_more_numbers_than_any_attribute_has():
    refused_text(robot(f'<body name="b" pos="{"1 " * 17}"/>'), "mjcf.number")


@pytest.mark.parametrize(
    "attribute",
    ['damping="-1"', 'stiffness="-.001"', 'armature="1e6"', 'damping="1001"'],
)
def test_joint_number_out_of_range(attribute):
    """Row 51."""
    refused_text(robot(f'<body name="b"><joint {attribute}/></body>'), "mjcf.range")


@pytest.mark.parametrize("attribute", ['gear="1e12"', 'forcerange="-1e30 1e30"'])
def test_actuator_number_out_of_range(attribute):
    """Row 51."""
    after = f'<actuator><velocity name="v" joint="free" {attribute}/></actuator>'
    refused_text(robot(after=after), "mjcf.range")


INERTIALS = {
    "2 m box of 10 g (47)": '<geom type="box" size="1 1 1"/><inertial pos="0 0 0" mass=".01"'
    ' diaginertia="1 1 1"/>',
    "centre 5 m away (47)": INNER + '<inertial pos="5 0 0" mass="48" diaginertia="1 1 1"/>',
    "1e-12 kg (47)": INNER + '<inertial pos="0 0 0" mass="1e-12" diaginertia="1e-12 1e-12 1e-12"/>',
}


@pytest.mark.parametrize("case", INERTIALS)
def test_inertia_that_geometry_does_not_explain(make_context, case):
    ctx = make_context({"robot.xml": robot(INERTIALS[case])})
    with refused("mjcf.inertia", "mjcf.compile") as caught:
        ctx.check("mjcf", CONTRACT)
    assert caught.value.code == "mjcf.compile" or "geometry gives" in caught.value.message


def test_inertia_that_geometry_explains_is_accepted(make_context):
    # box of half sizes .1 .2 .3, 48 kg: I_x = 48/3 (.2^2 + .3^2) = 2.08, 1.6, 0.8
    inertial = '<inertial pos="0 0 0" mass="48" diaginertia="2.08 1.6 0.8"/>'
    checked = make_context({"robot.xml": robot(INNER + inertial)}).check("mjcf", CONTRACT)
    assert checked.facts["mass_kg"] == pytest.approx(48.0)


def stl_with(corners: np.ndarray) -> bytes:
    return meshes.to_stl(corners.astype(np.float32))


MESHES = {
    "NaN (53)": (stl_with(np.full((4, 3, 3), np.nan)), "mesh.number"),
    "far away (53)": (stl_with(np.full((4, 3, 3), 11.0)), "mesh.number"),
    "one point (53)": (stl_with(np.zeros((4, 3, 3))), "mesh.format"),
    "count lies high (53)": (
        cube_stl()[:80] + b"\xff\xff\xff\x7f" + cube_stl()[84:],
        "mesh.vertices",
    ),
    "count lies low (53)": (cube_stl()[:80] + b"\x01\0\0\0" + cube_stl()[84:], "mesh.format"),
    "truncated (53)": (cube_stl()[:-1], "mesh.format"),
    "empty (53)": (b"", "mesh.format"),
    "text, no triangles (53)": (b"solid x\nendsolid", "mesh.format"),
    "text, no numbers (53)": (b"solid x\nvertex a b c\n", "mesh.number"),
}


@pytest.mark.parametrize("case", MESHES)
def test_mesh_that_is_refused(case):
    data, code = MESHES[case]
    refused_text(mesh_robot(), code, {"part.stl": data})


OBJS = {
    "bad index (53)": "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 9",
    "negative index (53)": "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf -1 -2 -3",
    "mtllib (53)": "mtllib /etc/passwd\nv 0 0 0",
    "no faces (53)": "v 0 0 0",
}


@pytest.mark.parametrize("case", OBJS)
def test_obj_that_is_refused(case):
    text = mesh_robot().replace("part.stl", "part.obj")
    refused_text(text, "mesh.format", {"part.obj": OBJS[case].encode()})


def test_too_many_vertices():
    """Row 53: distinct points, one triangle each."""
    rng = np.random.default_rng(53)
    corners = rng.uniform(-1, 1, (20_000, 3, 3))
    fields = refused_text(mesh_robot(), "mesh.vertices", {"part.stl": stl_with(corners)})
    assert fields["n"] == 60_000
