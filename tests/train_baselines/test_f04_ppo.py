"""The PPO baseline: it finishes, logs, stages and resumes. Nothing here asserts that it learns."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from tensordict import TensorDict

pytest.importorskip("rsl_rl")

from families.f04_tracking import policy, spec
from families.f04_tracking.export import ImportedPolicy, export_policy
from rle.errors import UserError
from train_baselines.f04_ppo import Args, Trainer, config

ROOT = Path(__file__).resolve().parents[2]
SMALL = {"task": "f04/dance", "backend": "mjc", "num_envs": 16, "tensorboard": False}


def trainer(out: Path, **options) -> Trainer:
    return Trainer(Args(**{**SMALL, "out": out, **options}))


def weights(made: Trainer) -> dict[str, torch.Tensor]:
    return {k: v.clone() for k, v in made.alg.get_policy().state_dict().items()}


def test_three_iterations_log_checkpoint_stage_and_export(tmp_path):
    made = trainer(tmp_path, iterations=3)
    made.run()
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [r["iteration"] for r in rows] == [1, 2, 3]
    assert rows[-1]["env_steps"] == 3 * 24 * 16
    assert {"mean_reward", "episode_len", "mpjpe_m", "kl", "lr", "std", "nan_resets"} <= set(
        rows[0]
    )
    assert all(np.isfinite(v) for r in rows for v in r.values())
    staged = json.loads((tmp_path / "staged.jsonl").read_text())
    assert staged["best"] and 0.0 <= staged["score"] <= 1.0
    assert sorted(p.name for p in (tmp_path / "policy").iterdir()) == [
        "policy.onnx",
        "policy_meta.json",
    ]
    meta = policy.read_meta((tmp_path / "policy" / "policy_meta.json").read_bytes())
    graph = policy.LocalGraph(
        (tmp_path / "policy" / "policy.onnx").read_bytes(), meta.obs_history_length
    )
    assert graph.act(np.zeros((1, spec.OBS_DIM), np.float32)).shape == (1, spec.ACTION_DIM)
    assert len(list((tmp_path / "checkpoints").glob("*.pt"))) == 1


def test_actions_are_judged_by_the_policy_that_took_them(tmp_path, monkeypatch):
    """Before the first update every ratio of probabilities is 1: what is stored is what was done."""
    made = trainer(tmp_path)
    update, ratios = made.alg.update, []

    def checked():
        stored, alg = made.alg.storage, made.alg
        alg.actor(stored.observations.flatten(0, 1), stochastic_output=True)
        now = alg.actor.get_output_log_prob(stored.actions.flatten(0, 1)).flatten()
        ratios.append((now - stored.actions_log_prob.flatten()).exp())
        return update()

    monkeypatch.setattr(made.alg, "update", checked)
    for _ in range(3):
        made.iterate()
    assert made.env.starts.failures.sum() > 0  # robots fell and were reset meanwhile
    assert all((r - 1.0).abs().max().item() < 1e-3 for r in ratios)


def test_resumed_run_is_the_uninterrupted_one(tmp_path):
    """4 iterations = 2 + resume + 2, bit for bit on `mjc`."""
    whole = trainer(tmp_path / "whole", iterations=4)
    for _ in range(4):
        whole.iterate()
    half = trainer(tmp_path / "half", iterations=2)
    for _ in range(2):
        half.iterate()
    half.save()
    torch.manual_seed(99)  # whatever happens in between must not matter
    resumed = trainer(tmp_path / "half", iterations=4)
    resumed.load()
    assert resumed.iteration == 2
    for _ in range(2):
        resumed.iterate()
    for name, value in weights(whole).items():
        assert torch.equal(value, weights(resumed)[name]), name
    assert whole.alg.learning_rate == resumed.alg.learning_rate


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        RuntimeError("PytorchStreamWriter failed: No space left on device"),
    ],
    ids=["file", "torch"],
)
def test_only_the_last_checkpoints_are_kept_and_none_is_torn(tmp_path, monkeypatch, capsys, error):
    made = trainer(tmp_path)
    for made.iteration in range(1, 6):
        made.save()
    kept = sorted(p.name for p in (tmp_path / "checkpoints").iterdir())
    assert kept == [f"rank0_{i:07d}.pt" for i in (3, 4, 5)]

    def full(saved, path):
        Path(path).write_bytes(b"half")
        raise error

    monkeypatch.setattr(torch, "save", full)
    made.iteration = 6
    made.save()
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == kept
    told = capsys.readouterr().out
    assert "checkpoint rank0_0000006.pt was not written" in told and "No space left" in told
    assert "the older ones are whole" in told


def test_resume_explains_what_does_not_fit(tmp_path):
    with pytest.raises(UserError, match="no checkpoint"):
        trainer(tmp_path, resume=True).load()
    trainer(tmp_path).save()
    with pytest.raises(UserError, match="same number of robots"):
        trainer(tmp_path, num_envs=8).load()


def test_timeouts_bootstrap_with_the_stored_value_and_falls_do_not():
    """Two states, no reward: a timeout is worth gamma V(state before it), a fall nothing."""
    from rsl_rl.algorithms import PPO

    class Stub:
        num_envs, num_actions, cfg = 2, 1, {}

    observation = TensorDict({"policy": torch.eye(2), "critic": torch.eye(2)}, batch_size=[2])
    settings = config(Args(task="f04/dance"))
    settings["num_steps_per_env"] = 1
    alg = PPO.construct_algorithm(observation, Stub(), settings, "cpu")
    with torch.inference_mode():
        alg.act(observation)
        values = alg.transition.values.clone()
        done = torch.ones(2, dtype=torch.long)
        alg.process_env_step(
            observation, torch.zeros(2), done, {"time_outs": torch.tensor([True, False])}
        )
    stored = alg.storage.rewards[0, :, 0]
    assert stored[0].item() == pytest.approx(0.99 * values[0].item())
    assert stored[1].item() == 0.0


def test_an_exported_network_comes_back_as_it_was(tmp_path):
    torch.manual_seed(0)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.randn(320))
            self.linear = torch.nn.Linear(320, 29)
            self.mlp = torch.nn.Sequential(
                torch.nn.Linear(320, 16), torch.nn.ELU(), torch.nn.Linear(16, 29)
            )

        def forward(self, obs):
            x = (obs - self.mean).clamp(-3, 3)
            return self.linear(x) + self.mlp(x)

    export_policy(Net(), tmp_path / "net", 2)
    data = (tmp_path / "net" / "policy.onnx").read_bytes()
    back = ImportedPolicy(data)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    x = torch.randn(1, 320)
    assert back(x).detach().numpy() == pytest.approx(
        session.run(None, {"obs": x.numpy()})[0], abs=1e-5
    )
    assert sum(p.numel() for p in back.parameters()) == 320 * 29 + 29 + 320 * 16 + 16 + 16 * 29 + 29
    made = trainer(tmp_path / "run", init=tmp_path / "net" / "policy.onnx", iterations=1)
    before = weights(made)
    assert made.args.history == 2
    made.iterate()
    after = weights(made)
    assert any(not torch.equal(before[k], after[k]) for k in before if k.startswith("mlp"))


def test_an_import_that_is_no_plain_network_is_refused():
    from onnx import TensorProto, helper

    info = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, d])
        for n, d in (("obs", 160), ("actions", 29))
    ]
    graph = helper.make_graph(
        [helper.make_node("TopK", ["obs"], ["actions"])], "g", info[:1], info[1:]
    )
    with pytest.raises(UserError, match="TopK cannot be trained on"):
        ImportedPolicy(helper.make_model(graph).SerializeToString())


@pytest.mark.slow
def test_two_processes_end_with_equal_weights(tmp_path):
    """gloo, two CPU processes, 8 worlds each, 2 iterations."""
    code = (
        "import sys, torch, hashlib\n"
        "from pathlib import Path\n"
        "from train_baselines.f04_ppo import Args, Trainer\n"
        f"t = Trainer(Args(task='f04/dance', backend='mjc', num_envs=8, tensorboard=False, out=Path({str(tmp_path)!r})))\n"
        "t.iterate(); t.iterate()\n"
        "h = hashlib.sha256(b''.join(v.numpy().tobytes() for v in t.alg.get_policy().state_dict().values()))\n"
        f"Path({str(tmp_path)!r}, f'hash{{t.rank}}').write_text(h.hexdigest())\n"
    )
    script = tmp_path / "run.py"
    script.write_text(code)
    run = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", str(script)],
        capture_output=True, text=True, cwd=ROOT, timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    assert (tmp_path / "hash0").read_text() == (tmp_path / "hash1").read_text()
