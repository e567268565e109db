"""Trains a recipe and serves what it left: two workers, and between them a folder that is frozen.

    train   solution.py in `recipe_train`: a writable output folder and a scratch folder, no network
    freeze  the worker and its uid are dead; the output goes through the intake like a submission
    serve   solution.py in `recipe_serve`: the frozen checkpoint to read, one folder for a socket

What a recipe prints is kept as its log and never read. Its exit code and its files are all that counts.
"""

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rle.contracts import CheckpointContract, RecipeRun
from rle.errors import BudgetExceeded, InvalidSubmission
from rle.spec import ArtifactContract, ArtifactEntry
from rle.verify_api import Checked, TrialFault
from verifier.box import wire
from verifier.context import Settings
from verifier.isolation.channel import ChannelTimeout, ProtocolFault
from verifier.isolation.checks import Checker
from verifier.isolation.launch import LaunchSpec, Sandboxed, WorkerDied
from verifier.submission import Frozen, freeze

POLL_S = 0.5
"""How often the scratch folders are measured while a recipe trains."""
BIND_POLL_S = 0.05
"""How often a server's socket is looked for."""
SEND_CAP_S = 10.0
"""Longest time to hand a worker its request."""
MAX_ENTRIES = 10_000
"""Files of a scratch folder that are counted; more are refused."""
RUN = wire.FUNCTION.pack(0)
LIMITS = {wire.REPLY: wire.FUNCTION.size, wire.FAULT: wire.FAULT_LIMIT}
LEFT_UNFINISHED = frozenset({"file.none", "file.missing", "file.empty", "ckpt.load"})
"""Findings that only say that a stopped training had not written its checkpoint yet."""


@dataclass(frozen=True)
class Trained:
    """Implements `rle.verify_api.Trained`: what training left, frozen and checked."""

    output: Frozen
    facts: dict
    """`ckpt_elements`, `ckpt_bytes`."""
    wall_s: float
    stopped: bool
    """It was still running at its limit; the checkpoint is what it had written by then."""

    @property
    def checkpoint(self) -> Path:
        return self.output.folder / self.output.names()[0]


def train(settings: Settings, source: Checked, run: RecipeRun, work: Path) -> Trained:
    """Trains once.

    Args:
        settings: Those of the verification.
        source: The checked `solution.py`.
        run: Limits and data.
        work: Folder of the verifier; output, scratch and the frozen copy go below it.

    Raises:
        InvalidSubmission: `recipe.*`, `ckpt.*` or `file.*` of the output.
        BudgetExceeded: `recipe.time`: stopped without a complete checkpoint.
    """
    output, scratch = _folders(work, "output", "scratch")
    environment = _environment(run, "train", scratch) | {run.output_variable: str(output)}
    launch = LaunchSpec(
        profile="recipe_train",
        role="recipe.run_box",
        plan=settings.plan,
        submission=settings.submission.folder,
        readable=(*run.readable, *run.served),
        memory_bytes=run.memory_bytes,
        writable=(output, scratch),
    )
    start_s = time.monotonic()
    with Sandboxed(launch) as worker:
        try:
            _load(worker, settings, source, environment)
            stopped = _await_end(worker, run, (output, scratch), start_s)
        finally:
            (settings.log_folder / f"{work.name}.log").write_text(worker.log_text())
    wall_s = time.monotonic() - start_s
    try:
        frozen, facts = _freeze(settings, run, output, work / "frozen")
    except InvalidSubmission as error:
        if stopped and error.code in LEFT_UNFINISHED:
            raise BudgetExceeded("recipe.time", s=run.train_s, path=run.checkpoint.path) from error
        if error.code.startswith("file."):
            raise InvalidSubmission("recipe.output", fact=error.message) from error
        raise
    return Trained(frozen, facts, wall_s, stopped)


def _load(
    worker: Sandboxed, settings: Settings, source: Checked, environment: Mapping[str, str]
) -> None:
    fields = {
        "root": str(settings.submission.folder),
        "path": source.files[0],
        "environment": dict(environment),
    }
    limits = {wire.READY: wire.FAULT_LIMIT, wire.FAULT: wire.FAULT_LIMIT}
    cap_s = worker.profile.load_cap_s
    worker.request(wire.LOAD, wire.encode_fields(fields), cap_s, limits, charge=False)
    worker.begin(wire.ACT, RUN, SEND_CAP_S)


def _await_end(
    worker: Sandboxed, run: RecipeRun, folders: tuple[Path, ...], start_s: float
) -> bool:
    """Waits for the end of training; True if it had to be stopped.

    Raises:
        InvalidSubmission: `recipe.train`, `recipe.died` or `recipe.scratch`.
    """
    asked = False
    while True:
        passed_s = time.monotonic() - start_s
        if passed_s >= run.train_s + run.allowance_s:
            worker.kill()
            return True
        if passed_s >= run.train_s and not asked:
            asked = True
            worker.stop()
        try:
            _, reply = worker.finish(POLL_S, LIMITS)
        except ChannelTimeout:
            if sum(usage(folder) for folder in folders) > run.scratch_bytes:
                worker.kill()
                raise InvalidSubmission("recipe.scratch", max=run.scratch_bytes) from None
            continue
        except WorkerDied as death:
            if asked:
                return True
            memory = "all" if run.memory_bytes is None else f"{run.memory_bytes:,} bytes"
            raise InvalidSubmission("recipe.died", fact=str(death), memory=memory) from None
        except ProtocolFault as fault:
            raise InvalidSubmission(fault.code) from None
        (code,) = wire.FUNCTION.unpack(reply)
        if code and not asked:
            raise InvalidSubmission("recipe.train", status=code)
        return asked


def usage(folder: Path) -> int:
    """Bytes on disk below a folder that somebody else is writing; nothing is followed.

    Beyond `MAX_ENTRIES` entries the answer is more than any limit.
    """
    total, entries, pending = 0, 0, [str(folder)]
    while pending:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as found:
            for entry in found:
                entries += 1
                if entries > MAX_ENTRIES:
                    return 2**63
                with contextlib.suppress(OSError):
                    info = entry.stat(follow_symlinks=False)
                    total += info.st_blocks * 512
                    if stat.S_ISDIR(info.st_mode):
                        pending.append(entry.path)
    return total


def _freeze(settings: Settings, run: RecipeRun, output: Path, target: Path) -> tuple[Frozen, dict]:
    """The output through the intake and the check; nobody can write it any more."""
    os.chown(output, os.geteuid(), os.getegid())
    c = run.checkpoint
    contract = ArtifactContract(
        entries=(
            ArtifactEntry(path=c.path, kind="recipe", max_bytes=c.max_bytes),
            ArtifactEntry(
                path=c.meta_path, kind="data", max_bytes=c.meta_max_bytes, required=False
            ),
        ),
        max_files=2,
        max_total_bytes=c.max_bytes + c.meta_max_bytes,
    )
    frozen = freeze(output, target, msgspec.structs.replace(settings.task, artifact=contract))
    if c.meta_path in frozen.names():
        _check_meta(frozen, c)
    checked = Checker(frozen, settings.plan).check("recipe", c)
    return frozen, checked.facts


def _check_meta(frozen: Frozen, contract: CheckpointContract) -> None:
    try:
        msgspec.json.decode(frozen.read(contract.meta_path), type=dict)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        fact = f"{contract.meta_path} must be a JSON object"
        raise InvalidSubmission("recipe.output", fact=fact) from None


class Server:
    """Implements `rle.verify_api.Server`: a recipe that serves. What it answers on its socket is as untrusted as everything else of it."""

    def __init__(self, worker: Sandboxed, socket: Path) -> None:
        self._worker = worker
        self.socket = socket
        """Unix socket to connect to."""

    def check(self) -> None:
        """To be called between requests: takes what the server printed, and notices its end.

        Raises:
            TrialFault: `worker_died`: it exited, was killed, or wrote to the verifier's channel.
        """
        try:
            self._worker.finish(0.001, LIMITS)
        except ChannelTimeout:
            return
        except ProtocolFault as fault:
            raise TrialFault("worker_died", fault.code, fault.fact) from None
        except WorkerDied as death:
            raise TrialFault("worker_died", "worker.died", str(death)) from None
        raise TrialFault("worker_died", "worker.died", "it returned")


@contextlib.contextmanager
def serve(
    settings: Settings, source: Checked, trained: Trained, run: RecipeRun, name: str
) -> Generator[Server]:
    """Starts a server and waits for its socket; leaving the context ends everything of it.

    Args:
        settings: Those of the verification.
        source: The checked `solution.py`.
        trained: What it left; the server sees the frozen copy alone.
        run: Limits and data.
        name: Of its log.

    Raises:
        InvalidSubmission: `recipe.serve`: no socket in time.
    """
    shared = Path(tempfile.mkdtemp(prefix="rle-socket-"))  # a socket's path has 107 bytes at most
    path = shared / "policy.sock"
    environment = _environment(run, "serve", shared) | {
        run.checkpoint_variable: str(trained.checkpoint),
        run.socket_variable: str(path),
    }
    launch = LaunchSpec(
        profile="recipe_serve",
        role="recipe.run_box",
        plan=settings.plan,
        submission=settings.submission.folder,
        readable=(trained.output.folder, *run.served),
        memory_bytes=run.memory_bytes,
        writable=(shared,),
    )
    try:
        with Sandboxed(launch) as worker:
            try:
                _load(worker, settings, source, environment)
                server = Server(worker, path)
                _await_socket(server, worker.uid, run.bind_s)
                yield server
            finally:
                (settings.log_folder / f"{name}.log").write_text(worker.log_text())
    finally:
        shutil.rmtree(shared, ignore_errors=True)


def _await_socket(server: Server, uid: int, bind_s: float) -> None:
    deadline_s = time.monotonic() + bind_s
    fact = "nothing is there"
    while time.monotonic() < deadline_s:
        try:
            info = os.lstat(server.socket)
        except FileNotFoundError:
            pass
        else:
            if stat.S_ISSOCK(info.st_mode) and info.st_uid == uid:
                return
            fact = "what is there is no socket of its own"
        try:
            server.check()
        except TrialFault as fault:
            raise InvalidSubmission("recipe.serve", s=bind_s, fact=fault.detail) from None
        time.sleep(BIND_POLL_S)
    raise InvalidSubmission("recipe.serve", s=bind_s, fact=fact)


def _folders(work: Path, *names: str) -> list[Path]:
    """New folders below `work`, which workers of another uid may pass through."""
    work.mkdir(mode=0o711, parents=True, exist_ok=True)
    folders = [work / name for name in names]
    for folder in folders:
        folder.mkdir(mode=0o700)
    return folders


def _environment(run: RecipeRun, mode: str, scratch: Path) -> dict[str, str]:
    """The whole environment of a recipe, made from scratch."""
    return {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        run.mode_variable: mode,
        **run.environment,
    }
