"""Puts a broker together: from a deployment's private files, or for practice on a laptop; and hands over.

deployment   /opt/rle/private/{profile.json, salt, broker.key}, state in /var/lib/rle
practice     a key made on the spot, the public practice salt, state in the user's runtime folder
"""

import json
import os
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from rle.errors import UserError
from rle.seeds import PRACTICE_SALT
from rle.service import manual, wheel
from rle.service.adapter import SessionSpec, session_spec
from rle.service.broker import Broker, control, listen_tcp, listen_unix
from rle.service.course import Course, Profile
from rle.service.protocol import ProtocolError
from rle.service.record.keys import SigningKey
from rle.service.record.ledger import ACTIONS_NAME, LEDGER_NAME
from rle.service.session import Session
from rle.service.supervisor import Supervisor

STATE = Path("/var/lib/rle")
SOCKET = Path("/run/rle/sim.sock")
PRIVATE = Path("/opt/rle/private")
WORKER_LOG = "worker.log"
FAILURE = "failure.json"
PR_SET_DUMPABLE = 4


def load_profile(path: Path) -> Profile:
    """Reads `profile.json`; an unknown key is an error.

    Raises:
        UserError: Missing or malformed; names the key.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Profile)
    except FileNotFoundError:
        raise UserError(f"{path} is missing; make a deployment with `rle deploy`") from None
    except msgspec.DecodeError as error:
        raise UserError(f"{path}: {error}; known keys: {', '.join(_profile_keys())}") from None


def _profile_keys() -> tuple[str, ...]:
    return Profile.__struct_fields__


def deployed(
    profile_path: Path = PRIVATE / "profile.json", *, state: Path = STATE, socket: Path = SOCKET
) -> Broker:
    """Broker of a deployment, from the files beside `profile.json`."""
    _undumpable()
    profile = load_profile(profile_path)
    key = SigningKey.load(profile_path.parent / "broker.key")
    salt = (profile_path.parent / "salt").read_bytes()
    return _broker(
        session_spec(profile.task), profile, key, salt, state / "session",
        listener=listen_unix(socket), control_path=state / "control.sock",
    )  # fmt: skip


class Practice(msgspec.Struct, frozen=True, kw_only=True):
    """Where a practice service listens and records."""

    address: str
    """For `rle_client.connect`: a socket path or tcp://127.0.0.1:PORT."""
    token_file: Path | None
    folder: Path
    """Session folder; a hand-over folder for `rle verify` when the session is over."""
    client: Path
    """The wheel of `rle_client`, which Python imports as it is."""
    manual: Path
    """Manual page of the task."""


def practice(
    spec: SessionSpec, *, root: Path | None = None, tcp: str | None = None,
    new_session: bool = False, validation: bool = False, sync: bool = True,
) -> tuple[Broker, Practice]:  # fmt: skip
    """Broker of a practice session on this machine.

    Args:
        spec: Declaration of the task.
        root: Folder of the service's files; default `$XDG_RUNTIME_DIR/rle`, else a folder of this
            user under the temporary one.
        tcp: "127.0.0.1:PORT" serves TCP with a token instead of a UNIX socket.
        new_session: Starts the next session when one is sealed already.
        validation: Serves the privileged state to the reference solvers; marks the record.
        sync: False skips disk syncs.
    """
    root = root or runtime_folder()
    home = root / spec.task.replace("/", "-")
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    index = _session_index(home, new_session)
    folder = home / f"session-{index}"
    key_file = home / "broker.key"
    if not key_file.exists():
        SigningKey.generate().save(key_file, home / "broker.pub")
    profile = Profile(task=spec.task, layout="practice", validation=validation, sync=sync)
    token_file = None
    token = None
    if tcp is None:
        listener = listen_unix(home / "sim.sock", 0o600)
        address = str(home / "sim.sock")
    else:
        listener = listen_tcp(tcp)
        address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        token, token_file = secrets.token_hex(32), home / "token"
        token_file.unlink(missing_ok=True)
        fd = os.open(token_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(token + "\n")
    broker = _broker(
        spec, profile, SigningKey.load(key_file), PRACTICE_SALT, folder, listener=listener,
        control_path=home / "control.sock", token=token, session_index=index,
    )  # fmt: skip
    client = wheel.build(home / "client", wheel.family_clients())
    page = home / "MANUAL.md"
    page.write_text(manual.manual(spec))
    return broker, Practice(
        address=address, token_file=token_file, folder=folder, client=client, manual=page
    )


def runtime_folder() -> Path:
    """This user's folder for sockets and practice records."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base) / "rle" if base else Path(tempfile.gettempdir()) / f"rle-{os.getuid()}"


def _session_index(home: Path, new_session: bool) -> int:
    found = sorted(int(p.name.split("-")[1]) for p in home.glob("session-*"))
    last = found[-1] if found else 0
    return last + 1 if found and new_session else last


def _broker(
    spec: SessionSpec, profile: Profile, key: SigningKey, salt: bytes, folder: Path, *,
    listener, control_path: Path, token: str | None = None, session_index: int = 0,
) -> Broker:  # fmt: skip
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    env = {**os.environ, "MUJOCO_GL": profile.gl}
    link = Supervisor(spec, folder / WORKER_LOG, env)
    course = Course(
        spec, folder, link, key=key, salt=salt, profile=profile, session_index=session_index
    )
    return Broker(Session(course), listener, control_path=control_path, token=token)


def export(state: Path, target: Path, *, session: Path | None = None) -> Path:
    """Copies the record to the hand-over folder; says so there when the broker did not answer.

    Args:
        state: Folder of the service's state (`/var/lib/rle`).
        target: Hand-over folder, made 0700.
        session: Session folder; default `state/session`.

    Returns:
        The hand-over folder.
    """
    session = session or state / "session"
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chmod(target, 0o700)
    for name in (LEDGER_NAME, ACTIONS_NAME, WORKER_LOG):
        source = session / name
        if source.is_file() and not source.is_symlink():
            shutil.copyfile(source, target / name)
    return target


def seal_and_export(state: Path, target: Path, reason: str, *, patience_s: float = 10.0) -> bool:
    """The hand-over hook: seals, exports, and leaves `failure.json` when no broker answered.

    Returns:
        True when the record is sealed.
    """
    end = time.monotonic() + patience_s
    sealed = False
    while not sealed:
        try:
            sealed = bool(control(state / "control.sock", "seal", reason=reason)["sealed"])
        except (OSError, TimeoutError, ProtocolError):
            if time.monotonic() > end:
                break
            time.sleep(0.2)
    export(state, target)
    failure = target / FAILURE
    if sealed or _ends_sealed(target / LEDGER_NAME):
        failure.unlink(missing_ok=True)
        return True
    utc = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    failure.write_text(json.dumps({"reason": "broker_failed", "utc": utc}) + "\n")
    return False


def _ends_sealed(path: Path) -> bool:
    if not path.is_file():
        return False
    lines = path.read_bytes().splitlines()
    return bool(lines) and b'"k":"seal"' in lines[-1]


def _undumpable() -> None:
    """Other processes of this uid cannot read the broker's memory."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
