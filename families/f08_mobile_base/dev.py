"""`rle dev f08/mobile-base`: the battery on the published draws, in this process, through the scored loops."""

import contextlib
import functools
import multiprocessing
import os
import sys
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import gymnasium
import msgspec
import numpy as np
import tyro

from families.f08_mobile_base import chassis, metrics, pictures, scene, shelf, spec, task, verify
from rle import seeds
from rle.errors import UnknownName, UserError
from rle.paths import output_folder
from rle.report import FamilyResult, Row
from rle.verify_api import Checked, Limits, VerifyContext


class DesignContext:
    """The published draws and the controller in this process: the trials that `rle dev` runs.

    Args:
        folder: Submission; its code is trusted, it runs without a sandbox.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def rng(self, stream: str, *ids: int | str, namespace: str = "design") -> np.random.Generator:
        """Stream of a design draw: the k-th draw is that of the k-th published seed."""
        seed = spec.DESIGN_SEEDS[int(ids[0])]
        key = seeds.trial_key("f08", spec.TASKS[0].draw_key, "design", seed)
        return seeds.stream(key, stream)

    def keep(self, trial: str, states: np.ndarray) -> None:
        """Nothing: no video is drawn here."""

    @contextlib.contextmanager
    def worker(self, profile: str, checked: Any, limits: Limits) -> Generator[Any]:
        """The controller in this process; limits of time and memory are not enforced."""
        yield _Local(self._folder / spec.CONTROLLER_PY)


class _Local:
    """A controller in this process behind the interface of a worker."""

    wall_s = 0.0

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> None:
        self._inner = shelf.LocalController(self._path)

    def reset(self, context: dict[str, Any], seed: int) -> None:
        self._inner.reset(context, seed)

    def act(self, time_s: float, qpos: np.ndarray, qvel: np.ndarray, ctrl: np.ndarray) -> Any:
        return self._inner.act({"time": float(time_s), "qpos": qpos, "qvel": qvel, "ctrl": ctrl})


def evaluate_design(
    submission: Path,
    arms: Sequence[str] = spec.ARM_NAMES,
    only: str | None = None,
    on_row: Callable[[Row], None] | None = None,
    jobs: int = 1,
) -> FamilyResult:
    """Runs the battery on the published draws, through the loops that are scored.

    Args:
        submission: Folder with `robot.xml` and perhaps `controller.py`; trusted.
        arms: Arms to run; the worst of them decides.
        only: A test ("static", "testC", "shelf-1kg"), or None for all.
        on_row: Told of every finished row.
        jobs: Parallel processes.

    Raises:
        InvalidSubmission: `robot.xml` is missing or cannot be read.
    """
    design = task.load_chassis(submission / spec.ROBOT_XML)
    has_controller = (submission / spec.CONTROLLER_PY).is_file()
    checked = Checked(
        kind="python",
        contract=shelf.contract(spec.ARMS[0]),
        files=(spec.CONTROLLER_PY,),
    )
    params = {
        "robot_xml": chassis.canonical_text((submission / spec.ROBOT_XML).read_bytes()),
        "controller": checked if has_controller else None,
    }
    planned = [
        msgspec.structs.replace(trial, namespace="design")
        for trial in verify.trials(params, arms)
        if only is None or trial.group.endswith(f"/{only}")
    ]
    rows = [verify.design_row(design, task.find_arm(arm)) for arm in arms]
    context = cast(VerifyContext, DesignContext(submission))  # trials ask for draws and workers
    run = functools.partial(verify.run_trial, context)
    if jobs > 1:
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            done = pool.map(run, planned)
            rows += [_told(row, on_row) for row in done]
    else:
        rows += [_told(run(trial), on_row) for trial in planned]
    return verify.compose(design, verify.repeated(rows) if only is None else rows, [], arms)


def _told(row: Row, on_row: Callable[[Row], None] | None) -> Row:
    if on_row is not None:
        on_row(row)
    return row


TESTS = (*verify.ONE_RUN_TESTS, *verify.DRAWN_TESTS, *verify.SHELF_TESTS, metrics.REPEAT)


@dataclass
class Options:
    """Runs a submission's battery as the verifier would, on published draws.

    Example: rle dev f08/mobile-base --submission DIR --arm ur5e --only static
    """

    submission: Path
    """Folder with robot.xml and, for the shelf trials, controller.py."""
    arm: str | None = None
    """One of the arms; default: all three, the worst decides."""
    only: str | None = None
    """One test: static, testB ... testE, shelf-1kg, shelf-2kg, equilibrium, mecanum, reach."""
    jobs: int = 1
    """Parallel processes."""
    pictures: Path | None = None
    """Folder for pictures of the design."""
    view: bool = False
    """Open the composed robot in MuJoCo's viewer instead (needs a display)."""
    json: bool = False
    """Print the whole result as JSON."""


def main(args: list[str], task_id: str) -> int:
    """What `rle dev TASK` runs with the rest of its command line; returns the exit code."""
    given = tyro.cli(Options, prog=f"rle dev {task_id}", args=args)
    if not given.submission.is_dir():
        raise UserError(f"--submission {given.submission} is no folder; it needs {spec.ROBOT_XML}")
    if given.jobs < 1:
        raise UserError(f"--jobs {given.jobs}: at least 1 is needed")
    if given.only is not None and given.only not in TESTS:
        raise UnknownName("test", given.only, TESTS)
    arms = spec.ARM_NAMES if given.arm is None else (task.find_arm(given.arm).name,)
    design = task.load_chassis(given.submission / spec.ROBOT_XML)
    if given.view:
        return _view(design, arms[0])
    if given.pictures is not None:
        folder = output_folder(given.pictures, "--pictures")
        pictures.write_pictures(design, folder, arms)
    show = (lambda row: None) if given.json else _print_row
    result = evaluate_design(given.submission, arms, given.only, show, given.jobs)
    if given.json:
        print(msgspec.json.format(msgspec.json.encode(result)).decode())  # noqa: T201
        return 0
    _print_result(result, given.only)
    return 0


def _view(design: chassis.Chassis, arm: str) -> int:
    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ):
        raise UserError("--view needs a display; `--pictures FOLDER` draws without one")
    import mujoco.viewer

    robot = shelf.make_robot(design, task.find_arm(arm), spec.SHELF_PAYLOADS_KG[0])
    mujoco.viewer.launch(robot.model, robot.stowed(np.array(spec.SHELF_START_M)))
    return 0


def _print_row(row: Row) -> None:
    values = ", ".join(f"{k} {v:.3g}" for k, v in row.metrics.items() if v is not None)
    print(f"{row.group:22s} {row.score:5.3f} {row.ended:14s} {values}", flush=True)  # noqa: T201


def _print_result(result: FamilyResult, only: str | None) -> None:
    lines = [f"! {flag}" for flag in result.flags]
    if only is None:
        limiting = result.extra["limiting_arm"]
        for cp, weight in spec.WEIGHTS.items():
            credit = result.metrics[f"cp_{cp.replace('.', '_')}"]
            lines.append(f"{cp:24s} {credit:5.3f} x {weight:5.3f}  {limiting[cp]}")
        lines.append(f"reward {result.score:.4f} (before the gate {result.raw_total:.4f})")
    print("\n".join(lines))  # noqa: T201


class Preview(gymnasium.Env):
    """A shelf trial to step by hand: actions are those of the submitted controller.

    Args:
        robot: From `shelf.make_robot`.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(self, robot: scene.Robot) -> None:
        self.model, self._robot = robot.model, robot
        low, high = self.model.actuator_ctrlrange.T
        box = gymnasium.spaces.Box
        self.action_space = box(low, high, dtype=np.float64)
        sizes = {"qpos": self.model.nq, "qvel": self.model.nv, "ctrl": self.model.nu, "target": 3}
        self.observation_space = gymnasium.spaces.Dict(
            {k: box(-np.inf, np.inf, (n,), np.float64) for k, n in sizes.items()}
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        index = int(self.np_random.integers(len(spec.TARGETS_M)))
        self._target = np.array(spec.TARGETS_M[index])
        self._data = self._robot.stowed(np.array(spec.SHELF_START_M))
        self._trial = shelf.ShelfTrial(index, self._robot.payload_kg)
        self._support, self._hold = shelf.Support(), shelf.Hold()
        return self._observe(), {"claims": self._claims(np.inf), "target_index": index}

    def step(self, action: np.ndarray):
        low, high = self.model.actuator_ctrlrange.T
        self._data.ctrl[:] = np.clip(shelf.checked_action(action, self.model.nu), low, high)
        now = shelf.advance(self._robot, self._data, self._trial, self._support, self._target)
        solved = self._hold.tick(float(self._data.time), now.is_good)
        failed = self._trial.ended != "horizon"
        late = self._data.time >= spec.SHELF_TRIAL_S - 1e-9
        claims = self._claims(now.error_m) | {"solved": solved}
        return self._observe(), float(solved), solved or failed, late, {"claims": claims}

    def _observe(self) -> dict[str, np.ndarray]:
        data = self._data
        return {
            "qpos": data.qpos.copy(), "qvel": data.qvel.copy(), "ctrl": data.ctrl.copy(),
            "target": self._target.copy(),
        }  # fmt: skip

    def _claims(self, error_m: float) -> dict[str, bool]:
        return {
            "at_target": bool(error_m <= spec.SHELF_TOLERANCE_M),
            "solved": False,
            **{k: self._trial.ended == k for k in ("shelf_contact", "tilt", "wheels_lifted")},
        }
