"""Keeps the broker of a container alive, and answers the one question that needs root before the first step.

`rle-up` (health check and entry point) starts a keeper when none lives and waits for the broker's greeting.
The keeper runs the broker as its own user and starts it again one second after it died; a broker that
ended on purpose stays ended.
"""

import contextlib
import fcntl
import logging
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

from rle.errors import UserError
from rle.service.broker import listen_unix
from rle.service.deploy import snapshot
from rle.service.deploy.places import Places
from rle.service.frames import ProtocolError, recv_frame
from rle.service.protocol import (
    MAX_REPLY_BYTES,
)

log = logging.getLogger(__name__)
FINAL_CODES = frozenset({0, 2, 3, 4})
"""Exit codes of a broker that must not be started again: sealed, misconfigured, not to be served, full."""
RESTART_S = 1.0
SNAPSHOT = b"snapshot\n"


def up(places: Places, *, timeout_s: float = 50.0) -> bool:
    """Starts the keeper when none lives; True when the broker greets, or the task has none.

    Args:
        places: See there.
        timeout_s: Longest wait for the greeting.
    """
    if not places.profile.is_file():
        return True
    kept = None
    if not _is_kept(places):
        places.keeper.mkdir(mode=0o755, parents=True, exist_ok=True)
        with (places.keeper / "keeper.log").open("ab") as out:
            kept = subprocess.Popen(
                [sys.executable, "-m", "rle.service", *places.arguments(), "keep"],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, cwd="/",
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)},
            )  # fmt: skip
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if greets(places.socket):
            return True
        if kept is not None and kept.poll():
            log.error("the keeper ended with code %d; see %s", kept.returncode, places.keeper)
            return False
        time.sleep(0.1)
    return False


def greets(path: Path) -> bool:
    """True when a broker says hello there, or that it is busy with its client."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        try:
            sock.connect(str(path))
            return recv_frame(sock, MAX_REPLY_BYTES, idle_s=5.0) is not None
        except (OSError, ProtocolError):
            return False


def keep(places: Places) -> int:
    """The keeper's process: returns when another one lives; else runs as long as the container."""
    lock = os.open(places.keeper_lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    _make_folders(places)
    door = listen_unix(places.keeper_socket)
    door.listen(4)
    broker: subprocess.Popen | None = None
    is_over = False
    while True:
        if broker is None and not is_over:
            broker = _start(places)
        if select.select([door], [], [], RESTART_S)[0]:
            _answer(door, places)
        if broker is not None and broker.poll() is not None:
            log.warning("the broker ended with code %d", broker.returncode)
            is_over = broker.returncode in FINAL_CODES
            broker = None


def ask_snapshot(places: Places, *, timeout_s: float = 120.0) -> bool:
    """Asks the keeper to store the agent's files; False when that has been done before.

    Raises:
        UserError: No keeper answers.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(timeout_s)
        try:
            sock.connect(str(places.keeper_socket))
            sock.sendall(SNAPSHOT)
            return sock.recv(16) == b"taken\n"
        except OSError as error:
            raise UserError(
                f"no keeper answers at {places.keeper_socket} ({error}); run rle-up first",
                code="keeper.gone",
            ) from error


def _answer(door: socket.socket, places: Places) -> None:
    """One connection: whoever asks, the snapshot is taken once, before there is anything to hide."""
    sock, _ = door.accept()
    with sock, contextlib.suppress(OSError):
        sock.settimeout(1.0)
        if sock.recv(16) == SNAPSHOT:
            taken = snapshot.take(places.agent_uid, snapshot.roots_of(places), places.snapshot)
            sock.sendall(b"taken\n" if taken else b"was taken before\n")


def _start(places: Places) -> subprocess.Popen:
    argv = [sys.executable, "-m", "rle.service", *places.arguments()]
    as_root = os.getuid() == 0
    uid = places.service_uid if as_root else None
    with (places.keeper / "broker.log").open("ab") as out:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/", user=uid, group=uid,
            extra_groups=_render_groups() if as_root else None,
        )  # fmt: skip


def _render_groups() -> list[int]:
    """Groups that own this machine's graphics devices."""
    devices = [*Path("/dev/dri").glob("render*"), *Path("/dev").glob("nvidia*")]
    return sorted({path.stat().st_gid for path in devices} - {0})


def _make_folders(places: Places) -> None:
    """Folders of the service's user: its state, closed, and that of the public socket, open."""
    for folder, mode in ((places.state, 0o700), (places.socket.parent, 0o755)):
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
        if os.getuid() == 0:
            os.chown(folder, places.service_uid, places.service_uid)
        os.chmod(folder, mode)


def _is_kept(places: Places) -> bool:
    """Whether a living keeper holds the lock."""
    try:
        fd = os.open(places.keeper_lock, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
