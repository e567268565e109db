"""Many worlds of one model, stepped together: the protocol of all training backends.

    scene = BatchScene(...)                 # what is measured and what may differ between worlds
    sim = make_backend("mjc", scene, nworld=256)
    sim.set_params("friction", values)      # before the first step
    sim.reset(env_ids, qpos, qvel)
    sim.step(ctrl, n_substeps)
    state = sim.state()

Tensors in and out are torch, float32. `mjc` is MuJoCo over threads, `warp-cuda` MuJoCo-Warp in one captured
graph, `warp-cpu` the same code without a graph for parity tests.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import mujoco
import numpy as np
import torch

from rle.errors import UnknownName, UserError

PARAM_WIDTH: dict[str, int] = {
    "friction": 1, "mass_scale": 1, "com_offset": 3, "kp_scale": 1, "kd_scale": 1,
}  # fmt: skip
"""Numbers per world of each parameter. Friction is absolute, offsets in m, the others are factors."""
BACKENDS = ("auto", "mjc", "warp-cuda", "warp-cpu")


@dataclass(frozen=True)
class BatchScene:
    """A compiled model and what a batch of it measures and varies."""

    model: mujoco.MjModel
    bodies: np.ndarray
    """Body ids whose poses and velocities `State` holds. Shape (B,), int."""
    imu_lin_vel: slice
    """Velocimeter in sensordata."""
    imu_ang_vel: slice
    """Gyro in sensordata."""
    body_lin_vel: slice
    """World linear velocities of `bodies` in sensordata (frame sensors on the body origin)."""
    body_ang_vel: slice
    """World angular velocities of `bodies` in sensordata."""
    friction_geoms: np.ndarray
    """Geoms whose sliding friction `friction` sets."""
    com_body: int
    """Body whose centre of mass `com_offset` shifts."""
    counted_bodies: np.ndarray
    """Bodies that count in `State.contact_bodies`."""
    contact_force_n: float
    """Normal force from which a contact counts."""


class State(NamedTuple):
    """State of all worlds at the end of a step. N worlds, B bodies; world frame unless said otherwise."""

    qpos: torch.Tensor
    """Shape (N, nq)."""
    qvel: torch.Tensor
    """Shape (N, nv)."""
    body_pos: torch.Tensor
    """Shape (N, B, 3), m."""
    body_quat: torch.Tensor
    """Shape (N, B, 4), wxyz."""
    body_lin_vel: torch.Tensor
    """Shape (N, B, 3), m/s."""
    body_ang_vel: torch.Tensor
    """Shape (N, B, 3), rad/s."""
    imu_lin_vel: torch.Tensor
    """Shape (N, 3), m/s, IMU frame."""
    imu_ang_vel: torch.Tensor
    """Shape (N, 3), rad/s, IMU frame."""
    contact_bodies: torch.Tensor
    """Counted bodies with a contact above the threshold. Shape (N,)."""


class Overflow(NamedTuple):
    """Worlds that needed more room than a buffer has since the last read."""

    worlds: int
    buffer: str
    size: int
    needed: int


class BatchSim(Protocol):
    """What every backend offers."""

    nworld: int
    device: torch.device
    dtype: torch.dtype
    dt: float
    """Physics step, s."""

    def set_params(self, name: str, values: torch.Tensor) -> None:
        """Per-world values, shape (N, `PARAM_WIDTH[name]`); before the first step only."""
        ...

    def reset(self, env_ids: torch.Tensor, qpos: torch.Tensor, qvel: torch.Tensor) -> None:
        """Puts worlds into states and forgets their warm starts. Shapes (n,), (n, nq), (n, nv)."""
        ...

    def add_velocity(self, env_ids: torch.Tensor, delta: torch.Tensor) -> None:
        """Adds to the first six velocities (a free root) of some worlds. Shapes (n,), (n, 6)."""
        ...

    def lowest_m(self, env_ids: torch.Tensor) -> torch.Tensor:
        """World z of the lowest point of the `friction_geoms` of some worlds. Shape (n,), m."""
        ...

    def step(self, ctrl: torch.Tensor, n_substeps: int) -> None:
        """Holds `ctrl`, shape (N, nu), for `n_substeps` physics steps."""
        ...

    def state(self) -> State:
        """State after the last `step` or `reset`; tensors of the backend, not copies."""
        ...

    def nan_worlds(self) -> torch.Tensor:
        """Worlds with a non-finite or warned state since the last reset of each. Shape (N,), bool."""
        ...

    def overflow(self) -> Overflow | None:
        """The largest buffer overflow since the last call, None without one."""
        ...

    def simulator_state(self) -> dict[str, np.ndarray] | None:
        """Full state, warm starts and parameters included; None where a backend cannot give it."""
        ...

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Puts back what `simulator_state` gave; the continuation is bit-exact."""
        ...

    def close(self) -> None:
        """Frees threads and graphs."""
        ...


def apply_params(
    model: mujoco.MjModel,
    nominal: mujoco.MjModel,
    scene: BatchScene,
    values: Mapping[str, np.ndarray],
) -> None:
    """Writes one world's parameters into `model`, from the nominal values, and derives constants.

    Args:
        model: Model to change; its parameters are overwritten, so that repeated calls do not add up.
        nominal: The unchanged model.
        scene: Which geoms and body the parameters mean.
        values: By name, shape (`PARAM_WIDTH[name]`,).
    """
    get = {name: np.atleast_1d(value) for name, value in values.items()}
    if "friction" in get:
        model.geom_friction[scene.friction_geoms, 0] = get["friction"][0]
    if "mass_scale" in get:
        model.body_mass[:] = nominal.body_mass * get["mass_scale"][0]
        model.body_inertia[:] = nominal.body_inertia * get["mass_scale"][0]
    if "com_offset" in get:
        model.body_ipos[scene.com_body] = nominal.body_ipos[scene.com_body] + get["com_offset"]
    if "kp_scale" in get:
        model.actuator_gainprm[:, 0] = nominal.actuator_gainprm[:, 0] * get["kp_scale"][0]
        model.actuator_biasprm[:, 1] = nominal.actuator_biasprm[:, 1] * get["kp_scale"][0]
    if "kd_scale" in get:
        model.actuator_biasprm[:, 2] = nominal.actuator_biasprm[:, 2] * get["kd_scale"][0]
    mujoco.mj_setConst(model, mujoco.MjData(model))


class LowestPoint:
    """Lowest point of spheres and capsules from their world poses, for both backends.

    z_low = z - half_length |R_zz| - radius, with R_zz the z component of the capsule's axis.

    Raises:
        UserError: A geom of another type.
    """

    def __init__(self, scene: BatchScene, device: torch.device) -> None:
        model, geoms = scene.model, scene.friction_geoms
        kinds = {int(k) for k in model.geom_type[geoms]}
        sphere, capsule = int(mujoco.mjtGeom.mjGEOM_SPHERE), int(mujoco.mjtGeom.mjGEOM_CAPSULE)
        if kinds - {sphere, capsule}:
            raise UserError("batch scenes need friction geoms that are spheres or capsules")
        size = model.geom_size[geoms]
        half = np.where(model.geom_type[geoms] == capsule, size[:, 1], 0.0)
        self._radius = torch.as_tensor(size[:, 0], dtype=torch.float32, device=device)
        self._half = torch.as_tensor(half, dtype=torch.float32, device=device)

    def of(self, center_z_m: torch.Tensor, axis_z: torch.Tensor) -> torch.Tensor:
        """Lowest point per world. Shapes (n, geoms), (n, geoms) to (n,), m."""
        return (center_z_m - self._half * axis_z.abs() - self._radius).amin(1)


@dataclass
class Params:
    """Collects `set_params` calls until the first step; both backends apply them alike."""

    nworld: int
    values: dict[str, np.ndarray] = field(default_factory=dict)
    is_closed: bool = False

    def set(self, name: str, values: torch.Tensor) -> None:
        """Checks and keeps. Raises UnknownName, UserError for a wrong shape, or after the first step."""
        if name not in PARAM_WIDTH:
            raise UnknownName("batch parameter", name, PARAM_WIDTH)
        expected = (self.nworld, PARAM_WIDTH[name])
        if tuple(values.shape) != expected or not bool(torch.isfinite(values).all()):
            raise UserError(
                f"batch parameter {name!r} needs finite values of shape {expected}, "
                f"got {tuple(values.shape)}",
                code="batch.params",
            )
        if self.is_closed:
            raise UserError(
                f"batch parameter {name!r} was set after the first step; make a new backend instead",
                code="batch.params",
            )
        self.values[name] = values.detach().cpu().double().numpy()

    def close(self, apply: Callable[[], None]) -> None:
        """Runs `apply` before the first physics, once, if anything was set; later `set` calls are refused."""
        if self.is_closed:
            return
        self.is_closed = True
        if self.values:
            apply()

    def of(self, world: int) -> dict[str, np.ndarray]:
        return {name: rows[world] for name, rows in self.values.items()}


def make_backend(name: str, scene: BatchScene, nworld: int, **options: object) -> BatchSim:
    """Builds a backend by name. `auto` is `warp-cuda` where torch sees a CUDA device, else `mjc`.

    Raises:
        UnknownName: Not one of `BACKENDS`.
        UserError: The backend cannot run here (no CUDA, extra `train` not installed, too many worlds).
    """
    if name not in BACKENDS:
        raise UnknownName("backend", name, BACKENDS)
    if name == "auto":
        name = "warp-cuda" if torch.cuda.is_available() else "mjc"
    makers: dict[str, Callable[..., BatchSim]] = {}
    if name == "mjc":
        from rle.sim.batch_mjc import MjcBatch

        makers["mjc"] = MjcBatch
    else:
        try:
            from rle.sim.batch_warp import WarpBatch
        except ModuleNotFoundError as error:
            raise UserError(
                f"backend {name} needs {error.name}: `pip install -c constraints.txt -e .[train]`",
                code="backend_missing",
            ) from None
        makers[name] = lambda *a, **k: WarpBatch(*a, device=name.removeprefix("warp-"), **k)
    return makers[name](scene, nworld, **options)
