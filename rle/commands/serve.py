"""`rle serve`: the metered simulator service of a task on this machine, for practice."""

import contextlib
import dataclasses
import logging
import os
import sys
from pathlib import Path

import tyro

from rle.service import hosting
from rle.service.adapter import session_spec


@dataclasses.dataclass
class Serve:
    """Serve a task's simulator here. Example: rle serve f03/tower; then rle_client.connect()"""

    task: tyro.conf.Positional[str]
    """Task id, as in `rle list`: f01, f02 and f03 have a service."""
    tcp: str | None = None
    """Serve TCP on 127.0.0.1:PORT with a token, instead of a UNIX socket."""
    root: Path | None = None
    """Folder for sockets and records; default: this user's runtime folder."""
    new_session: bool = False
    """Start the next session when the last one is sealed."""
    validation: bool = False
    """Answer the reference solvers' questions; marks the record."""
    no_sync: bool = False
    """Do not wait for the disk."""

    def run(self) -> int:
        logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
        broker, info = hosting.practice(
            session_spec(self.task), root=self.root, tcp=self.tcp, new_session=self.new_session,
            validation=self.validation, sync=not self.no_sync,
        )  # fmt: skip
        print(f"opening {self.task} ...", file=sys.stderr, flush=True)
        broker.session.start()
        print(f"serving {self.task}; in another terminal:")
        if info.token_file is not None:
            print(f"  export RLE_TOKEN_FILE={info.token_file}")
        print(f"  export RLE_SOCKET={info.address}")
        print("  python -c 'import rle.service.client as c; print(c.connect().status)'")
        print(f"then, when the session is over: rle verify {self.task} --submission {info.folder}")
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.flush()
        broker.run()
        return 4 if broker.session.is_full else os.EX_OK
