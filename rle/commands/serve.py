"""`rle serve`: the metered simulator service of a task on this machine, for practice."""

import contextlib
import dataclasses
import logging
import os
import sys
import textwrap
from pathlib import Path

import tyro

from rle.service import hosting
from rle.service.adapter import SessionSpec, session_spec

EXAMPLE = """import numpy as np, rle_client

with rle_client.connect() as sim:
    info = sim.task_info()
    print(info["instruction"])
    action = np.zeros(info["action_dim"])
    action[0] = 1.0  # what each number means: info["action_layout"]
    out = sim.step([action] * 20, observe=())
    print({name: value.round(3) for name, value in out.observation.items()})
    print(sim.status)
    # the one attempt ends with: sim.finish()
"""
"""Ten lines that move a robot; the help text and the manual show them, and a test runs them."""


@dataclasses.dataclass
class Serve:
    task: tyro.conf.Positional[str]
    """Task id, as in `rle list`: f01, f02 and f03 have a service."""
    tcp: str | None = None
    """Serve TCP on 127.0.0.1:PORT with a token, instead of a UNIX socket."""
    root: Path | None = None
    """Folder for sockets and records; default: this user's runtime folder."""
    new_session: bool = False
    """Start another session where the last one is sealed; without it, a sealed one is refused."""
    validation: bool = False
    """Answer the reference solvers' questions; marks the record."""
    no_sync: bool = False
    """Do not wait for the disk."""

    def run(self) -> int:
        logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
        spec = session_spec(self.task)
        broker, info = hosting.practice(
            spec, root=self.root, tcp=self.tcp, new_session=self.new_session,
            validation=self.validation, sync=not self.no_sync,
        )  # fmt: skip
        print(f"opening {self.task} ...", file=sys.stderr, flush=True)
        broker.session.start()
        print(directions(spec, info))
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.flush()
        broker.run(lambda: print(sealed(spec, info), file=sys.stderr, flush=True))
        return 4 if broker.session.is_full else os.EX_OK


Serve.__doc__ = f"""Serves a task's simulator here, metered as in the exam. Example: rle serve f03/tower

It prints the two `export` lines that another terminal needs. There:

{textwrap.indent(EXAMPLE, "  ")}"""


def directions(spec: SessionSpec, info: hosting.Practice) -> str:
    """What the user of a practice service types next."""
    lines = [f"serving {spec.task}; in another terminal:"]
    if info.token_file is not None:
        lines.append(f"  export RLE_TOKEN_FILE={info.token_file}")
    lines += [
        f"  export RLE_SOCKET={info.address}",
        f"  export PYTHONPATH={info.client}    # or: pip install {info.client}",
        f"  less {info.manual}    # every operation, its cost, actions, observation",
        "  python -c 'import rle_client; print(rle_client.connect().status)'",
        "The service ends when the session is over and its client has left; Ctrl-C ends it at once (an unfinished",
        "attempt is measured as it stands). Then:",
        f"  rle verify {spec.task} --submission {info.folder}",
        f"  rle serve {spec.task} --new-session    # practice again",
    ]
    return "\n".join(lines)


def sealed(spec: SessionSpec, info: hosting.Practice) -> str:
    """What the user reads when the session is over."""
    return (
        f"the session is over, its record is sealed in {info.folder}; "
        f"score it with: rle verify {spec.task} --submission {info.folder}"
    )
