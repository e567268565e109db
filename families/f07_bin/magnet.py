"""The contact magnet: parts that touch the head are welded to the tool until a force frees them.

Per held part and step, F is the force of the tool on the part: weld and contact forces together, since
both carry the preload of a penetrating first contact. It is the whole constraint force on the part,
which its free joint shows, less that of its contacts with others. N = F along the tool axis away from the head
(pull), S = the rest, and

    u = sqrt((max(N, 0) / pull)^2 + (S / shear)^2)

A part slips off when the mean of u over the last steps exceeds 1.
"""

import math
from collections import deque
from typing import Literal, NamedTuple

import mujoco
import numpy as np

from families.f07_bin import scene, spec
from families.f07_bin.forces import Contacts

_WELD_ROWS = 6
_HELD, _FREE, _TOOL, _HEAD = 1, 3, 8, 16
"""Roles of a geom: of a held part, of another part, of the tool, its head; 0 for the rest. The sum over
both geoms of a contact tells what meets what."""
_AMONG_PARTS = (_HELD, 2 * _HELD, _HELD + _FREE)
"""Sums of contacts of a held part with something else than the tool."""
_OFFERED = _HEAD + _FREE
"""Sum of contacts in which the head could take a part."""


class Change(NamedTuple):
    """What the magnet did in a step."""

    kind: Literal["grab", "release", "slip"]
    part: int


def breakaway(force_n: np.ndarray, axis: np.ndarray) -> float:
    """u = sqrt((max(N, 0)/pull)^2 + (S/shear)^2) of a force of the tool on a part.

    Args:
        force_n: Force on the part. Shape (3,), N.
        axis: Unit vector from the flange to the head, same frame.
    """
    # Plain numbers: for three of them numpy takes many times as long, and this runs in every step.
    (fx, fy, fz), (ax, ay, az) = force_n.tolist(), axis.tolist()
    pull = -(fx * ax + fy * ay + fz * az)
    shear = math.sqrt((fx + pull * ax) ** 2 + (fy + pull * ay) ** 2 + (fz + pull * az) ** 2)
    return math.hypot(max(pull, 0.0) / spec.MAG_PULL_N, shear / spec.MAG_SHEAR_N)


class _Mean:
    """Mean of the last `spec.FORCE_WINDOW_SUBSTEPS` numbers; what was before the first one is 0."""

    def __init__(self) -> None:
        self._ring = deque([0.0] * spec.FORCE_WINDOW_SUBSTEPS, spec.FORCE_WINDOW_SUBSTEPS)

    def push(self, value: float) -> float:
        self._ring.append(value)
        return sum(self._ring) / len(self._ring)


class Magnet:
    """State of the magnet in a running cell.

    Args:
        cell: The compiled cell, with arm.
    """

    def __init__(self, cell: scene.Cell) -> None:
        self._cell = cell
        model = cell.model
        self._role = np.where(cell.part_of_geom >= 0, _FREE, 0)
        self._role[model.geom_bodyid == cell.tool_body] = _TOOL
        self._role[model.geom("head").id] = _HEAD
        self._geoms = [np.flatnonzero(cell.part_of_geom == i) for i in range(cell.n_parts)]
        self._dofs = cell.part_qvel[:, None] + np.arange(3)
        self._is_of_interest = np.zeros(2 * _HEAD + 1, dtype=bool)
        self._is_of_interest[[*_AMONG_PARTS, _OFFERED]] = True
        self._locked_until = np.zeros(cell.n_parts, dtype=np.int64)
        self._windows = [_Mean() for _ in range(cell.n_parts)]
        self._step = 0
        self._held_dofs = self._dofs[:0]
        self.held: tuple[int, ...] = ()
        """Parts held, ascending."""
        self.load = np.zeros(cell.n_parts)
        """u of each held part in the last step, 0 for the others. Shape (n,)."""
        self.n_slips = 0

    def release(self, data: mujoco.MjData) -> list[Change]:
        """Lets go of everything. The force window of a part goes on at its next grab."""
        changes = [Change("release", part) for part in self.held]
        self._set_held(data, ())
        return changes

    def step(self, data: mujoco.MjData, contacts: Contacts, is_on: bool) -> list[Change]:
        """Judges one physics step: what slips off, and with the magnet on, what is grabbed."""
        self._step += 1
        if not is_on and not self.held:
            return []
        roles = self._role[contacts.geom]
        meeting = roles[:, 0] + roles[:, 1]
        chosen = np.flatnonzero(self._is_of_interest[meeting])
        offered, others = [], []
        for contact, what in zip(chosen.tolist(), meeting[chosen].tolist(), strict=True):
            (offered if what == _OFFERED else others).append(contact)
        changes: list[Change] = []
        if self.held:
            changes += self._slips(data, contacts, others)
        if is_on and offered:
            changes += self._grabs(data, contacts, offered)
        return changes

    def _slips(self, data: mujoco.MjData, contacts: Contacts, others: list[int]) -> list[Change]:
        if data.ne != _WELD_ROWS * len(self.held):
            raise RuntimeError(f"{data.ne} equality rows for held parts {self.held}")
        axis = data.xmat[self._cell.tool_body].reshape(3, 3)[:, 2]
        forces = self._forces_on_held(data, contacts, others)
        self.load[:] = 0.0
        slipped = []
        for part, force in zip(self.held, forces, strict=True):
            load = self.load[part] = breakaway(force, axis)
            if self._windows[part].push(load) > 1.0:
                slipped.append(part)
        for part in slipped:
            self._locked_until[part] = self._step + round(spec.MAG_REATTACH_S / spec.TIMESTEP_S)
            self._windows[part] = _Mean()
        self.n_slips += len(slipped)
        if slipped:
            self._set_held(data, tuple(p for p in self.held if p not in slipped))
        return [Change("slip", part) for part in slipped]

    def _forces_on_held(
        self, data: mujoco.MjData, contacts: Contacts, others: list[int]
    ) -> np.ndarray:
        """Force of the tool on each held part. Shape (held, 3), N, world.

        Args:
            data: State after the step.
            contacts: Of the step.
            others: Its contacts of held parts with something else than the tool.
        """
        forces = data.qfrc_constraint[self._held_dofs]
        for contact in others:
            row = int(contacts.address[contact])
            if row < 0:
                continue
            frame = data.contact.frame[contact].reshape(3, 3)
            on_second = contacts.row_n[row : row + 3] @ frame
            first, second = self._cell.part_of_geom[contacts.geom[contact]].tolist()
            if first in self.held:
                forces[self.held.index(first)] += on_second
            if second in self.held:
                forces[self.held.index(second)] -= on_second
        return forces

    def _grabs(self, data: mujoco.MjData, contacts: Contacts, offered: list[int]) -> list[Change]:
        """Takes the parts of these contacts with the head that are near and not locked out."""
        near = [k for k in offered if data.contact.dist[k] <= spec.MAG_GAP_M]
        parts = set(self._cell.part_of_geom[contacts.geom[near]].max(axis=1).tolist())
        new = sorted(p for p in parts if self._step >= self._locked_until[p])
        if not new:
            return []
        model = self._cell.model
        mujoco.mj_kinematics(model, data)  # poses of now, not of the step's start
        tool = self._cell.tool_body
        for part in new:
            body = self._cell.part_bodies[part]
            position, quat, inverse = np.zeros(3), np.zeros(4), np.zeros(4)
            mujoco.mju_negQuat(inverse, data.xquat[tool])
            mujoco.mju_rotVecQuat(position, data.xpos[body] - data.xpos[tool], inverse)
            mujoco.mju_mulQuat(quat, inverse, data.xquat[body])
            weld = self._cell.holds[part]
            model.eq_data[weld, 3:6], model.eq_data[weld, 6:10] = position, quat
        self._set_held(data, tuple(sorted((*self.held, *new))))
        return [Change("grab", part) for part in new]

    def _set_held(self, data: mujoco.MjData, held: tuple[int, ...]) -> None:
        for part in set(self.held) ^ set(held):
            self._role[self._geoms[part]] = _HELD if part in held else _FREE
        self.held = held
        self._held_dofs = self._dofs[list(held)]
        if not held:
            self.load[:] = 0.0
        active = np.zeros(len(self._cell.holds), dtype=data.eq_active.dtype)
        active[list(held)] = 1
        data.eq_active[self._cell.holds] = active
