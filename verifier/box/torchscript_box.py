"""Runs a TorchScript module: CPU, one thread, no gradients, without the optimising executor."""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import wire
from .roles import quoted
from .wire import FUNCTION, Fault, Layout

PROBE_SEED = 20_260
"""Seed of the fixed probe frames; they say nothing about trials."""
DENIED_KINDS = re.compile(
    r"aten::(save|from_file|wait|rand\w*|normal\w*|bernoulli\w*|multinomial|poisson|seed|"
    r"manual_seed|exponential_?|geometric_?|cauchy_?|log_normal_?|uniform_?|random_?)"
    r"|prim::(fork|rpc\w*|Print|SetAttr|PythonOp)"
)
"""Operators that write, wait, print, draw or keep state."""
TORCH_ERRORS = (RuntimeError, ValueError, TypeError, IndexError, AttributeError, EOFError)
"""What loading and running raise; `torch.jit.Error` is a RuntimeError."""


class Module:
    """A loaded module.

    Args:
        data: The file.
        contract: `rle.contracts.TorchScriptContract` as plain data.

    Raises:
        Fault: `ts.load`, or `ts.op` for an operator of the deny-list.
    """

    def __init__(self, data: bytes, contract: dict) -> None:
        self._output = contract["output"]
        try:
            self._module = torch.jit.load(io.BytesIO(data), map_location="cpu").eval()
            kinds = set(_kinds(self._module))
        except TORCH_ERRORS as error:
            raise Fault("ts.load", fact=_first_line(error)) from None
        for kind in sorted(kinds):
            if DENIED_KINDS.fullmatch(kind):
                raise Fault("ts.op", op=kind)

    def run(self, array: np.ndarray) -> np.ndarray:
        """One forward pass.

        Raises:
            Fault: `ts.run` with torch's first line, or `ts.io`.
        """
        try:
            with torch.no_grad(), torch.jit.optimized_execution(False):
                answer = self._module(torch.from_numpy(array))
        except TORCH_ERRORS as error:
            raise Fault("ts.run", fact=_first_line(error)) from None
        shape, dtype = tuple(self._output["shape"]), wire.DTYPES[self._output["dtype"]]
        expected = f"{dtype} {list(shape)}"
        if not isinstance(answer, torch.Tensor):
            raise Fault("ts.io", expected=expected, found=type(answer).__name__[:60])
        result = answer.detach().cpu().numpy()
        if result.shape != shape or result.dtype != dtype:
            raise Fault("ts.io", expected=expected, found=f"{result.dtype} {list(result.shape)}")
        return result


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return quoted(lines[0], 160)


def _kinds(module: torch.jit.ScriptModule) -> Iterator[str]:
    """Operator kinds in the inlined graph of every method of every submodule."""
    for part in module.modules():
        compiled: Any = part._c
        for name in compiled._method_names():
            graph = compiled._get_method(name).graph.copy()
            torch._C._jit_pass_inline(graph)
            yield from _node_kinds(graph)


def _node_kinds(block) -> Iterator[str]:
    for node in block.nodes():
        yield node.kind()
        for inner in node.blocks():
            yield from _node_kinds(inner)
        for name in node.attributeNames():
            if node.kindOf(name) == "g":
                yield from _node_kinds(node.g(name))


def probe(data: bytes, contract: dict) -> None:
    """The same frame must give the same bits: in order, shuffled, and after a fresh load.

    Raises:
        Fault: `ts.stateful`, `ts.finite`, or what loading and running raise.
    """
    rng = np.random.default_rng(PROBE_SEED)
    spec = contract["input"]
    frames = [
        rng.random(spec["shape"]).astype(wire.DTYPES[spec["dtype"]])
        for _ in range(contract["state_frames"])
    ]
    first, fresh = Module(data, contract), Module(data, contract)
    answers = [first.run(frame) for frame in frames]
    if not all(np.isfinite(a).all() for a in answers):
        raise Fault("ts.finite")
    for module, order in ((first, rng.permutation(len(frames))), (fresh, range(len(frames)))):
        for i in order:
            if module.run(frames[i]).tobytes() != answers[i].tobytes():
                raise Fault("ts.stateful")


class TorchScriptRole:
    """Serves ACT: the input as a raw array, the output likewise."""

    def load(self, fields: dict) -> dict:
        self._contract = fields["contract"]
        data = (Path(fields["root"]) / self._contract["path"]).read_bytes()
        self._module = Module(data, self._contract)
        self._input = Layout([self._contract["input"]])
        self._output = Layout([self._contract["output"]])
        return {}

    def reset(self, fields: dict) -> None:
        """The module has no state."""

    def act(self, payload: memoryview) -> bytes:
        (array,) = self._input.unpack(payload, FUNCTION.size)
        return self._output.pack([self._module.run(array)])


def build(config: dict) -> TorchScriptRole:
    torch.set_num_threads(1)
    # the public function of the same name imports torch's compiler, seconds of it
    torch._C._set_deterministic_algorithms(True, warn_only=False)
    return TorchScriptRole()
