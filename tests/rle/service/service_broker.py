"""Runs a practice broker of the fake task in a process: `python service_broker.py ROOT KIND [OPTIONS]`.

KIND: `attempt` (one trial) or `development` (scenes by reset). Options: `scale=X` shortens the worker's
deadlines, `fsize=N` caps the size of every file it writes, `tcp` serves TCP.
"""

import json
import resource
import sys
from pathlib import Path

from service_fake import attempt, spec

from rle.service import hosting
from rle.service.adapter import PhaseSpec


def declared(kind: str):
    """The fake task as an attempt, or as endless development."""
    if kind == "attempt":
        return spec(attempt(steps=1_000_000))
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
    broker.session._link.deadline_scale = float(given.get("scale", 1.0))
    state = {
        "address": info.address, "token": str(info.token_file), "folder": str(info.folder),
        "simulators": sorted({"mujoco", "robosuite", "torch"} & set(sys.modules)),
    }  # fmt: skip
    (Path(root) / "ready.json").write_text(json.dumps(state))
    broker.run()
    sys.exit(4 if broker.session.is_full else 0)


if __name__ == "__main__":
    main()
