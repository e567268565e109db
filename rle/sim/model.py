"""Named lookups on a compiled model. Indices are always found by name, never assumed."""

from collections.abc import Sequence

import mujoco
import numpy as np

from rle.errors import UnknownName


def ids(model: mujoco.MjModel, kind: mujoco.mjtObj, names: Sequence[str]) -> np.ndarray:
    """Ids of named elements, in the order of `names`. Shape (n,), int.

    Raises:
        UnknownName: A name that the model lacks, with the nearest one and the list.
    """
    found = [mujoco.mj_name2id(model, kind, name) for name in names]
    for name, index in zip(names, found, strict=True):
        if index < 0:
            raise UnknownName(
                kind.name.removeprefix("mjOBJ_").lower(), name, all_names(model, kind)
            )
    return np.array(found, dtype=int)


def all_names(model: mujoco.MjModel, kind: mujoco.mjtObj) -> list[str]:
    """Names of all elements of a kind, in id order; "" for an unnamed one."""
    counts = {
        mujoco.mjtObj.mjOBJ_BODY: model.nbody, mujoco.mjtObj.mjOBJ_JOINT: model.njnt,
        mujoco.mjtObj.mjOBJ_GEOM: model.ngeom, mujoco.mjtObj.mjOBJ_SITE: model.nsite,
        mujoco.mjtObj.mjOBJ_ACTUATOR: model.nu, mujoco.mjtObj.mjOBJ_SENSOR: model.nsensor,
        mujoco.mjtObj.mjOBJ_CAMERA: model.ncam,
    }  # fmt: skip
    return [mujoco.mj_id2name(model, kind, i) or "" for i in range(counts[kind])]


def qpos_addresses(model: mujoco.MjModel, joints: Sequence[str]) -> np.ndarray:
    """First qpos index of each named joint. Shape (n,), int."""
    return model.jnt_qposadr[ids(model, mujoco.mjtObj.mjOBJ_JOINT, joints)]


def dof_addresses(model: mujoco.MjModel, joints: Sequence[str]) -> np.ndarray:
    """First dof index of each named joint. Shape (n,), int."""
    return model.jnt_dofadr[ids(model, mujoco.mjtObj.mjOBJ_JOINT, joints)]


def sensor_slice(model: mujoco.MjModel, name: str) -> slice:
    """Where a named sensor's numbers stand in `data.sensordata`."""
    (sensor,) = ids(model, mujoco.mjtObj.mjOBJ_SENSOR, [name])
    start = int(model.sensor_adr[sensor])
    return slice(start, start + int(model.sensor_dim[sensor]))


def unnamed_elements(model: mujoco.MjModel) -> list[str]:
    """Bodies, joints, geoms, sites, actuators, sensors and cameras without a name ("geom 3")."""
    kinds = ("BODY", "JOINT", "GEOM", "SITE", "ACTUATOR", "SENSOR", "CAMERA")
    return [
        f"{kind.lower()} {i}"
        for kind in kinds
        for i, name in enumerate(all_names(model, getattr(mujoco.mjtObj, f"mjOBJ_{kind}")))
        if not name
    ]
