"""Runs an ONNX graph on onnxruntime: CPU, one thread, from bytes, without profiling or extensions."""

import hashlib
import importlib
import resource
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort

from .roles import quoted
from .wire import FUNCTION, Fault, Layout

MAX_GROWTH_BYTES = 512 * 2**20
"""Memory that loading and the first run may add."""
PROBE_SEED = 20_260
"""Seed of the fixed probe inputs; they say nothing about trials."""
BASIC, UNOPTIMISED = (
    ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
)
ORT_ERRORS = tuple(
    value
    for value in vars(
        importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    ).values()
    if isinstance(value, type) and issubclass(value, Exception)
)
"""Every exception class of the runtime."""


class Graph:
    """A loaded graph.

    Args:
        data: The file.
        contract: `rle.contracts.OnnxContract` as plain data.
        level: Graph optimisation level.

    Raises:
        Fault: `onnx.load`, the runtime refuses the graph.
    """

    def __init__(self, data: bytes, contract: dict, level) -> None:
        self._input_names = [spec["name"] for spec in contract["inputs"]]
        self._outputs = [(spec["name"], tuple(spec["shape"])) for spec in contract["outputs"]]
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = level
        options.log_severity_level = 4
        options.add_session_config_entry("session.load_model_format", "ONNX")
        try:
            self._session = ort.InferenceSession(data, options, ["CPUExecutionProvider"])
        except ORT_ERRORS as error:
            raise Fault("onnx.load", fact=quoted(str(error).splitlines()[0], 160)) from None
        self._output_names = [name for name, _ in self._outputs]

    def run(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """One call.

        Returns:
            Outputs with exactly the declared shapes, float32; possibly non-finite.

        Raises:
            Fault: `onnx.run` with the runtime's first line, or `onnx.output`.
        """
        feed = dict(zip(self._input_names, arrays, strict=True))
        try:
            outputs = self._session.run(self._output_names, feed)
        except ORT_ERRORS as error:
            raise Fault("onnx.run", fact=quoted(str(error).splitlines()[0], 160)) from None
        results = []
        for (name, shape), output in zip(self._outputs, outputs, strict=True):
            if not isinstance(output, np.ndarray):
                raise Fault("onnx.output", name=name, found=type(output).__name__)
            if output.shape != shape or output.dtype != np.float32:
                found = f"{output.dtype} {list(output.shape)}"
                raise Fault("onnx.output", name=name, found=found)
            results.append(output)
        return results


def probe(data: bytes, contract: dict) -> dict:
    """Loads and runs a checked graph on fixed inputs.

    Returns:
        `probe_digest`, a hash of the answers that a second process must repeat; `inference_ms`
        where the contract asks for the latency.

    Raises:
        Fault: `onnx.stateful`, `onnx.finite`, `onnx.ignores`, `onnx.latency`, `onnx.memory` or
            what loading raises.
    """
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    graph = Graph(data, contract, UNOPTIMISED)
    rng = np.random.default_rng(PROBE_SEED)
    zeros, noise = _constant(contract, 0.0), _normal(contract, rng)
    answers = [graph.run(x) for x in (zeros, noise, noise, zeros)]
    growth = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    if growth > MAX_GROWTH_BYTES:
        raise Fault("onnx.memory", n=growth, max=MAX_GROWTH_BYTES)
    first, second, third, fourth = (b"".join(o.tobytes() for o in a) for a in answers)
    if first != fourth or second != third:
        raise Fault("onnx.stateful")
    _check_finite(graph, contract, rng, answers[0])
    _check_responsive(graph, contract, rng)
    facts: dict = {"probe_digest": hashlib.sha256(first + second).hexdigest()}
    cap_s = contract["probes"]["latency_cap_s"]
    if cap_s is not None:
        median_s = _latency_s(Graph(data, contract, BASIC), contract, noise)
        facts["inference_ms"] = 1e3 * median_s
        if median_s > cap_s:
            raise Fault("onnx.latency", ms=f"{1e3 * median_s:.1f}", max=f"{1e3 * cap_s:g}")
    return facts


def _constant(contract: dict, value: float) -> list[np.ndarray]:
    return [np.full(spec["shape"], value, np.float32) for spec in contract["inputs"]]


def _normal(contract: dict, rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.standard_normal(s["shape"], dtype=np.float32) for s in contract["inputs"]]


def _check_finite(
    graph: Graph, contract: dict, rng: np.random.Generator, at_zero: list[np.ndarray]
) -> None:
    probes = contract["probes"]
    cases = [("an all-zeros", at_zero)]
    if probes["finite_inputs"]:
        cases.append(("an all-ones", graph.run(_constant(contract, 1.0))))
        for _ in range(probes["finite_inputs"]):
            cases.append(("a random", graph.run(_normal(contract, rng))))
    for name, outputs in cases:
        largest = max(float(np.abs(o).max(initial=0.0)) for o in outputs)  # NaN propagates
        limit = probes["max_abs_output"] if probes["max_abs_output"] is not None else np.inf
        if not np.isfinite(largest) or largest > limit:
            raise Fault("onnx.finite", case=name, found=f"{largest:g}")


def _check_responsive(graph: Graph, contract: dict, rng: np.random.Generator) -> None:
    probes = contract["probes"]
    differences = [
        max(
            float(np.abs(a - b).max(initial=0.0))
            for a, b in zip(
                graph.run(_normal(contract, rng)), graph.run(_normal(contract, rng)), strict=True
            )
        )
        for _ in range(probes["responsive_pairs"])
    ]
    if differences and min(differences) <= probes["responsive_min"]:
        raise Fault("onnx.ignores", inputs=", ".join(s["name"] for s in contract["inputs"]))


def _latency_s(graph: Graph, contract: dict, arrays: list[np.ndarray]) -> float:
    """Best of a few tries of the median time of one call."""
    probes = contract["probes"]
    medians = []
    for _ in range(probes["latency_tries"]):
        for _ in range(probes["latency_warmup"]):
            graph.run(arrays)
        times_s = []
        for _ in range(probes["latency_calls"]):
            start_s = time.perf_counter()
            graph.run(arrays)
            times_s.append(time.perf_counter() - start_s)
        medians.append(float(np.median(times_s)))
    return min(medians)


class OnnxRole:
    """Serves ACT: the inputs as raw float32, the outputs likewise."""

    def load(self, fields: dict) -> dict:
        self._contract = fields["contract"]
        data = (Path(fields["root"]) / self._contract["path"]).read_bytes()
        if fields.get("probe_only"):
            return probe(data, self._contract | {"probes": fields["probe_only"]})
        self._graph = Graph(data, self._contract, BASIC)
        self._inputs = Layout(self._contract["inputs"])
        self._outputs = Layout(self._contract["outputs"])
        return {}

    def reset(self, fields: dict) -> None:
        """The graph has no state."""

    def act(self, payload: memoryview) -> bytes:
        return self._outputs.pack(self._graph.run(self._inputs.unpack(payload, FUNCTION.size)))


def build(config: dict) -> OnnxRole:
    ort.set_default_logger_severity(4)
    return OnnxRole()
