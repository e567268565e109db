"""Reference clips: load, convert from retargeted CSV files, and check.

A clip is an npz with `fps`, `joint_pos`, `joint_vel` (T, 29), `body_pos_w`, `body_lin_vel_w`,
`body_ang_vel_w` (T, 30, 3), `body_quat_w` (T, 30, 4, wxyz), `body_names` and `joint_names`. Link
origins, world frame, float32, one frame per control period.

    python -m families.f04_tracking.reference dance1_subject2.csv -o dance.npz --rows 122:722
"""

import functools
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import mujoco
import numpy as np
import tyro
from scipy.spatial.transform import Rotation, Slerp

from families.f04_tracking import scene, spec
from rle.errors import BadReference, MissingReference
from rle.paths import assets_dir

Kind = Literal["lafan1", "stand-in"]
RULES = spec.REFERENCE_RULES
BODY_ARRAYS = {"body_pos_w": 3, "body_quat_w": 4, "body_lin_vel_w": 3, "body_ang_vel_w": 3}
ARRAYS = ("joint_pos", "joint_vel", *BODY_ARRAYS)
"""The float32 arrays of a clip."""


@dataclass(frozen=True)
class Reference:
    """A motion at the control rate. Arrays are float64 copies of what is stored as float32."""

    fps: float
    joint_pos: np.ndarray
    """Shape (T, 29), rad, order of `spec.JOINT_NAMES`."""
    joint_vel: np.ndarray
    """Shape (T, 29), rad/s."""
    body_pos_w: np.ndarray
    """Shape (T, 30, 3), m, world, order of `spec.BODY_NAMES`."""
    body_quat_w: np.ndarray
    """Shape (T, 30, 4), wxyz, world."""
    body_lin_vel_w: np.ndarray
    """Shape (T, 30, 3), m/s, world."""
    body_ang_vel_w: np.ndarray
    """Shape (T, 30, 3), rad/s, world."""
    body_names: tuple[str, ...]
    joint_names: tuple[str, ...]
    sha256: str
    """SHA-256 of the npz file."""
    kind: Kind

    @property
    def frames(self) -> int:
        return len(self.joint_pos)

    @functools.cached_property
    def qpos(self) -> np.ndarray:
        """Generalised positions, shape (T, 36): root position, root quaternion wxyz, joints."""
        return np.hstack([self.body_pos_w[:, 0], self.body_quat_w[:, 0], self.joint_pos])

    @functools.cached_property
    def qvel(self) -> np.ndarray:
        """Generalised velocities, shape (T, 35): root linear (world), root angular (pelvis), joints."""
        to_world = Rotation.from_quat(np.roll(self.body_quat_w[:, 0], -1, axis=1))
        angular = to_world.apply(self.body_ang_vel_w[:, 0], inverse=True)
        return np.hstack([self.body_lin_vel_w[:, 0], angular, self.joint_vel])


def load_clip(task: str, *, clip: spec.Clip | None = None) -> Reference:
    """The reference of a task: published where `RLE_LAFAN1_DIR` is set, else the stand-in.

    Args:
        task: Task id or slug, "f04/dance" or "dance".
        clip: Another source file, for tests.

    Raises:
        MissingReference: `RLE_LAFAN1_DIR` is set and lacks the file. Never a silent fall-back.
        BadReference: The clip breaks a rule of `validate_npz` or has not 1001 frames.
    """
    slug = task.removeprefix("f04/")
    clip = clip or spec.CLIPS[slug]
    folder = os.environ.get("RLE_LAFAN1_DIR")
    if folder:
        path, kind = _converted(f"f04/{slug}", clip, Path(folder)), "lafan1"
    else:
        path, kind = assets_dir() / "motions" / f"{clip.standin}.npz", "stand-in"
    reference = read_npz(path, kind)
    if reference.frames != spec.FRAMES:
        raise BadReference(f"f04/{slug} needs {spec.FRAMES} frames, got {reference.frames}")
    return reference


def read_npz(path: Path, kind: Kind) -> Reference:
    """Checks and loads one npz.

    Raises:
        BadReference: See `validate_npz`.
    """
    validate_npz(path)
    with np.load(path) as stored:
        arrays = {name: stored[name].astype(np.float64) for name in ARRAYS}
        fps = float(stored["fps"])
    return Reference(
        fps=fps,
        **arrays,
        body_names=spec.BODY_NAMES,
        joint_names=spec.JOINT_NAMES,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        kind=kind,
    )


def _converted(task_id: str, clip: spec.Clip, folder: Path) -> Path:
    """The cached conversion of a published clip; made when it is not there yet."""
    csv = folder / f"{clip.source}.csv"
    if not csv.is_file():
        found = ", ".join(sorted(p.name for p in folder.glob("*.csv"))) or "no CSV file"
        raise MissingReference(f"{task_id} needs {csv.name} in {folder}; found: {found}")
    digest = hashlib.sha256(csv.read_bytes()).hexdigest()[:12]
    cache = Path(os.environ.get("RLE_CACHE_DIR") or Path.home() / ".cache" / "rle") / "f04"
    name = f"{clip.source}_{clip.rows[0]}_{clip.rows[1]}_{digest}_{spec.FAMILY_VERSION}.npz"
    if not (cache / name).is_file():
        cache.mkdir(parents=True, exist_ok=True)
        partial = cache / f".{os.getpid()}_{name}"
        csv_to_npz(csv, partial, rows=clip.rows)
        partial.replace(cache / name)
    return cache / name


def csv_to_npz(
    csv: Path, out: Path, *, rows: tuple[int, int] | None = None, fps_in: float = RULES.csv_fps
) -> None:
    """Converts a retargeted CSV to a clip at 50 Hz.

    Args:
        csv: 36 columns, no header: root xyz in m, root quaternion xyzw, 29 joints in rad.
        out: Npz to write.
        rows: First and last row, 1-based, both included; None takes all.
        fps_in: Frame rate of the CSV.

    Raises:
        BadReference: Other columns, rows outside the file, non-finite numbers, fewer than two rows.
    """
    table = _read_csv(csv)
    first, last = rows or (1, len(table))
    if not 1 <= first < last <= len(table):
        raise BadReference(f"rows {first}:{last} of {csv.name}, which has rows 1:{len(table)}")
    write_npz(out, resample(table[first - 1 : last], fps_in))


def _read_csv(csv: Path) -> np.ndarray:
    """The table of a CSV, shape (N, 36)."""
    try:
        table = np.loadtxt(csv, delimiter=",", ndmin=2)
    except ValueError as error:
        raise BadReference(
            f"{csv.name} is not a table of numbers without header: {error}"
        ) from error
    if table.shape[1] != RULES.csv_columns:
        raise BadReference(f"{csv.name} has {table.shape[1]} columns, needs {RULES.csv_columns}")
    if not np.isfinite(table).all():
        raise BadReference(f"{csv.name} has a non-finite number in row {_first_bad_row(table)}")
    return table


def _first_bad_row(table: np.ndarray) -> int:
    return int(np.flatnonzero(~np.isfinite(table).all(axis=1))[0]) + 1


def resample(table: np.ndarray, fps_in: float) -> np.ndarray:
    """qpos at the control rate, shape (T, 36), from CSV rows, shape (N, 36).

    Positions and joints by linear interpolation, the root's orientation by slerp; times 0, 0.02, ...
    up to the last row's.
    """
    t_in = np.arange(len(table)) / fps_in
    frames = int(np.floor(t_in[-1] * spec.CONTROL_HZ + 1e-9)) + 1
    t = np.minimum(np.arange(frames) / spec.CONTROL_HZ, t_in[-1])
    linear = np.column_stack([np.interp(t, t_in, column) for column in table.T])
    quat_xyzw = Slerp(t_in, Rotation.from_quat(table[:, 3:7]))(t).as_quat()
    return np.hstack([linear[:, :3], np.roll(quat_xyzw, 1, axis=1), linear[:, 7:]])


def write_npz(out: Path, qpos: np.ndarray) -> None:
    """Writes the clip of a qpos trajectory at the control rate.

    Args:
        out: Npz to write.
        qpos: Shape (T, 36), root quaternion wxyz, joints in our order.
    """
    arrays = forward_kinematics(qpos, _qvel(qpos))
    arrays = {name: arrays[name].astype(np.float32) for name in ARRAYS}
    with out.open("wb") as file:  # np.savez appends ".npz" to a name
        np.savez_compressed(
            file,
            fps=np.int64(spec.CONTROL_HZ),
            **arrays,
            body_names=np.array(spec.BODY_NAMES),
            joint_names=np.array(spec.JOINT_NAMES),
        )


def _qvel(qpos: np.ndarray) -> np.ndarray:
    """Central differences, one-sided at the ends; the root's rotation by log(q[k+1] q[k-1]^-1)."""
    dt_s = spec.CONTROL_PERIOD_S
    velocity = np.gradient(qpos, dt_s, axis=0)
    rotation = Rotation.from_quat(np.roll(qpos[:, 3:7], -1, axis=1))
    after = np.minimum(np.arange(len(qpos)) + 1, len(qpos) - 1)
    before = np.maximum(np.arange(len(qpos)) - 1, 0)
    world = (rotation[after] * rotation[before].inv()).as_rotvec()
    world /= ((after - before) * dt_s)[:, None]
    return np.hstack([velocity[:, :3], rotation.apply(world, inverse=True), velocity[:, 7:]])


@functools.cache
def _model() -> scene.G1:
    return scene.build(spec.EVAL_TIMESTEP_S)


def forward_kinematics(qpos: np.ndarray, qvel: np.ndarray) -> dict[str, np.ndarray]:
    """Body states of a trajectory, with the joint arrays, under the npz's names.

    Args:
        qpos: Shape (T, 36).
        qvel: Shape (T, 35).

    Returns:
        float64 arrays; quaternions are continuous in sign over time and start with w >= 0.
    """
    g1 = _model()
    data = mujoco.MjData(g1.model)
    arrays = {
        name: np.empty((len(qpos), len(spec.BODY_NAMES), n)) for name, n in BODY_ARRAYS.items()
    }
    velocity = np.empty(6)
    for k in range(len(qpos)):
        data.qpos[:], data.qvel[:] = qpos[k], qvel[k]
        mujoco.mj_kinematics(g1.model, data)
        mujoco.mj_comPos(g1.model, data)
        mujoco.mj_comVel(g1.model, data)
        arrays["body_pos_w"][k] = data.xpos[g1.handles.bodies]
        arrays["body_quat_w"][k] = data.xquat[g1.handles.bodies]
        for j, body in enumerate(g1.handles.bodies):
            mujoco.mj_objectVelocity(g1.model, data, mujoco.mjtObj.mjOBJ_XBODY, body, velocity, 0)
            arrays["body_ang_vel_w"][k, j] = velocity[:3]
            arrays["body_lin_vel_w"][k, j] = velocity[3:]
    quat = arrays["body_quat_w"]
    flips = np.sign(np.sum(quat[1:] * quat[:-1], axis=2))
    signs = np.vstack([np.where(quat[:1, :, 0] < 0.0, -1.0, 1.0), flips])
    arrays["body_quat_w"] = quat * np.cumprod(signs, axis=0)[:, :, None]
    return {"joint_pos": qpos[:, 7:], "joint_vel": qvel[:, 6:], **arrays}


def lowest_geom_m(qpos: np.ndarray) -> float:
    """World z of the lowest point of the robot's collision geoms over a trajectory, shape (T, 36)."""
    g1 = _model()
    model, data, geoms = g1.model, mujoco.MjData(g1.model), g1.handles.robot_geoms
    radius, half = model.geom_size[geoms, 0], model.geom_size[geoms, 1]  # half is 0 for spheres
    lowest = np.inf
    for row in qpos:
        data.qpos[:] = row
        mujoco.mj_kinematics(model, data)
        axis_z = np.abs(data.geom_xmat[geoms, 8])
        lowest = min(lowest, float(np.min(data.geom_xpos[geoms, 2] - half * axis_z - radius)))
    return lowest


def validate_npz(path: Path) -> list[str]:
    """Checks a clip; returns warnings.

    Raises:
        BadReference: Names the first fault.
    """
    if not path.is_file():
        raise BadReference(f"{path} does not exist")
    with np.load(path) as stored:
        a = dict(stored)
    _check_format(a)
    qpos = np.hstack([a["body_pos_w"][:, 0], a["body_quat_w"][:, 0], a["joint_pos"]]).astype(float)
    _check_motion(a, qpos)
    warnings = []
    lowest_m = lowest_geom_m(qpos)
    if lowest_m < RULES.lowest_geom_error_m:
        raise BadReference(
            f"lowest collision geom at {lowest_m:.3f} m; at least {RULES.lowest_geom_error_m}"
        )
    if lowest_m < RULES.lowest_geom_warning_m:
        warnings.append(
            f"lowest collision geom at {lowest_m:.3f} m, below {RULES.lowest_geom_warning_m}"
        )
    fastest = float(np.abs(a["joint_vel"]).max())
    if fastest > RULES.joint_vel_warning_rad_s:
        warnings.append(
            f"|joint_vel| up to {fastest:.1f} rad/s, above {RULES.joint_vel_warning_rad_s}"
        )
    return warnings


def _check_format(a: dict[str, np.ndarray]) -> None:
    """Keys, types, shapes, names, rate."""
    for key in ("fps", *ARRAYS, "body_names", "joint_names"):
        if key not in a:
            raise BadReference(f"key {key} is missing; found: {', '.join(sorted(a))}")
    for key in ARRAYS:
        if a[key].dtype != np.float32:
            raise BadReference(f"{key} is {a[key].dtype}, needs float32")
    for key in ARRAYS:
        if not np.isfinite(a[key]).all():
            raise BadReference(f"{key} has a non-finite number")
    frames = len(a["joint_pos"])
    if frames < 2:
        raise BadReference(f"{frames} frames; at least 2")
    if float(a["fps"]) != spec.CONTROL_HZ:
        raise BadReference(
            f"fps {float(a['fps']):g}: re-export at 50 Hz; frames are played one per 20 ms"
        )
    for key, names in (("body_names", spec.BODY_NAMES), ("joint_names", spec.JOINT_NAMES)):
        given = tuple(str(name) for name in np.atleast_1d(a[key]))
        if given != names:
            wrong = next(
                (n for n, m in zip(given, names, strict=False) if n != m), "the number of names"
            )
            raise BadReference(f"{key} are not in our order; first difference: {wrong}")
    shapes: dict[str, tuple[int, ...]] = {
        "joint_pos": (frames, spec.N_JOINTS),
        "joint_vel": (frames, spec.N_JOINTS),
    }
    shapes |= {key: (frames, len(spec.BODY_NAMES), n) for key, n in BODY_ARRAYS.items()}
    for key, shape in shapes.items():
        if a[key].shape != shape:
            raise BadReference(f"{key} has shape {a[key].shape}, needs {shape}")


def _check_motion(a: dict[str, np.ndarray], qpos: np.ndarray) -> None:
    """Quaternions, kinematics, velocities, joint ranges."""
    norm = np.linalg.norm(a["body_quat_w"], axis=2)
    if np.abs(norm - 1.0).max() > RULES.quat_norm_tolerance:
        raise BadReference(
            f"body_quat_w has a norm of {norm.flat[np.abs(norm - 1.0).argmax()]:.4f}"
        )
    frames = len(qpos)
    probe = [0, frames // 2, frames - 1]
    fk = forward_kinematics(qpos[probe], np.zeros((3, 6 + spec.N_JOINTS)))["body_pos_w"]
    error_m = np.linalg.norm(fk - a["body_pos_w"][probe], axis=2)
    if error_m.max() > RULES.fk_tolerance_m:
        frame, body = np.unravel_index(error_m.argmax(), error_m.shape)
        raise BadReference(
            f"body_pos_w of {spec.BODY_NAMES[body]} in frame {probe[frame]} is {error_m.max():.4f} m off "
            "the forward kinematics of joint_pos"
        )
    central = np.gradient(qpos[:, 7:], spec.CONTROL_PERIOD_S, axis=0)
    off = float(np.median(np.abs(central - a["joint_vel"])))
    if off > RULES.joint_vel_tolerance_rad_s:
        raise BadReference(
            f"joint_vel is {off:.2f} rad/s (median) off the central difference of joint_pos"
        )
    low, high = _model().handles.joint_range_rad.T
    excess = np.maximum(low - qpos[:, 7:], qpos[:, 7:] - high).max(axis=0)
    if excess.max() > RULES.joint_range_tolerance_rad:
        name = spec.JOINT_NAMES[int(excess.argmax())]
        raise BadReference(f"{name} leaves its range by {excess.max():.3f} rad")


@dataclass(frozen=True)
class Arguments:
    """Convert a retargeted CSV (36 columns, no header) to a clip at 50 Hz and check it."""

    csv: Annotated[Path, tyro.conf.Positional]
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    """Npz to write."""
    rows: str | None = None
    """First and last row, 1-based, both included, as 122:722."""
    fps: float = RULES.csv_fps
    """Frame rate of the CSV."""


def main(arguments: Arguments) -> None:
    """Command line entry point."""
    rows = None
    if arguments.rows is not None:
        first, _, last = arguments.rows.partition(":")
        if not (first.isdigit() and last.isdigit()):
            raise BadReference(f"rows {arguments.rows!r}; write them as 122:722")
        rows = (int(first), int(last))
    csv_to_npz(arguments.csv, arguments.out, rows=rows, fps_in=arguments.fps)
    for warning in validate_npz(arguments.out):
        print(f"warning: {warning}")
    with np.load(arguments.out) as stored:
        print(f"{arguments.out}: {len(stored['joint_pos'])} frames at {spec.CONTROL_HZ:g} Hz")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
