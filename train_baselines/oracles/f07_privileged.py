"""Privileged picker of f07: sees every part's pose, what is held and what hangs along. No submission.

It picks the part that nothing lies on, at a spot where the head touches that part first, carries it over
and sets it down in the nest; a chain that comes up all the same is dropped apart on the free part of the
belt. Run it on a public pile:

    python -m train_baselines.oracles.f07_privileged --pile 101
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from families.f07_bin import metrics, piles, scene, spec
from families.f07_bin.episode import Episode
from families.f07_bin.verify import outcome
from rle.seeds import Namespace
from train_baselines.oracles.f07_arm import DT_S, Arm, Glide

ON, OFF = spec.MAG_CTRL_RANGE[1], spec.MAG_CTRL_RANGE[0]
TRAVEL_M_S, LIFT_M_S = 1.2, 0.8
APPROACH_M_S = 0.15  # a touch at this speed stays far below every force limit
CELL_M = 0.005  # grid of the height map
LEAD_M = 0.002  # the head meets its part this much before any other
CARRY_Z_M = 0.45  # the head's height when a part is carried out of the bin
HEAD_CLEAR_M = 0.03  # from the head's axis to a wall
DROP_M = 0.008  # a part is let go this far above the belt
LET_FALL_M = 0.08  # a chain is let fall from here, and from this much higher each time it stays one
TILT = 0.6  # tangent of the tool's lean when a chain is let fall again
SIDE_XY_M = np.array((0.26, 0.46))  # free part of the belt beside the nest, well in reach
NEST_XY_M = (np.array(spec.ZONE_LO_M[:2]) + np.array(spec.ZONE_HI_M[:2])) / 2


@dataclass(frozen=True)
class Spot:
    """Where to put the head on a part."""

    part: int
    xy_m: np.ndarray
    z_m: float
    cover: float
    """Share of the part with another part above it."""


class Picker:
    """Plays one episode.

    Args:
        episode: A fresh episode; read without limits.
    """

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        self._arm = Arm(scene.model_xml(), np.array(spec.ARM_HOME_RAD))
        self._glide = Glide(self._arm.grip_m(np.array(spec.ARM_HOME_RAD)))
        self._failures = np.zeros(episode.n_parts)
        self.log: list[str] = []

    def run(self, until_s: float = spec.EPISODE_S) -> None:
        """Plays until everything is cleared or the time is over."""
        for command in self._commands():
            if self._episode.is_done or self._episode.t_s >= until_s:
                return
            self._episode.step(command)

    # ------------------------------------------------------------------------------ behaviour

    def _commands(self) -> Iterator[np.ndarray]:
        while True:
            spot, target = self._choose()
            if spot is None:
                yield from self._move((*self._glide.position_m[:2], CARRY_Z_M), OFF)
                continue
            yield from self._fetch(spot, target)

    def _choose(self) -> tuple[Spot | None, np.ndarray]:
        """What to pick next and where to bring it: free the nest, serve the belt, else the bin."""
        position = self._episode.part_poses[:, :3]
        open_ = ~self._episode.is_cleared
        nest = self._in_nest()
        belt = open_ & (position[:, 1] > spec.ZONE_LO_M[1] - 0.05) & ~nest
        if nest.sum() > 1:
            return self._spot(np.flatnonzero(nest)), SIDE_XY_M
        if belt.any() and not nest.any():
            spot = self._spot(np.flatnonzero(belt))
            if spot is not None:
                return spot, NEST_XY_M
        in_bin = open_ & piles.is_in_bin(self._episode.part_poses)
        spot = self._spot(np.flatnonzero(in_bin)) if in_bin.any() else None
        if spot is None and belt.any():
            spot = self._spot(np.flatnonzero(belt))
        return spot, NEST_XY_M

    def _fetch(self, spot: Spot, target_xy: np.ndarray) -> Iterator[np.ndarray]:
        above = np.array((*spot.xy_m, spot.z_m + 0.015))
        self.log.append(f"{self._episode.t_s:6.2f} pick {spot.part} cover {spot.cover:.2f}")
        yield from self._travel(above, OFF)
        goal = np.array((*spot.xy_m, spot.z_m - 0.006))
        while not self._episode.held and self._glide.position_m[2] > goal[2] + 1e-4:
            yield self._arm.command(self._glide.advance(goal, 0.3, APPROACH_M_S), ON)
        if not self._episode.held:
            self._failures[spot.part] += 1
            self.log.append(f"{self._episode.t_s:6.2f}   missed")
            yield from self._move((*spot.xy_m, spot.z_m + 0.05), OFF)
            return
        self._glide.position_m = self._arm.grip_m(self._episode.data.qpos[: spec.N_JOINTS])
        reach = spot.z_m - self._lowest_m(self._episode.held)
        carry = CARRY_Z_M if target_xy is NEST_XY_M else spec.BELT_TOP_Z_M + reach + 0.08
        yield from self._move((*spot.xy_m, carry), ON)
        if not self._episode.held:
            self._failures[spot.part] += 1
            self.log.append(f"{self._episode.t_s:6.2f}   slipped")
            return
        chain = self._chain()
        if len(chain) > 1:
            self.log.append(f"{self._episode.t_s:6.2f}   chain {chain}")
            tries = int(self._failures[list(chain)].max())
            self._failures[list(chain)] += 1
            self._failures[spot.part] += 1
            yield from self._let_fall(chain, tries)
            return
        if target_xy is NEST_XY_M and self._in_nest().any():
            for _ in range(round(1.5 / DT_S)):
                if not self._in_nest().any():
                    break
                over = np.array((*NEST_XY_M, CARRY_Z_M))
                yield self._arm.command(self._glide.advance(over, TRAVEL_M_S, LIFT_M_S), ON)
            else:
                target_xy = SIDE_XY_M
        yield from self._put_down(target_xy, chain, DROP_M)

    def _put_down(self, xy_m: np.ndarray, parts: set[int], gap_m: float) -> Iterator[np.ndarray]:
        """Carries what is held to the belt and lets go with its lowest point `gap_m` above it."""
        head = self._arm.grip_m(self._episode.data.qpos[: spec.N_JOINTS])
        held = self._episode.held[0]
        offset = head[:2] - self._episode.part_poses[held, :2]
        drop = head[2] - self._lowest_m(parts)
        z = spec.BELT_TOP_Z_M + drop + gap_m
        goal = np.array((*(xy_m + offset), z))
        yield from self._travel(goal, ON, clearance_m=drop + 0.02)
        for _ in range(2):
            yield self._arm.command(self._glide.advance(goal, 0.3, 0.3), OFF)
        away = np.array((*goal[:2], goal[2] + 0.06))
        yield from self._move(away, OFF)

    def _let_fall(self, chain: set[int], tries: int) -> Iterator[np.ndarray]:
        """Lets a chain fall onto the belt beside the nest; from higher and tilted when it stayed one."""
        drop = self._arm.grip_m(self._episode.data.qpos[: spec.N_JOINTS])[2] - self._lowest_m(chain)
        height = spec.BELT_TOP_Z_M + drop + LET_FALL_M * (1 + min(tries, 2))
        goal = np.array((*SIDE_XY_M, height))
        yield from self._travel(goal, ON, clearance_m=drop + 0.02)
        if tries:
            lean = np.array((TILT if tries % 2 else -TILT, 0.0))  # along the belt, never across
            for share in np.linspace(0.1, 1.0, 10):
                yield self._arm.command(goal, ON, share * lean)
                if not self._episode.held:
                    break
            for share in (1.0, 1.0, 1.0, 0.75, 0.5, 0.25):
                yield self._arm.command(goal, OFF, share * lean)
        for _ in range(2):
            yield self._arm.command(goal, OFF)

    # --------------------------------------------------------------------------------- motion

    def _move(self, goal_m: Sequence[float] | np.ndarray, magnet: float) -> Iterator[np.ndarray]:
        """Straight to a goal, plane and height at once."""
        goal = np.asarray(goal_m, dtype=float)
        while True:
            yield self._arm.command(self._glide.advance(goal, TRAVEL_M_S, LIFT_M_S), magnet)
            if np.linalg.norm(goal - self._glide.position_m) < 0.002:
                return

    def _travel(
        self, goal_m: np.ndarray, magnet: float, clearance_m: float = 0.03
    ) -> Iterator[np.ndarray]:
        """Up over the walls, across, and down; the legs overlap where that is safe."""
        safe_z = spec.BIN_TOP_Z_M + clearance_m
        while True:
            position = self._glide.position_m
            away = float(np.linalg.norm(goal_m[:2] - position[:2]))
            goal = goal_m.copy()
            if away > 0.02:
                goal[2] = max(goal_m[2], min(safe_z, goal_m[2] + 0.3 + away))
                crossing = not (_over_bin(position) and _over_bin(goal_m))
                if crossing and position[2] < safe_z - 0.03:
                    goal[:2] = position[:2]
            yield self._arm.command(self._glide.advance(goal, TRAVEL_M_S, LIFT_M_S), magnet)
            if np.linalg.norm(goal_m - self._glide.position_m) < 0.002:
                return

    # -------------------------------------------------------------------------------- knowledge

    def _in_nest(self) -> np.ndarray:
        position = self._episode.part_poses[:, :3]
        inside = ((position >= spec.ZONE_LO_M) & (position <= spec.ZONE_HI_M)).all(axis=1)
        inside[list(self._episode.held)] = False
        return inside & ~self._episode.is_cleared

    def _chain(self) -> set[int]:
        """Parts held, and parts that touch them directly or through others."""
        contact = self._episode.data.contact
        pairs = self._episode.cell.part_of_geom[contact.geom]
        pairs = pairs[(pairs >= 0).all(axis=1) & (contact.efc_address >= 0)]
        chain = set(self._episode.held)
        while True:
            touching = {int(p) for pair in pairs for p in pair if chain & set(pair.tolist())}
            if touching <= chain:
                return chain
            chain |= touching

    def _lowest_m(self, parts) -> float:
        """Height of the lowest corner of some parts."""
        model, data = self._episode.cell.model, self._episode.data
        geoms = np.flatnonzero(np.isin(self._episode.cell.part_of_geom, list(parts)))
        reach = np.abs(data.geom_xmat[geoms].reshape(-1, 3, 3)[:, 2]) * model.geom_size[geoms]
        return float((data.geom_xpos[geoms, 2] - reach.sum(axis=1)).min())

    def _spot(self, parts: np.ndarray) -> Spot | None:
        """Best spot on any of some parts: nothing on top, head meets it first, near its middle."""
        poses = self._episode.part_poses
        low, high = poses[parts, :2].min(axis=0) - 0.05, poses[parts, :2].max(axis=0) + 0.05
        if piles.is_in_bin(poses[parts]).all():
            low = np.maximum(low, np.array(spec.BIN_LO_M[:2]))
            high = np.minimum(high, np.array(spec.BIN_HI_M[:2]))
            inner = (
                np.array(spec.BIN_LO_M[:2]) + HEAD_CLEAR_M,
                np.array(spec.BIN_HI_M[:2]) - HEAD_CLEAR_M,
            )
        else:
            inner = low, high
        xs, ys = np.arange(low[0], high[0], CELL_M), np.arange(low[1], high[1], CELL_M)
        height, owner = self._height_map(xs, ys)
        reach = math.ceil((spec.HEAD_RADIUS_M + 0.001) / CELL_M)
        grid = np.arange(-reach, reach + 1) * CELL_M
        disc = np.argwhere(np.hypot(*np.meshgrid(grid, grid)) <= spec.HEAD_RADIUS_M + 0.002) - reach
        best: Spot | None = None
        best_cost = math.inf
        for part in parts:
            mine = _disc_max(np.where(owner == part, height, -1.0), disc)
            others = _disc_max(np.where(owner == part, -1.0, height), disc)
            ok = mine - others > LEAD_M
            ok &= ((xs >= inner[0][0]) & (xs <= inner[1][0]))[:, None]
            ok &= ((ys >= inner[0][1]) & (ys <= inner[1][1]))[None, :]
            if not ok.any():
                continue
            cover = self._cover(int(part))
            away = np.hypot(xs[:, None] - poses[part, 0], ys[None, :] - poses[part, 1])
            i, j = np.unravel_index(np.argmin(np.where(ok, away, np.inf)), ok.shape)
            cost = (
                10.0 * cover + away[i, j] / 0.03 + 2.0 * self._failures[part] - 5.0 * poses[part, 2]
            )
            if cost < best_cost:
                best_cost = cost
                best = Spot(int(part), np.array((xs[i], ys[j])), float(mine[i, j]), cover)
        return best

    def _height_map(self, xs: np.ndarray, ys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Top height and part index (-1 for none) seen from above. Shapes (len(xs), len(ys))."""
        height, owner = np.zeros((len(xs), len(ys))), np.full((len(xs), len(ys)), -1)
        for i, x in enumerate(xs):
            for j, y in enumerate(ys):
                distance, geom = self._ray((x, y, 0.8), (0, 0, -1), -1)
                if geom >= 0:
                    height[i, j] = 0.8 - distance
                    owner[i, j] = self._episode.cell.part_of_geom[geom]
        return height, owner

    def _cover(self, part: int) -> float:
        """Share of points on a part with another part straight above."""
        data = self._episode.data
        hits = []
        for geom in np.flatnonzero(self._episode.cell.part_of_geom == part):
            half = self._episode.cell.model.geom_size[geom]
            frame = data.geom_xmat[geom].reshape(3, 3)
            for u in np.linspace(-0.95, 0.95, 6):
                for v in np.linspace(-0.95, 0.95, 5):
                    point = data.geom_xpos[geom] + frame @ (half * (u, v, 0.0))
                    _, hit = self._ray(point, (0, 0, 1), self._episode.cell.part_bodies[part])
                    hits.append(hit >= 0 and self._episode.cell.part_of_geom[hit] >= 0)
        return float(np.mean(hits))

    def _ray(self, start, direction, exclude: int) -> tuple[float, int]:
        geom = np.full(1, -1, dtype=np.int32)
        groups = np.array((0, 1, 0, 0, 0, 0), dtype=np.uint8)
        distance = mujoco.mj_ray(
            self._episode.cell.model, self._episode.data, np.asarray(start, dtype=float),
            np.asarray(direction, dtype=float), groups, 1, exclude, geom,
        )  # fmt: skip
        return float(distance), int(geom[0])


def _over_bin(position_m: np.ndarray) -> bool:
    low, high = np.array(spec.BIN_LO_M[:2]), np.array(spec.BIN_HI_M[:2])
    return bool(((position_m[:2] >= low) & (position_m[:2] <= high)).all())


def _disc_max(values: np.ndarray, disc: np.ndarray) -> np.ndarray:
    """Maximum over a disc around each cell; beyond the border counts nothing."""
    reach = int(np.abs(disc).max())
    padded = np.pad(values, reach, constant_values=-1.0)
    n, m = values.shape
    views = [padded[reach + i : reach + i + n, reach + j : reach + j + m] for i, j in disc]
    return np.max(views, axis=0)


def play(
    namespace: Namespace, seed: int, until_s: float = spec.EPISODE_S
) -> tuple[Episode, Picker]:
    """Plays a public or design pile and returns the finished episode."""
    streams = piles.public_streams(namespace, seed)
    pile = piles.draw(streams, spec.DESIGN_PILES.get(seed) if namespace == "design" else None)
    episode = Episode(pile, streams, channels=())
    picker = Picker(episode)
    picker.run(until_s)
    return episode, picker


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pile", type=int, nargs="*", default=[], choices=list(spec.DESIGN_PILES))
    parser.add_argument("--public-seed", type=int, nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=spec.EPISODE_S)
    parser.add_argument("--log", action="store_true")
    args = parser.parse_args()
    jobs: list[tuple[Namespace, int]] = [("design", s) for s in args.pile]
    jobs += [("public", s) for s in args.public_seed]
    for namespace, seed in jobs:
        episode, picker = play(namespace, seed, args.seconds)
        terms = metrics.score(outcome(episode))
        if args.log:
            print("\n".join(picker.log))
        print(
            f"{namespace} {seed}: {episode.n_cleared}/{episode.n_parts} in {episode.last_clear_s:.1f} s, "
            f"score {terms.score:.3f}, floor {episode.is_dropped.sum()}, damage "
            f"{episode.is_damaged.sum()}, bin {episode.n_bin_hits}, slips {episode.n_slips}, peaks "
            f"{episode.peak_part_n:.0f} / {episode.peak_bin_n:.0f} N",
            flush=True,
        )


if __name__ == "__main__":
    main()
