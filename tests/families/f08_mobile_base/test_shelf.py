"""The shelf trial: hold, touch and tolerance on both sides, faults by name, and the oracle on real targets."""

import dataclasses

import mujoco
import numpy as np
import pytest

from families.f08_mobile_base import battery, contacts, scene, shelf, spec
from rle.errors import UserError
from rle.paths import assets_dir
from rle.verify_api import TrialFault
from tests.families.f08_mobile_base.designs import COMPACT, ORACLE, built

ORACLE_CONTROLLER = assets_dir() / "oracles/f08/oracle/controller.py"
PANDA, UR5E, XARM7 = spec.ARMS


@pytest.fixture(scope="module")
def robot() -> scene.Robot:
    return shelf.make_robot(built(ORACLE), PANDA, 1.0)


class Scripted:
    """A controller from a function of the observation."""

    def __init__(self, act=None, on_reset=None) -> None:
        self._act, self._on_reset, self.context = act, on_reset, None

    def reset(self, context, seed):
        assert seed == 0
        self.context = context
        if self._on_reset:
            self._on_reset(context)

    def act(self, obs):
        return self.context["ctrl"] if self._act is None else self._act(obs, self.context)


def test_twelve_targets_in_the_cards_order():
    assert spec.TARGETS_M[0] == (0.50, 0.15, 0.34) and spec.TARGET_NAMES[0] == "low-front-left"
    assert spec.TARGETS_M[3] == (0.68, -0.15, 0.34) and spec.TARGET_NAMES[3] == "low-back-right"
    assert spec.TARGETS_M[10] == (0.68, 0.15, 1.16) and spec.TARGET_NAMES[10] == "high-back-left"
    assert len(set(spec.TARGETS_M)) == 12 and shelf.TICKS == 1500 and shelf.SUBSTEPS == 10


@pytest.mark.parametrize(("hold_s", "held"), [(0.98, False), (1.00, True)])
def test_hold(hold_s, held):
    hold = shelf.Hold()
    ticks = round(hold_s * spec.CONTROL_HZ)
    results = [hold.tick(k / spec.CONTROL_HZ, True) for k in range(ticks + 1)]
    assert results[-1] is held and not any(results[:-1])


def test_hold_starts_again_after_a_miss():
    hold = shelf.Hold()
    for k in range(49):
        assert not hold.tick(0.02 * k, True)
    assert not hold.tick(0.98, False)
    assert not any(hold.tick(1.0 + 0.02 * k, True) for k in range(50))
    assert hold.tick(2.0, True)


def advance(robot, error_m: float = 0.0, shelf_n: float = 0.0, monkeypatch=None):
    """One tick of a standing robot with a target at a distance and a pretended touch."""
    data = robot.stowed(np.array(spec.SHELF_START_M))
    trial, support = shelf.ShelfTrial(0, 1.0), shelf.Support()
    for _ in range(10):  # it starts 4 mm above the floor
        shelf.advance(robot, data, trial, support, np.full(3, 9.0))
    target = data.site_xpos[robot.ee] + (error_m, 0.0, 0.0)
    if monkeypatch is not None:
        real = contacts.Recorder.take

        def touched(recorder):
            taken = real(recorder)
            force = np.zeros_like(taken.shelf_n)
            force[7] = shelf_n  # at a single physics step within the tick
            return dataclasses.replace(taken, shelf_n=force, shelf_geom=np.zeros(len(force), int))

        monkeypatch.setattr(contacts.Recorder, "take", touched)
    now = shelf.advance(robot, data, trial, support, target)
    return trial, now.error_m, now.margin


@pytest.mark.parametrize(("force_n", "ended"), [(1.99, "horizon"), (2.01, "shelf_contact")])
def test_shelf_force_limit(robot, monkeypatch, force_n, ended):
    trial, _, _ = advance(robot, shelf_n=force_n, monkeypatch=monkeypatch)
    assert trial.ended == ended and trial.shelf_force_max_n == force_n
    last = 10 * 11 if ended == "horizon" else 10 * 10 + 8  # the step of the touch is the last one
    assert trial.elapsed_s == pytest.approx(last * spec.TIMESTEP_S)


def test_margin_is_known_near_the_target_only(robot):
    _, near_m, margin = advance(robot, error_m=0.05)
    assert near_m == pytest.approx(0.05, abs=0.01) and margin > 0.0
    _, far_m, margin = advance(robot, error_m=0.5)
    assert far_m > 0.4 and margin == 0.0


@pytest.mark.parametrize(("error_m", "counts"), [(0.0599, True), (0.0601, False)])
def test_target_tolerance(robot, monkeypatch, error_m, counts):
    """A tool held at this distance with a good margin succeeds or runs out of time."""
    monkeypatch.setattr(shelf, "TICKS", 60)
    monkeypatch.setattr(shelf, "advance", lambda robot, data, *rest: _tick(robot, data, error_m))
    trial = shelf.run_trial(robot, Scripted(), 0)
    assert trial.ok is counts and trial.ended == ("success" if counts else "horizon")


def _tick(robot, data, error_m):
    data.time += shelf.SUBSTEPS * spec.TIMESTEP_S
    return shelf.Tick(error_m, 10.0, 0.0, 100.0)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda obs, ctx: np.zeros(3), "expected 11 numbers, got shape (3,)"),
        (lambda obs, ctx: np.full(11, np.nan), "expected finite numbers"),
        (lambda obs, ctx: None, "expected 11 numbers, got"),
        (lambda obs, ctx: "forward", "expected 11 numbers, got str"),
        (lambda obs, ctx: {"a": 1}, "expected 11 numbers, got dict"),
    ],
)
def test_bad_actions_end_the_trial_with_tick_and_reason(robot, answer, says):
    def late(obs, ctx):
        return answer(obs, ctx) if obs["time"] > 0.03 else ctx["ctrl"]

    trial = shelf.run_trial(robot, Scripted(late), 0)
    assert trial.ended == "bad_action" and not trial.ok
    assert trial.detail.startswith("act, tick 2: ") and says in trial.detail


def test_a_file_without_the_factory_is_told_what_is_missing(tmp_path):
    (tmp_path / "controller.py").write_text("x = 1\n")
    with pytest.raises(UserError, match=r"no make_controller\(\); it returns an object with reset"):
        shelf.LocalController(tmp_path / "controller.py")


LEAVING = """import os
{0}
class Controller:
    def reset(self, context, seed):
        {1}
    def act(self, obs):
        {2}
def make_controller():
    {3}
    return Controller()
"""


@pytest.mark.parametrize(("at", "line"), [(0, 2), (3, 9), (1, 5), (2, 7)])
@pytest.mark.parametrize("leave", ["os._exit(0)", "raise SystemExit"])
def test_a_controller_that_ends_the_process_is_named(tmp_path, at, line, leave):
    path = tmp_path / "controller.py"
    path.write_text(LEAVING.format(*(leave if at == i else "pass" for i in range(4))))
    with pytest.raises(UserError, match=rf"controller.py ended its own process at line {line};"):
        shelf.LocalController(path).reset({}, 0)
        shelf.LocalController(path).act({})


def test_commands_are_clipped_to_the_actuators(robot):
    seen = []

    def shout(obs, context):
        seen.append(obs["ctrl"].copy())
        if len(seen) > 2:
            raise TrialFault("worker_died", "worker.died")
        return np.full(11, 1e9)

    trial = shelf.run_trial(robot, Scripted(shout), 0)
    assert trial.ended == "worker_died"
    assert seen[1] == pytest.approx(robot.model.actuator_ctrlrange[:, 1])


def test_context_is_what_the_instruction_promises(robot):
    def stop(context):
        raise TrialFault("worker_died", "worker.died")

    controller = Scripted(on_reset=stop)
    shelf.run_trial(robot, controller, 4)
    context = controller.context
    text = spec.INSTRUCTION
    assert all(key in text for key in context), [k for k in context if k not in text]
    assert context["target_name"] == "mid-front-left" and context["payload_kg"] == 1.0
    again = mujoco.MjModel.from_xml_string(context["model_xml"])
    assert [again.actuator(i).name for i in range(again.nu)] == context["actuator_names"]
    assert context["qpos"][:3].tolist() == [-0.6, 0.0, 0.08]
    for name in (
        "dof_damping",
        "dof_armature",
        "dof_frictionloss",
        "body_mass",
        "actuator_gainprm",
    ):
        assert np.allclose(getattr(again, name), getattr(robot.model, name), rtol=1e-5), name
    assert again.opt.disableflags == robot.model.opt.disableflags
    # MuJoCo reads three damping numbers as a polynomial in the speed: there is one.
    assert not again.dof_dampingpoly.any() and not robot.model.dof_dampingpoly.any()
    assert again.joint(context["base_joint"]).type[0] == mujoco.mjtJoint.mjJNT_FREE
    assert again.site(context["ee_site"]).id >= 0


def test_driving_into_the_shelf_is_a_touch_with_a_name(robot):
    fast = np.concatenate([np.full(4, 8.0), PANDA.stow_rad])
    trial = shelf.run_trial(robot, Scripted(lambda obs, ctx: fast), 0)
    assert trial.ended == "shelf_contact" and "touched the shelf" in trial.detail
    assert trial.elapsed_s < 3.0 and trial.shelf_force_max_n > 2.0


def test_the_plinth_is_closed():
    """Even the lowest base meets the plinth instead of driving under the shelf."""
    robot = shelf.make_robot(built(COMPACT), XARM7, 1.0)
    fast = np.concatenate([np.full(4, 8.0), XARM7.stow_rad])
    trial = shelf.run_trial(robot, Scripted(lambda obs, ctx: fast), 0)
    assert trial.ended in ("shelf_contact", "tilt", "wheels_lifted")


def test_two_lifted_wheels_end_a_trial_after_300_ms():
    support = shelf.Support()
    nothing = contacts.Contacts(
        np.zeros((10, 4)),
        np.zeros((10, 3)),
        np.zeros(10),
        np.full(10, -1),
        np.empty((10, 0, 3)),
        0.0,
    )
    lifted = np.concatenate([support.add(nothing) for _ in range(16)])
    assert lifted[150:].all() and not lifted[:150].any()


def test_support_equals_the_whole_trace(robot):
    """Margins tick by tick are those of a trace that is read at once."""
    rest = battery.Program(
        "still", np.zeros((100, 3)), np.tile(PANDA.stow_rad, (100, 1)), shelf.SHELF, 1.0
    )
    trace = battery.simulate(robot, rest)
    data, support, found = robot.stowed(), shelf.Support(), []
    for _ in range(10):
        recorder, centre = contacts.Recorder(robot), np.empty((10, 3))
        for k in range(10):
            mujoco.mj_step(robot.model, data)
            recorder.add(data)
            centre[k] = data.subtree_com[robot.base]
        touch = recorder.take()
        support.add(touch)
        found.append(support.margins(centre, -touch.net_n, np.arange(10)[::-1]))
    assert np.concatenate(found) == pytest.approx(trace.force_angle, rel=1e-12)


def test_oracle_holds_at_a_high_back_target():
    """The hardest kind of target for the shortest arm, end to end."""
    robot = shelf.make_robot(built(ORACLE), XARM7, 2.0)
    trial = shelf.run_trial(robot, shelf.LocalController(ORACLE_CONTROLLER), 11)
    assert trial.ok, (trial.ended, trial.detail)
    assert trial.ee_err_m < 0.045 and trial.shelf_force_max_n == 0.0 and trial.tilt_max_deg < 1.0
    assert trial.min_fasm is not None and trial.min_fasm > 5.0
    assert len(trial.qpos) == pytest.approx(trial.elapsed_s * spec.VIDEO_HZ, abs=2)
    assert len(trial.series["t_s"]) == len(trial.series["fasm"]) > 50


def test_same_controller_same_digest_other_load_another(robot):
    def few(kg):
        made = shelf.make_robot(built(ORACLE), PANDA, kg)
        controller = shelf.LocalController(ORACLE_CONTROLLER)
        return shelf.run_trial(made, controller, 0).action_sha256

    import families.f08_mobile_base.shelf as module

    keep, module.TICKS = module.TICKS, 40
    try:
        assert few(1.0) == few(1.0) != few(2.0)
    finally:
        module.TICKS = keep
