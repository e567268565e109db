"""The training environment: many robots that follow one clip, in torch, on any batch backend.

Observation, history, re-anchoring and fall rules are the functions that scoring uses. One `step`:
apply the (delayed) action, push, simulate, advance the frame, then reward, terminations, resets and
observation.
"""

from typing import Any

import numpy as np
import torch
from tensordict import TensorDict

from families.f04_tracking import draws, metrics, policy, scene, spec, task
from families.f04_tracking.reference import Reference, load_clip
from rle import rotations
from rle.errors import SimulationError, UserError
from rle.sim.batch import BatchScene, State, make_backend
from rle.sim.starts import StartFrames

TRAIN_DRAWS = spec.Profile(dynamics=True, terrain=False, init=True, push=True, noise=True)
"""All draws of scoring but the terrain."""
OVERFLOW_CHECK_STEPS = 50
"""Control steps between two reads of the overflow counters. Source: card."""
MAX_NAN_SHARE = 1.0e-3
"""Share of worlds per `NAN_WINDOW_STEPS` that may be reset for a non-finite state. Source: card."""
NAN_WINDOW_STEPS = 1000


def batch_scene(g1: scene.G1) -> BatchScene:
    """What the backends measure and vary of the robot."""
    handles, model = g1.handles, g1.model
    ends = {spec.TRACKED_BODIES[i] for i in spec.END_EFFECTOR_INDEX}
    counted = [model.body(name).id for name in spec.BODY_NAMES if name not in ends]
    return BatchScene(
        model=model,
        bodies=handles.tracked,
        imu_lin_vel=handles.imu_lin_vel,
        imu_ang_vel=handles.imu_ang_vel,
        body_lin_vel=handles.body_lin_vel,
        body_ang_vel=handles.body_ang_vel,
        friction_geoms=handles.robot_geoms,
        com_body=model.body("torso_link").id,
        counted_bodies=np.array(counted),
        contact_force_n=spec.TRAIN_REWARD.contact_force_n,
    )


_SAVED = (
    "action", "previous_action", "frame", "start_frame", "episode_length_buf", "next_push",
    "steps", "nan_resets", "_window_nans",
)  # fmt: skip


class TrackingEnv:
    """N robots under randomised dynamics; the `VecEnv` interface of rsl-rl.

    Args:
        task_slug: "dance", ... of family f04; or a `Reference` to follow.
        num_envs: Robots.
        backend: Name of `rle.sim.batch.BACKENDS`.
        seed: Seeds every draw of this environment.
        randomise: Which draws are applied; dynamics are drawn once per world.
        terrain: One shared height field instead of the plane.
        history: Observation frames in the `policy` group.
        auto_reset: Reset finished robots inside `step`.
        options: Passed to the backend (`threads`, `njmax`, `device`).
    """

    def __init__(
        self,
        task_slug: str | Reference,
        num_envs: int,
        backend: str = "auto",
        seed: int = 0,
        randomise: spec.Profile = TRAIN_DRAWS,
        terrain: bool = False,
        history: int = 1,
        auto_reset: bool = True,
        **options: Any,
    ) -> None:
        clip = load_clip(task_slug) if isinstance(task_slug, str) else task_slug
        self.reference, self.num_envs, self.num_actions = clip, num_envs, spec.ACTION_DIM
        self.rng, self.use, self.auto_reset = np.random.default_rng(seed), randomise, auto_reset
        heights = draws.draw_terrain(self.rng, clip.body_pos_w) if terrain else None
        self.g1 = scene.build(spec.TRAIN_TIMESTEP_S, None, heights)
        self._floor_top_m = heights.span_m / 2.0 if heights is not None else 0.0
        self.sim = make_backend(backend, batch_scene(self.g1), num_envs, **options)
        self.device = self.sim.device
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self.cfg = {"history": history, "task": getattr(clip, "kind", ""), "seed": seed}
        self._load_reference()
        self._draw_dynamics()
        self._allocate(history)
        self.reset()

    # ------------------------------------------------------------------------------ preparation

    def _tensor(self, values: Any) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values), dtype=torch.float32, device=self.device)

    def _load_reference(self) -> None:
        clip = policy.targets(self.reference)
        self.targets = policy.Target(*(self._tensor(a) for a in clip))
        self._ref_qpos, self._ref_qvel = (
            self._tensor(self.reference.qpos),
            self._tensor(self.reference.qvel),
        )
        self.last_frame = self.reference.frames - 1
        handles = self.g1.handles
        low, high = handles.joint_range_rad.T
        self._low, self._high = self._tensor(low), self._tensor(high)
        self._default, self._scale = (
            self._tensor(spec.DEFAULT_POSE_RAD),
            self._tensor(spec.ACTION_SCALE_RAD),
        )
        self._joint_qpos = torch.as_tensor(handles.qpos, device=self.device)
        self._joint_qvel = torch.as_tensor(handles.qvel, device=self.device)
        self._joint_ctrl = torch.as_tensor(handles.ctrl, device=self.device)
        self._fall_limits = self._tensor(task.FALL_LIMITS)
        self._noise_width = self._tensor(draws.noise_half_width())
        self.max_episode_length = round(spec.TRAIN_EPISODE_S * spec.CONTROL_HZ)
        sampling = spec.START_SAMPLING
        bin_frames = round(sampling.bin_s * spec.CONTROL_HZ)
        self.starts = StartFrames(
            self.last_frame, bin_frames, sampling.ema_alpha, sampling.uniform_share, self.device
        )

    def _draw_dynamics(self) -> None:
        """Per-world dynamics, by the same draws as scoring."""
        nominal = draws.Draw()
        drawn = [
            draws.draw_dynamics(self.rng) if self.use.dynamics else nominal
            for _ in range(self.num_envs)
        ]
        if self.use.dynamics:
            for name, field in (
                ("friction", "friction"), ("mass_scale", "mass_scale"),
                ("com_offset", "torso_com_offset_m"), ("kp_scale", "kp_scale"), ("kd_scale", "kd_scale"),
            ):  # fmt: skip
                rows = np.array([getattr(d, field) for d in drawn]).reshape(self.num_envs, -1)
                self.sim.set_params(name, self._tensor(rows))
        self._bias = self._tensor([d.encoder_bias_rad for d in drawn])
        self._latency = torch.as_tensor([d.latency_steps for d in drawn], device=self.device)

    def _allocate(self, history: int) -> None:
        n, device = self.num_envs, self.device
        joints = torch.zeros((n, spec.ACTION_DIM), device=device)
        self.action, self.previous_action = joints.clone(), joints.clone()
        self.window = policy.History(n, history, like=joints)
        self.frame = torch.zeros(n, dtype=torch.long, device=device)
        self.start_frame = torch.zeros(n, dtype=torch.long, device=device)
        self.episode_length_buf = torch.zeros(n, dtype=torch.long, device=device)
        self.next_push = torch.zeros(n, dtype=torch.long, device=device)
        self.steps, self.nan_resets, self._window_nans = 0, 0, 0
        self.overflow_worlds = 0
        """Worlds of the last overflow that the backend reported; above 0 the run has been stopped."""
        self.extras: dict[str, Any] = {}

    # --------------------------------------------------------------------------------- stepping

    def reset(self) -> TensorDict:
        """Resets every robot and returns the first observations."""
        self._reset(torch.arange(self.num_envs, device=self.device))
        return self._observe()

    def get_observations(self) -> TensorDict:
        """Observations of the present time (no new noise is drawn)."""
        return self._observations

    def step(
        self, actions: torch.Tensor
    ) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Holds actions for one control period.

        Args:
            actions: Raw actions, shape (N, 29).

        Returns:
            Observations (groups `policy` (N, 160 H) and `critic` (N, 286)), rewards (N,), dones (N,), and
            extras with `time_outs` (N,), `log` and `falls` (N,).
        """
        # A copy: a reset clears it, and the caller's may be what a learner still has to store.
        given = actions.detach().to(self.device, torch.float32, copy=True)
        self.previous_action, self.action = self.action, given
        self._push()
        self.sim.step(self.controls(), spec.TRAIN_SUBSTEPS)
        self.frame += 1
        self.episode_length_buf += 1
        self.steps += 1
        self.measure()
        target = self.targets.at(self.frame)
        broken = self._broken()
        measures = torch.stack(task.fall_measures(self.robot, target, torch), 1)
        falls = (measures > self._fall_limits).any(1) | broken
        ended = self.frame >= self.last_frame
        time_outs = (ended | (self.episode_length_buf >= self.max_episode_length)) & ~falls
        anchor = spec.ANCHOR_INDEX
        moved = metrics.anchoring(
            target.body_pos[:, anchor], target.body_quat_wxyz[:, anchor],
            self.robot.body_pos[:, anchor], self.robot.body_quat_wxyz[:, anchor], torch,
        )  # fmt: skip
        earned, terms = metrics.training_reward(
            self.robot, self.state, target, moved, self.action, self.previous_action,
            (self._low, self._high), torch,
        )  # fmt: skip
        earned = torch.where(broken, torch.zeros_like(earned), earned)
        dones = falls | time_outs
        self._log(terms, target, moved, dones, falls)
        self.starts.count(self.frame[falls])
        if self.auto_reset and bool(dones.any()):
            self._reset(torch.nonzero(dones).flatten())
        self.extras["time_outs"], self.extras["falls"] = time_outs, falls
        return self._observe(), earned, dones.long(), self.extras

    def controls(self) -> torch.Tensor:
        """Servo targets of this step, latency applied: a_{k-L}, and the first frame's pose for k < L.

        Returns:
            Shape (N, nu), rad, order of the model's actuators.
        """
        delayed = torch.where((self._latency == 1)[:, None], self.previous_action, self.action)
        wanted = self._default + self._scale * delayed
        waits = (self.episode_length_buf < self._latency)[:, None]
        wanted = torch.where(waits, self.targets.joint_pos[self.start_frame], wanted) - self._bias
        ctrl = torch.zeros((self.num_envs, self.g1.model.nu), device=self.device)
        ctrl[:, self._joint_ctrl] = torch.minimum(torch.maximum(wanted, self._low), self._high)
        return ctrl

    def _push(self) -> None:
        """Root velocity pushes that are due at the start of this control step."""
        if not self.use.push:
            return
        due = torch.nonzero(self.episode_length_buf >= self.next_push).flatten()
        if len(due) == 0:
            return
        ranges = spec.EVAL_DRAWS
        linear = self._uniform((len(due), 3), *ranges.push_lin_vel_m_s)
        angular = self._uniform((len(due), 3), *ranges.push_ang_vel_rad_s)
        self.sim.add_velocity(due, torch.cat([linear, angular], 1))
        self.next_push[due] = self.episode_length_buf[due] + self._push_wait(len(due))

    def _push_wait(self, n: int) -> torch.Tensor:
        wait_s = self._uniform((n,), *spec.EVAL_DRAWS.push_interval_s)
        return torch.ceil(wait_s * spec.CONTROL_HZ).long()

    def _uniform(self, shape: tuple[int, ...], low: float, high: float) -> torch.Tensor:
        draw = torch.rand(shape, generator=self.generator, device=self.device)
        return low + (high - low) * draw

    def measure(self) -> None:
        """Reads the robots' state from the simulator; due after every step, reset or change of it."""
        state: State = self.sim.state()
        self.state = state
        self.robot = policy.Robot(
            joint_pos=state.qpos[:, self._joint_qpos],
            joint_vel=state.qvel[:, self._joint_qvel],
            imu_lin_vel=state.imu_lin_vel,
            imu_ang_vel=state.imu_ang_vel,
            body_pos=state.body_pos,
            body_quat_wxyz=state.body_quat,
        )

    def _broken(self) -> torch.Tensor:
        """Diverged worlds; raises when they are many, or when a buffer was too small."""
        if self.steps % OVERFLOW_CHECK_STEPS == 0 and (over := self.sim.overflow()) is not None:
            self.overflow_worlds = over.worlds
            raise SimulationError(
                f"{over.worlds} of {self.num_envs} worlds exceeded {over.buffer}={over.size} at step "
                f"{self.steps}; rerun with {over.buffer} >= {int(1.5 * over.needed)}",
                code="sim_overflow",
            )
        fast = ~(self.state.qvel.abs().amax(1) <= spec.FALLS.max_qvel)
        broken = self.sim.nan_worlds().to(self.device) | fast
        count = int(broken.sum())
        self.nan_resets += count
        if self.steps % NAN_WINDOW_STEPS == 0:
            self._window_nans = 0
        self._window_nans += count
        if self._window_nans > max(1.0, MAX_NAN_SHARE * self.num_envs * NAN_WINDOW_STEPS):
            raise SimulationError(
                f"{self._window_nans} worlds diverged within {NAN_WINDOW_STEPS} steps; check the "
                "action scale, or lower the timestep"
            )
        return broken

    # ------------------------------------------------------------------------- resets and frames

    def place(self, frames: torch.Tensor, qpos: torch.Tensor, qvel: torch.Tensor) -> None:
        """Starts an episode of every robot in a given state; `get_observations` then shows it.

        Args:
            frames: Frame of the clip that each state belongs to, shape (N,).
            qpos: Shape (N, nq), order of the model.
            qvel: Shape (N, nv).
        """
        everyone = torch.arange(self.num_envs, device=self.device)
        self.sim.reset(everyone, qpos, qvel)
        self._begin(everyone, frames.to(self.device))
        self._observe()

    def _reset(self, ids: torch.Tensor) -> None:
        n = len(ids)
        frames = self.starts.draw(n, self.generator)
        qpos, qvel = self._ref_qpos[frames].clone(), self._ref_qvel[frames].clone()
        if self.use.init:
            qpos, qvel = self._start_noise(qpos, qvel)
        full_q = torch.zeros((n, self.g1.model.nq), device=self.device)
        full_v = torch.zeros((n, self.g1.model.nv), device=self.device)
        full_q[:, :7], full_q[:, self._joint_qpos] = qpos[:, :7], qpos[:, 7:]
        full_v[:, :6], full_v[:, self._joint_qvel] = qvel[:, :6], qvel[:, 6:]
        self.sim.reset(ids, full_q, full_v)
        allowed = self._floor_top_m - spec.SCENE.start_penetration_m
        lift = (allowed - self.sim.lowest_m(ids)).clamp(min=0.0)
        if bool((lift > 0).any()):
            full_q[:, 2] += lift
            self.sim.reset(ids, full_q, full_v)
        self._begin(ids, frames)

    def _begin(self, ids: torch.Tensor, frames: torch.Tensor) -> None:
        """Clears what an episode keeps: time, actions, history, next push."""
        self.frame[ids] = self.start_frame[ids] = frames
        self.episode_length_buf[ids] = 0
        self.action[ids] = self.previous_action[ids] = 0.0
        self.window.clear(ids)
        self.next_push[ids] = self._push_wait(len(ids))
        self.measure()

    def _start_noise(
        self, qpos: torch.Tensor, qvel: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Start offsets with the ranges of scoring."""
        n, r = len(qpos), spec.EVAL_DRAWS
        qpos[:, 0:2] += self._uniform((n, 2), *r.start_xy_m)
        qpos[:, 2] += self._uniform((n,), *r.start_z_m)
        angles = [
            self._uniform((n,), *x) for x in (r.start_roll_rad, r.start_pitch_rad, r.start_yaw_rad)
        ]
        qpos[:, 3:7] = rotations.product(rotations.from_rpy(*angles, xp=torch), qpos[:, 3:7])
        qpos[:, 7:] += self._uniform((n, spec.N_JOINTS), *r.start_joint_rad)
        qpos[:, 7:] = torch.minimum(torch.maximum(qpos[:, 7:], self._low), self._high)
        qvel[:, 0:3] += self._uniform((n, 3), *r.start_lin_vel_m_s)
        qvel[:, 3:6] += self._uniform((n, 3), *r.start_ang_vel_rad_s)
        return qpos, qvel

    def _observe(self) -> TensorDict:
        """Noisy history for the policy, noise-free privileged frame for the critic, same instant."""
        target = self.targets.at(self.frame)
        clean = policy.observe(self.robot, target, self._bias - self._default, self.action, torch)
        critic = policy.observe_critic(clean, self.robot, torch)
        noisy = clean
        if self.use.noise:
            noisy = clean + self._noise_width * self._uniform(tuple(clean.shape), -1.0, 1.0)
        window = self.window.push(noisy)
        self._observations = TensorDict(
            {"policy": window.clone(), "critic": critic}, batch_size=[self.num_envs]
        )
        return self._observations

    def _log(
        self,
        terms: dict[str, torch.Tensor],
        target: policy.Target,
        moved: metrics.Anchoring,
        dones: torch.Tensor,
        falls: torch.Tensor,
    ) -> None:
        error = metrics.body_error(
            self.robot.body_pos, metrics.re_anchor(moved, target.body_pos, torch)
        )
        self.extras["log"] = {f"/reward/{k}": v.mean() for k, v in terms.items()}
        self.extras["log"]["/mpjpe_m"] = error.nanmean()
        self.extras["log"]["/falls"] = falls.float().sum()
        if bool(dones.any()):
            self.extras["log"]["/episode_len"] = self.episode_length_buf[dones].float().mean()

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides what comes next; tensors and numbers only."""
        saved = {name: getattr(self, name) for name in _SAVED}
        saved |= {"window": self.window.array, "generator": self.generator.get_state()}
        saved["start_failures"] = self.starts.failures
        saved["observations"] = dict(self._observations.items())
        if (physics := self.sim.simulator_state()) is not None:
            saved["sim"] = {k: torch.from_numpy(v) for k, v in physics.items()}
        return saved

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Puts back what `state_dict` gave. On `mjc` the continuation is bit-exact; backends that
        cannot save start new episodes, with the sampler and the generator of the saved run.

        Raises:
            UserError: Saved with another number of robots or history.
        """
        if saved["window"].shape != self.window.array.shape:
            raise UserError(
                f"saved for {tuple(saved['window'].shape)} robots x observation, this environment has "
                f"{tuple(self.window.array.shape)}; use the same number of robots and history"
            )
        for name in _SAVED:
            setattr(self, name, saved[name])
        self.starts.failures = saved["start_failures"]
        self.generator.set_state(saved["generator"].cpu())
        if "sim" not in saved:
            self.reset()
            return
        self.sim.restore({k: v.numpy() for k, v in saved["sim"].items()})
        self.window.array = saved["window"]
        self.measure()
        self._observations = TensorDict(saved["observations"], batch_size=[self.num_envs])

    def close(self) -> None:
        """Frees the backend."""
        self.sim.close()
