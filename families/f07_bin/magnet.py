"""The contact magnet: parts that touch the head are welded to the tool until a force frees them.

Per held part and step, F is the force of the tool on the part: weld and contact forces together, since
both carry the preload of a penetrating first contact. N = F along the tool axis away from the head
(pull), S = the rest, and

    u = sqrt((max(N, 0) / pull)^2 + (S / shear)^2)

A part slips off when the mean of u over the last steps exceeds 1.
"""

import math
from typing import Literal, NamedTuple

import mujoco
import numpy as np

from families.f07_bin import scene, spec
from families.f07_bin.forces import Contacts, Window

_WELD_ROWS = 6


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
    pull = -float(force_n @ axis)
    shear = float(np.linalg.norm(force_n + pull * axis))
    return math.hypot(max(pull, 0.0) / spec.MAG_PULL_N, shear / spec.MAG_SHEAR_N)


class Magnet:
    """State of the magnet in a running cell.

    Args:
        cell: The compiled cell, with arm.
    """

    def __init__(self, cell: scene.Cell) -> None:
        self._cell = cell
        self._head = int(cell.model.geom("head").id)
        self._is_tool = cell.model.geom_bodyid == cell.tool_body
        self._locked_until = np.zeros(cell.n_parts, dtype=np.int64)
        self._windows = [Window(1) for _ in range(cell.n_parts)]
        self._step = 0
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
        changes: list[Change] = []
        if self.held:
            changes += self._slips(data, contacts)
        if is_on:
            changes += self._grabs(data, contacts)
        return changes

    def _slips(self, data: mujoco.MjData, contacts: Contacts) -> list[Change]:
        if data.ne != _WELD_ROWS * len(self.held):
            raise RuntimeError(f"{data.ne} equality rows for held parts {self.held}")
        axis = data.xmat[self._cell.tool_body].reshape(3, 3)[:, 2]
        forces = self._forces_on_held(data, contacts)
        self.load[:] = 0.0
        slipped = []
        for part, force in zip(self.held, forces, strict=True):
            self.load[part] = breakaway(force, axis)
            if self._windows[part].push(self.load[part])[0] > 1.0:
                slipped.append(part)
        for part in slipped:
            self._locked_until[part] = self._step + round(spec.MAG_REATTACH_S / spec.TIMESTEP_S)
            self._windows[part] = Window(1)
        self.n_slips += len(slipped)
        if slipped:
            self._set_held(data, tuple(p for p in self.held if p not in slipped))
        return [Change("slip", part) for part in slipped]

    def _forces_on_held(self, data: mujoco.MjData, contacts: Contacts) -> np.ndarray:
        """Force of the tool on each held part: weld and contacts. Shape (held, 3), N, world."""
        # Welds are the only equalities, in part order; their first three rows act on the tool.
        rows = np.arange(len(self.held))[:, None] * _WELD_ROWS + np.arange(3)
        forces = -data.efc_force[rows]
        touching = self._is_tool[contacts.geom].any(axis=1) & (contacts.address >= 0)
        for i in np.flatnonzero(touching):
            first, second = contacts.geom[i]
            part = self._cell.part_of_geom[second if self._is_tool[first] else first]
            if part in self.held:
                address = contacts.address[i]
                on_second = data.efc_force[address : address + 3] @ data.contact.frame[i].reshape(
                    3, 3
                )
                sign = 1.0 if self._is_tool[first] else -1.0
                forces[self.held.index(part)] += sign * on_second
        return forces

    def _grabs(self, data: mujoco.MjData, contacts: Contacts) -> list[Change]:
        near = np.flatnonzero((contacts.geom == self._head).any(axis=1))
        if not len(near):
            return []
        near = near[data.contact.dist[near] <= spec.MAG_GAP_M]
        parts = sorted(
            set(self._cell.part_of_geom[contacts.geom[near]].max(axis=1).tolist()) - {-1}
        )
        new = [p for p in parts if p not in self.held and self._step >= self._locked_until[p]]
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
        self.held = held
        if not held:
            self.load[:] = 0.0
        active = np.zeros(len(self._cell.holds), dtype=data.eq_active.dtype)
        active[list(held)] = 1
        data.eq_active[self._cell.holds] = active
