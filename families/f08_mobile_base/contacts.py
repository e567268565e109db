"""Contact forces of many physics steps, read in one vectorised pass over what was copied at every step."""

from dataclasses import dataclass

import mujoco
import numpy as np

from families.f08_mobile_base import spec
from families.f08_mobile_base.scene import Robot

WINDOW_STEPS = round(spec.SUPPORT_WINDOW_S / spec.TIMESTEP_S)
_LAGS = np.arange(0, WINDOW_STEPS, spec.SUPPORT_STRIDE)
_THREE = np.arange(3)


@dataclass(frozen=True)
class Contacts:
    """Robot-world contacts of n consecutive steps, world frame."""

    wheel_load_n: np.ndarray
    """Normal force per wheel, shape (n, 4)."""
    net_n: np.ndarray
    """Sum of contact forces on the robot, shape (n, 3)."""
    shelf_n: np.ndarray
    """Sum of normal forces between robot and shelf, shape (n,)."""
    shelf_geom: np.ndarray
    """Robot geom of the strongest shelf contact, -1 for none. Shape (n,)."""
    support_m: np.ndarray
    """Roller contacts that carry load, shape (n, k, 3); NaN where a step has fewer than k."""
    depth_m: float
    """Deepest penetration."""


class Recorder:
    """Copies contacts and solver forces after every step; `take` reads what was copied.

    Args:
        robot: Tells wheels, shelf and surroundings apart.
    """

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        self._forget()

    def _forget(self) -> None:
        self._geom: list[np.ndarray] = []
        self._address: list[np.ndarray] = []
        self._frame: list[np.ndarray] = []
        self._pos: list[np.ndarray] = []
        self._dist: list[np.ndarray] = []
        self._force: list[np.ndarray] = []

    def add(self, data: mujoco.MjData) -> None:
        """Copies the contacts of the last step."""
        contact = data.contact
        self._geom.append(contact.geom.copy())
        self._address.append(contact.efc_address.copy())
        self._frame.append(contact.frame.copy())
        self._pos.append(contact.pos.copy())
        self._dist.append(contact.dist.copy())
        self._force.append(data.efc_force.copy())

    def take(self) -> Contacts:
        """Reads all steps since the last call, and forgets them."""
        robot, n = self._robot, len(self._geom)
        rows = np.array([len(force) for force in self._force])
        step = np.repeat(np.arange(n), [len(geom) for geom in self._geom])
        geom, address = np.concatenate(self._geom), np.concatenate(self._address)
        world = robot.is_world[geom]
        keep = (world[:, 0] != world[:, 1]) & (address >= 0)
        first_row = np.concatenate([[0], np.cumsum(rows)])[step]
        geom, world, step = geom[keep], world[keep, 0], step[keep]
        force = np.concatenate(self._force)[(first_row + address)[keep, None] + _THREE]
        frame = np.concatenate(self._frame)[keep].reshape(-1, 3, 3)
        points, normal = np.concatenate(self._pos)[keep], force[:, 0]
        depth = -np.concatenate(self._dist).min(initial=0.0)
        self._forget()
        # MuJoCo's force acts on the second geom, along the normal from the first one.
        pushed = (force * np.where(world, 1.0, -1.0)[:, None])[:, None, :] @ frame
        mine, other = (np.where(world, geom[:, k], geom[:, 1 - k]) for k in (1, 0))
        wheel, on_shelf = robot.wheel_of_geom[mine], robot.is_shelf[other]
        on_wheel = wheel >= 0
        cell = len(spec.WHEELS) * step[on_wheel] + wheel[on_wheel]
        load = _sums(cell, normal[on_wheel], len(spec.WHEELS) * n)
        touched = np.full(n, -1)
        strongest_last = np.flatnonzero(on_shelf)[np.argsort(normal[on_shelf])]
        touched[step[strongest_last]] = mine[strongest_last]
        carries = on_wheel & (normal > spec.SUPPORT_FORCE_N)
        return Contacts(
            wheel_load_n=load.reshape(n, -1),
            net_n=np.stack([_sums(step, p, n) for p in pushed[:, 0].T], axis=-1),
            shelf_n=_sums(step[on_shelf], normal[on_shelf], n),
            shelf_geom=touched,
            support_m=_padded(points[carries], step[carries], n),
            depth_m=float(depth),
        )


def _sums(cell: np.ndarray, values: np.ndarray, n: int) -> np.ndarray:
    """Sum of values by cell, shape (n,); float also where there are none."""
    return np.bincount(cell, values, minlength=n).astype(float)


def _padded(points_m: np.ndarray, step: np.ndarray, n: int) -> np.ndarray:
    """Points by step, filled up with NaN to shape (n, k, 3)."""
    count = np.bincount(step, minlength=n)
    place = np.arange(len(step)) - np.repeat(np.cumsum(count) - count, count)
    padded = np.full((n, int(count.max(initial=0)), 3), np.nan)
    padded[step, place] = points_m
    return padded


def windows(support_m: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Loaded contacts of the last `SUPPORT_WINDOW_S` before each step, every `SUPPORT_STRIDE`-th step.

    Args:
        support_m: Contacts of all steps, NaN for none. Shape (n, k, 3).
        steps: Steps that are asked for, shape (m,).

    Returns:
        Shape (m, K, 3); NaN for none.
    """
    source = steps[:, None] - _LAGS
    points = support_m[np.maximum(source, 0)]
    points[source < 0] = np.nan
    return points.reshape(len(steps), len(_LAGS) * support_m.shape[1], 3)


def joined(earlier_m: np.ndarray, later_m: np.ndarray) -> np.ndarray:
    """Two stretches of padded contacts as one, at most `WINDOW_STEPS` of the earlier one."""
    earlier_m = earlier_m[-WINDOW_STEPS:]
    n = len(earlier_m)
    both = np.full((n + len(later_m), max(earlier_m.shape[1], later_m.shape[1]), 3), np.nan)
    both[:n, : earlier_m.shape[1]], both[n:, : later_m.shape[1]] = earlier_m, later_m
    return both
