"""f03/tower: stacks seven pieces with the mobile robot. Privileged poses, metered actions.

python -m train_baselines.oracles.f03_tower [--salt TEXT]
"""

from families.f03_tabletop import spec as s
from rle.service.client import Client
from train_baselines.oracles.f03_driver import Arm, GraspFailed, run

SITE_M = (-0.18, 0.30)
"""Tower site, x and y: beside the field that the pieces start in. The open hand is 0.2 m wide, and with a
site inside the field it knocked the stack over while it picked a piece beside it (measured). x: reach."""
ORDER = ("cube_a", "cyl_b", "cube_b", "cyl_a", "cube_c", "plate_a", "plate_b")
"""Bottom to top."""
GRIP_BELOW_TOP_M = 0.020
"""Cylinders are gripped this far below their top."""
TRIES = 3
TRAVEL_M = 0.10
"""Height of a carried piece above the stack."""


def solve(sim: Client, order: tuple[str, ...] = ORDER) -> None:
    """Builds the column and finishes the attempt.

    Args:
        sim: Client of a validation session.
        order: Pieces, bottom to top.
    """
    arm = Arm(sim)
    scales = sim.privileged_state()["scales"]
    sizes = {p.name: (p, scale) for p, scale in zip(s.PIECES, scales, strict=True)}
    site_x, site_y = SITE_M
    top = s.TABLE.top_z_m
    for name in order:
        piece, scale = sizes[name]
        half = scale * piece.rest_z_m
        above = half - GRIP_BELOW_TOP_M if piece.shape == "cylinder" else 0.0
        for attempt in range(TRIES):
            try:
                arm.drive_to(y_m=float(arm.see()[name][1]), tolerance_m=0.12)
                arm.pick(name, grip_above_m=max(0.0, above))
                break
            except GraspFailed as failure:
                print(f"try {attempt + 1}: {failure}")
        arm.lift(top + TRAVEL_M + 2 * half)
        arm.drive_to(y_m=site_y)
        arm.place(name, site_x, site_y, top, half)
        state = arm.see()
        top = float(state[name][2]) + half
        print(f"{name}: at {state[name][:3].round(4)}, top {top - s.TABLE.top_z_m:.4f} m, "
              f"{sim.status.steps_used} steps")  # fmt: skip
    sim.finish()


if __name__ == "__main__":
    run("f03/tower", solve)
