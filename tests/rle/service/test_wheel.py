"""The agent's client package: installs by itself, needs no rle, talks to a broker's protocol."""

import contextlib
import subprocess
import sys
import types
import zipfile
from typing import get_args

import pytest
from service_fake import Point, attempt, spec

import rle
from rle.commands.info import Gen
from rle.errors import UserError
from rle.service import client, embedded, manual
from rle.service.adapter import EventKey
from rle.service.deploy import wheel
from rle.service.errors import ERRORS
from rle.service.protocol import ErrorKind, Status

CODE = """
import sys
import rle_client
loaded = [m for m in sys.modules if m.split('.')[0] in ('rle', 'families', 'verifier', 'mujoco')]
assert not loaded, loaded
try:
    rle_client.connect('/nowhere/sim.sock')
except rle_client.ServiceError as error:
    assert 'no simulator service' in str(error)
print(sorted(n for n in rle_client.__all__))
"""


def test_the_wheel_holds_protocol_and_client_alone(tmp_path):
    path = wheel.build(tmp_path)
    names = zipfile.ZipFile(path).namelist()
    assert {n for n in names if n.startswith("rle_client/")} == {
        "rle_client/__init__.py",
        "rle_client/frames.py",
        "rle_client/protocol.py",
        "rle_client/errors.py",
        "rle_client/client.py",
    }
    assert path.read_bytes() == wheel.build(tmp_path / "again").read_bytes()


def test_it_imports_without_the_project(tmp_path):
    target = tmp_path / "site"
    with zipfile.ZipFile(wheel.build(tmp_path)) as package:
        package.extractall(target)
    code = f"import sys; sys.path.insert(0, {str(target)!r})\n{CODE}"
    run = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr
    assert "connect" in run.stdout


def test_gen_writes_it(tmp_path):
    """`rle gen client` is the one command that makes what an agent is given."""
    assert Gen(what="client", out=tmp_path).run() == 0
    (path,) = tmp_path.iterdir()
    assert path.name == f"rle_client-{rle.__version__}-py3-none-any.whl"
    assert Gen(what="client", out=tmp_path, family="f06").run() == 0
    assert "rle_client/f06/__init__.py" in zipfile.ZipFile(path).namelist()
    with pytest.raises(UserError, match="'f04' adds nothing"):
        Gen(what="client", out=tmp_path, family="f04").run()


def test_the_manual_names_every_operation_with_its_cost():
    declared = spec(attempt(), events=(EventKey(name="nudged", help="it was nudged"),))
    text = manual.manual(declared)
    for line in ("| reset() | 1 |", "call('nudge') | 1 |", "move(", "finish() | 0 |"):
        assert line in text
    assert "| `x` | () | m | position |" in text
    assert "| `nudged` | it was nudged |" in text
    assert "call('fault', how='text')" in text
    for word in ("end_development", "HandoffRefused", "list_tasks", "privileged"):
        assert word not in text, f"{word} is not of this phase"


def test_the_manual_explains_every_field_and_error_there_is():
    assert tuple(manual.STATUS_HELP) == Status.__struct_fields__
    assert set(manual.ERROR_HELP) == set(get_args(ErrorKind))


def test_the_manuals_example_runs(tmp_path, monkeypatch):
    declared = spec(attempt())
    code = manual.manual(declared).split("```python\n")[1].split("```")[0]
    with embedded.open(declared, folder=tmp_path, adapter=Point("x")) as sim:
        module = types.ModuleType("rle_client")
        module.connect = lambda: contextlib.nullcontext(sim)
        monkeypatch.setitem(sys.modules, "rle_client", module)
        exec(compile(code, "manual", "exec"), {})
        assert sim.status.steps_used == 20


def test_every_error_can_be_caught_by_its_name():
    names = {cls.__name__ for cls in ERRORS.values()} | {"ServiceError", "ForkedClientError"}
    assert names <= set(client.__all__)
    assert all(hasattr(client, name) for name in client.__all__)
