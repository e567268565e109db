"""Tower, cantilever and balance: measurements on the mobile robot's table."""

import math

import mujoco
import numpy as np

from families.f03_tabletop import spec as s
from families.f03_tabletop.instances import (
    BalanceInstance,
    CantileverInstance,
    TowerInstance,
)
from families.f03_tabletop.scene import (
    BEAM_HINGE,
    BEAM_LOCK,
    MAT,
    PANS,
    Scene,
    build_balance,
    build_cantilever,
    build_tower,
)
from families.f03_tabletop.task import RobotTask, Settled, settle
from rle.service.adapter import BadRequest, Evidence, ExtraOutcome, StepOutcome
from rle.service.protocol import Scalar
from rle.sim.contacts import touching
from rle.sim.model import dof_addresses

WRIST = {"wrist": "robot0_eye_in_hand"}


def vertical_extent_m(model: mujoco.MjModel, data: mujoco.MjData, geom: str) -> tuple[float, float]:
    """Lowest and highest world z of a geom, exact from its shape, m.

    Raises:
        ValueError: A shape that no piece has.
    """
    g = model.geom(geom)
    centre = float(data.geom(geom).xpos[2])
    row = data.geom(geom).xmat.reshape(3, 3)[2]
    size = g.size
    match int(g.type[0]):
        case mujoco.mjtGeom.mjGEOM_BOX:
            reach = float(np.abs(row) @ size)
        case mujoco.mjtGeom.mjGEOM_SPHERE:
            reach = float(size[0])
        case mujoco.mjtGeom.mjGEOM_CAPSULE:
            reach = float(size[0] + abs(row[2]) * size[1])
        case mujoco.mjtGeom.mjGEOM_CYLINDER:
            reach = float(abs(row[2]) * size[1] + size[0] * math.sqrt(max(0.0, 1.0 - row[2] ** 2)))
        case mujoco.mjtGeom.mjGEOM_MESH:
            mesh = model.mesh(int(g.dataid[0]))
            start, count = int(mesh.vertadr[0]), int(mesh.vertnum[0])
            heights = model.mesh_vert[start : start + count] @ row
            return centre + float(heights.min()), centre + float(heights.max())
        case other:
            raise ValueError(f"geom {geom} has shape {other}")
    return centre - reach, centre + reach


class _Stacking(RobotTask):
    """Base of tower and cantilever: the final scene is settled and read twice."""

    camera_names = WRIST

    def settled(self, value) -> tuple[Settled, list[frozenset[str]]]:
        """Final measurement, and the supported pieces of both readings."""
        result = settle(self.ready, value)
        return result, [result.supported(reading) for reading in result.readings]

    @staticmethod
    def exclusions(result: Settled, supported: frozenset[str], pieces: tuple[str, ...]) -> str:
        """Every piece that does not count and why, "rod:moving capsule:unsupported"."""
        reasons = {name: result.excluded.get(name, "unsupported") for name in pieces}
        return " ".join(f"{n}:{r}" for n, r in reasons.items() if n not in supported)[:200]


class Tower(_Stacking):
    """Twelve pieces; measured is the settled height."""

    def build(self, instance: TowerInstance) -> Scene:
        return build_tower(instance)

    def privileged(self) -> dict[str, np.ndarray]:
        assert isinstance(self.instance, TowerInstance)
        return {**super().privileged(), "scales": np.array(self.instance.scales)}

    def top_m(self, piece: str) -> float:
        """Highest point of a piece above the table."""
        _, high = vertical_extent_m(self.ready.model, self.ready.data, f"{piece}_geom")
        return high - s.TABLE.top_z_m

    def finish(self) -> Evidence:
        """height_m = min over two readings of the highest point of a supported piece."""
        result, supported = self.settled(self.top_m)
        heights = [
            max((reading.values[name] for name in names), default=0.0)
            for reading, names in zip(result.readings, supported, strict=True)
        ]
        return {
            "height_m": min(heights),
            "height_first_m": heights[0],
            "height_second_m": heights[1],
            "pieces_supported": len(supported[1]),
            "settle_s": result.settle_s,
            "excluded": self.exclusions(result, supported[1], s.PIECE_NAMES),
        }


EDGES = (((1.0, 0.0), 0), ((-1.0, 0.0), 0), ((0.0, 1.0), 1), ((0.0, -1.0), 1))
"""Outward normals of the table's edges, and the axis that each bounds."""


class Cantilever(_Stacking):
    """Four blocks; measured is the overhang of an end-face centre past a table edge."""

    def build(self, instance: CantileverInstance) -> Scene:
        return build_cantilever(instance)

    def overhang_m(self, block: str) -> float:
        """max over end-face centres p and edges (n, d) of n . p - d; -1 for a block below the table's top."""
        low, _ = vertical_extent_m(self.ready.model, self.ready.data, f"{block}_geom")
        if low <= s.LOWEST_SUPPORTED_Z_M:
            return -1.0
        body = self.ready.data.body(block)
        along = body.xmat.reshape(3, 3)[:, 1] * s.BLOCK_LENGTH_M / 2
        return max(
            float(np.dot(normal, (body.xpos + sign * along)[:2]) - s.TABLE.half_m[axis])
            for sign in (-1.0, 1.0)
            for normal, axis in EDGES
        )

    def finish(self) -> Evidence:
        """overhang_m = min over two readings of the largest overhang of a supported block, at least 0."""
        result, supported = self.settled(self.overhang_m)
        reached = [
            max((reading.values[name] for name in names), default=0.0)
            for reading, names in zip(result.readings, supported, strict=True)
        ]
        return {
            "overhang_m": max(0.0, min(reached)),
            "overhang_first_m": reached[0],
            "overhang_second_m": reached[1],
            "blocks_supported": len(supported[1]),
            "settle_s": result.settle_s,
            "excluded": self.exclusions(result, supported[1], self.ready.pieces),
        }


Contents = tuple[frozenset[int], frozenset[int]]
"""Cubes on the two pans."""
EMPTY: Contents = (frozenset(), frozenset())


class Weighings:
    """Counts weighings: a released beam with contents that differ from the last counted pair.

    Loading under lock is free; every other content that could move a released beam is counted, equal or
    unequal numbers alike, so that no beam motion can be seen without being counted.
    """

    def __init__(self, count: int = 0, last: Contents = EMPTY) -> None:
        self.count = count
        self.last = last

    def see(self, contents: Contents) -> None:
        """The contents of the pans while the beam is released."""
        if contents not in (EMPTY, self.last):
            self.count += 1
            self.last = contents

    def to_counters(self) -> dict[str, Scalar]:
        """For the record, so that a reopened trial keeps them."""
        low, high = (",".join(str(i) for i in sorted(pan)) for pan in self.last)
        return {"weighings": self.count, "last_pair": f"{low}|{high}"}

    @classmethod
    def of_counters(cls, counters: dict[str, Scalar]) -> "Weighings":
        """Inverse of `to_counters`; without counters, none so far."""
        low, _, high = str(counters.get("last_pair", "|")).partition("|")
        pans = (frozenset(int(i) for i in pan.split(",") if i) for pan in (low, high))
        return cls(int(counters.get("weighings", 0)), (next(pans), next(pans)))


class Balance(RobotTask):
    """Nine cubes and a beam balance with a lock."""

    camera_names = WRIST

    def build(self, instance: BalanceInstance) -> Scene:
        scene = build_balance(instance)
        model = scene.model
        self._cubes = np.array([model.body(name).id for name in scene.pieces])
        self._index = {int(body): i for i, body in enumerate(self._cubes)}
        self._cube_weight_n = model.body_mass[self._cubes] * np.linalg.norm(model.opt.gravity)
        self._pans = np.array([model.body(name).id for name in PANS])
        self._beam = model.body("beam").id
        self._lock = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_EQUALITY, BEAM_LOCK)
        hinges = [BEAM_HINGE, *(f"{pan}_hinge" for pan in PANS)]
        self._hinge_dofs = dof_addresses(model, hinges)
        self._hinge_qpos = int(model.joint(BEAM_HINGE).qposadr[0])
        return scene

    def restore(self, counters: dict[str, Scalar]) -> None:
        self.weighings = Weighings.of_counters(counters)
        self._noise = self.plan.rng("noise") if self.plan else np.random.default_rng(0)

    def after_reset(self) -> None:
        self._set_lock(True, 0.0)
        self._quiet_steps = s.BEAM.rest_steps
        self._present: list[set[int]] = [set(), set()]
        self._locking = 0.0
        self._shown_pans = np.zeros((2, 3))
        self._shown_cubes = np.zeros((s.CUBES, 3))
        mujoco.mj_forward(self.ready.model, self.ready.data)
        self._sense()

    # ------------------------------------------------------------------------------------ the lock

    @property
    def is_locked(self) -> bool:
        """The arrest holds the beam."""
        return bool(self.ready.data.eq_active[self._lock])

    def _set_lock(self, locked: bool, target_rad: float) -> None:
        self.ready.model.eq_data[self._lock, 0] = target_rad
        self.ready.data.eq_active[self._lock] = locked

    def _engage(self) -> None:
        """Takes the beam where it is; the following control steps bring it level."""
        self._quiet_steps = 0
        angle = float(self.ready.data.qpos[self._hinge_qpos])
        self._set_lock(True, angle)
        self._locking = angle / (s.BEAM.lock_steps * s.SUBSTEPS)

    def extra(self, op: str, args: dict[str, Scalar]) -> ExtraOutcome:
        """`beam(locked)`: one hold step with the lock set as asked."""
        wants_lock = bool(args["locked"])
        if not wants_lock and self._robot_touches_balance():
            raise BadRequest(
                "the beam cannot be released while the robot touches the balance or a cube on it; "
                "move the arm away first"
            )
        if wants_lock and not self.is_locked:
            self._engage()
        elif not wants_lock and self.is_locked:
            self._set_lock(False, 0.0)
            self._locking = 0.0
            self._quiet_steps = 0
        outcome = self.hold()
        return ExtraOutcome(
            executed=1,
            ended=outcome.ended,
            events={"locked": self.is_locked, "weighings": self.weighings.count},
        )

    # ------------------------------------------------------------------------------------- physics

    def contents(self) -> Contents:
        """Cubes connected to each plate by contact."""
        pairs = self.ready.model.geom_bodyid[touching(self.ready.data)]
        pans: list[frozenset[int]] = []
        for pan in self._pans:
            found, queue = set(), [int(pan)]
            while queue:
                here = queue.pop()
                for a, b in pairs[(pairs == here).any(axis=1)]:
                    other = int(b if a == here else a)
                    if other in self._index and other not in found:
                        found.add(other)
                        queue.append(other)
            pans.append(frozenset(self._index[body] for body in found))
        return pans[0], pans[1]

    def _robot_touches_balance(self) -> bool:
        touched = self.ready.robots[0].touched()
        if touched & {self._beam, *map(int, self._pans)}:
            return True
        loaded = frozenset().union(*self.contents())
        return any(self._index.get(body) in loaded for body in touched)

    def each_substep(self, data: mujoco.MjData) -> None:
        data.xfrc_applied[self._cubes, 2] = 0.0
        for body in self.ready.robots[0].held():
            if body in self._index:
                data.xfrc_applied[body, 2] = self._cube_weight_n[self._index[body]]
        if self.is_locked:
            target = float(self.ready.model.eq_data[self._lock, 0])
            left = target - self._locking
            crossed = left * target <= 0.0
            self.ready.model.eq_data[self._lock, 0] = 0.0 if crossed else left
            return
        for seen, now in zip(self._present, self.contents(), strict=True):
            seen |= now
        if self._robot_touches_balance():
            self._engage()

    def after_step(self) -> StepOutcome:
        data = self.ready.data
        rates = np.abs(data.qvel[self._hinge_dofs])
        limits = np.array([s.BEAM.rest_beam_rad_s, *[s.BEAM.rest_pan_rad_s] * 2])
        self._quiet_steps = self._quiet_steps + 1 if (rates < limits).all() else 0
        if any(self._present) or not self.is_locked:
            low, high = self._present
            self.weighings.see((frozenset(low), frozenset(high)))
        self._present = [set(), set()]
        self._sense()
        return StepOutcome(events={"weighings": self.weighings.count})

    # --------------------------------------------------------------------------------- observation

    @property
    def is_at_rest(self) -> bool:
        """Beam and pans were slow in each of the last `rest_steps` control steps since the lock last changed."""
        return self._quiet_steps >= s.BEAM.rest_steps

    def _sense(self) -> None:
        """Draws the noise of this control step and refreshes what may be seen."""
        data = self.ready.data
        cube_noise = self._noise.normal(scale=s.POSITION_NOISE_M, size=(s.CUBES, 3))
        pan_noise = self._noise.normal(scale=s.POSITION_NOISE_M, size=(2, 3))
        joint_noise = self._noise.normal(scale=s.JOINT_NOISE_RAD, size=7)
        loaded = frozenset().union(*self.contents())
        can_see_pans = self.is_locked or self.is_at_rest
        fresh = np.array([can_see_pans or i not in loaded for i in range(s.CUBES)])
        cubes = data.xpos[self._cubes] + cube_noise
        self._shown_cubes = np.where(fresh[:, None], cubes, self._shown_cubes)
        if can_see_pans:
            tops = [
                data.geom(f"{pan}_plate").xpos
                + data.geom(f"{pan}_plate").xmat.reshape(3, 3)[:, 2] * s.BEAM.plate_thickness_m / 2
                for pan in PANS
            ]
            self._shown_pans = np.array(tops) + pan_noise
        self._shown_joint_noise = joint_noise

    def state(self) -> dict[str, np.ndarray]:
        out = self.ready.robots[0].proprio()
        out["joint_pos"] = out["joint_pos"] + self._shown_joint_noise
        out["cube_positions"] = self._shown_cubes.copy()
        out["pan_positions"] = self._shown_pans.copy()
        out["pan_at_rest"] = np.array(self.is_at_rest)
        out["beam_locked"] = np.array(self.is_locked)
        return out

    def counters(self) -> dict[str, Scalar]:
        return self.weighings.to_counters()

    # ------------------------------------------------------------------------------------- finish

    def is_on_mat(self, cube: str) -> bool:
        """Centre within reach of the mat's centre in x and in y, lowest point near its top."""
        data = self.ready.data
        low, _ = vertical_extent_m(self.ready.model, data, f"{cube}_geom")
        offset = np.abs(data.body(cube).xpos[:2] - np.array(s.MAT.centre_m))
        top = float(data.geom(MAT).xpos[2]) + s.MAT.half_m[2]
        return bool((offset <= s.MAT.reach_m).all() and abs(low - top) <= s.MAT.gap_m)

    def finish(self) -> Evidence:
        """Cubes on the mat at both readings, and the weighings."""
        data = self.ready.data
        data.xfrc_applied[self._cubes] = 0.0
        result = settle(self.ready, lambda cube: float(self.is_on_mat(cube)))
        first, second = result.readings
        on_mat = [
            i
            for i, name in enumerate(self.ready.pieces)
            if name not in result.excluded and min(first.values[name], second.values[name]) > 0.0
        ]
        return {
            "on_mat": ",".join(map(str, on_mat)),
            "cubes_on_mat": len(on_mat),
            "weighings": self.weighings.count,
            "settle_s": result.settle_s,
        }
