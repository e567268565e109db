"""Attack book, kind onnx: rows 13 to 28."""

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from rle.contracts import ArraySpec
from rle.verify_api import Limits, TrialFault
from tests.attacks import onnx_files
from tests.attacks.onnx_files import (
    check_here,
    gain,
    honest,
    honest_with,
    model,
    refused_here,
    tensor,
    value,
)
from tests.attacks.support import refused
from tests.verifier.fake_family import ONNX

LIMITS = Limits(call_cap_s=20.0, total_cap_s=60.0)
OBS = np.array([[0.4, -0.2, 0.0, 0.0]], np.float32)


def identity(name="w2", array=None):
    """A node that reads a further tensor, so that it is not dead."""
    array = np.zeros((4, 2), np.float32) if array is None else array
    return helper.make_node("Identity", [name], [f"{name}_copy"]), tensor(name, array)


def test_honest_graph_through_the_sandbox(make_context):
    ctx = make_context({"policy.onnx": honest()})
    checked = ctx.check("onnx", ONNX)
    assert checked.facts["n_parameters"] == 8
    with ctx.worker("onnx", checked, LIMITS) as worker:
        assert worker.act(OBS).tolist() == [[pytest.approx(-0.2), pytest.approx(0.1)]]


def external_tensor(location: str) -> TensorProto:
    array = tensor("w2", np.zeros((4, 2), np.float32))
    array.ClearField("raw_data")
    array.data_location = TensorProto.EXTERNAL
    array.external_data.add(key="location", value=location)
    return array


@pytest.mark.parametrize("location", ["w.bin", "../../secret", "/etc/passwd"])
def test_external_data(location):
    """Row 13."""
    node, _ = identity()
    fields = refused_here(
        honest_with(node, initializers=[external_tensor(location)]), "onnx.external"
    )
    assert fields["name"] == "w2"


def test_external_data_in_a_subgraph_and_in_a_sparse_tensor():
    """Row 13."""
    branch = helper.make_graph([], "b", [], [value("w2", (4, 2))], [external_tensor("x")])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    flag = tensor("c", np.array(True))
    refused_here(honest_with(node, initializers=[flag]), "onnx.external")
    sparse = helper.make_sparse_tensor(
        external_tensor("x"), tensor("i", np.arange(8, dtype=np.int64)), [4, 2]
    )
    refused_here(honest_with(sparse_initializer=[sparse]), "onnx.external")


@pytest.mark.parametrize("domain", ["my.ops", "com.microsoft", "ai.onnx.ml"])
def test_foreign_operator(domain):
    """Rows 14 and 27."""
    node = helper.make_node("Gelu", ["obs"], ["y"], domain=domain)
    assert refused_here(honest_with(node), "onnx.domain")["domain"] == domain


def test_functions_that_double():
    """Row 15: forty levels would make 2^40 nodes."""
    evil = honest_with()
    for level in range(40):
        inner = f"F{level - 1}" if level else "Relu"
        domain = "local" if level else ""
        nodes = [
            helper.make_node(inner, ["x"], ["m"], domain=domain),
            helper.make_node(inner, ["m"], ["y"], domain=domain),
        ]
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
        evil.functions.append(
            helper.make_function("local", f"F{level}", ["x"], ["y"], nodes, opsets)
        )
    refused_here(evil, "onnx.functions")


def branch_node(depth: int):
    graph = helper.make_graph(
        [helper.make_node("Identity", ["obs"], ["z"])], "leaf", [], [value("z", (1, 4))]
    )
    for _ in range(depth):
        node = helper.make_node("If", ["c"], ["z"], then_branch=graph, else_branch=graph)
        graph = helper.make_graph([node], "b", [], [value("z", (1, 4))])
    return graph.node[0]


@pytest.mark.parametrize("depth", [1, 8])
def test_control_flow(depth):
    """Row 16."""
    flag = tensor("c", np.array(True))
    refused_here(honest_with(branch_node(depth), initializers=[flag]), "onnx.subgraph")


def test_endless_loop():
    """Row 16."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["still"])],
        "body",
        [value("i", (), TensorProto.INT64), value("go", (), TensorProto.BOOL)],
        [value("still", (), TensorProto.BOOL)],
    )
    loop = helper.make_node("Loop", ["", "c"], [], body=body)
    refused_here(honest_with(loop, initializers=[tensor("c", np.array(True))]), "onnx.subgraph")


@pytest.mark.parametrize(
    "op",
    ["RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial", "NonZero", "StringSplit"],
)
def test_operator_outside_the_list(op):
    """Row 17."""
    node = helper.make_node(op, ["obs"], ["y"], name="chance")
    assert refused_here(honest_with(node), "onnx.op") == {"op": op, "node": "chance"}


def test_training_mode():
    """Row 17."""
    names = ["s", "b", "m", "v"]
    node = helper.make_node("BatchNormalization", ["obs", *names], ["y"], training_mode=1)
    stored = [tensor(n, np.ones(4, np.float32)) for n in names]
    refused_here(honest_with(node, initializers=stored), "onnx.training")


def bomb(elements: int) -> onnx.ModelProto:
    nodes = [
        helper.make_node("ConstantOfShape", ["n"], ["big"]),
        helper.make_node("ReduceSum", ["big"], ["sum"], keepdims=0),
    ]
    return honest_with(*nodes, initializers=[tensor("n", np.array([elements], np.int64))])


def test_tensor_that_grows():
    """Row 18; 4,194,304 elements are accepted, one more is not."""
    assert refused_here(bomb(800_000_000), "onnx.size")["n"] == 800_000_000
    refused_here(bomb(4_194_305), "onnx.size")
    check_here(bomb(4_194_304).SerializeToString())


def test_tensor_whose_size_only_the_run_shows_is_bounded_by_the_box(make_context):
    """Row 18, hidden from shape inference behind a value that is computed from the input."""
    nodes = [
        helper.make_node("ReduceMax", ["obs"], ["top"], keepdims=0),
        helper.make_node("Mul", ["top", "zero"], ["none"]),
        helper.make_node("Add", ["none", "huge"], ["size"]),
        helper.make_node("Cast", ["size"], ["n"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["n", "one"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["big"]),
        helper.make_node("ReduceSum", ["big"], ["sum"], keepdims=0),
        helper.make_node("Mul", ["sum", "zero"], ["nothing"]),
        helper.make_node("MatMul", ["obs", "w"], ["acts"]),
        helper.make_node("Add", ["acts", "nothing"], ["actions"]),
    ]
    stored = [
        tensor("w", gain()),
        tensor("zero", np.array(0, np.float32)),
        tensor("huge", np.array(2e9, np.float32)),
        tensor("one", np.array([1], np.int64)),
    ]
    ctx = make_context({"policy.onnx": model(nodes, stored).SerializeToString()})
    with refused("onnx.run", "onnx.memory", "check.died"):
        ctx.check("onnx", ONNX)


N_MILLION = 10_000_000


def constant(array: np.ndarray):
    return helper.make_node("Constant", [], ["table"], value=tensor("table", array))


def test_weights_wherever_they_hide():
    """Row 19."""
    big = np.zeros((3000, 4000), np.float32)
    fields = refused_here(honest_with(constant(big)), "onnx.parameters", max_bytes=2**26)
    assert (fields["n"], fields["constants"]) == (12_000_008, 12_000_000)
    packed = np.zeros(5_000_001, np.int64)  # two float32 equivalents each
    refused_here(honest_with(constant(packed)), "onnx.parameters")
    floats = helper.make_node("Constant", [], ["table"], value_floats=[0.0] * 100_001)
    refused_here(honest_with(floats), "onnx.parameters", max_parameters=100_000)
    sparse = helper.make_sparse_tensor(
        tensor("v", np.ones(1, np.float32)), tensor("i", np.zeros(1, np.int64)), [12_000_000]
    )
    refused_here(honest_with(sparse_initializer=[sparse]), "onnx.parameters")


def test_one_parameter_too_many():
    """The controller has 8; the table brings it to the limit, then one beyond."""
    probes = msgspec.structs.replace(ONNX.probes, responsive_pairs=0)
    data = honest_with(constant(np.zeros(N_MILLION - 8, np.float32))).SerializeToString()
    assert check_here(data, probes=probes)["n_parameters"] == N_MILLION
    data = honest_with(constant(np.zeros(N_MILLION - 7, np.float32)))
    assert refused_here(data, "onnx.parameters")["n"] == N_MILLION + 1


@pytest.mark.parametrize("dims", [[2**40], [-4, 2], [4, 3], [2**31, 2**31, 2**31]])
def test_sizes_that_lie(dims):
    """Row 20."""
    stored = tensor("w2", np.zeros((4, 2), np.float32))
    del stored.dims[:]
    stored.dims.extend(dims)
    node, _ = identity()
    refused_here(honest_with(node, initializers=[stored]), "onnx.parse")


def test_files_that_are_no_model():
    """Row 21."""
    rng = np.random.default_rng(21)
    data = honest()
    for attack in (
        data[: len(data) // 2],
        rng.bytes(5000),
        b"",
        b"\x3a\xff\xff\xff\xff\x27" + data,  # a graph that declares 10 GiB
        data + rng.bytes(64),
        b"{}",
    ):
        refused_here(attack, "onnx.parse", "onnx.opset", "onnx.io")
    refused_here(data + data, "onnx.io", "onnx.opset")


def test_shapes_that_depend_on_data():
    """Row 22."""
    nodes = [
        helper.make_node("NonZero", ["obs"], ["indices"]),
        helper.make_node("Cast", ["indices"], ["actions"], to=TensorProto.FLOAT),
    ]
    ops = ("NonZero", "Cast")
    dynamic = model(nodes, outputs=[value("actions", ("a", "b"))])
    refused_here(dynamic, "onnx.shape", ops=ops)
    claimed = model(nodes, outputs=[value("actions", (1, 2))])
    refused_here(claimed, "onnx.infer", "onnx.output", "onnx.load", ops=ops)


def test_symbolic_batch_only_where_the_contract_allows_it():
    node = helper.make_node("MatMul", ["obs", "w"], ["actions"])
    symbolic = model(
        [node],
        [tensor("w", gain())],
        inputs=[value("obs", ("batch", 4))],
        outputs=[value("actions", ("batch", 2))],
    )
    check_here(symbolic.SerializeToString())
    refused_here(symbolic, "onnx.shape", symbolic_batch=False)
    wide = model([node], [tensor("w", gain())], inputs=[value("obs", (1, "n"))])
    refused_here(wide, "onnx.shape")


IO = {
    "double output": {"outputs": [value("actions", (1, 2), TensorProto.DOUBLE)]},
    "text output": {"outputs": [value("actions", (1, 2), TensorProto.STRING)]},
    "extra input": {"inputs": [value("obs", (1, 4)), value("time_step", (1,))]},
    "extra output": {"outputs": [value("actions", (1, 2)), value("obs", (1, 4))]},
    "other name": {"inputs": [value("observation", (1, 4))]},
    "other width": {"inputs": [value("obs", (1, 5))]},
    "other rank": {"inputs": [value("obs", (4,))]},
    "no output": {"outputs": []},
}


@pytest.mark.parametrize("case", IO)
def test_other_inputs_or_outputs(case):
    """Row 23."""
    evil = honest_with()
    for side, values in IO[case].items():
        field = evil.graph.input if side == "inputs" else evil.graph.output
        del field[:]
        field.extend(values)
    fields = refused_here(evil, "onnx.io")
    assert "float32 [1, " in fields["expected"]


def test_not_a_number_from_some_observations(make_context):
    """Rows 24 and 25: honest on every probe, NaN once the point is far out."""
    nodes = [
        helper.make_node("MatMul", ["obs", "w"], ["acts"]),
        helper.make_node("Sub", ["limit", "acts"], ["left"]),
        helper.make_node("Sqrt", ["left"], ["root"]),
        helper.make_node("Mul", ["root", "zero"], ["nothing"]),
        helper.make_node("Add", ["acts", "nothing"], ["actions"]),
    ]
    stored = [
        tensor("w", gain()),
        tensor("limit", np.array(50, np.float32)),
        tensor("zero", np.array(0, np.float32)),
    ]
    ctx = make_context({"policy.onnx": model(nodes, stored).SerializeToString()})
    with ctx.worker("onnx", ctx.check("onnx", ONNX), LIMITS) as worker:
        assert np.isfinite(worker.act(OBS)).all()
        with pytest.raises(TrialFault) as caught:
            worker.act(np.array([[-1000.0, 0, 0, 0]], np.float32))
    assert (caught.value.ended, caught.value.code) == ("bad_action", "action.nonfinite")


def test_not_a_number_on_a_probe():
    node = helper.make_node("Sqrt", ["obs"], ["roots"])
    end = helper.make_node("MatMul", ["roots", "w"], ["actions"])
    refused_here(model([node, end], [tensor("w", gain())]), "onnx.finite")


def test_settings_in_the_metadata_change_nothing():
    """Row 26."""
    plain, dressed = honest_with(), honest_with()
    for key in ("ort_config", "session.intra_op_thread_affinities", "model_author"):
        dressed.metadata_props.add(
            key=key, value='{"session_options": {"intra_op_num_threads": 8}}'
        )
    results = [check_here(m.SerializeToString())["probe_digest"] for m in (plain, dressed)]
    assert results[0] == results[1]


@pytest.mark.parametrize("opset", [1, 10, 24, 99])
def test_opset_outside_the_range(opset):
    """Row 27."""
    evil = honest_with()
    evil.opset_import[0].version = opset
    assert refused_here(evil, "onnx.opset")["found"] == str(opset)


def test_two_opsets_and_training_parts():
    """Row 27."""
    evil = honest_with()
    evil.opset_import.append(helper.make_opsetid("", 13))
    refused_here(evil, "onnx.opset")
    evil = honest_with()
    evil.training_info.add()
    refused_here(evil, "onnx.training")


def test_tiny_nodes_by_the_hundred_thousand():
    """Row 28."""
    nodes = [
        helper.make_node("Relu", ["obs" if i == 0 else f"x{i}"], [f"x{i + 1}"])
        for i in range(20_001)
    ]
    assert refused_here(honest_with(*nodes), "onnx.nodes")["max"] == 20_000


def test_input_that_is_ignored():
    node = helper.make_node("ReduceSum", ["obs"], ["sum"], keepdims=0)
    flat = helper.make_node("Mul", ["sum", "zero"], ["nothing"])
    end = helper.make_node("Add", ["nothing", "fixed"], ["actions"])
    stored = [tensor("zero", np.array(0, np.float32)), tensor("fixed", np.ones((1, 2), np.float32))]
    assert refused_here(model([node, flat, end], stored), "onnx.ignores") == {"inputs": "obs"}


def test_too_slow():
    probes = msgspec.structs.replace(
        ONNX.probes, latency_cap_s=1e-9, latency_calls=3, latency_tries=1
    )
    refused_here(honest(), "onnx.latency", probes=probes)


def test_answer_that_differs_between_processes_is_refused(make_context, monkeypatch):
    ctx = make_context({"policy.onnx": honest()})
    monkeypatch.setattr("verifier.isolation.checks.Checker._repeat", _other_digest(monkeypatch))
    with refused("onnx.stateful"):
        ctx.check("onnx", ONNX)


def _other_digest(monkeypatch):
    from verifier.isolation.checks import Checker

    repeat = Checker._repeat
    return lambda self, contract, digest: repeat(self, contract, "0" * 64)


def test_contract_arrays_are_what_the_family_declared():
    assert ONNX.inputs == (ArraySpec("obs", (1, 4), "float32"),)
    assert onnx_files.OPSET in range(ONNX.opset_min, ONNX.opset_max + 1)
