"""Attack book, rows that end in a family's own physics or protocol: 49, 54, 69 and 75."""

import dataclasses

import mujoco
import numpy as np
import pytest

from families.f07_bin import spec as f07
from families.f07_bin import verify as f07_verify
from families.f08_mobile_base import battery, scene
from families.f08_mobile_base import spec as f08
from families.f09_gello import task as f09_task
from families.f09_gello.dev import design_streams
from families.f09_gello.devices import measure
from families.f09_gello.devices.draws import draw
from rle.contracts import Arg, ArraySpec, Function, PythonContract
from rle.errors import InvalidSubmission
from rle.paths import assets_dir
from rle.verify_api import Limits, TrialFault
from tests.families.f08_mobile_base.designs import ORACLE, built, failing, with_bars
from tests.families.f09_gello.fake import LocalWorker
from train_baselines.oracles.f08_frames import to_xml

PANDA = f08.ARMS[0]


def test_contact_numbers_of_a_chassis_are_ours():
    """Row 49: what the file says of masks, friction, softness and margin is gone from the model."""
    loud = 'friction="9 9 9" contype="0" conaffinity="0" solref="0.9 9" margin="1" gap="1"'
    text = to_xml(ORACLE).replace('<geom type="box"', f'<geom {loud} type="box"')
    from families.f08_mobile_base import chassis

    ours = scene.compose(built(ORACLE), PANDA, 1.0).model
    theirs = scene.compose(chassis.inspect(chassis.read_text(text.encode())), PANDA, 1.0).model
    for name in ("contype", "conaffinity", "friction", "solref", "solimp", "margin", "gap",
                 "priority", "condim"):  # fmt: skip
        field = f"geom_{name}"
        assert np.array_equal(getattr(theirs, field), getattr(ours, field)), name
    assert theirs.geom_friction.max() < 9.0 and theirs.geom_margin.max() < 1.0


def heap(n: int):
    """The reference chassis with `n` bars in one place."""
    bar = ORACLE.bars[0]
    return with_bars(ORACLE, *(dataclasses.replace(bar) for _ in range(n)))


def test_two_hundred_overlapping_bars_break_the_rules():
    """Row 54: so many are refused when the file is read; half of them close the gate by their count."""
    with pytest.raises(InvalidSubmission, match="<geom> elements; at most"):
        built(heap(200))
    assert any("member" in name for name in failing(built(heap(100))))


def test_overlapping_bars_do_not_push_each_other():
    """Row 54: all bars are one rigid body, so the pile of them stands as still as the chassis."""
    design = built(heap(48 - len(ORACLE.bars)))
    rest = battery.equilibrium(PANDA)
    trace = battery.simulate(scene.compose(design, PANDA, 1.0), rest)
    assert trace.ended == "done"
    assert trace.speed_m_s[-200:].max() < 0.05


def test_a_state_that_explodes_ends_the_scenario():
    """Row 54: no fresh start: the divergence is an ending, and time does not begin again."""
    robot = scene.compose(built(ORACLE), PANDA, 1.0)
    assert robot.model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_AUTORESET
    far = np.full(len(robot.arm_qpos), 1e11)  # where a diverged state is: outside MuJoCo's range
    trace = battery.simulate(robot, battery.equilibrium(PANDA), far)
    assert trace.ended == "sim_unstable" and trace.cause
    assert trace.n_steps == 0


SLEEPER = """
import time
def act(number):
    time.sleep(number)
    return [0.0]
"""
CONTRACT = PythonContract(
    entry="probe.py",
    functions=(
        Function(
            name="act", args=(Arg(arrays=(ArraySpec("n"),)),), returns=(ArraySpec("a", (1,)),)
        ),
    ),
)


def test_caps_of_the_card_are_those_of_the_worker():
    """Row 69: 30 s a call and 360 s in all, where a card says so."""
    assert (f07.ACT_CAP_S, f07.POLICY_TOTAL_S) == (30.0, 360.0)
    assert f07_verify.LIMITS.call_cap_s == 30.0 and f07_verify.LIMITS.total_cap_s == 360.0


@pytest.mark.parametrize(
    ("sleeps_s", "ended"),
    [((1.0, 1.0), None), ((6.0,), "timeout_call"), ((2.0,) * 5, "timeout_total")],
)
def test_sleeping_inside_and_outside_the_caps(make_context, sleeps_s, ended):
    """Row 69, with caps of 4 s and 9 s: sleeping is allowed and buys nothing."""
    ctx = make_context({"probe.py": SLEEPER})
    limits = Limits(call_cap_s=4.0, total_cap_s=9.0)
    with ctx.worker("python", ctx.check("python", CONTRACT), limits) as worker:
        try:
            for sleep_s in sleeps_s:
                worker.act(np.array(sleep_s))
        except TrialFault as fault:
            assert fault.ended == ended
        else:
            assert ended is None and worker.wall_s >= sum(sleeps_s)


def test_no_hidden_device_is_made_while_the_software_lives(monkeypatch):
    """Row 75: how long the making of a device takes cannot be measured by what will be asked about it."""
    lead = f09_task.load_lead(assets_dir() / "gello" / "oracle" / "xarm7" / "lead.xml", "xarm7")
    alive, made = False, 0
    compose = f09_task.compose

    def watched(*args):
        nonlocal made
        assert not alive, "a device with hidden parameters is made beside the running software"
        made += 1
        return compose(*args)

    def software(model_xml, use):
        nonlocal alive
        worker = LocalWorker(assets_dir() / "gello" / "oracle" / "xarm7" / "trim.py")
        worker.load(model_xml)
        alive = True
        try:
            return use(worker)
        finally:
            alive = False

    monkeypatch.setattr(f09_task, "compose", watched)
    draws = draw("xarm7", design_streams("xarm7", 101))
    made = 0
    answers = measure._answers("own", lead, draws, software)
    assert made == len(draws.copies) and all(a.adapted is not None for a in answers)
