"""Structure-aware mutations with fixed seeds: every file ends in findings or a named refusal.

RLE_FUZZ sets the number of mutations of each kind; `make fuzz` asks for 20,000.
"""

import io
import os
import random
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import torch

from rle.errors import AGENT_MESSAGES
from tests.attacks import test_mjcf, test_recipe, test_torchscript
from tests.attacks.onnx_files import honest
from tests.verifier.fake_family import ONNX
from verifier.box import meshes, mjcf_check, onnx_check, python_check, torchscript_check
from verifier.box.recipe import ckpt_check, source_check
from verifier.box.wire import Fault

N_FAST, N_FULL = 500, 20_000
MAX_GROWTH_BYTES = 64 * 2**20
"""Memory stays flat: a check keeps nothing of a file."""
TOKENS = [b"0", b"-1", b"1e999", b"nan", b"\xff" * 8, b"\0", b"<", b'"', b"../", b"A" * 300]
PYTHON = "import os\n\n\ndef act(obs):\n    return [x + 1.0 for x in obs['q']]\n"


def mutate(data: bytes, rng: random.Random) -> bytes:
    """One to four edits: flip, delete, repeat, move or insert a piece."""
    edited = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(edited) + 1)
        length = min(len(edited) - at, rng.choice((1, 2, 8, 32)))
        kind = rng.randrange(5)
        if kind == 0 and at < len(edited):
            edited[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del edited[at : at + length]
        elif kind == 2:
            edited[at:at] = edited[at : at + length] * rng.choice((1, 3, 40))
        elif kind == 3:
            edited[at:at] = rng.choice(TOKENS)
        else:
            piece = edited[at : at + length]
            del edited[at : at + length]
            to = rng.randrange(len(edited) + 1)
            edited[to:to] = piece
    return bytes(edited)


def mutate_member(data: bytes, rng: random.Random) -> bytes:
    """A mutation inside one member of an archive, written back as torch writes it."""
    if rng.random() < 0.3:
        return mutate(data, rng)
    source = zipfile.ZipFile(io.BytesIO(data))
    names = source.namelist()
    victim = rng.choice(names)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in names:
            content = source.read(name)
            archive.writestr(name, mutate(content, rng) if name == victim else content)
    return out.getvalue()


def check_onnx(data: bytes) -> object:
    return onnx_check.check({"policy.onnx": data}, msgspec.to_builtins(ONNX))


def check_mjcf(data: bytes) -> object:
    contract = msgspec.to_builtins(test_mjcf.CONTRACT)
    return mjcf_check.rewrite(data, {"part.stl": test_mjcf.cube_stl()}, contract)


def check_torchscript(data: bytes) -> object:
    contract = msgspec.to_builtins(test_torchscript.CONTRACT)
    return torchscript_check.check({"model.pt": data}, contract)


def check_python(data: bytes) -> object:
    contract = {"folder": "", "max_files": 4, "max_total_bytes": 10**6, "suffixes": [".py"]}
    return python_check.check({"policy.py": data}, contract)


def check_recipe(data: bytes) -> object:
    return source_check.check({"solution.py": data}, msgspec.to_builtins(test_recipe.SOURCE))


def check_ckpt(data: bytes) -> object:
    with tempfile.NamedTemporaryFile(suffix=".pt") as file:
        file.write(data)
        file.flush()
        return ckpt_check.check(Path(file.name), msgspec.to_builtins(test_recipe.CKPT))


def checkpoint() -> bytes:
    value = {"w": torch.ones(3, 4), "steps": [1, 2.0, "x"], "nested": {"b": torch.zeros(2)}}
    return test_recipe.saved(value)


def model_archive() -> bytes:
    torch.manual_seed(0)
    return test_torchscript.scripted(test_torchscript.Honest())


OBJ = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1/2 2/3 4/4\nf 1 3 4 2\n"
TEXT_STL = b"solid s\nfacet normal 0 0 1\nouter loop\n" + b"vertex 0 0 0.5\n" * 6 + b"endsolid\n"
Kind = tuple[Callable[[], bytes], Callable[[bytes], object], Callable]
KINDS: dict[str, Kind] = {
    "onnx": (honest, check_onnx, mutate),
    "mjcf": (lambda: test_mjcf.mesh_robot().encode(), check_mjcf, mutate),
    "stl": (test_mjcf.cube_stl, lambda d: meshes.read("a.stl", d, 1000), mutate),
    "text stl": (lambda: TEXT_STL, lambda d: meshes.read("a.stl", d, 1000), mutate),
    "obj": (lambda: OBJ, lambda d: meshes.read("a.obj", d, 1000), mutate),
    "torchscript": (model_archive, check_torchscript, mutate_member),
    "python": (PYTHON.encode, check_python, mutate),
    "recipe": (test_recipe.HONEST.encode, check_recipe, mutate),
    "ckpt": (checkpoint, check_ckpt, mutate_member),
}


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fuzz(kind: str, n: int) -> int:
    """Checks `n` mutations; returns by how much memory grew after the first tenth, bytes."""
    make, check, change = KINDS[kind]
    original, before = make(), 0
    for seed in range(n):
        if seed == n // 10:
            before = resident_bytes()
        data = change(original, random.Random(f"{kind}/{seed}"))
        try:
            check(data)
        except Fault as fault:
            assert fault.code in AGENT_MESSAGES, (seed, fault.code)
            AGENT_MESSAGES[fault.code].format(**fault.fields)
        except Exception as error:
            raise AssertionError(f"{kind}, seed {seed}: {error!r}") from error
    return resident_bytes() - before


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_some_mutations(kind):
    fuzz(kind, N_FAST)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_many_mutations(kind):
    grown = fuzz(kind, int(os.environ.get("RLE_FUZZ", N_FULL)))
    assert grown < MAX_GROWTH_BYTES, f"memory grew by {grown / 2**20:.0f} MiB"
