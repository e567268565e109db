"""The house: rooms, sizes, docstrings, who may import whom."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from rle import registry

ROOT = Path(__file__).resolve().parent.parent
CODE = ("rle", "families", "verifier", "train_baselines")
ROOMS = ("spec", "scene", "task", "metrics", "verify")
MAX_LINES = 420  # "about 400": a module beyond it is two things
MAX_MODULES = 14  # "about 12" in one folder
OWN_MODULES = 5
HOOKS = {
    "figures",  # what a family says about its pages (rle/pages/hooks.py)
    "dev",  # what `rle dev TASK` runs (rle/commands/dev.py)
}
LIGHT = ("spec", "scoring", "stats", "report", "seeds", "errors")
SIMULATORS = {"mujoco", "robosuite", "warp", "mujoco_warp", "torch"}


def modules(*folders: str) -> list[Path]:
    return sorted(
        p for f in folders for p in (ROOT / f).rglob("*.py") if "__pycache__" not in p.parts
    )


def imports(path: Path) -> set[str]:
    """Dotted names a module imports anywhere in its text."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
    return found


def tops(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(path)}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("family", registry.landed_families())
def test_family_has_its_rooms(family):
    folder = ROOT / registry.PACKAGES[family].replace(".", "/")
    have = {p.stem for p in folder.glob("*.py")} - {"__init__"}
    assert not set(ROOMS) - have, f"{folder.name} lacks {sorted(set(ROOMS) - have)}"
    own = have - set(ROOMS) - HOOKS
    assert len(own) <= OWN_MODULES, (
        f"{folder.name} has {len(own)} modules of its own: {sorted(own)}"
    )
    assert (folder / "README.md").is_file()


@pytest.mark.parametrize("path", modules(*CODE, "tests", "benchmarks"), ids=name)
def test_module_is_small_and_says_what_it_is(path):
    text = path.read_text()
    assert text.count("\n") <= MAX_LINES, f"{name(path)}: {text.count(chr(10))} lines"
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), f"{name(path)} has no docstring"
    for word in ("TODO", "FIXME", "XXX"):
        assert path == Path(__file__) or word not in text, f"{name(path)} says {word}"


def test_folders_are_small():
    counts: dict[Path, int] = {}
    for path in modules(*CODE):
        if path.stem != "__init__":
            counts[path.parent] = counts.get(path.parent, 0) + 1
    # One reference per task stands in a single folder by design; `rle` is the shared machinery.
    free = {ROOT / "rle", ROOT / "train_baselines" / "oracles"}
    big = {name(f): n for f, n in counts.items() if n > MAX_MODULES and f not in free}
    assert not big, f"folders with more than {MAX_MODULES} modules: {big}"


@pytest.mark.parametrize("path", modules(*CODE), ids=name)
def test_import_rule(path):
    """families -> rle; verifier -> families, rle; train_baselines -> families, rle; rle -> nobody."""
    room = path.relative_to(ROOT).parts[0]
    allowed = {
        "rle": {"rle"},
        "families": {"rle", "families"},
        "verifier": {"rle", "families", "verifier"},
        "train_baselines": {"rle", "families", "train_baselines"},
    }[room]
    used = tops(path) & set(CODE)
    assert used <= allowed, f"{name(path)} imports {sorted(used - allowed)}"
    if room == "verifier" and "box" in path.parts:
        inside = {n for n in imports(path) if n.split(".")[0] in CODE}
        assert not inside, f"{name(path)} runs beside untrusted code and imports {sorted(inside)}"


def test_families_do_not_import_each_other():
    for path in modules("families"):
        parts = path.relative_to(ROOT).parts
        if len(parts) < 3:
            continue
        foreign = {
            n for n in imports(path) if n.startswith("families.") and n.split(".")[1] != parts[1]
        }
        assert not foreign, f"{name(path)} imports {sorted(foreign)}"


@pytest.mark.parametrize("module", LIGHT)
def test_light_modules_use_only_numpy_and_msgspec(module):
    outside = tops(ROOT / "rle" / f"{module}.py") - set(sys.stdlib_module_names)
    assert outside <= {"numpy", "msgspec", "rle"}


@pytest.mark.parametrize("path", sorted((ROOT / "families").glob("*/metrics.py")), ids=name)
def test_metrics_know_no_simulator_and_state_their_equation(path):
    assert not tops(path) & SIMULATORS
    functions = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.FunctionDef)]
    public = [f for f in functions if not f.name.startswith("_")]
    for function in public:
        doc = ast.get_docstring(function) or ""
        assert any(sign in doc for sign in "=<>≤≥"), (
            f"{name(path)}::{function.name} states no equation"
        )
    assert public[-1].name == "score", f"{name(path)}: score() stands last"


@pytest.mark.parametrize("path", modules(*CODE, "assets", "benchmarks"), ids=name)
def test_randomness_is_an_argument(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called.endswith("default_rng"):
            assert node.args or node.keywords, f"{name(path)}:{node.lineno} unseeded default_rng()"
        if called.startswith("np.random."):
            kind = called.split(".")[2]
            assert kind in {"Generator", "PCG64", "default_rng", "SeedSequence"}, (
                f"{name(path)}:{node.lineno} uses global {called}"
            )


def test_import_rle_loads_no_simulator():
    code = (
        "import sys, rle, rle.spec, rle.registry, rle.report, rle.verify_api\n"
        "[rle.registry.get(t) for t in rle.registry.landed_tasks()]\n"
        f"print(sorted({SIMULATORS!r} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "[]"


def test_no_dataset_or_vendor_mesh_is_tracked():
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    for tracked in map(Path, listed.stdout.splitlines()):
        if tracked.suffix.lower() == ".csv":
            first = (ROOT / tracked).read_text().split("\n", 1)[0]
            assert len(first.split(",")) != 36, f"{tracked} looks like a retargeted motion"
        if tracked.suffix.lower() == ".stl":
            assert "gello" in str(tracked) or "f09" in str(tracked), f"{tracked}: a mesh is tracked"
