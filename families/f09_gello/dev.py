"""The development side: the battery on public devices, in words and pictures, and a device to step.

Nothing here is isolated and nothing is hidden: a submission runs in this process, on seeds that everyone knows.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import mujoco
import numpy as np

from families.f09_gello import metrics, scene, software, task
from families.f09_gello.devices.draws import Streams, draw
from families.f09_gello.devices.measure import measure
from families.f09_gello.devices.rows import absent_row, battery_row, checkpoints, finding_text
from families.f09_gello.mechanism.record import Lead, Record
from families.f09_gello.scene import stock_xml
from families.f09_gello.spec import ARM_NAMES, ARMS, DESIGN_SEEDS, MARKS, PHYSICS, PROTOCOL, SERVO
from rle import seeds
from rle.errors import UnknownName, UserError
from rle.paths import assets_dir, output_folder
from rle.report import Row
from rle.sim import guard
from rle.verify_api import TrialFault

# ------------------------------------------------------------------------------ the public battery


def design_streams(arm: str, seed: int) -> Streams:
    """Streams of a design seed; public, so that anybody can draw the same devices."""
    key = seeds.trial_key("f09", "gello", "design", seed)
    return lambda purpose, *ids: seeds.stream(key, purpose, arm, *ids)


def evaluate_arm(folder: Path, arm: str, streams: Streams, row_id: str) -> Row:
    """One arm's battery, in this process, through the functions that are scored.

    Args:
        folder: The arm's folder, with `lead.xml` and `trim.py`; trusted.
        arm: Name of the arm.
        streams: Where the devices and poses are drawn from.
        row_id: Id of the row.
    """
    if not (folder / "lead.xml").is_file():
        return absent_row(row_id, arm)
    started_s = time.monotonic()
    notes: list[str] = []

    def run(model_xml: str, use: Callable[[software.Caller], software.Answers]) -> software.Answers:
        try:
            worker = software.LocalTrim(folder / "trim.py", model_xml)
        except TrialFault as fault:
            said = f"{fault.detail} ({fault.__cause__})"
            if said not in notes:
                notes.append(said)
            return software.ABSENT
        return use(worker)

    lead = task.load_lead(folder, arm)
    row = battery_row(row_id, lead, measure(lead, draw(arm, streams), run))
    events = [*row.events, *((0.0, note) for note in notes)]
    return msgspec.structs.replace(row, events=events, wall_s=time.monotonic() - started_s)


def evaluate(
    submission: Path,
    arms: Sequence[str] = ARM_NAMES,
    design_seeds: Sequence[int] = DESIGN_SEEDS,
    out: Path | None = None,
    on_row: Callable[[Row], None] | None = None,
) -> list[Row]:
    """What `rle dev f09/gello --submission DIR` runs.

    Args:
        submission: Folder with a folder per arm.
        arms: Which arms.
        design_seeds: Public seeds; each draws its own three copies, reference arm and poses.
        out: Where pictures, videos and `index.html` of the first seed go; None: none are made.
        on_row: Told of every finished row.

    Raises:
        UserError: The folder holds none of the arms.
        UnknownName: No such arm.
    """
    for arm in arms:
        if arm not in ARM_NAMES:
            raise UnknownName("arm", arm, ARM_NAMES)
    if not any((submission / arm / "lead.xml").is_file() for arm in arms):
        expected = ", ".join(f"{arm}/lead.xml" for arm in arms)
        raise UserError(
            f"{submission} holds none of {expected}; copy starter/ and change it",
            code="file.missing",
        )
    rows = []
    for seed in design_seeds:
        for arm in arms:
            row = evaluate_arm(
                submission / arm, arm, design_streams(arm, seed), f"seed{seed}-{arm}"
            )
            rows.append(row)
            if on_row is not None:
                on_row(row)
    if out is not None:
        from families.f09_gello import pictures  # needs a renderer, which a score does not

        leads = [
            task.load_lead(submission / a, a)
            for a in arms
            if (submission / a / "lead.xml").is_file()
        ]
        pictures.media(leads, rows[: len(arms)], out, feedforward_of(submission))
    return rows


def feedforward_of(submission: Path) -> Callable[[Lead, np.ndarray], np.ndarray]:
    """Nominal feedforward of a trusted submission; zeros where it has none."""

    def feedforward(lead: Lead, poses: np.ndarray) -> np.ndarray:
        arm = lead.record.arm
        try:
            worker = software.LocalTrim(
                submission / arm / "trim.py", scene.nominal_xml(lead.record)
            )
            worker.call("make_trim")
            return np.array([worker.call("nominal", pose)[0] for pose in poses])
        except TrialFault:
            return np.zeros_like(poses)

    return feedforward


def summary(rows: Sequence[Row]) -> str:
    """The rows as text: per row every checkpoint with its marks and credit, findings, and the mean."""
    lines = []
    for row in rows:
        lines.append(f"{row.id}: {100 * row.score:.1f}")
        for c in checkpoints(row) if row.ended != "no_submission" else []:
            value = "not measured" if c["value"] is None else f"{c['value']:.4g} {c['unit']}"
            marks = (
                ""
                if c["zero"] is None
                else f"(0 at {c['zero']:g}, bar {c['bar']:g}, best {c['best']:g})"
            )
            lines.append(f"  {c['id']:<4}{c['credit']:5.2f}  {value:<16} {marks}")
        lines += [f"  {text}" for _, text in row.events]
    by_arm = {arm: [r.score for r in rows if r.group == arm] for arm in ARM_NAMES}
    mean = metrics.score({arm: sum(s) / len(s) for arm, s in by_arm.items() if s})
    lines.append(f"mean over the three arms (an arm that was not run counts 0): {100 * mean:.1f}")
    return "\n".join(lines)


def write_starter(folder: Path) -> list[Path]:
    """Copies the starter (three stock arms, software without effect). Never overwrites.

    Raises:
        UserError: A file is already there.
    """
    written = []
    for arm in ARM_NAMES:
        for name in ("lead.xml", "trim.py"):
            target = folder / arm / name
            if target.exists():
                raise UserError(f"{target} exists; choose an empty folder", code="starter.exists")
            output_folder(target.parent, "--starter")
            text = (
                stock_xml(arm)
                if name == "lead.xml"
                else (assets_dir() / "gello" / arm / name).read_text()
            )
            target.write_text(text)
            written.append(target)
    return written


def read_findings(submission: Path, arms: Sequence[str]) -> list[str]:
    """What reading alone says of each `lead.xml`, a line each: told before minutes of measuring."""
    lines = []
    for arm in arms:
        if (submission / arm / "lead.xml").is_file():
            lead = task.load_lead(submission / arm, arm)
            lines += [f"{arm}: {finding_text(finding)}" for finding in lead.findings]
            parts, springs = len(lead.record.parts), len(lead.record.springs)
            lines.append(f"{arm}: {springs} springs and {parts} added parts are used")
    return lines


def _tell(row: Row) -> None:
    sys.stderr.write(f"{row.id}: {100 * row.score:.1f}\n")


def main(argv: Sequence[str], _task_id: str = "f09/gello") -> int:
    """`rle dev f09/gello`: writes the starter, or measures a submission on public devices.

    Args:
        argv: What follows the task on the command line.

    Returns:
        Exit code.
    """
    parser = argparse.ArgumentParser(
        prog="rle dev f09/gello", description="Writes the starter, or measures a submission on public devices.",
        epilog="Examples: rle dev f09/gello --starter work    rle dev f09/gello --submission work --arm ur5e --seed 101",
    )  # fmt: skip
    parser.add_argument(
        "--starter", type=Path, help="write the three stock arms into this folder and stop"
    )
    parser.add_argument("--submission", type=Path, help="folder with franka/, ur5e/, xarm7/")
    parser.add_argument(
        "--arm", action="append", choices=ARM_NAMES, help="only this arm; may be repeated"
    )
    parser.add_argument(
        "--seed", type=int, action="append", help=f"public seed; default {DESIGN_SEEDS}"
    )
    parser.add_argument("--out", type=Path, help="folder for pictures, videos and index.html")
    given = parser.parse_args(argv)
    if given.starter is not None:
        sys.stdout.write("".join(f"wrote {path}\n" for path in write_starter(given.starter)))
        return 0
    if given.submission is None:
        raise UserError(
            "give --submission DIR, or --starter DIR to begin; see `rle dev f09/gello -- --help`"
        )
    arms, design_seeds = given.arm or ARM_NAMES, given.seed or DESIGN_SEEDS
    if given.out is not None:
        output_folder(given.out, "--out")
    sys.stderr.write("\n".join(read_findings(given.submission, arms)) + "\n")
    rows = evaluate(given.submission, arms, design_seeds, given.out, on_row=_tell)
    sys.stdout.write(summary(rows) + "\n")
    return 0


# ----------------------------------------------------------------------------------- the preview


FALLEN_M = max(marks["H2"].bar for marks in MARKS.values()) * 10
"""Displacement at which the preview says that the arm fell: far beyond any bar of a hold."""


class Preview(gymnasium.Env):
    """One stock lead arm under its servos, 50 times a second: an action is a feedforward torque.

    Observation: pose (rad), rates (rad/s), feedforward in force (N m), each shape (nv,). Reward: minus the
    displacement of the end effector (m). `reset(seed)` draws the copy: masses and payload.

    Args:
        arm: Which arm.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  (Gymnasium's own declaration)
    step_s = 0.02

    def __init__(self, arm: str = ARM_NAMES[0]) -> None:
        self.arm = ARMS[arm]
        self.lead = Lead(record=Record(arm=arm))
        self.model = task.compose(self.lead)
        nv, limit = self.arm.nv, SERVO.limit_n_m
        self.action_space = gymnasium.spaces.Box(-limit, limit, (nv,), np.float64)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3 * nv,), np.float64)

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict]:
        """Starts at rest at home with a newly drawn copy."""
        super().reset(seed=seed)
        scale, payload_kg = task.sample_device(self.arm.name, self.np_random)
        self.model = task.compose(self.lead, payload_kg, scale)
        self.data = mujoco.MjData(self.model)
        self.data.qpos[:] = self.arm.home_rad
        mujoco.mj_forward(self.model, self.data)
        self._start = self._hand().copy()
        self._ff = np.zeros(self.arm.nv)
        return self._observation(), self._info()

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Holds the feedforward for one control period."""
        self._ff = np.clip(np.asarray(action, dtype=float), -SERVO.limit_n_m, SERVO.limit_n_m)
        for _ in range(round(self.step_s / PHYSICS.timestep_s)):
            error = SERVO.kp_n_m_per_rad * (np.array(self.arm.home_rad) - self.data.qpos)
            torque = error - SERVO.kv_n_m_s_per_rad * self.data.qvel + self._ff
            self.data.qfrc_applied[:] = np.clip(torque, -SERVO.limit_n_m, SERVO.limit_n_m)
            guard.step(self.model, self.data, "preview")
        mujoco.mj_kinematics(self.model, self.data)
        over = self.data.time >= PROTOCOL.hold_s - 1e-9
        return self._observation(), -self._moved_m(), False, over, self._info()

    def _hand(self) -> np.ndarray:
        return self.data.site_xpos[self.model.site("lead_ee_site").id]

    def _moved_m(self) -> float:
        return float(np.linalg.norm(self._hand() - self._start))

    def _observation(self) -> np.ndarray:
        return np.concatenate([self.data.qpos, self.data.qvel, self._ff])

    def _info(self) -> dict[str, Any]:
        fallen = self._moved_m() > FALLEN_M
        return {"claims": {"fallen": fallen}, "displacement_m": self._moved_m()}
