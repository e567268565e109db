"""Entry of a worker process: gives up every right that it does not need, then serves.

    python -I -B main.py READ_FD WRITE_FD CONFIG_JSON

The order of `start` is the order of the sandbox and is asserted by a test. CONFIG_JSON holds
nothing secret and names no file of the submission: that comes later, in LOAD.
"""

import ctypes
import importlib
import importlib.util
import json
import os
import resource
import signal
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = "rle_box"
"""Name under which a worker knows this folder; nothing else of the project can be imported."""

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP = 1, 4, 24
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
"""Options of prctl(2). Source: linux/prctl.h."""
CAPABILITY_VERSION_3 = 0x20080522
"""Header of capset(2). Source: linux/capability.h."""
NOFILE, NPROC, STACK_BYTES = 64, 64, 64 * 2**20
"""Limits on open files and processes, and of the stack."""

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, *args: int) -> None:
    values = [ctypes.c_ulong(a) for a in (*args, 0, 0, 0, 0)[:4]]
    if _libc.prctl(option, *values) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {option}: {os.strerror(code)}")


def _load_file(name: str, path: Path, folders: list[str] | None = None):
    """Imports one file under a name of our own; `folders` makes it a package."""
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folders)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} cannot be loaded")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _load_package() -> None:
    _load_file(PACKAGE, HERE / "__init__.py", [str(HERE)])


def _load_layer(name: str):
    return _load_file(f"{PACKAGE}_{name}", HERE.parent / "isolation" / f"{name}.py")


def close_other_fds(keep: set[int]) -> None:
    """Closes every descriptor but 0 to 2 and `keep`."""
    low = 3
    for fd in sorted(keep):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def set_rlimits(config: dict) -> None:
    """Bounds memory, files, processes and CPU time; soft and hard alike."""
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_FSIZE: config["fsize_bytes"],
        resource.RLIMIT_NOFILE: NOFILE,
        resource.RLIMIT_NPROC: NPROC,
        resource.RLIMIT_STACK: STACK_BYTES,
    }
    if config["memory_bytes"]:
        limits[resource.RLIMIT_AS] = config["memory_bytes"]
    if config["cpu_s"]:
        limits[resource.RLIMIT_CPU] = config["cpu_s"]
    for limit, value in limits.items():
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))


def drop_capabilities() -> None:
    """Empties the bounding, ambient, inheritable, permitted and effective sets."""
    for capability in range(64):
        if _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) != 0:
            break  # the first number that the kernel does not know, or not privileged to drop
    _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    if _libc.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"capset: {os.strerror(code)}")


def switch_uid(uid: int) -> None:
    """Becomes `uid` with no groups and no capability."""
    for capability in range(64):
        if _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) != 0:
            break
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def die_with_parent(ppid: int) -> None:
    """SIGKILL when the verifier dies; a change of credentials clears this, so it is set twice."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != ppid:
        raise SystemExit("the verifier is gone")


def no_new_privileges(ppid: int) -> None:
    """No set-user-id program can raise this process; nobody of its uid can read its memory."""
    die_with_parent(ppid)
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _prctl(PR_SET_DUMPABLE, 0)


def start(config: dict, channel_fds: tuple[int, int]):
    """Runs the start order; what the plan names and cannot be done is reported, not hidden.

    The libraries of the role are imported last, inside the sandbox: onnxruntime starts threads when
    it is imported, and a layer holds the thread that applied it and those that come after.

    Returns:
        The role object, the layers reached, and what failed as {layer: fact}.
    """
    die_with_parent(config["ppid"])
    os.setsid()
    os.umask(0o077)

    landlock, seccomp = _load_layer("landlock"), _load_layer("seccomp")
    if "seccomp" in config["layers"]:
        import pyseccomp  # noqa: F401  (starts helpers, so before the limits)
    close_other_fds(set(channel_fds) | set(config["keep_fds"]))
    steps = {
        "rlimits": lambda: set_rlimits(config),
        "uid": lambda: switch_uid(config["uid"]),
        "nocap": drop_capabilities,
        "nnp": lambda: no_new_privileges(config["ppid"]),
        "landlock": lambda: landlock.restrict(config["readable"], config["writable"]),
        "seccomp": lambda: seccomp.install(
            threads=config["threads"] > 0,
            folders=bool(config["writable"]),
            unix_sockets=config["unix_sockets"],
        ),
    }
    if (threads := len(os.listdir("/proc/self/task"))) != 1:
        raise SystemExit(f"{threads} threads before the sandbox; it would hold the first one only")
    reached, failed = [], {}
    for layer, apply in steps.items():
        if layer in config["layers"]:
            try:
                apply()
                reached.append(layer)
            except OSError as error:
                failed[layer] = str(error)[:200]
    tempfile.tempdir = "/tmp"  # libraries ask for its name when imported; nothing can be written
    _load_package()
    role = importlib.import_module(f"{PACKAGE}.{config['role']}").build(config)
    return role, reached, failed


def serve(channel, role) -> None:
    """Answers requests until CLOSE or the end of the stream."""
    wire = sys.modules[f"{PACKAGE}.wire"]
    while True:
        try:
            kind, sequence, payload = channel.recv()
        except wire.Closed:
            return
        if kind == wire.CLOSE:
            return
        try:
            if kind == wire.ACT:
                answer, answer_kind = role.act(payload), wire.REPLY
            else:
                method = role.load if kind == wire.LOAD else role.reset
                fields = method(wire.decode_fields(payload))
                answer, answer_kind = wire.encode_fields(fields or {}), wire.READY
        except wire.Fault as fault:
            record = {"code": fault.code, "fields": fault.fields}
            answer, answer_kind = wire.encode_fields(record), wire.FAULT
            if len(answer) > wire.FAULT_LIMIT:
                answer = wire.encode_fields({"code": fault.code, "fields": {}})
        channel.send(answer_kind, sequence, answer)


def main() -> None:
    read_fd, write_fd, config = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    role, reached, failed = start(config, (read_fd, write_fd))
    wire = importlib.import_module(f"{PACKAGE}.wire")
    channel = wire.Channel(read_fd, write_fd)
    hello = {"layers": reached, "failed": failed}
    channel.send(wire.HELLO, 0, wire.encode_fields(hello))
    serve(channel, role)
    sys.stdout.flush()
    os._exit(0)  # libraries that wait for threads they could not start would hang in their exit


if __name__ == "__main__":
    main()
