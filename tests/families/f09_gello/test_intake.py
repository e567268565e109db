"""Files of one arm that cannot be taken cost that arm alone: intake, check and reading through the real verifier."""

import os
import shutil
from pathlib import Path

import pytest

from families.f09_gello import verify
from families.f09_gello.devices.rows import finding_text
from families.f09_gello.spec import ARM_NAMES, PART_RULES, TASKS, XML_BYTES_MAX
from rle.errors import InvalidSubmission
from rle.paths import assets_dir
from verifier.isolation import layers
from verifier.isolation.checks import Checker
from verifier.submission import freeze

MESH = assets_dir() / "gello" / "mesh"


class Reading:
    """The part of the trusted side that reading a lead needs: the frozen copy and the sandboxed check."""

    def __init__(self, folder: Path, copy: Path) -> None:
        self.submission = freeze(folder, copy, TASKS[0])

    def check(self, kind, contract):
        return Checker(self.submission, layers.plan("reduced")).check(kind, contract)


def read(folder: Path, arm: str = "xarm7", copy: str = "copy") -> tuple[Reading, list[str]]:
    context = Reading(folder, folder.parent / copy)
    return context, [finding_text(f) for f in verify.read_lead(context, arm).findings]


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(MESH, tmp_path / "in", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "in"


def link(file: Path) -> None:
    file.rename(file.with_suffix(".other"))
    file.symlink_to(file.with_suffix(".other"))


def fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def large(file: Path) -> None:
    file.write_text(file.read_text() + f"<!-- {'x' * XML_BYTES_MAX} -->")


def latin(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"<worldbody>", b"<!-- \xe9 --><worldbody>"))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [(link, "xarm7/lead.xml is a symbolic link"), (fifo, "xarm7/lead.xml is a FIFO"),
     (large, f"at most {XML_BYTES_MAX} are accepted"), (latin, "xarm7/lead.xml is not UTF-8 text (byte")],
)  # fmt: skip
def test_a_file_that_cannot_be_taken_fails_to_load_and_the_other_arms_go_on(folder, spoil, says):
    spoil(folder / "xarm7" / "lead.xml")
    context, told = read(folder)
    assert len(told) == 1 and told[0].startswith("refused: lead.xml: ") and says in told[0]
    assert all(verify.is_submitted(context, arm) for arm in ARM_NAMES)
    assert verify.read_lead(context, "ur5e").findings == ()
    assert says in context.submission.record.refused["xarm7/lead.xml"]
    again, _ = read(context.submission.folder, "xarm7", "again")
    assert again.submission.digest == context.submission.digest, "the copy alone is graded alike"
    assert verify.read_lead(again, "xarm7").refused("load")


def test_a_folder_that_is_a_link_is_the_arm_refused(folder):
    link(folder / "xarm7")
    context, told = read(folder)
    assert told == ["refused: lead.xml: xarm7 is a symbolic link; only regular files are accepted"]
    assert verify.is_submitted(context, "xarm7"), "refused, not absent"


def test_a_mesh_that_is_too_large_costs_its_part(folder):
    file = folder / "xarm7" / "strut_1b.stl"
    file.write_bytes(file.read_bytes() + bytes(PART_RULES.mesh_bytes_max))
    _, told = read(folder)
    assert told[0].startswith("dropped: strut_1b: xarm7/strut_1b.stl has ")
    assert told[1:] == ["dropped: sup_1b: its mesh 'strut_1b' is not an accepted one"] + told[2:]


def test_software_that_is_a_link_is_told_and_absent(folder):
    link(folder / "xarm7" / "trim.py")
    context, told = read(folder)
    runner = verify.Runner(context, "xarm7")
    assert told == [] and runner.notes == [
        "xarm7/trim.py is a symbolic link; only regular files are accepted"
    ]


def test_a_file_without_an_acceptable_name_is_told_and_nothing_more(folder):
    file = folder / "xarm7" / "a\\b.stl"
    file.write_bytes(b"x")
    context, told = read(folder)
    assert told == [] and not any("\\" in name for name in context.submission.names())
    assert list(context.submission.record.refused) == ["xarm7/a\\b.stl"]


def test_what_concerns_the_whole_folder_still_ends_the_intake(folder):
    (folder / "Franka").mkdir()
    shutil.copyfile(folder / "franka" / "lead.xml", folder / "Franka" / "lead.xml")
    context, _ = read(folder)  # another name is not of the contract: ignored
    assert "Franka/lead.xml" in context.submission.ignored
    shutil.rmtree(folder.parent / "copy")
    shutil.rmtree(folder)
    folder.mkdir()
    with pytest.raises(InvalidSubmission, match="the folder is empty"):
        read(folder)
