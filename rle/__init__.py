"""RLE-Bench: an exam for coding agents as robot-learning engineers. Importing `rle` loads no simulator."""

import os
import sys

if sys.platform == "linux" and "MUJOCO_GL" not in os.environ:
    # Headless by default. MuJoCo reads this at its own import, which import order places before `rle.sim`.
    os.environ["MUJOCO_GL"] = "egl"

__version__ = "1.0.0"
