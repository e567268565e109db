"""RLE-Bench: an exam for coding agents as robot-learning engineers. Importing `rle` loads no simulator.

It chooses MuJoCo's GL backend, because that must be done before anything imports MuJoCo.
"""

import os
import sys

if sys.platform == "linux" and "MUJOCO_GL" not in os.environ:
    os.environ["MUJOCO_GL"] = "egl"  # headless by default; `rle doctor` names the alternative

__version__ = "1.0.0"
