"""`mjc`: one persistent MjModel and MjData per world, stepped by a pool of threads.

`mj_step(nstep=...)` releases the interpreter lock, so threads scale; warm starts are kept, which
`mujoco.rollout` does not do. Physics is float64, tensors are float32.
"""

import copy
import os
from concurrent.futures import ThreadPoolExecutor

import mujoco
import numpy as np
import torch

from rle.errors import UserError
from rle.sim import guard
from rle.sim.batch import BatchScene, LowestPoint, Overflow, Params, State, apply_params

_CHUNKS_PER_THREAD = 4
"""Small enough that an unlucky chunk does not idle the other threads. Source: card."""


class MjcBatch:
    """MuJoCo (C) over threads. See `rle.sim.batch.BatchSim`.

    Args:
        scene: Model and measurements.
        nworld: Number of worlds.
        threads: Worker threads; None is the process' CPUs.
    """

    def __init__(self, scene: BatchScene, nworld: int, threads: int | None = None) -> None:
        if nworld < 1:
            raise UserError(f"a batch needs at least one world, got {nworld}", code="backend_limit")
        self.scene, self.nworld = scene, nworld
        self.device, self.dtype = torch.device("cpu"), torch.float32
        self.dt = float(scene.model.opt.timestep)
        self.threads = threads or len(os.sched_getaffinity(0))
        self._models = [copy.copy(scene.model) for _ in range(nworld)]
        self._datas = [mujoco.MjData(m) for m in self._models]
        self._params = Params(nworld)
        self._allocate()
        self._pool = ThreadPoolExecutor(self.threads) if self.threads > 1 else None
        n_chunks = max(1, min(nworld, _CHUNKS_PER_THREAD * self.threads))
        self._chunks = [c.tolist() for c in np.array_split(np.arange(nworld), n_chunks)]
        self._is_counted_geom = np.isin(scene.model.geom_bodyid, scene.counted_bodies)
        self._lowest = LowestPoint(scene, self.device)

    def _allocate(self) -> None:
        """Batch arrays that every step fills, and per-world views so that no step looks one up."""
        model, n = self.scene.model, self.nworld
        self._qpos, self._qvel = np.zeros((n, model.nq)), np.zeros((n, model.nv))
        self._xpos, self._xquat = np.zeros((n, model.nbody, 3)), np.zeros((n, model.nbody, 4))
        self._sensors = np.zeros((n, model.nsensordata))
        self._touching = np.zeros(n)
        self._bad = np.zeros(n, dtype=bool)
        self._views = [(d.qpos, d.qvel, d.xpos, d.xquat, d.sensordata, d.ctrl) for d in self._datas]
        self._warnings = [d.warning.number for d in self._datas]

    def set_params(self, name: str, values: torch.Tensor) -> None:
        self._params.set(name, values)

    def _apply_params(self) -> None:
        """Writes every world's parameters into its own model."""
        for world, model in enumerate(self._models):
            apply_params(model, self.scene.model, self.scene, self._params.of(world))

    def reset(self, env_ids: torch.Tensor, qpos: torch.Tensor, qvel: torch.Tensor) -> None:
        self._params.close(self._apply_params)
        positions, velocities = qpos.double().numpy(), qvel.double().numpy()
        for row, world in enumerate(env_ids.tolist()):
            model, data = self._models[world], self._datas[world]
            mujoco.mj_resetData(model, data)
            data.qpos[:], data.qvel[:] = positions[row], velocities[row]
            mujoco.mj_forward(model, data)
            self._bad[world] = False
            self._read(world)
        guard.take_warnings()

    def add_velocity(self, env_ids: torch.Tensor, delta: torch.Tensor) -> None:
        rows = delta.double().numpy()
        for row, world in enumerate(env_ids.tolist()):
            self._datas[world].qvel[:6] += rows[row]

    def lowest_m(self, env_ids: torch.Tensor) -> torch.Tensor:
        geoms, datas = self.scene.friction_geoms, [self._datas[w] for w in env_ids.tolist()]
        height = np.array([d.geom_xpos[geoms, 2] for d in datas])
        axis_z = np.array([d.geom_xmat[geoms, 8] for d in datas])
        return self._lowest.of(torch.from_numpy(height).float(), torch.from_numpy(axis_z).float())

    def step(self, ctrl: torch.Tensor, n_substeps: int) -> None:
        self._params.close(self._apply_params)
        controls = ctrl.detach().double().numpy()

        def run(chunk: list[int]) -> None:
            for world in chunk:
                self._views[world][5][:] = controls[world]
                model, data = self._models[world], self._datas[world]
                try:
                    mujoco.mj_step(model, data, n_substeps)
                except mujoco.FatalError:  # the solver gave up: a diverged world like any other
                    self._bad[world] = True
                # After mj_step positions are new and everything derived lags one substep.
                mujoco.mj_kinematics(model, data)
                mujoco.mj_comPos(model, data)
                mujoco.mj_comVel(model, data)
                mujoco.mj_sensorPos(model, data)
                mujoco.mj_sensorVel(model, data)
                self._read(world)
            guard.take_warnings()

        if self._pool is None:
            for chunk in self._chunks:
                run(chunk)
        else:
            list(self._pool.map(run, self._chunks))

    def _read(self, world: int) -> None:
        qpos, qvel, xpos, xquat, sensors, _ = self._views[world]
        self._qpos[world], self._qvel[world] = qpos, qvel
        self._xpos[world], self._xquat[world] = xpos, xquat
        self._sensors[world] = sensors
        self._touching[world] = self._count_touching(world)
        if np.count_nonzero(self._warnings[world]):  # a tenth of the time of `any`, in every step
            self._bad[world] = True

    def _count_touching(self, world: int) -> int:
        """Counted bodies with a contact normal force above the threshold."""
        data = self._datas[world]
        if data.ncon == 0:
            return 0
        geoms = data.contact.geom
        candidate = self._is_counted_geom[geoms]
        if not np.count_nonzero(candidate):
            return 0
        bodies = self.scene.model.geom_bodyid[geoms]
        touched: set[int] = set()
        wrench = np.zeros(6)
        for i in np.flatnonzero(candidate.any(axis=1)).tolist():
            mujoco.mj_contactForce(self._models[world], data, i, wrench)
            if wrench[0] > self.scene.contact_force_n:
                touched.update(b for b, counts in zip(bodies[i].tolist(), candidate[i]) if counts)
        return len(touched)

    def state(self) -> State:
        def tensor(array: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))

        scene, n = self.scene, self.nworld
        sensors = tensor(self._sensors)
        return State(
            qpos=tensor(self._qpos),
            qvel=tensor(self._qvel),
            body_pos=tensor(self._xpos[:, scene.bodies]),
            body_quat=tensor(self._xquat[:, scene.bodies]),
            body_lin_vel=sensors[:, scene.body_lin_vel].reshape(n, -1, 3),
            body_ang_vel=sensors[:, scene.body_ang_vel].reshape(n, -1, 3),
            imu_lin_vel=sensors[:, scene.imu_lin_vel],
            imu_ang_vel=sensors[:, scene.imu_ang_vel],
            contact_bodies=tensor(self._touching),
        )

    def nan_worlds(self) -> torch.Tensor:
        finite = np.isfinite(self._qpos).all(axis=1) & np.isfinite(self._qvel).all(axis=1)
        return torch.from_numpy(self._bad | ~finite)

    def overflow(self) -> Overflow | None:
        """MuJoCo's arena grows with the model's setting; a full one is a warning, hence a bad world."""
        full = sum(int(d.warning.number[1] + d.warning.number[2] > 0) for d in self._datas)
        if not full:
            return None
        size = int(self.scene.model.narena)
        return Overflow(worlds=full, buffer="narena", size=size, needed=2 * size)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def simulator_state(self) -> dict[str, np.ndarray]:
        """Full integration state, warm starts included, for bit-exact resumption."""
        kind = mujoco.mjtState.mjSTATE_INTEGRATION
        size = mujoco.mj_stateSize(self.scene.model, kind)
        rows = np.zeros((self.nworld, size))
        for world, (model, data) in enumerate(zip(self._models, self._datas)):
            mujoco.mj_getState(model, data, rows[world], kind)
        return {"integration": rows, **{f"param/{k}": v for k, v in self._params.values.items()}}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Puts back what `simulator_state` gave, parameters included."""
        self._params.values = {
            k.removeprefix("param/"): v for k, v in saved.items() if k.startswith("param/")
        }
        self._params.is_closed = False
        self._params.close(self._apply_params)
        kind = mujoco.mjtState.mjSTATE_INTEGRATION
        for world, (model, data) in enumerate(zip(self._models, self._datas)):
            mujoco.mj_setState(model, data, saved["integration"][world], kind)
            warmstart = data.qacc_warmstart.copy()
            mujoco.mj_forward(model, data)
            data.qacc_warmstart[:] = warmstart
            self._read(world)
