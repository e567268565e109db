"""The contact magnet: parts that touch the head are welded to the tool until a force frees them.

Per held part and step, F is the force of the tool on the part: weld and contact forces together, since
both carry the preload of a penetrating first contact. N = F along the tool axis away from the head
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
from families.f07_bin.forces import Contacts, pair_table

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


def _other_of(is_mine: np.ndarray, part_of_geom: np.ndarray) -> np.ndarray:
    """Part that the other geom of a pair belongs to where one is mine, else -1. Shape (ngeom, ngeom)."""
    first = np.where(is_mine[:, None], part_of_geom[None, :], -1)
    return np.maximum(first, first.T)


class Magnet:
    """State of the magnet in a running cell.

    Args:
        cell: The compiled cell, with arm.
    """

    def __init__(self, cell: scene.Cell) -> None:
        self._cell = cell
        part, n = cell.part_of_geom, cell.model.ngeom
        is_tool = cell.model.geom_bodyid == cell.tool_body
        is_head = np.arange(n) == cell.model.geom("head").id
        # By pair of geoms: the part that touches the tool, or the head, -1 for none; and which comes first.
        self._tool_part = pair_table(_other_of(is_tool, part))
        self._head_part = pair_table(_other_of(is_head, part))
        self._tool_sign = pair_table(np.where(is_tool, 1.0, -1.0)[:, None].repeat(n, axis=1))
        self._weld_rows = np.arange(cell.n_parts)[:, None] * _WELD_ROWS + np.arange(3)
        self._locked_until = np.zeros(cell.n_parts, dtype=np.int64)
        self._windows = [_Mean() for _ in range(cell.n_parts)]
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

    def _forces_on_held(self, data: mujoco.MjData, contacts: Contacts) -> np.ndarray:
        """Force of the tool on each held part: weld and contacts. Shape (held, 3), N, world."""
        # Welds are the only equalities, in part order; their first three rows act on the tool.
        forces = -data.efc_force[self._weld_rows[: len(self.held)]]
        parts = self._tool_part[contacts.pair]
        touching = np.flatnonzero((parts >= 0) & (contacts.address >= 0))
        if len(touching):
            rows = contacts.address[touching, None] + np.arange(3)
            frames = data.contact.frame[touching].reshape(-1, 3, 3)
            on_second = (data.efc_force[rows][:, None, :] @ frames)[:, 0, :]
            on_part = on_second * self._tool_sign[contacts.pair[touching], None]
            for part, force in zip(parts[touching].tolist(), on_part, strict=True):
                if part in self.held:
                    forces[self.held.index(part)] += force
        return forces

    def _grabs(self, data: mujoco.MjData, contacts: Contacts) -> list[Change]:
        head_part = self._head_part[contacts.pair]
        near = np.flatnonzero(head_part >= 0)
        if not len(near):
            return []
        near = near[data.contact.dist[near] <= spec.MAG_GAP_M]
        parts = sorted(set(head_part[near].tolist()))
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
