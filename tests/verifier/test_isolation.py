"""The sandbox as a running worker shows it: start order, layers, deny list, readable paths."""

import ast
import os
import re
from pathlib import Path

import numpy as np
import pytest

from rle.contracts import Arg, ArraySpec, Function, PythonContract
from rle.verify_api import Limits
from verifier.box import main as box_main
from verifier.isolation import landlock, layers, seccomp, selftest
from verifier.isolation.channel import LOG_BYTES, RingLog
from verifier.isolation.launch import FIXED_ENV, LaunchSpec, Sandboxed
from verifier.isolation.worker import SubmissionWorker

LIMITS = Limits(call_cap_s=10.0, total_cap_s=60.0)
CONTRACT = PythonContract(
    entry="look.py",
    functions=(
        Function(
            name="act",
            args=(Arg(arrays=(ArraySpec("number"),)),),
            returns=(ArraySpec("answer", (1,)),),
        ),
    ),
)


@pytest.fixture(scope="module")
def worker():
    """A worker of the profile python that holds no submission."""
    with Sandboxed(
        LaunchSpec(profile="python", role="python_box", plan=layers.plan("strict"))
    ) as w:
        yield w


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def test_start_order():
    """The order of the steps in the source is the order of the sandbox; imports come last."""
    tree = ast.parse(Path(box_main.__file__).read_text())
    start = next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "start")
    lines = ast.unparse(ast.Module(start.body[1:], []))
    wanted = [
        "die_with_parent(config",
        "os.setsid(",
        "os.umask(",
        "import pyseccomp",
        "close_other_fds(",
        "'rlimits':",
        "'uid':",
        "'nocap':",
        "'nnp':",
        "'landlock':",
        "'seccomp':",
        "/proc/self/task",
        "apply()",
        "_load_package()",
    ]
    places = [lines.index(text) for text in wanted]
    assert places == sorted(places)


def test_status_of_a_running_worker(worker):
    facts = status(worker.pid)
    assert facts["NoNewPrivs"] == "1" and facts["Seccomp"] == "2"
    assert facts["Threads"] == "1"
    assert facts["NSsid"] == facts["NSpgid"] == str(worker.pid)
    assert {facts[f"Cap{name}"] for name in ("Inh", "Prm", "Eff", "Amb")} == {"0" * 16}
    assert facts["CapBnd"] == "0" * 16 or os.geteuid() != 0


def test_layers_reached_are_those_planned(worker):
    assert worker.layers == layers.plan("strict").layers


def test_limits_of_a_running_worker(worker):
    lines = Path(f"/proc/{worker.pid}/limits").read_text().splitlines()[1:]
    limits = {line[:26].strip(): line[26:].split()[:2] for line in lines}
    assert limits["Max address space"] == [str(4 * 2**30)] * 2
    assert limits["Max file size"] == limits["Max core file size"] == ["0", "0"]
    assert limits["Max open files"] == limits["Max processes"] == ["64", "64"]
    assert limits["Max locked memory"] == ["0", "0"]


only_root_may_look = pytest.mark.skipif(
    os.geteuid() != 0, reason="a worker is not dumpable, so only root can look at it"
)


@only_root_may_look
def test_descriptors_and_environment(worker):
    links = {
        fd: os.readlink(f"/proc/{worker.pid}/fd/{fd}")
        for fd in os.listdir(f"/proc/{worker.pid}/fd")
    }
    assert len(links) == 5 and links["0"] == "/dev/null"
    assert all(link.startswith("pipe:") for fd, link in links.items() if fd != "0")
    raw = Path(f"/proc/{worker.pid}/environ").read_bytes().split(b"\0")
    assert dict(item.decode().split("=", 1) for item in raw if item) == FIXED_ENV


@only_root_may_look
def test_working_folder_is_empty_and_closed(worker):
    folder = Path(os.readlink(f"/proc/{worker.pid}/cwd"))
    assert list(folder.iterdir()) == [] and folder.stat().st_mode & 0o222 == 0


CALLS_OF_EVERY_WORKER = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {numbers}
def act(number):
    libc.syscall(NUMBERS[int(number)], -1, -1, -1, -1, -1, -1)
    return [float(ctypes.get_errno())]
"""


def test_every_denied_call_answers_eperm(make_context):
    """The deny list, asked one by one with arguments that would be refused for another reason."""
    import errno

    sc = pytest.importorskip("pyseccomp")
    names = seccomp.denied_names(folders=False, unix_sockets=False) + ["socket", "clone"]
    numbers = {
        name: number for name in names if (number := sc.resolve_syscall(sc.Arch.NATIVE, name)) >= 0
    }
    for name, number in seccomp.NUMBERS.items():
        numbers.setdefault(name, number)
    text = CALLS_OF_EVERY_WORKER.format(numbers=list(numbers.values()))
    ctx = make_context({"look.py": text})
    with ctx.worker("python", ctx.check("python", CONTRACT), LIMITS) as worker:
        answers = {name: int(worker.act(np.array(float(i)))[0]) for i, name in enumerate(numbers)}
    assert {name for name, code in answers.items() if code != errno.EPERM} == set()
    assert len(answers) > 100


def test_clone3_is_unknown_so_that_libraries_fall_back(make_context):
    import errno

    ctx = make_context({"look.py": CALLS_OF_EVERY_WORKER.format(numbers=[435])})
    with ctx.worker("python", ctx.check("python", CONTRACT), LIMITS) as worker:
        assert int(worker.act(np.array(0.0))[0]) == errno.ENOSYS


PATHS = """
def act(number):
    path = PATHS[int(number)]
    try:
        import os
        os.listdir(path) if os.path.isdir(path) else open(path, "rb").close()
        return [1.0]
    except PermissionError:
        return [0.0]
"""


def test_readable_paths_and_no_others(make_context):
    """Landlock: the libraries and the own submission; nothing of the project or the machine."""
    root = str(Path(__file__).resolve().parents[2])
    open_paths = [p for p in layers.readable_paths(None) if os.path.exists(p)]
    closed = ["/", "/etc", "/etc/hostname", "/home", "/tmp", "/proc", "/sys", root, f"{root}/rle"]
    closed += [f"{root}/verifier/run.py", f"{root}/tests", "/var", "/dev", "/proc/self/mem"]
    closed = [p for p in closed if os.path.exists(p)]
    ctx = make_context({"look.py": f"PATHS = {[*open_paths, *closed]!r}\n{PATHS}"})
    with ctx.worker("python", ctx.check("python", CONTRACT), LIMITS) as worker:
        answers = [worker.act(np.array(float(i)))[0] for i in range(len(open_paths + closed))]
    assert dict(zip(open_paths, answers)) == dict.fromkeys(open_paths, 1.0)
    assert dict(zip(closed, answers[len(open_paths) :])) == dict.fromkeys(closed, 0.0)


@pytest.mark.parametrize("profile", ["onnx", "mjcf", "python", "recipe_train", "recipe_serve"])
def test_self_test_blocks_twenty_acts_and_allows_four(profile, tmp_path):
    result = selftest.run(profile, layers.plan("strict"), tmp_path)
    assert len(result.blocked) >= 20
    assert set(result.allowed) == {"read_submission", "import_json", "allocate", "echo"}
    assert list(tmp_path.iterdir()) == []


def test_own_uid_when_the_interpreter_is_reachable():
    """The layer itself; where the interpreter is private this machine cannot show it."""
    plan = layers.plan("strict")
    if not plan.own_uid:
        reasons = [fact for layer, fact, _ in plan.missing if layer == "uid"]
        pytest.skip(f"no uid of its own here: {reasons[0]}")
    with Sandboxed(LaunchSpec(profile="python", role="python_box", plan=plan)) as first:
        with Sandboxed(LaunchSpec(profile="python", role="python_box", plan=plan)) as second:
            uids = [int(status(w.pid)["Uid"].split()[0]) for w in (first, second)]
    assert uids[0] != uids[1] and min(uids) >= layers.FIRST_UID


def test_rights_follow_the_abi():
    assert landlock.fs_rights(1) == 2**13 - 1
    assert landlock.fs_rights(3) & landlock.TRUNCATE
    assert not landlock.fs_rights(4) & landlock.IOCTL_DEV
    assert landlock.fs_rights(99) == landlock.fs_rights(5)


def test_ring_keeps_the_end_and_escapes():
    log = RingLog()
    for i in range(40):
        log.add(f"{i:02d}".encode() * 4096)
    log.add("\x1b[2J\r\x07 caf\u00e9\n".encode())
    text = log.text()
    assert text.startswith("[") and "earlier bytes dropped" in text
    assert text.endswith("\\x1b[2J\\r\\x07 caf\u00e9\n")
    assert len(text) < LOG_BYTES + 100


def sources() -> list[Path]:
    return sorted(Path(layers.__file__).resolve().parents[1].rglob("*.py"))


def test_dangerous_calls_are_absent():
    """No pickle, eval, exec, shell or unsafe load anywhere in the verifier."""
    for path in sources():
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                modules = [a.name for a in node.names] + [getattr(node, "module", "") or ""]
                banned = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "pty"}
                assert not banned & {m.split(".")[0] for m in modules}, path
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                assert name not in ("eval", "exec", "os.system", "os.popen", "time.time"), path
                for keyword in node.keywords:
                    risky = (keyword.arg, ast.unparse(keyword.value))
                    assert risky not in (("shell", "True"), ("weights_only", "False")), path


def broad_handlers(path: Path) -> int:
    tree = ast.parse(path.read_text())
    handlers = [n for n in ast.walk(tree) if isinstance(n, ast.ExceptHandler)]
    broad = ("None", "Exception", "BaseException")
    return sum(str(h.type and ast.unparse(h.type)) in broad and not _reraises(h) for h in handlers)


def _reraises(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def test_one_broad_except_outside_the_box():
    """In the box three more stand where untrusted code or a refusal may raise anything."""
    root = sources()[0].parent
    counts = {str(path.relative_to(root)): broad_handlers(path) for path in sources()}
    found = {name for name, count in counts.items() if count}
    inside = {"box/python_box.py", "box/canaries.py", "box/recipe/run_box.py"}
    assert found == {"__main__.py", *inside}
    assert all(counts[name] == 1 for name in found)


def test_the_box_imports_nothing_of_the_project():
    for path in sorted(layers.BOX.rglob("*.py")):
        text = path.read_text()
        assert not re.search(r"^\s*(from|import) (rle|families|verifier)\b", text, re.M), path


SERVER = """
import os, socket, threading
FOLDER = {folder!r}
def attempt(act):
    try:
        act()
    except (OSError, RuntimeError):
        return 0.0
    return 1.0
def write(path):
    with open(path, "w") as file:
        file.write("x")
def serve():
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.join(FOLDER, "s.sock"))
        server.listen()
def act(number):
    return [attempt([
        lambda: write(os.path.join(FOLDER, "out.txt")),
        lambda: os.rename(os.path.join(FOLDER, "out.txt"), os.path.join(FOLDER, "b.txt")),
        serve,
        lambda: threading.Thread(target=os.getpid).start(),
        lambda: write("/tmp/rle-elsewhere.txt"),
        lambda: os.rename(os.path.join(FOLDER, "b.txt"), "/tmp/rle-elsewhere.txt"),
        lambda: os.chmod(os.path.join(FOLDER, "b.txt"), 0o777),
        lambda: socket.socket(socket.AF_INET),
        os.fork,
    ][int(number)])]
"""


def test_writable_folder_threads_and_local_sockets_of_a_serving_profile(make_context, tmp_path):
    """What `recipe_serve` may do beside the others, and what it still may not."""
    folder = tmp_path / "shared"
    folder.mkdir()
    ctx = make_context({"look.py": SERVER.format(folder=str(folder))})
    checked = ctx.check("python", CONTRACT)
    launch = LaunchSpec(
        profile="recipe_serve",
        role="python_box",
        plan=ctx.settings.plan,
        submission=ctx.submission.folder,
        writable=(folder,),
    )
    worker = SubmissionWorker(launch, checked, LIMITS)
    try:
        worker.load()
        answers = [worker.act(np.array(float(i)))[0] for i in range(9)]
    finally:
        worker.close()
    # files are 0 bytes long at most in this profile: opening works, writing does not
    assert answers == [0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert (folder / "b.txt").read_bytes() == b""
