"""The self-test's worker: tries what must be refused and what must work, and says what happened."""

import ctypes
import importlib
import mmap
import os
import signal
import socket
import threading
from pathlib import Path

from . import wire

DONE, BLOCKED = "done", "blocked"
ALLOCATE_BYTES = 64 * 2**20
"""Memory that every profile must grant."""
CANARY_BYTES = 16
"""Length of the bytes in the verifier's memory that must not be readable."""
PTRACE_ATTACH = 16
CAPABILITY_VERSION_3, CAP_DAC_OVERRIDE = 0x20080522, 1
"""Source: linux/ptrace.h, linux/capability.h."""

_libc = ctypes.CDLL(None, use_errno=True)


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _libc_ok(result: int) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _read(path: str) -> None:
    with open(path, "rb", buffering=0) as file:
        file.read(1)


def _create(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600))


def _read_parent_memory(ppid: int, address: int) -> None:
    buffer = ctypes.create_string_buffer(CANARY_BYTES)
    local = _Iovec(ctypes.cast(buffer, ctypes.c_void_p), CANARY_BYTES)
    remote = _Iovec(address, CANARY_BYTES)
    _libc_ok(_libc.process_vm_readv(ppid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0))


def _fork() -> None:
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _exec() -> None:
    try:
        os.execv("/nonexistent-rle-canary", ["x"])  # a path that works would end this process
    except FileNotFoundError:
        return  # the kernel looked the path up: execve itself is allowed


def _connect_abstract() -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0rle-canary")


def _thread() -> None:
    threading.Thread(target=os.getpid).start()


def _allocate(size: int) -> None:
    mmap.mmap(-1, size).close()


def forbidden(fields: dict) -> dict:
    """Name -> act. Every act raises where it is refused."""
    canary, ppid = fields["canary"], fields["ppid"]
    acts = {
        "read_canary": lambda: _read(canary),
        "proc_mem": lambda: _read(f"/proc/{ppid}/mem"),
        "proc_environ": lambda: _read(f"/proc/{ppid}/environ"),
        "proc_fd": lambda: os.listdir(f"/proc/{ppid}/fd"),
        "ptrace": lambda: _libc_ok(_libc.ptrace(PTRACE_ATTACH, ppid, 0, 0)),
        "vm_readv": lambda: _read_parent_memory(ppid, fields["address"]),
        "kill_parent": lambda: os.kill(ppid, 0),
        "fork": _fork,
        "execve": _exec,
        "inet": lambda: socket.socket(socket.AF_INET).close(),
        "abstract": _connect_abstract,
        "create_cwd": lambda: _create("canary"),
        "create_tmp": lambda: _create(f"/tmp/rle-canary-{os.getpid()}"),
        "create_shm": lambda: _create(f"/dev/shm/rle-canary-{os.getpid()}"),
        "memfd": lambda: os.close(os.memfd_create("canary")),
        "chmod": lambda: os.chmod(canary, 0o666),
        "utime": lambda: os.utime(canary, (0, 0)),
        "setxattr": lambda: os.setxattr(canary, b"user.rle", b"1"),
        "capability": _raise_capability,
        "signal_other": lambda: os.kill(-1, signal.SIGCONT),
    }
    if not fields["unix_sockets"]:
        acts["unix"] = lambda: socket.socket(socket.AF_UNIX).close()
    if fields["memory_bytes"]:
        acts["memory"] = lambda: _allocate(fields["memory_bytes"])
    if not fields["threads"]:
        acts["thread"] = _thread
    return acts


def _raise_capability() -> None:
    """Takes back the right to read every file; as uid 0 without capabilities this must fail."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    bit = 1 << CAP_DAC_OVERRIDE
    _libc_ok(_libc.capset(header, (ctypes.c_uint32 * 6)(bit, bit, 0, 0, 0, 0)))


def allowed(fields: dict) -> dict:
    """Name -> act that must work."""
    return {
        "read_submission": lambda: Path(fields["own_file"]).read_bytes(),
        "import_json": lambda: __import__("json"),
        "allocate": lambda: _allocate(ALLOCATE_BYTES),
    }


def _try(act) -> str:
    try:
        act()
    except Exception as error:  # whatever the refusal looks like, it is reported by its class
        return f"{BLOCKED}:{type(error).__name__}"
    return DONE


class Canaries:
    """Role of the self-test's worker."""

    def load(self, fields: dict) -> dict:
        """Runs every act; answers {name: "done" | "blocked:<class>"} for both lists."""
        return {
            "forbidden": {name: _try(act) for name, act in forbidden(fields).items()},
            "allowed": {name: _try(act) for name, act in allowed(fields).items()},
        }

    def reset(self, fields: dict) -> None:
        raise wire.Fault("ipc.frame")

    def act(self, payload: memoryview) -> bytes:
        """Echoes the frame."""
        return bytes(payload)


def build(config: dict) -> Canaries:
    """Imports the profile's own role first, so that what is tested is what will run."""
    if config["modules"]:
        importlib.import_module(f".{config['modules'][0]}", __package__)
    return Canaries()
