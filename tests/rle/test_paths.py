"""Folders that a caller names are made, or refused in words."""

import pytest

from rle.errors import UserError
from rle.paths import output_folder


def test_a_folder_is_made_once_and_again(tmp_path):
    wanted = tmp_path / "a" / "b"
    assert output_folder(wanted, "--out") == output_folder(wanted, "--out") == wanted
    assert wanted.is_dir()


def test_a_file_in_the_way_is_named_with_its_option(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(
        UserError, match="--out .*file cannot be made a folder .it is a file.; give"
    ):
        output_folder(file, "--out")
    with pytest.raises(UserError, match="--starter .*not a directory"):
        output_folder(file / "below", "--starter")
