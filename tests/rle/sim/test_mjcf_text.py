"""Development and verification read MJCF alike: the same tables, the same trees, the same words of refusal."""

import msgspec
import pytest

from families.f08_mobile_base import chassis
from families.f09_gello import task as gello
from families.f09_gello.mechanism.text import contract as gello_contract
from rle.errors import InvalidSubmission
from rle.paths import assets_dir
from rle.sim import mjcf_text
from verifier.box import mjcf_check
from verifier.box.wire import Fault
from verifier.isolation.worker import invalid_for

ROBOT = (assets_dir() / "oracles/f08/oracle/robot.xml").read_text()
MESHED = assets_dir() / "gello/mesh/xarm7"
LEAD = (MESHED / "lead.xml").read_text()
STLS = {path.name: path.read_bytes() for path in MESHED.glob("*.stl")}
CONTRACTS = {"f08": chassis.CONTRACT, "f09": gello_contract("xarm7")}
BODY = {"f08": '<body name="battery"', "f09": '<body name="lead_link1"'}
"""Where a case inserts what it tries."""


@pytest.mark.parametrize(
    "name", ["CHILDREN", "KEYWORDS", "NAMES", "RANGES", "CAPS", "RESERVED", "NUMBER", "NAME", "KEYWORD",
             "FILE", "MAX_DEPTH", "MAX_NUMBERS", "MAX_MAGNITUDE"],
)  # fmt: skip
def test_tables_are_those_of_the_check(name):
    assert getattr(mjcf_text, name) == getattr(mjcf_check, name)


def before(text: str, family: str) -> bytes:
    """A good file with something before one of its bodies."""
    good, body = {"f08": ROBOT, "f09": LEAD}[family], BODY[family]
    assert good.count(body) == 1
    return good.replace(body, text + body).encode()


ANYWHERE = {
    "good": "",
    "include": '<include file="x.xml"/>',
    "option": "<option/>",
    "inertial": '<inertial pos="0 0 0" mass="-1"/>',
    "nan": '<site name="a" pos="nan 0 0"/>',
    "overflow": '<site name="a" pos="1e99 0 0"/>',
    "far": '<site name="a" pos="10001 0 0"/>',
    "many numbers": f'<site name="a" pos="{"1 " * 17}"/>',
    "no number": '<site name="a" pos=""/>',
    "not ASCII digits": '<site name="a" pos="\u0661 0 0"/>',
    "odd name": '<site name="a b"/>',
    "long name": f'<site name="{"a" * 65}"/>',
    "reserved name": '<site name="arm_tool"/>',
    "key word": '<geom type="box 1" size="1 1 1"/>',
    "attribute": '<body name="b" gravcomp="1"/>',
    "dropped": '<light foo="bar"><what/></light>',
    "dropped and deep": "<light>" * 60 + "</light>" * 60,
    "deep": "<body>" * 60 + "</body>" * 60,
    "many bodies": "<body/>" * 250,
    "twice": '<site name="a"/>\n<site name="a"/>',
    "not a child": "<compiler/>",
    "instruction": "<?php x?>",
    "broken": "<body>",
}


@pytest.mark.parametrize("family", CONTRACTS)
@pytest.mark.parametrize("text", ANYWHERE.values(), ids=ANYWHERE.keys())
def test_same_tree_or_same_words(family, text):
    agree(before(text, family), family)


@pytest.mark.parametrize("family", CONTRACTS)
@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"<light/>", b"<robot/>", b"<mujoco/>", b"\xff\xfe<", b'<?xml version="1.0" encoding="latin-1"?><mujoco/>',
     b"<!DOCTYPE a><mujoco/>", b'<!DOCTYPE a [<!ENTITY b "c">]><mujoco/>', b"<mujoco>" + b" " * 2**21 + b"</mujoco>"],
    ids=lambda data: data[:12].decode("latin-1"),
)  # fmt: skip
def test_same_words_for_what_is_no_such_file(family, data):
    agree(data, family)


def agree(data: bytes, family: str) -> None:
    """Both readers accept the same tree, or refuse in the same words."""
    contract = CONTRACTS[family]
    as_data = msgspec.to_builtins(contract)
    try:
        theirs = mjcf_check.rewrite(data, STLS, as_data)
    except Fault as fault:
        with pytest.raises(InvalidSubmission) as ours:
            mjcf_text.read(data, contract)
        expected = InvalidSubmission(fault.code, **fault.fields)
        assert (ours.value.code, ours.value.message) == (expected.code, expected.message)
        return
    root = mjcf_text.read(data, contract)
    again = mjcf_text.read(theirs.text.encode(), contract)
    lines = [node.line for node in root.walk()]
    assert plain(root) == plain(again)
    assert lines == [theirs.lines[node.line - 1] for node in again.walk()]
    written = mjcf_text.read(mjcf_text.write(root).encode(), contract)
    assert plain(written) == plain(root) and [n.line for n in written.walk()] == lines


def plain(node: mjcf_text.Node) -> tuple:
    return node.tag, dict(sorted(node.attributes.items())), [plain(c) for c in node.children]


FIRST = min(STLS)
MESH_CASES = {
    "good": {},
    "cut": {FIRST: STLS[FIRST][:-30]},
    "empty": {FIRST: b""},
    "text": {FIRST: b"solid x\nendsolid x\n"},
    "noise": {FIRST: bytes(range(256)) * 8},
    "open": {FIRST: STLS[FIRST][:80] + (63).to_bytes(4, "little") + STLS[FIRST][84:-50]},
}


@pytest.mark.parametrize("change", MESH_CASES.values(), ids=MESH_CASES.keys())
def test_a_bad_mesh_drops_the_same_part_on_both_sides(change):
    """f09 judges one part at a time: what cannot be read costs its part, never the file."""
    files, data = STLS | change, LEAD.encode()
    ours = gello.accept("xarm7", data, files)
    folder = {"xarm7/lead.xml": data, **{f"xarm7/{name}": stl for name, stl in files.items()}}
    answer = mjcf_check.check(folder, msgspec.to_builtins(CONTRACTS["f09"]))
    faults = {file: invalid_for(*fault).message for file, fault in answer["mesh_faults"].items()}
    theirs = gello.accept("xarm7", answer["canonical"], answer["assets"], answer["lines"], faults)
    told = [[(f.level, f.code, f.element) for f in lead.findings] for lead in (ours, theirs)]
    assert told[0] == told[1] and bool(told[0]) == bool(change)
    assert [p.name for p in ours.record.parts] == [p.name for p in theirs.record.parts]
    assert not ours.refused("load")
