"""Pocket cube: the mechanism, how its state and turns are read, and the two-arm task."""

from dataclasses import dataclass, field

import mujoco
import numpy as np

from families.f03_tabletop import cube_solver
from families.f03_tabletop import spec as s
from families.f03_tabletop.instances import CubeInstance
from families.f03_tabletop.numbers.sessions import look_rotation
from families.f03_tabletop.scene import (
    GEOM,
    Scene,
    add_camera,
    add_table,
    finish_scene,
    new_spec,
)
from families.f03_tabletop.task import RobotTask
from rle.service.adapter import BadRequest, Evidence, ExtraOutcome, StepOutcome
from rle.service.protocol import Scalar
from rle.sim.arm_control import quat_xyzw
from rle.sim.model import dof_addresses, qpos_addresses
from rle.sim.robosuite_robot import RobosuiteRobot, RobotConfig

CORE = "core"
CUBIES = tuple(f"cubie_{i}" for i in range(8))
CORNERS = np.array([[1.0 if i >> axis & 1 else -1.0 for axis in range(3)] for i in range(8)])
"""Home corner of each cubie, signs of x, y, z. Shape (8, 3)."""


def _cube_rotations() -> np.ndarray:
    """The 24 rotations of a cube. Shape (24, 3, 3)."""
    found: list[np.ndarray] = []
    for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        for signs in np.ndindex(2, 2, 2):
            matrix = np.zeros((3, 3))
            for row, (column, sign) in enumerate(zip(order, signs, strict=True)):
                matrix[row, column] = 1.0 - 2.0 * sign
            if np.linalg.det(matrix) > 0:
                found.append(matrix)
    return np.array(found)


ROTATIONS = _cube_rotations()


def _location(rotation: np.ndarray, cubie: int) -> int:
    """Where a cubie's x sticker is after a rotation; see `cube_solver`."""
    corner = rotation @ CORNERS[cubie]
    axis = int(np.argmax(np.abs(rotation @ np.array([1.0, 0.0, 0.0]))))
    return 3 * sum((corner[i] > 0) << i for i in range(3)) + axis


LOCATIONS = np.array(
    [[_location(rotation, cubie) for cubie in range(8)] for rotation in ROTATIONS], dtype=np.uint8
)
"""Location of each cubie's x sticker under each rotation. Shape (24, 8)."""


def rotations_of(state: np.ndarray) -> np.ndarray:
    """Rotation of each cubie that shows a state. Shape (8,) to (8, 3, 3)."""
    return np.array(
        [ROTATIONS[int(np.flatnonzero(LOCATIONS[:, i] == state[i])[0])] for i in range(8)]
    )


def nearest(relative: np.ndarray) -> tuple[np.ndarray, float]:
    """State that eight rotations are nearest to, and how far they are from it.

    Args:
        relative: Rotation of each cubie relative to cubie 0. Shape (8, 3, 3).

    Returns:
        State of `cube_solver`, shape (8,), and the largest angle from it, rad.
    """
    traces = np.einsum("kij,cij->ck", ROTATIONS, relative)
    best = traces.argmax(axis=1)
    cosines = np.clip((traces[np.arange(8), best] - 1.0) / 2.0, -1.0, 1.0)
    return LOCATIONS[best, np.arange(8)], float(np.arccos(cosines).max())


@dataclass
class TurnCounter:
    """Reads states one after the other and counts quarter turns between aligned legal ones."""

    last: np.ndarray
    """Last aligned legal state."""
    turns: int = 0
    unclassified: int = 0
    is_aligned: bool = True
    state: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.last = cube_solver.canonical(self.last)
        self.state = self.last

    def see(self, relative: np.ndarray) -> None:
        """A reading of the eight rotations relative to cubie 0, shape (8, 3, 3)."""
        state, angle = nearest(relative)
        if self.is_aligned:
            self.is_aligned = angle <= s.TURNS.lose_rad
            return
        if angle > s.TURNS.align_rad:
            return
        self.is_aligned = True
        if not cube_solver.is_legal(state):
            return
        self.state = cube_solver.canonical(state)
        self._count(self.state)
        self.last = self.state

    def _count(self, now: np.ndarray) -> None:
        if (now == self.last).all():
            return
        for name, table in cube_solver.MOVES.items():
            if (cube_solver.canonical(table[self.last]) == now).all():
                self.turns += cube_solver.quarters(name)
                return
        self.turns += 1
        self.unclassified += 1

    @property
    def is_solved(self) -> bool:
        """The last reading is aligned, legal and solved."""
        return self.is_aligned and cube_solver.is_solved(self.last)


# ------------------------------------------------------------------------------------------- scene


def add_fork(spec: mujoco.MjSpec) -> None:
    """Four box posts on a thin pedestal on the table."""
    f = s.FORK
    world = spec.worldbody
    low, high = f.post_z_m
    rgba = (0.35, 0.36, 0.40, 1.0)
    for i, (sx, sy) in enumerate(((-1, -1), (-1, 1), (1, -1), (1, 1))):
        world.add_geom(
            name=f"fork_post_{i}", type=GEOM.mjGEOM_BOX, rgba=rgba,
            size=(f.post_half_m, f.post_half_m, (high - low) / 2),
            pos=(sx * f.post_xy_m, sy * f.post_xy_m, (high + low) / 2),
        )  # fmt: skip
    world.add_geom(
        name="fork_pedestal", type=GEOM.mjGEOM_BOX, size=f.pedestal_half_m, rgba=rgba,
        pos=(0.0, 0.0, f.pedestal_z_m),
    )  # fmt: skip
    top = f.pedestal_z_m - f.pedestal_half_m[2]
    half = (top - s.CUBE_TABLE.top_z_m) / 2
    world.add_geom(
        name="fork_stem", type=GEOM.mjGEOM_CYLINDER, size=(f.stem_radius_m, half, 0.0), rgba=rgba,
        pos=(0.0, 0.0, s.CUBE_TABLE.top_z_m + half),
    )  # fmt: skip


def add_cube(spec: mujoco.MjSpec) -> None:
    """Core on a free joint, eight cubies on ball joints at its centre, twenty-four stickers."""
    m = s.MECHANISM
    core = spec.worldbody.add_body(name=CORE, pos=s.CUBE_START_M)
    core.add_freejoint(name=f"{CORE}_joint")
    core.add_geom(
        name="core_geom", type=GEOM.mjGEOM_SPHERE, size=(m.core_radius_m, 0.0, 0.0),
        mass=m.core_mass_kg, contype=0, conaffinity=0, rgba=(0.1, 0.1, 0.1, 1.0),
    )  # fmt: skip
    middle, half = (m.outer_m + m.inner_m) / 2, (m.outer_m - m.inner_m) / 2
    for name, corner in zip(CUBIES, CORNERS, strict=True):
        body = core.add_body(name=name)
        joint = body.add_joint(name=f"{name}_joint", type=mujoco.mjtJoint.mjJNT_BALL)
        joint.frictionloss, joint.armature = m.frictionloss, m.armature
        body.add_geom(
            name=f"{name}_geom", type=GEOM.mjGEOM_BOX, size=(half,) * 3, pos=middle * corner,
            mass=m.cubie_mass_kg, friction=(0.0, 0.0, 0.0), condim=m.contact.condim,
            solref=m.contact.solref, solimp=m.contact.solimp, solmix=m.solmix,
            rgba=(0.08, 0.08, 0.09, 1.0),
        )  # fmt: skip
        for axis in range(3):
            _add_sticker(body, name, corner, axis)


def _add_sticker(body: mujoco.MjsBody, cubie: str, corner: np.ndarray, axis: int) -> None:
    m = s.MECHANISM
    size = np.full(3, (m.outer_m - m.inner_m) / 2 - m.sticker_margin_m)
    size[axis] = m.sticker_thickness_m
    position = (m.outer_m + m.inner_m) / 2 * corner
    position[axis] = corner[axis] * m.outer_m
    face = ("+" if corner[axis] > 0 else "-") + "xyz"[axis]
    body.add_geom(
        name=f"{cubie}_sticker_{'xyz'[axis]}", type=GEOM.mjGEOM_BOX, size=size, pos=position,
        contype=0, conaffinity=0, mass=0.0, rgba=s.STICKER_RGBA[face],
    )  # fmt: skip


def build() -> Scene:
    """The solved cube on its fork between two fixed arms."""
    spec = new_spec()
    add_table(spec, s.CUBE_TABLE)
    add_fork(spec)
    add_cube(spec)
    robots = [
        RobosuiteRobot(
            RobotConfig(
                kind="Panda",
                index=i,
                base_pos_m=s.ARM_BASES_M[i],
                base_quat_wxyz=s.ARM_QUATS_WXYZ[i],
                hz=round(s.CONTROL_HZ),
                init_qpos_rad=s.ARM_START_RAD[i],
            )  # fmt: skip
        )
        for i in range(2)
    ]
    for robot in robots:
        robot.attach(spec)
        for pad in robot.handles.pads:
            spec.geom(pad).friction = s.CUBE_PAD_FRICTION
            spec.geom(pad).condim = s.CUBE_PAD_CONDIM
    rotation = look_rotation(s.FRONT_CAMERA_M, s.FRONT_TARGET_M)
    add_camera(spec.worldbody, "front", s.FRONT_CAMERA_M, rotation, s.FRONT_FOVY_DEG)
    return finish_scene(spec, robots, (CORE,))


# -------------------------------------------------------------------------------------------- task


class PocketCube(RobotTask):
    """Two fixed arms and a scrambled cube."""

    action_dim = 14

    def build(self, instance: CubeInstance) -> Scene:
        scene = self.scene or build()
        names = [f"{name}_joint" for name in CUBIES]
        self._cubie_qpos = qpos_addresses(scene.model, names)[:, None] + np.arange(4)
        self._cubie_dofs = dof_addresses(scene.model, names)[:, None] + np.arange(3)
        core = scene.model.joint(f"{CORE}_joint")
        self._core_qpos, self._core_dof = int(core.qposadr[0]), int(core.dofadr[0])
        self._bodies = np.array([scene.model.body(name).id for name in CUBIES])
        self._scramble = cube_solver.apply(cube_solver.SOLVED, instance.turns)
        return scene

    def restore(self, counters: dict[str, Scalar]) -> None:
        self._kept = {name: int(counters.get(name, 0)) for name in ("turns", "unclassified")}
        self.recoveries = int(counters.get("recoveries", 0))

    def after_reset(self) -> None:
        self.counter = TurnCounter(self._scramble, self._kept["turns"], self._kept["unclassified"])
        self._good = self._scramble
        """Last aligned legal state seen at the rescue height or above."""
        self._substep = 0
        self._solved_steps = 0
        self.is_solved = False
        self._put_cube(self._scramble)

    def _put_cube(self, state: np.ndarray) -> None:
        """The cube upright at its start in a state, at rest."""
        data = self.ready.data
        data.qpos[self._core_qpos : self._core_qpos + 7] = (*s.CUBE_START_M, 1.0, 0.0, 0.0, 0.0)
        data.qvel[self._core_dof : self._core_dof + 6] = 0.0
        quat = np.zeros(4)
        for address, rotation in zip(self._cubie_qpos, rotations_of(state), strict=True):
            mujoco.mju_mat2Quat(quat, rotation.reshape(-1))
            data.qpos[address] = quat
        data.qvel[self._cubie_dofs] = 0.0
        mujoco.mj_forward(self.ready.model, data)

    def relative_rotations(self) -> np.ndarray:
        """Rotation of each cubie relative to cubie 0. Shape (8, 3, 3)."""
        matrices = self.ready.data.xmat[self._bodies].reshape(8, 3, 3)
        return matrices[0].T @ matrices

    @property
    def core_z_m(self) -> float:
        return float(self.ready.data.body(CORE).xpos[2])

    def each_substep(self, data: mujoco.MjData) -> None:
        self._substep += 1
        if self._substep % s.TURNS.check_every:
            return
        self.counter.see(self.relative_rotations())
        if self.counter.is_aligned and self.core_z_m >= s.TURNS.rescue_z_m:
            self._good = self.counter.last

    def _is_still_and_solved(self) -> bool:
        t, data = s.TURNS, self.ready.data
        linear = data.qvel[self._core_dof : self._core_dof + 3]
        angular = data.qvel[self._core_dof + 3 : self._core_dof + 6]
        cubies = np.linalg.norm(data.qvel[self._cubie_dofs], axis=1)
        return bool(
            self.counter.is_solved
            and self.core_z_m > t.solved_z_m
            and np.linalg.norm(linear) < t.solved_lin_m_s
            and np.linalg.norm(angular) < t.solved_ang_rad_s
            and (cubies < t.solved_ang_rad_s).all()
        )

    def after_step(self) -> StepOutcome:
        self._solved_steps = self._solved_steps + 1 if self._is_still_and_solved() else 0
        self.is_solved = self._solved_steps >= s.TURNS.solved_steps
        return StepOutcome(
            success=self.is_solved,
            ended="success" if self.is_solved else None,
            events={"turns": self.counter.turns, "unclassified": self.counter.unclassified},
        )

    def extra(self, op: str, args: dict[str, Scalar]) -> ExtraOutcome:
        """`recover_drop`: one hold step, then cube and arms at their start."""
        t, data = s.TURNS, self.ready.data
        speed = float(np.linalg.norm(data.qvel[self._core_dof : self._core_dof + 3]))
        if self.core_z_m >= t.rescue_z_m or speed >= t.rescue_m_s:
            raise BadRequest(
                f"recover_drop needs the cube below z {t.rescue_z_m:g} m (it is at {self.core_z_m:.3f} m) "
                f"and slower than {t.rescue_m_s:g} m/s ({speed:.3f} m/s)"
            )
        self.hold()
        good = self._good
        for robot in self.ready.robots:
            robot.reset()
        self._put_cube(good)
        self.counter = TurnCounter(good, self.counter.turns, self.counter.unclassified)
        self.recoveries += 1
        return ExtraOutcome(executed=1, events={"recoveries": self.recoveries})

    def state(self) -> dict[str, np.ndarray]:
        out: dict[str, np.ndarray] = {}
        for i, robot in enumerate(self.ready.robots):
            out |= {f"arm{i}_{name}": value for name, value in robot.proprio().items()}
            position, rotation = robot.base_pose()
            out[f"arm{i}_base_pos"], out[f"arm{i}_base_quat"] = position, quat_xyzw(rotation)
        return out

    def privileged(self) -> dict[str, np.ndarray]:
        state, angle = nearest(self.relative_rotations())
        core = self.ready.data.body(CORE)
        reference = self.ready.data.xmat[self._bodies[0]].reshape(3, 3)
        return {
            CORE: np.concatenate([core.xpos, core.xquat]),
            "state": state.astype(np.int64),
            "misalignment_rad": np.array(angle),
            "frame": reference.copy(),
        }

    def counters(self) -> dict[str, Scalar]:
        return {
            "turns": self.counter.turns,
            "unclassified": self.counter.unclassified,
            "recoveries": self.recoveries,
        }

    def finish(self) -> Evidence:
        return {"solved": self.is_solved, **self.counters()}
