"""Small ONNX graphs for the tests of f04: honest, trivial and cheating submissions."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from families.f04_tracking import spec

OPSET = 18
DEFAULT = np.array(spec.DEFAULT_POSE_RAD, np.float32)
SCALE = np.array(spec.ACTION_SCALE_RAD, np.float32)


def graph(
    nodes: Sequence[onnx.NodeProto],
    constants: dict[str, np.ndarray],
    history: int = 1,
    *,
    opset: int = OPSET,
    input_name: str = "obs",
    width: int | None = None,
    batch: int | str = 1,
    input_type: int = TensorProto.FLOAT,
    extra_inputs: Sequence[onnx.ValueInfoProto] = (),
) -> onnx.ModelProto:
    """A model with input `obs` and output `actions`; `constants` become initializers."""
    shape = [batch, spec.OBS_DIM * history if width is None else width]
    body = helper.make_graph(
        list(nodes),
        "policy",
        [helper.make_tensor_value_info(input_name, input_type, shape), *extra_inputs],
        [helper.make_tensor_value_info("actions", TensorProto.FLOAT, [batch, spec.ACTION_DIM])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def newest(history: int, start: int, stop: int) -> tuple[onnx.NodeProto, dict[str, np.ndarray]]:
    """Slice start:stop of the newest frame, as tensor `part`."""
    offset = spec.OBS_DIM * (history - 1)
    bounds = {
        "starts": np.array([offset + start], np.int64),
        "ends": np.array([offset + stop], np.int64),
        "axes": np.array([1], np.int64),
    }
    return helper.make_node("Slice", ["obs", *bounds], ["part"]), bounds


def affine(gain: float, offset: np.ndarray, history: int = 1) -> onnx.ModelProto:
    """actions = gain x (first 29 numbers of the newest frame) + offset."""
    node, bounds = newest(history, 0, spec.ACTION_DIM)
    nodes = [
        node,
        helper.make_node("Mul", ["part", "gain"], ["scaled"]),
        helper.make_node("Add", ["scaled", "offset"], ["actions"]),
    ]
    constants = {
        **bounds,
        "gain": np.full((1, spec.ACTION_DIM), gain, np.float32),
        "offset": np.asarray(offset, np.float32).reshape(1, -1),
    }
    return graph(nodes, constants, history)


def zero_action() -> onnx.ModelProto:
    """Zero but for 1e-5 of the reference pose."""
    return affine(1e-5, np.zeros(spec.ACTION_DIM))


def huge_action() -> onnx.ModelProto:
    """|a| = 50 on every joint."""
    return affine(1e-5, 50.0 * np.where(np.arange(spec.ACTION_DIM) % 2, 1.0, -1.0))


def frozen_pose(joint_pos: np.ndarray) -> onnx.ModelProto:
    """Commands one pose for ever."""
    return affine(1e-5, (joint_pos - DEFAULT) / SCALE)


def open_loop(history: int = 1) -> onnx.ModelProto:
    """a = (q_ref - default) / scale: plays the reference joint angles and looks at nothing else."""
    node, bounds = newest(history, 0, spec.ACTION_DIM)
    nodes = [
        node,
        helper.make_node("Sub", ["part", "default"], ["offset"]),
        helper.make_node("Div", ["offset", "scale"], ["actions"]),
    ]
    return graph(nodes, {**bounds, "default": DEFAULT[None], "scale": SCALE[None]}, history)


def random_mlp(seed: int, history: int = 4, hidden: int = 64) -> onnx.ModelProto:
    """An untrained network."""
    rng = np.random.default_rng(seed)
    width = spec.OBS_DIM * history
    constants = {
        "w1": rng.standard_normal((width, hidden)).astype(np.float32) / np.sqrt(width),
        "w2": rng.standard_normal((hidden, spec.ACTION_DIM)).astype(np.float32) / np.sqrt(hidden),
    }
    constants = {name: np.asarray(w, np.float32) for name, w in constants.items()}
    nodes = [
        helper.make_node("MatMul", ["obs", "w1"], ["h"]),
        helper.make_node("Tanh", ["h"], ["t"]),
        helper.make_node("MatMul", ["t", "w2"], ["actions"]),
    ]
    return graph(nodes, constants, history)


def nan_when_falling() -> onnx.ModelProto:
    """Zero action, NaN once the torso pitches by 20 degrees: log of a negative number."""
    node, bounds = newest(1, 61, 62)  # cosine of the pitch error
    nodes = [
        node,
        helper.make_node("Sub", ["part", "limit"], ["room"]),
        helper.make_node("Log", ["room"], ["log"]),
        helper.make_node("Mul", ["log", "tiny"], ["actions"]),
    ]
    constants = {
        **bounds,
        "limit": np.array([[0.93]], np.float32),
        "tiny": np.full((1, spec.ACTION_DIM), 1e-4, np.float32),
    }
    return graph(nodes, constants)


def write(folder: Path, model: onnx.ModelProto, history: int = 1, **meta: object) -> Path:
    """Writes a submission folder and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / spec.ONNX_FILE).write_bytes(model.SerializeToString())
    (folder / spec.META_FILE).write_text(json.dumps({"obs_history_length": history, **meta}))
    return folder
