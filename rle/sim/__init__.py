"""What all families share of MuJoCo: guards, rendering, video, contact forces, named lookups.

Importing this package installs the warning handler once, so that a warning has a name and no log file
is left in the working folder.
"""

from rle.sim.guard import install_warning_handler

install_warning_handler()
