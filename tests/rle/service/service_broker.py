"""Runs a practice broker of the fake task in a process: `python service_broker.py ROOT KIND [OPTIONS]`.

KIND: `attempt` (one trial), `short` (one of ten steps) or `development` (scenes by reset). Options: `scale=X` shortens the worker's
deadlines, `frame=S` shortens the deadline of a frame, `fsize=N` caps the size of every file it writes,
`tcp` serves TCP, `broken` makes the broker itself fail once, after a charge, `half=N` kills it in the middle of
its Nth write.
"""

import json
import os
import resource
import signal
import sys
from pathlib import Path

from service_fake import attempt, spec

from rle.service import hosting
from rle.service.adapter import PhaseSpec


def declared(kind: str):
    """The fake task as an attempt, or as endless development."""
    if kind in ("attempt", "short"):
        return spec(attempt(steps=10 if kind == "short" else 1_000_000))
    return spec(
        PhaseSpec(
            name="development", kind="development", steps=1_000_000, reset="new", reset_cost=1
        )
    )


def main() -> None:
    root, kind, *options = sys.argv[1:]
    given = dict(o.split("=") for o in options if "=" in o)
    if "fsize" in given:
        limit = int(given["fsize"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    broker, info = hosting.practice(
        declared(kind), root=Path(root), tcp="127.0.0.1:0" if "tcp" in options else None
    )
    broker.session.start()
    broker.session._course.link.deadline_scale = float(given.get("scale", 1.0))
    broker.frame_s = float(given.get("frame", broker.frame_s))
    if "half" in given:
        _die_inside_write(broker.session._course.ledger, int(given["half"]))
    if "broken" in options:
        _break_once(broker.session._course)
    state = {
        "address": info.address, "token": str(info.token_file), "folder": str(info.folder),
        "simulators": sorted({"mujoco", "robosuite", "torch"} & set(sys.modules)),
    }  # fmt: skip
    (Path(root) / "ready.json").write_text(json.dumps(state))
    broker.run()
    sys.exit(4 if broker.session.is_full else 0)


def _break_once(course) -> None:
    """The next confirm raises what no rule foresees."""
    whole = course.confirm

    def broken(*args) -> None:
        course.confirm = whole
        raise RuntimeError("secret of the broker")

    course.confirm = broken


def _die_inside_write(ledger, number: int) -> None:
    """Half of the data of a write reaches the file, then the process is gone."""
    whole, writes = ledger._write_all, [0]

    def torn(fd: int, data: bytes, size: int) -> None:
        writes[0] += 1
        if writes[0] == number:
            os.write(fd, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        whole(fd, data, size)

    ledger._write_all = torn


if __name__ == "__main__":
    main()
