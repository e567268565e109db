"""Attack book, kinds ckpt and recipe: rows 40 and 76 to 81."""

import base64
import io
import json
import os
import socket
import time

import msgspec
import numpy as np
import pytest
import torch

from rle.contracts import CheckpointContract, RecipeContract, RecipeRun
from rle.errors import BudgetExceeded
from rle.verify_api import TrialFault
from tests.attacks.support import refused
from tests.verifier.conftest import write_files
from verifier.box.recipe import ckpt_check, source_check
from verifier.box.wire import Fault
from verifier.isolation.launch import processes_of
from verifier.recipe import Trained
from verifier.submission import freeze

SOURCE = RecipeContract(
    path="solution.py", compressed_max_bytes=65_536, opaque_max_bytes=4096, numbers_max_n=4096
)
CKPT = CheckpointContract(max_bytes=2**20, max_elements=100_000)
RUN = RecipeRun(checkpoint=CKPT, train_s=30.0, allowance_s=5.0, bind_s=30.0)
HONEST = """
import os, socket, sys
if os.environ["MODE"] == "train":
    import torch
    torch.save({"w": torch.ones(3)}, os.environ["OUTPUT_DIR"] + "/ckpt.pt")
    sys.exit(0)
weights = open(os.environ["CKPT"], "rb").read()
with socket.socket(socket.AF_UNIX) as server:
    server.bind(os.environ["SOCKET"])
    server.listen()
    while True:
        client, _ = server.accept()
        with client:
            request = client.recv(64)
            if request == b"die":
                os._exit(0)
            client.sendall(str(len(weights)).encode())
"""


@pytest.fixture
def recipe(make_context):
    """`recipe(text)` -> context and checked source."""

    def make(text: str):
        ctx = make_context({"solution.py": text})
        return ctx, ctx.check("recipe", SOURCE)

    return make


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/rle-evil",)


def trainer(body: str) -> str:
    """A recipe whose training is `body`, before it writes an honest checkpoint as plain bytes."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"""
import os, socket, sys, threading, time
OUT = os.environ["OUTPUT_DIR"]
CKPT = {saved({"w": torch.ones(3)})!r}
EVIL = {saved({"w": Evil()})!r}
def save():
    with open(OUT + "/ckpt.pt", "wb") as file:
        file.write(CKPT)
def attempt(act):
    try:
        act()
    except Exception as error:
        return type(error).__name__
    return "done"
def main():
{lines}
main()
"""


def saved(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


# ------------------------------------------------------------------------------------- the source


def measured(text: str) -> dict:
    return source_check.check({"solution.py": text.encode()}, msgspec.to_builtins(SOURCE))


def refused_source(text: str, what: str) -> None:
    with pytest.raises(Fault) as caught:
        measured(text)
    assert caught.value.code == "recipe.literals" and caught.value.fields["what"] == what


NOISE = np.random.default_rng(80).integers(0, 256, 2**20, dtype=np.uint8).tobytes()
PACKED = base64.b85encode(NOISE[:6000]).decode()
"""7,500 characters that hold 6,000 bytes."""


def pieces(text: str, n: int = 100) -> list[str]:
    return [text[i : i + n] for i in range(0, len(text), n)]


OPAQUE = {
    "text": f"W = {PACKED!r}",
    "bytes": f"W = {NOISE[:6000]!r}",
    "in pieces": f"W = {pieces(PACKED)!r}",
    "a sum": "W = " + " + ".join(map(repr, pieces(PACKED))),
    "arguments": f"W = ''.join({pieces(PACKED)!r})",
    "with numbers between": "W = [" + ", 0, ".join(map(repr, pieces(PACKED))) + "]",
    "keys": f"W = {dict.fromkeys(pieces(PACKED), 0)!r}",
    "nested": "W = [" + ", ".join(f"[{p!r}]" for p in pieces(PACKED)) + "]",
    "a docstring": f'"""{PACKED.replace(chr(34), "").replace(chr(92), "")}"""',
}


@pytest.mark.parametrize("case", OPAQUE)
def test_weights_in_literals(case):
    """Row 80."""
    refused_source(OPAQUE[case], "bytes of opaque literals")


COMPRESSED = {
    "a comment": "# " + base64.b85encode(NOISE[:70_000]).decode(),
    "names": "\n".join(f"x{NOISE[i : i + 20].hex()} = 1" for i in range(0, 70_000, 20)),
    "hex with spaces": "W = '" + " ".join(f"{b:02x}" for b in NOISE[:80_000]) + "'",
    "white space": "".join("\t" if bit else " " for bit in np.unpackbits(
        np.frombuffer(NOISE[:70_000], np.uint8))) + "\nx = 1",
}  # fmt: skip


@pytest.mark.parametrize("case", COMPRESSED)
def test_weights_wherever_they_hide(case):
    """Row 80: 70 kB however they are spelled, and a megabyte of packed weights."""
    text = COMPRESSED[case]
    refused_source(text if case != "white space" else f"x = 0\n#{text}", "bytes when compressed")


def test_a_megabyte_of_packed_weights(recipe):
    """Row 80, through the sandbox."""
    with refused("recipe.literals"):
        recipe("W = '" + base64.b64encode(NOISE[: 3 * 2**18]).decode() + "'")


def test_weights_as_numbers():
    """Row 80: just inside and just outside."""
    assert measured("W = (" + "7, " * 4096 + ")")["recipe_numbers"] == 4096
    refused_source("W = (" + "7, " * 4097 + ")", "numbers")


def test_opaque_just_inside_and_outside():
    text = "ab" * 2048
    assert measured(f"W = {text!r}")["recipe_literal_bytes"] == 4096
    refused_source(f"W = {text + 'a'!r}", "bytes of opaque literals")
    assert measured(f"W = {'a' * 127!r}")["recipe_literal_bytes"] == 0


def test_prose_and_code_are_not_weights():
    """This file, and the largest of the standard library: nowhere near a limit."""
    for path in (__file__, json.decoder.__file__, os.__file__, torch.nn.functional.__file__):
        with open(path) as file:
            found = measured(file.read())
        assert found["recipe_literal_bytes"] <= 4096 and found["recipe_numbers"] <= 4096


def test_a_tree_of_any_depth_is_measured():
    deep = "x = " + "-" * 500 + "1\n" + "y = " + " + ".join(["'ab'"] * 900)
    assert measured(deep)["recipe_numbers"] == 1


# ------------------------------------------------------------------------------------- checkpoints


def refused_ckpt(data: bytes, tmp_path, code: str) -> dict:
    (tmp_path / "ckpt.pt").write_bytes(data)
    with pytest.raises(Fault) as caught:
        ckpt_check.check(tmp_path / "ckpt.pt", msgspec.to_builtins(CKPT))
    assert caught.value.code == code, caught.value.fields
    return caught.value.fields


def test_pickle_that_runs_code(tmp_path):
    """Row 40."""
    refused_ckpt(saved({"w": Evil()}), tmp_path, "ckpt.load")
    assert not os.path.exists("/tmp/rle-evil")


@pytest.mark.parametrize("elements", [70_000_000_000, 100_001])
def test_tensor_that_claims_more_than_it_stores(tmp_path, elements):
    """Row 40: one stored number, seventy thousand million elements."""
    wide = torch.zeros(1).as_strided((elements,), (0,))
    fields = refused_ckpt(saved({"w": wide}), tmp_path, "ckpt.size")
    assert fields["n"] == elements


def test_elements_just_inside_are_counted_once(tmp_path):
    shared = torch.zeros(50_000)
    (tmp_path / "ckpt.pt").write_bytes(saved({"a": shared, "b": [shared, torch.zeros(50_000)]}))
    found = ckpt_check.check(tmp_path / "ckpt.pt", msgspec.to_builtins(CKPT))
    assert found["ckpt_elements"] == 100_000


def test_elements_without_storage_count(tmp_path):
    """Two thousand million elements on the device that stores none, and one more."""
    limit = msgspec.to_builtins(msgspec.structs.replace(CKPT, max_elements=2 * 10**9))
    value = {"w": torch.empty(2 * 10**9, device="meta")}
    assert ckpt_check.count(value, limit) == 2 * 10**9
    with pytest.raises(Fault, match="ckpt.size"):
        ckpt_check.count({**value, "b": torch.empty(1, device="meta")}, limit)


def nested(depth: int) -> dict:
    value: object = 1.0
    for _ in range(depth - 1):
        value = [value]
    return {"a": value}


def endless() -> dict:
    loop: list = []
    loop.append(loop)
    return {"a": loop}


def test_depth_and_loops(tmp_path):
    (tmp_path / "ckpt.pt").write_bytes(saved(nested(16)))
    ckpt_check.check(tmp_path / "ckpt.pt", msgspec.to_builtins(CKPT))
    refused_ckpt(saved(nested(17)), tmp_path, "ckpt.load")
    (tmp_path / "ckpt.pt").write_bytes(saved(endless()))
    assert ckpt_check.check(tmp_path / "ckpt.pt", msgspec.to_builtins(CKPT))["ckpt_elements"] == 0


@pytest.mark.parametrize(
    "data",
    [b"", b"PK\x03\x04", saved({}), saved([1]), saved({"f": torch.nn.Linear(1, 1)}),
     saved({"s": torch.eye(3).to_sparse()}), saved({"w": torch.ones(3)})[:-40], b"\x80\x04N."],
    ids=["empty", "head", "empty dict", "list", "module", "sparse", "cut", "bare pickle"],
)  # fmt: skip
def test_file_that_is_no_checkpoint(tmp_path, data):
    refused_ckpt(data, tmp_path, "ckpt.load")


# --------------------------------------------------------------------------- training and serving


def test_honest_recipe_trains_and_serves(recipe):
    ctx, source = recipe(HONEST)
    trained = ctx.train(source, RUN)
    assert trained.facts["ckpt_elements"] == 3 and not trained.stopped
    with ctx.serve(source, trained, RUN) as server:
        server.check()
        assert ask(server, b"hello") == str(trained.facts["ckpt_bytes"]).encode()
        ask(server, b"die")
        with pytest.raises(TrialFault) as caught:
            for _ in range(400):
                server.check()
                time.sleep(0.05)
    assert caught.value.ended == "worker_died"


def ask(server, data: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20.0)
        client.connect(str(server.socket))
        client.sendall(data)
        return client.recv(64)


FORBIDDEN = {
    "simulator": "__import__('families')",
    "verifier": "__import__('verifier')",
    "network": "socket.create_connection(('127.0.0.1', 9))",
    "any socket": "socket.socket(socket.AF_UNIX)",
    "passwd": "open('/etc/passwd')",
    "parent": "open(f'/proc/{os.getppid()}/environ')",
    "write elsewhere": "open('/tmp/rle-recipe', 'w')",
    "shared memory": "open('/dev/shm/x', 'w')",
    "child": "os.fork()",
    "program": "os.execv('/bin/true', ['true'])",
    "other folder": "os.listdir(OUT + '/../..')",
}


def test_what_training_may_not_reach(recipe):
    """Row 76: the simulator, the evaluation, the network and the machine; threads and files it has."""
    attempts = ", ".join(f"{k!r}: attempt(lambda: {v})" for k, v in FORBIDDEN.items())
    body = f"""import json
tried = {{{attempts}}}
tried["thread"] = attempt(lambda: threading.Thread(target=save).start())
tried["scratch"] = attempt(lambda: open(os.environ["TMPDIR"] + "/x", "w").write("x" * 99))
tried["environment"] = sorted(os.environ)
json.dump(tried, open(OUT + "/meta.json", "w"))"""
    ctx, source = recipe(trainer(body))
    trained = ctx.train(source, RUN)
    tried = json.loads(trained.output.read("meta.json"))
    known = ["HOME", "LANG", "MODE", "OUTPUT_DIR", "PATH", "PYTHONHASHSEED", "TMPDIR"]
    assert [k for k in tried.pop("environment") if k != "LC_CTYPE"] == known
    assert {name for name, how in tried.items() if how == "done"} == {"thread", "scratch"}


OUTPUTS = {
    "third file": ("save(); open(OUT + '/notes.txt', 'w').write('x')", "recipe.output"),
    "symbolic link": ("os.symlink('/etc/passwd', OUT + '/ckpt.pt')", "recipe.output"),
    "hard link": ("save(); os.link(OUT + '/ckpt.pt', OUT + '/meta.json')", "recipe.output"),
    "folder": ("os.mkdir(OUT + '/ckpt.pt')", "recipe.output"),
    "nothing": ("pass", "recipe.output"),
    "meta is no object": ("save(); open(OUT + '/meta.json', 'w').write('[1]')", "recipe.output"),
    "large meta": (
        "save(); open(OUT + '/meta.json', 'w').write('\"' + 'x' * 2**20 + '\"')",
        "recipe.output",
    ),
    "over the limit": ("open(OUT + '/ckpt.pt', 'wb').truncate(2**20 + 1)", "recipe.output"),
    "3 GiB": ("open(OUT + '/ckpt.pt', 'wb').truncate(3 * 2**30)", "recipe.train"),
    "exit code 3": ("save(); sys.exit(3)", "recipe.train"),
    "raises": ("save(); raise ValueError", "recipe.train"),
    "killed": ("save(); os.kill(os.getpid(), 9)", "recipe.died"),
    "code in it": ("open(OUT + '/ckpt.pt', 'wb').write(EVIL)", "ckpt.load"),
}


@pytest.mark.parametrize("case", OUTPUTS)
def test_what_training_may_not_leave(recipe, case):
    """Rows 77 and 78."""
    body, code = OUTPUTS[case]
    ctx, source = recipe(trainer(body))
    with refused(code):
        ctx.train(source, RUN)


def test_training_that_never_ends(recipe):
    """Row 79: with a checkpoint written in time it counts, without one the budget is exceeded."""
    short = msgspec.structs.replace(RUN, train_s=2.0, allowance_s=1.0)
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    ctx, source = recipe(trainer(stubborn + "while True: time.sleep(1)"))
    with pytest.raises(BudgetExceeded, match="stopped after 2 s without a complete ckpt.pt"):
        ctx.train(source, short)
    ctx, source = recipe(trainer(stubborn + "save()\nwhile True: time.sleep(1)"))
    assert ctx.train(source, short).stopped
    graceful = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: (save(), sys.exit(0)))\n"
    ctx, source = recipe(trainer(graceful + "while True: time.sleep(1)"))
    assert ctx.train(source, short).stopped


def test_nothing_trains_on_after_the_end(recipe):
    """Row 81: threads that outlive the program are waited for like Python's, then killed; it is frozen."""
    body = """save()
def go_on():
    for i in range(10**6):
        time.sleep(0.01)
        with open(os.environ["TMPDIR"] + "/late", "w") as file:
            file.write('{"late": %d}' % i)
        os.replace(os.environ["TMPDIR"] + "/late", OUT + "/meta.json")
threading.Thread(target=go_on, daemon=True).start()
time.sleep(0.3)
attempt(lambda: os.fork() or time.sleep(99))"""
    ctx, source = recipe(trainer(body))
    trained = ctx.train(source, RUN)
    output = trained.output.folder.parent / "output"
    before = (output / "meta.json").read_bytes()
    time.sleep(0.2)
    assert (output / "meta.json").read_bytes() == before
    assert trained.output.folder.stat().st_mode & 0o222 == 0
    scratch = output.with_name("scratch")  # still the worker's own
    assert not ctx.settings.plan.own_uid or processes_of(scratch.stat().st_uid) == []


def test_scratch_is_bounded(recipe):
    body = "for i in range(100):\n    open(f'{os.environ[\"TMPDIR\"]}/{i}', 'wb').write(bytes(2**18))\n"
    ctx, source = recipe(trainer(body + "time.sleep(60)"))
    with refused("recipe.scratch"):
        ctx.train(source, msgspec.structs.replace(RUN, scratch_bytes=2**24))


def trained_elsewhere(ctx, tmp_path) -> Trained:
    """A frozen checkpoint without the minute of CPU time that training one in every case would take."""
    output = write_files(tmp_path / "left", {"ckpt.pt": saved({"w": torch.ones(3)})})
    return Trained(freeze(output, tmp_path / "kept", ctx.task), {}, 0.0, False)


SERVERS = {
    "forks": "os.fork()",
    "exits": "sys.exit(0)",
    "no socket": "import time; time.sleep(99)",
    "a file": "open(os.environ['SOCKET'], 'w'); import time; time.sleep(99)",
    "a link": "os.symlink('/run/x', os.environ['SOCKET']); import time; time.sleep(99)",
    "reads the data": "os.listdir(os.path.dirname(os.environ['CKPT']) + '/../scratch')",
}


@pytest.mark.parametrize("case", SERVERS)
def test_server_that_does_not_serve(recipe, tmp_path, case):
    """Row 78 before the first answer; after it the episode's row says `worker_died`."""
    text = HONEST.replace("weights = open", f"{SERVERS[case]}\nweights = open")
    ctx, source = recipe(text)
    trained = trained_elsewhere(ctx, tmp_path)
    with refused("recipe.serve"):
        with ctx.serve(source, trained, msgspec.structs.replace(RUN, bind_s=3.0)):
            raise AssertionError("it serves")
