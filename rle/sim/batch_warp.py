"""`warp-cuda` and `warp-cpu`: MuJoCo-Warp, one captured graph of the substeps and the measurements on CUDA.

Buffers are explicit: a size taken from an airborne pose loses contacts in silence. The counters keep
counting past a full buffer, so a small kernel keeps their maxima and `overflow` reads them.
"""

import copy
import warnings

import mujoco
import mujoco_warp as mjw
import numpy as np
import torch
import warp as wp

from rle.errors import UserError
from rle.sim.batch import BatchScene, LowestPoint, Overflow, Params, State, apply_params

MAX_CPU_WORLDS = 16
"""`warp-cpu` is a correctness backend: compiled for a minute, then 30-80 ms a step. Source: card."""
MIN_GRAPH_DRIVER = (12, 4)
"""CUDA driver that supports everything a captured step uses. Source: card."""
_PER_WORLD = (
    "geom_friction", "body_mass", "body_inertia", "body_ipos", "actuator_gainprm", "actuator_biasprm",
    "body_subtreemass", "body_invweight0", "dof_invweight0",
)  # fmt: skip
"""Model arrays that a parameter changes, directly or through `mj_setConst`."""


@wp.kernel
def _keep_maxima(
    nefc: wp.array(dtype=int),
    nacon: wp.array(dtype=int),
    ncollision: wp.array(dtype=int),
    most_rows: wp.array(dtype=int),
    most_total: wp.array(dtype=int),
):
    world = wp.tid()
    wp.atomic_max(most_rows, world, nefc[world])
    if world == 0:
        wp.atomic_max(most_total, 0, nacon[0])
        wp.atomic_max(most_total, 1, ncollision[0])


class WarpBatch:
    """MuJoCo-Warp. See `rle.sim.batch.BatchSim`.

    Args:
        scene: Model and measurements.
        nworld: Number of worlds.
        device: "cuda", "cuda:1", or "cpu".
        nconmax: Contacts per world that the buffers hold.
        njmax: Constraint rows per world that the buffers hold.
        deterministic: Asks for bit-reproducible reductions; refused where the installed version has none.

    Raises:
        UserError: `backend_limit`, `no_cuda`, `unsupported_option`.
    """

    def __init__(
        self,
        scene: BatchScene,
        nworld: int,
        device: str = "cuda",
        nconmax: int = 64,
        njmax: int = 320,
        deterministic: bool = False,
    ) -> None:
        is_cpu = device == "cpu"
        if is_cpu and nworld > MAX_CPU_WORLDS:
            raise UserError(
                f"backend_limit: warp-cpu is for parity tests, at most {MAX_CPU_WORLDS} worlds, got "
                f"{nworld}; train with --backend mjc or warp-cuda",
                code="backend_limit",
            )
        if not is_cpu and not torch.cuda.is_available():
            raise UserError(
                "warp-cuda needs a CUDA device and a CUDA build of torch; train with --backend mjc",
                code="no_cuda",
            )
        if deterministic and not hasattr(mjw.Option, "deterministic"):
            raise UserError(
                "unsupported_option: the installed mujoco-warp has no deterministic mode; leave it out",
                code="unsupported_option",
            )
        self.scene, self.nworld = scene, nworld
        self.device, self.dtype = torch.device(device), torch.float32
        self.dt = float(scene.model.opt.timestep)
        self._wp_device = wp.get_device(device if is_cpu or ":" in device else "cuda:0")
        self._use_graph = not is_cpu and _driver_has_graphs()
        self._params = Params(nworld)
        self._nconmax, self._njmax = nconmax, njmax
        self._graphs: dict[int, object] = {}
        with wp.ScopedDevice(self._wp_device):
            data = mujoco.MjData(scene.model)  # no contact yet, so that any njmax can be asked for
            self._model = mjw.put_model(scene.model)
            self._data = mjw.put_data(
                scene.model, data, nworld=nworld, nconmax=nconmax, njmax=njmax
            )
            self._most_rows = wp.zeros(nworld, dtype=int)
            self._most_total = wp.zeros(2, dtype=int)
        self._bind()

    def _bind(self) -> None:
        """Torch views of the simulator's arrays; no copies."""
        d, view = self._data, wp.to_torch
        self._qpos, self._qvel, self._ctrl = view(d.qpos), view(d.qvel), view(d.ctrl)
        self._warmstart, self._time = view(d.qacc_warmstart), view(d.time)
        self._xpos, self._xquat = view(d.xpos), view(d.xquat)
        self._sensors = view(d.sensordata)
        self._geom_xpos, self._geom_xmat = view(d.geom_xpos), view(d.geom_xmat)
        self._lowest = LowestPoint(self.scene, self.device)
        self._rows, self._totals = view(self._most_rows), view(self._most_total)
        self._efc_force = view(d.efc.force)
        c = d.contact
        self._contact_views = (view(c.geom), view(c.worldid), view(c.efc_address), view(c.dim))
        self._nacon = view(d.nacon)
        self._bodies = torch.as_tensor(self.scene.bodies, device=self.device)
        counted = np.zeros(self.scene.model.nbody, dtype=bool)
        counted[self.scene.counted_bodies] = True
        self._is_counted = torch.as_tensor(counted, device=self.device)
        self._body_of_geom = torch.as_tensor(
            self.scene.model.geom_bodyid.astype(np.int64), device=self.device
        )
        self._fresh = torch.ones(self.nworld, dtype=torch.bool, device=self.device)

    def set_params(self, name: str, values: torch.Tensor) -> None:
        self._params.set(name, values)

    def _apply_params(self) -> None:
        """Expands the model's arrays to (nworld, ...) before the graph is captured."""
        nominal = self.scene.model
        model = copy.copy(nominal)
        rows: dict[str, list[np.ndarray]] = {name: [] for name in _PER_WORLD}
        inertia: list[float] = []
        for world in range(self.nworld):
            apply_params(model, nominal, self.scene, self._params.of(world))
            for name in _PER_WORLD:
                rows[name].append(getattr(model, name).copy())
            inertia.append(float(model.stat.meaninertia))
        with wp.ScopedDevice(self._wp_device):
            for name, values in rows.items():
                old = getattr(self._model, name)
                setattr(self._model, name, wp.array(np.stack(values), dtype=old.dtype))
            self._model.stat.meaninertia = wp.array(np.array(inertia), dtype=float)

    def reset(self, env_ids: torch.Tensor, qpos: torch.Tensor, qvel: torch.Tensor) -> None:
        self._params.close(self._apply_params)
        ids = env_ids.to(self.device).long()
        self._qpos[ids] = qpos.to(self.device, self.dtype)
        self._qvel[ids] = qvel.to(self.device, self.dtype)
        self._warmstart[ids] = 0.0
        self._time[ids] = 0.0
        self._fresh[ids] = True
        with wp.ScopedDevice(self._wp_device):
            self._run(0)

    def add_velocity(self, env_ids: torch.Tensor, delta: torch.Tensor) -> None:
        self._qvel[env_ids.to(self.device).long(), :6] += delta.to(self.device, self.dtype)

    def lowest_m(self, env_ids: torch.Tensor) -> torch.Tensor:
        ids = env_ids.to(self.device).long()
        geoms = torch.as_tensor(self.scene.friction_geoms, device=self.device)
        height = self._geom_xpos[ids][:, geoms, 2]
        return self._lowest.of(height, self._geom_xmat[ids][:, geoms, 2, 2])

    def step(self, ctrl: torch.Tensor, n_substeps: int) -> None:
        self._params.close(self._apply_params)
        self._ctrl.copy_(ctrl.detach().to(self.device, self.dtype))
        self._fresh[:] = False
        with wp.ScopedDevice(self._wp_device):
            self._run(n_substeps)

    def _run(self, n_substeps: int) -> None:
        """Substeps and measurements, as one graph where the device has them."""
        if not self._use_graph:
            self._launch(n_substeps)
            return
        if n_substeps not in self._graphs:
            # Kernels compile outside the capture; the trial run must leave no trace.
            kept = (self._qpos, self._qvel, self._warmstart, self._time, self._rows, self._totals)
            saved = [t.clone() for t in kept]
            self._launch(n_substeps)
            for target, value in zip(kept, saved):
                target.copy_(value)
            with wp.ScopedCapture() as capture:
                self._launch(n_substeps)
            self._graphs[n_substeps] = capture.graph
        wp.capture_launch(self._graphs[n_substeps])

    def _launch(self, n_substeps: int) -> None:
        m, d = self._model, self._data
        for _ in range(n_substeps):
            mjw.step(m, d)
            wp.launch(
                _keep_maxima,
                dim=self.nworld,
                inputs=[d.nefc, d.nacon, d.ncollision],
                outputs=[self._most_rows, self._most_total],
            )
        # After a step positions are new and everything derived lags one substep.
        mjw.kinematics(m, d)
        mjw.com_pos(m, d)
        mjw.com_vel(m, d)
        mjw.sensor_pos(m, d)
        mjw.sensor_vel(m, d)

    def state(self) -> State:
        scene, n, sensors = self.scene, self.nworld, self._sensors
        return State(
            qpos=self._qpos,
            qvel=self._qvel,
            body_pos=self._xpos[:, self._bodies],
            body_quat=self._xquat[:, self._bodies],
            body_lin_vel=sensors[:, scene.body_lin_vel].reshape(n, -1, 3),
            body_ang_vel=sensors[:, scene.body_ang_vel].reshape(n, -1, 3),
            imu_lin_vel=sensors[:, scene.imu_lin_vel],
            imu_ang_vel=sensors[:, scene.imu_ang_vel],
            contact_bodies=self._count_touching(),
        )

    def _count_touching(self) -> torch.Tensor:
        """Counted bodies with a normal force above the threshold; 0 for worlds just reset."""
        geom, world, address, dim = self._contact_views
        slots = torch.arange(len(world), device=self.device)
        valid = (slots < self._nacon[0]) & (address[:, 0] >= 0)
        world_of = world.clamp(min=0, max=self.nworld - 1).long()
        # Pyramidal cone: the normal force is the sum over the 2 (dim - 1) edges; frictionless: one row.
        edges = torch.where(dim > 1, 2 * (dim - 1), torch.ones_like(dim))
        columns = torch.arange(address.shape[1], device=self.device)
        used = (columns[None] < edges[:, None]) & (address >= 0)
        rows = address.clamp(min=0, max=self._efc_force.shape[1] - 1).long()
        force = torch.where(used, self._efc_force[world_of[:, None], rows], 0.0).sum(1)
        loud = valid & (force > self.scene.contact_force_n)
        touched = torch.zeros(
            (self.nworld, len(self._is_counted)), dtype=torch.bool, device=self.device
        )
        body = self._body_of_geom[geom.clamp(min=0).long()]
        for side in (0, 1):
            hit = loud & self._is_counted[body[:, side]]
            # Misses write into the world body of world 0, which is never counted.
            index_world = torch.where(hit, world_of, torch.zeros_like(world_of))
            index_body = torch.where(hit, body[:, side], torch.zeros_like(world_of))
            touched[index_world, index_body] = True
        touched &= self._is_counted[None]
        return torch.where(self._fresh, 0.0, touched.sum(1).float())

    def nan_worlds(self) -> torch.Tensor:
        finite = torch.isfinite(self._qpos).all(1) & torch.isfinite(self._qvel).all(1)
        return ~finite

    def overflow(self) -> Overflow | None:
        rows, totals = self._rows.clone(), self._totals.tolist()
        self._rows.zero_()
        self._totals.zero_()
        worlds = int((rows > self._njmax).sum())
        if worlds:
            return Overflow(worlds, "njmax", self._njmax, int(rows.max()))
        room = self._nconmax * self.nworld
        most = max(totals)
        if most > room:
            return Overflow(self.nworld, "nconmax", self._nconmax, -(-most // self.nworld))
        return None

    def simulator_state(self) -> None:
        """Contact buffers and islands cannot be put back bit for bit: a resumed run starts anew."""

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        raise UserError(
            "warp backends cannot restore a state; start new episodes", code="backend_limit"
        )

    def close(self) -> None:
        self._graphs.clear()


def _driver_has_graphs() -> bool:
    """True if the CUDA driver is new enough for captured steps; warns once, loudly, if not."""
    driver = wp.get_cuda_driver_version() if hasattr(wp, "get_cuda_driver_version") else None
    version = tuple(driver) if driver is not None else MIN_GRAPH_DRIVER
    if version >= MIN_GRAPH_DRIVER:
        return True
    warnings.warn(
        f"CUDA driver {version} is older than {MIN_GRAPH_DRIVER}: steps run without a captured graph "
        "and will be several times slower; update the driver",
        stacklevel=2,
    )
    return False
