"""numba's folder for compiled code, where a home cannot be written; folders that a caller names."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from rle import paths
from rle.errors import UserError


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No place can be written but the temporary folder."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(paths, "_can_write", lambda place: False)
    monkeypatch.setattr(paths.tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    os.environ.pop("NUMBA_CACHE_DIR", None)


def test_a_new_private_folder_serves_where_no_other_can(nowhere):
    paths.compiled_code_dir("robosuite")
    folder = Path(os.environ["NUMBA_CACHE_DIR"])
    assert folder.parent == nowhere
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700, "numba unpickles what it finds there"


def test_where_not_even_that_can_be_made_the_error_names_the_fix(nowhere, monkeypatch):
    monkeypatch.setattr(paths.tempfile, "tempdir", str(nowhere / "absent"))
    with pytest.raises(UserError, match="Set NUMBA_CACHE_DIR to a folder of yours"):
        paths.compiled_code_dir("robosuite")


def test_a_folder_that_can_be_written_is_left_to_numba(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "mine"))
    paths.compiled_code_dir("no_such_package")
    assert os.environ["NUMBA_CACHE_DIR"] == str(tmp_path / "mine")


def test_the_folder_goes_with_the_process(tmp_path):
    code = (
        "import os\nfrom rle import paths\npaths._can_write = lambda place: False\n"
        "paths.compiled_code_dir('robosuite')\nprint(os.environ['NUMBA_CACHE_DIR'])"
    )
    env = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    run = subprocess.run(
        [sys.executable, "-c", code], env={**env, "TMPDIR": str(tmp_path)}, text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    assert Path(run.stdout.strip()).parent == tmp_path and not list(tmp_path.iterdir())


def test_a_folder_is_made_once_and_again(tmp_path):
    wanted = tmp_path / "a" / "b"
    assert paths.output_folder(wanted, "--out") == paths.output_folder(wanted, "--out") == wanted
    assert wanted.is_dir()


def test_a_file_in_the_way_is_named_with_its_option(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(
        UserError, match="--out .*file cannot be made a folder .it is a file.; give"
    ):
        paths.output_folder(file, "--out")
    with pytest.raises(UserError, match="--starter .*not a directory"):
        paths.output_folder(file / "below", "--starter")
