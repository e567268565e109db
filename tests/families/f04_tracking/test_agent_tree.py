"""What an agent of f04 gets works without the rest of the checkout, and holds no answer."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from families.f04_tracking import spec
from tests.families.f04_tracking import graphs

ROOT = Path(__file__).resolve().parents[3]


def files() -> list[Path]:
    """The agent's files, relative to the checkout."""
    found = []
    for pattern in spec.AGENT_FILES:
        matched = [p for p in ROOT.glob(pattern) if p.is_file() and "__pycache__" not in p.parts]
        if pattern.endswith("/**"):
            inside = (ROOT / pattern.removesuffix("/**")).rglob("*")
            matched = [p for p in inside if p.is_file() and "__pycache__" not in p.parts]
        assert matched, f"{pattern} matches nothing"
        found += [p.relative_to(ROOT) for p in matched]
    return found


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agent")
    for path in files():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, folder / path)
    return folder


def run(tree: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *arguments], cwd=tree, capture_output=True, text=True, check=False
    )


def test_no_reference_solver_is_among_them():
    for path in files():
        assert "oracles" not in path.parts and "verifier" not in path.parts
        assert path.parts[0] != "tests"


def test_evaluator_runs(tree, tmp_path):
    folder = graphs.write(tmp_path / "in", graphs.open_loop(4), 4)
    done = run(tree, "-m", "families.f04_tracking.dev", "f04/dance", "--submission", str(folder))
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[:3]] == [
        "seed101",
        "seed211",
        "seed307",
    ]


def test_evaluator_answers_a_wrong_task_with_the_right_one(tree):
    done = run(tree, "-m", "families.f04_tracking.dev", "f04/dence", "--submission", ".")
    assert done.returncode == 2 and "f04/dance" in done.stderr and "Traceback" not in done.stderr


def test_training_side_imports(tree):
    modules = "families.f04_tracking.batch_env, train_baselines.f04_ppo"
    done = run(tree, "-c", f"import {modules}; print(families.__file__)")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(tree)
