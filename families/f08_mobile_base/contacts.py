"""Contact forces of many physics steps, read in one vectorised pass over what was copied at every step."""

from dataclasses import dataclass

import mujoco
import numpy as np

from families.f08_mobile_base import spec
from families.f08_mobile_base.scene import Robot

WINDOW_STEPS = round(spec.SUPPORT_WINDOW_S / spec.TIMESTEP_S)
_LAGS = np.arange(0, WINDOW_STEPS, spec.SUPPORT_STRIDE)
_THREE = np.arange(3)
FEW = 128
"""Contacts and forces that a recorder has room for at first."""


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

    The buffers stay and only grow: memory that is new at every step costs as much as the copying.

    Args:
        robot: Tells wheels, shelf and surroundings apart.
    """

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        self._geom = np.empty((FEW, 2), dtype=np.int32)
        self._address = np.empty(FEW, dtype=np.int32)
        self._frame, self._pos, self._dist = np.empty((FEW, 9)), np.empty((FEW, 3)), np.empty(FEW)
        self._force = np.empty(FEW)
        self._forget()

    def _forget(self) -> None:
        self._contact_end: list[int] = [0]
        self._force_end: list[int] = [0]

    def add(self, data: mujoco.MjData) -> None:
        """Copies the contacts of the last step."""
        contact, force = data.contact, data.efc_force
        begin, first = self._contact_end[-1], self._force_end[-1]
        end, last = begin + data.ncon, first + len(force)
        if end > len(self._dist) or last > len(self._force):
            self._grow(end, last)
        self._geom[begin:end] = contact.geom
        self._address[begin:end] = contact.efc_address
        self._frame[begin:end] = contact.frame
        self._pos[begin:end] = contact.pos
        self._dist[begin:end] = contact.dist
        self._force[first:last] = force
        self._contact_end.append(end)
        self._force_end.append(last)

    def _grow(self, n_contacts: int, n_forces: int) -> None:
        """Room for so many contacts and forces, and for as many again."""
        for name in ("_geom", "_address", "_frame", "_pos", "_dist", "_force"):
            old = getattr(self, name)
            wanted = n_forces if name == "_force" else n_contacts
            if wanted > len(old):
                new = np.empty((2 * wanted, *old.shape[1:]), dtype=old.dtype)
                new[: len(old)] = old
                setattr(self, name, new)

    def take(self) -> Contacts:
        """Reads all steps since the last call, and forgets them."""
        robot, n, total = self._robot, len(self._contact_end) - 1, self._contact_end[-1]
        step = np.repeat(np.arange(n), np.diff(self._contact_end))
        geom, address = self._geom[:total], self._address[:total]
        world = robot.is_world[geom]
        keep = (world[:, 0] != world[:, 1]) & (address >= 0)
        first_row = np.array(self._force_end)[step]
        geom, world, step = geom[keep], world[keep, 0], step[keep]
        force = self._force[(first_row + address)[keep, None] + _THREE]
        frame = self._frame[:total][keep].reshape(-1, 3, 3)
        points, normal = self._pos[:total][keep], force[:, 0]
        depth = -self._dist[:total].min(initial=0.0)
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
