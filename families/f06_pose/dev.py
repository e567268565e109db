"""`rle dev f06/TASK [serve | generate | evaluate]`: the renderer service on this machine, and its commands."""

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

from families.f06_pose import client, spec
from families.f06_pose.service import agent
from families.f06_pose.service.calls import Calls
from families.f06_pose.service.server import Server
from rle import registry
from rle.errors import UserError
from rle.service.hosting import runtime_folder
from rle.service.record import SigningKey

HELP = """\
usage: rle dev {task} [serve] [--workers N] [--socket PATH] [--root DIR]
       rle dev {task} generate --n N --out DIR [--kind single|push|mixed] [--size 320x240]
                {pad} [--start-seed 0] [--workers N] [--resume]
       rle dev {task} evaluate DIR

serve     starts the renderer; then in Python, in another terminal:
            import families.f06_pose.client as f06     (rle_client.f06 in an agent's container)
            r = f06.connect("{socket}")
            frame = r.single_frame(3)                  frame.obs, frame.label, frame.occluded
            episode = r.push_episode(3, max_frames=60) episode.frames
            for frame in r.map("single", range(100)): ...
generate  writes a data set in shards of 100 frames; --resume goes on after the last whole shard
evaluate  runs a submission on hidden design scenes; {calls} times per deployment, also across restarts

Granted channels of this task: {channels}. Labels are noisy: 5 mm in x and y, 3 deg in theta.
"""


def main(args: list[str], task: str) -> int:
    """Runs a command of `rle dev`; returns the exit code."""
    command = args[0] if args and not args[0].startswith("-") else "serve"
    if command == "serve" and ({"-h", "--help"} & set(args)):
        sys.stdout.write(help_text(task))
        return 0
    if command in ("generate", "evaluate"):
        return _command(args, task)
    if command != "serve":
        raise UserError(
            f"unknown command {command!r} of rle dev {task}; known: serve, generate, evaluate"
        )
    return _serve([a for a in args if a != "serve"], task)


def help_text(task: str) -> str:
    """The help of a task, one screen."""
    return HELP.format(
        task=task,
        pad=" " * len(task),
        socket=socket_path(root_of(task)),
        calls=spec.EVALUATION_CALLS,
        channels=", ".join(spec.CHANNELS[registry.get(task).slug]),
    )


def root_of(task: str, given: Path | None = None) -> Path:
    """Folder of a task's socket and record on this machine."""
    return given or runtime_folder() / task.replace("/", "-")


def socket_path(root: Path) -> Path:
    """Socket of the service whose files are in `root`."""
    return root / "f06.sock"


def default_workers() -> int:
    """Renderer processes where none are asked for."""
    return min(spec.RENDERER_WORKERS, len(os.sched_getaffinity(0)))


def open_calls(root: Path, task: str) -> Calls:
    """The count of evaluations of the deployment in `root`; its key is made at the first start."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    key_file = root / "broker.key"
    if not key_file.exists():
        SigningKey.generate().save(key_file, root / "broker.pub")
    return Calls(root / "session-0", task, SigningKey.load(key_file))


def _serve(args: list[str], task: str) -> int:
    options = _serve_options(args, task)
    root = root_of(task, options.root)
    path = Path(options.socket) if options.socket else socket_path(root)
    calls = open_calls(root, task)
    server = Server(registry.get(task), path, options.workers or default_workers(), calls)
    say = sys.stdout.write
    say(f"serving {task}, {calls.left} of {spec.EVALUATION_CALLS} evaluations left\n")
    say(f"  export {client.SOCKET_VARIABLE}={path}\n")
    sys.stdout.flush()
    try:
        server.run()
    except KeyboardInterrupt:
        say("\n")
    finally:
        server.close()
        calls.close()
    return 0


def _serve_options(args: list[str], task: str):
    import argparse

    parser = argparse.ArgumentParser(prog=f"rle dev {task}", usage=help_text(task))
    parser.add_argument("--workers", type=agent.positive)
    parser.add_argument("--socket")
    parser.add_argument("--root", type=Path)
    return parser.parse_args(args)


def _command(args: list[str], task: str) -> int:
    """`generate` and `evaluate`: over a running service, else over one for this command."""
    options = agent.parser(f"rle dev {task}").parse_args(args)
    with _connection(options, task) as renderer:
        if options.command == "generate" and sys.stdout.isatty():
            with _bar() as progress:
                return agent.run(renderer, options, progress)
        return agent.run(renderer, options)


@contextlib.contextmanager
def _connection(options, task: str) -> Generator[client.Renderer]:
    path = options.socket or os.environ.get(client.SOCKET_VARIABLE)
    if path:
        with client.connect(path) as renderer:
            yield renderer
        return
    if running := _running(task):
        with running:
            yield running
        return
    calls = open_calls(root_of(task), task) if options.command == "evaluate" else None
    workers = getattr(options, "workers", None) or default_workers()
    with tempfile.TemporaryDirectory(prefix="rle-f06-") as name:
        own = Path(name) / "f06.sock"
        with Server(registry.get(task), own, 1 if calls else workers, calls):
            with client.connect(str(own)) as renderer:
                yield renderer
    if calls:
        calls.close()


def _running(task: str) -> client.Renderer | None:
    """A connection to the service that this user already runs for the task, if there is one."""
    try:
        return client.connect(str(socket_path(root_of(task))))
    except client.RendererError:
        return None


@contextlib.contextmanager
def _bar() -> Generator[agent.Progress]:
    """A progress bar: frames, frames per second, time left."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("frames"), BarColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:.1f} frames/s"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns) as bar:
        line = bar.add_task("frames", rate=0.0, total=None)
        begun, first = time.monotonic(), []

        def tell(done: int, total: int) -> None:
            if not first:
                first.append(done)
            rate = (done - first[0]) / max(time.monotonic() - begun, 1e-9)
            bar.update(line, completed=done, total=total, rate=rate)

        yield tell
