"""Contract, channels, gates and result of f07, and both shipped submissions in real sandboxed workers."""

import dataclasses
import json
import math
from pathlib import Path

import msgspec
import numpy as np
import pytest

from families.f07_bin import figures, piles, scene, spec, verify
from rle import registry
from rle.errors import InvalidSubmission
from rle.report import Report, Row, flat_reward
from rle.verify_api import Trial
from tests.families.f07_bin.cells import FAR, UPRIGHT
from verifier.context import Context, Settings
from verifier.hidden import read_salt
from verifier.isolation import layers
from verifier.submission import freeze

ROOT = Path(__file__).resolve().parents[3]
TASK = registry.get("f07/bin-clearing")
ALT, PICKER = ROOT / "train_baselines/f07_scripted_alt", ROOT / "train_baselines/f07_depth_picker"


def row(score=0.5, ended="done", events=(), **metrics) -> Row:
    """A row of a pile with 12 parts, of which 6 were cleared."""
    base = dict.fromkeys(
        ("floor", "damage", "bin_hits", "slips", "faults", "clean", "peak_part_n", "peak_bin_n"),
        0.0,
    )
    base |= {"n": 12.0, "cleared": 6.0, "f": 0.5, "h": 1 / 12, "p": 3.0, "den_s": 120.0}
    base |= {"ticks": 2400.0} | metrics
    return Row(id="t00", score=score, ended=ended, metrics=base, events=list(events))


def smoke(digest="a", ended="done", faults=0.0, ticks=400.0) -> Row:
    return row(
        ended=ended, events=[(0.0, verify.DIGEST_EVENT + digest)], faults=faults, ticks=ticks
    )


# ----------------------------------------------------------------------------- composition


@pytest.mark.parametrize(
    ("runs", "closed"),
    [
        ((smoke(), smoke()), set()),
        ((smoke("a"), smoke("b")), {"determinism"}),
        ((smoke(faults=40.0), smoke(faults=40.0)), set()),
        ((smoke(faults=41.0), smoke(faults=41.0)), {"contract"}),
        ((smoke(faults=400.0), smoke(faults=400.0)), {"load", "contract"}),
        ((smoke(ended="worker_died"), smoke()), {"load"}),
        ((smoke(ended="sim_unstable"), smoke()), {"stable"}),
    ],
)
def test_gates(runs, closed):
    assert {name for name, is_open in verify.gates(list(runs)).items() if not is_open} == closed


def test_a_closed_gate_caps_and_a_policy_that_never_answered_earns_nothing():
    rows = [row(0.8), row(0.4)]
    opened = dict.fromkeys(("load", "contract", "stable", "determinism"), True)
    assert verify.compose(rows, opened, ()).score == pytest.approx(0.6)
    capped = verify.compose(rows, opened | {"determinism": False}, ())
    assert capped.score == spec.SMOKE_CAP and capped.raw_total == pytest.approx(0.6)
    assert verify.compose(rows, opened | {"load": False}, ()).score == 0.0
    poor = verify.compose([row(0.02)], opened | {"stable": False}, ())
    assert poor.score == pytest.approx(0.02)


def test_flat_metrics_are_sums_and_means_and_finite():
    opened = dict.fromkeys(("load", "contract", "stable", "determinism"), True)
    rows = [row(), row(cleared=12.0, f=1.0, den_s=60.0, p=12.0, clean=1.0, floor=2.0)]
    flat = verify.compose(rows, opened, ()).metrics
    assert flat["parts_cleared"] == 18.0 and flat["n_parts"] == 24.0
    assert flat["clear_frac"] == pytest.approx(0.75)
    assert flat["throughput_ppm"] == pytest.approx(7.5)
    assert flat["makespan_s"] == 60.0 and flat["floor_drops"] == 2.0
    assert flat["clean_complete_share"] == 0.5 and flat["sim_s_total"] == 240.0
    assert "makespan_s" not in verify.compose([row()], opened, ()).metrics
    lost = verify.compose([Row(id="t00", score=0.0, ended="not_run")], opened, ()).metrics
    assert all(map(math.isfinite, lost.values())) and lost["clear_frac"] == 0.0


def test_thresholds_name_limit_and_measurement():
    checks = {t.name: t for t in verify.thresholds([row(peak_part_n=712.0, peak_bin_n=90.0)])}
    assert not checks["t00 force on a part"].passed and checks["t00 force on the bin"].passed
    assert checks["t00 policy time"].limit == spec.POLICY_TOTAL_S


@pytest.mark.parametrize(
    ("text", "channels"),
    [
        ("[]", ()),
        ('["wrist_depth", "overhead_rgb"]', ("overhead_rgb", "wrist_depth")),
        (json.dumps(spec.CHANNELS), spec.CHANNELS),
    ],
)
def test_channels(text, channels):
    assert verify.parse_channels(text.encode()) == channels


@pytest.mark.parametrize("text", ['["rgb"]', '"rgb"', "{}", "[1]", "", "\xff"])
def test_bad_channels_are_refused_with_the_list(text):
    with pytest.raises(InvalidSubmission, match="allowed: overhead_rgb, overhead_depth"):
        verify.parse_channels(text.encode("latin-1"))


def test_page_hooks_explain_a_pile_and_their_parts_add_up():
    assert figures.sentence(row(floor=1.0)) == (
        "cleared 6 of 12 parts in 120.0 s; 1 fell to the floor"
    )
    assert "timeout total" in figures.sentence(row(ended="timeout_total", ticks=100.0))
    assert figures.sentence(Row(id="t", score=0.0, ended="not_run")) == "was not run"
    rows = [
        row(score=0.55, cleared=12.0, f=1.0, h=1.0, p=12.0, den_s=60.0),
        row(score=0.0, damage=9.0),
    ]
    report = Report(
        task=TASK.id, family_version="1.0.0", outcome="scored", reward=0.1, rows=rows, practice=True,
        started_at="", finished_at="", wall_s=0.0,
    )  # fmt: skip
    assert sum(p.value for p in figures.parts(report)) == pytest.approx(report.reward)


# ----------------------------------------------------------------- through the real sandbox


@pytest.fixture
def short(monkeypatch):
    """Two hidden piles of 0.4 s and a smoke pile of 0.2 s, of three parts that lie apart."""
    monkeypatch.setattr(spec, "TICKS", 8)
    monkeypatch.setattr(spec, "SMOKE_TICKS", 4)
    monkeypatch.setattr(spec, "N_HIDDEN", 2)
    poses = np.array([(*FAR[i], *UPRIGHT) for i in range(3)])
    monkeypatch.setattr(verify.piles, "draw", lambda streams: piles.Pile(poses, scene.Lights(), 1))


@pytest.fixture
def context(tmp_path):
    def make(source: Path) -> Context:
        plan = layers.plan("strict")
        if plan.own_uid:
            for folder in (tmp_path, *tmp_path.parents):
                if str(folder).startswith("/tmp/"):
                    folder.chmod(0o711)
        logs = tmp_path / "logs"
        logs.mkdir()
        frozen = freeze(source, tmp_path / "submission", TASK)
        return Context(Settings(TASK, frozen, read_salt(None), plan, {}, logs))

    return make


def make_submission(tmp_path: Path, body: str, channels: str = "[]") -> Path:
    """A folder whose policy's `act` has `body`."""
    folder = tmp_path / "source" / "policy"
    folder.mkdir(parents=True)
    (folder / "channels.json").write_text(channels)
    (folder / "policy.py").write_text(
        "import numpy as np\n\nclass P:\n"
        "    def reset(self, cell, seed):\n        self.home, self.n = cell['arm_home'], 0\n\n"
        "    def act(self, obs):\n        self.n += 1\n        home = np.append(self.home, 0.0)\n"
        f"        {body}\n\ndef make_policy():\n    return P()\n"
    )
    return tmp_path / "source"


@pytest.mark.parametrize("source", [ALT, PICKER], ids=["scripted_alt", "depth_picker"])
def test_shipped_submissions_are_accepted_and_open_every_gate(source, short, context):
    result = verify.verify(context(source))
    assert all(result.gates.values()), result.gates
    assert [r.ended for r in result.rows] == ["done", "done"]
    assert [r.metrics["faults"] for r in result.rows] == [0.0, 0.0]
    assert result.score == result.raw_total
    asked = json.loads((source / "policy" / "channels.json").read_text())
    assert result.extra["channels"] == asked
    report = Report(
        task=TASK.id, family_version="1.0.0", outcome="scored", reward=result.score, practice=True,
        rows=result.rows, gates=result.gates, metrics=result.metrics, started_at="", finished_at="",
        wall_s=0.0,
    )  # fmt: skip
    assert {"reward", "clear_frac", "gate_determinism"} <= set(flat_reward(report, TASK.n_trials))


def test_a_quick_look_is_one_short_pile_and_no_score(short, context, tmp_path, monkeypatch):
    monkeypatch.setattr(spec, "QUICK_TICKS", 2)
    ctx = context(make_submission(tmp_path, "return home"))
    ctx.settings.options["profile"] = "quick"
    result = verify.verify(ctx)
    assert not result.scored and result.gates == {}
    assert [(r.id, r.metrics["ticks"]) for r in result.rows] == [("t00", 2.0)]


@pytest.mark.parametrize(
    ("body", "score", "closed", "faults"),
    [
        ("return home", 0.0, set(), 0.0),
        ("return home * np.nan", 0.0, {"load", "contract"}, None),
        ("raise RuntimeError", 0.0, {"load", "contract"}, None),
        ("return home[:7]", 0.0, {"load", "contract"}, None),
        # NaN in the magnet's slot only: a fault, and the last command is held.
        ("home[7] = np.nan if self.n % 2 else 0.0; return home", 0.0, {"contract"}, 4.0),
    ],
)
def test_faults_and_gates_in_the_sandbox(body, score, closed, faults, short, context, tmp_path):
    ctx = context(make_submission(tmp_path, body))
    result = verify.verify(ctx)
    assert {name for name, is_open in result.gates.items() if not is_open} == closed
    notes = [note.read_text() for note in ctx.settings.log_folder.glob("*.note")]
    assert bool(notes) == bool(closed) and all("(act): " in note for note in notes)
    assert not any("act_frame" in note for note in notes), "a policy knows no such function"
    assert result.score == score
    if faults is None:
        assert {r.ended for r in result.rows} == {"not_run"}
    else:
        assert {r.metrics["faults"] for r in result.rows} == {faults}


def test_a_second_run_that_behaves_differently_closes_determinism(short, context, tmp_path):
    # Each worker is a fresh process: only something outside the seed can tell the runs apart.
    body = "import time; home[0] += 0.3 * (time.monotonic_ns() % 1000) / 1000; return home"
    result = verify.verify(context(make_submission(tmp_path, body)))
    assert not result.gates["determinism"] and result.score <= spec.SMOKE_CAP


CLOCKS = ("reset_s", "act_s", "render_s", "physics_s")


def measured(rows: list[Row]) -> list[Row]:
    """Rows without what a clock measured."""
    return [
        msgspec.structs.replace(
            row, wall_s=0.0, policy_s=0.0,
            metrics={k: v for k, v in row.metrics.items() if k not in CLOCKS},
        )
        for row in rows
    ]  # fmt: skip


def test_the_number_of_jobs_changes_no_row(context, tmp_path):
    """Two real piles for a second, in this process and in four."""
    ctx = context(make_submission(tmp_path, "home[0] += 0.02 * self.n; return home"))
    params = {"channels": [], "ticks": 20}
    trials = [Trial(id=f"t{i:02d}", index=i, params=params) for i in range(2)]
    one = ctx.map_trials(verify.run_trial, trials)
    four = Context(dataclasses.replace(ctx.settings, jobs=4)).map_trials(verify.run_trial, trials)
    assert measured(one) == measured(four)
    assert [row.metrics["ticks"] for row in one] == [20.0, 20.0] and one[0].series


def test_what_cannot_be_loaded_is_invalid(short, context, tmp_path):
    source = make_submission(tmp_path, "return home")
    (source / "policy" / "policy.py").write_text("import no_such_module_at_all")
    with pytest.raises(
        InvalidSubmission, match="could not be loaded: ModuleNotFoundError at line 1"
    ):
        verify.verify(context(source))


def test_reports_of_a_campaign_hold_no_time_of_a_hidden_pile(short, context, tmp_path, monkeypatch):
    ctx = context(make_submission(tmp_path, "return home"))
    trial = verify.hidden_trials({"channels": []})[0]
    assert ctx.practice and verify.run_trial(ctx, trial).series
    monkeypatch.setattr(Context, "practice", property(lambda self: False))
    hidden = verify.run_trial(ctx, trial)
    assert hidden.series == {} and hidden.events == []
    assert hidden.metrics["n"] == 3.0
