"""Contact forces of every physics step, averaged over a short window.

P(part) = max over bodies b of the sum of normal forces between the part and b; all static geoms are one
body, and the tool is left out while it holds the part. B = sum of normal forces of robot and held parts
on the bin. With elliptic cones the normal force of a contact is `efc_force` at its `efc_address`.
"""

from dataclasses import dataclass

import mujoco
import numpy as np

from families.f07_bin import scene, spec

_OTHER, _PUSHER, _BIN = 0, 1, 2
"""Roles of a geom in B: neither, robot or held part, bin. A pusher on the bin has product 2."""


@dataclass(frozen=True)
class Contacts:
    """Active and nearby contacts of one step."""

    geom: np.ndarray
    """Geom pair of each contact. Shape (ncon, 2), int."""
    address: np.ndarray
    """First constraint row of each, -1 where it carries no force. Shape (ncon,), int."""
    normal_n: np.ndarray
    """Normal force of each, 0 where it carries none. Shape (ncon,), N."""


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
        self._next = 0

    def push(self, values: np.ndarray | float) -> np.ndarray:
        """Adds one step's values, shape (width,), and returns the mean, same shape."""
        self._ring[self._next] = values
        self._next = (self._next + 1) % len(self._ring)
        return np.add.reduce(self._ring, axis=0) / len(self._ring)


class ContactForces:
    """Follows P of each part and B of a running cell. One pass over the contacts of a step.

    Args:
        cell: The compiled cell.
    """

    def __init__(self, cell: scene.Cell) -> None:
        model, n = cell.model, cell.n_parts
        self._n = n
        # Bodies of P: row n collects what is no part; column 0 is everything static.
        moving = np.flatnonzero(model.body_weldid > 0)
        column = np.zeros(model.nbody, dtype=np.int64)
        column[moving] = np.arange(1, len(moving) + 1)
        self._columns = len(moving) + 1
        self._tool_column = int(column[cell.tool_body])
        column_of_geom = column[model.geom_bodyid]
        row_of_geom = np.where(cell.part_of_geom >= 0, cell.part_of_geom, n) * self._columns
        # Look-up by geom pair: the two cells (row, column) of P that a contact counts in.
        self._n_geoms = model.ngeom
        cells = np.stack(
            (row_of_geom[:, None] + column_of_geom, row_of_geom + column_of_geom[:, None]), axis=-1
        )
        self._cells_of_pair = cells.reshape(-1, 2)
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
        normal = contacts.normal_n
        pair = contacts.geom[:, 0] * self._n_geoms + contacts.geom[:, 1]
        sums = np.bincount(
            self._cells_of_pair[pair].ravel(), normal.repeat(2), (self._n + 1) * self._columns
        ).reshape(self._n + 1, self._columns)
        for part in held:
            sums[part, self._tool_column] = 0.0
        np.max(sums[:-1], axis=1, out=self.last_n[:-1])
        self.last_n[-1] = normal @ self._is_bin_pair[pair]
        self.mean_n = self._window.push(self.last_n)

    def _note_held(self, held: tuple[int, ...]) -> None:
        for part in set(self._held) - set(held):
            self._role_of_geom[self._geoms_of_part[part]] = _OTHER
        for part in set(held) - set(self._held):
            self._role_of_geom[self._geoms_of_part[part]] = _PUSHER
        self._held = held
        role = self._role_of_geom
        self._is_bin_pair = (np.outer(role, role) == _PUSHER * _BIN).ravel().astype(float)
