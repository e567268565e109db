"""Broker and simulator in the caller's process: same session, same record, no socket.

with embedded.open("f03/tower") as sim:
    sim.step([[0.0] * 12])
"""

import tempfile
from pathlib import Path

from rle.seeds import PRACTICE_SALT
from rle.service.adapter import SessionSpec, TaskAdapter, session_spec
from rle.service.client import Client
from rle.service.course import Course, Profile
from rle.service.record.keys import SigningKey
from rle.service.session import Session
from rle.service.supervisor import InProcess


class _Direct:
    """Hands request bodies to a session in this process."""

    def __init__(self, session: Session, on_close) -> None:
        self._session = session
        self._on_close = on_close

    def round_trip(self, body: bytes) -> bytes:
        return self._session.handle(body)

    def close(self) -> None:
        self._on_close()


class EmbeddedClient(Client):
    """A client whose session lives in this process.

    Attributes:
        session: The session, for `seal` and `tick`.
        folder: Where its record is written.
    """

    def __init__(self, session: Session, folder: Path, on_close) -> None:
        super().__init__(_Direct(session, on_close), session.hello())
        self.session = session
        self.folder = folder

    def __enter__(self) -> "EmbeddedClient":
        return self


def open(  # noqa: A001 - reads as `embedded.open(...)`
    task: str | SessionSpec, *, folder: Path | None = None, key: SigningKey | None = None,
    salt: bytes = PRACTICE_SALT, profile: Profile | None = None,
    adapter: TaskAdapter | None = None,
) -> EmbeddedClient:  # fmt: skip
    """Opens a practice session of a task.

    Args:
        task: Task id, or a session declaration of one's own.
        folder: Session folder; None makes a temporary one that goes away with the client.
        key: Signs the record; None makes one on the spot.
        salt: Decides the drawn instance.
        profile: Default: practice, with disk syncs off.
        adapter: Ready-made simulator side (tests).

    Raises:
        UserError: Unknown task, or one without a service.
        InfrastructureError: The simulator cannot open the first scene.
    """
    spec = session_spec(task) if isinstance(task, str) else task
    temporary = None
    if folder is None:
        temporary = tempfile.TemporaryDirectory(prefix="rle-session-")
        folder = Path(temporary.name)
    profile = profile or Profile(task=spec.task, layout="practice", sync=False)
    course = Course(
        spec, folder, InProcess(spec, adapter), key=key or SigningKey.generate(), salt=salt,
        profile=profile,
    )  # fmt: skip
    session = Session(course)
    try:
        session.start()
    except BaseException:
        session.close()
        raise

    def on_close() -> None:
        session.seal("closed")
        session.close()
        if temporary is not None:
            temporary.cleanup()

    return EmbeddedClient(session, folder, on_close)
