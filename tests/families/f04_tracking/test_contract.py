"""Every way a graph can break the contract, at the check that the verifier runs in its sandbox."""

import re

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from families.f04_tracking import policy, spec
from rle.errors import AGENT_MESSAGES
from tests.families.f04_tracking import graphs
from verifier.box import onnx_check
from verifier.box.wire import Fault

LIMIT = spec.MAX_PARAMS


def check(model: onnx.ModelProto, history: int = 1, **changes) -> dict:
    """Static check and probes, in this process; latency is left to the machine that scores."""
    contract = policy.contract(history)
    probes = msgspec.structs.replace(contract.probes, latency_cap_s=None)
    contract = msgspec.structs.replace(contract, probes=probes, **changes)
    return onnx_check.check_and_probe(
        {spec.ONNX_FILE: model.SerializeToString()}, msgspec.to_builtins(contract)
    )


def text_of(fault: Fault) -> str:
    """What the agent reads."""
    return AGENT_MESSAGES[fault.code].format(**fault.fields)


def refused(model: onnx.ModelProto, history: int = 1, **changes) -> tuple[str, str]:
    """Code and message of the refusal."""
    with pytest.raises(Fault) as caught:
        check(model, history, **changes)
    return caught.value.code, text_of(caught.value)


def with_weights(n: int, dtype=np.float32, constant: bool = False) -> onnx.ModelProto:
    """An open-loop graph that stores n more elements, as an initializer or in a Constant node."""
    model = graphs.zero_action()
    table = numpy_helper.from_array(np.zeros(n, dtype), "table")
    if constant:
        model.graph.node.append(helper.make_node("Constant", [], ["table"], value=table))
    else:
        model.graph.initializer.append(table)
    return model


BASE = check(graphs.zero_action())["n_parameters"]


@pytest.mark.parametrize("history", [1, 16])
def test_honest_graphs_are_accepted(history):
    for model in (graphs.open_loop(history), graphs.random_mlp(0, history)):
        assert check(model, history)["n_parameters"] < LIMIT


def test_symbolic_batch_is_accepted():
    model = graphs.random_mlp(0, 1)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    check(model)


@pytest.mark.parametrize("constant", [False, True])
def test_parameters_at_their_limit(constant):
    exact = LIMIT - BASE
    assert check(with_weights(exact, constant=constant))["n_parameters"] == LIMIT
    code, message = refused(with_weights(exact + 1, constant=constant))
    assert code == "onnx.parameters" and "10,000,001" in message and "10,000,000" in message
    assert (f"{exact + 1:,} of them in Constant nodes" in message) is constant


def test_wide_numbers_count_by_their_bytes():
    half = (LIMIT - BASE) // 2
    check(with_weights(half, np.int64))
    assert refused(with_weights(half + 1, np.int64))[0] == "onnx.parameters"
    check(with_weights(half, np.float64))
    assert refused(with_weights(half + 1, np.float64))[0] == "onnx.parameters"


def test_weights_in_a_function_or_a_branch_are_refused():
    function = graphs.zero_action()
    table = numpy_helper.from_array(np.zeros(LIMIT, np.float32), "table")
    body = [helper.make_node("Constant", [], ["y"], value=table)]
    function.functions.append(
        helper.make_function("mine", "Hidden", [], ["y"], body, [helper.make_opsetid("", 18)])
    )
    function.opset_import.append(helper.make_opsetid("mine", 1))
    code, message = refused(function)
    assert code == "onnx.functions" and "Hidden" in message and "inline" in message

    branch, table = graphs.zero_action(), numpy_helper.from_array(np.zeros(100, np.float32), "t")
    inner = helper.make_graph(
        [helper.make_node("Constant", [], ["b"], value=table)],
        "inner",
        [],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, [100])],
    )
    branch.graph.node.append(
        helper.make_node("If", ["part"], ["b2"], then_branch=inner, else_branch=inner)
    )
    assert refused(branch)[0] in {"onnx.op", "onnx.subgraph"}


@pytest.mark.parametrize("op", ["RandomNormal", "RandomUniform", "RandomUniformLike", "Bernoulli"])
def test_chance_is_refused(op):
    model = graphs.zero_action()
    inputs, extra = (
        ([], {"shape": [1]}) if op in ("RandomNormal", "RandomUniform") else (["part"], {})
    )
    model.graph.node.append(helper.make_node(op, inputs, ["r"], name="dice", **extra))
    code, message = refused(model)
    assert code == "onnx.op" and op in message and "dice" in message


def test_loops_and_foreign_operators_are_refused():
    model = graphs.zero_action()
    body = helper.make_graph([], "body", [], [])
    model.graph.node.append(helper.make_node("Loop", ["", ""], ["l"], body=body))
    assert refused(model)[0] in {"onnx.op", "onnx.subgraph"}
    model = graphs.zero_action()
    model.graph.node.append(helper.make_node("Gelu", ["part"], ["g"], domain="com.microsoft"))
    assert refused(model)[0] == "onnx.domain"


@pytest.mark.parametrize("opset", [12, 22])
def test_opset_outside_its_range(opset):
    code, message = refused(graphs.graph(*graph_parts(), opset=opset))
    assert code == "onnx.opset" and str(opset) in message and "13" in message and "21" in message


@pytest.mark.parametrize("opset", [13, 21])
def test_opset_at_the_ends_of_its_range(opset):
    check(graphs.graph(*graph_parts(), opset=opset))


def graph_parts():
    """Nodes and constants of the zero-action graph."""
    model = graphs.zero_action()
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    return list(model.graph.node), constants


def test_wrong_inputs():
    nodes, constants = graph_parts()
    renamed = graphs.graph(nodes, constants, input_name="observation")
    assert refused(renamed)[0] == "onnx.io"
    code, message = refused(graphs.open_loop(1), history=4)  # meta claims 4, the graph takes 1
    assert code == "onnx.io" and "640" in message and "160" in message
    assert refused(graphs.open_loop(8), history=1)[0] == "onnx.io"
    clock = helper.make_tensor_value_info("time_step", TensorProto.FLOAT, [1, 1])
    code, message = refused(graphs.graph(nodes, constants, extra_inputs=[clock]))
    assert code == "onnx.io" and "time_step" in message
    assert refused(graphs.graph(nodes, constants, input_type=TensorProto.DOUBLE))[0] == "onnx.io"


def test_external_data_is_refused():
    model = graphs.random_mlp(0, 1)
    tensor = model.graph.initializer[0]
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    code, message = refused(model)
    assert code == "onnx.external" and tensor.name in message


def test_garbage_is_refused():
    with pytest.raises(Fault) as caught:
        onnx_check.check(
            {spec.ONNX_FILE: b"\x08\x01garbage"}, msgspec.to_builtins(policy.contract(1))
        )
    assert caught.value.code == "onnx.parse" and text_of(caught.value).startswith(
        "the ONNX file cannot be read: "
    )


def test_a_graph_that_ignores_obs_is_refused():
    code, message = refused(graphs.affine(0.0, np.ones(29)))
    assert (code, message) == ("onnx.ignores", "the outputs do not depend on obs")


@pytest.mark.parametrize(("gain", "accepted"), [(1e-5, True), (1e-8, False)])
def test_responsiveness_at_its_edge(gain, accepted):
    model = graphs.affine(gain, np.zeros(29))
    if accepted:
        check(model)
    else:
        assert refused(model)[0] == "onnx.ignores"


def test_non_finite_and_huge_answers_are_refused():
    for offset, shown in ((np.nan, "nan"), (1.1e4, "11000")):
        code, message = refused(graphs.affine(1.0, np.full(29, offset)))
        assert code == "onnx.finite" and shown in message and "finite" in message
    check(graphs.affine(1e-3, np.full(29, 0.9e4)))


def test_slow_graphs_are_refused_with_their_median():
    contract = policy.contract(1)
    probes = msgspec.structs.replace(contract.probes, latency_cap_s=0.0, latency_calls=5)
    with pytest.raises(Fault) as caught:
        onnx_check.check_and_probe(
            {spec.ONNX_FILE: graphs.zero_action().SerializeToString()},
            msgspec.to_builtins(msgspec.structs.replace(contract, probes=probes)),
        )
    assert caught.value.code == "onnx.latency"
    assert re.fullmatch(r"median inference [\d.]+ ms; at most 0(\.0*)? ms", text_of(caught.value))
