"""Writes a trained torch policy as the artifact of f04 and checks its own output.

What leaves here is what the verifier takes: one file without external data, the contract's operators
and size, finite answers that depend on the observation, and the same numbers as the torch module.
"""

import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from families.f04_tracking import policy, spec
from rle.errors import UserError


def export_policy(
    module: torch.nn.Module,
    out_dir: Path,
    history: int,
    extra_meta: dict[str, Any] | None = None,
    probes: np.ndarray | None = None,
) -> int:
    """Exports `module` as `policy.onnx` with `policy_meta.json`, replacing both at once.

    Args:
        module: Maps float32 (N, 160 H), oldest frame first, to raw actions (N, 29). Normalisation
            belongs inside.
        out_dir: Folder, made when absent.
        history: H, 1 to 16.
        extra_meta: Further entries of the meta file, such as how the policy was made.
        probes: Observation histories on which graph and module must agree, float32 (n, 160 H); None
            draws normal ones. A policy that looks frames up jumps between them, so it is compared on
            observations as they occur.

    Returns:
        The number of stored parameters.

    Raises:
        UserError: `f04.export`: an operator, a size or an answer that the contract refuses.
    """
    was_training = module.training
    module.eval()
    try:
        data = to_onnx(module, history)
        n_params = check_graph(data, module, history, probes)
    finally:
        module.train(was_training)
    meta = {
        "obs_history_length": history,
        "obs_dim": spec.OBS_DIM,
        "action_dim": spec.ACTION_DIM,
        "n_params": n_params,
        **(extra_meta or {}),
    }
    out_dir.mkdir(parents=True, exist_ok=True)
    for name, content in (
        (spec.ONNX_FILE, data),
        (spec.META_FILE, (json.dumps(meta, indent=2) + "\n").encode()),
    ):
        partial = out_dir / f".{name}.partial"
        partial.write_bytes(content)
        partial.replace(out_dir / name)
    return n_params


def to_onnx(module: torch.nn.Module, history: int) -> bytes:
    """The graph of a module in evaluation mode, opset 18, weights inside, batch of one."""
    obs = torch.zeros(1, spec.OBS_DIM * history)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tracer announces its own retirement on every call
        torch.onnx.export(
            module,
            (obs,),
            buffer,
            input_names=["obs"],
            output_names=["actions"],
            opset_version=spec.EXPORT_OPSET,
            external_data=False,
            dynamo=False,
        )
    return buffer.getvalue()


def check_graph(
    data: bytes, module: torch.nn.Module, history: int, probes: np.ndarray | None = None
) -> int:
    """Checks a graph against the contract and against its module.

    Returns:
        Stored parameters in float32 equivalents.

    Raises:
        UserError: `f04.export`, naming the first fault.
    """
    graph = onnx.load_model_from_string(data).graph
    refused = sorted({node.op_type for node in graph.node} - set(spec.OPERATORS))
    if refused:
        raise _fault(f"operators {', '.join(refused)} are not allowed; allowed: see the card")
    tensors = [*graph.initializer]
    tensors += [a.t for node in graph.node for a in node.attribute if a.HasField("t")]
    n_params = sum(_size(tensor) for tensor in tensors)
    if n_params > spec.MAX_PARAMS:
        raise _fault(f"{n_params} parameters; at most {spec.MAX_PARAMS}. Shrink the network")
    if len(data) > spec.MAX_ONNX_BYTES:
        raise _fault(f"{len(data)} bytes; at most {spec.MAX_ONNX_BYTES}")
    session = policy.LocalGraph(data, history)
    if probes is None:
        size = (spec.EXPORT_PROBES, spec.OBS_DIM * history)
        rng = np.random.default_rng(0)
        probes = rng.standard_normal(size).astype(np.float32)
    answers = np.array([session.act(probe[None]) for probe in probes])
    if not np.abs(answers).max() < spec.MAX_ACTION:
        raise _fault(f"an answer is not finite or above {spec.MAX_ACTION:g}")
    if not np.ptp(answers, axis=0).max() > spec.MIN_RESPONSE:
        raise _fault("actions do not depend on obs")
    with torch.no_grad():
        expected = np.array([module(torch.from_numpy(probe[None])).numpy() for probe in probes])
    worst = float(np.abs(answers - expected).max())
    if worst > spec.EXPORT_TOLERANCE:
        raise _fault(
            f"onnxruntime and torch differ by {worst:.2e}; at most {spec.EXPORT_TOLERANCE:g}"
        )
    return n_params


def _size(tensor: onnx.TensorProto) -> int:
    """Elements, or four-byte words where these are more."""
    elements = int(np.prod(tensor.dims))
    return max(
        elements,
        -(-elements * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize // 4),
    )


def _fault(text: str) -> UserError:
    return UserError(f"the exported graph cannot be submitted: {text}", code="f04.export")


class ImportedPolicy(torch.nn.Module):
    """An exported feed-forward graph as a torch module: the inverse of `export_policy`.

    Weights and biases of its layers are parameters and can be trained on; everything else (index,
    normalisation, limits, kinematics) is kept as it is.

    Args:
        data: The file `policy.onnx`.

    Raises:
        UserError: `f04.import`, an operator that is no part of a plain network.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__()
        graph = onnx.load_model_from_string(data).graph
        self.n_inputs = int(graph.input[0].type.tensor_type.shape.dim[1].dim_value)
        """160 H."""
        constants = {tensor.name: tensor for tensor in graph.initializer}
        trained = {n for node in graph.node if node.op_type in _LAYERS for n in node.input[1:]}
        gathered = {node.input[1] for node in graph.node if node.op_type == "Gather"}
        self._place: dict[str, str] = {}
        self._plain: dict[str, Any] = {}
        """Whole numbers that shape the graph (axes, bounds): kept off the device."""
        self._steps: list[tuple[str, list[str], str, dict[str, float]]] = []
        for node in graph.node:
            facts = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            if node.op_type == "Constant":
                constants[node.output[0]] = facts["value"]
            elif node.op_type not in _OPERATIONS:
                raise UserError(
                    f"{node.op_type} cannot be trained on; a policy of {', '.join(_OPERATIONS)} can",
                    code="f04.import",
                )
            else:
                self._steps.append((node.op_type, list(node.input), node.output[0], facts))
        for number, (name, tensor) in enumerate(constants.items()):
            value = torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy())
            if value.dtype == torch.int64 and (value.dim() == 0 or name not in gathered):
                self._plain[name] = value.tolist()
                continue
            self._place[name] = f"constant_{number}"
            if name in trained:
                self.register_parameter(self._place[name], torch.nn.Parameter(value))
            else:
                self.register_buffer(self._place[name], value)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Actions (N, 29) of observation histories (N, 160 H)."""
        values = {"obs": obs, **self._plain}
        for kind, inputs, output, facts in self._steps:
            arguments = [
                values[n] if n in values else getattr(self, self._place[n]) if n else None
                for n in inputs
            ]
            values[output] = _OPERATIONS[kind](facts, *arguments)
        return values["actions"]


def _gemm(facts: dict, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(x, weight if facts.get("transB") else weight.T, bias)


def _gather(facts: dict, x: torch.Tensor, index: torch.Tensor | int) -> torch.Tensor:
    axis = facts.get("axis", 0)
    return x.select(axis, index) if isinstance(index, int) else x.index_select(axis, index)


def _slice(
    _facts: dict,
    x: torch.Tensor,
    starts: list[int],
    ends: list[int],
    axes: list[int],
    steps: list[int] | None = None,
) -> torch.Tensor:
    picked = [slice(None)] * x.dim()
    for start, end, axis, step in zip(starts, ends, axes, steps or [1] * len(axes), strict=True):
        picked[axis] = slice(start, end, step)
    return x[tuple(picked)]


def _unsqueeze(_facts: dict, x: torch.Tensor, axes: list[int]) -> torch.Tensor:
    rank = x.dim() + len(axes)
    for axis in sorted(a % rank for a in axes):
        x = x.unsqueeze(axis)
    return x


def _reduce(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda f, x, axes: function(x, dim=axes, keepdim=bool(f.get("keepdims", 1)))


_LAYERS = frozenset({"Gemm", "MatMul"})
_OPERATIONS: dict[str, Callable[..., torch.Tensor]] = {
    "Gemm": _gemm,
    "MatMul": lambda f, a, b: a @ b,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": lambda f, *x: torch.cat(x, f["axis"]),
    "Transpose": lambda f, x: x.permute(f["perm"]),
    "Reshape": lambda f, x, shape: x.reshape(shape),
    "Flatten": lambda f, x: x.flatten(f.get("axis", 1)),
    "Unsqueeze": _unsqueeze,
    "Squeeze": lambda f, x, axes: x.squeeze(axes),
    "ReduceSum": _reduce(torch.sum),
    "ReduceMean": _reduce(torch.mean),
    "ReduceMax": _reduce(torch.amax),
    "Cast": lambda f, x: x.float(),
    "Greater": lambda f, a, b: a > b,
    "Add": lambda f, a, b: a + b,
    "Sub": lambda f, a, b: a - b,
    "Mul": lambda f, a, b: a * b,
    "Div": lambda f, a, b: a / b,
    "Neg": lambda f, x: -x,
    "Abs": lambda f, x: x.abs(),
    "Sqrt": lambda f, x: x.sqrt(),
    "Sin": lambda f, x: x.sin(),
    "Cos": lambda f, x: x.cos(),
    "Clip": lambda f, x, low=None, high=None: x.clip(low, high),
    "Elu": lambda f, x: torch.nn.functional.elu(x, f.get("alpha", 1.0)),
    "Relu": lambda f, x: torch.relu(x),
    "Tanh": lambda f, x: torch.tanh(x),
    "Identity": lambda f, x: x,
}
"""Operators that `ImportedPolicy` runs: attributes, then inputs."""
