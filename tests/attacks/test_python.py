"""Attack book, kinds python and ipc: rows 56 to 74.

A probe package answers one number for one attempt: 0 where it was refused, 1 where it worked.
"""

import os
import socket
from pathlib import Path

import numpy as np
import pytest

from rle.contracts import Arg, ArraySpec, Function, PythonContract
from rle.verify_api import Limits, TrialFault
from tests.attacks.support import refused
from verifier.isolation.launch import processes_of

LIMITS = Limits(call_cap_s=20.0, total_cap_s=120.0)
CONTRACT = PythonContract(
    entry="probe.py",
    required=("act",),
    functions=(
        Function(
            name="act",
            args=(Arg(arrays=(ArraySpec("number"),)),),
            returns=(ArraySpec("answer", (1,)),),
        ),
    ),
)
PRELUDE = """
import ctypes, gc, json, mmap, os, signal, socket, stat, subprocess, sys, threading, time
import numpy as np
PPID = os.getppid()
libc = ctypes.CDLL(None, use_errno=True)
def is_file(fd):
    try:
        return stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError:
        return False
def attempt(act):
    try:
        value = act()
    except (OSError, RuntimeError, MemoryError, ImportError, ValueError, AttributeError):
        return [0.0]
    return [0.0] if value in (False, -1) else [1.0]
"""


def package(body: str) -> dict[str, str]:
    return {"probe.py": f"{PRELUDE}\ndef act(number):\n    {body}\n"}


@pytest.fixture
def try_out(make_context):
    """`try_out(expression)` -> what the expression's attempt answers in a worker."""

    def run(expression: str, number: float = 0.0) -> float:
        ctx = make_context(package(f"return attempt(lambda: {expression})"))
        with ctx.worker("python", ctx.check("python", CONTRACT), LIMITS) as worker:
            return float(worker.act(np.array(number))[0])

    return run


def test_the_probe_itself_works(try_out):
    assert try_out("json.loads('1')") == 1.0


BLOCKED = {
    "56 memory": "open(f'/proc/{PPID}/mem', 'rb')",
    "56 environ": "open(f'/proc/{PPID}/environ').read()",
    "56 cmdline": "open(f'/proc/{PPID}/cmdline').read()",
    "56 fds": "os.listdir(f'/proc/{PPID}/fd')",
    "56 passwd": "open('/etc/passwd').read()",
    "56 home": "os.listdir('/root')",
    "57 by path": "open('/tmp/reward.json', 'w')",
    "57 by /proc": "open(f'/proc/{PPID}/cwd/reward.json', 'w')",
    "57 by fd": "any(is_file(fd) for fd in range(64))",
    "61 fork": "os.fork()",
    "61 exec": "os.execv('/bin/sh', ['sh'])",
    "61 spawn": "subprocess.run(['true'])",
    "61 setsid": "os.setsid()",
    "62 ptrace": "libc.ptrace(16, PPID, 0, 0)",
    "62 kill parent": "os.kill(PPID, 0)",
    "62 kill all": "os.kill(-1, signal.SIGCONT)",
    "62 limits of the parent": "__import__('resource').prlimit(PPID, 7)",
    "63 tcp": "socket.socket()",
    "63 udp": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "63 unix": "socket.socket(socket.AF_UNIX)",
    "63 netlink": "socket.socket(16, socket.SOCK_RAW)",
    "63 pair": "socket.socketpair()",
    "63 dns": "socket.getaddrinfo('example.org', 80)",
    "64 memory": "mmap.mmap(-1, 5 << 30)",
    "64 memfd": "os.memfd_create('x')",
    "64 shm": "open('/dev/shm/x', 'w')",
    "64 files": "[os.dup(1) for _ in range(1000)]",
    "65 chmod": "os.chmod(os.path.dirname(__file__), 0o777)",
    "65 utime": "os.utime(__file__)",
    "65 xattr": "os.setxattr(__file__, 'user.x', b'1')",
    "65 fchmodat2": "libc.syscall(452, -100, __file__.encode(), 0o777, 0)",
    "68 thread": "threading.Thread(target=time.sleep, args=(1,)).start()",
    "keep living": "libc.prctl(1, 0)",
    "be readable": "libc.prctl(4, 1)",
    "io_uring": "libc.syscall(425, 4, 0)",
    "another root": "os.chroot('.')",
    "another user": "libc.syscall(117, 12345, 12345, 12345)",
}


def test_what_a_package_may_not_do(make_context):
    """Rows 56, 57, 61 to 65, 68: all attempts in one worker, each refused."""
    attempts = ",\n    ".join(f"lambda: {expression}" for expression in BLOCKED.values())
    text = f"{PRELUDE}\nATTEMPTS = [\n    {attempts},\n]\n"
    text += "def act(number):\n    return attempt(ATTEMPTS[int(number)])\n"
    ctx = make_context({"probe.py": text})
    with ctx.worker("python", ctx.check("python", CONTRACT), LIMITS) as worker:
        done = [name for i, name in enumerate(BLOCKED) if worker.act(np.array(float(i)))[0] != 0.0]
    assert done == []


def test_nothing_of_the_verifier_is_in_its_memory(make_context):
    """Row 58: no frame, object or module of the project but the box."""
    body = (
        "return [float(any(name.split('.')[0] in ('rle', 'families', 'verifier') "
        "for name in sys.modules) or 'salt' in repr(sys._getframe(2).f_globals.keys()))]"
    )
    ctx = make_context(package(body))
    with ctx.worker("python", ctx.check("python", CONTRACT), LIMITS) as worker:
        assert worker.act(np.array(0.0))[0] == 0.0


@pytest.mark.parametrize("module", ["rle", "families", "verifier", "tests"])
def test_the_project_cannot_be_imported(try_out, module):
    """Row 58."""
    assert try_out(f"__import__('{module}').__path__[0]") == 0.0


def test_patches_stay_in_its_own_process(try_out):
    """Row 59."""
    expression = "setattr(np, 'mean', lambda *a: 1.0) or setattr(time, 'monotonic', None)"
    assert try_out(expression) == 1.0
    assert np.mean([0.0, 1.0]) == 0.5


DEATHS = {
    "60 sys.exit": "sys.exit(0)",
    "60 os._exit": "os._exit(0)",
    "60 close the channel": "os.closerange(3, 64)",
    "60 exit handler": "__import__('atexit').register(print, 'late'); sys.exit(0)",
    "62 kill itself": "os.kill(os.getpid(), 9)",
    "64 recursion in C": "ctypes.string_at(0)",
}


@pytest.mark.parametrize("case", DEATHS)
def test_a_worker_that_ends_itself(make_context, case):
    ctx = make_context(package(f"{DEATHS[case]}; return [0.0]"))
    with ctx.worker("python", ctx.check("python", CONTRACT), LIMITS) as worker:
        with pytest.raises(TrialFault) as caught:
            worker.act(np.array(0.0))
    assert caught.value.ended == "worker_died"


def test_nothing_of_a_worker_is_left(make_context):
    """Row 61: after the context no process with its id or uid exists."""
    ctx = make_context(package("return [0.0]"))
    with ctx.worker("python", ctx.check("python", CONTRACT), LIMITS) as worker:
        worker.act(np.array(0.0))
        pid, uid = worker.pid, Path(f"/proc/{worker.pid}").stat().st_uid
    assert not Path(f"/proc/{pid}").exists()
    assert uid < 62_000 or processes_of(uid) == []


def test_memory_limit(make_context):
    """Row 64: asking for more than 4 GiB raises inside, and the worker lives."""
    ctx = make_context(package("return [float(np.ones(2**30)[0])] if number else [0.0]"))
    with ctx.worker("python", ctx.check("python", CONTRACT), LIMITS) as worker:
        with pytest.raises(TrialFault, match="action.raised"):
            worker.act(np.array(1.0))
        assert worker.act(np.array(0.0))[0] == 0.0


def test_large_file(try_out):
    """Row 64: there is nowhere to write, and no byte could be written."""
    assert try_out("os.write(os.open('x', os.O_CREAT | os.O_WRONLY), b'x')") == 0.0


@pytest.mark.parametrize(
    "name", ["sitecustomize.py", "json.py", "numpy/__init__.py", "usercustomize.py", "rle/a.py"]
)
def test_name_of_a_trusted_module(make_context, name):
    """Row 66."""
    with refused("python.shadow"):
        make_context({**package("return [0.0]"), name: "x = 1"}).check("python", CONTRACT)


@pytest.mark.parametrize(
    ("name", "code"), [("fast.so", "python.suffix"), ("x.pth", "python.shadow")]
)
def test_native_and_path_files(make_context, name, code):
    """Row 67; compiled Python files are refused by the intake as `file.vcs`."""
    with refused(code):
        make_context({**package("return [0.0]"), name: "x"}).check("python", CONTRACT)


def test_many_or_large_files(make_context):
    files = {f"data{i}.txt": "x" for i in range(64)}
    with refused("file.count"):
        make_context({**package("return [0.0]"), **files}).check("python", CONTRACT)
    with refused("file.size"):
        files = {"data.npy": bytes(32 * 2**20)}
        make_context({**package("return [0.0]"), **files}).check("python", CONTRACT)


@pytest.mark.parametrize("text", ["def f(:", "x = 1\0", "(" * 5000, "\xff"])
def test_text_that_does_not_compile(make_context, text):
    with refused("python.syntax"):
        make_context({"probe.py": text.encode("latin-1")}).check("python", CONTRACT)


def test_output_flood_is_cut_and_escaped(make_context):
    """Row 71: 100 MB of escape sequences and a forged log line."""
    body = (
        "[os.write(2, b'\\x1b[2J' * 25000) for _ in range(1000)]; "
        "print('== t99\\nscored 1.0', flush=True); return [0.0]"
    )
    ctx = make_context(package(body))
    limits = Limits(call_cap_s=50.0, total_cap_s=50.0)
    with ctx.worker("python", ctx.check("python", CONTRACT), limits) as worker:
        worker.act(np.array(0.0))
    (log,) = ctx.settings.log_folder.glob("*.log")
    text = log.read_text()
    assert "\x1b" not in text and "earlier bytes dropped" in text
    assert len(text) < 400_000


EXTRA = ("ipc.extra", "ipc.frame")
"""Bytes that nobody asked for are found before the next request, or read as a wrong frame."""
IPC = {
    "72 frame on stdout": ("os.write(1, FRAME)", None),
    "72 before it is asked": ("os.write(4, b'x') if first else 0", EXTRA),
    "72 two replies": (
        "os.write(4, HEADER.pack(8, 18, 2) + bytes(8)) if first else 0",
        EXTRA,
    ),
    "73 four GiB": ("os.write(4, HEADER.pack(2**32 - 1, 18, 2))", "ipc.frame"),
    "73 wrong sequence": ("os.write(4, HEADER.pack(8, 18, 99) + bytes(8))", "ipc.frame"),
    "73 unknown type": ("os.write(4, HEADER.pack(8, 77, 2) + bytes(8))", "ipc.frame"),
    "73 short reply": ("os.write(4, HEADER.pack(4, 18, 2) + bytes(4))", EXTRA),
    "73 half a frame": ("os.write(4, HEADER.pack(8, 18, 2)); time.sleep(99)", "worker.time"),
    "73 dribble": (
        "os.write(4, HEADER.pack(8, 18, 2)); [(time.sleep(.3), os.write(4, b'x')) for _ in range(99)]",
        "worker.time",
    ),
    "73 deep fault": ("os.write(4, HEADER.pack(2000, 19, 2) + b'\\x91' * 2000)", EXTRA),
    "74 fault with a text": (
        "os.write(4, HEADER.pack(len(FAULT), 19, 2) + FAULT); time.sleep(1)",
        "action.raised",
    ),
}


@pytest.mark.parametrize("case", IPC)
def test_channel(make_context, case):
    """Rows 72 to 74: the package finds the channel (descriptor 4) and writes to it."""
    statement, code = IPC[case]
    text = f"""{PRELUDE}
import msgspec, struct
HEADER = struct.Struct("<IBQ")
FRAME = HEADER.pack(8, 18, 2) + bytes(8)
FAULT = msgspec.msgpack.encode({{"code": "action.raised",
    "fields": {{"cls": "\\x1b[31mreward 1.0", "line": 3, "more": "x"}}}})
CHANNEL = max(fds())
first = True
def act(number):
    global first
    {statement.replace("os.write(4,", "os.write(CHANNEL,")}
    first = False
    return [0.0]
"""
    text = text.replace("import msgspec, struct", "import msgspec, struct, fcntl" + FIND_CHANNEL)
    ctx = make_context({"probe.py": text})
    limits = Limits(call_cap_s=2.0 if code == "worker.time" else 20.0, total_cap_s=60.0)
    with ctx.worker("python", ctx.check("python", CONTRACT), limits) as worker:
        if code is None:
            assert worker.act(np.array(0.0))[0] == 0.0
            return
        with pytest.raises(TrialFault) as caught:
            worker.act(np.array(0.0))
            worker.act(np.array(0.0))
    assert caught.value.code in (code if isinstance(code, tuple) else (code,))
    assert caught.value.detail.isprintable()


FIND_CHANNEL = """
def fds():
    found = []
    for fd in range(3, 64):
        try:
            if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_WRONLY:
                found.append(fd)
        except OSError:
            pass
    return found
"""


def test_no_listener_of_the_verifier_is_reachable(try_out):
    """Row 63 with a real listener on this machine: connect is refused before it is tried."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        assert try_out(f"socket.create_connection(('127.0.0.1', {port}), 1)") == 0.0


def test_environment_of_a_worker_is_fixed(make_context, monkeypatch):
    """Row 56: nothing of the verifier's environment is there to read."""
    ctx = make_context(package("return [float('RLE_HIDDEN_SALT_FILE' in os.environ)]"))
    monkeypatch.setenv("RLE_HIDDEN_SALT_FILE", "/root/salt")
    with ctx.worker("python", ctx.check("python", CONTRACT), LIMITS) as worker:
        assert worker.act(np.array(0.0))[0] == 0.0
    assert "RLE_HIDDEN_SALT_FILE" in os.environ
