"""f03/balance: three against three, then a swap that tells the heavy one apart; it goes on the mat.

    python -m train_baselines.oracles.f03_balance [--salt TEXT]

Cube poses are privileged; the tilt is read from the observation that every agent has.
"""

import numpy as np

from families.f03_tabletop import spec as s
from rle.service.client import Client
from train_baselines.oracles.f03_driver import Arm, GraspFailed, run

BASE_X_M = -0.50
"""Base position for the pans. Source: reach."""
SLOTS_X_M = (-0.07, 0.0, 0.07)
"""Places on a pan, in a row across the closing direction of the hand."""
EQUAL_M = 0.008
"""Height difference of the pans that counts as level. Source: one cube's difference tilts by 0.07 rad,
which is 35 mm."""
REST_STEPS = 120
TRIES = 3
SPARE_M = ((-0.16, 0.42), (-0.08, 0.42))
"""Free table places for cubes that are taken off, midway between the pans: the open hand is 0.2 m wide and, nearer
to a pan, swept a cube off it (measured)."""


class Scale:
    """The balance as a tool: puts cubes into slots and weighs."""

    def __init__(self, sim: Client) -> None:
        self.sim = sim
        self.arm = Arm(sim)
        b = s.BEAM
        plate_z = s.TABLE.top_z_m + b.pivot_z_m - b.pan_drop_m + b.plate_thickness_m / 2
        self.slots = {
            (side, k): np.array(
                [b.base_m[0] + dx, b.base_m[1] + (2 * side - 1) * b.beam_half_m[1], plate_z]
            )
            for side in range(2)
            for k, dx in enumerate(SLOTS_X_M)
        }

    def put(self, cube: int, spot: np.ndarray) -> None:
        """Carries a cube to a spot (x, y, z of the surface)."""
        name, arm = f"cube_{cube}", self.arm
        for attempt in range(TRIES):
            try:
                arm.drive_to(x_m=BASE_X_M, y_m=float(arm.see()[name][1]), tolerance_m=0.05)
                arm.pick(name)
                break
            except GraspFailed as failure:
                print(f"try {attempt + 1}: {failure}")
        arm.lift(s.TABLE.top_z_m + 0.30)
        arm.drive_to(x_m=BASE_X_M, y_m=float(spot[1]), tolerance_m=0.05)
        here, hand = arm.pose()
        arm.go((spot[0], spot[1], here[2]), hand, steps=60, tolerance_m=0.01)
        arm.place(name, float(spot[0]), float(spot[1]), float(spot[2]), s.CUBE_HALF_M)
        at = arm.see()[name][:3]
        print(f"{name}: at {np.round(at, 3)}, {self.sim.status.steps_used} steps")

    def weigh(self) -> int:
        """-1: the low pan is heavier, 0: level, 1: the high pan is heavier."""
        here, hand = self.arm.pose()
        self.arm.go((here[0] - 0.15, here[1], here[2] + 0.05), hand, steps=40, tolerance_m=0.02)
        self.sim.call("beam", locked=False)
        for _ in range(REST_STEPS // 10):
            self.arm.wait(10)
            if self.sim.observe()["pan_at_rest"]:
                break
        low, high = self.sim.observe()["pan_positions"][:, 2]
        self.sim.call("beam", locked=True)
        self.arm.wait(s.BEAM.lock_steps + 5)
        tilt = float(high - low)
        print(f"pans differ by {1000 * tilt:.1f} mm")
        return 0 if abs(tilt) < EQUAL_M else (-1 if tilt > 0 else 1)


def solve(sim: Client) -> None:
    """Finds the heavy cube in two weighings and puts it on the mat."""
    scale = Scale(sim)
    table = s.TABLE.top_z_m
    for cube in range(6):
        scale.put(cube, scale.slots[divmod(cube, 3)])
    first = scale.weigh()
    suspects = {-1: (0, 1, 2), 1: (3, 4, 5), 0: (6, 7, 8)}[first]
    spares = [np.array([x, y, table]) for x, y in SPARE_M]
    if first == 0:
        a, b, c = suspects
        for cube, slot, spare in ((0, (0, 0), 0), (3, (1, 0), 1)):
            scale.put(cube, spares[spare])
            scale.put((b, c)[spare], scale.slots[slot])
        second = scale.weigh()
        heavy = {-1: b, 1: c, 0: a}[second]
    else:
        side = 0 if first < 0 else 1
        a, b, c = suspects
        d, e, _ = (3, 4, 5) if side == 0 else (0, 1, 2)
        scale.put(a, spares[0])
        scale.put(d, spares[1])
        scale.put(b, scale.slots[(1 - side, 0)])
        scale.put(e, scale.slots[(side, 0)])
        second = scale.weigh()
        heavy = a if second == 0 else (c if (second < 0) == (side == 0) else b)
    print(f"heavy: cube_{heavy}")
    scale.put(heavy, np.array([*s.MAT.centre_m, table + 2 * s.MAT.half_m[2]]))
    sim.finish()


if __name__ == "__main__":
    run("f03/balance", solve)
