"""The agent's client package: installs by itself, needs no rle, talks to a broker's protocol."""

import subprocess
import sys
import zipfile

from service_fake import attempt, spec

from rle.service import wheel
from rle.service.manual import manual

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
        "rle_client/protocol.py",
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


def test_the_manual_names_every_operation_with_its_cost():
    text = manual(spec(attempt()))
    for line in ("| reset() | 1 |", "call('nudge') | 1 |", "move(", "finish() | 0 |"):
        assert line in text
    assert "| `x` | () | m | position |" in text
