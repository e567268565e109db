"""A family small enough to test the trusted side with: a policy pulls a point to the origin.

One ONNX graph, `obs` float32 (1, 4) -> `actions` float32 (1, 2); a trial is eight calls. How a
trial can misbehave on *our* side is chosen by the option `fault`.
"""

import os
import signal
import time
from pathlib import Path

import mujoco
import numpy as np

from rle.contracts import ArraySpec, OnnxContract, OnnxProbes
from rle.errors import SimulationError
from rle.report import FamilyResult, Row
from rle.sim import guard
from rle.spec import ArtifactContract, ArtifactEntry, Budget, TaskSpec, VerifyOption
from rle.verify_api import Limits, Trial, TrialFault

N_TRIALS, STEPS = 3, 8
MARK = "RLE_TEST_MARK"
"""Variable that names a file which appears when the slow trial has begun."""
FAULTS = (
    "none", "bug", "slow", "kill-worker", "kill-worker-once", "stop-worker", "kill-trial-once",
    "kill-trial", "diverge", "broken-scene", "camera",
)  # fmt: skip
MOTOR = """<mujoco><option><flag autoreset="disable"/></option><worldbody>
  <body><joint name="slide" type="slide"/><geom size=".1" mass="1"/></body></worldbody>
  <actuator><motor joint="slide" gear="1e15"/></actuator></mujoco>"""
"""A motor so strong that finite commands leave the range of numbers."""
ONNX = OnnxContract(
    path="policy.onnx",
    inputs=(ArraySpec("obs", (1, 4), "float32"),),
    outputs=(ArraySpec("actions", (1, 2), "float32"),),
    max_parameters=10_000_000,
    symbolic_batch=True,
    probes=OnnxProbes(responsive_pairs=2, finite_inputs=2, max_abs_output=1e4),
)
LIMITS = Limits(call_cap_s=5.0, total_cap_s=60.0)
TASK = TaskSpec(
    id="f04/dance",
    title="Pull a point to the origin",
    workflow="policy learning",
    version="1.0.0",
    instruction="Pull the point.",
    budget=Budget(agent_wall_s=60, verify_wall_s=60),
    artifact=ArtifactContract(
        entries=(ArtifactEntry(path="policy.onnx", kind="onnx", max_bytes=64 * 2**20),),
        max_files=4,
        max_total_bytes=65 * 2**20,
        extra="ignore",
    ),
    profiles=("onnx",),
    n_trials=N_TRIALS,
    draw_key="point",
    floor=0.1,
    bar=0.5,
    options=(VerifyOption(name="fault", choices=FAULTS, default="none", help="of our side"),),
)


def run_trial(ctx, trial: Trial) -> Row:
    """Score = 1 - |point| after eight steps, at least 0."""
    rng = ctx.rng("start", trial.index)
    point = rng.uniform(-1.0, 1.0, 2)
    fault = ctx.options["fault"]
    if fault == "bug" and trial.index == 1:
        raise ZeroDivisionError("injected")
    ended = "done"
    if trial.index == 1:
        _disturb_trial(fault)
    checked = ctx.check("onnx", ONNX) if trial.params.get("check") else trial.params["checked"]
    with ctx.worker("onnx", checked, LIMITS) as worker:
        try:
            worker.load()
            for step in range(STEPS):
                if trial.index == 0 and step == 2:
                    _disturb(fault, worker, ctx)
                obs = np.concatenate([point, np.zeros(2)]).astype(np.float32)[None]
                command = worker.act(obs)[0]
                point = point + command
                if fault == "diverge" and trial.index == 1 and not _survives(command):
                    raise TrialFault("sim_unstable", "sim.warning")
                if fault == "slow" and trial.index == 1:
                    Path(os.environ[MARK]).touch()
                    time.sleep(60.0)
        except TrialFault as error:
            ended = error.ended
    score = max(0.0, 1.0 - float(np.linalg.norm(point))) if ended == "done" else 0.0
    return Row(id=trial.id, score=score, ended=ended, metrics={"distance_m": float(point[0])})


def _disturb_trial(fault: str) -> None:
    """What befalls the trusted process of a trial."""
    mark = Path(os.environ.get(MARK, os.devnull))
    if fault == "kill-trial" or (fault == "kill-trial-once" and not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "broken-scene":
        _step(np.ones(2))
        raise AssertionError("the scene was to be unstable")
    if fault == "camera":
        from rle.sim.render import Frames

        Frames(mujoco.MjModel.from_xml_string(MOTOR), 8, 8).close()


def _survives(command: np.ndarray) -> bool:
    """A family's own rule: physics that diverges under a finite command ends the trial."""
    try:
        _step(command)
    except SimulationError:
        return False
    return True


def _step(command: np.ndarray) -> None:
    model = mujoco.MjModel.from_xml_string(MOTOR)
    data = mujoco.MjData(model)
    data.ctrl[0] = command[0]
    mujoco.mj_step(model, data, 10)
    guard.check(model, data, "a point on a motor")


def _disturb(fault: str, worker, ctx) -> None:
    if fault == "kill-worker" or (fault == "kill-worker-once" and not ctx.label.endswith("again")):
        os.kill(worker.pid, signal.SIGKILL)
    if fault == "stop-worker":
        os.kill(worker.pid, signal.SIGSTOP)


def verify(ctx) -> FamilyResult:
    checked = ctx.check("onnx", ONNX)
    trials = [Trial(id=f"t{i:02d}", index=i, params={"checked": checked}) for i in range(N_TRIALS)]
    rows = ctx.map_trials(run_trial, trials)
    return FamilyResult(rows=rows, score=float(np.mean([row.score for row in rows])))
