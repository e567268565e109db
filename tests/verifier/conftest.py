"""A context over a folder of files, in strict isolation, without the pipeline around it."""

import shutil
from pathlib import Path

import msgspec
import pytest

from rle.spec import ArtifactContract, ArtifactEntry
from tests.attacks.onnx_files import honest
from tests.verifier import fake_family
from tests.verifier.runs import verify
from verifier.context import Context, Settings
from verifier.hidden import read_salt
from verifier.isolation import layers
from verifier.submission import freeze

ANY_FILES = ArtifactContract(
    entries=(ArtifactEntry(path="**", kind="data", max_bytes=2**27, required=False),),
    max_files=600,
    max_total_bytes=2**27,
)


def write_files(folder: Path, files: dict[str, bytes | str]) -> Path:
    """Writes files below a folder, making it and those between."""
    folder.mkdir(parents=True, exist_ok=True)
    for path, data in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data.encode() if isinstance(data, str) else data)
    return folder


@pytest.fixture
def policy(tmp_path) -> Path:
    """A folder with an honest policy for the fake family."""
    return write_files(tmp_path / "submission", {"policy.onnx": honest()})


@pytest.fixture(scope="session")
def honest_out(tmp_path_factory) -> Path:
    """Results of an undisturbed run."""
    base = tmp_path_factory.mktemp("honest")
    folder = write_files(base / "submission", {"policy.onnx": honest()})
    assert verify(folder, base / "out") == 0
    return base / "out"


@pytest.fixture
def make_context(tmp_path):
    """`make_context(files, mode="strict")` -> Context over the frozen copy of these files."""
    made = []

    def make(files: dict[str, bytes | str], mode: layers.Mode = "strict") -> Context:
        base = tmp_path / f"context{len(made)}"
        source = write_files(base / "source", files)
        task = msgspec.structs.replace(fake_family.TASK, artifact=ANY_FILES)
        plan = layers.plan(mode)
        if plan.own_uid:
            for folder in (base, *base.parents):
                if str(folder).startswith("/tmp/"):
                    folder.chmod(0o711)
        frozen = freeze(source, base / "frozen", task)
        logs = base / "logs"
        logs.mkdir()
        made.append(base)
        return Context(Settings(task, frozen, read_salt(None), plan, {"fault": "none"}, logs))

    yield make
    for base in made:
        for folder in base.rglob("*"):
            if folder.is_dir():
                folder.chmod(0o700)
        shutil.rmtree(base, ignore_errors=True)
