"""Every finding has its sentence, and every sentence gets the facts that it names."""

import ast
import string
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rle.errors import AGENT_MESSAGES
from verifier.box import wire
from verifier.isolation import layers
from verifier.isolation.worker import action_fault, fault_record, invalid

VERIFIER = layers.BOX.parent


def findings() -> Iterator[tuple[Path, int, str, set[str] | None]]:
    """(file, line, code, given facts or None where they are not spelled out) of every raise."""
    for path in sorted(VERIFIER.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            if ast.unparse(node.func) not in ("Fault", "wire.Fault", "InvalidSubmission"):
                continue
            if node.args and isinstance(node.args[0], ast.Constant):
                spelled = all(keyword.arg for keyword in node.keywords)
                facts = {keyword.arg for keyword in node.keywords if keyword.arg}
                yield path, node.lineno, node.args[0].value, facts if spelled else None


def wanted(code: str) -> set[str]:
    """Facts that a sentence names."""
    return {name for _, name, _, _ in string.Formatter().parse(AGENT_MESSAGES[code]) if name}


def test_there_are_findings():
    assert len({code for _, _, code, _ in findings()}) > 50


def test_every_finding_has_its_sentence_and_facts():
    for path, line, code, facts in findings():
        place = f"{path.name}:{line} {code}"
        assert code in AGENT_MESSAGES, place
        assert facts is None or wanted(code) <= facts, place


def test_faults_that_are_composed_at_run_time():
    """`PythonRole._guard` adds class and line to the code that it is given."""
    assert wanted("python.load") <= {"path", "cls", "line"}
    assert wanted("action.raised") <= {"cls", "line"}


def payload(code: object, fields: object) -> bytearray:
    return bytearray(wire.encode_fields({"code": code, "fields": fields}))


def test_text_of_a_worker_is_never_the_message():
    """A worker fills in facts of a known sentence; they are shortened and made printable."""
    evil = "\x1b[31m" + "A" * 500
    error = invalid(payload("python.load", {"path": evil, "cls": evil, "line": 3}))
    assert error.code == "python.load" and error.message.isprintable()
    assert len(error.message) < 500
    assert action_fault(payload("action.raised", {"cls": "X", "line": 1})).ended == "bad_action"


@pytest.mark.parametrize(
    "data",
    [
        payload("no.such", {}),
        payload("python.load", {}),
        payload(3, {}),
        payload("python.load", [1]),
        bytearray(b"\x91" * 2000),
        bytearray(),
    ],
)
def test_unreadable_faults_have_one_sentence(data):
    code, _ = fault_record(data)
    assert code in AGENT_MESSAGES
    assert invalid(data).code == "ipc.frame"
    assert action_fault(data).code == "ipc.frame"


def test_layout_pads_and_refuses():
    layout = wire.Layout(
        [
            {"name": "image", "shape": [3], "dtype": "uint8"},
            {"name": "pose", "shape": [2], "dtype": "float64"},
        ]
    )
    assert layout.size == 8 + 16
    arrays = [np.arange(3, dtype=np.uint8), np.array([1.5, -2.5])]
    again = layout.unpack(b"head----" + layout.pack(arrays), 8)
    assert [a.tolist() for a in again] == [a.tolist() for a in arrays]
    with pytest.raises(ValueError, match="pose: got float32"):
        layout.pack([arrays[0], arrays[1].astype(np.float32)])
    with pytest.raises(ValueError, match="declares 24"):
        layout.unpack(bytes(23))
    with pytest.raises(ValueError, match="1 arrays"):
        layout.pack(arrays[:1])


def test_fields_carry_arrays():
    fields = {"q": np.eye(2), "name": "x", "nested": [{"n": np.float64(2.5)}]}
    again = wire.decode_fields(wire.encode_fields(fields))
    assert again["q"].tolist() == np.eye(2).tolist()
    assert again["nested"] == [{"n": 2.5}]
    again["q"][0, 0] = 7.0  # a submission may write to what it gets
