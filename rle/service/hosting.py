"""Puts a broker together: from a deployment's private files, or for practice on a laptop.

deployment   /opt/rle/private/{profile.json, salt, broker.key}, state in /var/lib/rle
practice     a key made on the spot, the public practice salt, state in the user's runtime folder
"""

import os
import secrets
import sys
import tempfile
from pathlib import Path

import msgspec

from rle.errors import UserError
from rle.seeds import PRACTICE_SALT
from rle.service import manual
from rle.service.adapter import SessionSpec, session_spec
from rle.service.broker import Broker, listen_tcp, listen_unix
from rle.service.course import Course, Profile
from rle.service.deploy import wheel
from rle.service.deploy.places import Places
from rle.service.record.keys import SigningKey
from rle.service.session import Session
from rle.service.supervisor import WORKER_LOG, Supervisor

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


def deployed(places: Places) -> Broker:
    """Broker of a deployment, from the files beside `profile.json`.

    An image built without key and salt serves practice: a key made on the spot, the public salt.
    """
    _undumpable()
    profile = load_profile(places.profile)
    key_file, salt_file = places.private / "broker.key", places.private / "salt"
    if not key_file.exists() and not salt_file.exists():
        profile = msgspec.structs.replace(profile, layout="practice")
        key, salt = _own_key(places.state), PRACTICE_SALT
    else:
        if not salt_file.is_file():
            raise UserError(
                f"{salt_file} is missing beside {key_file.name}; make a deployment with `rle deploy`"
            )
        key, salt = SigningKey.load(key_file), salt_file.read_bytes()
    return _broker(
        session_spec(profile.task), profile, key, salt, places.session,
        listener=listen_unix(places.socket), control_path=places.control,
    )  # fmt: skip


def _own_key(folder: Path) -> SigningKey:
    """The practice key of a folder, made when it is first asked for."""
    path = folder / "broker.key"
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        SigningKey.generate().save(path, folder / "broker.pub")
    return SigningKey.load(path)


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
        spec, profile, _own_key(home), PRACTICE_SALT, folder, listener=listener,
        control_path=home / "control.sock", token=token, session_index=index,
    )  # fmt: skip
    client = wheel.build(home / "client")
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


def _undumpable() -> None:
    """Other processes of this uid cannot read the broker's memory."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
