"""`rle dev` runs the scored loops on published draws; pictures show the design."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from families.f08_mobile_base import chassis, dev, pictures, spec, verify
from rle.errors import InvalidSubmission, UnknownName, UserError
from rle.paths import assets_dir
from rle.report import Row
from rle.verify_api import Trial
from tests.families.f08_mobile_base.designs import COMPACT, ORACLE, built
from tests.families.f08_mobile_base.fakes import FakeContext
from train_baselines.oracles.f08_frames import to_xml

FOLDER = assets_dir() / "oracles/f08/oracle"


def test_stored_chassis_are_the_frames():
    from train_baselines.oracles.f08_oracle import STORED, folder

    for frame in STORED:
        assert (folder(frame.name) / "robot.xml").read_text() == to_xml(frame)


def test_published_draws_are_the_design_seeds():
    ours, theirs = dev.DesignContext(FOLDER), FakeContext({})
    for k, seed in enumerate((11, 23, 37)):
        a = ours.rng("dyn/testB", k).random(4)
        assert a.tolist() == theirs.rng("dyn/testB", seed, namespace="design").random(4).tolist()
    hidden = theirs.rng("dyn/testB", 0).random(4)
    assert hidden.tolist() != ours.rng("dyn/testB", 0).random(4).tolist()


def test_development_row_equals_the_verifiers_on_the_same_draw():
    text = (FOLDER / "robot.xml").read_text()
    params = {"robot_xml": text, "controller": None}
    mine = Trial(id="t", index=0, group="xarm7/testB", namespace="design", params=params)
    a = verify.run_trial(dev.DesignContext(FOLDER), mine)
    trace = verify.play_scenario(_Seeded(11), mine)
    b = verify.scenario_row(mine, "testB", trace)
    assert (a.score, a.metrics, a.series) == (b.score, b.metrics, b.series)


class _Seeded(FakeContext):
    """The verifier's streams at a design seed."""

    def __init__(self, seed: int) -> None:
        super().__init__({})
        self._seed = seed

    def rng(self, stream, *ids, namespace="design"):
        return super().rng(stream, self._seed, namespace="design")


def test_a_sandboxed_shelf_trial_is_the_development_trial(make_context):
    """Every action crosses the sandbox as raw numbers: equal digest, equal row."""
    files = {name: (FOLDER / name).read_bytes() for name in ("robot.xml", "controller.py")}
    context = make_context(files)
    controller, flags = verify.check_controller(context)
    assert flags == []
    text = chassis.canonical_text(files["robot.xml"])
    trial = Trial(
        id="t", index=0, group="ur5e/shelf-1kg",
        params={"robot_xml": text, "controller": controller},
    )  # fmt: skip
    theirs, ours = (verify.run_trial(c, trial) for c in (context, dev.DesignContext(FOLDER)))
    assert theirs.ended == "success" and theirs.actions_sha256 == ours.actions_sha256
    assert (theirs.metrics, theirs.series, theirs.events) == (
        ours.metrics, ours.series, ours.events,
    )  # fmt: skip


def test_command_prints_rows(capsys):
    args = ["--submission", str(FOLDER), "--arm", "xarm7", "--only", "equilibrium"]
    assert dev.main(args, "f08/mobile-base") == 0
    printed = capsys.readouterr().out
    assert "xarm7/equilibrium" in printed and "1.000 done" in printed and "ur5e" not in printed


def test_what_an_agent_gets_runs_the_command(tmp_path):
    """Nothing but the listed files and the packages: the starter goes through the development side."""
    root = assets_dir().parent
    for path in {p for pattern in spec.AGENT_FILES for p in root.glob(pattern) if p.is_file()}:
        if "__pycache__" not in path.parts:
            copy = tmp_path / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    mine = tmp_path / "mine"
    mine.mkdir()
    shutil.copyfile(tmp_path / "assets/f08/starter_robot.xml", mine / "robot.xml")
    argv = [sys.executable, "-m", "rle", "dev", "f08/mobile-base", "--submission", "mine"]
    argv += ["--arm", "xarm7", "--only", "equilibrium"]
    run = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0 and "xarm7/equilibrium" in run.stdout, run.stderr[-2000:]


def test_command_refuses_with_the_alternatives(tmp_path):
    with pytest.raises(UserError, match="is no folder"):
        dev.main(["--submission", str(tmp_path / "nothing")], "f08/mobile-base")
    with pytest.raises(UnknownName, match="did you mean 'static'"):
        dev.main(["--submission", str(FOLDER), "--only", "statics"], "f08/mobile-base")
    with pytest.raises(InvalidSubmission, match="robot.xml is missing"):
        dev.main(["--submission", str(tmp_path)], "f08/mobile-base")


def test_pictures_of_a_design(tmp_path):
    pictures.write_pictures(built(COMPACT), tmp_path, ("ur5e",))
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == [f"picture_ur5e_{v}.png" for v in ("extended", "front", "side", "top")]
    top = np.asarray(Image.open(tmp_path / "picture_ur5e_top.png").convert("RGB")).astype(int)
    assert top.shape == (*spec.PICTURE_PX[::-1], 3)
    centre = np.abs(top - pictures.CENTRE_RGB).sum(axis=2) == 0
    lines = np.abs(top - pictures.LINE_RGB).sum(axis=2) == 0
    assert 60 < centre.sum() < 200 and lines.sum() > 200


def test_margin_plots_are_written(tmp_path):
    curve = {"t_s": [0.0, 0.1], "fasm": [50.0, 40.0]}
    rows = [
        Row(id="t", group=f"{arm}/{test}", score=1.0, ended="done", series=curve)
        for arm in spec.ARM_NAMES for test in spec.SCENARIOS
    ]  # fmt: skip
    pictures.plot_margins(built(ORACLE), rows, tmp_path / "picture_margins.png")
    assert Image.open(tmp_path / "picture_margins.png").size[0] > 800
