"""Contact forces of every physics step, averaged over a short window.

P(part) = max over bodies b of the sum of normal forces between the part and b; all static geoms are one
body, and the tool is left out while it holds the part. B = sum of normal forces of robot and held parts
on the bin. With elliptic cones the normal force of a contact is `efc_force` at its `efc_address`.
"""

from dataclasses import dataclass
from functools import cached_property

import mujoco
import numpy as np

from families.f07_bin import scene, spec

_OTHER, _PUSHER, _BIN = 0, 1, 2
"""Roles of a geom in B: neither, robot or held part, bin. A pusher on the bin has product 2."""


PAIR_STRIDE = 256
"""Index of a pair of geoms in the look-up tables: first x stride + second; more geoms than any cell has."""


@dataclass(frozen=True)
class Contacts:
    """Active and nearby contacts of one step."""

    geom: np.ndarray
    """Geom pair of each contact. Shape (ncon, 2), int."""
    address: np.ndarray
    """First constraint row of each, -1 where it carries no force. Shape (ncon,), int."""
    normal_n: np.ndarray
    """Normal force of each, 0 where it carries none. Shape (ncon,), N."""

    @cached_property
    def pair(self) -> np.ndarray:
        """Index of each contact's geoms in the tables of `pair_table`. Shape (ncon,), int."""
        return self.geom[:, 0] * PAIR_STRIDE + self.geom[:, 1]


def pair_table(of_first_second: np.ndarray) -> np.ndarray:
    """A table over pairs of geoms, (ngeom, ngeom, ...), as one that `Contacts.pair` looks up."""
    n = len(of_first_second)
    if n > PAIR_STRIDE:
        raise ValueError(f"{n} geoms; the tables hold {PAIR_STRIDE}")
    table = np.zeros((n, PAIR_STRIDE, *of_first_second.shape[2:]), of_first_second.dtype)
    table[:, :n] = of_first_second
    return table.reshape(n * PAIR_STRIDE, *of_first_second.shape[2:])


def read_contacts(data: mujoco.MjData) -> Contacts:
    """The contacts of the step that was just made."""
    contact = data.contact
    address = contact.efc_address
    if data.nefc == 0:
        return Contacts(contact.geom, address, np.zeros(len(address)))
    normal = data.efc_force[address]
    normal[address < 0] = 0.0
    return Contacts(contact.geom, address, normal)


class Window:
    """Mean of the last `spec.FORCE_WINDOW_SUBSTEPS` values; what was before the first one is 0."""

    def __init__(self, width: int) -> None:
        self._ring = np.zeros((spec.FORCE_WINDOW_SUBSTEPS, width))
        self._weights = np.full(spec.FORCE_WINDOW_SUBSTEPS, 1.0 / spec.FORCE_WINDOW_SUBSTEPS)
        self._next = 0

    def push(self, values: np.ndarray | float) -> np.ndarray:
        """Adds one step's values, shape (width,), and returns the mean, same shape."""
        self._ring[self._next] = values
        self._next = (self._next + 1) % len(self._ring)
        return self._weights @ self._ring


class ContactForces:
    """Follows P of each part and B of a running cell. One pass over the contacts of a step.

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
        # Look-up by geom pair: the two cells (body, part) of P that a contact counts in.
        cells = np.stack(
            (part_of_geom[:, None] + body_of_geom, part_of_geom + body_of_geom[:, None]), axis=-1
        )
        self._cells_of_pair = pair_table(cells)
        self._role_of_geom = np.full(model.ngeom, _OTHER, dtype=np.int8)
        self._role_of_geom[(model.geom_contype & 2) > 0] = _PUSHER
        self._role_of_geom[[model.geom(name).id for name in scene.BIN_GEOMS]] = _BIN
        self._geoms_of_part = [np.flatnonzero(cell.part_of_geom == i) for i in range(n)]
        self._held: tuple[int, ...] = ()
        self._note_held(())
        self._window = Window(n + 1)
        self.last_n = np.zeros(n + 1)
        """P of each part and then B, of the last step alone. Shape (n + 1,), N."""
        self.mean_n = np.zeros(n + 1)
        """The same, mean over the window (10 ms). Shape (n + 1,), N."""

    def step(self, contacts: Contacts, held: tuple[int, ...]) -> None:
        """Takes in one step's contacts. `held`: the parts that were held during it."""
        if held != self._held:
            self._note_held(held)
        normal, pair = contacts.normal_n, contacts.pair
        sums = np.bincount(
            self._cells_of_pair[pair].ravel(), normal.repeat(2), self._n_bodies * (self._n + 1)
        ).reshape(self._n_bodies, self._n + 1)
        for part in held:
            sums[self._tool, part] = 0.0
        sums[:, :-1].max(axis=0, out=self.last_n[:-1])
        self.last_n[-1] = normal @ self._is_bin_pair[pair]
        self.mean_n = self._window.push(self.last_n)

    def _note_held(self, held: tuple[int, ...]) -> None:
        for part in set(self._held) - set(held):
            self._role_of_geom[self._geoms_of_part[part]] = _OTHER
        for part in set(held) - set(self._held):
            self._role_of_geom[self._geoms_of_part[part]] = _PUSHER
        self._held = held
        role = self._role_of_geom
        self._is_bin_pair = pair_table(np.outer(role, role) == _PUSHER * _BIN).astype(float)
