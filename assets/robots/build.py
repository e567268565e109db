"""Writes the models of the UR5e and the xArm7 from the facts in robosuite 1.5.2's packaged models.

Taken from there: joint frames, axes and ranges, link masses, centres and inertias (the vendors' values),
and the outer shape of every link, to which capsules are fitted. The committed XML holds only numbers:
nothing at run time reads a mesh or imports robosuite. Run once: `python assets/robots/build.py`.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import mujoco
import numpy as np

HERE = Path(__file__).parent
N_POINTS = 3000
"""Surface points per link, spread by area: mesh vertices crowd at the flanges."""
SEED = 8
OUTSIDE_M, OUTSIDE_SHARE = 0.010, 0.03
"""A fit is good enough when at most this share of points lies further outside than this."""
SPLITS = ((0.0, 1.0), (0.0, 0.5, 1.0), (0.0, 0.33, 0.67, 1.0), (0.0, 0.25, 0.75, 1.0),
          (0.0, 0.2, 0.8, 1.0))  # fmt: skip
REASSIGN = 8


@dataclass(frozen=True)
class Drive:
    """What robosuite's torque-driven models lack: servo and joint numbers, in joint order."""

    kp: tuple[float, ...]
    kv: tuple[float, ...]
    limit_n_m: tuple[float, ...]
    damping: tuple[float, ...]
    frictionloss: float
    armature: float = 0.1


@dataclass(frozen=True)
class Source:
    name: str
    title: str
    bodies: tuple[str, ...]
    """Link bodies in robosuite's model, base first."""
    drive: Drive
    tool_pos: str
    tool_quat: str
    base_inertial: str | None = None
    """Mass, centre and inertia of the base link where robosuite has none."""


UR5E = Source(
    name="ur5e",
    title="Universal Robots UR5e",
    bodies=("fixed_base_link", "shoulder_link", "upper_arm_link", "forearm_link", "wrist_1_link",
            "wrist_2_link", "wrist_3_link"),
    drive=Drive(
        kp=(3500.0,) * 3 + (3000.0,) * 3, kv=(350.0,) * 3 + (150.0,) * 3,
        limit_n_m=(150.0,) * 3 + (28.0,) * 3, damping=(10.0,) * 6, frictionloss=0.0,
    ),
    tool_pos="0 0.098 0",
    tool_quat="0.7071067811865476 -0.7071067811865476 0 0",
    base_inertial='mass="4" pos="0 0 0" diaginertia="0.004433 0.004433 0.0072"',
)  # fmt: skip
XARM7 = Source(
    name="xarm7",
    title="UFACTORY xArm7",
    bodies=("base", "link1", "link2", "link3", "link4", "link5", "link6", "link7"),
    drive=Drive(
        kp=(1500.0,) * 2 + (1000.0,) * 3 + (800.0,) * 2,
        kv=(150.0,) * 2 + (100.0,) * 3 + (80.0,) * 2,
        limit_n_m=(50.0,) * 2 + (30.0,) * 3 + (20.0,) * 2,
        damping=(10.0,) * 2 + (5.0,) * 3 + (2.0,) * 2, frictionloss=1.0,
    ),
    tool_pos="0 0 0",
    tool_quat="1 0 0 0",
)  # fmt: skip


@dataclass(frozen=True)
class Capsule:
    start_m: np.ndarray
    end_m: np.ndarray
    radius_m: float

    def distance(self, points_m: np.ndarray) -> np.ndarray:
        """Signed distance of points to the surface, shape (n,); positive outside."""
        axis = self.end_m - self.start_m
        along = np.clip((points_m - self.start_m) @ axis / max(axis @ axis, 1e-12), 0.0, 1.0)
        nearest = self.start_m + along[:, None] * axis
        return np.linalg.norm(points_m - nearest, axis=1) - self.radius_m

    @property
    def volume_m3(self) -> float:
        length = float(np.linalg.norm(self.end_m - self.start_m))
        return np.pi * self.radius_m**2 * (length + 4.0 / 3.0 * self.radius_m)


def fit_one(points_m: np.ndarray) -> Capsule:
    """Smallest of the three capsules along the principal axes; radius = 90th percentile."""
    mean = points_m.mean(axis=0)
    axes = np.linalg.eigh(np.cov((points_m - mean).T))[1].T
    fits = []
    for k in range(3):
        along, across = axes[k], axes[[(k + 1) % 3, (k + 2) % 3]]
        t, uv = (points_m - mean) @ along, (points_m - mean) @ across.T
        middle = np.percentile(uv, [2, 98], axis=0).mean(axis=0)
        radius = float(np.percentile(np.linalg.norm(uv - middle, axis=1), 90))
        low, high = t.min() + radius, t.max() - radius
        if low > high:
            low = high = 0.5 * (low + high)
        centre = mean + middle @ across
        fits.append(Capsule(centre + low * along, centre + high * along, radius))
    return min(fits, key=lambda c: c.volume_m3)


def outside_share(capsules: list[Capsule], points_m: np.ndarray) -> float:
    gap = np.min([c.distance(points_m) for c in capsules], axis=0)
    return float(np.mean(gap > OUTSIDE_M))


def fit(points_m: np.ndarray) -> list[Capsule]:
    """One to three capsules that cover the points; the first division that is good enough."""
    mean = points_m.mean(axis=0)
    main = np.linalg.eigh(np.cov((points_m - mean).T))[1][:, -1]
    t = (points_m - mean) @ main
    best: tuple[float, list[Capsule]] | None = None
    for cuts in SPLITS:
        edges = t.min() + np.array(cuts) * np.ptp(t)
        label = np.clip(np.searchsorted(edges, t, side="right") - 1, 0, len(cuts) - 2)
        for _ in range(REASSIGN if len(cuts) > 2 else 1):
            groups = [points_m[label == i] for i in range(len(cuts) - 1)]
            if min(len(g) for g in groups) < 20:
                break
            capsules = [fit_one(g) for g in groups]
            share = outside_share(capsules, points_m)
            if best is None or share < best[0]:
                best = (share, capsules)
            label = np.argmin([c.distance(points_m) for c in capsules], axis=0)
        if best is not None and best[0] <= OUTSIDE_SHARE:
            break
    assert best is not None
    return best[1]


def surface_points(
    model: mujoco.MjModel, body: int, rng: np.random.Generator, mesh_names: tuple[str, ...] = ()
) -> np.ndarray:
    """`N_POINTS` points over the picture meshes of a body, in its frame. Shape (n, 3), m."""
    triangles = []
    for geom in range(
        model.body_geomadr[body], model.body_geomadr[body] + model.body_geomnum[body]
    ):
        if model.geom_type[geom] != mujoco.mjtGeom.mjGEOM_MESH or model.geom_group[geom] != 1:
            continue
        triangles.append(_geom_triangles(model, geom))
    corners = np.concatenate(triangles)
    area = 0.5 * np.linalg.norm(
        np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
    )
    pick = rng.choice(len(corners), size=N_POINTS, p=area / area.sum())
    u, v = rng.random((2, N_POINTS, 1))
    flip = u + v > 1.0
    u, v = np.where(flip, 1.0 - u, u), np.where(flip, 1.0 - v, v)
    a, b, c = corners[pick].transpose(1, 0, 2)
    return a + u * (b - a) + v * (c - a)


def _geom_triangles(model: mujoco.MjModel, geom: int) -> np.ndarray:
    """Triangles of a mesh geom in its body's frame. Shape (n, 3, 3)."""
    mesh = model.geom_dataid[geom]
    verts = model.mesh_vert[model.mesh_vertadr[mesh] :][: model.mesh_vertnum[mesh]]
    faces = model.mesh_face[model.mesh_faceadr[mesh] :][: model.mesh_facenum[mesh]]
    rotation = np.empty(9)
    mujoco.mju_quat2Mat(rotation, model.geom_quat[geom])
    return (verts @ rotation.reshape(3, 3).T + model.geom_pos[geom])[faces]


def _numbers(values: np.ndarray, digits: int = 9) -> str:
    return " ".join(f"{v:.{digits}g}" for v in np.where(np.abs(values) < 1e-12, 0.0, values))


def load(source: Source) -> mujoco.MjModel:
    """robosuite's model with the link-7 mesh of the xArm7, which it loads but does not show."""
    package = find_spec("robosuite")
    assert package is not None and package.origin is not None
    folder = Path(package.origin).parent / "models/assets/robots" / source.name
    spec = mujoco.MjSpec.from_file(str(folder / "robot.xml"))
    if source.name == "xarm7":
        geom = spec.body("link7").add_geom()
        geom.type, geom.meshname, geom.group = mujoco.mjtGeom.mjGEOM_MESH, "link7", 1
    return spec.compile()


def write(source: Source) -> None:
    """Writes `<name>/<name>.xml` and prints how well the capsules cover each link."""
    model = load(source)
    rng = np.random.default_rng(SEED)
    lines = [
        f'<mujoco model="{source.name}">',
        "  <!-- Written by ../build.py; README.md names every source. -->",
        '  <compiler angle="radian"/>',
        "  <worldbody>",
    ]
    for depth, name in enumerate(source.bodies):
        body = model.body(name).id
        pad = "  " * (depth + 2)
        pose = ""
        if depth:
            pose = (
                f' pos="{_numbers(model.body_pos[body])}" quat="{_numbers(model.body_quat[body])}"'
            )
        lines.append(f'{pad}<body name="link{depth}"{pose}>')
        if depth == 0 and source.base_inertial:
            lines.append(f"{pad}  <inertial {source.base_inertial}/>")
        else:
            lines.append(
                f'{pad}  <inertial mass="{model.body_mass[body]:.9g}" '
                f'pos="{_numbers(model.body_ipos[body])}" quat="{_numbers(model.body_iquat[body])}" '
                f'diaginertia="{_numbers(model.body_inertia[body])}"/>'
            )
        if depth:
            joint = model.body_jntadr[body]
            lines.append(
                f'{pad}  <joint name="joint{depth}" axis="{_numbers(model.jnt_axis[joint])}" '
                f'range="{_numbers(model.jnt_range[joint])}" armature="{source.drive.armature:g}" '
                f'damping="{source.drive.damping[depth - 1]:g}" '
                f'frictionloss="{source.drive.frictionloss:g}"/>'
            )
        points = surface_points(model, body, rng)
        capsules = fit(points)
        gap = np.min([c.distance(points) for c in capsules], axis=0)
        print(
            f"{source.name} link{depth}: {len(capsules)} capsules, "
            f"{100 * np.mean(gap > OUTSIDE_M):.1f} % of points over 10 mm outside, "
            f"largest {1000 * gap.max():.0f} mm"
        )
        for k, capsule in enumerate(capsules):
            ends = np.concatenate([capsule.start_m, capsule.end_m])
            ends = np.round(ends, 4)
            shape = "capsule"
            if np.linalg.norm(ends[3:] - ends[:3]) < 2e-3:
                shape = "sphere"
            place = (
                f'fromto="{_numbers(ends)}"' if shape == "capsule" else
                f'pos="{_numbers(0.5 * (ends[:3] + ends[3:]))}"'
            )  # fmt: skip
            lines.append(
                f'{pad}  <geom name="link{depth}_{"abc"[k]}" type="{shape}" mass="0" '
                f'size="{capsule.radius_m:.4f}" {place} contype="2" conaffinity="0" '
                'rgba="0.92 0.92 0.90 1"/>'
            )
    pad = "  " * (len(source.bodies) + 2)
    lines.append(f'{pad}<site name="tool" pos="{source.tool_pos}" quat="{source.tool_quat}"/>')
    lines += ["  " * (d + 2) + "</body>" for d in reversed(range(len(source.bodies)))]
    lines += ["  </worldbody>", "  <actuator>"]
    for k, (kp, kv, limit) in enumerate(
        zip(source.drive.kp, source.drive.kv, source.drive.limit_n_m), start=1
    ):
        lines.append(
            f'    <position name="joint{k}" joint="joint{k}" kp="{kp:g}" kv="{kv:g}" '
            f'forcerange="{-limit:g} {limit:g}" inheritrange="1"/>'
        )
    lines += ["  </actuator>", "</mujoco>", ""]
    target = HERE / source.name / f"{source.name}.xml"
    target.parent.mkdir(exist_ok=True)
    target.write_text("\n".join(lines))


if __name__ == "__main__":
    for arm in (UR5E, XARM7):
        write(arm)
