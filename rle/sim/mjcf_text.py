"""The text of an MJCF artifact as the verifier's check reads it, for the development side.

The verifier reads untrusted text in a sandbox, with code of its own (`verifier/box/mjcf_check.py`). What this
module accepts, refuses and says is the same, so that nobody learns only from a score what a file lacked;
`tests/rle/sim/test_mjcf_text.py` holds the two together.
"""

import math
import re
from collections.abc import Callable, Iterator
from xml.parsers import expat

import msgspec

from rle.contracts import MjcfContract
from rle.errors import InvalidSubmission

MAX_DEPTH, MAX_NUMBERS, MAX_MAGNITUDE = 40, 16, 1e4
"""Nesting, numbers in an attribute, and size of a number. Source: the verifier's check."""
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?", re.ASCII)
NAME = re.compile(r"[A-Za-z0-9_/-]{1,64}", re.ASCII)
KEYWORD = re.compile(r"[A-Za-z]{1,20}", re.ASCII)
FILE = re.compile(r"[a-z0-9_-]{1,40}\.(stl|obj)", re.ASCII)
RESERVED = ("arm_", "rle_")
"""Prefixes of the verifier's own elements."""

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
"""Elements that may stand in an element."""
KEYWORDS = frozenset(
    """type angle autolimits eulerseq limited forcelimited ctrllimited actuatorfrclimited inertia
    mode fluidshape castshadow directional active orthographic""".split()
)
"""Attributes whose value is a key word."""
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
"""Elements that are counted, with the limit of the contract."""


class Node(msgspec.Struct):
    """An accepted element with the line that it starts on."""

    tag: str
    attributes: dict[str, str]
    line: int = 1
    children: list["Node"] = []

    def walk(self) -> Iterator["Node"]:
        """This element and everything below it, in document order."""
        yield self
        for child in self.children:
            yield from child.walk()

    def numbers(self, name: str, default: tuple[float, ...] = ()) -> tuple[float, ...]:
        """The attribute as numbers; reading has checked that it holds nothing else."""
        text = self.attributes.get(name)
        return default if text is None else tuple(float(x) for x in text.split())


def read(data: bytes, contract: MjcfContract) -> Node:
    """Reads a file against its contract. Mesh files are not looked at.

    Args:
        data: The file.
        contract: Accepted elements and attributes; what it drops is left out of the tree.

    Returns:
        The root element.

    Raises:
        InvalidSubmission: `file.*` or `mjcf.*`, with line, element and what is allowed.
    """
    if len(data) > contract.max_bytes:
        n, limit = len(data), contract.max_bytes
        raise InvalidSubmission("file.size", path=contract.path, n=n, max=limit)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidSubmission("file.encoding", path=contract.path, byte=error.start) from None
    root = _Reader(contract).read(data)
    _check_tree(root, contract)
    return root


def write(root: Node) -> str:
    """The tree as text in which every element starts on the line that it was read from."""
    out: list[str] = []
    line = 1

    def visit(node: Node) -> None:
        nonlocal line
        out.append("\n" * (node.line - line))
        line = max(line, node.line)
        head = "".join(f' {k}="{v}"' for k, v in node.attributes.items())
        out.append(f"<{node.tag}{head}>")
        for child in node.children:
            visit(child)
        out.append(f"</{node.tag}>")

    visit(root)
    return "".join(out)


class _Reader:
    """expat handlers that build the accepted tree or refuse."""

    def __init__(self, contract: MjcfContract) -> None:
        self._contract = contract
        self._root = Node("", {})
        self._stack = [self._root]
        self._dropped_depth = 0
        self._parser = parser = expat.ParserCreate("utf-8")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartDoctypeDeclHandler = self._refuse("a DOCTYPE")
        parser.EntityDeclHandler = self._refuse("an entity")
        parser.ProcessingInstructionHandler = self._refuse("a processing instruction")
        parser.XmlDeclHandler = self._declaration

    def read(self, data: bytes) -> Node:
        try:
            self._parser.Parse(data, True)
        except expat.ExpatError as error:
            fact = expat.ErrorString(error.code)
            raise InvalidSubmission("mjcf.xml", line=error.lineno, fact=fact) from None
        return self._root.children[0]

    def _refuse(self, what: str) -> Callable[..., None]:
        def handler(*_: object) -> None:
            raise InvalidSubmission("mjcf.doctype", line=self._parser.CurrentLineNumber, what=what)

        return handler

    def _declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        if encoding and encoding.lower() not in ("utf-8", "us-ascii", "ascii"):
            raise InvalidSubmission(
                "mjcf.doctype", line=1, what=f"the encoding {_quoted(encoding, 20)}"
            )

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        line, parent, contract = self._parser.CurrentLineNumber, self._stack[-1], self._contract
        is_dropped = bool(parent.tag) and tag in contract.drop_elements
        if self._dropped_depth or is_dropped:
            self._dropped_depth += 1
            if self._dropped_depth > MAX_DEPTH:
                raise InvalidSubmission("mjcf.depth", line=line, max=MAX_DEPTH)
            return
        if len(self._stack) > MAX_DEPTH:
            raise InvalidSubmission("mjcf.depth", line=line, max=MAX_DEPTH)
        allowed = CHILDREN.get(parent.tag, frozenset()) & set(contract.elements)
        if tag not in allowed:
            raise InvalidSubmission(
                "mjcf.element", line=line, tag=_quoted(tag, 40), parent=parent.tag or "the document",
                allowed=", ".join(sorted(allowed)) or "nothing",
            )  # fmt: skip
        owner = next(e.tag for e in reversed(self._stack) if e.tag != "frame")
        is_placed = tag in ("geom", "site", "joint", "freejoint")
        if owner == "worldbody" and is_placed and not contract.family_judges:
            raise InvalidSubmission("mjcf.root", line=line, what=f"<{tag}> on the world body")
        node = Node(tag, self._attributes(tag, attributes, line), line, [])
        parent.children.append(node)
        self._stack.append(node)

    def _end(self, tag: str) -> None:
        if self._dropped_depth:
            self._dropped_depth -= 1
        else:
            self._stack.pop()

    def _attributes(self, tag: str, given: dict[str, str], line: int) -> dict[str, str]:
        contract = self._contract
        accepted, dropped = contract.elements[tag], contract.drop_attributes.get(tag, ())
        result = {}
        for name, value in given.items():
            if name in dropped or (tag, name) == ("mujoco", "model"):  # a title, free text
                continue
            if name not in accepted:
                allowed = ", ".join(sorted(accepted)) or "none"
                raise InvalidSubmission(
                    "mjcf.attribute", line=line, tag=tag, name=_quoted(name, 40), allowed=allowed
                )
            path = f"{tag}@{name}"
            choices = contract.values.get(path)
            if choices is not None and value not in choices:
                allowed = ", ".join(choices)
                raise InvalidSubmission(
                    "mjcf.value", line=line, path=path, value=_quoted(value, 40), allowed=allowed
                )
            result[name] = self._value(path, name, value, line)
        return result

    def _value(self, path: str, name: str, value: str, line: int) -> str:
        if name == "file":
            if not FILE.fullmatch(value):
                raise InvalidSubmission("mesh.missing", line=line, file=_quoted(value, 60))
            return value
        if name not in NAMES and name not in KEYWORDS:
            return _numbers(path, name, value, line, has_ranges=not self._contract.family_judges)
        pattern = NAME if name in NAMES else KEYWORD
        is_reserved = name == "name" and value.startswith(RESERVED)
        is_taken = is_reserved and value not in self._contract.allow_names
        if is_taken or not pattern.fullmatch(value):
            raise InvalidSubmission("mjcf.name", line=line, path=path, value=_quoted(value, 70))
        return value


def _quoted(text: str, limit: int) -> str:
    """A piece of the file, shortened and made printable for a message."""
    shown = text if len(text) <= limit else text[: limit - 3] + "..."
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in shown)


def _numbers(path: str, name: str, value: str, line: int, has_ranges: bool) -> str:
    """A list of bounded finite numbers, in the shortest text that reads back the same."""
    words = value.split()
    bad = InvalidSubmission(
        "mjcf.number", line=line, path=path, value=_quoted(value, 40), max=f"{MAX_MAGNITUDE:g}"
    )
    if not words or len(words) > MAX_NUMBERS or not all(map(NUMBER.fullmatch, words)):
        raise bad
    numbers = [float(word) for word in words]
    if has_ranges and name in RANGES and all(map(math.isfinite, numbers)):
        low, high = RANGES[name]
        if not all(low <= x <= high for x in numbers):
            raise InvalidSubmission(
                "mjcf.range", line=line, path=path, value=_quoted(value, 40), min=low, max=high
            )
    if not all(abs(x) <= MAX_MAGNITUDE for x in numbers):
        raise bad
    return " ".join(str(int(x)) if x == int(x) else repr(x) for x in numbers)


def _check_tree(root: Node, contract: MjcfContract) -> None:
    """Caps, and, where the family does not judge them, unique names and one accepted root body."""
    nodes = list(root.walk())
    for tag, cap in CAPS.items():
        count = sum(e.tag == tag or (tag == "joint" and e.tag == "freejoint") for e in nodes)
        if count > getattr(contract, cap):
            raise InvalidSubmission("mjcf.count", tag=tag, n=count, max=getattr(contract, cap))
    if contract.family_judges:
        return
    seen: set[tuple[str, str]] = set()
    for node in nodes:
        if "name" in node.attributes:
            space = "joint" if node.tag == "freejoint" else node.tag
            space = "actuator" if node.tag in CHILDREN["actuator"] else space
            key = (space, node.attributes["name"])
            if key in seen:
                raise InvalidSubmission("mjcf.twice", line=node.line, tag=node.tag, name=key[1])
            seen.add(key)
    worlds = (child for child in root.children if child.tag == "worldbody")
    roots = [body for world in worlds for body in _top_bodies(world)]
    names, wanted = [body.attributes.get("name", "(unnamed)") for body in roots], contract.roots
    if len(roots) != (len(wanted) or 1) or (wanted and sorted(names) != sorted(wanted)):
        shown, expected = ", ".join(names) or "none", ", ".join(wanted) or "one"
        what = f"bodies directly under the world: {shown} (expected: {expected})"
        strange = [body for body, name in zip(roots, names, strict=True) if name not in wanted]
        raise InvalidSubmission("mjcf.root", line=(strange or roots or [root])[0].line, what=what)


def _top_bodies(node: Node) -> list[Node]:
    found = []
    for child in node.children:
        if child.tag == "body":
            found.append(child)
        elif child.tag == "frame":
            found.extend(_top_bodies(child))
    return found
