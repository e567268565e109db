"""What the agent's user can reach in a running deployment: every probe of a wall must fail, every probe of
a door must succeed. Run as root; the probes run in a child that has become the agent.
"""

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec

from rle.errors import UserError
from rle.service.broker import control
from rle.service.client import connect
from rle.service.deploy.places import Places
from rle.service.record.ledger import ACTIONS_NAME, LEDGER_NAME

FORBIDDEN_MODULES = ("mujoco", "robosuite", "families", "rle", "verifier")
"""What the agent's own Python must not find."""
_PTRACE_ATTACH, _PTRACE_DETACH = 16, 17
_PROBE_S = 60.0


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One probe."""

    name: str
    is_wall: bool
    """True: it must fail."""
    worked: bool
    detail: str

    @property
    def ok(self) -> bool:
        return self.worked != self.is_wall


def selfcheck(places: Places, *, python: str | None = None) -> list[Finding]:
    """Probes a deployment as its agent.

    Args:
        places: Where its parts lie; the broker is running and no client is connected.
        python: Interpreter of the agent; default the first `python3` of the system's PATH.

    Raises:
        UserError: Not root, or no broker answers.
    """
    if os.geteuid() != 0:
        raise UserError("the self-check becomes the agent's user; run it as root")
    try:
        pids = control(places.control, "status")["pids"]
    except OSError as error:
        raise UserError(f"no broker answers at {places.control} ({error}); run rle-up") from error
    python = python or shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") or "python3"
    walls, doors = _walls(places, pids, python), _doors(places)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        code = 1
        try:
            _become(places.agent_uid)
            found = [_probe(n, True, f) for n, f in walls] + [_probe(n, False, f) for n, f in doors]
            os.write(writer, msgspec.json.encode(found))
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        data = file.read()
    os.waitpid(child, 0)
    return msgspec.json.decode(data, type=list[Finding])


def _become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.chdir("/")


def _probe(name: str, is_wall: bool, attempt: Callable[[], object]) -> Finding:
    signal.alarm(int(_PROBE_S))
    try:
        answer = attempt()
        return Finding(name=name, is_wall=is_wall, worked=True, detail=str(answer or "")[:200])
    except Exception as error:  # noqa: BLE001 - whatever stops the agent is the finding
        text = f"{type(error).__name__}: {error}"
        return Finding(name=name, is_wall=is_wall, worked=False, detail=text[:200])
    finally:
        signal.alarm(0)


def _walls(places: Places, pids: list[int], python: str) -> list[tuple[str, Callable[[], object]]]:
    secrets = [places.profile, places.private / "salt", places.private / "broker.key",
               places.session / LEDGER_NAME, places.session / ACTIONS_NAME,
               places.snapshot]  # fmt: skip
    found: list[tuple[str, Callable[[], object]]] = [
        (f"read {path}", lambda p=path: _read(p)) for path in secrets
    ]
    folders = (places.private, places.code, places.state, places.session, places.handover)
    found += [(f"list {path}", lambda p=path: os.listdir(p)) for path in folders]
    found += [
        (
            f"append to {places.session / LEDGER_NAME}",
            lambda: _append(places.session / LEDGER_NAME),
        ),
        ("connect to the control socket", lambda: _dial(places.control)),
        ("bind the public socket's path", lambda: _bind(places.socket)),
        ("replace the public socket", lambda: places.socket.unlink()),
    ]
    found += [(f"import {name}", lambda n=name: _import(python, n)) for name in FORBIDDEN_MODULES]
    for pid in pids:
        found += [
            (
                f"read /proc/{pid}/{name}",
                lambda p=pid, n=name: _read(Path(f"/proc/{p}/{n}")),
            )
            for name in ("environ", "mem")
        ]
        found += [
            (f"list /proc/{pid}/fd", lambda p=pid: os.listdir(f"/proc/{p}/fd")),
            (f"signal {pid}", lambda p=pid: os.kill(p, 0)),
            (f"trace {pid}", lambda p=pid: _trace(p)),
        ]
    return found


def _doors(places: Places) -> list[tuple[str, Callable[[], object]]]:
    return [
        ("connect and ask for the status", lambda: _status(places.socket)),
        (f"write to {places.workspace}", lambda: _write(places.workspace)),
    ]


def _read(path: Path) -> None:
    with path.open("rb") as file:
        file.read(1)


def _append(path: Path) -> None:
    with path.open("ab"):
        pass


def _dial(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(str(path))


def _bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.bind(str(path))


def _import(python: str, name: str) -> None:
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    code = f"import {name}"
    subprocess.run([python, "-c", code], check=True, capture_output=True, env=env, timeout=_PROBE_S)


def _trace(pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(_PTRACE_ATTACH, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.waitpid(pid, 0)
    libc.ptrace(_PTRACE_DETACH, pid, None, None)


def _status(path: Path) -> str:
    with connect(str(path), timeout_s=_PROBE_S) as sim:
        return json.dumps({"phase": sim.fetch_status().phase})


def _write(folder: Path) -> None:
    path = folder / ".rle-selfcheck"
    path.write_text("x")
    path.unlink()
