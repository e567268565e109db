"""The arm's pushes: strokes from the block's pose, inverse kinematics, simulation, choice of an episode.

A stroke is a polyline of the tip (lift, go above the start, descend, push). Its waypoints become joint
targets at `spec.WAYPOINT_HZ`; the physics does the rest. An episode is recorded as one state per frame,
from which pictures, labels and occlusion follow.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import mujoco
import numpy as np

from families.f06_pose import scene, spec
from rle.errors import SimulationError
from rle.sim import guard

Streams = Callable[..., np.random.Generator]
"""`streams(name, *ids)`: the named random streams of one scene."""


@dataclass(frozen=True)
class Push:
    """A recorded push episode."""

    shape_id: int
    qpos: np.ndarray
    """State of every frame. Shape (frames, nq)."""
    occluded: np.ndarray
    """Whether the arm hides the block. Shape (frames,), bool."""
    stroke_ends: tuple[int, ...]
    """Per stroke: number of frames up to its end."""
    quality: float
    attempt: int
    """Scene attempt, from 0."""
    candidate: int
    """Stroke stream that was chosen, from 0."""


@dataclass(frozen=True)
class Stroke:
    """One push, in the table plane."""

    start_m: np.ndarray
    end_m: np.ndarray
    axis: np.ndarray
    """Unit vector from flange to tip."""


def plan_stroke(
    rng: np.random.Generator, shape_id: int, position_m: np.ndarray, yaw_rad: float
) -> Stroke:
    """Draws a stroke against a block: the draw with the least violation of area and reach.

    Args:
        rng: Stream `strokes` of this candidate.
        shape_id: 0 T, 1 C, 2 F.
        position_m: The block's origin. Shape (2,), m.
        yaw_rad: Its yaw.
    """
    c, s = math.cos(yaw_rad), math.sin(yaw_rad)
    turn = np.array([[c, -s], [s, c]])
    outline = position_m + scene.outline_m(shape_id) @ turn.T
    centre = position_m + turn @ scene.centre_of_mass_m(shape_id)
    camera = np.array(spec.CAMERA_POS_M[:2]) - centre
    n = spec.PUSH_DRAWS
    azimuth = math.atan2(camera[1], camera[0]) + rng.uniform(*spec.PUSH_AZIMUTH_RAD, size=n)
    offset = rng.uniform(*spec.PUSH_OFFSET, size=n) * rng.choice((-1.0, 1.0), size=n)
    out = np.stack((np.cos(azimuth), np.sin(azimuth)), axis=1)
    side = np.stack((-out[:, 1], out[:, 0]), axis=1)
    reach, width = (outline - centre) @ out.T, (outline - centre) @ side.T
    lateral = offset * (width.max(axis=0) - width.min(axis=0)) / 2
    clear = spec.PUSH_START_GAP_M + spec.SHAFT_RADIUS_M
    # Only what lies in the shaft's way counts: a block is concave.
    gap = np.where(np.abs(width - lateral) <= clear, reach, -np.inf).max(axis=0) + clear
    start = centre + gap[:, None] * out + lateral[:, None] * side
    end = start - spec.PUSH_LENGTH_M * out
    best = int(np.argmin(_violation(start) + _violation(end)))
    tilt = spec.PUSH_TILT_SIN
    toward = (np.array(spec.CAMERA_POS_M[:2]) - start[best]) / np.linalg.norm(
        np.array(spec.CAMERA_POS_M[:2]) - start[best]
    )
    axis = np.array([*(-tilt * toward), -math.sqrt(1.0 - tilt * tilt)])
    return Stroke(start[best], end[best], axis)


def _violation(points_m: np.ndarray) -> np.ndarray:
    """Metres by which points leave the area and the reach of the arm. Shape (n, 2) to (n,)."""
    beyond = np.maximum(np.abs(points_m) - np.array(spec.PUSH_AREA_M), 0.0).sum(axis=1)
    distance = np.linalg.norm(points_m - np.array(spec.ARM_BASE_POS_M[:2]), axis=1)
    near, far = spec.PUSH_REACH_M
    return beyond + np.maximum(near - distance, 0.0) + np.maximum(distance - far, 0.0)


class Kinematics:
    """Damped least squares for the tip (weight 1) and the stick's axis (`spec.IK_AXIS_WEIGHT`).

    Args:
        built: The scene; its model is used with a state of its own.
    """

    def __init__(self, built: scene.Scene) -> None:
        self._model, self._site, self._arm = built.model, built.tip_site, built.arm_qpos
        self._data = mujoco.MjData(built.model)
        self._low, self._high = built.model.jnt_range[: spec.N_JOINTS].T
        self._jacp, self._jacr = np.zeros((2, 3, built.model.nv))
        self.q = np.array(spec.ARM_PARK_RAD)
        """Joint angles of the last solution, rad."""

    def tip(self) -> tuple[np.ndarray, np.ndarray]:
        """Position and axis of the tip at `q`."""
        data = self._data
        data.qpos[self._arm] = self.q
        mujoco.mj_kinematics(self._model, data)
        return data.site_xpos[self._site].copy(), data.site_xmat[self._site].reshape(3, 3)[:, 2]

    def solve(self, position_m: np.ndarray, axis: np.ndarray) -> np.ndarray:
        """Moves `q` towards a tip position and stick axis; returns it. Shape (7,), rad."""
        w = spec.IK_AXIS_WEIGHT
        damping = spec.IK_DAMPING * np.eye(6)
        for _ in range(spec.IK_ITERATIONS):
            at, along = self.tip()
            mujoco.mj_comPos(self._model, self._data)
            mujoco.mj_jacSite(self._model, self._data, self._jacp, self._jacr, self._site)
            n = spec.N_JOINTS
            jac = np.concatenate((self._jacp[:, :n], w * self._jacr[:, :n]))
            error = np.concatenate((position_m - at, w * np.cross(along, axis)))
            step = jac.T @ np.linalg.solve(jac @ jac.T + damping, error)
            self.q = np.clip(self.q + step, self._low, self._high)
        return self.q


class Driver:
    """Walks the tip along strokes; gives one joint target per waypoint.

    Args:
        kinematics: At the arm's start.
        rng: Stream `strokes` of this candidate.
        shape_id: Of the block.
    """

    def __init__(self, kinematics: Kinematics, rng: np.random.Generator, shape_id: int) -> None:
        self._ik, self._rng, self._shape_id = kinematics, rng, shape_id
        self._at, axis = kinematics.tip()
        self._axis = axis.copy()
        self._path: list[tuple[np.ndarray, np.ndarray]] = []
        self.n_started = 0
        """Strokes that have begun."""
        self.n_ended = 0
        """Strokes that are over."""

    def target(self, position_m: np.ndarray, yaw_rad: float) -> np.ndarray:
        """Next joint target; starts a stroke at the block's pose where the last one is over."""
        if not self._path and self.n_started < spec.N_STROKES_MAX:
            self._path = self._waypoints(
                plan_stroke(self._rng, self._shape_id, position_m, yaw_rad)
            )
            self.n_started += 1
        if self._path:
            self._at, self._axis = self._path.pop(0)
            self.n_ended += not self._path
        return self._ik.solve(self._at, self._axis)

    def _waypoints(self, stroke: Stroke) -> list[tuple[np.ndarray, np.ndarray]]:
        lifted = np.array([*self._at[:2], max(spec.LIFT_Z_M, self._at[2])])
        above = np.array([*stroke.start_m, spec.LIFT_Z_M])
        down = np.array([*stroke.start_m, spec.PUSH_Z_M])
        end = np.array([*stroke.end_m, spec.PUSH_Z_M])
        slow, fast = spec.PUSH_SPEED_M_S, spec.TRAVEL_SPEED_M_S
        path, at, axis = [], self._at, self._axis
        for goal, goal_axis, speed in (
            (lifted, axis, fast),
            (above, stroke.axis, fast),
            (down, stroke.axis, fast),
            (end, stroke.axis, slow),
        ):
            length = float(np.linalg.norm(goal - at))
            n = max(1, math.ceil(length / speed * spec.WAYPOINT_HZ - 1e-9))
            for k in range(1, n + 1):
                mixed = axis + (goal_axis - axis) * (k / n)
                path.append((at + (goal - at) * (k / n), mixed / np.linalg.norm(mixed)))
            at, axis = goal, goal_axis
        return path


class Simulation:
    """One scene running: the arm's targets in, the block's pose out.

    Args:
        built: The scene of the shape.
        pose: x and y in m, yaw in rad, of the block at spawn.
    """

    def __init__(self, built: scene.Scene, pose: tuple[float, float, float]) -> None:
        self.built, self.data = built, mujoco.MjData(built.model)
        x, y, yaw = pose
        self.data.qpos[built.arm_qpos] = spec.ARM_PARK_RAD
        self.data.ctrl[:] = spec.ARM_PARK_RAD
        half = yaw / 2
        self.data.qpos[built.block_qpos] = (
            x, y, spec.SPAWN_Z_M, math.cos(half), 0.0, 0.0, math.sin(half),
        )  # fmt: skip
        guard.step(built.model, self.data, "a block at rest", spec.SETTLE_STEPS)

    def state(self) -> np.ndarray:
        """Copy of qpos. Shape (nq,)."""
        return self.data.qpos.copy()

    def frame(self, driver: Driver) -> bool:
        """Advances one frame. Returns whether a stroke ended in it.

        Raises:
            SimulationError: The physics diverged.
        """
        before = driver.n_ended
        for _ in range(spec.WAYPOINTS_PER_FRAME):
            x, y, yaw = block_pose(self.built, self.data.qpos)
            self.data.ctrl[:] = driver.target(np.array([x, y]), yaw)
            guard.step(self.built.model, self.data, "a push", spec.STEPS_PER_WAYPOINT)
        guard.check(self.built.model, self.data, "a push")
        return driver.n_ended > before


def block_pose(built: scene.Scene, qpos: np.ndarray) -> tuple[float, float, float]:
    """x and y of the block's origin in m, yaw in (-pi, pi]."""
    x, y, _, w, i, j, k = qpos[built.block_qpos]
    return float(x), float(y), math.atan2(2.0 * (w * k + i * j), 1.0 - 2.0 * (j * j + k * k))


def is_dead(built: scene.Scene, qpos: np.ndarray) -> bool:
    """Whether the block has tipped, left the table's surface, or left the area."""
    x, y, z, _, i, j, _ = qpos[built.block_qpos]
    upright = 1.0 - 2.0 * (i * i + j * j)
    return bool(
        upright < math.cos(spec.DEAD_TILT_RAD)
        or abs(z) > spec.DEAD_Z_M
        or max(abs(x), abs(y)) >= spec.DEAD_XY_M
    )


class Probe:
    """Rays from the camera to points on the block's top face.

    Args:
        built: The scene.
    """

    def __init__(self, built: scene.Scene) -> None:
        self._built, self._data = built, mujoco.MjData(built.model)
        self._eye = np.array(spec.CAMERA_POS_M)
        spread, top = spec.PROBE_SPREAD, spec.BLOCK_HEIGHT_M + spec.PROBE_LIFT_M
        self._points = np.array(
            [
                (cx + sx * spread * hx, cy + sy * spread * hy, top)
                for (cx, cy, _), (hx, hy, _) in scene.block_boxes(built.shape_id)
                for sx, sy in ((0, 0), (-1, -1), (1, -1), (1, 1), (-1, 1))
            ]
        )

    def hidden_share(self, qpos: np.ndarray) -> float:
        """Share of the points that another body hides from the camera."""
        built, data, eye = self._built, self._data, self._eye
        data.qpos[:] = qpos
        mujoco.mj_kinematics(built.model, data)
        frame = data.xmat[built.block_body].reshape(3, 3)
        rays = data.xpos[built.block_body] + self._points @ frame.T - eye
        far = np.linalg.norm(rays, axis=1)
        hidden = 0
        geom = np.zeros(1, np.int32)
        for ray, distance in zip(rays, far, strict=True):
            hit = mujoco.mj_ray(
                built.model, data, eye, ray / distance, None, 1, built.block_body, geom
            )
            hidden += 0.0 <= hit < distance - spec.PROBE_SLACK_M
        return hidden / len(far)

    def is_occluded(self, qpos: np.ndarray) -> bool:
        """Whether at least `spec.OCCLUDED_AT` of the points are hidden."""
        return self.hidden_share(qpos) >= spec.OCCLUDED_AT


class Quality:
    """q of a candidate as its frames arrive; -1 once it is dead."""

    def __init__(self) -> None:
        self._yaw: list[float] = []
        self._hidden_rad = 0.0
        self._turning = 0
        self._is_dead = False

    def add(self, yaw_rad: float, is_occluded: bool, dead: bool) -> None:
        """Notes the next frame."""
        self._is_dead |= dead
        if self._yaw:
            last = self._yaw[-1]
            turned = math.remainder(yaw_rad - last, 2.0 * math.pi)
            yaw_rad = last + turned
            if is_occluded:
                self._hidden_rad += abs(turned)
                self._turning += abs(turned) > spec.SELECT_TURN_RAD
        self._yaw.append(yaw_rad)

    @property
    def value(self) -> float:
        """q so far."""
        if self._is_dead:
            return -1.0
        span = max(self._yaw) - min(self._yaw)
        return min(
            self._hidden_rad / spec.SELECT_HIDDEN_RAD,
            self._turning / spec.SELECT_TURN_FRAMES,
            span / spec.SELECT_RANGE_RAD,
        )

    def can_exceed(self, best: float, frames_left: int) -> bool:
        """Whether the frames left can lift q above `best`."""
        if self._is_dead:
            return False
        return (self._turning + frames_left) / spec.SELECT_TURN_FRAMES > best


def record(
    built: scene.Scene,
    pose: tuple[float, float, float],
    rng: np.random.Generator,
    frames: int,
    probe: Probe | None = None,
    best: float = -1.0,
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...], float]:
    """Simulates a push; where its physics diverges it is dropped.

    Args:
        built: The scene of the shape.
        pose: Of the block at spawn.
        rng: Stream `strokes` of the candidate.
        frames: Frames to record.
        probe: Made for this scene; None makes one.
        best: The candidate is dropped as soon as its q cannot exceed this.

    Returns:
        States (n, nq), occlusion (n,), frames up to the end of each stroke, and q over the frames that
        are judged; a dropped candidate has fewer frames and q = -1.
    """
    probe = probe or Probe(built)
    run = Simulation(built, pose)
    driver = Driver(Kinematics(built), rng, built.shape_id)
    states, occluded, ends = [run.state()], [probe.is_occluded(run.state())], []
    quality, judged = Quality(), -1.0
    for k in range(1, frames + 1):
        if k <= spec.SELECT_FRAMES:
            state = states[-1]
            quality.add(block_pose(built, state)[2], occluded[-1], is_dead(built, state))
            if k == min(frames, spec.SELECT_FRAMES):
                judged = quality.value
            elif not quality.can_exceed(best, spec.SELECT_FRAMES - k):
                break
        if k == frames:
            break
        try:
            has_ended = run.frame(driver)
        except SimulationError:
            break
        if has_ended:
            ends.append(k + 1)
        states.append(run.state())
        occluded.append(probe.is_occluded(states[-1]))
    return np.array(states), np.array(occluded), tuple(ends), judged
