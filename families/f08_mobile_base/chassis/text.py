"""The text of `robot.xml` on the development side: what the verifier accepts, refused with the same words."""

import re
import xml.etree.ElementTree as ET
from xml.parsers import expat

from rle.contracts import MjcfContract
from rle.errors import InvalidSubmission

MAX_DEPTH, MAX_MAGNITUDE = 40, 1e4
"""Nesting, and size of a number. Source: the verifier's check of any MJCF text."""
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?", re.ASCII)
_NAME, _RESERVED = re.compile(r"[A-Za-z0-9_/-]{1,64}", re.ASCII), ("arm_", "rle_")
_WORDS = frozenset("name joint type angle autolimits eulerseq limited".split())
"""Attributes whose value is a word; everything else holds numbers."""


def accepted(data: bytes, contract: MjcfContract) -> str:
    """The accepted part of a file: elements and attributes of the contract, nothing else.

    Raises:
        InvalidSubmission: `file.size` or `mjcf.*`, with the line.
    """
    if len(data) > contract.max_bytes:
        n, limit = len(data), contract.max_bytes
        raise InvalidSubmission("file.size", path=contract.path, n=n, max=limit)
    root = _Reader(contract).read(data)
    for tag, limit in (("body", contract.max_bodies), ("geom", contract.max_geoms)):
        n = sum(1 for _ in root.iter(tag))
        if n > limit:
            raise InvalidSubmission("mjcf.count", tag=tag, n=n, max=limit)
    return ET.tostring(root, encoding="unicode")


class _Reader:
    """expat handlers that build the accepted tree or refuse."""

    def __init__(self, contract: MjcfContract) -> None:
        self._contract = contract
        self._tree = ET.TreeBuilder()
        self._open: list[str] = []
        self._dropped = 0
        self._tops: list[str] = []
        self._parser = parser = expat.ParserCreate("utf-8")
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.StartDoctypeDeclHandler = self._doctype

    def read(self, data: bytes) -> ET.Element:
        try:
            self._parser.Parse(data, True)
        except expat.ExpatError as error:
            fact = expat.ErrorString(error.code)
            raise InvalidSubmission("mjcf.xml", line=error.lineno, fact=fact) from None
        if self._tops != list(self._contract.roots):
            shown = ", ".join(self._tops) or "none"
            what = f"bodies directly under the world: {shown}"
            raise InvalidSubmission("mjcf.root", line=0, what=what)
        return self._tree.close()

    def _doctype(self, *_: object) -> None:
        line = self._parser.CurrentLineNumber
        raise InvalidSubmission("mjcf.doctype", line=line, what="a DOCTYPE")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        line, contract = self._parser.CurrentLineNumber, self._contract
        if len(self._open) + self._dropped >= MAX_DEPTH:
            raise InvalidSubmission("mjcf.depth", line=line, max=MAX_DEPTH)
        if self._dropped or tag in contract.drop_elements:
            self._dropped += 1
            return
        if tag not in contract.elements or (tag == "mujoco") == bool(self._open):
            allowed = "mujoco" if not self._open else ", ".join(sorted(contract.elements))
            parent = self._open[-1] if self._open else "the document"
            raise InvalidSubmission(
                "mjcf.element", line=line, tag=tag[:40], parent=parent, allowed=allowed
            )
        owner = next((name for name in reversed(self._open) if name != "frame"), "")
        if owner == "worldbody":
            if tag in ("geom", "site", "joint", "freejoint"):
                raise InvalidSubmission("mjcf.root", line=line, what=f"<{tag}> on the world body")
            if tag == "body":
                self._tops.append(attributes.get("name", "(unnamed)"))
        self._tree.start(tag, self._attributes(tag, attributes, line))
        self._open.append(tag)

    def _end(self, tag: str) -> None:
        if self._dropped:
            self._dropped -= 1
        else:
            self._open.pop()
            self._tree.end(tag)

    def _attributes(self, tag: str, given: dict[str, str], line: int) -> dict[str, str]:
        known, dropped = self._contract.elements[tag], self._contract.drop_attributes.get(tag, ())
        kept = {}
        for name, value in given.items():
            if name in dropped or (tag, name) == ("mujoco", "model"):
                continue
            if name not in known:
                allowed = ", ".join(sorted(known)) or "none"
                raise InvalidSubmission(
                    "mjcf.attribute", line=line, tag=tag, name=name[:40], allowed=allowed
                )
            if name == "name" and not self._is_free(value):
                raise InvalidSubmission(
                    "mjcf.name", line=line, path=f"{tag}@name", value=value[:70]
                )  # fmt: skip
            if name not in _WORDS and not all(map(_is_number, value.split())):
                raise InvalidSubmission(
                    "mjcf.number", line=line, path=f"{tag}@{name}", value=value[:40],
                    max=f"{MAX_MAGNITUDE:g}",
                )  # fmt: skip
            kept[name] = value
        return kept

    def _is_free(self, name: str) -> bool:
        """A plain name without a prefix of the verifier's own elements."""
        is_reserved = name.startswith(_RESERVED) and name not in self._contract.allow_names
        return bool(_NAME.fullmatch(name)) and not is_reserved


def _is_number(word: str) -> bool:
    return bool(_NUMBER.fullmatch(word)) and abs(float(word)) <= MAX_MAGNITUDE
