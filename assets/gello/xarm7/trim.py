"""Software of one lead arm: four functions, here without any effect. Replace them."""

import numpy as np

PROBES = 15


def plan_probe(model, sample, lower, upper):
    """Poses to probe. Shape (15, nv), rad, within lower .. upper.

    sample: {"target": (nv,), "q": (nv,)} of the probe at home.
    """
    return np.tile(np.clip(sample["target"], lower, upper), (PROBES, 1))


def adapt(model, probes):
    """Anything that make_trim_adapted needs; it stays in the worker.

    probes: list of 16 dicts {"target": (nv,), "q": (nv,)}, rad, the one at home first.
    """
    return None


def make_trim(model):
    """Returns q (nv,) -> feedforward torque (nv,), N m, of the device as drawn."""
    return lambda q: np.zeros(model.nv)


def make_trim_adapted(model, params):
    """Returns q (nv,) -> feedforward torque (nv,), N m, of the device that was probed."""
    return lambda q: np.zeros(model.nv)
