"""PPO baseline of f04: rsl-rl's algorithm on the batched training environment, in one readable file.

    python -m train_baselines.f04_ppo --task f04/dance --backend mjc --minutes 60 --out runs/dance
    torchrun --nproc-per-node 4 -m train_baselines.f04_ppo --task f04/dance --backend warp-cuda --out runs/dance

`--out` receives `policy/` (the best export so far by the design-seed evaluator), `log.jsonl`,
`staged.jsonl`, `checkpoints/` and TensorBoard events. A killed run goes on with `--resume`.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import tyro
from rsl_rl.algorithms import PPO

from families.f04_tracking import spec
from families.f04_tracking.batch_env import TrackingEnv
from families.f04_tracking.dev import evaluate_design
from families.f04_tracking.export import ImportedPolicy, export_policy
from rle import registry
from rle.errors import UserError

KEPT_CHECKPOINTS = 3


@dataclasses.dataclass
class Args:
    """Trains a tracking policy with PPO and stages the best export."""

    task: str
    """Task id, e.g. f04/dance."""
    out: Path = Path("runs/f04")
    """Folder for the staged policy, logs and checkpoints."""
    backend: Literal["auto", "mjc", "warp-cuda", "warp-cpu"] = "auto"
    """Batch simulator; auto takes CUDA where there is a device."""
    minutes: float = 60.0
    """Wall time to train; ignored when --iterations is given."""
    iterations: int | None = None
    """Iterations to train, counted from the start of the run."""
    num_envs: int | None = None
    """Robots; default 4096 on CUDA, 64 per thread on mjc."""
    threads: int | None = None
    """Worker threads of mjc; default the process' CPUs."""
    history: int = 1
    """Observation frames that the policy sees."""
    seed: int = 0
    """Seed of weights, draws and exploration (rank is added)."""
    resume: bool = False
    """Go on from the last checkpoint in --out."""
    stage_every_min: float = 5.0
    """Minutes between two exports and design evaluations."""
    checkpoint_every: int = 100
    """Iterations between two checkpoints."""
    init: Path | None = None
    """Start the actor from the network in this policy.onnx (its history is taken over)."""
    init_std: float | None = None
    """Exploration at the start, raw actions; default 1, with --init 0.2."""
    learning_rate: float = 1e-3
    """First learning rate; it adapts to the KL divergence."""
    tensorboard: bool = True
    """Also write TensorBoard events."""


def config(args: Args) -> dict[str, Any]:
    """Settings of rsl-rl. Source of the numbers: card, section 4.4."""
    network = {
        "class_name": "MLPModel", "hidden_dims": [512, 256, 128], "activation": "elu",
        "obs_normalization": True,
    }  # fmt: skip
    std = args.init_std if args.init_std is not None else (0.2 if args.init else 1.0)
    gaussian = {"class_name": "GaussianDistribution", "init_std": std}
    return {
        "num_steps_per_env": 24,
        "obs_groups": {"actor": ["policy"], "critic": ["critic"]},
        "actor": {**network, "distribution_cfg": gaussian},
        "critic": network,
        "algorithm": {
            "class_name": "PPO", "num_learning_epochs": 5, "num_mini_batches": 4, "clip_param": 0.2,
            "entropy_coef": 0.005, "value_loss_coef": 1.0, "use_clipped_value_loss": True, "gamma": 0.99,
            "lam": 0.95, "learning_rate": args.learning_rate, "schedule": "adaptive", "desired_kl": 0.01,
            "max_grad_norm": 1.0, "rnd_cfg": None, "symmetry_cfg": None,
        },
        "multi_gpu": None,
    }  # fmt: skip


class Trainer:
    """One process of a run: environment, algorithm, logs, checkpoints and staging."""

    def __init__(self, args: Args) -> None:
        self.args, self.task = args, registry.get(args.task)
        self.rank, self.world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        start = ImportedPolicy(args.init.read_bytes()) if args.init else None
        if start is not None:
            args.history = start.n_inputs // spec.OBS_DIM
        options: dict[str, Any] = {}
        on_cuda = args.backend == "warp-cuda" or (
            args.backend == "auto" and torch.cuda.is_available()
        )
        if on_cuda:
            options["device"] = f"cuda:{int(os.environ.get('LOCAL_RANK', 0))}"
        else:
            # Two OpenMP threads on busy cores made a learning step 20 times slower.
            torch.set_num_threads(1)
        threads = args.threads or len(os.sched_getaffinity(0))
        if args.backend == "mjc" or (args.backend == "auto" and not on_cuda):
            options["threads"] = threads
        n = args.num_envs or (4096 if on_cuda else 64 * threads)
        torch.manual_seed(args.seed + self.rank)
        self.env = TrackingEnv(
            self.task.slug, n, args.backend, args.seed + self.rank, history=args.history, **options
        )
        self.device = str(self.env.device)
        self.cfg = config(args)
        if self.world > 1:
            torch.distributed.init_process_group("nccl" if on_cuda else "gloo")
            self.cfg["multi_gpu"] = {
                "global_rank": self.rank, "local_rank": int(os.environ.get("LOCAL_RANK", 0)),
                "world_size": self.world,
            }  # fmt: skip
        with contextlib.redirect_stdout(None):  # rsl-rl prints its networks
            self.alg = PPO.construct_algorithm(
                self.env.get_observations(), self.env, self.cfg, self.device
            )
        if start is not None:  # the graph brings its own normalisation
            actor = self.alg.get_policy()
            actor.obs_normalization, actor.obs_normalizer = False, torch.nn.Identity()
            actor.mlp = start.to(self.device)
            self._remake_optimizer()
        if self.world > 1:
            self.alg.broadcast_parameters()
        self.iteration, self.env_steps, self.wall_s = 0, 0, 0.0
        self.best, self.lengths = -1.0, [0.0]
        self.writer: Any = None
        args.out.mkdir(parents=True, exist_ok=True)

    def _remake_optimizer(self) -> None:
        """The optimizer that rsl-rl made knows the replaced network's parameters only."""
        alg = self.alg
        parameters = [*alg.actor.parameters(), *alg.critic.parameters()]
        alg.optimizer = type(alg.optimizer)(parameters, lr=alg.learning_rate)

    # -------------------------------------------------------------------------------- learning

    def run(self) -> None:
        """Trains until the time or the iterations are over; always ends with checkpoint and stage."""
        args = self.args
        if args.resume:
            self.load()
        if args.tensorboard and self.rank == 0:
            from torch.utils.tensorboard import SummaryWriter

            self.writer = SummaryWriter(str(args.out / "tensorboard"))
        self.alg.train_mode()
        started, staged = time.monotonic() - self.wall_s, time.monotonic()
        while not self._is_over():
            row = self.iterate()
            self.wall_s = time.monotonic() - started
            self._log(row)
            if self.iteration % args.checkpoint_every == 0:
                self.save()
            if time.monotonic() - staged >= 60.0 * args.stage_every_min:
                self.stage()
                staged = time.monotonic()
        self.save()
        self.stage()
        if self.writer is not None:
            self.writer.close()
        self.env.close()
        if self.world > 1:
            torch.distributed.destroy_process_group()

    def _is_over(self) -> bool:
        over = (
            self.iteration >= self.args.iterations
            if self.args.iterations is not None
            else self.wall_s >= 60.0 * self.args.minutes
        )
        if self.world > 1:  # all ranks stop together
            flag = torch.tensor([int(over)], device=self.device)
            torch.distributed.all_reduce(flag, op=torch.distributed.ReduceOp.MAX)
            over = bool(flag.item())
        return over

    def iterate(self) -> dict[str, float]:
        """One iteration: collect, learn. Returns the numbers of its log line."""
        alg, env = self.alg, self.env
        began = time.monotonic()
        rewards, errors, nans = [], [], env.nan_resets
        with torch.inference_mode():
            observation = env.get_observations()
            for _ in range(self.cfg["num_steps_per_env"]):
                observation, reward, dones, extras = env.step(alg.act(observation))
                alg.process_env_step(observation, reward, dones, extras)
                rewards.append(reward.mean())
                errors.append(extras["log"]["/mpjpe_m"])
                if "/episode_len" in extras["log"]:
                    self.lengths = [*self.lengths[-99:], float(extras["log"].pop("/episode_len"))]
            alg.compute_returns(observation)
            probe = observation.clone()
            before = self._distribution(probe)
        collected = time.monotonic()
        losses = alg.update()
        with torch.inference_mode():
            kl = self.alg.actor.get_kl_divergence(before, self._distribution(probe)).mean()
        self.iteration += 1
        steps = len(rewards) * env.num_envs * self.world
        self.env_steps += steps
        now = time.monotonic()
        return {
            "iteration": self.iteration, "env_steps": self.env_steps,
            "env_steps_per_s": steps / (now - began), "collect_s": collected - began,
            "learn_s": now - collected, "mean_reward": float(torch.stack(rewards).mean()),
            "episode_len": float(np.mean(self.lengths)), "mpjpe_m": float(torch.stack(errors).mean()),
            "kl": float(kl), "lr": alg.learning_rate, "std": float(alg.actor.output_std.mean()),
            "value_loss": losses["value"], "surrogate": losses["surrogate"],
            "nan_resets": env.nan_resets - nans, "overflow": env.overflow_worlds,
        }  # fmt: skip

    def _distribution(self, observation: Any) -> tuple[torch.Tensor, ...]:
        actor = self.alg.actor
        actor.distribution.update(actor.mlp(actor.get_latent(observation)))
        return tuple(p.clone() for p in actor.output_distribution_params)

    def _log(self, row: dict[str, float]) -> None:
        if self.rank != 0:
            return
        row["wall_s"] = self.wall_s
        with (self.args.out / "log.jsonl").open("a") as log:
            log.write(json.dumps(row) + "\n")
        if self.writer is not None:
            for name, value in row.items():
                self.writer.add_scalar(name, value, self.iteration)
        if self.iteration % 10 == 1:
            print(
                f"iteration {self.iteration}: reward {row['mean_reward']:.4f}, episode "
                f"{row['episode_len']:.0f} steps, mpjpe {1e3 * row['mpjpe_m']:.0f} mm, "
                f"{row['env_steps_per_s']:.0f} steps/s",
                flush=True,
            )

    # ------------------------------------------------------------- checkpoints and staged exports

    def save(self) -> None:
        """Writes a checkpoint atomically and keeps the last three; every rank saves its own world."""
        saved = {
            "algorithm": self.alg.save(), "iteration": self.iteration, "env_steps": self.env_steps,
            "wall_s": self.wall_s, "best": self.best, "lengths": self.lengths,
            "learning_rate": self.alg.learning_rate,
            "env": self.env.state_dict(), "torch_rng": torch.get_rng_state(),
        }  # fmt: skip
        folder = self.args.out / "checkpoints"
        folder.mkdir(parents=True, exist_ok=True)
        name = f"rank{self.rank}_{self.iteration:07d}.pt"
        partial = folder / f".{name}.partial"
        try:
            torch.save(saved, partial)
            os.replace(partial, folder / name)
        except (OSError, RuntimeError) as error:
            partial.unlink(missing_ok=True)
            print(
                f"checkpoint {name} was not written ({error}); the older ones are whole", flush=True
            )
            return
        for old in sorted(folder.glob(f"rank{self.rank}_*.pt"))[:-KEPT_CHECKPOINTS]:
            old.unlink()

    def load(self) -> None:
        """Goes on from the last checkpoint of this rank.

        Raises:
            UserError: There is none, or it was made with other settings.
        """
        found = sorted((self.args.out / "checkpoints").glob(f"rank{self.rank}_*.pt"))
        if not found:
            raise UserError(
                f"--resume: no checkpoint in {self.args.out / 'checkpoints'}; start without it"
            )
        saved = torch.load(found[-1], map_location=self.device, weights_only=True)
        self.env.load_state_dict(saved["env"])
        self.alg.load(saved["algorithm"], None, True)
        self.alg.learning_rate = saved["learning_rate"]
        for name in ("iteration", "env_steps", "wall_s", "best", "lengths"):
            setattr(self, name, saved[name])
        torch.set_rng_state(saved["torch_rng"].cpu())

    def stage(self) -> None:
        """Exports, evaluates on the design seeds, and keeps the export if it is the best so far."""
        if self.rank != 0:
            return
        out = self.args.out
        fresh = out / ".policy.partial"
        shutil.rmtree(fresh, ignore_errors=True)
        actor = self.alg.get_policy().as_onnx(verbose=False).cpu().eval()
        export_policy(actor, fresh, self.args.history, {"iteration": self.iteration})
        score = evaluate_design(self.args.task, fresh).score
        is_best = score > self.best
        if is_best:
            self.best = score
            shutil.rmtree(out / "policy", ignore_errors=True)
            os.replace(fresh, out / "policy")
        else:
            shutil.rmtree(fresh)
        row = {"iteration": self.iteration, "wall_s": self.wall_s, "score": score, "best": is_best}
        with (out / "staged.jsonl").open("a") as log:
            log.write(json.dumps(row) + "\n")
        print(f"staged iteration {self.iteration}: design score {score:.4f}", flush=True)


def main() -> None:
    """Command line of the baseline."""
    Trainer(tyro.cli(Args, prog="python -m train_baselines.f04_ppo")).run()


if __name__ == "__main__":
    main()
