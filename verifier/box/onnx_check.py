"""What an ONNX file holds, walked message by message before any runtime sees it.

Everything that can hide weights, run code, reach a file or grow without bound is refused by name:
functions, sub-graphs, external data, foreign operators, sizes that lie. `check` is pure; loading
and running the graph is `onnx_box`.
"""

import math
from collections.abc import Iterator

import numpy as np
import onnx
from google.protobuf.message import DecodeError, Message
from onnx import AttributeProto, ModelProto, TensorProto, helper

from . import onnx_box
from .roles import CheckRole, quoted
from .wire import Fault

DEFAULT_OPS = frozenset(
    [
        "Gemm",
        "MatMul",
        "Einsum",
        "Conv",
        "AveragePool",
        "MaxPool",
        "GlobalAveragePool",
        "GRU",
        "LSTM",
        "RNN",
        "LayerNormalization",
        "BatchNormalization",
        "InstanceNormalization",
        "GroupNormalization",
        "RMSNormalization",
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Pow",
        "Neg",
        "Abs",
        "Sqrt",
        "Exp",
        "Log",
        "Erf",
        "Sin",
        "Cos",
        "Sign",
        "Floor",
        "Ceil",
        "Round",
        "Min",
        "Max",
        "Sum",
        "Mean",
        "Clip",
        "Relu",
        "LeakyRelu",
        "PRelu",
        "Elu",
        "Selu",
        "Celu",
        "Gelu",
        "Mish",
        "Sigmoid",
        "HardSigmoid",
        "HardSwish",
        "Tanh",
        "Softplus",
        "Softsign",
        "Softmax",
        "LogSoftmax",
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "ReduceL1",
        "ReduceL2",
        "ReduceSumSquare",
        "ArgMax",
        "Where",
        "Equal",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "And",
        "Or",
        "Not",
        "Identity",
        "Constant",
        "ConstantOfShape",
        "Shape",
        "Cast",
        "Concat",
        "Split",
        "Slice",
        "Gather",
        "GatherElements",
        "Reshape",
        "Flatten",
        "Transpose",
        "Squeeze",
        "Unsqueeze",
        "Expand",
        "Tile",
        "Pad",
        "Mod",
        "Range",
        "Trilu",
        "CumSum",
        "Size",
    ]
)
"""Operators accepted where a contract lists none: dense arithmetic, no control flow, no chance."""
STANDARD_DOMAINS = ("", "ai.onnx")
MIB = 2**20
BYTES_PER_PARAMETER = 4
ELEMENT_BYTES = {
    TensorProto.FLOAT: 4, TensorProto.DOUBLE: 8, TensorProto.FLOAT16: 2, TensorProto.BFLOAT16: 2,
    TensorProto.INT8: 1, TensorProto.INT16: 2, TensorProto.INT32: 4, TensorProto.INT64: 8,
    TensorProto.UINT8: 1, TensorProto.UINT16: 2, TensorProto.UINT32: 4, TensorProto.UINT64: 8,
    TensorProto.BOOL: 1,
}  # fmt: skip
"""Accepted element types of stored tensors, with their size."""
SMALL_ATTRIBUTE = 64
"""Numbers in an attribute that are a setting of its operator; a longer list is counted."""
_TYPED_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")


def check(files: dict[str, bytes], contract: dict) -> dict:
    """Static check of one ONNX file.

    Args:
        files: The file by its path.
        contract: `rle.contracts.OnnxContract` as plain data.

    Returns:
        `n_parameters`, `n_constants` (of it in Constant nodes), `opset`, `n_nodes`,
        `n_unresolved` (tensors whose size only the run shows).

    Raises:
        Fault: `onnx.*` or `file.size`, with the fact that decided.
    """
    data = files[contract["path"]]
    max_bytes = contract["max_bytes"] or BYTES_PER_PARAMETER * contract["max_parameters"] + MIB
    if len(data) > max_bytes:
        raise Fault("file.size", path=contract["path"], n=len(data), max=max_bytes)
    model = _parse(data)
    _refuse_structure(model)
    opset = _check_opset(model, contract)
    _check_nodes(model, contract)
    n_parameters, n_constants = count_parameters(model)
    if n_parameters > contract["max_parameters"]:
        raise Fault(
            "onnx.parameters", n=n_parameters, constants=n_constants, max=contract["max_parameters"]
        )
    _check_io(model, contract)
    n_unresolved = _check_sizes(model, contract)
    return {
        "n_parameters": n_parameters,
        "n_constants": n_constants,
        "opset": opset,
        "n_nodes": len(model.graph.node),
        "n_unresolved": n_unresolved,
    }


def _parse(data: bytes) -> ModelProto:
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        raise Fault("onnx.parse", fact="it is not an ONNX model") from None
    if not model.HasField("graph") or not model.graph.node:
        raise Fault("onnx.parse", fact="it holds no graph")
    return model


def walk(message: Message) -> Iterator[Message]:
    """A message and every message inside it."""
    stack = [message]
    while stack:
        current = stack.pop()
        yield current
        for field, value in current.ListFields():
            if field.message_type is not None:
                stack.extend(value if field.is_repeated else (value,))


def _refuse_structure(model: ModelProto) -> None:
    if model.functions:
        raise Fault("onnx.functions", name=quoted(model.functions[0].name))
    if model.training_info:
        raise Fault("onnx.training")
    for message in walk(model):
        if isinstance(message, TensorProto):
            external = message.data_location == TensorProto.EXTERNAL or message.external_data
            if external:
                raise Fault("onnx.external", name=quoted(message.name or "(unnamed)"))
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g") or attribute.graphs:
                raise Fault("onnx.subgraph", op=quoted(node.op_type), node=quoted(node.name))
            if attribute.ref_attr_name:
                raise Fault("onnx.functions", name=quoted(attribute.ref_attr_name))
    for message in walk(model):
        if isinstance(message, TensorProto):
            _check_tensor(message)


def _check_tensor(tensor: TensorProto) -> None:
    """Dims are non-negative and what is stored is exactly what they promise."""
    name = quoted(tensor.name or "(unnamed)")
    if any(dim < 0 for dim in tensor.dims):
        raise Fault("onnx.parse", fact=f"tensor {name} has a negative dimension")
    if tensor.data_type not in ELEMENT_BYTES:
        raise Fault("onnx.parse", fact=f"tensor {name} has element type {tensor.data_type}")
    elements = math.prod(tensor.dims)
    if tensor.HasField("raw_data"):
        stored, expected = len(tensor.raw_data), elements * ELEMENT_BYTES[tensor.data_type]
        unit = "bytes"
    else:
        stored, expected = sum(len(getattr(tensor, f)) for f in _TYPED_FIELDS), elements
        unit = "values"
    if stored != expected:
        raise Fault("onnx.parse", fact=f"tensor {name} stores {stored} {unit}, not {expected}")


def _check_opset(model: ModelProto, contract: dict) -> int:
    versions = [o.version for o in model.opset_import if o.domain in STANDARD_DOMAINS]
    low, high = contract["opset_min"], contract["opset_max"]
    if len(versions) != 1 or not low <= versions[0] <= high:
        found = ", ".join(map(str, versions)) or "none"
        raise Fault("onnx.opset", found=found, min=low, max=high)
    return versions[0]


def _check_nodes(model: ModelProto, contract: dict) -> None:
    nodes = model.graph.node
    if len(nodes) > contract["max_nodes"]:
        raise Fault("onnx.nodes", n=len(nodes), max=contract["max_nodes"])
    accepted = frozenset(contract["ops"]) or DEFAULT_OPS
    for node in nodes:
        if node.domain not in STANDARD_DOMAINS:
            raise Fault("onnx.domain", domain=quoted(node.domain), op=quoted(node.op_type))
        if node.op_type not in accepted:
            raise Fault("onnx.op", op=quoted(node.op_type), node=quoted(node.name or "(unnamed)"))
        for attribute in node.attribute:
            if attribute.name == "training_mode" and attribute.i != 0:
                raise Fault("onnx.training")


def _tensor_parameters(tensor: TensorProto) -> int:
    elements = math.prod(tensor.dims)
    return max(elements, -(-elements * ELEMENT_BYTES[tensor.data_type] // BYTES_PER_PARAMETER))


def _attribute_parameters(attribute: AttributeProto) -> int:
    """Numbers and text that an attribute stores; 64-bit integers count twice."""
    if attribute.HasField("t"):
        return _tensor_parameters(attribute.t)
    if attribute.HasField("sparse_tensor"):
        return _sparse_parameters(attribute.sparse_tensor)
    text = len(attribute.s) + sum(map(len, attribute.strings))
    numbers = len(attribute.floats) + 2 * len(attribute.ints)
    numbers += {"value_float": 1, "value_int": 2}.get(attribute.name, 0)
    tensors = sum(map(_tensor_parameters, attribute.tensors))
    tensors += sum(map(_sparse_parameters, attribute.sparse_tensors))
    if not attribute.name.startswith("value") and numbers <= SMALL_ATTRIBUTE:
        numbers = 0  # pads, strides, axes: settings of the operator, not stored data
    return numbers + tensors + text // BYTES_PER_PARAMETER


def _sparse_parameters(sparse: onnx.SparseTensorProto) -> int:
    stored = _tensor_parameters(sparse.values) + _tensor_parameters(sparse.indices)
    return max(math.prod(sparse.dims), stored)


def count_parameters(model: ModelProto) -> tuple[int, int]:
    """Float32 equivalents stored in the model: sum of max(elements, ceil(bytes / 4)).

    Returns:
        The sum over every initialiser, sparse initialiser and attribute; and the part that
        stands in attributes (of Constant nodes, mostly).
    """
    graph = model.graph
    stored = sum(map(_tensor_parameters, graph.initializer))
    stored += sum(map(_sparse_parameters, graph.sparse_initializer))
    constants = sum(_attribute_parameters(a) for node in graph.node for a in node.attribute)
    return stored + constants, constants


def _describe(value: onnx.ValueInfoProto) -> tuple[str, int, list[int | None]]:
    """Name, element type and dims (None: symbolic) of a graph input or output."""
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise Fault("onnx.io", expected="a tensor", found=f"{quoted(value.name)}: {kind}")
    tensor = value.type.tensor_type
    dims = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
    return value.name, tensor.elem_type, dims


def _shown(name: str, element: int, dims: list[int | None]) -> str:
    known = element in ELEMENT_BYTES
    dtype = helper.tensor_dtype_to_np_dtype(element).name if known else f"type {element}"
    return f"{quoted(name)} {dtype} [{', '.join('?' if d is None else str(d) for d in dims)}]"


def _check_io(model: ModelProto, contract: dict) -> None:
    """Exactly the contract's inputs and outputs; sets an allowed symbolic batch to its size."""
    stored = {tensor.name for tensor in model.graph.initializer}
    found = {
        "input": [v for v in model.graph.input if v.name not in stored],
        "output": list(model.graph.output),
    }
    for side, values in found.items():
        wanted = contract[f"{side}s"]
        expected = ", ".join(_shown(w["name"], TensorProto.FLOAT, w["shape"]) for w in wanted)
        described = [_describe(v) for v in values]
        shown = ", ".join(_shown(*d) for d in described) or "none"
        facts = {"expected": f"{side} {expected}", "found": shown}
        if [d[0] for d in described] != [w["name"] for w in wanted]:
            raise Fault("onnx.io", **facts)
        for value, (_, element, dims), want in zip(values, described, wanted, strict=True):
            shape = list(want["shape"])
            if element != TensorProto.FLOAT or len(dims) != len(shape):
                raise Fault("onnx.io", **facts)
            if contract["symbolic_batch"] and dims[0] is None:
                dims[0] = shape[0]
                value.type.tensor_type.shape.dim[0].dim_value = shape[0]
            if None in dims:
                raise Fault("onnx.shape", **facts)
            if dims != shape:
                raise Fault("onnx.io", **facts)


def _check_sizes(model: ModelProto, contract: dict) -> int:
    """Shape inference over the whole graph; returns how many tensors it leaves open."""
    del model.graph.value_info[:]
    try:
        inferred = onnx.shape_inference.infer_shapes(
            model, check_type=True, strict_mode=True, data_prop=True
        )
    except (onnx.shape_inference.InferenceError, ValueError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else "inconsistent shapes"
        raise Fault("onnx.infer", fact=quoted(first, 120)) from None
    constants = {o for node in model.graph.node if node.op_type == "Constant" for o in node.output}
    cap, resolved = contract["max_tensor_elements"], 0
    for value in (*inferred.graph.value_info, *inferred.graph.output):
        if value.type.WhichOneof("value") != "tensor_type":
            raise Fault("onnx.infer", fact=f"{quoted(value.name)} is no tensor")
        dims = value.type.tensor_type.shape.dim
        known = value.type.tensor_type.HasField("shape")
        if not known or not all(d.HasField("dim_value") for d in dims):
            continue
        resolved += 1
        elements = math.prod(d.dim_value for d in dims)
        if elements > cap and value.name not in constants:
            raise Fault("onnx.size", name=quoted(value.name), n=elements, max=cap)
    total = sum(len(node.output) for node in model.graph.node)
    return max(0, total - resolved)


def check_and_probe(files: dict[str, bytes], contract: dict) -> dict:
    """`check`, then load and probe; adds `probe_digest` and, where asked for, `inference_ms`."""
    facts = check(files, contract)
    return facts | onnx_box.probe(files[contract["path"]], contract)


def build(config: dict) -> CheckRole:
    np.seterr(all="ignore")
    return CheckRole(check_and_probe)
