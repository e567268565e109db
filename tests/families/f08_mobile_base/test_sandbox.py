"""What a controller may not do, in the sandbox: the trial fails and says in which tick and why; the next one is unharmed."""

import pytest

from families.f08_mobile_base import spec, verify
from rle.verify_api import Trial
from tests.families.f08_mobile_base.designs import ORACLE
from train_baselines.oracles.f08_frames import to_xml

XML = to_xml(ORACLE)
CONTROLLER = """
import os, time
import numpy as np


class Controller:
    def reset(self, context, seed):
        self.ctrl = context["ctrl"]

    def act(self, obs):
        if obs["time"] > 0.03:
            {act}
        return self.ctrl


def make_controller():
    return Controller()
"""


@pytest.mark.parametrize(
    ("act", "ended", "says"),
    [
        ("time.sleep(2.3)", "timeout_call", "one call took over 2 s"),
        ("os._exit(3)", "worker_died", "exit code 3"),
        ("return np.ones(10)", "bad_action", "expected 11 finite numbers, got shape (10,)"),
        ("return self.ctrl * np.nan", "bad_action", "ctrl[0] of act is nan"),
        ("np.ones(2**29)", "bad_action", "MemoryError at line 12"),
        ("os.fork()", "bad_action", "PermissionError at line 12"),
        ("open('/proc/1/environ')", "bad_action", "PermissionError at line 12"),
    ],
)
def test_a_broken_rule_ends_the_trial_with_its_tick_and_reason(make_context, act, ended, says):
    files = {"robot.xml": XML, "controller.py": CONTROLLER.format(act=act)}
    context = make_context(files)
    controller, flags = verify.check_controller(context)
    assert controller is not None and flags == []
    params = {"robot_xml": XML, "controller": controller}
    row = verify.run_trial(context, Trial(id="t", index=0, group="panda/shelf-1kg", params=params))
    assert (row.ended, row.score) == (ended, 0.0)
    ((at_s, told),) = row.events
    assert told.startswith("act, tick 2: ") and says in told
    assert (row.policy_s >= spec.CONTROLLER_CALL_S) == (ended == "timeout_call")
    assert at_s == pytest.approx(0.04) and len(row.series["t_s"]) == 1
