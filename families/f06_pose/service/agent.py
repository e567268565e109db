"""`generate` and `evaluate` over a connection: what an agent runs as `python -m rle_client.f06`."""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from families.f06_pose.client import Renderer, RendererError, connect
from families.f06_pose.dataset import Plan, generate

PLAIN_EVERY_S = 10.0
Progress = Callable[[int, int], None]


def parser(prog: str) -> argparse.ArgumentParser:
    """Options of both commands; `--socket` names the service."""
    top = argparse.ArgumentParser(
        prog=prog, description="Data sets and metered evaluations of f06.",
        epilog=f"example: {prog} generate --n 20000 --out data --size 320x240 --resume",
    )  # fmt: skip
    top.add_argument(
        "--socket", help="of the service; default $RLE_F06_SOCKET, else /run/rle/f06.sock"
    )
    commands = top.add_subparsers(dest="command", required=True)
    make = commands.add_parser("generate", help="render a data set in shards of 100 frames")
    make.add_argument("--n", type=int, required=True, help="frames")
    make.add_argument("--out", type=Path, required=True, help="folder")
    make.add_argument("--kind", choices=("single", "push", "mixed"), default="mixed")
    make.add_argument("--size", default="320x240", help="640x480 divided by a whole number")
    make.add_argument("--start-seed", type=int, default=0)
    make.add_argument(
        "--workers", type=positive, help="renderer processes (only where it starts them)"
    )
    make.add_argument("--resume", action="store_true", help="go on after the last whole shard")
    judge = commands.add_parser("evaluate", help="one of 6 evaluations on the design set")
    judge.add_argument("folder", type=Path)
    return top


def run(renderer: Renderer, options: argparse.Namespace, progress: Progress | None = None) -> int:
    """Runs one command. Returns the exit code."""
    say = sys.stdout.write
    try:
        if options.command == "evaluate":
            say(render_evaluation(renderer.evaluate(options.folder)))
            return 0
        plan = Plan(options.n, options.kind, size_of(options.size), options.start_seed)
        facts = renderer.info()
        gigabytes = plan.n * plan.frame_bytes("depth" in facts.channels) / 1e9
        say(f"{plan.n} frames, {gigabytes:.2f} GB, with {facts.workers} renderer processes\n")
        told = progress or plain_progress()
        generate(renderer, options.out, plan, resume=options.resume, progress=told)
    except (RendererError, ValueError) as error:
        sys.stderr.write(f"rle: {error}\n")
        return 2
    return 0


def positive(text: str) -> int:
    """A whole number above 0, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def size_of(text: str) -> tuple[int, int]:
    """ "320x240" to (320, 240)."""
    width, _, height = text.partition("x")
    if not (width.isdigit() and height.isdigit()):
        raise ValueError(f"--size {text!r} is not WIDTHxHEIGHT; try 320x240")
    return int(width), int(height)


def plain_progress() -> Progress:
    """One line per 10 s."""
    begun = last = time.monotonic()
    first: list[int] = []

    def tell(done: int, total: int) -> None:
        nonlocal last
        first.append(done) if not first else None
        now = time.monotonic()
        if now - last >= PLAIN_EVERY_S or done == total:
            last = now
            rate = (done - first[0]) / max(now - begun, 1e-9)
            left = (total - done) / rate if rate > 0 else 0.0
            sys.stdout.write(f"{done}/{total} frames, {rate:.1f} frames/s, {left:.0f} s left\n")
            sys.stdout.flush()

    return tell


def render_evaluation(result: Any) -> str:
    """The reply as a small table."""
    lines = [f"{'':<8}{'n':>5}{'mean':>8}{'95 % interval':>18}{'SD':>8}{'median':>8}"]
    for label, table in (("xy mm", result.xy_mm), ("yaw deg", result.theta_deg)):
        for kind, v in table.items():
            if v.n == 0:
                lines.append(f"{kind} {label}: no answer")
                continue
            span = f"{v.low:.1f} to {v.high:.1f}"
            lines.append(
                f"{label:<8}{v.n:>5}{v.mean:>8.1f}{span:>18}{v.std:>8.1f}{v.median:>8.1f}  {kind}"
            )
    lines.append(f"rate {result.rate_hz:.1f} Hz, {result.calls_left} evaluations left")
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Entry of `python -m rle_client.f06`."""
    options = parser("python -m rle_client.f06").parse_args(argv)
    with connect(options.socket) as renderer:
        return run(renderer, options)


if __name__ == "__main__":
    raise SystemExit(main())
