"""Contact forces of every physics step, averaged over a short window.

P(part) = max over bodies b of the sum of normal forces between the part and b; all static geoms are one
body, and the tool is left out while it holds the part. B = sum of normal forces of robot and held parts
on the bin. With elliptic cones the normal force of a contact is `efc_force` at its `efc_address`.

Steps are kept and summed up together, since numpy takes hardly longer for the 25 of a tick than for one.
Whether a mean can have passed a limit is known after each step: no P or B exceeds the sum of all
constraint forces, taken without sign.
"""

from collections import deque
from typing import NamedTuple

import mujoco
import numpy as np
from scipy.linalg import get_blas_funcs

from families.f07_bin import scene, spec

_sum_of_magnitudes = get_blas_funcs("asum", dtype=np.float64)
"""BLAS: one call where numpy takes two, after every physics step."""
PAIR_STRIDE = 256
"""Index of a pair of geoms in the look-up tables: first x stride + second; more geoms than any cell has."""
_NEAR_N = 0.99 * min(spec.DAMAGE_FORCE_N, spec.BIN_HIT_FORCE_N)
"""A mean of that sum below this says that no limit is passed; the rest is room for rounding."""


class Contacts(NamedTuple):
    """Active and nearby contacts of one step, as copies."""

    geom: np.ndarray
    """Geom pair of each contact. Shape (ncon, 2), int."""
    address: np.ndarray
    """First constraint row of each, -1 where it carries no force. Shape (ncon,), int."""
    row_n: np.ndarray
    """Force of every constraint row. Shape (nefc,), N or N m."""

    @property
    def normal_n(self) -> np.ndarray:
        """Normal force of each contact, 0 where it carries none. Shape (ncon,), N."""
        return normals_n(self.address, self.row_n)


def read_contacts(data: mujoco.MjData) -> Contacts:
    """The contacts of the step that was just made."""
    contact = data.contact
    return Contacts(contact.geom.copy(), contact.efc_address.copy(), data.efc_force.copy())


def normals_n(address: np.ndarray, row_n: np.ndarray) -> np.ndarray:
    """Forces of the rows at `address`, 0 where that is negative. Shape (n,), N."""
    carries = address >= 0
    normal = np.zeros(len(address))
    normal[carries] = row_n[address[carries]]
    return normal


def pair_of(geom: np.ndarray) -> np.ndarray:
    """Index of geom pairs, shape (n, 2), in the tables of `pair_table`. Shape (n,), int."""
    return geom[:, 0] * PAIR_STRIDE + geom[:, 1]


def pair_table(of_first_second: np.ndarray) -> np.ndarray:
    """A table over pairs of geoms, (ngeom, ngeom, ...), as one that `pair_of` looks up."""
    n = len(of_first_second)
    if n > PAIR_STRIDE:
        raise ValueError(f"{n} geoms; the tables hold {PAIR_STRIDE}")
    table = np.zeros((n, PAIR_STRIDE, *of_first_second.shape[2:]), of_first_second.dtype)
    table[:, :n] = of_first_second
    return table.reshape(n * PAIR_STRIDE, *of_first_second.shape[2:])


def window_means(before: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Means over the last `spec.FORCE_WINDOW_SUBSTEPS` steps, one per step.

    Args:
        before: The steps just before, one less than the window holds. Shape (window - 1, width).
        values: The steps. Shape (n, width).

    Returns:
        Shape (n, width).
    """
    rows, n = np.concatenate((before, values)), len(values)
    return np.mean([rows[k : k + n] for k in range(len(before) + 1)], axis=0)


class ContactForces:
    """Follows P of each part and B of a running cell.

    Args:
        cell: The compiled cell.
    """

    def __init__(self, cell: scene.Cell) -> None:
        model, n = cell.model, cell.n_parts
        self._n = n
        # Bodies of P: place n collects what is no part; body 0 is everything static.
        moving = np.flatnonzero(model.body_weldid > 0)
        body = np.zeros(model.nbody, dtype=np.int64)
        body[moving] = np.arange(1, len(moving) + 1)
        self._n_bodies = len(moving) + 1
        self._tool = int(body[cell.tool_body])
        body_of_geom = body[model.geom_bodyid] * (n + 1)
        part_of_geom = np.where(cell.part_of_geom >= 0, cell.part_of_geom, n)
        # By geom pair: body and part of the two cells of P that a contact counts in.
        first, second = np.broadcast_arrays(body_of_geom[:, None], body_of_geom)
        self._row_of_pair = pair_table(np.stack((second, first), axis=-1))
        first, second = np.broadcast_arrays(part_of_geom[:, None], part_of_geom)
        self._part_of_pair = pair_table(np.stack((first, second), axis=-1))
        # By geom pair: who pushes on the bin. A part counts while it is held, n is the robot and
        # always counts, n + 1 is nobody.
        robot, nobody = n, n + 1
        pusher = np.where(cell.part_of_geom >= 0, cell.part_of_geom, nobody)
        pusher[(model.geom_contype & 2) > 0] = robot
        is_bin = np.zeros(model.ngeom, dtype=bool)
        is_bin[[model.geom(name).id for name in scene.BIN_GEOMS]] = True
        self._pusher_of_pair = pair_table(
            np.where(is_bin[:, None], pusher, np.where(is_bin, pusher[:, None], nobody))
        )
        self._kept: list[tuple[Contacts, tuple[int, ...]]] = []
        window = spec.FORCE_WINDOW_SUBSTEPS
        self._totals_n = deque([0.0] * window, window)
        self._before = np.zeros((window - 1, n + 1))
        self._peak_n = np.zeros(n + 1)
        self.last_n = np.zeros(n + 1)
        """P of each part and then B, of the last step that was summed up. Shape (n + 1,), N."""
        self.mean_n = np.zeros(n + 1)
        """The same, mean over the window (10 ms). Shape (n + 1,), N."""

    def add(self, contacts: Contacts, held: tuple[int, ...]) -> bool:
        """Keeps one step's contacts until `sum_up`.

        Args:
            contacts: Of the step.
            held: The parts that were held during it.

        Returns:
            Whether a mean may have passed a limit in this step.
        """
        self._kept.append((contacts, held))
        self._totals_n.append(_sum_of_magnitudes(contacts.row_n) if len(contacts.row_n) else 0.0)
        return sum(self._totals_n) > _NEAR_N * len(self._totals_n)

    def sum_up(self) -> None:
        """Brings `last_n`, `mean_n` and the peaks up to the step that was kept last."""
        if not self._kept:
            return
        steps, n = len(self._kept), self._n
        geoms, addresses, rows = zip(*(contacts for contacts, _ in self._kept), strict=True)
        is_held = np.zeros((steps, n + 2), dtype=bool)
        is_held[:, n] = True
        for k, (_, held) in enumerate(self._kept):
            if held:
                is_held[k, list(held)] = True
        self._kept.clear()

        address = np.concatenate(addresses)
        carries = np.flatnonzero(address >= 0)
        step = np.repeat(np.arange(steps), [len(own) for own in addresses])[carries]
        first_row = np.cumsum([0, *(len(own) for own in rows[:-1])])
        normal = np.concatenate(rows)[address[carries] + first_row[step]]
        pair = pair_of(np.concatenate(geoms)[carries])

        # Bodies first: the largest over them is then taken along whole rows of memory.
        width = n + 1
        cells = self._row_of_pair[pair] * steps
        cells += self._part_of_pair[pair]
        cells += (step * width)[:, None]
        size = self._n_bodies * steps * width
        sums = np.bincount(cells.ravel(), normal.repeat(2), size)
        sums = sums.reshape(self._n_bodies, steps, width)
        sums[self._tool, :, :n][is_held[:, :n]] = 0.0
        forces = sums.max(axis=0)
        on_bin = is_held[step, self._pusher_of_pair[pair]]
        forces[:, n] = np.bincount(step, normal * on_bin, steps)

        means = window_means(self._before, forces)
        self._before = np.concatenate((self._before, forces))[-len(self._before) :]
        self.last_n, self.mean_n = forces[-1], means[-1]
        np.maximum(self._peak_n, means.max(axis=0), out=self._peak_n)

    def take_peaks(self) -> np.ndarray:
        """Highest means since this was last asked, of each part and then of B. Shape (n + 1,), N."""
        self.sum_up()
        peaks, self._peak_n = self._peak_n, np.zeros(self._n + 1)
        return peaks
