"""Files of the usual exporters: a legal file that is refused is an error of the grader."""

import io

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from tests.attacks.onnx_files import check_here
from tests.verifier.fake_family import ONNX
from verifier.box import onnx_box

OBS = np.array([[0.4, -0.2, 0.0, 0.0]], np.float32)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 8, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, obs):
        return self.head(self.gru(obs[:, None, :])[0][:, -1])


class Attention(nn.Module):
    """A transformer over 16 frames of the observation."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(1, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(16, 2)

    def forward(self, obs):
        frames = self.embed(obs.repeat(1, 4)[:, :, None])
        return self.head(self.encoder(frames)[:, -1])


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, 4, 3), nn.ELU(), nn.Flatten(), nn.Linear(8, 2))

    def forward(self, obs):
        return self.net(obs[:, None, :])


MODELS = {
    "mlp": lambda: nn.Sequential(nn.Linear(4, 32), nn.ELU(), nn.LayerNorm(32), nn.Linear(32, 2)),
    "gru": Recurrent,
    "transformer": Attention,
    "cnn": Convolution,
}


@pytest.mark.slow
@pytest.mark.parametrize("dynamo", [False, True], ids=["legacy", "dynamo"])
@pytest.mark.parametrize("name", MODELS)
def test_exporters_of_torch_pass(name, dynamo, tmp_path):
    torch.manual_seed(0)
    network = MODELS[name]().eval()
    path = tmp_path / "policy.onnx"
    torch.onnx.export(
        network,
        (torch.zeros(1, 4),),
        str(path),
        input_names=["obs"],
        output_names=["actions"],
        dynamo=dynamo,
        external_data=False,
    )
    check_here(path.read_bytes())
    graph = onnx_box.Graph(path.read_bytes(), msgspec.to_builtins(ONNX), onnx_box.BASIC)
    with torch.no_grad():
        expected = network(torch.from_numpy(OBS)).numpy()
    assert np.allclose(graph.run([OBS])[0], expected, atol=1e-5)


def test_legacy_exporter_of_an_mlp_passes():
    """The fast one of the exporters above."""
    buffer = io.BytesIO()
    torch.onnx.export(
        MODELS["mlp"]().eval(),
        (torch.zeros(1, 4),),
        buffer,
        input_names=["obs"],
        output_names=["actions"],
        dynamic_axes={"obs": {0: "batch"}, "actions": {0: "batch"}},
        dynamo=False,
    )
    check_here(buffer.getvalue())
