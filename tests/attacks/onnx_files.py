"""ONNX files, honest and hostile, for the contract obs (1, 4) -> actions (1, 2). Fixed seeds."""

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.verifier.fake_family import ONNX
from verifier.box import onnx_check
from verifier.box.wire import Fault

OPSET = 17


def value(name: str, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def tensor(name: str, array: np.ndarray) -> TensorProto:
    return numpy_helper.from_array(array, name)


def gain() -> np.ndarray:
    """Feedback that halves the point at each step: actions = -0.5 obs[:2]."""
    matrix = np.zeros((4, 2), np.float32)
    matrix[0, 0] = matrix[1, 1] = -0.5
    return matrix


def model(nodes, initializers=(), *, inputs=None, outputs=None, opset=OPSET, **more):
    """A model with the contract's inputs and outputs unless others are given."""
    graph = helper.make_graph(
        list(nodes),
        "policy",
        inputs or [value("obs", (1, 4))],
        outputs or [value("actions", (1, 2))],
        list(initializers),
        **more,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def honest() -> bytes:
    """The linear controller."""
    node = helper.make_node("MatMul", ["obs", "w"], ["actions"])
    return model([node], [tensor("w", gain())]).SerializeToString()


def honest_with(*before, initializers=(), **more) -> onnx.ModelProto:
    """The linear controller with further nodes and tensors in the graph."""
    node = helper.make_node("MatMul", ["obs", "w"], ["actions"])
    return model([*before, node], [tensor("w", gain()), *initializers], **more)


def check_here(data: bytes, **changes) -> dict:
    """Check and probe outside a worker."""
    contract = msgspec.to_builtins(msgspec.structs.replace(ONNX, **changes))
    return onnx_check.check_and_probe({"policy.onnx": data}, contract)


def refused_here(data: bytes | onnx.ModelProto, *codes: str, **changes) -> dict:
    data = data if isinstance(data, bytes) else data.SerializeToString()
    with pytest.raises(Fault) as caught:
        check_here(data, **changes)
    assert caught.value.code in codes, (caught.value.code, caught.value.fields)
    return caught.value.fields
