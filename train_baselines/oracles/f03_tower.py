"""f03/tower: stacks six pieces with the mobile robot. Privileged poses, metered actions.

    python -m train_baselines.oracles.f03_tower [--salt TEXT]
"""

import argparse
import json

from families.f03_tabletop import spec as s
from rle.service import embedded
from rle.service.client import Client
from rle.service.course import Profile
from train_baselines.oracles.f03_driver import Arm

SITE_X_M = -0.18
"""Tower site: this x, at the base's y. Source: measured reach."""
ORDER = ("cube_a", "cyl_b", "cube_b", "cyl_a", "cube_c", "plate_b")
"""Bottom to top."""
GRIP_BELOW_TOP_M = 0.020
"""Cylinders are gripped this far below their top."""
TRAVEL_M = 0.10
"""Height of a carried piece above the stack."""


def solve(sim: Client, scales: tuple[float, ...], order: tuple[str, ...] = ORDER) -> None:
    """Builds the column and finishes the attempt.

    Args:
        sim: Client of a validation session.
        scales: Drawn scale of each piece.
        order: Pieces, bottom to top.
    """
    arm = Arm(sim)
    sizes = {p.name: (p, scale) for p, scale in zip(s.PIECES, scales, strict=True)}
    site_y = float(sim.observe()["base_pos"][1])
    top = s.TABLE.top_z_m
    for name in order:
        piece, scale = sizes[name]
        half = scale * piece.rest_z_m
        above = half - GRIP_BELOW_TOP_M if piece.shape == "cylinder" else 0.0
        y = float(arm.see()[name][1])
        arm.drive_to(y_m=y, tolerance_m=0.12)
        arm.pick(name, grip_above_m=max(0.0, above))
        arm.lift(top + TRAVEL_M + 2 * half)
        arm.drive_to(y_m=site_y)
        arm.place(name, SITE_X_M, site_y, top, half)
        state = arm.see()
        top = float(state[name][2]) + half
        print(f"{name}: at {state[name][:3].round(4)}, top {top - s.TABLE.top_z_m:.4f} m, "
              f"{sim.status.steps_used} steps")  # fmt: skip
    sim.finish()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--salt", default="practice")
    args = parser.parse_args()
    profile = Profile(task="f03/tower", layout="practice", sync=False, validation=True)
    spec = s.SESSIONS["f03/tower"]
    with embedded.open(spec, profile=profile, salt=args.salt.encode()) as sim:
        solve(sim, tuple(sim.privileged_state()["scales"]))
        print(json.dumps(sim.session.trials()[-1].evidence, indent=1))


if __name__ == "__main__":
    main()
