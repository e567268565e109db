"""Pictures and the page: for a good arm, a bare one and none at all; the score is not touched."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from families.f09_gello import dev, pictures, task
from families.f09_gello.devices.rows import absent_row
from families.f09_gello.spec import ARMS
from rle.paths import assets_dir
from rle.report import Row

ASSETS = assets_dir() / "gello"


def row(arm: str) -> Row:
    """A row with a measured and an unmeasured checkpoint."""
    metrics = {
        "x_H1": 0.2,
        "cp_H1": 0.6,
        "x_H2": None,
        "cp_H2": 0.0,
        "mass_kg": 1.0,
        "raw_total": 0.06,
    }
    return Row(
        id="t00",
        group=arm,
        score=0.06,
        metrics=metrics,
        ended="done",
        events=[(0.0, "dropped: <cw_a>")],
    )


def test_page_tells_scores_marks_and_findings_without_a_request(tmp_path):
    rows = [row("franka"), absent_row("t01", "ur5e"), row("xarm7")]
    pictures.page(rows, tmp_path)
    text = (tmp_path / "index.html").read_text()
    assert "4.0 of 100" in text and "ur5e was not submitted" in text
    assert "not measured" in text and "0 at 1.06, bar 0.2, best 0.11" in text
    assert "dropped: &lt;cw_a&gt;" in text, "findings are escaped"
    assert "<script" not in text and not re.search(r"https?://", text)
    assert text.count("<rect") == 20


def test_added_parts_and_springs_are_seen(tmp_path):
    good = task.load_lead(ASSETS / "simple" / "ur5e", "ur5e")
    bare = task.load_lead(ASSETS / "ur5e", "ur5e")
    shown = {}
    for name, lead in (("good", good), ("bare", bare)):
        stage = pictures.Stage(lead.record, 160, 120)
        shown[name] = stage.draw(np.array(ARMS["ur5e"].home_rad)).astype(int)
        stage.close()
    orange = [
        ((p[..., 0] > 150) & (p[..., 1] > 70) & (p[..., 1] < 160) & (p[..., 2] < 70)).sum()
        for p in (shown["good"], shown["bare"])
    ]
    assert orange[0] > 10 and orange[1] == 0, "the printed struts are orange"
    pictures.torque_figure(good, tmp_path / "torque.png")
    assert Image.open(tmp_path / "torque.png").size[0] > 600


@pytest.mark.slow
def test_media_of_a_submission_is_complete_and_its_score_stands(tmp_path):
    folder = tmp_path / "in"
    shutil.copytree(
        ASSETS / "springs" / "ur5e", folder / "ur5e", ignore=shutil.ignore_patterns("__pycache__")
    )
    out = tmp_path / "out"
    with_media = dev.evaluate(folder, arms=["ur5e"], design_seeds=[101], out=out)
    without = dev.evaluate(folder, arms=["ur5e"], design_seeds=[101])
    assert with_media[0].metrics == without[0].metrics
    expected = [f"picture_ur5e_{n}.png" for n in ("front", "side", "top", "torque")]
    expected += [f"ur5e_{n}.{kind}" for n in ("hold", "push", "path") for kind in ("mp4", "jpg")]
    for name in expected:
        assert (out / name).stat().st_size > 1000, name
    assert Image.open(out / "picture_ur5e_front.png").size == pictures.STILL_PX
    text = (out / "index.html").read_text()
    linked = re.findall(r'(?:src|poster)="([^"]+)"', text)
    assert linked and all((Path(out) / name).is_file() for name in linked)
