"""Attack book, kind ts: rows 29 to 39."""

import io
import struct
import zipfile

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from rle.contracts import ArraySpec, TorchScriptContract
from rle.verify_api import Limits, TrialFault
from verifier.box.torchscript_check import check_and_probe
from verifier.box.wire import Fault

CONTRACT = TorchScriptContract(
    path="model.pt",
    input=ArraySpec("x", (1, 2, 8, 8), "float32"),
    output=ArraySpec("y", (1, 3), "float32"),
    max_elements=20_000,
)
LIMITS = Limits(call_cap_s=5.0, total_cap_s=60.0)


class Honest(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(2, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x))).mean((2, 3))
        return self.head(self.drop(x))


class Counter(Honest):
    """State in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def forward(self, x):
        self.count = self.count + 1
        return x.mean((1, 2, 3))[:, None] * torch.ones(1, 3) * self.count


class Buffer(Honest):
    """State in a buffer that is changed in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1, 3))

    def forward(self, x):
        self.seen.add_(x.mean())
        return self.seen + 0.0


class Noisy(Honest):
    def forward(self, x):
        return torch.rand(1, 3) + x.mean()


class Printing(Honest):
    def forward(self, x):
        print('{"reward": 1.0}')
        return x.mean((1, 2, 3))[:, None] * torch.ones(1, 3)


class EndlessOnNegative(Honest):
    """Honest on the probes of the check, which are positive."""

    def forward(self, x):
        y = x.mean()
        while bool(y < 0.0):
            y = y * 1.0
        return y * torch.ones(1, 3)


class Forking(Honest):
    def forward(self, x):
        future = torch.jit.fork(torch.neg, x)
        return torch.jit.wait(future).mean((1, 2, 3))[:, None] * torch.ones(1, 3)


class Saving(Honest):
    def forward(self, x):
        y = torch.from_file("/etc/passwd", False, 4)
        return x.mean() * torch.ones(1, 3) + y.mean()


class Wide(Honest):
    """Weights as a plain list, which `parameters()` does not see."""

    def __init__(self) -> None:
        super().__init__()
        self.table: list[float] = [i / 7 for i in range(25_000)]

    def forward(self, x):
        return x.mean() * torch.tensor(self.table[:3])[None]


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.ones(1, 3)

    @torch.jit.export
    def __getstate__(self) -> tuple[torch.Tensor, bool]:
        return (self.w, self.training)

    @torch.jit.export
    def __setstate__(self, state: tuple[torch.Tensor, bool]) -> None:
        self.w = state[0]
        self.training = state[1]

    def forward(self, x):
        return x.mean() * self.w


def scripted(module: nn.Module) -> bytes:
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(module.eval()), buffer)
    return buffer.getvalue()


def checked(make_context, data: bytes):
    ctx = make_context({"model.pt": data})
    return ctx, ctx.check("torchscript", CONTRACT)


def check_here(data: bytes) -> dict:
    """The same check outside a worker: importing torch for every case would take minutes."""
    return check_and_probe({"model.pt": data}, msgspec.to_builtins(CONTRACT))


def refused_here(data: bytes, *codes: str) -> None:
    with pytest.raises(Fault) as caught:
        check_here(data)
    assert caught.value.code in codes, caught.value.fields


def test_honest_model_is_accepted_and_runs(make_context):
    ctx, accepted = checked(make_context, scripted(Honest()))
    x = np.random.default_rng(1).random((1, 2, 8, 8)).astype(np.float32)
    with torch.no_grad():
        expected = Honest().eval()(torch.from_numpy(x)).numpy()
    with ctx.worker("torchscript", accepted, LIMITS) as worker:
        worker.load()
        assert np.allclose(worker.act(x), expected, atol=1e-6)


def test_traced_model_is_accepted():
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.trace(Honest().eval(), torch.zeros(1, 2, 8, 8)), buffer)
    check_here(buffer.getvalue())


BAD_MODELS = {
    "code at load (29)": (Hooked, ("ts.code",)),
    "file reader (30)": (Saving, ("ts.op",)),
    "print (32)": (Printing, ("ts.op",)),
    "counter (33)": (Counter, ("ts.op",)),
    "buffer (33)": (Buffer, ("ts.stateful",)),
    "random (34)": (Noisy, ("ts.op",)),
    "list of weights (35)": (Wide, ("ts.parameters",)),
    "fork (39)": (Forking, ("ts.op",)),
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_model_that_is_refused(case):
    model, codes = BAD_MODELS[case]
    refused_here(scripted(model()), *codes)


def test_too_many_elements():
    """Row 35, in a buffer; 4 bytes an element, so 20,001 floats are one too many."""
    model = Honest()
    model.register_buffer("table", torch.zeros(20_001))
    refused_here(scripted(model), "ts.parameters")


def test_endless_forward_is_killed_by_the_parent(make_context):
    """Row 31: no signal stops a loop inside TorchScript."""
    ctx, accepted = checked(make_context, scripted(EndlessOnNegative()))
    with ctx.worker("torchscript", accepted, LIMITS) as worker:
        with pytest.raises(TrialFault) as caught:
            worker.act(np.full((1, 2, 8, 8), -1.0, np.float32))
    assert caught.value.ended == "timeout_call"


def rezip(data: bytes, change) -> bytes:
    """The archive with its list of (name, content) changed, stored without compression."""
    source = zipfile.ZipFile(io.BytesIO(data))
    members = change([(info.filename, source.read(info)) for info in source.infolist()])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return out.getvalue()


def deflated(data: bytes) -> bytes:
    source, out = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for info in source.infolist():
            archive.writestr(info.filename, source.read(info))
    return out.getvalue()


def shifted(data: bytes) -> bytes:
    """An archive that says that it starts a megabyte before its first byte."""
    plain = rezip(data, lambda members: members)
    (offset,) = struct.unpack("<I", plain[-6:-2])
    return plain[:-6] + struct.pack("<I", offset + 10**6) + plain[-2:]


def long_code(data: bytes) -> bytes:
    """Row 36: 20,000 literals in the code text."""

    def change(members):
        literals = "\n".join(f"# {i} 0.123456789" for i in range(20_000)).encode()
        return [(n, c + literals if n.endswith(".py") else c) for n, c in members]

    return rezip(data, change)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("attack", "code"),
    [
        (deflated, "ts.zip"),
        (lambda d: rezip(d, lambda m: [*m, m[0]]), "ts.zip"),
        (lambda d: rezip(d, lambda m: [*m, ("../x", b"1")]), "ts.zip"),
        (lambda d: d + bytes(300_000), "ts.zip"),
        (lambda d: b"junk" + d, "ts.zip"),
        (lambda d: d[: len(d) // 2], "ts.zip"),
        (lambda d: bytes(1000), "ts.zip"),
        (shifted, "ts.zip"),
        (long_code, "ts.code_size"),
    ],
    ids=["bomb", "twice", "upwards", "tail", "head", "half", "zeros", "offset", "literals"],
)
def test_archive_that_is_refused(attack, code):
    """Rows 36 and 37."""
    refused_here(attack(scripted(Honest())), code)


def test_pickle_that_names_a_function():
    """Row 38: torch's own reader accepts no global but its types."""

    def change(members):
        evil = b"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R."
        return [(n, evil if n.endswith("data.pkl") else c) for n, c in members]

    refused_here(rezip(scripted(Honest()), change), "ts.load")
