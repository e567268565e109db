"""f03/pocket-cube: two arms turn the halves of the cube. Privileged cube state, metered actions.

    python -m train_baselines.oracles.f03_pocket_cube [--salt TEXT] [--folder DIR]
    python -m train_baselines.oracles.f03_pocket_cube --turns +z-90 +y-90 +z-90

z turns: hand 0 holds the lower half from -x, hand 1 comes from above and rolls the upper half. A y turn is a roll of
the whole cube about x by hand 0 and a z turn. The cube is squared on its fork before every grip. Turns about x, where
each hand takes a half and one rolls, are not used: with these hands both halves turned together (measured).
"""

import argparse
import functools
import json

import mujoco
import numpy as np

from families.f03_tabletop import cube, cube_solver
from families.f03_tabletop import spec as s
from families.f03_tabletop.instances import CubeInstance
from families.f03_tabletop.verify import score_evidence
from rle.service import embedded
from rle.service.adapter import TrialPlan
from rle.service.client import Client, SimError, TrialOverError
from rle.sim.arm_control import rotation_of, rotation_vector
from train_baselines.oracles.f03_driver import (
    POSITION_SCALE_M,
    ROTATION_SCALE_RAD,
    run,
    seen,
    validation_profile,
)

OPEN, CLOSED = -1.0, 1.0
CENTRE = np.array(s.CUBE_START_M)
HOLD_DOWN_M = 0.020
GRIP_UP_M = 0.023
"""Hand 0 holds the lower half this far below the cube's middle, hand 1 the upper half this far above it, so
that neither hand's fingers reach the other half nor the other hand."""
SQUARE_X_M = -0.012
"""Hand 0 squares the cube with its site here."""
GRIP_X_M = 0.018
"""Hand 0 takes the -x half this far from the middle."""
HOLD_X_M = -0.018
"""Hand 0 holds the lower half with its site here: its palm is 31 mm behind the site, and the corners of the
upper half sweep 45 mm."""
LIFT_Z_M = 1.10
"""Height for rolls: above the posts by more than the corners' sweep."""
PARK_X_M = 0.136
TURN_STEPS = 60
WAYS = tuple(
    (*rolls, turn)
    for rolls in ((), ("roll+",), ("roll-",), ("roll+", "roll+"))
    for turn in ("+z+90", "+z-90")
)
"""Every way to the next quarter turn: whole-cube rolls, then a turn of the upper half; the shortest first."""


def spin(axis: int, angle_rad: float) -> np.ndarray:
    """Rotation matrix about a world axis."""
    vector = np.zeros(3)
    vector[axis] = 1.0
    quat, out = np.zeros(4), np.zeros(9)
    mujoco.mju_axisAngle2Quat(quat, vector, angle_rad)
    mujoco.mju_quat2Mat(out, quat)
    return out.reshape(3, 3)


class Hands:
    """Both arms: where each is told to be, and steps that bring it there."""

    def __init__(self, sim: Client) -> None:
        self.sim = sim
        state = sim.observe()
        self.start = [rotation_of(state[f"arm{i}_eef_quat"]) for i in range(2)]
        self.position = [state[f"arm{i}_eef_pos"].copy() for i in range(2)]
        self.rotation = [r.copy() for r in self.start]
        self.grip = [OPEN, OPEN]
        self._base = [rotation_of(state[f"arm{i}_base_quat"]) for i in range(2)]
        self._state = state

    def rolled(self, hand: int, angle_rad: float) -> np.ndarray:
        """Start orientation of a hand, rolled about the world's x axis."""
        return spin(0, angle_rad) @ self.start[hand]

    def step(self) -> None:
        """One control step towards the commanded poses."""
        action = np.zeros(14)
        for i in range(2):
            here, now = self._state[f"arm{i}_eef_pos"], rotation_of(self._state[f"arm{i}_eef_quat"])
            part = action[7 * i : 7 * i + 7]
            part[0:3] = self._base[i].T @ (self.position[i] - here) / POSITION_SCALE_M
            error = rotation_vector(self.rotation[i] @ now.T)
            part[3:6] = self._base[i].T @ error / ROTATION_SCALE_RAD
            part[6] = self.grip[i]
        self._state = seen(self.sim.step(np.clip(action, -1.0, 1.0), observe=()))

    def wait(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def move(self, steps: int, **targets: tuple) -> None:
        """Moves hands along straight lines: `h0=(position, rotation)`, `h1=...`, then lets them arrive."""
        plans = {}
        for name, (position, rotation) in targets.items():
            hand = int(name[1])
            turn = rotation_vector(rotation @ self.rotation[hand].T)
            plans[hand] = (
                self.position[hand].copy(),
                np.array(position),
                self.rotation[hand].copy(),
                turn,
            )
        for k in range(1, steps + 1):
            for hand, (start, end, before, turn) in plans.items():
                self.position[hand] = start + (end - start) * k / steps
                angle = float(np.linalg.norm(turn))
                if angle > 1e-9:
                    quat, out = np.zeros(4), np.zeros(9)
                    mujoco.mju_axisAngle2Quat(quat, turn / angle, angle * k / steps)
                    mujoco.mju_quat2Mat(out, quat)
                    self.rotation[hand] = out.reshape(3, 3) @ before
            self.step()
        self.wait(6)

    def close(self, hand: int, value: float = CLOSED, steps: int = 14) -> None:
        """Closes or opens a hand and waits."""
        self.grip[hand] = value
        self.wait(steps)


class CubeHands(Hands):
    """Squaring, turns of the upper half, rolls of the whole cube."""

    def core(self) -> np.ndarray:
        """True position of the cube's core."""
        return self.sim.privileged_state()[cube.CORE][:3]

    def report(self, what: str) -> None:
        """Prints where the cube is."""
        state = self.sim.privileged_state()
        angle = np.degrees(float(state["misalignment_rad"]))
        print(f"{what}: core {np.round(state[cube.CORE][:3], 4)}, misaligned {angle:.1f} deg, "
              f"{self.sim.status.steps_used} steps")  # fmt: skip

    def bring(self, hand: int, target, steps: int) -> None:
        """Moves a hand so that the held cube's core gets to a position."""
        position = self.position[hand] + np.array(target) - self.core()
        self.move(steps, **{f"h{hand}": (position, self.rotation[hand])})

    def square(self) -> None:
        """Hand 0 closes along y at half height and carries the cube back to the middle in x."""
        flat = self.rolled(0, -np.pi / 2)
        self.move(25, h0=((-PARK_X_M + 0.03, 0.0, CENTRE[2]), flat))
        self.move(20, h0=((SQUARE_X_M, 0.0, CENTRE[2]), flat))
        self.close(0)
        off = float(self.core()[0])
        if abs(off) > 0.001:
            x = self.position[0][0]
            self.move(8, h0=((x, 0.0, CENTRE[2] + 0.004), flat))
            self.move(8, h0=((x - off, 0.0, CENTRE[2] + 0.004), flat))
            self.move(8, h0=((x - off, 0.0, CENTRE[2]), flat))
        self.close(0, OPEN, 8)

    def turn_z(self, sign: int) -> None:
        """The upper half by +-90 degrees about z."""
        self.square()
        flat = self.rolled(0, -np.pi / 2)
        self.move(10, h0=((HOLD_X_M, 0.0, CENTRE[2] - HOLD_DOWN_M), flat))
        self.close(0)
        start = 0.0 if sign > 0 else np.pi / 2
        above = spin(2, start) @ np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]])
        way = ((0.12, 0.0, 1.16), (0.06, 0.0, 1.20), (0.0, 0.0, 1.18))
        self.move(15, h1=(way[0], self.start[1]))
        self.move(35, h1=(way[1], above))
        self.move(15, h1=(way[2], above))
        x, y, _ = self.core()
        top = np.array([x, y, CENTRE[2] + GRIP_UP_M])
        self.move(30, h1=(top, above))
        top += top - self._state["arm1_eef_pos"]
        self.move(5, h1=(top, above))
        self.close(1)
        rolled = spin(2, sign * np.pi / 2) @ above
        self.move(TURN_STEPS, h1=(top, rolled))
        self.wait(6)
        self.close(1, OPEN, 10)
        self.move(20, h1=(way[2], rolled))
        self.move(15, h1=(way[1], rolled))
        self.move(35, h1=(way[0], self.start[1]))
        self.move(15, h1=((PARK_X_M, 0.0, CENTRE[2]), self.start[1]))
        self.close(0, OPEN, 8)
        self.park()

    def roll(self, sign: int) -> None:
        """The whole cube by +-90 degrees about x: hand 0 takes the -x half, lifts, rolls, sets down.

        The fingers give way together: lifted, the cube sinks between them by 8 mm. It is brought back to
        the middle before it is set down, or the next grip would hit it.
        """
        self.square()
        self.park()
        x = -PARK_X_M + 0.03
        self.move(25, h0=((x, 0.0, CENTRE[2]), self.start[0]))
        self.move(20, h0=((-GRIP_X_M, 0.0, CENTRE[2]), self.start[0]))
        self.close(0)
        self.move(25, h0=((-GRIP_X_M, 0.0, LIFT_Z_M), self.start[0]))
        rolled = self.rolled(0, sign * np.pi / 2)
        self.move(TURN_STEPS, h0=((-GRIP_X_M, 0.0, LIFT_Z_M), rolled))
        self.bring(0, (CENTRE[0], CENTRE[1], LIFT_Z_M), 15)
        self.bring(0, CENTRE, 30)
        self.close(0, OPEN, 8)
        self.park()
        self.move(25, h0=((x, 0.0, CENTRE[2]), self.start[0]))

    def park(self) -> None:
        """Hand 0 withdraws."""
        x = -PARK_X_M + 0.03
        self.move(15, h0=((x, 0.0, self.position[0][2]), self.rotation[0]))


ROLLS = {"roll+": spin(0, np.pi / 2), "roll-": spin(0, -np.pi / 2)}


def after(world: np.ndarray, action: str) -> np.ndarray:
    """World-frame state after a turn or a roll of the whole cube."""
    if action in ROLLS:
        return cube.nearest(ROLLS[action] @ cube.rotations_of(world))[0]
    return cube_solver.apply(world, [action])


@functools.cache
def _distance(canonical: bytes) -> int:
    return cube_solver.optimum(np.frombuffer(canonical, dtype=np.uint8))


def distance(world: np.ndarray) -> int:
    """Exact number of quarter turns to solved, however the cube is turned as a whole."""
    return _distance(cube_solver.canonical(world).tobytes())


def plan(world: np.ndarray) -> tuple[str, ...] | None:
    """Actions that solve a world-frame state in the fewest quarter turns; None where the hands know no such way.

    Every quarter turn brings the distance down by one or up by one. Only halves at +-y and +-z can be turned,
    but a turn of the other half leaves the cube turned as a whole, so that what lay at x comes into reach.
    """
    dead: set[bytes] = set()

    def search(state: np.ndarray, left: int) -> tuple[str, ...] | None:
        if left == 0:
            return ()
        if state.tobytes() in dead:
            return None
        for way in WAYS:
            then = functools.reduce(after, way, state)
            if distance(then) < left:
                rest = search(then, left - 1)
                if rest is not None:
                    return (*way, *rest)
        dead.add(state.tobytes())
        return None

    return search(world, distance(world))


def plan_with_detour(world: np.ndarray) -> tuple[str, ...] | None:
    """As `plan`; where it finds nothing, one quarter turn away from the solution comes first."""
    direct = plan(world)
    if direct is not None:
        return direct
    for way in WAYS:
        rest = plan(functools.reduce(after, way, world))
        if rest is not None:
            return (*way, *rest)
    return None


def world_state(sim: Client) -> np.ndarray:
    """State of the cube as it stands, in world axes."""
    state = sim.privileged_state()
    frame = state["frame"]
    traces = np.einsum("kij,ij->k", cube.ROTATIONS, frame)
    turn = int(traces.argmax())
    relative = cube.rotations_of(state["state"].astype(np.uint8))
    return cube.nearest(cube.ROTATIONS[turn] @ relative)[0]


def solve(sim: Client, most_actions: int = 80) -> None:
    """Turns until the simulator confirms the solve. Plans anew after every action.

    A cube that stands askew is squared; one that fell is put back by `recover_drop`.
    """
    hands = CubeHands(sim)
    try:
        for _ in range(most_actions):
            if hands.core()[2] < s.TURNS.rescue_z_m:
                hands.wait(20)
                sim.call("recover_drop")
                hands = CubeHands(sim)
            state = world_state(sim)
            if not cube_solver.is_legal(state):
                hands.square()
                hands.park()
                continue
            actions = plan_with_detour(state)
            if not actions:
                break
            print(f"plan: {' '.join(actions)}", flush=True)
            first = actions[0]
            act = hands.roll if first in ROLLS else hands.turn_z
            act(-1 if first in ("roll-", "+z-90") else 1)
            hands.report(first)
        hands.wait(10)
    except TrialOverError:
        print("solved in the middle of a motion")
    except SimError as failure:
        print(f"lost: {failure}")


class GivenCube(cube.PocketCube):
    """The task with a scramble that is named instead of drawn."""

    def __init__(self, turns: tuple[str, ...]) -> None:
        super().__init__("f03/pocket-cube")
        state = cube_solver.apply(cube_solver.SOLVED, turns)
        self.given = CubeInstance(turns=turns, optimum_qtm=cube_solver.optimum(state))

    def open_trial(self, plan: TrialPlan) -> str:
        self.open_instance(self.given, plan)
        return self.given.digest


PRACTICE_TURNS = ("+z-90", "+y-90", "+z-90")
"""Scramble of the practice instance; its optimum is 3."""


def main() -> None:
    """A drawn scramble as every task draws it, or the one of `--turns`."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--turns", nargs="+")
    turns = parser.parse_known_args()[0].turns
    task = "f03/pocket-cube"
    if not turns:
        run(task, solve)
        return
    adapter = GivenCube(tuple(turns))
    with embedded.open(s.SESSIONS[task], adapter=adapter, profile=validation_profile(task)) as sim:
        solve(sim)
        if sim.status.live:
            sim.finish()
        evidence = sim.session.trials()[-1].evidence
        value, _ = score_evidence(task, adapter.given, evidence)
        print(json.dumps({"score": value, "optimum": adapter.given.optimum_qtm, **evidence}))


if __name__ == "__main__":
    main()
