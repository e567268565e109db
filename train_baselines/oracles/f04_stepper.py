"""Privileged controller of f04 that follows a clip, and takes a step when it is pushed.

What decides is the capture point xi = c + c' / omega with omega^2 = g / height (c centre of mass): the place
over which the robot would come to rest. While it is inside of the soles, where they press steers it: with
xi' = omega (xi - p), pressing at p = xi + gain (xi - goal) brings it to its goal. Once it leaves the soles, the
weight goes to one foot, and the other is put down where xi will be by then,

    xi(landing) = p + (xi - p) e^(omega t).

When all is calm, a second step puts the feet back to where the clip has them. `f04_whole_body.py` turns what
is wanted into servo targets.
"""

from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np

from families.f04_tracking import scene, spec
from train_baselines.oracles.f04_pendulum import DIRECTIONS, Frames, depth_in_hull, omega
from train_baselines.oracles.f04_whole_body import (
    CORNERS_M,
    SOLE_X_M,
    SOLE_Y_M,
    Gain,
    Path,
    Robot,
    Turn,
    swing_path,
    turn_z,
)


@dataclass(frozen=True)
class Settings:
    """Choices of the controller. Weights are on m/s^2 and rad/s^2."""

    com_weight: float = 60.0
    height_weight: float = 10.0
    trunk_weight: float = 2.0
    leg_weight: float = 0.3
    swing_leg_weight: float = 0.02
    waist_weight: float = 0.7
    arm_weight: float = 0.5
    stance_weight: float = 50.0
    swing_weight: float = 5.0
    posture_gain: Gain = Gain(100.0, 20.0)
    """Of joints, trunk and height."""
    swing_gain: Gain = Gain(500.0, 45.0)
    stance_damping_1_s: float = 20.0

    capture_gain: float = 1.5
    shift_gain: float = 2.0
    """Decay of the capture point's error in units of omega, at rest and before a step."""
    press_out_m: float = 0.1
    """How far outside of the soles p may be wanted: trunk and arms give what the soles cannot."""

    edge_m: float = 0.010
    """A capture point nearer to the edge of the soles than this, and leaving, asks for a step."""
    swing_s: float = 0.30
    lift_m: float = 0.05
    landed_share: float = 0.6
    """Contact counts as landing from this share of the swing."""
    late_s: float = 0.15
    """A foot that has found no floor this long after its time counts as standing."""
    descent_m_s: float = 0.3
    """Speed with which it looks for the floor meanwhile."""
    freeze: float = 0.75
    """Share of the swing after which the foot's goal stays."""
    hurry_s: float = 0.14
    hurry_m: float = 0.12
    """Longest shift of weight before a capture step, and how far out the capture point may get."""

    capture_spread_m: float = 0.24
    """Sideways distance of the feet that a capture step aims for."""
    capture_share: float = 0.6
    """Where between the feet, from the standing one, the capture point should be at landing."""
    max_share: float = 0.8
    """And at most."""
    reserve_m: float = 0.04
    """At landing the capture point may be this far ahead of or behind where the clip has it."""
    over_m: float = 0.03
    """Beyond it, the foot is put this much further."""
    min_spread_m: float = 0.17
    max_spread_m: float = 0.40
    max_stride_m: float = 0.45

    square_m: float = 0.04
    square_rad: float = 0.15
    """Feet that stand this far from where the clip has them are put right when all is calm."""
    clip_lift_m: float = 0.002
    """A foot that is higher than this in the clip is lifted by it."""
    calm_m: float = 0.03
    calm_steps: int = 5
    """Calm is a capture point this near to its goal for so many control steps."""
    shift_s: float = 0.8
    """Longest shift of weight before such a step; then it waits half a second."""
    over_foot_m: float = 0.05
    """The foot is lifted when the capture point is over the other to within this, fore and aft."""


class Step(NamedTuple):
    """A step as it would be taken now."""

    press_m: np.ndarray
    """Where the standing foot presses, shape (2,)."""
    place_m: np.ndarray
    """Where the other foot goes, shape (2,)."""
    cost_m: float
    """How far that is from what would be needed, and a little for its length."""


class Stepper:
    """One robot's controller. It remembers which foot is in the air and where it goes.

    Args:
        frames: The clip.
        g1: Model of the robot with its draw.
        settings: Choices.
    """

    def __init__(self, frames: Frames, g1: scene.G1, settings: Settings | None = None) -> None:
        self.frames, self.robot, self.settings = frames, Robot(g1), settings or Settings()
        self.swing: int | None = None
        """Foot in the air."""
        self.shift: int | None = None
        """Foot that is about to swing, while the weight goes to the other."""
        self.is_squaring = False
        """The step puts the feet right; otherwise it captures."""
        self.steps = 0
        """Feet lifted so far."""
        self.follows: int | None = None
        """Foot that is in the air because the clip lifts it."""
        self._since, self._calm, self._depth_m = 0, 0, np.inf

    def action(
        self, k: int, data: mujoco.MjData, encoder_bias_rad: np.ndarray | float = 0.0
    ) -> np.ndarray:
        """The action at frame k that makes `target` the true servo target, shape (29,).

        Args:
            k: Frame of the clip.
            data: Present state, with its contacts.
            encoder_bias_rad: Of the trial's draw.
        """
        offset = self.target(k, data) + encoder_bias_rad - np.array(spec.DEFAULT_POSE_RAD)
        return offset / np.array(spec.ACTION_SCALE_RAD)

    def target(self, k: int, data: mujoco.MjData) -> np.ndarray:
        """Servo targets at frame k, shape (29,), rad; instead of `watch`."""
        self.watch(k, data)
        return self._follow(k, self._pressure(k))

    def watch(self, k: int, data: mujoco.MjData) -> None:
        """Takes in the state at frame k and moves on by one control period; call once in each."""
        self.robot.update(data.qpos, data.qvel)
        self._look(k)
        self._advance(k, self.robot.touching(data))

    # ----------------------------------------------------------------------------- the present

    def _look(self, k: int) -> None:
        """Capture point, heading of the standing feet, and what the clip wants in that heading."""
        robot, f = self.robot, self.frames
        self._yaw = np.arctan2(robot.foot_rot[:, 1, 0], robot.foot_rot[:, 0, 0])
        height_m = robot.com_m[2] - robot.feet_m[:, 2].min() - spec.FOOT_SOLE_Z_M
        self._omega = float(omega(height_m))
        self.xi_m = robot.com_m[:2] + robot.com_vel_m_s[:2] / self._omega
        yaw = self._yaw[self._standing()]
        self._heading = float(np.arctan2(np.sin(yaw).mean(), np.cos(yaw).mean()))
        self.turn = turn_z(self._heading)[:2, :2]
        middle = f.feet_m[k, :, :2].mean(axis=0)
        self.goal_off_m = self.turn @ (f.xi_m[k] - middle)
        """Wanted capture point from the middle of the feet."""
        self._ahead_m = float(f.com_m[k, 0] - middle[0])
        self.apart_m = self.turn @ (f.feet_m[k, 0, :2] - f.feet_m[k, 1, :2])
        """Left minus right foot, where the clip has them."""

    def _standing(self) -> list[int]:
        in_air = self.follows if self.swing is None else self.swing
        return [0, 1] if in_air is None else [1 - in_air]

    def _soles_m(self) -> np.ndarray:
        """Corners of both soles in the plane, shape (8, 2)."""
        feet = zip(self.robot.feet_m, self._yaw, strict=True)
        return np.vstack([f[:2] + CORNERS_M[:, :2] @ turn_z(a)[:2, :2].T for f, a in feet])

    def _from_foot(self, foot: int, point_m: np.ndarray) -> np.ndarray:
        """A point from a foot's ankle, in the heading of the feet."""
        return self.turn.T @ (point_m - self.robot.feet_m[foot, :2])

    # ---------------------------------------------------------------------------- what to do

    def _advance(self, k: int, touching: list[bool]) -> None:
        """Moves on by one control period: stand, shift the weight, swing, stand."""
        s = self.settings
        self._since += 1
        t = self._since * spec.CONTROL_PERIOD_S
        if self.swing is not None:
            landed = touching[self.swing] and t > s.landed_share * s.swing_s
            if not landed and t <= s.swing_s + s.late_s:
                self._aim(t)
                return
            self.swing, self._since, self._calm = None, 0, 0
        depth_m = depth_in_hull(self._soles_m(), self.xi_m)
        if self.shift is not None:
            self._shift_weight(t, depth_m)
            return
        self._lift_with_the_clip(k)
        if self.follows is not None:
            stance = 1 - self.follows
            sole_m = self._soles_m()[4 * stance : 4 * stance + 4]
            if depth_in_hull(sole_m, self.xi_m) < -s.edge_m:
                foot, self.follows, self.is_squaring = self.follows, None, False
                self._lift(foot)
            return
        is_leaving = depth_m <= self._depth_m
        self._depth_m = depth_m
        if depth_m < s.edge_m and (is_leaving or depth_m < -s.edge_m):
            costs = [self._plan(foot, s.swing_s, s.capture_share).cost_m for foot in (0, 1)]
            self._begin(int(np.argmin(costs)), is_squaring=False)
        elif self._wants_square():
            away = [np.linalg.norm(self._from_foot(1 - foot, self.xi_m)) for foot in (0, 1)]
            self._begin(int(np.argmin(away)), is_squaring=True)

    def _lift_with_the_clip(self, k: int) -> None:
        """Lifts a foot when the clip does, once the weight is on the other and the feet stand right."""
        s, f = self.settings, self.frames
        height_m = f.feet_m[k, :, 2] + spec.FOOT_SOLE_Z_M
        lifted = int(np.argmax(height_m)) if height_m.max() > s.clip_lift_m else None
        if lifted is None or lifted != self.follows:
            self.follows = None
        if lifted is not None and self.follows is None and self._feet_are_right():
            off_m = np.linalg.norm(self.xi_m - self._goal_over(k, 1 - lifted))
            self.follows = lifted if off_m < s.calm_m else None

    def _goal_over(self, k: int, stance: int) -> np.ndarray:
        """Capture point of the clip, carried over from its standing foot to the robot's, shape (2,)."""
        f = self.frames
        off_m = f.xi_m[k] - f.feet_m[k, stance, :2]
        return self.robot.feet_m[stance, :2] + self.turn @ off_m

    def _feet_are_right(self) -> bool:
        """Distance and angle between the feet are those of the clip."""
        feet = self.robot.feet_m[:, :2]
        wrong_m = np.linalg.norm(feet[0] - feet[1] - self.apart_m)
        twist_rad = abs(np.angle(np.exp(1j * (self._yaw[0] - self._yaw[1]))))
        return bool(wrong_m <= self.settings.square_m and twist_rad <= self.settings.square_rad)

    def _wants_square(self) -> bool:
        """The feet stand wrong and all is calm."""
        s = self.settings
        middle_m = self.robot.feet_m[:, :2].mean(axis=0)
        off_m = np.linalg.norm(self.xi_m - middle_m - self.goal_off_m)
        self._calm = self._calm + 1 if off_m < s.calm_m else min(self._calm, 0)
        return self._calm > s.calm_steps and not self._feet_are_right()

    def _begin(self, foot: int, is_squaring: bool) -> None:
        self.shift, self.is_squaring, self._since = foot, is_squaring, 0
        if not is_squaring and self._inner_gap(1 - foot) < self._wanted_gap():
            self._lift(foot)

    def _shift_weight(self, t: float, depth_m: float) -> None:
        """Lifts the foot once the capture point is near enough to the other, or time is over."""
        s, foot = self.settings, self.shift
        assert foot is not None
        is_near = self._inner_gap(1 - foot) < self._wanted_gap()
        if self.is_squaring:
            ahead_m = self._from_foot(1 - foot, self.xi_m)[0]
            if is_near and abs(ahead_m - self._ahead_m) < s.over_foot_m:
                self._lift(foot)
            elif t > s.shift_s:
                self.shift, self._since, self._calm = None, 0, -25
        elif is_near or t >= s.hurry_s or depth_m < -s.hurry_m:
            self._lift(foot)

    def _lift(self, foot: int) -> None:
        self.swing, self.shift, self._since = foot, None, 0
        self.steps += 1
        self._start_m = self.robot.feet_m[foot].copy()
        self._aim(0.0)

    def _inner_gap(self, stance: int) -> float:
        """How far the capture point is inside of the inner edge of a foot, m."""
        side = 1.0 if stance == 0 else -1.0
        return float(-side * self._from_foot(stance, self.xi_m)[1] - SOLE_Y_M)

    def _wanted_gap(self) -> float:
        """Gap at lift-off from which the capture point ends where the swing should."""
        s = self.settings
        wide_m = s.capture_spread_m
        if self.is_squaring:
            wide_m = float(abs((self.turn.T @ self.apart_m)[1]) / 2.0)
        return float((wide_m - SOLE_Y_M) / np.exp(self._omega * s.swing_s))

    # ----------------------------------------------------------------------------- the step

    def _aim(self, t: float) -> None:
        """Renews where the standing foot presses, and, for most of the swing, where the other goes."""
        s = self.settings
        assert self.swing is not None
        share = 0.5 if self.is_squaring else s.capture_share
        step = self._plan(self.swing, max(s.swing_s - t, 0.0), share)
        self._press_m = step.press_m
        if t <= s.freeze * s.swing_s:
            self._place_m, self._place_yaw = step.place_m, self._heading

    def _plan(self, foot: int, left_s: float, share: float) -> Step:
        """The step with `foot` that lands in `left_s`, the capture point at `share` between the feet."""
        s, stance, side = self.settings, 1 - foot, 1.0 if foot == 0 else -1.0
        standing_m = self.robot.feet_m[stance, :2]
        apart = side * self.apart_m
        grow = np.exp(self._omega * left_s)
        press = self.xi_m
        if left_s > 0.04:  # from here on nothing can be steered any more
            goal = standing_m + share * apart + self.turn @ (self._ahead_m, 0.0)
            press = (goal - self.xi_m * grow) / (1.0 - grow)
        press = self._into_sole(stance, press)
        xi = self._from_foot(stance, press + (self.xi_m - press) * grow)  # at landing
        clip = self.turn.T @ apart
        wide = max(side * clip[1], side * xi[1] / s.max_share)
        part = np.clip(side * xi[1] / wide, 0.35, 1.0)
        long = clip[0]
        beyond = xi[0] - (part * clip[0] + self._ahead_m)
        if abs(beyond) > s.reserve_m:
            long += (beyond - np.sign(beyond) * (s.reserve_m - s.over_m)) / part
        needed = np.array([long, side * wide])
        place_x = np.clip(long, -s.max_stride_m, s.max_stride_m)
        place = np.array([place_x, side * np.clip(wide, s.min_spread_m, s.max_spread_m)])
        # beyond the standing foot: a step cannot help
        outside_m = max(0.0, -side * xi[1] - SOLE_Y_M)
        cost = np.abs(needed - place).sum() + 1.5 * outside_m + 0.2 * np.abs(place - clip).sum()
        return Step(press, standing_m + self.turn @ place, float(cost))

    def _into_sole(self, foot: int, point_m: np.ndarray) -> np.ndarray:
        """Nearest point of a sole, with a centimetre of reserve at heel and toe."""
        turn, ankle_m = turn_z(self._yaw[foot])[:2, :2], self.robot.feet_m[foot, :2]
        low, high = (SOLE_X_M[0] + 0.01, -SOLE_Y_M), (SOLE_X_M[1] - 0.01, SOLE_Y_M)
        return ankle_m + turn @ np.clip(turn.T @ (point_m - ankle_m), low, high)

    def _pressure(self, k: int) -> np.ndarray:
        """Where the soles should press, shape (2,)."""
        s, feet = self.settings, self.robot.feet_m[:, :2]
        if self.swing is not None:
            return self._press_m
        goal = feet.mean(axis=0) + self.goal_off_m
        if self.follows is not None:
            goal = self._goal_over(k, 1 - self.follows)
        if self.shift is None:
            rate = self.turn @ self.frames.xi_vel_m_s[k]
            press = self.xi_m + s.capture_gain * (self.xi_m - goal) - rate / self._omega
            if self.follows is not None:
                return self._into_sole(1 - self.follows, press)
            return self._near_soles(press)
        stance = 1 - self.shift
        side = 1.0 if stance == 0 else -1.0
        over = self._from_foot(stance, goal)
        over[1] = -side * (0.6 * self._wanted_gap() + SOLE_Y_M)
        if self.is_squaring:
            over[0] = self._ahead_m
        goal = feet[stance] + self.turn @ over
        return self._near_soles(self.xi_m + s.shift_gain * (self.xi_m - goal))

    def _near_soles(self, press_m: np.ndarray) -> np.ndarray:
        """A point moved to within `press_out_m` of the soles, towards their middle."""
        soles = self._soles_m()
        middle = soles.mean(axis=0)
        reach = ((soles - middle) @ DIRECTIONS.T).max(axis=0) + self.settings.press_out_m
        away = press_m - middle
        return middle + away / max(1.0, float((away @ DIRECTIONS.T / reach).max()))

    # -------------------------------------------------------------------------- accelerations

    def _follow(self, k: int, press_m: np.ndarray) -> np.ndarray:
        """Servo targets for all that is wanted at once, shape (29,)."""
        s, robot, f, gain = self.settings, self.robot, self.frames, self.settings.posture_gain
        standing = self._standing()
        acc_xy = self._omega**2 * (robot.com_m[:2] - press_m)
        lift_m = f.com_m[k, 2] - f.feet_m[k, :, 2].min() + robot.feet_m[standing, 2].mean()
        acc_z = gain.p * (lift_m - robot.com_m[2])
        acc_z += gain.d * (f.com_vel_m_s[k, 2] - robot.com_vel_m_s[2])
        posture = f.qacc[k, 6:] + gain.p * (f.qpos[k, 7:] - robot.joint_pos)
        posture += gain.d * (f.qvel[k, 6:] - robot.qvel[6:])
        weight = np.repeat([s.leg_weight, s.waist_weight, s.arm_weight], [12, 3, 14])
        if self.swing is not None:
            weight[6 * self.swing : 6 * self.swing + 6] = s.swing_leg_weight
        com_weight = np.array([s.com_weight, s.com_weight, s.height_weight])
        tasks = [
            robot.move_com(com_weight, np.array([*acc_xy, acc_z])),
            robot.move_joints(weight, posture),
        ]
        turn = turn_z(self._heading)
        for part in (0, 1):
            wanted = Turn(turn @ f.trunk[part, k], turn @ f.trunk_vel_rad_s[part, k])
            tasks.append(robot.turn_trunk(part, s.trunk_weight, wanted, gain))
        tasks += [robot.hold_foot(i, s.stance_weight, s.stance_damping_1_s) for i in standing]
        if self.swing is not None:
            t = self._since * spec.CONTROL_PERIOD_S
            path = swing_path(
                self._start_m, self._place_m, t, s.swing_s, s.lift_m, s.descent_m_s, self._place_yaw
            )
            tasks.append(robot.move_foot(self.swing, s.swing_weight, path, s.swing_gain))
        elif self.follows is not None:
            path = self._clip_path(k, self.follows)
            tasks.append(robot.move_foot(self.follows, s.swing_weight, path, s.swing_gain))
        return robot.targets(tasks, standing)

    def _clip_path(self, k: int, foot: int) -> Path:
        """The clip's foot, carried over from its standing foot to the robot's."""
        f, turn = self.frames, turn_z(self._heading)
        pos = self.robot.feet_m[1 - foot] + turn @ (f.feet_m[k, foot] - f.feet_m[k, 1 - foot])
        return Path(pos, turn @ f.feet_vel_m_s[k, foot], np.zeros(3), self._heading)
