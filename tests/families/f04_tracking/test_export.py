"""Export of a torch policy: what leaves it is a valid artifact, and what is not is named."""

import json

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from families.f04_tracking import policy, spec
from families.f04_tracking.export import export_policy
from rle.errors import UserError


def mlp(history: int, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    width = spec.OBS_DIM * history
    return nn.Sequential(nn.Linear(width, 32), nn.ELU(), nn.Linear(32, spec.ACTION_DIM))


@pytest.mark.parametrize("history", [1, 16])
def test_artifact_is_complete_and_says_what_it_is(tmp_path, history):
    module = mlp(history)
    n = export_policy(module, tmp_path / "out", history, {"made_by": "a test"})
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "policy.onnx",
        "policy_meta.json",
    ]
    stored = sum(p.numel() for p in module.parameters())
    assert stored <= n <= stored + 16  # the tracer may add a shape constant
    meta = json.loads((tmp_path / "out" / spec.META_FILE).read_text())
    assert meta["made_by"] == "a test" and meta["n_params"] == n
    assert (
        policy.read_meta((tmp_path / "out" / spec.META_FILE).read_bytes()).obs_history_length
        == history
    )


def test_graph_answers_like_the_module_and_holds_its_weights(tmp_path):
    module = mlp(4)
    export_policy(module, tmp_path, 4)
    data = (tmp_path / spec.ONNX_FILE).read_bytes()
    model = onnx.load_model_from_string(data)
    assert {o.version for o in model.opset_import if o.domain == ""} == {spec.EXPORT_OPSET}
    assert not any(t.external_data for t in model.graph.initializer)
    graph = policy.LocalGraph(data, 4)
    obs = np.random.default_rng(1).standard_normal((1, 640)).astype(np.float32)
    with torch.no_grad():
        expected = module(torch.from_numpy(obs)).numpy()
    assert graph.act(obs) == pytest.approx(expected, abs=spec.EXPORT_TOLERANCE)


def test_training_mode_is_left_as_it_was(tmp_path):
    module = nn.Sequential(nn.Dropout(0.5), *mlp(1))
    module.train()
    export_policy(module, tmp_path, 1)  # dropout would make graph and module differ
    assert module.training


class Constant(nn.Module):
    def forward(self, obs):
        return obs[:, : spec.ACTION_DIM] * 0.0 + 1.0


class Huge(nn.Module):
    def forward(self, obs):
        return obs[:, : spec.ACTION_DIM] * 1e5


class Random(nn.Module):
    def forward(self, obs):
        return obs[:, : spec.ACTION_DIM] + torch.rand_like(obs[:, : spec.ACTION_DIM])


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Constant(), "do not depend on obs"),
        (Huge(), "not finite or above 10000"),
        (Random(), "operators RandomUniformLike are not allowed"),
    ],
)
def test_what_the_contract_refuses_is_not_written(tmp_path, module, message):
    with pytest.raises(UserError, match=message):
        export_policy(module, tmp_path / "out", 1)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("extra", "fits"), [(0, True), (1, False)])
def test_parameters_at_their_limit(tmp_path, extra, fits):
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            # the graph's own constants (bounds of one slice) count too
            self.table = nn.Parameter(torch.zeros(spec.MAX_PARAMS - SLICE_CONSTANTS + extra))

        def forward(self, obs):
            return obs[:, : spec.ACTION_DIM] + self.table.sum()

    if fits:
        assert export_policy(Table(), tmp_path / "out", 1) == spec.MAX_PARAMS
    else:
        with pytest.raises(UserError, match="10000001 parameters; at most 10000000"):
            export_policy(Table(), tmp_path / "out", 1)


SLICE_CONSTANTS = 8
"""Four 64-bit bounds (start, end, axis, step) in float32 equivalents."""


def test_a_failed_export_leaves_the_last_good_one(tmp_path):
    export_policy(mlp(1), tmp_path, 1)
    before = (tmp_path / spec.ONNX_FILE).read_bytes()
    with pytest.raises(UserError):
        export_policy(Huge(), tmp_path, 1)
    assert (tmp_path / spec.ONNX_FILE).read_bytes() == before
