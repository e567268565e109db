"""Exact distances between the solid parts of a chassis."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from families.f08_mobile_base import spec
from families.f08_mobile_base.chassis.record import Record
from families.f08_mobile_base.scene import rotation

if TYPE_CHECKING:
    from families.f08_mobile_base.chassis.rules import Member

_GEOM = mujoco.mjtGeom


class Parts:
    """All solid parts as bodies of one small model, for exact distances.

    `names` lists the geoms: members, "battery", "adapter", and the wheel envelopes "FL" ... "RR".
    """

    def __init__(self, record: Record, members: Sequence["Member"]) -> None:
        parts = mujoco.MjSpec()
        self.names: list[str] = []

        def add(name: str, pos: np.ndarray, quat: np.ndarray, kind: mujoco.mjtGeom, size) -> None:
            body = parts.worldbody.add_body(pos=pos, quat=quat)
            body.add_geom(name=name, type=kind, size=size)
            self.names.append(name)

        for m in members:
            box = _GEOM.mjGEOM_BOX
            add(f"profile_{m.index}", m.pos_m, m.quat_wxyz, box, m.half_m)
        box, cylinder = _GEOM.mjGEOM_BOX, _GEOM.mjGEOM_CYLINDER
        add("battery", record.battery_pos_m, record.battery_quat_wxyz, box, spec.BATTERY_HALF_M)
        lift = rotation(record.mount_quat_wxyz)[:, 2] * spec.ADAPTER_HALF_M[2]
        add("adapter", record.mount_pos_m + lift, record.mount_quat_wxyz, box, spec.ADAPTER_HALF_M)
        about_y = (np.sqrt(0.5), -np.sqrt(0.5), 0.0, 0.0)
        size = (spec.WHEEL_ENVELOPE_RADIUS_M, spec.WHEEL_ENVELOPE_HALF_WIDTH_M, 0.0)
        for k, wheel in enumerate(spec.WHEELS):
            add(wheel, record.wheel_pos_m[k], np.array(about_y), cylinder, size)
        self.model = parts.compile()
        self.data = mujoco.MjData(self.model)
        mujoco.mj_kinematics(self.model, self.data)
        self._id = {name: self.model.geom(name).id for name in self.names}

    def distance(self, a: str, b: str, far_m: float = 1.0) -> float:
        """Smallest distance in m, negative for depth; `far_m` where they are further apart."""
        return float(
            mujoco.mj_geomDistance(self.model, self.data, self._id[a], self._id[b], far_m, None)
        )

    def point_distance(self, point_m: np.ndarray, box: str) -> float:
        """Distance of a point to a box; 0 inside."""
        geom = self._id[box]
        turn = self.data.geom_xmat[geom].reshape(3, 3)
        local = np.abs(turn.T @ (point_m - self.data.geom_xpos[geom]))
        return float(np.linalg.norm(np.maximum(local - self.model.geom_size[geom], 0.0)))

    @functools.cached_property
    def bounds_m(self) -> dict[str, np.ndarray]:
        """Axis-aligned bounds of every part, shape (2, 3): lower and upper corner."""
        bounds = {}
        for name, geom in self._id.items():
            turn, size = self.data.geom_xmat[geom].reshape(3, 3), self.model.geom_size[geom]
            if self.model.geom_type[geom] == _GEOM.mjGEOM_CYLINDER:
                axis = turn[:, 2]
                reach = np.abs(axis) * size[1] + np.sqrt(np.clip(1 - axis**2, 0, 1)) * size[0]
            else:
                reach = np.abs(turn) @ size
            centre = self.data.geom_xpos[geom]
            bounds[name] = np.array([centre - reach, centre + reach])
        return bounds
