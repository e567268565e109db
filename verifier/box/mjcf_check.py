"""MJCF as text: read without MuJoCo, accepted element by element, written anew.

What is compiled later is never the submitted text but the canonical one: a tree of accepted
elements with accepted attributes, whose values are names, key words or bounded numbers. Writing is
a fixed point: the canonical text, checked again, is itself.
"""

import math
import posixpath
import re
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.parsers import expat

import numpy as np

from . import meshes, mjcf_box
from .roles import CheckRole, quoted
from .wire import Fault

MAX_DEPTH, MAX_NUMBERS, MAX_MAGNITUDE = 40, 16, 1e4
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?", re.ASCII)
NAME = re.compile(r"[A-Za-z0-9_/-]{1,64}", re.ASCII)
KEYWORD = re.compile(r"[A-Za-z]{1,20}", re.ASCII)
FILE = re.compile(r"[a-z0-9_-]{1,40}\.(stl|obj)", re.ASCII)
RESERVED = ("arm_", "rle_")
"""Prefixes of the verifier's own elements."""
HEADER = "<!-- written by the verifier from accepted values -->\n"

_BODY = frozenset("body frame inertial joint freejoint geom site camera light".split())
CHILDREN: dict[str, frozenset[str]] = {
    "": frozenset({"mujoco"}),
    "mujoco": frozenset("compiler default asset worldbody actuator keyframe".split()),
    "asset": frozenset("mesh material".split()),
    "worldbody": _BODY - {"inertial", "joint", "freejoint"},
    "body": _BODY,
    "frame": _BODY - {"inertial"},
    "actuator": frozenset("position velocity motor".split()),
    "keyframe": frozenset({"key"}),
    "default": frozenset("default mesh material joint geom site position velocity motor".split()),
}
"""Elements that may stand in an element; what is not here is never accepted from anybody."""
KEYWORDS = frozenset(
    """type angle autolimits eulerseq limited forcelimited ctrllimited actuatorfrclimited inertia
    mode fluidshape castshadow directional active orthographic""".split()
)
NAMES = frozenset("name mesh material joint site class childclass target body".split())
"""Attributes whose value is a name; `file` is a file, everything else numbers."""
RANGES: dict[str, tuple[float, float]] = {
    "damping": (0.0, 1e3),
    "stiffness": (0.0, 1e4),
    "armature": (0.0, 10.0),
    "frictionloss": (0.0, 1e3),
    "density": (0.0, 3e4),
    "mass": (0.0, 1e3),
    "gear": (-1e3, 1e3),
    "forcerange": (-1e4, 1e4),
    "actuatorfrcrange": (-1e4, 1e4),
    "kp": (0.0, 1e4),
    "kv": (0.0, 1e4),
}
"""Attributes that have a range of their own, in MuJoCo's units."""
CAPS = {"body": "max_bodies", "geom": "max_geoms", "joint": "max_joints", "mesh": "max_meshes"}


@dataclass
class Element:
    """An accepted element."""

    tag: str
    attributes: dict[str, str]
    line: int = 1
    """Where it starts in the text that was read."""
    children: list["Element"] = field(default_factory=list)

    def walk(self):
        """This element and all below it, in document order."""
        yield self
        for child in self.children:
            yield from child.walk()


class _Reader:
    """expat handlers that build the accepted tree or refuse."""

    def __init__(self, contract: dict, folder_files: frozenset[str]) -> None:
        self._contract = contract
        self._files = folder_files
        self._root = Element("", {})
        self._stack = [self._root]
        self._dropped_depth = 0
        self._parser = parser = expat.ParserCreate("utf-8")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartDoctypeDeclHandler = self._refuse("a DOCTYPE")
        parser.EntityDeclHandler = self._refuse("an entity")
        parser.ProcessingInstructionHandler = self._refuse("a processing instruction")
        parser.XmlDeclHandler = self._declaration

    def read(self, data: bytes) -> Element:
        try:
            self._parser.Parse(data, True)
        except expat.ExpatError as error:
            fact = expat.ErrorString(error.code)
            raise Fault("mjcf.xml", line=error.lineno, fact=fact) from None
        return self._root.children[0]

    def _refuse(self, what: str):
        def handler(*_: object) -> None:
            raise Fault("mjcf.doctype", line=self._parser.CurrentLineNumber, what=what)

        return handler

    def _declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        if encoding and encoding.lower() not in ("utf-8", "us-ascii", "ascii"):
            raise Fault("mjcf.doctype", line=1, what=f"the encoding {quoted(encoding, 20)}")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        line, parent = self._parser.CurrentLineNumber, self._stack[-1]
        is_dropped = bool(parent.tag) and tag in self._contract["drop_elements"]
        if self._dropped_depth or is_dropped:
            self._dropped_depth += 1
            if self._dropped_depth > MAX_DEPTH:
                raise Fault("mjcf.depth", line=line, max=MAX_DEPTH)
            return
        if len(self._stack) > MAX_DEPTH:
            raise Fault("mjcf.depth", line=line, max=MAX_DEPTH)
        allowed = CHILDREN.get(parent.tag, frozenset()) & set(self._contract["elements"])
        if tag not in allowed:
            raise Fault(
                "mjcf.element",
                line=line,
                tag=quoted(tag, 40),
                parent=parent.tag or "the document",
                allowed=", ".join(sorted(allowed)) or "nothing",
            )
        owner = next(e.tag for e in reversed(self._stack) if e.tag != "frame")
        is_placed = tag in ("geom", "site", "joint", "freejoint")
        if owner == "worldbody" and is_placed and not self._contract["family_judges"]:
            raise Fault("mjcf.root", line=line, what=f"<{tag}> on the world body")
        element = Element(tag, self._attributes(tag, attributes, line), line)
        parent.children.append(element)
        self._stack.append(element)

    def _end(self, tag: str) -> None:
        if self._dropped_depth:
            self._dropped_depth -= 1
        else:
            self._stack.pop()

    def _attributes(self, tag: str, given: dict[str, str], line: int) -> dict[str, str]:
        accepted = self._contract["elements"][tag]
        dropped = self._contract["drop_attributes"].get(tag, ())
        result = {}
        for name, value in given.items():
            if name in dropped or (tag, name) == ("mujoco", "model"):  # a title, free text
                continue
            if name not in accepted:
                raise Fault(
                    "mjcf.attribute",
                    line=line,
                    tag=tag,
                    name=quoted(name, 40),
                    allowed=", ".join(sorted(accepted)) or "none",
                )
            path = f"{tag}@{name}"
            choices = self._contract["values"].get(path)
            if choices is not None and value not in choices:
                raise Fault(
                    "mjcf.value",
                    line=line,
                    path=path,
                    value=quoted(value, 40),
                    allowed=", ".join(choices),
                )
            result[name] = self._value(path, name, value, line)
        return result

    def _value(self, path: str, name: str, value: str, line: int) -> str:
        if name == "file":
            is_here = value in self._files or self._contract["family_judges"]
            if not FILE.fullmatch(value) or not is_here:
                raise Fault("mesh.missing", line=line, file=quoted(value, 60))
            return value
        if name in NAMES or name in KEYWORDS:
            pattern = NAME if name in NAMES else KEYWORD
            if not pattern.fullmatch(value):
                raise Fault("mjcf.name", line=line, path=path, value=quoted(value, 70))
            reserved = name == "name" and value.startswith(RESERVED)
            if reserved and value not in self._contract["allow_names"]:
                raise Fault("mjcf.name", line=line, path=path, value=value)
            return value
        return _numbers(path, name, value, line, has_ranges=not self._contract["family_judges"])


def _numbers(path: str, name: str, value: str, line: int, has_ranges: bool) -> str:
    """A list of bounded finite numbers, in the shortest text that reads back the same."""
    words = value.split()
    bad = Fault(
        "mjcf.number", line=line, path=path, value=quoted(value, 40), max=f"{MAX_MAGNITUDE:g}"
    )
    if not words or len(words) > MAX_NUMBERS or not all(map(NUMBER.fullmatch, words)):
        raise bad
    numbers = [float(word) for word in words]
    if has_ranges and name in RANGES and all(map(math.isfinite, numbers)):
        low, high = RANGES[name]
        if not all(low <= x <= high for x in numbers):
            raise Fault(
                "mjcf.range", line=line, path=path, value=quoted(value, 40), min=low, max=high
            )
    if not all(abs(x) <= MAX_MAGNITUDE for x in numbers):
        raise bad
    return " ".join(_shortest(x) for x in numbers)


def _shortest(x: float) -> str:
    return str(int(x)) if x == int(x) else repr(x)


def _check_tree(root: Element, contract: dict) -> None:
    """Caps, and, where the family does not judge them, unique names and one accepted root body."""
    elements = list(root.walk())
    for tag, cap in CAPS.items():
        count = sum(e.tag == tag or (tag == "joint" and e.tag == "freejoint") for e in elements)
        if count > contract[cap]:
            raise Fault("mjcf.count", tag=tag, n=count, max=contract[cap])
    if contract["family_judges"]:
        return
    seen: set[tuple[str, str]] = set()
    for element in elements:
        if "name" in element.attributes:
            space = "joint" if element.tag == "freejoint" else element.tag
            space = "actuator" if element.tag in CHILDREN["actuator"] else space
            key = (space, element.attributes["name"])
            if key in seen:
                raise Fault("mjcf.twice", line=element.line, tag=element.tag, name=key[1])
            seen.add(key)
    roots = [
        body for world in root.children if world.tag == "worldbody" for body in _top_bodies(world)
    ]
    names = [body.attributes.get("name", "(unnamed)") for body in roots]
    wanted = list(contract["roots"])
    if len(roots) != (len(wanted) or 1) or (wanted and sorted(names) != sorted(wanted)):
        shown, expected = ", ".join(names) or "none", ", ".join(wanted) or "one"
        what = f"bodies directly under the world: {shown} (expected: {expected})"
        strange = [body for body, name in zip(roots, names, strict=True) if name not in wanted]
        raise Fault("mjcf.root", line=(strange or roots or [root])[0].line, what=what)


def _top_bodies(element: Element) -> list[Element]:
    found = []
    for child in element.children:
        if child.tag == "body":
            found.append(child)
        elif child.tag == "frame":
            found.extend(_top_bodies(child))
    return found


def write(element: Element, indent: str = "") -> str:
    """Canonical text of an element: sorted attributes, one element on a line."""
    head = "".join(f' {k}="{v}"' for k, v in sorted(element.attributes.items()))
    if not element.children:
        return f"{indent}<{element.tag}{head}/>\n"
    inner = "".join(write(child, indent + "  ") for child in element.children)
    return f"{indent}<{element.tag}{head}>\n{inner}{indent}</{element.tag}>\n"


def source_lines(element: Element) -> list[int]:
    """For every line that `write` makes of an element, the line where it stood in the text read."""
    if not element.children:
        return [element.line]
    inner = [line for child in element.children for line in source_lines(child)]
    return [element.line, *inner, element.line]


def _canonical_meshes(
    root: Element, files: dict[str, bytes], contract: dict
) -> tuple[dict[str, bytes], dict[str, Fault]]:
    """Re-written meshes by their canonical name (the tree is changed to name them), and those that cannot
    be read, where the family judges what that means."""
    assets: dict[str, bytes] = {}
    faults: dict[str, Fault] = {}
    total = 0
    for element in root.walk():
        name = element.attributes.get("file", "")
        if element.tag != "mesh" or name not in files:
            continue
        try:
            corners = _corners(name, files[name], contract)
        except Fault as fault:
            if not contract["family_judges"]:
                raise
            faults[name] = fault
            continue
        total += meshes.count_vertices(corners)
        if total > contract["max_vertices"]:
            raise Fault("mesh.vertices", file="all meshes", n=total, max=contract["max_vertices"])
        stem, suffix = posixpath.splitext(name)
        element.attributes.setdefault("name", stem)
        if suffix == ".obj":
            element.attributes["file"] = f"{stem}-obj.stl"
            if element.attributes["file"] in files:
                name = element.attributes["file"]
                raise Fault("mjcf.twice", line=element.line, tag="mesh", name=name)
        assets[element.attributes["file"]] = meshes.to_stl(corners)
    return assets, faults


def _corners(name: str, data: bytes, contract: dict) -> np.ndarray:
    if contract["family_judges"] and not meshes.is_binary_stl(data):
        raise Fault("mesh.format", file=name, fact="not a binary STL")
    return meshes.read(name, data, contract["max_mesh_vertices"])


class Rewritten(NamedTuple):
    """One pass over a file."""

    text: str
    """Canonical text."""
    assets: dict[str, bytes]
    """Re-written meshes by the name that the text gives them."""
    lines: list[int]
    """For every line of the text, the line of the file that it comes from."""
    faults: dict[str, Fault]
    """Meshes that could not be read, where the family judges."""


def rewrite(data: bytes, files: dict[str, bytes], contract: dict) -> Rewritten:
    """One pass: canonical text and meshes.

    Args:
        data: MJCF text.
        files: Mesh files beside it, by name.
        contract: `rle.contracts.MjcfContract` as plain data.

    Raises:
        Fault: `mjcf.*`, `mesh.*`, `file.encoding` or `file.size`.
    """
    if len(data) > contract["max_bytes"]:
        raise Fault("file.size", path=contract["path"], n=len(data), max=contract["max_bytes"])
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Fault("file.encoding", path=contract["path"], byte=error.start) from None
    root = _Reader(contract, frozenset(files)).read(data)
    assets, faults = _canonical_meshes(root, files, contract)
    _check_tree(root, contract)
    return Rewritten(HEADER + write(root), assets, [1, *source_lines(root)], faults)


def check(files: dict[str, bytes], contract: dict) -> dict:
    """Text stage, fixed point, and, where the contract asks for it, the model stage.

    Returns:
        `canonical` (bytes), `assets` (meshes by name), the counts of `mjcf_box.check_model`, and where the
        family judges `lines` and `mesh_faults` (code and fields by file).

    Raises:
        Fault: With the first finding.
    """
    path = contract["path"]
    beside = {posixpath.basename(p): data for p, data in files.items() if p != path}
    first = rewrite(files[path], beside, contract)
    again = rewrite(first.text.encode(), first.assets, contract)
    if (again.text, again.assets) != (first.text, first.assets):
        raise Fault("mjcf.unstable")
    facts = {}
    if contract["compile"]:
        facts = mjcf_box.check_model(first.text, first.assets, contract, first.lines)
    if contract["family_judges"]:
        facts["lines"] = first.lines
        facts["mesh_faults"] = {n: [f.code, f.fields] for n, f in first.faults.items()}
    return {"canonical": first.text.encode(), "assets": first.assets, **facts}


def build(config: dict) -> CheckRole:
    return CheckRole(check)
