"""One pile under the arm: observe, step, and named measurements. It measures; metrics.py judges.

Order of a tick: observe, 25 x (physics step, magnet, forces), then clearing, floor and bin hits.
"""

import hashlib
import time
from collections.abc import Collection
from dataclasses import dataclass, field

import mujoco
import numpy as np

from families.f07_bin import scene, spec
from families.f07_bin.forces import ContactForces, Contacts, read_contacts
from families.f07_bin.magnet import Change, Magnet
from families.f07_bin.piles import Pile, Streams
from families.f07_bin.sensors import Sensors
from rle.sim import guard

_CURVES = ("t_s", "cleared", "peak_part_n", "peak_bin_n")


@dataclass(frozen=True)
class Event:
    """Something that happened, with what explains it."""

    t_s: float
    tick: int
    kind: str
    """grab, release, slip, clear, floor, damage or bin_hit."""
    part: int
    """-1 for a bin hit."""
    facts: dict = field(default_factory=dict)
    """Pose, velocities, held parts; for a force event its contacts, value and limit."""


class Episode:
    """A pile under the arm, from tick 0 to the end. A context manager: it owns the renderers.

    Args:
        pile: A settled pile; the episode compiles its own model and never touches another's.
        streams: Streams of the pile, for the sensors' noise.
        channels: Picture channels to draw.
    """

    def __init__(
        self, pile: Pile, streams: Streams, channels: Collection[str] = spec.CHANNELS
    ) -> None:
        self.cell = scene.build(pile.n_parts, pile.lights)
        self.data = mujoco.MjData(self.cell.model)
        n = pile.n_parts
        self.n_parts, self.lights = n, pile.lights
        self._command = np.array((*spec.ARM_HOME_RAD, 0.0))
        self.tick = 0
        self.cleared_tick = np.full(n, -1)
        """Tick at whose end each part was cleared, -1 for not yet. Shape (n,), int."""
        self.is_dropped, self.is_damaged = np.zeros(n, bool), np.zeros(n, bool)
        """Parts that fell to the floor, and parts that were bent. Shape (n,), bool."""
        self.n_bin_hits = 0
        self.n_solver_warnings = 0
        self.is_unstable = False
        self.physics_s = 0.0
        self.events: list[Event] = []
        self.curves: dict[str, list[float]] = {name: [] for name in _CURVES}
        """Once per second: time, parts cleared, peaks of P and B in that second."""
        self._peaks_n = np.zeros(n + 1)
        self._rest_ticks = np.zeros(n, dtype=int)
        self._bin_armed, self._bin_quiet_steps = True, 0
        self._last_release: dict[int, float] = {}
        self._digest = hashlib.sha256()
        self._magnet, self._forces = Magnet(self.cell), ContactForces(self.cell)
        self.sensors = Sensors(self.cell, streams, channels)
        self._place(pile)

    # ------------------------------------------------------------------------- measurements

    @property
    def t_s(self) -> float:
        """Simulated time since tick 0."""
        return self.tick / spec.CONTROL_HZ

    @property
    def is_cleared(self) -> np.ndarray:
        """Shape (n,), bool."""
        return self.cleared_tick >= 0

    @property
    def n_cleared(self) -> int:
        return int(self.is_cleared.sum())

    @property
    def last_clear_s(self) -> float:
        """End of the tick of the last clearing, 0 when nothing was cleared."""
        return (int(self.cleared_tick.max()) + 1) / spec.CONTROL_HZ

    @property
    def n_slips(self) -> int:
        return self._magnet.n_slips

    @property
    def held(self) -> tuple[int, ...]:
        """Parts that the magnet holds."""
        return self._magnet.held

    @property
    def is_on(self) -> bool:
        """The magnet's command, not whether something is held."""
        return bool(self._command[-1] >= spec.MAG_ON_THRESHOLD)

    @property
    def is_done(self) -> bool:
        """All parts cleared, time over, or physics unstable."""
        return bool(self.is_cleared.all()) or self.tick >= spec.TICKS or self.is_unstable

    @property
    def part_poses(self) -> np.ndarray:
        """Position and quat_wxyz of each part. Shape (n, 7), m, world. Privileged."""
        return self.data.qpos[self.cell.part_qpos[:, None] + np.arange(7)]

    @property
    def part_twists(self) -> np.ndarray:
        """Linear velocity in the world and angular in the part. Shape (n, 6), m/s, rad/s. Privileged."""
        return self.data.qvel[self.cell.part_qvel[:, None] + np.arange(6)]

    @property
    def part_force_n(self) -> np.ndarray:
        """10 ms mean of P of each part. Shape (n,), N."""
        return self._forces.mean_n[:-1]

    @property
    def bin_force_n(self) -> float:
        """10 ms mean of B, N."""
        return float(self._forces.mean_n[-1])

    @property
    def peak_part_n(self) -> float:
        """Highest 10 ms mean of P of any part so far, N."""
        return max((*self.curves["peak_part_n"], float(self._peaks_n[:-1].max())))

    @property
    def peak_bin_n(self) -> float:
        """Highest 10 ms mean of B so far, N."""
        return max((*self.curves["peak_bin_n"], float(self._peaks_n[-1])))

    @property
    def magnet_load(self) -> np.ndarray:
        """u of each held part in the last step. Shape (n,)."""
        return self._magnet.load

    def digest(self) -> str:
        """SHA-256 over the rounded qpos of every tick and the clear ticks."""
        final = self._digest.copy()
        final.update(self.cleared_tick.astype("<i8").tobytes())
        return final.hexdigest()

    # ---------------------------------------------------------------------------- stepping

    def observe(self) -> dict[str, np.ndarray | float]:
        """Observation before the next tick; see the family's README for keys and units."""
        return self.sensors.observe(self.data, self.tick, self.is_on)

    def step(self, command: np.ndarray | None) -> None:
        """Runs one tick.

        Args:
            command: Seven joint targets in rad and the magnet's command, clamped to their ranges. Shape
                (8,), finite. None holds the last command.
        """
        started = time.perf_counter()
        if command is not None:
            low, high = self.cell.model.actuator_ctrlrange.T
            self._command[:-1] = np.clip(command[:-1], low, high)
            self._command[-1] = np.clip(command[-1], *spec.MAG_CTRL_RANGE)
        self.data.ctrl[:] = self._command[:-1]
        if not self.is_on and self._magnet.held:
            self._note_changes(self._magnet.release(self.data))
        try:
            for _ in range(spec.SUBSTEPS):
                self._substep()
        except mujoco.FatalError:
            self.is_unstable = True  # the solver gave up on a diverged state
        self.n_solver_warnings += len(guard.take_warnings())
        self.is_unstable |= guard.has_warning(self.data) or not guard.is_finite(self.data)
        if not self.is_unstable:
            np.maximum(self._peaks_n, self._forces.take_peaks(), out=self._peaks_n)
            self._note_floor()
            self._note_clearing()
        self._rearm_bin()
        self._digest.update((np.round(self.data.qpos, spec.DIGEST_ROUND) + 0.0).tobytes())
        self.tick += 1
        if self.tick % spec.CONTROL_HZ == 0:
            self._note_second()
        self.physics_s += time.perf_counter() - started

    def _substep(self) -> None:
        mujoco.mj_step(self.cell.model, self.data)
        contacts = read_contacts(self.data)
        self._judge(contacts)
        changes = self._magnet.step(self.data, contacts, self.is_on)
        if changes:
            self._note_changes(changes)

    # -------------------------------------------------------------------------------- rules

    def _judge(self, contacts: Contacts) -> None:
        """Follows the forces of one physics step and notes what passes its limit."""
        if self._forces.add(contacts, self._magnet.held):
            self._forces.sum_up()
            if self.part_force_n.max() > spec.DAMAGE_FORCE_N:
                self._note_damage(contacts)
            if self.bin_force_n > spec.BIN_HIT_FORCE_N:
                self._note_bin_hit(contacts)
        self._bin_quiet_steps += 1

    def _note_damage(self, contacts: Contacts) -> None:
        over = (self.part_force_n > spec.DAMAGE_FORCE_N) & ~self.is_damaged
        for part in np.flatnonzero(over):
            self.is_damaged[part] = True
            mine = (self.cell.part_of_geom[contacts.geom] == part).any(axis=1)
            self._event(
                "damage",
                int(part),
                contacts=self._describe(contacts, mine),
                force_n=float(self._forces.last_n[part]),
                window_n=float(self.part_force_n[part]),
                limit_n=spec.DAMAGE_FORCE_N,
            )

    def _note_bin_hit(self, contacts: Contacts) -> None:
        self._bin_quiet_steps = -1  # this step is not quiet
        if not self._bin_armed:
            return
        self._bin_armed = False
        self.n_bin_hits += 1
        on_bin = np.isin(contacts.geom, [self.cell.model.geom(n).id for n in scene.BIN_GEOMS])
        self._event(
            "bin_hit",
            -1,
            contacts=self._describe(contacts, on_bin.any(axis=1)),
            force_n=float(self._forces.last_n[-1]),
            window_n=self.bin_force_n,
            limit_n=spec.BIN_HIT_FORCE_N,
        )

    def _rearm_bin(self) -> None:
        if self._bin_quiet_steps * spec.TIMESTEP_S >= spec.BIN_HIT_REARM_S:
            self._bin_armed = True

    def _note_changes(self, changes: list[Change]) -> None:
        for change in changes:
            load = float(self._magnet.load[change.part])
            if change.kind != "grab":
                self._last_release[change.part] = self.data.time
            self._event(change.kind, change.part, load=load)

    def _note_floor(self) -> None:
        fallen = (self.part_poses[:, 2] < spec.FLOOR_Z_M) & ~self.is_dropped & ~self.is_cleared
        for part in np.flatnonzero(fallen):
            if part not in self.held:
                self.is_dropped[part] = True
                self._event("floor", int(part), limit_m=spec.FLOOR_Z_M)

    def _note_clearing(self) -> None:
        free = ~self.is_cleared
        free[list(self.held)] = False
        position = self.part_poses[:, :3]
        inside = ((position >= spec.ZONE_LO_M) & (position <= spec.ZONE_HI_M)).all(axis=1) & free
        speed = np.linalg.norm(self.part_twists[:, :3], axis=1)
        resting = inside & (inside.sum() == 1) & (speed < spec.CLEAR_SPEED_M_S)
        self._rest_ticks = np.where(resting, self._rest_ticks + 1, 0)
        for part in np.flatnonzero(self._rest_ticks >= spec.CLEAR_TICKS):
            self._event("clear", int(part))
            self.cleared_tick[part] = self.tick
            self._remove(int(part))

    def _remove(self, part: int) -> None:
        """Takes a cleared part away: no contact, no weight, at rest far off, not drawn."""
        model, data = self.cell.model, self.data
        geoms = np.flatnonzero(self.cell.part_of_geom == part)
        model.geom_contype[geoms] = model.geom_conaffinity[geoms] = 0
        model.geom_rgba[geoms, 3] = 0.0
        address, dof = self.cell.part_qpos[part], self.cell.part_qvel[part]
        data.qpos[address : address + 7] = (*spec.CLEARED_POS_M, 1.0, 0.0, 0.0, 0.0)
        data.qpos[address] += spec.CLEARED_PITCH_M * part
        data.qvel[dof : dof + 6] = 0.0
        data.qacc_warmstart[dof : dof + 6] = 0.0
        body = self.cell.part_bodies[part]
        data.xfrc_applied[body, 2] = model.body_mass[body] * spec.GRAVITY_M_S2

    # ------------------------------------------------------------------------------- records

    def _note_second(self) -> None:
        peaks = float(self._peaks_n[:-1].max()), float(self._peaks_n[-1])
        for name, value in zip(_CURVES, (self.t_s, float(self.n_cleared), *peaks), strict=True):
            self.curves[name].append(value)
        self._peaks_n[:] = 0.0

    def _event(self, kind: str, part: int, **facts: object) -> None:
        if part >= 0:
            facts |= {
                "pose": self.part_poses[part].tolist(),
                "velocity": self.part_twists[part].tolist(),
                "last_release_s": self._last_release.get(part),
            }
        facts["held"] = list(self.held)
        self.events.append(Event(float(self.data.time), self.tick, kind, part, facts))

    def _describe(self, contacts: Contacts, mask: np.ndarray) -> list[dict]:
        """Geoms, position, normal and normal force of the chosen contacts, strongest first."""
        chosen = sorted(np.flatnonzero(mask), key=lambda i: -contacts.normal_n[i])
        contact = self.data.contact
        return [
            {
                "geoms": [self.cell.model.geom(int(g)).name for g in contacts.geom[i]],
                "position": contact.pos[i].tolist(),
                "normal": contact.frame[i, :3].tolist(),
                "force_n": float(contacts.normal_n[i]),
            }
            for i in chosen
            if contacts.normal_n[i] > 0.0
        ]

    def _place(self, pile: Pile) -> None:
        """Puts the pile under the arm at home, waits, and sets the clock to 0."""
        data = self.data
        data.qpos[: spec.N_JOINTS] = data.ctrl[:] = spec.ARM_HOME_RAD
        data.qpos[self.cell.part_qpos[:, None] + np.arange(7)] = pile.poses
        guard.take_warnings()
        what = "pile under the arm"
        guard.step(self.cell.model, data, what, round(spec.ARM_SETTLE_S / spec.TIMESTEP_S))
        guard.check(self.cell.model, data, what)
        data.time = 0.0

    def close(self) -> None:
        """Frees the renderers. Safe to call twice."""
        self.sensors.close()

    def __enter__(self) -> "Episode":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
