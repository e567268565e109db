"""Depth picker: height map, flat spots, weighing, and a look at the nest after every part.

A cycle: choose a spot in the bin from the overhead depth, touch it with the magnet on, lift, weigh. One
part goes to the nest; a chain is let fall beside the nest, where the wrist camera sees its parts and they are
brought to the nest one by one. After each part the wrist camera looks whether the nest is free.
"""

import math

import cv2
import numpy as np
from arm import ACCEL_M_S2, Arm, Glide
from vision import CELL_M, HeightMap, best_spot

TOUCH_M_S, TRAVEL_M_S, LIFT_M_S = 0.10, 1.2, 0.8
CHAIN_M_S, CHAIN_M_S2 = 0.5, 2.0  # a part that hangs along is thrown off by more
CARRY_Z_M = 0.46  # head height for carrying out of the bin
LOOK_M = np.array((0.35, 0.43, 0.42))  # head position from which nest and side are both in view
SIDE_M = np.array((0.25, 0.46))  # where chains fall apart, on the belt, 14 cm from the nest
WALL_M = 0.023  # from the head's axis to a wall
EDGE_M = 0.008  # along a wall the map shows the wall
PRESS_N = 2.5  # change of the axial force that means contact on the way down
MAX_FALLS = 3  # falls of a chain onto the belt, after which it goes back into the bin
MAX_MISSES = 6  # failed grabs on the belt after which the bin goes on
N_PICTURES = 4  # overhead pictures that are averaged
TILT = 0.6  # tangent of the tool's lean when a chain is let fall again


class Picker:
    def reset(self, cell_spec, seed):
        s = cell_spec
        self._rng = np.random.default_rng(seed)
        self._dt_s = 1.0 / s["ctrl_hz"]
        self._on, self._off = s["mag_ctrl_range"][1], s["mag_ctrl_range"][0]
        self._weight_n = 9.81 * s["part_mass"]
        self._head_r = s["mag_head_r"]
        self._belt_z = s["belt_hi"][2]
        self._zone = np.array(s["zone_lo"]), np.array(s["zone_hi"])
        self._nest = (self._zone[0] + self._zone[1])[:2] / 2
        self._safe_z = s["bin_top_z"]
        self._bin = np.array(s["bin_lo"]), np.array(s["bin_hi"])
        self._overhead = np.array(s["overhead_K"]), np.array(s["overhead_T_world_cam"])
        self._wrist_matrix = np.array(s["wrist_K"])
        self._arm = Arm(s["model_xml"], s["arm_home"], self._dt_s)
        self._glide = Glide(self._arm.grip_m(s["arm_home"]), self._dt_s)
        low, high = self._bin[0][:2], self._bin[1][:2]
        low, high = low + EDGE_M, high - EDGE_M
        self._bin_map = HeightMap(low, high, self._bin[0][2], self._safe_z - 0.01)
        margin = np.array((0.0, 0.012))  # rails
        belt_low = np.array((max(s["belt_lo"][0], 0.08), s["belt_lo"][1])) + margin
        belt_high = np.array((0.66, s["belt_hi"][1])) - margin
        self._belt_map = HeightMap(belt_low, belt_high, self._belt_z, self._belt_z + 0.13)
        self._failed = []
        self._free_n = 0.0  # axial force of the empty upright tool
        self._released_t = -1.0
        self._plan = self._work()
        self._started = False

    def act(self, obs):
        self._obs = obs
        self._see()
        if not self._started:
            self._started = True
            return next(self._plan)
        return self._plan.send(None)

    # ------------------------------------------------------------------------------- seeing

    def _see(self):
        """Takes in the overhead picture while the arm is out of its way."""
        is_clear = self._glide.position_m[1] > -0.10
        if self._obs["frame"] and is_clear and self._bin_map.n_frames < N_PICTURES:
            self._bin_map.add(self._obs["overhead_depth"], *self._overhead)

    def _bin_spot(self):
        return self._spot(self._bin_map, self._bin[0][:2] + WALL_M, self._bin[1][:2] - WALL_M)

    def _belt_spot(self, in_zone):
        """Spot on a part on the belt, inside the nest or outside of it; None where nothing lies."""
        low, high = self._belt_map.low_m + 0.015, self._belt_map.high_m - 0.015
        return self._spot(self._belt_map, low, high, in_zone)

    def _spot(self, heights, low, high, in_zone=None):
        xs, ys = heights.cells_xy()
        x, y = np.meshgrid(xs, ys, indexing="ij")
        allowed = (x >= low[0]) & (x <= high[0]) & (y >= low[1]) & (y <= high[1])
        if in_zone is not None:
            zone_low, zone_high = self._zone[0][:2] - 0.02, self._zone[1][:2] + 0.02
            inside = (x > zone_low[0]) & (x < zone_high[0]) & (y > zone_low[1]) & (y < zone_high[1])
            allowed &= inside == in_zone
        penalty = np.zeros_like(x)
        for at, xy, weight in self._failed:
            fade = math.exp(-(self._obs["t"] - at) / 20.0)
            near = np.exp(-((x - xy[0]) ** 2 + (y - xy[1]) ** 2) / (2 * 0.015**2))
            penalty += weight * fade * near
        found = best_spot(heights.heights_m(), heights.floor_m, allowed, penalty, self._head_r)
        if found is None:
            return None
        i, j, z, _ = found
        return np.array((xs[i], ys[j], z))

    # ----------------------------------------------------------------------------- behaviour

    def _work(self):
        empty_n = []
        for _ in range(6):  # three overhead pictures and the tool's weight, from the home posture
            yield from self._wait(1, self._off)
            empty_n.append(self._axial_n())
        self._free_n = float(np.mean(empty_n))
        while True:
            spot = self._bin_spot()
            if spot is None:
                yield from self._look()
                continue
            n = yield from self._grab(spot, CARRY_Z_M)
            if n == 0:
                self._failed.append((self._obs["t"], spot[:2], 1.0))
                yield from self._step_aside()
                continue
            yield from self._deliver(n)

    def _step_aside(self):
        """Out of the overhead camera's way, for new pictures of a bin that has changed."""
        yield from self._travel(np.array((0.40, 0.05, CARRY_Z_M)), self._off)
        self._bin_map.clear()
        yield from self._wait(4, self._off)

    def _deliver(self, n):
        """Brings what is held to the nest, or lets a chain fall apart, until the belt is free again."""
        falls = misses = 0
        while misses < MAX_MISSES:
            if n == 1:
                yield from self._place(self._nest)
            elif n > 1 and falls == MAX_FALLS:
                yield from self._let_fall(self._emptiest(), 1)  # among the others, from high up
                yield from self._step_aside()
                return
            elif n > 1:
                yield from self._let_fall((*SIDE_M, self._belt_z + 0.20 + 0.05 * falls), falls)
                falls += 1
            yield from self._look()
            spot, is_in_nest = self._belt_spot(True), True
            if spot is None:
                spot, is_in_nest = self._belt_spot(False), False
            if spot is None:
                return
            n = yield from self._grab(spot, 0.30)
            if n == 0:
                self._failed.append((self._obs["t"], spot[:2], 1.0))
                misses += 1
            elif n == 1 and is_in_nest and self._is_nest_shared(spot):
                yield from self._place(SIDE_M)  # one of two: the other one is cleared meanwhile
                n = 0

    def _is_nest_shared(self, taken):
        """True if the nest's last picture shows more than the part that was just taken."""
        xs, ys = self._belt_map.cells_xy()
        x, y = np.meshgrid(xs, ys, indexing="ij")
        zone = (x > self._zone[0][0]) & (x < self._zone[1][0]) & (y > self._zone[0][1])
        zone &= y < self._zone[1][1]
        steel = self._belt_map.heights_m() > self._belt_z + 0.004
        far = np.hypot(x - taken[0], y - taken[1]) > 0.06
        return (steel & zone & far).sum() * 9e-6 > 4e-4  # more than 4 cm2 of something else

    def _look(self):
        """Looks at nest and belt with the wrist camera, long enough after a release to be cleared."""
        self._belt_map.clear()
        yield from self._travel(LOOK_M, self._off)
        ready = self._released_t + 0.9
        while self._belt_map.n_frames < 2:
            yield self._command(LOOK_M, self._off)
            if self._obs["frame"] and self._obs["t"] >= ready:
                pose = self._obs["wrist_T_world_cam"]
                self._belt_map.add(self._obs["wrist_depth"], self._wrist_matrix, pose)

    def _grab(self, spot, lift_z):
        """Touches a spot with the magnet on, lifts, weighs. Returns the number of parts held."""
        above = spot + (0.0, 0.0, 0.012)
        yield from self._travel(above, self._off)
        yield from self._wait(1, self._off)
        free = self._axial_n()
        goal = spot - (0.0, 0.0, 0.008)
        while self._glide.position_m[2] > goal[2] + 1e-4:
            yield self._command(self._glide.advance(goal, 0.3, TOUCH_M_S), self._on)
            if abs(self._axial_n() - free) > PRESS_N:
                break
        self._glide.position_m = self._arm.grip_m(self._obs["qpos"])
        up = np.array((*spot[:2], max(lift_z, spot[2] + 0.05)))
        yield from self._move(up, self._on)
        self._bin_map.clear()
        yield from self._wait(3, self._on)
        held_n = []
        for _ in range(4):
            yield self._command(up, self._on)
            held_n.append(self._axial_n())
        n = round(abs(np.mean(held_n) - self._free_n) / self._weight_n)
        if n == 0:
            yield self._command(up, self._off)
        return n

    def _axial_n(self):
        """Force along the tool, N."""
        return self._obs["ft"][2]

    def _place(self, xy):
        """Sets one part down: fast to 9 cm above the belt, then slowly until it touches."""
        start = np.array((*xy, self._belt_z + 0.09))
        yield from self._travel(start, self._on, 0.10)
        yield from self._wait(1, self._on)
        free = self._axial_n()
        goal = np.array((*xy, self._belt_z + 0.004))
        while self._glide.position_m[2] > goal[2] + 1e-4:
            yield self._command(self._glide.advance(goal, 0.3, TOUCH_M_S), self._on)
            if abs(self._axial_n() - free) > 1.5:
                break
        yield from self._release(goal)

    def _release(self, goal):
        self._glide.position_m = self._arm.grip_m(self._obs["qpos"])
        here = self._glide.position_m.copy()
        for _ in range(2):
            yield self._command(here, self._off)
        self._released_t = self._obs["t"]

    def _emptiest(self):
        """Head position over the lowest part of the heap, at carrying height."""
        heights = cv2.blur(self._bin_map.heights_m().astype(np.float32), (25, 25))
        edge = round(0.07 / CELL_M)
        inner = heights[edge:-edge, edge:-edge]
        i, j = np.unravel_index(np.argmin(inner), inner.shape)
        xs, ys = self._bin_map.cells_xy()
        return np.array((xs[edge + i], ys[edge + j], CARRY_Z_M - 0.02))

    def _let_fall(self, goal, tries):
        """Lets a chain fall, so that it comes apart; tilted when it has stayed one before."""
        goal = np.array(goal)
        yield from self._travel(goal, self._on, 0.16, CHAIN_M_S, CHAIN_M_S2)
        if tries:
            lean = np.array((TILT if tries % 2 else -TILT, 0.0))  # along the belt, never across
            for share in np.linspace(0.1, 1.0, 10):
                yield self._command(goal, self._on, share * lean)
            for share in (1.0, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0):
                yield self._command(goal, self._off, share * lean)
        for _ in range(2):
            yield self._command(goal, self._off)
        self._released_t = self._obs["t"]

    # -------------------------------------------------------------------------------- motion

    def _command(self, target, magnet, lean=(0.0, 0.0)):
        return np.append(self._arm.command(target, lean), magnet)

    def _wait(self, ticks, magnet):
        for _ in range(ticks):
            yield self._command(self._glide.position_m, magnet)

    def _move(self, goal, magnet):
        while True:
            yield self._command(self._glide.advance(goal, TRAVEL_M_S, LIFT_M_S), magnet)
            if np.linalg.norm(goal - self._glide.position_m) < 0.002:
                return

    def _travel(self, goal, magnet, hanging=0.03, speed=TRAVEL_M_S, accel=ACCEL_M_S2):
        """Up over the walls, across, and down; the legs overlap where that is safe."""
        safe_z = self._safe_z + hanging
        while True:
            position = self._glide.position_m
            away = float(np.linalg.norm(goal[:2] - position[:2]))
            aim = goal.copy()
            if away > 0.02:
                over_bin = self._over_bin(position), self._over_bin(goal)
                low = min(safe_z, max(goal[2], position[2]) + 0.03) if not any(over_bin) else safe_z
                aim[2] = max(goal[2], min(low, goal[2] + 0.3 + away))
                if not all(over_bin) and any(over_bin) and position[2] < safe_z - 0.03:
                    aim[:2] = position[:2]
            yield self._command(self._glide.advance(aim, speed, LIFT_M_S, accel), magnet)
            if np.linalg.norm(goal - self._glide.position_m) < 0.002:
                return

    def _over_bin(self, position):
        return bool(((position[:2] >= self._bin[0][:2]) & (position[:2] <= self._bin[1][:2])).all())


def make_policy():
    return Picker()
