"""`trim.py`: what is asked, in which order, what a fault costs, and that the oracle's software learns."""

import textwrap
from pathlib import Path

import numpy as np
import pytest

from families.f09_gello import scene, software, task
from families.f09_gello.mechanism.record import Record
from families.f09_gello.spec import ARMS, DEVICES, SERVO, TRIM_FUNCTIONS
from rle.contracts import PythonContract
from rle.verify_api import TrialFault
from tests.families.f09_gello.fake import DyingWorker
from train_baselines.oracles import f09_trim

ARM = ARMS["ur5e"]
HOME = np.array(ARM.home_rad)
GOOD = """
import numpy as np
def plan_probe(model, sample, lower, upper):
    assert set(sample) == {"target", "q"} and lower.shape == (model.nv,)
    return np.stack([lower, upper] * 7 + [lower])
def adapt(model, probes):
    assert len(probes) == 16 and probes[0]["target"].shape == (model.nv,)
    return {"mean": sum(p["q"] - p["target"] for p in probes) / 16}
def make_trim(model):
    return lambda q: 0.1 * q
def make_trim_adapted(model, params):
    return lambda q: 0.2 * q + 0 * params["mean"]
"""


def local(tmp_path: Path, text: str) -> software.LocalTrim:
    folder = tmp_path / "ur5e"
    folder.mkdir(exist_ok=True)
    (folder / "trim.py").write_text(textwrap.dedent(text))
    return software.LocalTrim(folder / "trim.py", scene.nominal_xml(Record("ur5e")))


def frozen(tmp_path: Path, text: str, wrap=lambda w: w) -> software.Answers:
    asked = {"holds": task.public_hold_configs("ur5e"), "grid": task.trim_grid("ur5e")[:4]}
    return software.freeze(wrap(local(tmp_path, text)), ARM, lambda q: q + 0.01, asked)


def test_contract_declares_the_four_functions_and_both_trims():
    contract = software.contract("franka")
    assert isinstance(contract, PythonContract) and contract.compile_model
    names = [f.name for f in contract.functions]
    assert set(TRIM_FUNCTIONS) < set(names) and names[-2:] == ["nominal", "adapted"]
    assert contract.functions[0].returns[0].shape == (15, 7)


def test_both_tiers_are_answered_and_frozen(tmp_path):
    answers = frozen(tmp_path, GOOD)
    assert answers.notes == () and answers.faults == 0 and answers.probe_accepted
    assert answers.nominal["holds"] == pytest.approx(0.1 * task.public_hold_configs("ur5e"))
    assert answers.adapted["grid"] == pytest.approx(0.2 * task.trim_grid("ur5e")[:4])
    assert answers.best is answers.adapted


def test_a_trim_that_counts_calls_gains_nothing(tmp_path):
    # Every row is asked once, before any simulation; a counter only makes the table arbitrary.
    counting = GOOD.replace(
        "lambda q: 0.1 * q", "(lambda n: lambda q: n.append(0) or np.full(6, 0.01 * len(n)))([])"
    )
    answers = frozen(tmp_path, counting)
    assert answers.nominal["holds"][:, 0] == pytest.approx([0.01, 0.02, 0.03])
    assert answers.nominal["grid"][:, 0] == pytest.approx([0.04, 0.05, 0.06, 0.07])


def test_a_trim_that_guesses_friction_is_a_feedforward_like_any_other(tmp_path):
    guess = GOOD.replace("lambda q: 0.1 * q", "lambda q: 0.03 * np.sign(q)")
    answers = frozen(tmp_path, guess)
    assert np.array_equal(
        answers.nominal["holds"], 0.03 * np.sign(task.public_hold_configs("ur5e"))
    )
    assert (answers.faults, answers.notes) == (0, ())


@pytest.mark.parametrize(("excess", "accepted"), [(0.0, True), (1e-6, False)])
def test_probes_on_the_bound_and_beyond(tmp_path, excess, accepted):
    answers = frozen(tmp_path, GOOD.replace("[lower, upper] * 7", f"[lower, upper + {excess}] * 7"))
    assert answers.probe_accepted == accepted
    assert (answers.adapted is not None) == accepted and answers.nominal is not None
    assert accepted or "plan_probe: entry [1, 0]" in answers.notes[0]


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        ("+ [lower])", ")", "plan_probe: expected 15 x 6 finite numbers, got shape (14, 6)"),
        ("+ [lower])", "+ [lower * np.nan])", "plan_probe: expected finite numbers; targets[14, 0] of plan_probe is nan"),
        ("assert len(probes) == 16", "assert len(probes) == 17", "adapt: the call raised AssertionError at line 7"),
        ("assert len(probes) == 16", "__import__('os')._exit(0)", "adapt: the call raised SystemExit at line 7"),
        ("assert len(probes) == 16", "__import__('sys').exit()", "adapt: the call raised SystemExit at line 7"),
        ("def adapt", "def adopt", "adapt: there is no adapt to call"),
        ("def make_trim_adapted", "def other", "make_trim_adapted: there is no make_trim_adapted to call"),
        ("return lambda q: 0.2", "return None and 0.2", "__none__"),
    ],
)  # fmt: skip
def test_without_adaptation_the_nominal_trim_stands(tmp_path, old, new, note):
    if note == "__none__":
        answers = frozen(
            tmp_path, GOOD.replace('return lambda q: 0.2 * q + 0 * params["mean"]', "return None")
        )
        assert answers.faults == 7 and not answers.adapted["holds"].any()
        return
    answers = frozen(tmp_path, GOOD.replace(old, new))
    assert answers.adapted is None and answers.best is answers.nominal
    assert answers.notes[0].startswith(note)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("[1.0]", "expected 6 finite numbers, got shape (1,)"),
        ("[1.0] * 5 + [np.inf]", "expected finite numbers; ff[5] of nominal is inf"),
        ("1 / 0", "the call raised ZeroDivisionError at line 10"),
    ],
)
def test_bad_rows_are_zeros_and_counted(tmp_path, answer, says):
    bad = GOOD.replace("lambda q: 0.1 * q", f"lambda q: 0.1 * q if q[1] > 1.0 else {answer}")
    answers = frozen(tmp_path, bad)
    expected = sum(
        q[1] <= 1.0 for q in [*task.public_hold_configs("ur5e"), *task.trim_grid("ur5e")[:4]]
    )
    assert answers.faults == expected > 0
    assert answers.notes == (f"nominal trim: zeros stand for {expected} of 7 poses: {says}",)
    low = task.public_hold_configs("ur5e")[:, 1] <= 1.0
    assert not answers.nominal["holds"][low].any() and answers.nominal["holds"][~low].any()


@pytest.mark.parametrize(
    ("ended", "timed_out"),
    [("timeout_call", True), ("timeout_total", True), ("worker_died", False)],
)
@pytest.mark.parametrize("after", [0, 2, 8])
def test_a_worker_that_is_gone_leaves_no_software(tmp_path, ended, timed_out, after):
    answers = frozen(tmp_path, GOOD, lambda w: DyingWorker(w, after, ended))
    assert answers.best is None and answers.timed_out == timed_out
    assert answers.notes[-1] == f"software absent: {ended}: the total is used up"


def test_an_import_error_is_redacted_to_class_and_line(tmp_path):
    with pytest.raises(
        TrialFault, match="trim.py could not be loaded: ZeroDivisionError at line 2"
    ) as caught:
        local(tmp_path, "x = 1\ny = x / 0\n")
    assert "/tmp" not in str(caught.value)


# ---------------------------------------------------------------------------------- the oracle's


@pytest.mark.parametrize("arm", ["franka", "ur5e"])
def test_oracle_regressor_is_linear_in_the_masses(arm):
    model = scene.stock_device(arm).model
    q = task.random_poses(arm, np.random.default_rng(0), 1)[0]
    factors = 1 + 0.05 * np.random.default_rng(1).uniform(-1, 1, model.nbody - 2)
    scale = dict(zip(scene.lead_bodies(ARMS[arm]), factors, strict=True))
    copy = scene.compose(Record(arm), 0.07, scale).model
    predicted = f09_trim.regressor(model, q) @ np.append(factors, 0.07)
    assert predicted == pytest.approx(task.gravity_torque(copy, q[None])[0], abs=1e-9)


def test_oracle_adaptation_beats_the_nominal_model():
    """Probes of a light and of a heavy copy: what stays unknown shrinks to friction and noise."""
    lead = task.reference_arm("xarm7", np.random.default_rng(8))
    model, arm = task.compose(lead), ARMS["xarm7"]
    poses = task.random_poses("xarm7", np.random.default_rng(9), 60)
    lower, upper = task.probe_bounds(arm)
    for device in (0, 2):
        scale, payload = task.sample_device("xarm7", np.random.default_rng(device), device)
        copy = task.compose(lead, payload, scale)
        home = np.array(arm.home_rad)
        sample = {"target": home, "q": home}
        targets = np.vstack([home, f09_trim.plan_probe(model, sample, lower, upper)])
        assert targets.shape == (DEVICES.probe_chosen + 1, arm.nv)
        assert (targets >= lower).all() and (targets <= upper).all()
        q = task.run_probe(copy, targets, np.random.default_rng(10))
        params = f09_trim.adapt(
            model, [{"target": t, "q": r} for t, r in zip(targets, q, strict=True)]
        )
        truth = task.residual(copy, poses)
        error = {
            "nominal": np.abs([f09_trim.make_trim(model)(p) for p in poses] - truth).max(),
            "adapted": np.abs(
                [f09_trim.make_trim_adapted(model, params)(p) for p in poses] - truth
            ).max(),
        }
        assert (
            error["adapted"] < 0.7 * error["nominal"] and error["adapted"] < 0.1 * SERVO.limit_n_m
        )
