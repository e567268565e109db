"""f03/hidden-com: lifts each box by its handle and reads from the `top` picture how it leans.

    python -m train_baselines.oracles.f03_hidden_com [--salt TEXT]

Only what every agent has: proprioception, one RGB camera, its pose from `task_info`.
"""

import numpy as np

from families.f03_tabletop import spec as s
from rle.service.client import Client
from train_baselines.oracles.f03_driver import CLOSED, NEUTRAL_YAW_RAD, OPEN, Arm, down, run

GRIP_BELOW_BAR_M = 0.003
"""Grip site below the bar's centre; gripping higher slips. Source: measured."""
LIFT_M = 0.20
LIFT_STEPS = 30
SETTLE_STEPS = 80
BROWN_RATIO = 0.74
"""Blue over red below which a pixel is the box. Source: the box's paint has 0.48, the table's 0.81."""
UPRIGHT_EDGE = 0.98
"""Right edge of a box that leans neither way, over its half length: cos of a small lean."""
CLEAR_M = 0.045
"""The hand hides everything nearer to the grip site than this along x."""


def lean(picture: np.ndarray, focal_px: float, camera_m: np.ndarray, site_m: np.ndarray):
    """Where the box reaches relative to its handle, seen from above.

    Args:
        picture: `top_image`, x to the right and y up.
        focal_px: Focal length at this picture's size.
        camera_m: Camera position; it looks straight down.
        site_m: Grip site.

    Returns:
        Rightmost brown point, and middle of the brown range along y, both from the site, m.
    """
    rgb = picture.astype(float)
    brown = (rgb[..., 2] < BROWN_RATIO * rgb[..., 0]) & (rgb[..., 0] > 40.0)
    lid_z = site_m[2] - (s.BOX.bar_z_m - s.BOX.half_m[2]) + GRIP_BELOW_BAR_M
    scale = (camera_m[2] - lid_z) / focal_px
    rows, columns = np.nonzero(brown)
    centre = picture.shape[0] / 2.0
    x = camera_m[0] + (columns + 0.5 - centre) * scale - site_m[0]
    y = camera_m[1] - (rows + 0.5 - centre) * scale - site_m[1]
    near = (np.abs(x) < 0.2) & (np.abs(y) < 0.2) & (x > CLEAR_M)
    x, y = x[near], y[near]
    low, high = np.percentile(y, (2, 98))
    return float(np.percentile(x, 99)), float(low + high) / 2.0


def solve(sim: Client) -> None:
    """Lifts, looks and answers for each box."""
    camera = next(c for c in sim.task_info()["calibration"]["cameras"] if c["name"] == "top")
    focal, eye = camera["focal_px_at_512"], np.array(camera["position_m"])
    hand = down(NEUTRAL_YAW_RAD)
    x, y, z = s.BOX.start_m
    bar = np.array([x, y, z + s.BOX.bar_z_m - GRIP_BELOW_BAR_M])
    for trial in range(s.BOXES):
        arm = Arm(sim, action_dim=7)
        arm.grip(OPEN, 6)
        arm.go(bar + [0.0, 0.0, 0.08], hand, steps=60, tolerance_m=0.004)
        arm.go(bar, hand, steps=60, tolerance_m=0.0015)
        arm.grip(CLOSED, 15)
        for k in range(1, LIFT_STEPS + 1):
            arm.go(bar + [0.0, 0.0, LIFT_M * k / LIFT_STEPS], hand, steps=1, tolerance_m=0.0)
        # Held by going there again and again: a pose that is only kept sinks under the box's weight.
        for _ in range(SETTLE_STEPS):
            arm.go(bar + [0.0, 0.0, LIFT_M], hand, steps=1, tolerance_m=0.0)
        seen = sim.observe(("top",))
        right, middle = lean(seen["top_image"], focal, eye, seen["eef_pos"])
        # The ballast's side goes down, the lid swings to the other side below the handle.
        sx = 1 if right < UPRIGHT_EDGE * s.BOX.half_m[0] else -1
        sy = -1 if middle > 0.0 else 1
        answer = next(q for q, signs in s.QUADRANTS.items() if signs == (sx, sy))
        print(f"box {trial}: right edge {1000 * right:.1f} mm, middle {1000 * middle:.1f} mm: "
              f"{answer}, {sim.status.steps_used} steps")  # fmt: skip
        sim.call("submit", quadrant=answer, trial=trial)


if __name__ == "__main__":
    run("f03/hidden-com", solve)
