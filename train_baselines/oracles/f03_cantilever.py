"""f03/cantilever: three blocks in a shortened harmonic stack over the robot-side table edge.

python -m train_baselines.oracles.f03_cantilever [--salt TEXT]
"""

import numpy as np

from families.f03_tabletop import spec as s
from rle.service.client import Client
from train_baselines.oracles.f03_driver import Arm, GraspFailed, hand_yaw_across, run

FACTOR = 0.92
"""Share of the harmonic overhangs; 1 would stand on the edge of balance."""
BASE_X_M = -0.82
"""Base position for building: from the start the arm meets a joint limit. Source: measured."""
SITE_Y_M = 0.12
"""Away from every block's start."""
TRIES = 3


def centres_m(blocks: int, factor: float) -> list[float]:
    """Centre of each block beyond the table edge, bottom to top: c_0 = f L/(2n) - L/2, then + f L/(2k).

    In a harmonic stack of n blocks the k-th from the top reaches L/(2k) past the one below.
    """
    length = s.BLOCK_LENGTH_M
    centre = factor * length / (2 * blocks) - length / 2
    out = [centre]
    for k in range(blocks - 1, 0, -1):
        centre += factor * length / (2 * k)
        out.append(centre)
    return out


def solve(sim: Client) -> None:
    """Builds the stack and finishes the attempt."""
    arm = Arm(sim)
    start_x = float(sim.observe()["base_pos"][0])
    edge = -s.TABLE.half_m[0]
    half = s.BLOCK_HALF_M[2]
    for level, beyond in enumerate(centres_m(3, FACTOR)):
        name = f"block_{level}"
        for attempt in range(TRIES):
            try:
                arm.drive_to(x_m=start_x, y_m=float(arm.see()[name][1]), tolerance_m=0.05)
                arm.pick(name, yaw_rad=hand_yaw_across(arm.see()[name]))
                break
            except GraspFailed as failure:
                print(f"try {attempt + 1}: {failure}")
        arm.lift(s.TABLE.top_z_m + 0.20)
        arm.drive_to(x_m=BASE_X_M, y_m=SITE_Y_M)
        bottom = s.TABLE.top_z_m + 2 * half * level
        arm.place(name, edge - beyond, SITE_Y_M, bottom, half)
        state = arm.see()
        print(f"{name}: at {np.round(state[name][:3], 4)}, {sim.status.steps_used} steps")
    sim.finish()


if __name__ == "__main__":
    run("f03/cantilever", solve)
