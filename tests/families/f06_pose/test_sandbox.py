"""Submissions of f06 in real workers: gates with their messages, faults, masking, causality, cheats."""

import io
import math
import random
import zlib

import numpy as np
import pytest
import torch

from families.f06_pose import ahead, spec, verify
from families.f06_pose.estimators import CodeEstimator, estimator_of, model_input, read_outputs
from rle import registry
from rle.errors import InvalidSubmission
from rle.verify_api import Checked
from tests.families.f06_pose.cases import estimator, make_context, shoot_once
from verifier.isolation.worker import SubmissionWorker

ZERO = "return 0.0, 0.0, 0.0, 0"


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """One group of two single frames and one push of four, from the first candidate."""
    for name, value in (
        ("N_GROUPS_A", 1), ("FRAMES_PER_GROUP_A", 2), ("N_PUSHES_B", 1), ("FRAMES_PER_PUSH_B", 4),
        ("SELECT_CANDIDATES", 1), ("SELECT_FRAMES", 4), ("FRAMES_MAX", 4),
    ):  # fmt: skip
        monkeypatch.setattr(spec, name, value)
    monkeypatch.setattr(ahead, "shoot", shoot_once)


def run(tmp_path, slug: str, files):
    return verify.verify(make_context(tmp_path, slug, files))


def pass_gates(tmp_path, slug: str, files):
    """The smoke frame of a run, without its trials. Returns what the check found."""
    context = make_context(tmp_path, slug, files)
    artifact = estimator_of(context.task)
    checked = context.check(artifact.kind, artifact.contract)
    verify.check_smoke(context, artifact, checked, verify.smoke_shot(context))
    return checked


def answers(tmp_path, monkeypatch, slug: str, text: str, **more):
    """All answers of a run, by trial."""
    seen: dict[str, list] = {}
    honest = verify.to_row

    def note(trial, shots, given, charged, ended):
        seen[trial.id] = list(given)
        return honest(trial, shots, given, charged, ended)

    monkeypatch.setattr(verify, "to_row", note)
    run(tmp_path, slug, {"estimator.py": text, **more})
    return seen


# ---------------------------------------------------------------------------------- gates


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_module_at_all", "could not be loaded: ModuleNotFoundError at line 1"),
        ("def make_estimator():\n    raise KeyError", "could not be loaded: KeyError at line 2"),
        ("x = 1", "defines no make_estimator"),
        ("class E:\n    def reset(self): pass\ndef make_estimator(): return E()", "without update"),
        (
            "class E:\n    def reset(self): pass\n    def update(self, rgb, K): pass\n"
            "def make_estimator(): return E()",
            r"update\(\*, rgb, K, T_cam_table, t, depth\) is required",
        ),
        (estimator("return 0.0, 0.0, 0.0"), r"no \(x, y, theta, shape_id\): .*got 3 values"),
        (estimator("return None"), r"no \(x, y, theta, shape_id\): .*NoneType"),
        (estimator("return 0.0, np.nan, 0.0, 1"), r"no \(x, y, theta, shape_id\): expected finite numbers; y of update is nan"),
        (estimator("return 0.0, 0.0, 0.0, True"), "shape_id as an integer, got bool"),
        (estimator("return 0.0, 0.0, 0.0, 1.0"), "shape_id as an integer, got float"),
        (estimator("return 0.0, 0.0, 0.0, 3"), "shape_id is 3, not 0, 1 or 2"),
        (estimator("return 1j, 0.0, 0.0, 0"), "x as a real number, got complex"),
        (estimator("raise ValueError"), "ValueError at line"),
        (estimator("os._exit(0)"), "did not survive the first frame"),
    ],
)  # fmt: skip
def test_an_estimator_that_cannot_answer_the_smoke_frame_is_invalid(text, message, tmp_path):
    context = make_context(tmp_path, "rgbd", {"estimator.py": text})
    artifact = estimator_of(context.task)
    checked = Checked(kind=artifact.kind, contract=artifact.contract, files=())
    with pytest.raises(InvalidSubmission, match=message):
        verify.check_smoke(context, artifact, checked, verify.smoke_shot(context))


def test_a_closed_gate_ends_the_run_before_any_trial(tmp_path, monkeypatch):
    monkeypatch.setattr(verify, "run_trial", None)
    with pytest.raises(InvalidSubmission, match="ValueError at line"):
        run(tmp_path, "rgbd", {"estimator.py": estimator("raise ValueError")})


def test_absent_files_are_named(tmp_path):
    with pytest.raises(InvalidSubmission, match=r"estimator.py is missing; found: helper.py"):
        make_context(tmp_path / "a", "rgb", {"helper.py": ""})
    with pytest.raises(InvalidSubmission, match="the folder is empty; put model.pt in it"):
        make_context(tmp_path / "b", "learned-rgbd", {})


def test_a_pickle_is_no_helper_and_a_state_dictionary_only_where_any_method_goes(tmp_path):
    code = estimator(ZERO)
    for k, (slug, name, ok) in enumerate(
        (("rgb", "w.pkl", 0), ("method-agnostic", "w.pkl", 0), ("rgbd", "w.pt", 0),
         ("method-agnostic", "w.pt", 1))
    ):  # fmt: skip
        context = make_context(tmp_path / str(k), slug, {"estimator.py": code, name: b"0"})
        contract = CodeEstimator(context.task).contract
        if ok:
            context.check("python", contract)
        else:
            with pytest.raises(InvalidSubmission, match=f"{name} is not accepted here"):
                context.check("python", contract)


# --------------------------------------------------------------------------- later faults


def test_constant_answer_is_valid_and_worth_nothing(tmp_path):
    result = run(tmp_path, "rgbd", {"estimator.py": estimator(ZERO)})
    assert result.score <= 0.02 and all(result.gates.values())
    assert [(r.id, r.ended) for r in result.rows] == [("a00", "done"), ("b00", "done")]
    assert result.metrics["frames_a"] == 2.0 and result.metrics["frames_b"] == 4.0
    assert result.metrics["frames_unanswered"] == 0.0
    assert result.metrics["deduction"] == 0.0, "an estimator that costs nothing is never too slow"


def test_frames_that_fail_later_are_unanswered_and_the_trial_goes_on(tmp_path):
    # n counts from the warm-up on: frames 1 and 2 of the push are calls 3 and 4.
    body = "return (0.0, 0.0, np.inf, 0) if self.n == 3 else (0.0,) if self.n == 4 else (0.0, 0.0, 0.0, 0)"
    result = run(tmp_path, "rgb", {"estimator.py": estimator(body)})
    assert [r.ended for r in result.rows] == ["done", "done"]
    assert [r.metrics["answered"] for r in result.rows] == [1.0, 2.0]


def test_a_worker_that_dies_leaves_the_rest_unanswered(tmp_path):
    body = f"os._exit(3) if self.n == 3 else None; {ZERO}"
    result = run(tmp_path, "rgb", {"estimator.py": estimator(body)})
    assert [r.ended for r in result.rows] == ["worker_died", "worker_died"]
    assert [r.metrics["answered"] for r in result.rows] == [1.0, 1.0]


def test_a_slow_call_ends_the_trial(tmp_path, monkeypatch):
    monkeypatch.setattr(spec, "CALL_CAP_S", 0.8)
    body = f"time.sleep(3) if self.n == 3 else None; {ZERO}"
    result = run(tmp_path, "rgb", {"estimator.py": estimator(body)})
    assert [r.ended for r in result.rows] == ["timeout_call", "timeout_call"]


def test_the_first_call_may_take_its_time(tmp_path, monkeypatch):
    monkeypatch.setattr(spec, "CALL_CAP_S", 0.8)
    body = f"time.sleep(1.2) if self.n == 1 else None; {ZERO}"
    result = run(tmp_path, "rgb", {"estimator.py": estimator(body)})
    assert [r.ended for r in result.rows] == ["done", "done"]
    assert result.metrics["update_s_total"] < 1.0, "the warm-up is not charged"


def test_another_valid_style_is_accepted(tmp_path):
    table = io.BytesIO()
    np.savez(table, origin=np.array([0.1, -0.1]))
    body = "x, y = TABLE['origin']; return x, np.float32(y), 6.0, np.int64(2)"
    head = "TABLE = np.load(os.path.join(os.path.dirname(__file__), 'table.npz'))"
    files = {"estimator.py": estimator(body, head), "table.npz": table.getvalue()}
    result = run(tmp_path, "rgbd", files)
    assert result.metrics["frames_unanswered"] == 0.0


# ------------------------------------------------------------------- masking and causality


def test_no_depth_byte_is_on_the_wire_of_rgb(tmp_path, monkeypatch):
    sent: list[bytes] = []
    honest = SubmissionWorker._call

    def note(self, kind, message, *args, **kwargs):
        sent.append(bytes(message))
        return honest(self, kind, message, *args, **kwargs)

    monkeypatch.setattr(SubmissionWorker, "_call", note)
    text = estimator(f"assert depth is None; {ZERO}")
    result = run(tmp_path, "rgb", {"estimator.py": text})
    assert result.metrics["frames_unanswered"] == 0.0
    width, height = spec.IMAGE_WH_PX
    frames = [m for m in sent if len(m) > 1000]
    # Function number, colour, two matrices and a time, each padded to 16 bytes.
    plain = width * height * 3 + 9 * 8 + 16 * 8 + 8
    assert frames and all(plain <= len(m) <= plain + 64 for m in frames)
    trial = verify.trials_of("scored")[1]
    context = make_context(tmp_path / "again", "rgbd", {"estimator.py": text})
    (shot, *_) = shoot_once(verify.scenes_of(context, trial))
    depth = shot.obs["depth"].tobytes()
    assert all(depth[k : k + 64] not in m for k in (0, 400_000, 900_000) for m in frames)


def test_frame_k_plus_1_leaves_after_answer_k_came(tmp_path, monkeypatch):
    # The estimator answers with how many frames it has seen and a digest of the last one; the worker's
    # memory and folder hold no other.
    body = "return 1e-3 * self.n, 1e-6 * (zlib.crc32(rgb.tobytes()) % 100000), float(files()), 0"
    head = (
        "import zlib\ndef files():\n    try:\n        return len(os.listdir('.'))\n"
        "    except OSError:\n        return 0"
    )
    order: list[str] = []
    honest = CodeEstimator.ask

    def note(self, worker, obs, *, warm_up=False):
        order.append(f"put {obs['t']:.1f}")
        answer = honest(self, worker, obs, warm_up=warm_up)
        order.append(f"got {obs['t']:.1f}")
        return answer

    monkeypatch.setattr(CodeEstimator, "ask", note)
    seen = answers(tmp_path, monkeypatch, "rgb", estimator(body, head))
    push = seen["b00"]
    assert [round(1e3 * a.pose[0]) for a in push] == [2, 3, 4, 5], "one warm-up, then one by one"
    context = make_context(tmp_path / "again", "rgb", {"estimator.py": estimator(ZERO)})
    shots = shoot_once(verify.scenes_of(context, verify.trials_of("scored")[1]))
    digests = [zlib.crc32(s.obs["rgb"].tobytes()) % 100000 for s in shots]
    assert [round(1e6 * a.pose[1]) for a in push] == digests
    assert {a.pose[2] for a in push} == {0.0}, "the working folder is empty"
    assert order[-8:] == [
        f"{what} {t:.1f}" for t in (0.0, 0.1, 0.2, 0.3) for what in ("put", "got")
    ]


def test_nothing_is_kept_between_trials(tmp_path, monkeypatch):
    body = "SEEN.append(t); return 1e-3 * len(SEEN), 1e-3 * self.resets, 0.0, 0"
    seen = answers(tmp_path, monkeypatch, "rgb", estimator(body, "SEEN = []"))
    assert [round(1e3 * a.pose[0]) for a in seen["b00"]] == [2, 3, 4, 5]
    assert [round(1e3 * a.pose[1]) for a in seen["a00"]] == [2, 3], (
        "reset before every single frame"
    )
    assert [round(1e3 * a.pose[1]) for a in seen["b00"]] == [2, 2, 2, 2], "and once before a push"


def test_sleeping_or_computing_after_the_answer_buys_nothing(tmp_path, monkeypatch):
    # The worker is stopped between calls, and may start no thread.
    head = (
        "import threading\nDONE = []\ntry:\n    threading.Thread(target=lambda: DONE.append(1)).start()\n"
        "except RuntimeError:\n    DONE.append(2)"
    )
    seen = answers(
        tmp_path, monkeypatch, "rgb", estimator("return 1e-3 * DONE[0], 0.0, 0.0, 0", head)
    )
    assert {round(1e3 * a.pose[0]) for a in seen["b00"]} == {2}


# ----------------------------------------------------------------------------- TorchScript


class Analytic(torch.nn.Module):
    """Seven numbers of the first pixel; no parameter."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[:, 0:1, 0, 0], x[:, 3:4, 0, 0], torch.ones(1, 5)], dim=1)


class Echo(torch.nn.Module):
    """Its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def script(module: torch.nn.Module) -> bytes:
    """A compiled module as the bytes of its file."""
    out = io.BytesIO()
    torch.jit.save(torch.jit.script(module), out)
    return out.getvalue()


def test_an_analytic_module_without_parameters_is_accepted(tmp_path):
    assert pass_gates(tmp_path, "learned-rgbd", {"model.pt": script(Analytic())}).facts


def test_a_module_of_another_shape_is_refused(tmp_path):
    with pytest.raises(InvalidSubmission, match=r"expected float32 \[1, 7\]; found float32 \[1, 5"):
        pass_gates(tmp_path, "learned-rgbd", {"model.pt": script(Echo())})


@pytest.mark.slow
@pytest.mark.parametrize(("elements", "ok"), [(19_999_000, True), (20_000_001, False)])
def test_stored_elements_are_counted(elements, ok, tmp_path):
    class Big(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.ones(elements))

        def forward(self, x):
            return torch.ones(1, 7) * self.table[0]

    files = {"model.pt": script(Big())}
    if ok:
        assert pass_gates(tmp_path, "learned-rgbd", files)
    else:
        with pytest.raises(InvalidSubmission, match="stored elements; at most 20,000,000"):
            pass_gates(tmp_path, "learned-rgbd", files)


def test_input_and_outputs_of_a_module():
    rgb = np.full((480, 640, 3), 255, np.uint8)
    depth = np.full((480, 640), 0.8, np.float32)
    depth[0, 0], depth[0, 1] = np.nan, 0.0
    x = model_input(rgb, depth)
    assert x.shape == (1, 5, 480, 640) and x.dtype == np.float32 and x[0, :3].max() == 1.0
    assert x[0, 3, 0, :3] == pytest.approx([0.0, 0.0, 0.8]) and x[0, 4, 0, :3].tolist() == [0, 0, 1]
    answer = read_outputs(np.array([[0.1, 0.2, 0.0, -2.0, 1.0, 1.0, 0.0]], np.float32))
    assert answer.pose == pytest.approx((0.1, 0.2, -math.pi / 2)), "theta = atan2(sin, cos)"
    assert answer.shape_id == 0, "the lowest index on ties"


# ---------------------------------------------------------------------------------- floors


def test_floors_of_answers_that_do_not_look():
    rng = random.Random(0)
    assert registry.get("f06/rgb").floor == 0.05
    from families.f06_pose.estimators import Answer
    from tests.families.f06_pose.cases import shots_of
    from tests.families.f06_pose.test_verify import CHECKED, A, B, row_of

    def anywhere(k, shot):
        pose = (rng.uniform(-0.3, 0.3), rng.uniform(-0.2, 0.2), rng.uniform(-3, 3))
        return Answer(pose, rng.randrange(3))

    rows = [row_of(A, shots_of(10), anywhere), row_of(B, shots_of(60), anywhere)]
    assert verify.compose(rows, is_scored=True, checked=CHECKED).score <= 0.02
