"""Runs a practice broker of the fake task in a process: `python service_broker.py ROOT KIND [OPTIONS]`.

KIND: `attempt` (one trial), `short` (one of ten steps), `development` (scenes by reset) or
`steps` (development and two evaluation phases), `paced` (as `attempt`, steps as long as real ones). Options: `scale=X` shortens the worker's
deadlines, `frame=S` and `patience=S` shorten the deadlines of a frame and of the control, `fsize=N` caps the size of every file it writes,
`tcp` serves TCP, `nosync` does not wait for the disk, `deployed` reads
key and salt from ROOT/private (made on the first start) and keeps its state in ROOT/state, `broken` makes the broker itself fail once, after a charge, `half=N` kills it in the middle of
its Nth write, `ends` lets the broker end with its session, as `rle serve` does, and adds an x to ROOT/sealed
whenever it is told of the seal.
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
from rle.service.deploy.places import Places
from rle.service.record import SigningKey


def declared(kind: str):
    """The fake task as an attempt, or as endless development."""
    if kind in ("attempt", "short"):
        return spec(attempt(steps=10 if kind == "short" else 1_000_000))
    if kind == "paced":
        return spec(attempt(steps=1_000_000), adapter="service_fake:Paced")
    if kind == "steps":
        return spec(
            PhaseSpec(name="development", kind="development", steps=50, reset="new", reset_cost=1),
            *(
                PhaseSpec(
                    name=name, kind="evaluation", trials=1, trial_steps=20, advance="control",
                )
                for name in ("eval_01", "eval_02")
            ),
        )  # fmt: skip
    return spec(
        PhaseSpec(
            name="development", kind="development", steps=1_000_000, reset="new", reset_cost=1
        )
    )


def places_of(root: Path) -> Places:
    """A deployment below one folder."""
    return Places(
        private=root / "private", state=root / "state", socket=root / "run" / "sim.sock",
        keeper=root / "keeper", workspace=root / "workspace", code=root / "code",
    )  # fmt: skip


def write_private(folder: Path, task: str) -> None:
    """What a deployment's image holds: profile, key, salt."""
    if folder.exists():
        return
    folder.mkdir(mode=0o700)
    (folder / "profile.json").write_text(json.dumps({"task": task, "sync": False}))
    (folder / "salt").write_bytes(os.urandom(32))
    (folder / "salt").chmod(0o600)
    SigningKey.generate().save(folder / "broker.key", folder / "broker.pub")


def _deployed(root: Path, kind: str):
    places = places_of(root)
    write_private(places.private, "f03/tower")
    hosting.session_spec = lambda task: declared(kind)
    return hosting.deployed(places), {
        "address": str(places.socket), "token": "", "folder": str(places.session),
    }  # fmt: skip


def _practice(root: Path, kind: str, tcp: bool, sync: bool):
    broker, info = hosting.practice(
        declared(kind), root=root, tcp="127.0.0.1:0" if tcp else None, sync=sync
    )
    return broker, {
        "address": info.address, "token": str(info.token_file), "folder": str(info.folder),
    }  # fmt: skip


def main() -> None:
    root, kind, *options = sys.argv[1:]
    given = dict(o.split("=") for o in options if "=" in o)
    if "fsize" in given:
        limit = int(given["fsize"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    broker, state = _deployed(Path(root), kind) if "deployed" in options else _practice(
        Path(root), kind, "tcp" in options, "nosync" not in options
    )  # fmt: skip
    broker.session.start()
    broker.session._course.link.deadline_scale = float(given.get("scale", 1.0))
    broker.patience_s = float(given.get("patience", broker.patience_s))
    broker.frame_s = float(given.get("frame", broker.frame_s))
    if "half" in given:
        _die_inside_write(broker.session._course.ledger, int(given["half"]))
    if "broken" in options:
        _break_once(broker.session._course)
    state["simulators"] = sorted({"mujoco", "robosuite", "torch"} & set(sys.modules))
    (Path(root) / "ready.part").write_text(json.dumps(state))
    (Path(root) / "ready.part").rename(Path(root) / "ready.json")
    broker.run((lambda: _add_x(Path(root) / "sealed")) if "ends" in options else None)
    sys.exit(4 if broker.session.is_full else 0)


def _add_x(path: Path) -> None:
    with path.open("a") as file:
        file.write("x")


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
