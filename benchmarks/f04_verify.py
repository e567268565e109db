"""Speed of f04 verification, each time as a ratio to bare physics of the same run.

python benchmarks/f04_verify.py [--repeats 3] [--whole]

A tracker that sees the true state stays up for the whole clip; its actions are recorded once and played
again through the scored loop, while a graph of 250 k parameters answers beside it. Bare physics replays the
recorded targets from the same start. Ratios are of CPU time, both processes counted, so that a busy
machine does not decide; wall time stands beside it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import mujoco
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from families.f04_tracking import dev, draws, policy, scene, spec, task, verify
from rle.commands.demo import reference_submission
from rle.errors import UserError
from rle.report import read_report
from rle.verify_api import Worker
from train_baselines.oracles.f04_tracker import Tracker
from verifier.context import Context, Settings
from verifier.hidden import read_salt
from verifier.isolation import layers
from verifier.submission import freeze

HISTORY, HIDDEN = 8, 192
"""1280 x 192 + 192 x 29 weights: 251 k parameters."""
SEED = spec.DESIGN_SEEDS[0]


def graph() -> bytes:
    """A network of the size of the stored oracles."""
    rng = np.random.default_rng(0)
    shapes = {"w1": (HISTORY * spec.OBS_DIM, HIDDEN), "w2": (HIDDEN, spec.ACTION_DIM)}
    weights = [
        numpy_helper.from_array((0.02 * rng.standard_normal(shape)).astype(np.float32), key)
        for key, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("MatMul", ["obs", "w1"], ["h"]),
        helper.make_node("Elu", ["h"], ["e"]),
        helper.make_node("MatMul", ["e", "w2"], ["actions"]),
    ]
    ends = [("obs", shapes["w1"][0]), ("actions", spec.ACTION_DIM)]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, w]) for n, w in ends]
    body = helper.make_graph(nodes, "policy", values[:1], values[1:], weights)
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return model.SerializeToString()


def record_episode(clip) -> tuple[draws.TrialDraws, task.Record]:
    """20 s of the privileged tracker under all draws but the pushes."""
    drawn = draws.trial_draws(dev.design_streams("dance", SEED), clip.body_pos_w, "no_push")
    trial, tracker = task.Trial(clip, drawn), Tracker(clip)
    bias = np.array(drawn.dynamics.encoder_bias_rad)
    record = task.play(trial, lambda frames: tracker.action(trial.frame, trial.data, bias))
    return drawn, record


Times = np.ndarray
"""CPU and wall seconds, shape (2,)."""


def seconds(run: Callable[[], object], worker: Worker | None = None) -> Times:
    """CPU time (of a worker too) and wall time of one call."""

    def now() -> Times:
        cpu_s = time.process_time() + (worker.cpu_s if worker else 0.0)
        return np.array([cpu_s, time.perf_counter()])

    start = now()
    run()
    return now() - start


def bare(clip, drawn: draws.TrialDraws, record: task.Record) -> Times:
    """10 `mj_step` per recorded target, and nothing else."""
    g1 = scene.build(spec.EVAL_TIMESTEP_S, drawn.dynamics, drawn.terrain)
    data = mujoco.MjData(g1.model)
    data.qpos[:], data.qvel[:] = record.qpos[0], record.qvel_start

    def run() -> None:
        for ctrl in record.ctrl:
            data.ctrl[:] = ctrl
            mujoco.mj_step(g1.model, data, nstep=spec.EVAL_SUBSTEPS)

    return seconds(run)


def episode(
    clip,
    drawn: draws.TrialDraws,
    record: task.Record,
    act: task.Act | None,
    worker: Worker | None = None,
) -> Times:
    """The scored loop with the recorded actions; the policy answers, and its answer is not used."""
    trial = task.Trial(clip, drawn)

    def replay(frames: np.ndarray) -> np.ndarray:
        if act is not None:
            act(frames)
        return record.action[trial.step_index]

    took = seconds(lambda: task.play(trial, replay, HISTORY), worker)
    assert trial.step_index == record.executed
    return took


def height_field(clip, drawn: draws.TrialDraws, record: task.Record) -> float:
    """Time of a step on the height field over that on a plane, from the same states."""

    def run(terrain: scene.HeightMap | None) -> float:
        g1 = scene.build(spec.EVAL_TIMESTEP_S, drawn.dynamics, terrain)
        data = mujoco.MjData(g1.model)

        def steps() -> None:
            for qpos, ctrl in zip(record.qpos, record.ctrl):
                data.qpos[:], data.qvel[:], data.ctrl[:] = qpos, 0.0, ctrl
                mujoco.mj_step(g1.model, data, nstep=spec.EVAL_SUBSTEPS)

        return seconds(steps)[0]

    return run(drawn.terrain) / run(None)


def sandboxed(folder: Path, out: Path) -> Context:
    """A context as the verifier's, with the strongest isolation that this machine has."""
    mode = "strict" if not layers.plan("reduced").missing else "reduced"
    task_spec = next(t for t in spec.TASKS if t.slug == "dance")
    settings = Settings(
        task=task_spec,
        submission=freeze(folder, out / "frozen", task_spec),
        salt=read_salt(None),
        plan=layers.plan(mode),
        options={},
        log_folder=out,
    )
    return Context(settings)


def whole(bare_step_s: float) -> list[tuple[str, str, float | Times, str]]:
    """A complete `python -m verifier` of the stored oracle, with one and two jobs."""
    try:
        folder = reference_submission(next(t for t in spec.TASKS if t.slug == "dance"))
    except UserError as error:
        return [(f"whole verification: {error.message}", "-", float("nan"), "-")]
    walls = {}
    for jobs in (1, 2):
        out = Path(tempfile.mkdtemp(prefix="f04-bench-"))
        command = [
            sys.executable,
            "-m",
            "verifier",
            "--task",
            "f04/dance",
            "--artifacts",
            str(folder),
        ]
        command += ["--out", str(out), "--jobs", str(jobs)]
        walls[jobs] = seconds(lambda c=command: subprocess.run(c, check=True, capture_output=True))[
            1
        ]
        report = read_report((out / "report.json").read_bytes())
    steps = sum(row.metrics["U"] * spec.STEPS for row in report.rows) * 10 / spec.N_HIDDEN
    return [
        (
            f"whole verification, {walls[1]:.1f} s",
            f"{steps:.0f} bare steps",
            walls[1] / (steps * bare_step_s),
            "4",
        ),
        ("  one job over two jobs", "-", walls[1] / walls[2], ">= 1.6"),
    ]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--whole", action="store_true", help="also run the verifier as a whole")
    given = parser.parse_args()
    clip = verify.load_clip("dance")
    drawn, record = record_episode(clip)
    data = graph()
    local = policy.LocalGraph(data, HISTORY)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        (root / "in").mkdir()
        (root / "in" / spec.ONNX_FILE).write_bytes(data)
        (root / "in" / spec.META_FILE).write_text(f'{{"obs_history_length": {HISTORY}}}')
        ctx = sandboxed(root / "in", root)
        limits, times = verify.LIMITS, {key: [] for key in ("bare", "loop", "graph", "sandbox")}
        for _ in range(given.repeats):
            times["bare"].append(bare(clip, drawn, record))
            times["loop"].append(episode(clip, drawn, record, None))
            times["graph"].append(episode(clip, drawn, record, local.act))
            with ctx.worker("onnx", policy.checked(HISTORY), limits) as worker:
                worker.load()
                times["sandbox"].append(episode(clip, drawn, record, worker.act, worker))
    base, loop, graph_s, sandbox = (np.median(times[key], axis=0) for key in times)
    rows = [
        ("episode in the sandbox", "bare mj_step", sandbox / base, "2.5, aim 1.5"),
        ("  of it: the trial loop", "bare mj_step", loop / base, "-"),
        ("  of it: the graph itself", "bare mj_step", (graph_s - loop) / base, "-"),
        ("  of it: messages to the sandbox", "bare mj_step", (sandbox - graph_s) / base, "0.25"),
        ("height field", "plane, per step", height_field(clip, drawn, record), "1.6"),
    ]
    if given.whole:
        rows += whole(base[1] / record.executed)
    load = " ".join(f"{x:.2f}" for x in os.getloadavg())
    print(f"episode of {record.executed} steps, bare physics {base[0]:.2f} s, load average {load}")
    print(f"{'measure':40} {'compared with':20} {'CPU':>6} {'wall':>6}  target")
    for measure, limit, ratio, target in rows:
        cpu, wall = np.broadcast_to(ratio, 2)
        print(f"{measure:40} {limit:20} {cpu:6.2f} {wall:6.2f}  {target}")


if __name__ == "__main__":
    main()
