"""f08: speed of the scored loops as ratios in one run, and the peak memory of one process.

python benchmarks/f08.py
"""

import resource
import time

import mujoco
import numpy as np

from families.f08_mobile_base import battery, chassis, scene, shelf, spec, task
from train_baselines.oracles import f08_frames

PANDA = spec.ARMS[0]
REPEATS = 5


def cpu_s(*acts) -> tuple[float, ...]:
    """Least CPU time of each act; they take turns, so that other work on the machine meets them alike."""
    best = [float("inf")] * len(acts)
    for _ in range(REPEATS):
        for k, act in enumerate(acts):
            start = time.process_time()
            act()
            best[k] = min(best[k], time.process_time() - start)
    return tuple(best)


def bare_steps(robot: scene.Robot, program: battery.Program) -> None:
    """The same commands without contact reading."""
    data = robot.stowed()
    speeds = [robot.wheel_speeds(twist) for twist in program.twist]
    for wheels, pose in zip(speeds, program.arm_rad):
        data.ctrl[robot.wheel_ctrl], data.ctrl[robot.arm_ctrl] = wheels, pose
        mujoco.mj_step(robot.model, data)


def main() -> None:
    xml = f08_frames.to_xml(f08_frames.ORACLE).encode()
    design = chassis.inspect(chassis.read_text(xml))
    rng = np.random.default_rng(0)
    robot, program = task.prepare(design, PANDA, "testB", rng)
    bare, physics, scored = cpu_s(
        lambda: bare_steps(robot, program),
        lambda: battery.simulate(robot, program),
        lambda: task.measure_dynamic(battery.simulate(robot, program)),
    )
    n = len(program.twist)

    class Hold:
        def reset(self, context, seed):
            self.command = context["ctrl"].copy()

        def act(self, obs):
            return self.command

    stand = shelf.make_robot(design, PANDA, 1.0)
    shelf.TICKS = 500  # ten of the thirty seconds
    seconds = shelf.TICKS / spec.CONTROL_HZ
    still = battery.Program(
        "still", np.zeros((battery.steps(seconds), 3)),
        np.tile(PANDA.stow_rad, (battery.steps(seconds), 1)), shelf.SHELF, 1.0,
    )  # fmt: skip
    bare_shelf, trial = cpu_s(
        lambda: bare_steps(stand, still), lambda: shelf.run_trial(stand, Hold(), 0)
    )

    task.static_margin(design, "panda")
    data = robot.stowed()

    def kinematics() -> None:
        for _ in range(100):
            mujoco.mj_kinematics(robot.model, data)
            mujoco.mj_comPos(robot.model, data)

    hundred, margin, composition = cpu_s(
        kinematics,
        lambda: task.static_margin(design, "panda"),
        lambda: scene.compose(design, PANDA, 2.0),
    )
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = (
        ("scenario loop, recorded, margins not yet read / bare mj_step", physics / bare, 1.15),
        ("scenario loop with margins / bare mj_step", scored / bare, 4.0),
        ("shelf loop without controller / bare mj_step", trial / bare_shelf, 3.5),
        ("static_margin, 36 azimuths / one kinematics", 100 * margin / hundred, 40.0),
        ("composition of one model, s", composition, 0.5),
        ("peak memory, MiB", peak_mib, 400.0),
    )
    print(f"bare: {n / bare:.0f} steps/s; scenario loop: {n / scored:.0f} steps/s (CPU time)")
    for name, value, limit in rows:
        print(f"{name:62s} {value:8.2f}   at most {limit:g}{'' if value <= limit else '   MISSED'}")


if __name__ == "__main__":
    main()
