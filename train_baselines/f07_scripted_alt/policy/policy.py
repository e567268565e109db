"""A policy without a model of the cell: taught postures, and the overhead colour picture to choose one.

It shows the interface and is a valid submission, not a good one. Each taught spot is a pixel of the
overhead picture with two postures, above the bin and down at its bottom. The spot that shows the most steel
and the least green is visited: down with the magnet on until something is felt, up, over to the nest, off.
"""

import numpy as np

# ((pixel u, v), joint angles high, joint angles low), rad.
TAUGHT = (
    (
        (250, 284),
        (-0.757, -0.209, -0.0, -2.055, -0.0, 1.847, 0.7),
        (-0.757, 0.092, -0.0, -2.408, -0.0, 2.499, 0.7),
    ),
    (
        (250, 240),
        (-0.644, -0.347, 0.0, -2.192, 0.0, 1.844, 0.7),
        (-0.644, -0.022, 0.0, -2.558, -0.0, 2.536, 0.7),
    ),
    (
        (250, 196),
        (-0.507, -0.467, 0.0, -2.296, -0.0, 1.829, 0.7),
        (-0.507, -0.123, -0.0, -2.68, -0.0, 2.557, 0.7),
    ),
    (
        (295, 284),
        (-0.669, -0.046, -0.0, -1.876, -0.0, 1.829, 0.7),
        (-0.669, 0.222, 0.0, -2.221, 0.0, 2.443, 0.7),
    ),
    (
        (295, 240),
        (-0.561, -0.17, 0.0, -2.015, -0.0, 1.845, 0.7),
        (-0.561, 0.123, -0.0, -2.365, -0.0, 2.487, 0.7),
    ),
    (
        (295, 196),
        (-0.435, -0.273, -0.0, -2.12, 0.0, 1.847, 0.7),
        (-0.435, 0.04, 0.0, -2.478, -0.0, 2.518, 0.7),
    ),
    (
        (345, 284),
        (-0.588, 0.161, 0.0, -1.615, -0.0, 1.776, 0.7),
        (-0.588, 0.384, 0.0, -1.972, -0.0, 2.356, 0.7),
    ),
    (
        (345, 240),
        (-0.487, 0.044, 0.0, -1.766, 0.0, 1.811, 0.7),
        (-0.487, 0.294, -0.0, -2.113, -0.0, 2.407, 0.7),
    ),
    (
        (345, 196),
        (-0.374, -0.047, 0.0, -1.877, -0.0, 1.83, 0.7),
        (-0.374, 0.221, -0.0, -2.222, -0.0, 2.444, 0.7),
    ),
    (
        (390, 284),
        (-0.53, 0.378, -0.0, -1.308, 0.0, 1.686, 0.7),
        (-0.53, 0.545, 0.0, -1.709, -0.0, 2.254, 0.7),
    ),
    (
        (390, 240),
        (-0.436, 0.254, -0.0, -1.488, -0.0, 1.742, 0.7),
        (-0.436, 0.455, 0.0, -1.858, 0.0, 2.313, 0.7),
    ),
    (
        (390, 196),
        (-0.332, 0.163, -0.0, -1.613, -0.0, 1.776, 0.7),
        (-0.332, 0.386, -0.0, -1.969, -0.0, 2.355, 0.7),
    ),
)
# Over the nest.
NEST_HIGH = (0.701, 0.082, 0.0, -1.718, -0.0, 1.801, 0.7)
NEST_LOW = (0.701, 0.24, 0.0, -2.037, -0.0, 2.277, 0.7)
ON, OFF = 255.0, 0.0
STEP_RAD, SLOW_RAD = 0.06, 0.02  # largest joint step per tick, free and close to the parts
FEEL_N = 6.0  # change of the axial force that means contact


class Policy:
    """Replays postures, one command per tick."""

    def reset(self, cell_spec, seed):
        self._rng = np.random.default_rng(seed)
        self._joints = np.array(cell_spec["arm_home"])
        self._picture, self._visits = np.zeros((480, 640, 3)), np.zeros(len(TAUGHT))
        self._script = self._work()

    def act(self, obs):
        self._obs = obs
        if obs["frame"]:
            self._picture = obs["overhead_rgb"].astype(float)
        return next(self._script)

    def _work(self):
        while True:
            spot = self._choose()
            self._visits[spot] += 1.0
            _, high, low = TAUGHT[spot]
            yield from self._move(high, OFF, STEP_RAD)
            rest = self._obs["ft"][2]
            for command in self._move(low, ON, SLOW_RAD):
                yield command
                if abs(self._obs["ft"][2] - rest) > FEEL_N:
                    break
            yield from self._move(high, ON, SLOW_RAD)
            yield from self._move(NEST_HIGH, ON, STEP_RAD)
            yield from self._move(NEST_LOW, ON, SLOW_RAD)
            for _ in range(10):
                yield self._command(OFF)
            yield from self._move(NEST_HIGH, OFF, STEP_RAD)

    def _choose(self):
        """Index of the taught spot with the most grey around its pixel, least visited first."""
        merit = self._rng.uniform(0.0, 5.0, len(TAUGHT)) - 20.0 * self._visits
        for i, ((u, v), _, _) in enumerate(TAUGHT):
            red, green, _ = self._picture[v - 12 : v + 13, u - 12 : u + 13].mean(axis=(0, 1))
            merit[i] += red - 0.5 * green
        return int(np.argmax(merit))

    def _move(self, target, magnet, step_rad):
        target = np.asarray(target)
        while np.abs(target - self._joints).max() > 1e-6:
            gap = target - self._joints
            self._joints = self._joints + gap * min(1.0, step_rad / np.abs(gap).max())
            yield self._command(magnet)

    def _command(self, magnet):
        return np.append(self._joints, magnet)


def make_policy():
    return Policy()
