"""What an agent may read: the public half, and nothing of verification or of the references."""

import shutil
import subprocess
import sys
from pathlib import Path

from families.f09_gello.spec import ARM_NAMES, CARD, TASKS
from rle.cards import task_card
from rle.paths import assets_dir

ROOT = assets_dir().parent
TASK = TASKS[0]


def readable() -> list[Path]:
    found = {p for pattern in TASK.agent_files for p in ROOT.glob(pattern) if p.is_file()}
    return sorted(p for p in found if "__pycache__" not in p.parts)


def test_every_pattern_names_a_file_and_the_references_stay_out():
    for pattern in TASK.agent_files:
        assert any(ROOT.glob(pattern)), pattern
    names = {str(p.relative_to(ROOT)) for p in readable()}
    assert {f"assets/gello/{arm}/lead.xml" for arm in ARM_NAMES} <= names
    assert {"families/f09_gello/task.py", "families/f09_gello/dev.py", "rle/cli.py"} <= names
    assert not any(
        f"gello/{kind}/" in name
        for name in names
        for kind in ("oracle", "simple", "springs", "mesh")
    )


def test_the_public_half_reads_no_secret_and_needs_no_verifier():
    for path in readable():
        if path.suffix == ".py" and "families" in path.parts:
            text = path.read_text()
            for word in ("salt", "from verifier", "import verifier"):
                assert word not in text, f"{path.name} says {word!r}"


def test_what_an_agent_gets_runs_the_command(tmp_path):
    """Nothing but the listed files and the packages: the bare arm goes through the development side."""
    for path in readable():
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    argv = [sys.executable, "-m", "rle", "dev", "f09/gello"]
    argv += ["--submission", "assets/gello", "--arm", "ur5e"]
    run = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0 and "ur5e" in run.stdout, run.stderr[-2000:]


def test_the_card_tells_the_protocol():
    text = task_card(TASK)
    for word in ("plan_probe", "0.35 N m", "lead.xml", "N(0, 0.005)", *ARM_NAMES):
        assert word in text
    assert CARD.history[0][0] == TASK.version
    assert 0 < TASK.floor < TASK.pass_mark < TASK.bar <= 1
