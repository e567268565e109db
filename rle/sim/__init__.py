"""What all families share of MuJoCo: guards, rendering, video, contact forces, named lookups.

Importing this package chooses the GL backend before MuJoCo is imported and installs the warning
handler once, so that a warning has a name and no log file is left in the working folder.
"""

import os
import sys

if sys.platform == "linux" and "MUJOCO_GL" not in os.environ:
    os.environ["MUJOCO_GL"] = "egl"  # headless by default; `rle doctor` names the alternative

from rle.sim.guard import install_warning_handler

install_warning_handler()
