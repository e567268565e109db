"""Contact forces in the world frame, and their peaks accumulated over every physics step."""

import mujoco
import numpy as np


def touching(data: mujoco.MjData) -> np.ndarray:
    """Pairs of geoms that touch; without those that are only found across a contact's gap. Shape (n, 2)."""
    count = data.ncon
    return data.contact.geom[:count][data.contact.exclude[:count] == 0]


def forces_world_n(model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    """Force that the second geom of each contact feels from the first. Shape (ncon, 3), N, world.

    MuJoCo's contact frame has the normal (from geom 1 to geom 2) as its first row; the contact
    force acts on geom 2 along it.
    """
    forces = np.zeros((data.ncon, 3))
    wrench = np.zeros(6)
    for i in range(data.ncon):
        mujoco.mj_contactForce(model, data, i, wrench)
        forces[i] = data.contact.frame[i].reshape(3, 3).T @ wrench[:3]
    return forces


def resultants_n(
    model: mujoco.MjModel, data: mujoco.MjData, group_of_geom: np.ndarray
) -> np.ndarray:
    """Resultant force on each group of geoms from all geoms outside it. Shape (n_groups, 3), N, world.

    Args:
        model: Compiled model.
        data: State after a step or `mj_forward`.
        group_of_geom: Group of each geom, -1 for none. Shape (ngeom,), int.
    """
    total = np.zeros((int(group_of_geom.max(initial=-1)) + 1, 3))
    if data.ncon == 0:
        return total
    pairs = group_of_geom[data.contact.geom]
    for (a, b), force in zip(pairs, forces_world_n(model, data), strict=True):
        if a == b:
            continue
        if b >= 0:
            total[b] += force
        if a >= 0:
            total[a] -= force
    return total
