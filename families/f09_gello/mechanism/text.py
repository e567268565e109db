"""The text of `lead.xml`: a small tree with line numbers, checked against what may stand in it."""

import re
from collections.abc import Iterator
from xml.parsers import expat

import msgspec
import mujoco
import numpy as np

from families.f09_gello.mechanism.record import Finding, Shape
from families.f09_gello.spec import XML_BYTES_MAX

SIZES: dict[Shape, int] = {
    "box": 3,
    "sphere": 1,
    "capsule": 2,
    "cylinder": 2,
    "ellipsoid": 3,
    "mesh": 0,
}
"""Shapes of added parts with the number of their size parameters."""
_PLACE = ("pos", "quat", "axisangle", "euler")
ELEMENTS: dict[str, tuple[str, ...]] = {
    "mujoco": ("model",),
    "compiler": ("angle",),
    "asset": (),
    "mesh": ("name", "file", "inertia", "scale"),
    "material": ("name", "rgba"),
    "worldbody": (),
    "body": ("name", *_PLACE),
    "joint": (
        "name", "type", "pos", "axis", "range", "limited", "damping", "frictionloss", "armature",
        "stiffness", "springref",
    ),
    "geom": (
        "name", "type", "size", *_PLACE, "fromto", "density", "mass", "mesh", "material", "rgba",
        "contype", "conaffinity", "group",
    ),
    "site": ("name", "type", "size", *_PLACE, "rgba", "material", "group"),
    "light": ("name", *_PLACE, "dir", "type", "directional", "castshadow", "diffuse", "ambient"),
    "camera": ("name", *_PLACE, "xyaxes", "zaxis", "fovy", "mode"),
    "actuator": (),
    "position": ("name", "joint", "kp", "kv", "ctrlrange", "forcerange", "ctrllimited", "forcelimited"),
    "keyframe": (),
    "key": ("name", "qpos", "ctrl"),
}  # fmt: skip
"""Accepted elements of `lead.xml` with their accepted attributes."""
_TEXT = {"name", "model", "file", "inertia", "type", "limited", "mesh", "material", "joint", "mode",
         "angle", "directional", "castshadow", "ctrllimited", "forcelimited"}  # fmt: skip
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
NUMBER_MAX = 1e4
"""Largest accepted magnitude of a number in the file."""


DEPTH_MAX = 40
"""Deepest accepted nesting of elements."""


class Refused(Exception):
    """The file cannot be used at all."""

    def __init__(self, code: str, element: str, message: str) -> None:
        super().__init__(message)
        self.finding = Finding("refused", code, element, message)


class Node(msgspec.Struct):
    """An XML element with the line it starts on."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list["Node"] = []

    def walk(self) -> Iterator["Node"]:
        """This element and everything below it, in document order."""
        yield self
        for child in self.children:
            yield from child.walk()

    def numbers(self, name: str, default: tuple[float, ...] = ()) -> tuple[float, ...]:
        """The attribute as numbers; `parse` has checked that it holds nothing else."""
        text = self.attributes.get(name)
        return default if text is None else tuple(float(x) for x in text.split())


def parse(xml: bytes) -> Node:
    """Reads the text against `ELEMENTS`.

    Raises:
        Refused: `load.*`, with line, element and what is allowed.
    """
    if len(xml) > XML_BYTES_MAX:
        raise Refused(
            "load.size", "lead.xml", f"{len(xml)} bytes; at most {XML_BYTES_MAX} are accepted"
        )
    stack: list[Node] = [Node("", {}, 0)]
    parser = expat.ParserCreate("utf-8")

    def start(tag: str, attributes: dict[str, str]) -> None:
        node = Node(tag, attributes, parser.CurrentLineNumber, [])
        if len(stack) > DEPTH_MAX:
            message = f"line {node.line}: nested more than {DEPTH_MAX} elements deep"
            raise Refused("load.depth", tag, message)
        _check_element(node)
        stack[-1].children.append(node)
        stack.append(node)

    def doctype(*_: object) -> None:
        raise Refused("load.doctype", "lead.xml", "a DOCTYPE is not accepted; remove it")

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _tag: stack.pop()
    parser.StartDoctypeDeclHandler = doctype
    try:
        xml.decode("utf-8")
        parser.Parse(xml, True)
    except UnicodeDecodeError as error:
        raise Refused(
            "load.encoding", "lead.xml", f"not UTF-8 text (byte {error.start})"
        ) from error
    except expat.ExpatError as error:
        text = expat.errors.messages[error.code]
        raise Refused("load.xml", "lead.xml", f"line {error.lineno}: {text}") from error
    root = stack[0].children[0]
    if root.tag != "mujoco":
        raise Refused("load.xml", root.tag, "the root element must be <mujoco>")
    return root


def _check_element(node: Node) -> None:
    where = f"line {node.line}: <{node.tag}>"
    if node.tag not in ELEMENTS:
        raise Refused(
            "load.element", node.tag, f"{where} is not accepted; allowed: {', '.join(ELEMENTS)}"
        )
    for name, value in node.attributes.items():
        if name not in ELEMENTS[node.tag]:
            allowed = ", ".join(ELEMENTS[node.tag]) or "none"
            raise Refused(
                "load.attribute",
                node.tag,
                f"{where}: attribute {name!r} is not accepted; allowed: {allowed}",
            )
        if name in _TEXT:
            continue
        for word in value.split():
            if not _NUMBER.fullmatch(word) or not abs(float(word)) <= NUMBER_MAX:
                raise Refused(
                    "load.number", node.tag,
                    f"{where}@{name} = {value[:60]!r}: finite numbers up to {NUMBER_MAX:g} are expected",
                )  # fmt: skip
    if node.tag == "compiler" and node.attributes.get("angle", "radian") != "radian":
        raise Refused("load.value", node.tag, f'{where}: only angle="radian" is accepted')


# ------------------------------------------------------------------------------ geometry of a geom


def orientation(node: Node) -> np.ndarray:
    """Orientation attribute (quat, axisangle or euler xyz) as a unit quaternion wxyz. Shape (4,)."""
    quat = np.array([1.0, 0.0, 0.0, 0.0])
    given = [name for name in _PLACE[1:] if name in node.attributes]
    if len(given) > 1:
        raise ValueError(f"gives both {given[0]} and {given[1]}; give one")
    if not given:
        return quat
    values = np.array(node.numbers(given[0]))
    if len(values) != {"quat": 4, "axisangle": 4, "euler": 3}[given[0]]:
        raise ValueError(f"{given[0]} has {len(values)} numbers")
    if given[0] == "euler":
        mujoco.mju_euler2Quat(quat, values, "xyz")
        return quat
    norm = float(np.linalg.norm(values if given[0] == "quat" else values[:3]))
    if norm < 1e-6:
        raise ValueError(f"{given[0]} has length zero")
    if given[0] == "quat":
        return values / norm
    mujoco.mju_axisAngle2Quat(quat, values[:3] / norm, values[3])
    return quat


def place(node: Node) -> tuple[Shape, tuple[float, ...], np.ndarray, np.ndarray]:
    """Shape, size (m), position (m) and quaternion (wxyz) of a geom, `fromto` resolved.

    Raises:
        ValueError: The attributes do not make a geom; says why.
    """
    shape = node.attributes.get("type", "mesh" if "mesh" in node.attributes else "sphere")
    if shape not in SIZES:
        raise ValueError(f"type {shape!r}; allowed: {', '.join(SIZES)}")
    size = node.numbers("size")
    pos = np.array(node.numbers("pos", (0.0, 0.0, 0.0)))
    quat = orientation(node)
    if "fromto" in node.attributes:
        ends = np.array(node.numbers("fromto"))
        if shape in ("sphere", "mesh") or len(ends) != 6:
            raise ValueError("fromto needs 6 numbers and a capsule, cylinder, box or ellipsoid")
        along = ends[:3] - ends[3:]
        length = float(np.linalg.norm(along))
        if length < 1e-6 or not size:
            raise ValueError("fromto needs two different points and a size")
        pos, quat = (ends[:3] + ends[3:]) / 2, np.zeros(4)
        mujoco.mju_quatZ2Vec(quat, along / length)
        size = (size[0], length / 2) if SIZES[shape] == 2 else (size[0], size[0], length / 2)
    if len(pos) != 3 or len(size) < SIZES[shape]:
        raise ValueError(f"a {shape} needs a pos of 3 and a size of {SIZES[shape]} numbers")
    size = size[: SIZES[shape]]
    if not all(s > 0 for s in size):
        raise ValueError(f"size {size} must be positive")
    return shape, size, pos, quat
