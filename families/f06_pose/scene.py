"""Table, arm, stick and one block as a compiled model with named handles. No numbers of its own.

One model per shape is compiled once; what a scene draws (light, colours, pose) is written into it.
"""

import functools
import math
from dataclasses import dataclass

import mujoco
import numpy as np

from families.f06_pose import spec
from rle.paths import assets_dir
from rle.sim import model as lookup

_BOX, _CYLINDER = mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CYLINDER
_CAPSULE, _PLANE = mujoco.mjtGeom.mjGEOM_CAPSULE, mujoco.mjtGeom.mjGEOM_PLANE
_STICK_RGBA, _FLOOR_RGBA = (0.16, 0.16, 0.17, 1.0), (0.35, 0.36, 0.38, 1.0)
JOINTS = tuple(f"joint{i + 1}" for i in range(spec.N_JOINTS))
CAMERA = "oblique"


@dataclass(frozen=True)
class Look:
    """Light and colours of one scene. Diffuse and ambient are grey levels in [0, 1]."""

    key_pos_m: spec.Vec3
    key_diffuse: float
    fill_diffuse: float
    ambient: float
    table_rgb: spec.Vec3

    @classmethod
    def draw(cls, rng: np.random.Generator) -> "Look":
        """Draws a scene's light from stream `light`."""
        azimuth = rng.uniform(0.0, 2.0 * math.pi)
        elevation = math.radians(rng.uniform(*spec.KEY_ELEVATION_DEG))
        distance = rng.uniform(*spec.KEY_DISTANCE_M)
        flat = distance * math.cos(elevation)
        key = (flat * math.cos(azimuth), flat * math.sin(azimuth), distance * math.sin(elevation))
        diffuse, fill = rng.uniform(*spec.KEY_DIFFUSE), rng.uniform(*spec.FILL_DIFFUSE)
        ambient = rng.uniform(*spec.AMBIENT)
        grey = rng.uniform(*spec.TABLE_GREY)
        r, g, b = np.clip(grey + rng.uniform(*spec.TABLE_TINT, size=3), 0.0, 1.0)
        return cls(key, diffuse, fill, ambient, (float(r), float(g), float(b)))


@dataclass(frozen=True)
class Scene:
    """A compiled model of one shape and where its named things are."""

    model: mujoco.MjModel
    shape_id: int
    block_body: int
    block_qpos: slice
    """Position and quat_wxyz of the block in qpos."""
    arm_qpos: slice
    tip_site: int
    """Body frame of the stick's tip, z along the stick."""

    def write(self, look: Look) -> None:
        """Puts a scene's light and colours into the model; nothing is compiled again."""
        model = self.model
        key, fill = model.light("key"), model.light("fill")
        key.pos[:] = look.key_pos_m
        key.dir[:] = -np.array(look.key_pos_m) / np.linalg.norm(look.key_pos_m)
        key.diffuse[:], fill.diffuse[:] = look.key_diffuse, look.fill_diffuse
        model.vis.headlight.ambient[:] = look.ambient
        model.geom("table").rgba[:3] = look.table_rgb


@functools.cache
def block_boxes(shape_id: int) -> tuple[tuple[spec.Vec3, spec.Vec3], ...]:
    """(centre, half size) of each box of a block in its own frame, m."""
    half_z = spec.BLOCK_HEIGHT_M / 2
    cell = spec.CELL_M
    return tuple(
        ((x * cell, y * cell, half_z), (w * cell / 2, h * cell / 2, half_z))
        for x, y, w, h in spec.BLOCKS[spec.SHAPES[shape_id]]
    )


@functools.cache
def footprint_m(shape_id: int) -> np.ndarray:
    """Corners of a block's boxes in its own frame. Shape (4 n_boxes, 2), m."""
    return np.array(
        [
            (cx + sx * hx, cy + sy * hy)
            for (cx, cy, _), (hx, hy, _) in block_boxes(shape_id)
            for sx, sy in ((-1, -1), (1, -1), (1, 1), (-1, 1))
        ]
    )


@functools.cache
def outline_m(shape_id: int) -> np.ndarray:
    """Points along the edges of a block's boxes, 41 per edge, in its own frame. Shape (n, 2), m."""
    share = np.linspace(0.0, 1.0, 41)[:, None]
    corners = footprint_m(shape_id).reshape(-1, 4, 2)
    edges = [a + share * (b - a) for box in corners for a, b in zip(box, np.roll(box, -1, axis=0))]
    return np.concatenate(edges)


@functools.cache
def centre_of_mass_m(shape_id: int) -> np.ndarray:
    """Centre of mass in the block frame, in the plane of the table. Shape (2,), m."""
    centres = np.array([c[:2] for c, _ in block_boxes(shape_id)])
    areas = np.array([h[0] * h[1] for _, h in block_boxes(shape_id)])
    return areas @ centres / areas.sum()


def camera_pose() -> np.ndarray:
    """T_cam_table: columns right, up, backward, position, in the table frame. Shape (4, 4)."""
    eye = np.array(spec.CAMERA_POS_M)
    backward = eye - np.array(spec.CAMERA_AIM_M)
    backward /= np.linalg.norm(backward)
    right = np.cross((0.0, 0.0, 1.0), backward)
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3, :3] = np.stack((right, np.cross(backward, right), backward), axis=1)
    pose[:3, 3] = eye
    return pose


def camera_matrix() -> np.ndarray:
    """Pinhole matrix K, pixel centres at half integers. Shape (3, 3), px."""
    width, height = spec.IMAGE_WH_PX
    f = spec.FOCAL_PX
    return np.array([[f, 0.0, width / 2], [0.0, f, height / 2], [0.0, 0.0, 1.0]])


@functools.cache
def build(shape_id: int) -> Scene:
    """The scene of one shape, compiled once per process; the block stands at the origin.

    Args:
        shape_id: 0 T, 1 C, 2 F.
    """
    cell = mujoco.MjSpec.from_file(str(assets_dir() / "robots" / "panda" / "panda.xml"))
    cell.modelname = f"push_{spec.SHAPES[shape_id]}"
    cell.compiler.degree = False
    option = cell.option
    option.timestep = spec.TIMESTEP_S
    option.gravity = (0.0, 0.0, -spec.GRAVITY_M_S2)
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.impratio = spec.IMPRATIO
    # A diverged state must be seen, not silently restarted.
    option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    default = cell.default.geom
    default.contype, default.conaffinity = 1, 3
    default.friction = spec.FRICTION
    _add_world(cell)
    _add_stick(cell)
    _add_block(cell, shape_id)
    model = cell.compile()
    block = int(lookup.qpos_addresses(model, ["block_free"])[0])
    arm = int(lookup.qpos_addresses(model, JOINTS)[0])
    return Scene(
        model=model,
        shape_id=shape_id,
        block_body=int(model.body("block").id),
        block_qpos=slice(block, block + 7),
        arm_qpos=slice(arm, arm + spec.N_JOINTS),
        tip_site=int(model.site("tip").id),
    )


def _add_world(cell: mujoco.MjSpec) -> None:
    visual = cell.visual
    visual.headlight.diffuse = [spec.HEADLIGHT_DIFFUSE] * 3
    visual.headlight.specular = [0.0] * 3
    visual.quality.offsamples, visual.quality.shadowsize = 0, spec.SHADOW_SIZE_PX
    visual.global_.offwidth, visual.global_.offheight = spec.IMAGE_WH_PX
    visual.map.znear, visual.map.zfar = 0.01, 10.0
    cell.stat.extent, cell.stat.center = 1.0, (0.0, 0.0, 0.0)
    world = cell.worldbody
    world.add_light(
        name="key", type=mujoco.mjtLightType.mjLIGHT_SPOT, pos=(0, 0, 2), dir=(0, 0, -1),
        castshadow=True,
    )  # fmt: skip
    world.add_light(
        name="fill", type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, pos=(0, 0, 3), dir=(0, 0, -1),
        specular=(0, 0, 0), castshadow=False,
    )  # fmt: skip
    half = (*spec.TABLE_HALF_M, spec.TABLE_THICKNESS_M / 2)
    world.add_geom(name="table", type=_BOX, size=half, pos=(0, 0, -half[2]))
    world.add_geom(
        name="floor", type=_PLANE, size=(5, 5, 0.1), pos=(0, 0, spec.FLOOR_Z_M), rgba=_FLOOR_RGBA
    )
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, camera_pose()[:3, :3].ravel())
    world.add_camera(name=CAMERA, pos=spec.CAMERA_POS_M, quat=quat, fovy=spec.CAMERA_VFOV_DEG)


def _add_stick(cell: mujoco.MjSpec) -> None:
    base = cell.body("link0")
    yaw = spec.ARM_BASE_YAW_RAD
    base.pos, base.quat = spec.ARM_BASE_POS_M, (math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))
    flange = cell.site("flange")
    stick = cell.body("link7").add_body(name="stick", pos=flange.pos, quat=flange.quat)
    low, high = spec.MOUNT_Z_M
    stick.add_geom(
        name="mount", type=_CYLINDER, size=(spec.MOUNT_RADIUS_M, (high - low) / 2, 0),
        pos=(0, 0, (low + high) / 2), mass=spec.MOUNT_KG, rgba=_STICK_RGBA, contype=0, conaffinity=0,
    )  # fmt: skip
    low, high = spec.SHAFT_Z_M
    stick.add_geom(
        name="shaft", type=_CAPSULE, size=(spec.SHAFT_RADIUS_M, (high - low) / 2, 0),
        pos=(0, 0, (low + high) / 2), mass=spec.SHAFT_KG, rgba=_STICK_RGBA, contype=2, conaffinity=0,
    )  # fmt: skip
    stick.add_site(name="tip", pos=(0, 0, spec.TIP_Z_M), size=(0.002, 0, 0), group=4)


def _add_block(cell: mujoco.MjSpec, shape_id: int) -> None:
    block = cell.worldbody.add_body(name="block")
    block.add_freejoint(name="block_free")
    for i, (centre, half) in enumerate(block_boxes(shape_id)):
        block.add_geom(
            name=f"block_{i}", type=_BOX, pos=centre, size=half, rgba=spec.BLOCK_RGBA,
            density=spec.BLOCK_DENSITY_KG_M3,
        )  # fmt: skip
