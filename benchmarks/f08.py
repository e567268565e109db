"""f08: speed of the scored loops as ratios in one run, and the peak memory of one process.

python benchmarks/f08.py
"""

import dataclasses
import resource
import sys
from pathlib import Path

import mujoco
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import cpu_deciles_s  # noqa: E402
from families.f08_mobile_base import battery, chassis, scene, shelf, spec, task  # noqa: E402
from train_baselines.oracles import f08_frames  # noqa: E402

PANDA = spec.ARMS[0]
PIECE_S = 1.0
"""Length of a slice of test B: from the start of its drive."""
TICKS = 50
"""Control ticks of a slice of a shelf trial."""
MANY = 20
"""Calls in a slice of what takes a fraction of a millisecond."""


def bare_steps(robot: scene.Robot, program: battery.Program) -> None:
    """The same commands without contact reading."""
    data = robot.stowed()
    speeds = robot.wheel_speeds(program.twist)
    for wheels, pose in zip(speeds, program.arm_rad):
        data.ctrl[robot.wheel_ctrl], data.ctrl[robot.arm_ctrl] = wheels, pose
        mujoco.mj_step(robot.model, data)


class Hold:
    """A controller that costs nothing."""

    def reset(self, context, seed):
        self.command = context["ctrl"].copy()

    def act(self, obs):
        return self.command


def main() -> None:
    xml = f08_frames.to_xml(f08_frames.ORACLE).encode()
    design = chassis.inspect(chassis.read_text(xml))
    robot, program = task.prepare(design, PANDA, "testB", np.random.default_rng(0))
    begin, n = battery.steps(2.5), battery.steps(PIECE_S)
    drive = dataclasses.replace(
        program,
        twist=program.twist[begin : begin + n],
        arm_rad=np.tile(PANDA.stow_rad, (n, 1)),
    )
    bare, physics, scored = cpu_deciles_s(
        (
            lambda: bare_steps(robot, drive),
            lambda: battery.simulate(robot, drive),
            lambda: task.measure_dynamic(battery.simulate(robot, drive)),
        )
    )
    stand = shelf.make_robot(design, PANDA, 1.0)
    shelf.TICKS = TICKS
    n_still = battery.steps(TICKS / spec.CONTROL_HZ)
    still = dataclasses.replace(
        drive, twist=np.zeros((n_still, 3)), arm_rad=np.tile(PANDA.stow_rad, (n_still, 1))
    )
    bare_shelf, trial = cpu_deciles_s(
        (lambda: bare_steps(stand, still), lambda: shelf.run_trial(stand, Hold(), 0))
    )
    task.static_margin(design, "panda")
    data = robot.stowed()

    def kinematics() -> None:
        for _ in range(MANY):
            mujoco.mj_kinematics(robot.model, data)
            mujoco.mj_comPos(robot.model, data)

    def margins() -> None:
        for _ in range(MANY):
            task.static_margin(design, "panda")

    one, margin, composition = cpu_deciles_s(
        (kinematics, margins, lambda: scene.compose(design, PANDA, 2.0))
    )
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = (
        ("scenario loop, recorded, margins not yet read / bare mj_step", physics / bare, 1.4),
        ("scenario loop with margins / bare mj_step", scored / bare, 4.0),
        ("shelf loop without controller / bare mj_step", trial / bare_shelf, 3.5),
        ("static_margin, 36 azimuths / one kinematics", margin / one, 40.0),
        ("composition of one model, s", composition, 0.5),
        ("peak memory, MiB", peak_mib, 400.0),
    )
    print(f"bare: {n / bare:.0f} steps/s; scenario loop: {n / scored:.0f} steps/s (CPU time)")
    for name, value, limit in rows:
        print(f"{name:62s} {value:8.2f}   at most {limit:g}{'' if value <= limit else '   MISSED'}")


if __name__ == "__main__":
    main()
