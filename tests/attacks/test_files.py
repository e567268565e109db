"""Attack book, kind files: rows 1 to 12. Everything ends in the intake, before any worker."""

import os
import resource
import socket
import stat
import threading

import msgspec
import pytest

from rle.errors import InfrastructureError
from rle.spec import ArtifactContract, ArtifactEntry
from tests.attacks.support import refused
from tests.verifier import fake_family
from verifier import submission

MODEL = b"model"


def entry(path: str, **more):
    return ArtifactEntry(**{"path": path, "kind": "data", "max_bytes": 1000, **more})


STRICT = ArtifactContract(
    entries=(
        entry("policy.onnx"),
        entry("notes.txt", required=False, is_text=True),
        entry("meshes/*.stl", required=False),
        entry("pkg/**", required=False),
    ),
    max_files=20,
    max_total_bytes=2000,
    max_depth=3,
)


@pytest.fixture
def folder(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "policy.onnx").write_bytes(MODEL)
    return source


def freeze(source, contract=STRICT, harness=False):
    task = msgspec.structs.replace(fake_family.TASK, artifact=contract)
    destination = source.parent / f"frozen{len(os.listdir(source.parent))}"
    return submission.freeze(source, destination, task, harness=harness)


def test_honest_folder_is_copied_with_its_digest(folder):
    (folder / "pkg").mkdir()
    (folder / "pkg" / "a.py").write_text("x = 1\n")
    (folder / "empty").mkdir()
    frozen = freeze(folder)
    assert frozen.names() == ("pkg/a.py", "policy.onnx")
    assert frozen.read("policy.onnx") == MODEL
    assert oct((frozen.folder / "policy.onnx").stat().st_mode)[-3:] == "444"
    assert oct((frozen.folder / "pkg").stat().st_mode)[-3:] == "555"
    # sha256sum of the two lines "<sha256> <size> <path>\n" after "rle-submission/1\n"
    assert frozen.digest == submission.digest(list(reversed(frozen.record.files)))
    assert frozen.digest != submission.digest(frozen.record.files[:1])


def test_symbolic_link_as_the_file(folder):
    """Row 1."""
    (folder / "policy.onnx").unlink()
    (folder / "policy.onnx").symlink_to("/etc/passwd")
    with refused("file.symlink") as caught:
        freeze(folder)
    assert caught.value.message.startswith("policy.onnx is a symbolic link")


def test_symbolic_link_as_a_folder(folder, tmp_path):
    """Row 2."""
    (folder / "pkg").symlink_to("/etc")
    with refused("file.symlink"):
        freeze(folder)
    (tmp_path / "link").symlink_to(folder)
    with refused("file.symlink"):
        freeze(tmp_path / "link")


@pytest.mark.parametrize("kind", ["fifo", "socket", "device"])
def test_special_file_blocks_nobody(folder, kind):
    """Row 3."""
    (folder / "meshes").mkdir()
    path = folder / "meshes" / "a.stl"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        server = socket.socket(socket.AF_UNIX)
        here = os.getcwd()
        os.chdir(path.parent)  # the path of a socket may have 108 bytes only
        server.bind("a.stl")
        os.chdir(here)
    else:
        try:
            os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))
        except PermissionError:
            pytest.skip("device nodes need CAP_MKNOD")
    with refused("file.special"):
        freeze(folder)


def test_hard_link(folder, tmp_path):
    """Row 4."""
    (tmp_path / "secret").write_text("secret")
    os.link(tmp_path / "secret", folder / "notes.txt")
    with refused("file.hardlink"):
        freeze(folder)


@pytest.mark.parametrize(
    "name",
    [
        b"a\\b",
        b"a:b",
        b"a\x01b",
        b"a\nb",
        b"trailing.",
        b"x" * 121,
        b"\xff\xfe",
        "a\u202eb".encode(),
    ],
)
def test_name_that_is_not_accepted(folder, name):
    """Row 5."""
    os.mkdir(os.path.join(os.fsencode(folder), b"pkg"))
    with open(os.path.join(os.fsencode(folder), b"pkg", name), "wb") as file:
        file.write(b"1")
    with refused("file.name") as caught:
        freeze(folder)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("first", "second"),
    [("pkg/A.py", "pkg/a.py"), ("pkg/x", "pkg/X/y"), ("pkg/caf\u00e9", "pkg/cafe\u0301")],
)
def test_names_that_a_case_blind_disk_would_merge(folder, first, second):
    """Row 6."""
    for path in (first, second):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("1")
    with refused("file.case"):
        freeze(folder)


@pytest.mark.parametrize("path", ["pkg/.git", ".git/config", "pkg/__pycache__/a.txt", "pkg/a.pyc"])
def test_version_control_and_caches(folder, path):
    """Row 7."""
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text("gitdir: /elsewhere")
    with refused("file.vcs"):
        freeze(folder)


def test_large_file_pointer(folder):
    """Row 8."""
    (folder / "policy.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid 1\n")
    with refused("file.lfs"):
        freeze(folder)


def test_sparse_terabyte(folder):
    """Row 9."""
    with open(folder / "policy.onnx", "wb") as file:
        os.truncate(file.fileno(), 2**40)
    with refused("file.size") as caught:
        freeze(folder)
    assert "1099511627776" in caught.value.message


def test_many_files_do_not_fill_memory(folder):
    """Row 9."""
    (folder / "pkg").mkdir()
    for i in range(21_000):
        os.mknod(folder / "pkg" / f"{i}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with refused("file.count"):
        freeze(folder)
    growth_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert growth_kib < 200 * 1024


def test_depth(folder):
    """Row 9."""
    (folder / "pkg" / "/".join("abcdefgh")).mkdir(parents=True)
    with refused("file.depth"):
        freeze(folder)


def test_just_inside_and_just_outside(folder):
    (folder / "policy.onnx").write_bytes(bytes(1000))
    (folder / "pkg" / "a").mkdir(parents=True)
    (folder / "pkg" / "a" / "b").write_bytes(bytes(1000))
    freeze(folder)
    (folder / "notes.txt").write_text("x")
    with refused("file.size"):  # 2,001 bytes in all
        freeze(folder)
    (folder / "policy.onnx").write_bytes(bytes(1001))
    with refused("file.size"):
        freeze(folder)


def test_file_that_changes_while_it_is_copied(folder):
    """Row 10: either the copy is whole, or the submission is refused; never a mixture."""
    stop = threading.Event()

    def rewrite():
        fill = 0
        while not stop.is_set():
            fill = (fill + 1) % 256
            with open(folder / "policy.onnx.new", "wb") as file:
                file.write(bytes([fill]) * 900)
            os.replace(folder / "policy.onnx.new", folder / "policy.onnx")

    contract = msgspec.structs.replace(STRICT, extra="ignore")
    (folder / "policy.onnx").write_bytes(bytes(900))
    thread = threading.Thread(target=rewrite)
    thread.start()
    try:
        for _ in range(50):
            try:
                data = freeze(folder, contract).read("policy.onnx")
            except (submission.InvalidSubmission, InfrastructureError) as error:
                assert error.code in ("file.changed", "intake.transfer")
            else:
                assert len(set(data)) == 1 and len(data) == 900
    finally:
        stop.set()
        thread.join()


def test_file_that_grows_while_it_is_copied(folder, monkeypatch):
    """Row 10: a writer that appends at every read is met twice, then refused."""
    read = os.read

    def slow_read(fd, count):
        data = read(fd, count)
        with open(folder / "policy.onnx", "ab") as file:
            file.write(b"x")
        return data

    monkeypatch.setattr(os, "read", slow_read)
    with refused("file.changed", "file.size"):
        freeze(folder)


def test_planted_results(folder):
    """Row 11: refused where the contract says so, else listed and left behind."""
    (folder / "reward.json").write_text('{"reward": 1.0}')
    with refused("file.extra") as caught:
        freeze(folder)
    assert "allowed: policy.onnx" in caught.value.message
    frozen = freeze(folder, msgspec.structs.replace(STRICT, extra="ignore"))
    assert frozen.names() == ("policy.onnx",) and frozen.ignored == ["reward.json"]


def test_file_replaced_while_it_is_looked_at_has_no_link_left():
    """Row 10: the kernel counts no name of a file whose name went to another meanwhile."""
    found = submission._Found("policy.onnx", stat.S_IFREG, 900, links=0)
    with refused("file.changed"):
        submission._refuse_type(found)


def test_links_among_ignored_files_stay_behind(folder):
    """Row 11 with links to the verifier's own files."""
    (folder / "salt").symlink_to("/root/salt")
    (folder / "stuff").symlink_to("/")
    frozen = freeze(folder, msgspec.structs.replace(STRICT, extra="ignore"))
    assert frozen.names() == ("policy.onnx",) and frozen.ignored == ["salt", "stuff"]


def test_empty_and_claims_only(folder):
    """Row 12."""
    (folder / "policy.onnx").unlink()
    with refused("file.none") as caught:
        freeze(folder)
    assert "policy.onnx" in caught.value.message
    (folder / "README.md").write_text("reward: 1.0")
    with refused("file.missing") as caught:
        freeze(folder, msgspec.structs.replace(STRICT, extra="ignore"))
    assert caught.value.message == "policy.onnx is missing; found: README.md"
    with refused("file.none"):
        freeze(folder.parent / "absent")


def test_empty_file_and_text_that_is_none(folder):
    (folder / "policy.onnx").write_bytes(b"")
    with refused("file.empty"):
        freeze(folder)
    (folder / "policy.onnx").write_bytes(MODEL)
    (folder / "notes.txt").write_bytes(b"caf\xe9")
    with refused("file.encoding") as caught:
        freeze(folder)
    assert "(byte 3)" in caught.value.message


def test_marker_of_the_harness(folder):
    with pytest.raises(InfrastructureError) as caught:
        freeze(folder, harness=True)
    assert caught.value.code == "intake.transfer"
    (folder / ".rle").write_text("")
    assert freeze(folder, harness=True).names() == ("policy.onnx",)
    (folder / "policy.onnx").unlink()
    with refused("file.none"):
        freeze(folder, harness=True)


@pytest.mark.parametrize(
    ("pattern", "path", "named"),
    [
        ("a/*.stl", "a/b.stl", True),
        ("a/*.stl", "a/b/c.stl", False),
        ("a/**", "a/b/c", True),
        ("**", "x/y", True),
        ("*/lead.xml", "franka/lead.xml", True),
        ("*/lead.xml", "lead.xml", False),
        ("*.py", ".py.txt", False),
    ],
)
def test_patterns(pattern, path, named):
    assert submission.matches(pattern, path) == named
