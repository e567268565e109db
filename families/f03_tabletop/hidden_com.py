"""Hidden COM: three sealed boxes with a ballast in one quadrant; scene and task."""

import math

import mujoco
import numpy as np

from families.f03_tabletop import spec as s
from families.f03_tabletop.instances import BoxInstance
from families.f03_tabletop.numbers.sessions import eye_of, look_rotation
from families.f03_tabletop.scene import (
    GEOM,
    MAT,
    Scene,
    add_camera,
    add_free_body,
    add_table,
    finish_scene,
    new_spec,
    primitive,
)
from families.f03_tabletop.task import RobotTask
from rle.service.adapter import Evidence, StepOutcome
from rle.sim.robosuite_robot import RobosuiteRobot, RobotConfig

BODY = "box"
BAR = "handle_bar"
_GLYPHS = {
    "A": ("010", "101", "111", "101", "101"),
    "B": ("110", "101", "110", "101", "110"),
    "C": ("011", "100", "100", "100", "011"),
    "D": ("110", "101", "101", "101", "110"),
}
"""Letters as 3 x 5 dots."""


def plate_inertia(mass_kg: float, size_m: np.ndarray) -> np.ndarray:
    """Inertia of a solid box about its centre, diag m/12 (b^2 + c^2, ...). Shape (3, 3), kg m^2."""
    x, y, z = np.square(size_m)
    return mass_kg / 12.0 * np.diag([y + z, x + z, x + y])


def shifted(inertia: np.ndarray, mass_kg: float, offset_m: np.ndarray) -> np.ndarray:
    """Parallel-axis theorem: I + m (|d|^2 E - d d^T)."""
    d = np.asarray(offset_m, dtype=float)
    return inertia + mass_kg * (d @ d * np.eye(3) - np.outer(d, d))


def mass_properties(instance: BoxInstance) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre of mass and inertia about it of shell, ballast and posts; the bar is a body of its own.

    The shell is six thin plates of equal areal density; the ballast lies on the box's floor.

    Returns:
        Mass kg, centre (3,) m in the box frame, inertia (3, 3) kg m^2.
    """
    b = s.BOX
    size = 2.0 * np.array(b.half_m)
    parts: list[tuple[float, np.ndarray, np.ndarray]] = []
    areas = [size[(i + 1) % 3] * size[(i + 2) % 3] for i in range(3)]
    for axis in range(3):
        for side in (-1.0, 1.0):
            plate, centre = size.copy(), np.zeros(3)
            plate[axis], centre[axis] = 0.0, side * b.half_m[axis]
            parts.append((instance.shell_kg * areas[axis] / (2.0 * sum(areas)), centre, plate))
    floor = -b.half_m[2] + instance.ballast_half_m[2]
    ballast = np.array([*instance.offset_m, floor])
    parts.append((instance.ballast_kg, ballast, 2.0 * np.array(instance.ballast_half_m)))
    post_z = b.half_m[2] + b.post_half_m[2]
    for side in (-1.0, 1.0):
        centre = np.array([side * b.post_x_m, 0.0, post_z])
        parts.append((b.post_mass_kg, centre, 2.0 * np.array(b.post_half_m)))
    mass = sum(m for m, _, _ in parts)
    centre = sum(m * c for m, c, _ in parts) / mass
    inertia = sum(shifted(plate_inertia(m, size), m, c - centre) for m, c, size in parts)
    return float(mass), np.asarray(centre), np.asarray(inertia)


def build(instance: BoxInstance) -> Scene:
    """Table, mat, box with handle and letters, one Panda, three cameras."""
    spec = new_spec()
    add_table(spec, s.HIDDEN_TABLE)
    b = s.BOX
    half_mat = b.mat_thickness_m / 2
    spec.worldbody.add_geom(
        name=MAT, type=GEOM.mjGEOM_BOX, size=(b.mat_half_m, b.mat_half_m, half_mat),
        pos=(0.0, 0.0, s.HIDDEN_TABLE.top_z_m + half_mat), friction=s.HIDDEN_TABLE.friction,
        rgba=(0.30, 0.34, 0.38, 1.0),
    )  # fmt: skip
    robot = RobosuiteRobot(
        RobotConfig(kind="Panda", index=0, base_pos_m=s.HIDDEN_BASE_M, hz=round(s.CONTROL_HZ))
    )
    robot.attach(spec)
    _add_box(spec, instance)
    for camera in s.HIDDEN_CAMERAS:
        eye = eye_of(camera)
        add_camera(
            spec.worldbody, camera.name, eye, look_rotation(eye, camera.target_m), camera.fovy_deg
        )
    return finish_scene(spec, [robot], (BODY,))


def _add_box(spec: mujoco.MjSpec, instance: BoxInstance) -> None:
    b = s.BOX
    body = add_free_body(spec, BODY, b.start_m)
    mass, centre, inertia = mass_properties(instance)
    body.explicitinertial = True
    body.mass, body.ipos = mass, centre
    body.fullinertia = [
        inertia[0, 0], inertia[1, 1], inertia[2, 2], inertia[0, 1], inertia[0, 2], inertia[1, 2],
    ]  # fmt: skip
    fields = primitive(
        friction=(b.friction, *b.friction_rest), condim=b.condim, rgba=b.rgba, mass=0.0
    )
    body.add_geom(name="box_shell", type=GEOM.mjGEOM_BOX, size=b.half_m, **fields)
    grip = {
        **fields,
        "friction": (b.handle_friction, *b.friction_rest),
        "rgba": (0.2, 0.2, 0.22, 1.0),
    }
    for name, side in (("low", -1.0), ("high", 1.0)):
        body.add_geom(
            name=f"handle_post_{name}", type=GEOM.mjGEOM_BOX, size=b.post_half_m,
            pos=(side * b.post_x_m, 0.0, b.half_m[2] + b.post_half_m[2]), **grip,
        )  # fmt: skip
    bar = body.add_body(name=BAR, pos=(0.0, 0.0, b.bar_z_m))
    hinge = bar.add_joint(
        name=f"{BAR}_joint", type=mujoco.mjtJoint.mjJNT_HINGE, axis=(1.0, 0.0, 0.0),
        range=(-b.bar_range_rad, b.bar_range_rad), limited=True,
    )  # fmt: skip
    hinge.damping = [b.bar_damping, 0.0, 0.0]
    bar.add_geom(
        name="handle_bar_geom",
        type=GEOM.mjGEOM_BOX,
        size=b.bar_half_m,
        **{**grip, "mass": b.bar_mass_kg},
    )
    for letter, (sx, sy) in s.QUADRANTS.items():
        _add_letter(body, letter, sx * b.letter_xy_m, sy * b.letter_xy_m)


def _add_letter(body: mujoco.MjsBody, letter: str, x_m: float, y_m: float) -> None:
    """Visual dots on the lid, readable from above with +y up."""
    dot_m = s.BOX.letter_dot_m
    for row, dots in enumerate(_GLYPHS[letter]):
        for column, dot in enumerate(dots):
            if dot == "1":
                body.add_geom(
                    name=f"letter_{letter}_{row}_{column}", type=GEOM.mjGEOM_BOX, contype=0,
                    conaffinity=0, mass=0.0, size=(dot_m / 2, dot_m / 2, 0.0002),
                    pos=(
                        x_m + (column - 1) * dot_m, y_m + (2 - row) * dot_m, s.BOX.half_m[2],
                    ),
                    rgba=(0.05, 0.05, 0.05, 1.0),
                )  # fmt: skip


class HiddenCom(RobotTask):
    """One box at a time. Lifted by its bar it hangs with its centre of mass below the hinge: tan(lean about
    the bar) = y / (height of the bar above it). The answer is the session's business, measured is only that it was touched."""

    action_dim = 7

    def build(self, instance: BoxInstance) -> Scene:
        scene = build(instance)
        self._bodies = {scene.model.body(name).id for name in (BODY, BAR)}
        self._qpos = int(scene.model.joint(f"{BODY}_joint").qposadr[0])
        self._dof = int(scene.model.joint(f"{BODY}_joint").dofadr[0])
        bar = scene.model.joint(f"{BAR}_joint")
        self._bar_qpos, self._bar_dof = int(bar.qposadr[0]), int(bar.dofadr[0])
        return scene

    def after_reset(self) -> None:
        self._touched = False
        self._nominal()
        mujoco.mj_forward(self.ready.model, self.ready.data)

    def _nominal(self) -> None:
        """The box exactly where it was put: pictures before contact cannot depend on the ballast."""
        data = self.ready.data
        data.qpos[self._qpos : self._qpos + 7] = (*s.BOX.start_m, 1.0, 0.0, 0.0, 0.0)
        data.qvel[self._dof : self._dof + 6] = 0.0
        data.qpos[self._bar_qpos] = data.qvel[self._bar_dof] = 0.0

    def each_substep(self, data: mujoco.MjData) -> None:
        if self._touched:
            return
        self._touched = bool(self._bodies & self.ready.robots[0].touched())
        if not self._touched:
            self._nominal()

    def after_step(self) -> StepOutcome:
        return StepOutcome()

    def lean_rad(self) -> tuple[float, float]:
        """Rotation of the box about the world's x and y, small-angle components, rad."""
        up = self.ready.data.body(BODY).xmat.reshape(3, 3)[:, 2]
        return math.atan2(-up[1], up[2]), math.atan2(up[0], up[2])

    def finish(self) -> Evidence:
        return {"touched": self._touched}
