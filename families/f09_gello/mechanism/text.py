"""The text of `lead.xml`: what may stand in it, and the geometry of its geoms."""

from collections.abc import Sequence

import mujoco
import numpy as np

from families.f09_gello.mechanism.record import Shape
from families.f09_gello.spec import XML_BYTES_MAX
from rle.contracts import MjcfContract
from rle.sim.mjcf_text import Node, read

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
DROPPED_ELEMENTS = ("actuator", "keyframe", "light", "camera")
"""Accepted and left out with all that they hold: nothing of them reaches the simulator."""
MESHES_READ_MAX = 64
"""Mesh elements of a file that is read at all; beyond `PART_RULES.meshes_max` each is dropped by name."""


def contract(arm: str) -> MjcfContract:
    """What may stand in `lead.xml`; the family itself compiles only the record that it reads from it."""
    return MjcfContract(
        path=f"{arm}/lead.xml",
        elements={tag: names for tag, names in ELEMENTS.items() if tag not in DROPPED_ELEMENTS},
        drop_elements=DROPPED_ELEMENTS,
        values={"compiler@angle": ("radian",)},
        max_bytes=XML_BYTES_MAX,
        max_meshes=MESHES_READ_MAX,
        compile=False,
        family_judges=True,
    )


def parse(arm: str, xml: bytes, lines: Sequence[int] = ()) -> Node:
    """Reads the text against `contract`.

    Args:
        arm: Name of the arm.
        xml: The file, or the canonical text that a check made of it.
        lines: For canonical text: the line of the file that each of its lines comes from.

    Raises:
        InvalidSubmission: `file.*` or `mjcf.*`, with line, element and what is allowed.
    """
    root = read(xml, contract(arm))
    if lines:
        for node in root.walk():
            node.line = lines[node.line - 1]
    return root


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
