"""A Python package in its worker: declared functions, conversions, faults, kept values, models."""

import time
from pathlib import Path

import numpy as np
import pytest

from rle.contracts import Arg, ArraySpec, Function, PythonContract
from rle.errors import InvalidSubmission
from rle.verify_api import Limits, TrialFault

LIMITS = Limits(call_cap_s=20.0, total_cap_s=60.0)
OBS = Arg(kind="dict", arrays=(ArraySpec("time"), ArraySpec("image", (2, 3), "uint8")))
POLICY = PythonContract(
    folder="policy",
    entry="policy.py",
    factory="make_policy",
    required=("reset", "act"),
    functions=(Function(name="act", args=(OBS,), returns=(ArraySpec("command", (2,)),)),),
)
POLICY_TEXT = """
from helper import double
class Policy:
    def reset(self, cell, seed):
        self.offset = cell["offset"] + seed
    def act(self, obs):
        assert isinstance(obs["time"], float) and obs["image"].dtype.name == "uint8"
        return [double(obs["time"]) + self.offset, int(obs["image"].sum())]
def make_policy():
    return Policy()
"""
HELPER = "def double(x):\n    return 2 * x\n"
IMAGE = np.arange(6, dtype=np.uint8).reshape(2, 3)


def act(worker, time_s=1.5):
    return worker.act(np.array(time_s), IMAGE)


def test_object_with_reset_and_dict_observation(make_context):
    ctx = make_context({"policy/policy.py": POLICY_TEXT, "policy/helper.py": HELPER})
    checked = ctx.check("python", POLICY)
    with ctx.worker("python", checked, LIMITS) as worker:
        worker.load()
        worker.reset(cell={"offset": 10.0}, seed=7)
        # 2 * 1.5 + 10 + 7 = 20, and 0 + 1 + ... + 5 = 15
        assert act(worker).tolist() == [20.0, 15.0]
        assert worker.wall_s > 0.0


BAD_ANSWERS = {
    "None": ("action.type", "NoneType"),
    "[1.0]": ("action.shape", "(1,)"),
    "['a', 'b']": ("action.type", "list"),
    "[True, False]": ("action.type", "list"),
    "[1.0, [2.0]]": ("action.type", "ragged"),
    "[1.0, float('nan')]": ("action.nonfinite", "command"),
    "[1.0, float('inf')]": ("action.nonfinite", "command"),
    "1 / 0": ("action.raised", "ZeroDivisionError at line 7"),
    "[1.0, 2.0 + 1j]": ("action.type", "list"),
}


@pytest.mark.parametrize("answer", BAD_ANSWERS)
def test_bad_answer_ends_the_call_not_the_worker(make_context, answer):
    code, fact = BAD_ANSWERS[answer]
    text = f"""
class Policy:
    def reset(self): self.calls = 0
    def act(self, obs):
        self.calls += 1
        if self.calls == 1:
            return {answer}
        return [1.0, 2.0]
def make_policy(): return Policy()
"""
    ctx = make_context({"policy/policy.py": text})
    with ctx.worker("python", ctx.check("python", POLICY), LIMITS) as worker:
        worker.reset()
        with pytest.raises(TrialFault) as caught:
            act(worker)
        assert (caught.value.ended, caught.value.code) == ("bad_action", code)
        assert fact in caught.value.detail
        assert act(worker).tolist() == [1.0, 2.0]


LOAD_FAULTS = {
    "import": ("import nothing_like_this", "python.load", "ModuleNotFoundError at line 1"),
    "factory": ("make_policy = 3", "python.factory", "make_policy"),
    "maker": ("def make_policy():\n    raise KeyError", "python.load", "KeyError at line 2"),
    "interface": ("def make_policy():\n    return object()", "python.interface", "without reset"),
    "signature": (
        "class P:\n    def reset(self): 0\n    def act(self): 0\ndef make_policy(): return P()",
        "python.signature",
        "act({time, image})",
    ),
}


@pytest.mark.parametrize("case", LOAD_FAULTS)
def test_what_cannot_be_loaded_is_invalid(make_context, case):
    text, code, fact = LOAD_FAULTS[case]
    ctx = make_context({"policy/policy.py": text})
    with ctx.worker("python", ctx.check("python", POLICY), LIMITS) as worker:
        with pytest.raises(InvalidSubmission) as caught:
            worker.load()
    assert caught.value.code == code
    assert fact in caught.value.message


def test_results_of_several_kinds(make_context):
    contract = PythonContract(
        entry="estimator.py",
        factory="make_estimator",
        required=("update",),
        functions=(
            Function(
                name="act",
                target="update",
                args=(
                    Arg(keyword="rgb", arrays=(ArraySpec("rgb", (2,), "uint8"),)),
                    Arg(keyword="t", arrays=(ArraySpec("t"),)),
                ),
                returns=(ArraySpec("x"), ArraySpec("shape_id", (), "int64")),
            ),
        ),
    )
    text = """
class Estimator:
    def update(self, *, rgb, t, depth=None):
        return [(0.5, 2), (0.5, True), (0.5, 2.0), (0.5,), 3][int(t)]
def make_estimator(): return Estimator()
"""
    ctx = make_context({"estimator.py": text})
    rgb = np.zeros(2, np.uint8)
    with ctx.worker("python", ctx.check("python", contract), LIMITS) as worker:
        x, shape_id = worker.call("act", rgb, np.array(0.0))
        assert (float(x), int(shape_id)) == (0.5, 2)
        for t in (1.0, 2.0, 3.0, 4.0):
            with pytest.raises(TrialFault, match="action.type"):
                worker.call("act", rgb, np.array(t))


SOFTWARE = PythonContract(
    entry="trim.py",
    modules=("numpy", "mujoco"),
    compile_model=True,
    functions=(
        Function(
            name="plan",
            target="plan_probe",
            args=(
                Arg(kind="kept", kept="model"),
                Arg(kind="dict", arrays=(ArraySpec("target", (1,)), ArraySpec("q", (1,)))),
            ),
            returns=(ArraySpec("targets", (2, 1)),),
        ),
        Function(
            name="adapt",
            args=(
                Arg(kind="kept", kept="model"),
                Arg(kind="records", arrays=(ArraySpec("q", (3, 1)),)),
            ),
            keep="params",
        ),
        Function(name="make_trim", args=(Arg(kind="kept", kept="model"),), keep="trim"),
        Function(
            name="trim",
            target="kept:trim",
            args=(Arg(arrays=(ArraySpec("q", (1,)),)),),
            returns=(ArraySpec("torque", (1,)),),
        ),
    ),
)
MODEL_XML = """<mujoco><worldbody><body><joint name="j" type="hinge"/>
<geom size=".1" mass="2"/></body></worldbody></mujoco>"""


def test_values_stay_in_the_worker_and_models_are_compiled_there(make_context):
    text = """
def plan_probe(model, sample):
    return [[model.nv * sample["target"][0]], [model.body_mass[1]]]
def adapt(model, probes):
    return lambda: sum(p["q"][0] for p in probes)
def make_trim(model):
    return lambda q: [q[0] * 3]
"""
    ctx = make_context({"trim.py": text})
    one = np.ones(1)
    with ctx.worker("python", ctx.check("python", SOFTWARE), LIMITS) as worker:
        worker.load(model_xml=MODEL_XML, model_assets={})
        (targets,) = worker.call("plan", 5 * one, one)
        assert targets.tolist() == [[5.0], [2.0]]  # nv = 1, and the mass of the body
        assert worker.call("adapt", np.ones((3, 1))) == ()
        with pytest.raises(TrialFault, match="action.missing"):
            worker.call("trim", one)
        worker.call("make_trim")
        assert worker.call("trim", 2 * one)[0].tolist() == [6.0]


def process_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_frozen_between_calls(make_context):
    text = """
import time
class Policy:
    def reset(self): self.last = time.process_time()
    def act(self, obs):
        now = time.process_time()
        used, self.last = now - self.last, now
        return [used, 0.0]
def make_policy(): return Policy()
"""
    ctx = make_context({"policy/policy.py": text})
    with ctx.worker("python", ctx.check("python", POLICY), LIMITS) as worker:
        worker.reset()
        deadline_s = time.monotonic() + 10.0
        while process_state(worker.pid) != "T":
            assert time.monotonic() < deadline_s, "the worker was never stopped"
        assert act(worker)[0] < 0.1


LIMIT_CASES = {
    "sleep": ("import time; time.sleep(99)", "timeout_call", "worker.time"),
    "spin": ("while True: pass", "timeout_call", "worker.time"),
    "exit": ("import sys; sys.exit(0)", "worker_died", "worker.died"),
    "hard exit": ("import os; os._exit(0)", "worker_died", "worker.died"),
    "abort": ("import os; os.abort()", "worker_died", "worker.died"),
}


@pytest.mark.parametrize("case", LIMIT_CASES)
def test_limits_and_deaths(make_context, case):
    statement, ended, code = LIMIT_CASES[case]
    text = f"""
class Policy:
    def reset(self): pass
    def act(self, obs):
        {statement}
def make_policy(): return Policy()
"""
    ctx = make_context({"policy/policy.py": text})
    limits = Limits(call_cap_s=0.5 if ended == "timeout_call" else 20.0, total_cap_s=60.0)
    with ctx.worker("python", ctx.check("python", POLICY), limits) as worker:
        worker.reset()
        with pytest.raises(TrialFault) as caught:
            act(worker)
        with pytest.raises(TrialFault, match="worker_died"):
            act(worker)
    assert (caught.value.ended, caught.value.code) == (ended, code)
    assert ctx.signal_deaths == (case == "abort")


def test_total_cap(make_context):
    text = """
import time
class Policy:
    def reset(self): pass
    def act(self, obs):
        time.sleep(0.2)
        return [0.0, 0.0]
def make_policy(): return Policy()
"""
    ctx = make_context({"policy/policy.py": text})
    limits = Limits(call_cap_s=5.0, total_cap_s=0.7)
    with ctx.worker("python", ctx.check("python", POLICY), limits) as worker:
        worker.reset()
        with pytest.raises(TrialFault) as caught:
            for _ in range(6):
                act(worker)
    assert caught.value.ended == "timeout_total"
