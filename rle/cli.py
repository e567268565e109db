"""The command line. Each command is a typed dataclass: its fields are its options and their help."""

import dataclasses
import os
import sys
from typing import Annotated, Any

import tyro

from rle.commands import audit, demo, deploy, dev, index, info, regrade, serve, train, verify
from rle.errors import InvalidSubmission, RleError, UserError

DESCRIPTION = """RLE-Bench: 51 tasks that tell whether a coding agent can do the work of a robot-learning engineer.

Examples:
  rle list
  rle verify f04/dance --submission assets/oracles/f04/dance --out results/dance --html
  rle index results/dance --html results/index.html
"""

COMMANDS: dict[str, Any] = {
    "list": info.List,
    "card": info.Card,
    "dev": dev.Dev,
    "serve": serve.Serve,
    "verify": verify.Verify,
    "regrade": regrade.Regrade,
    "index": index.Index,
    "audit": audit.Audit,
    "train": train.Train,
    "deploy": deploy.Deploy,
    "demo": demo.Demo,
    "doctor": info.Doctor,
    "gen": info.Gen,
}


def parser_type(chosen: str = "") -> Any:
    """The union of all commands, as tyro reads it.

    Args:
        chosen: Command whose whole help is shown; of the others the list shows the first paragraph.
    """
    members = [
        Annotated[
            command,
            tyro.conf.subcommand(
                name=name,
                description=command.__doc__ if name == chosen else _first(command.__doc__),
            ),
        ]
        for name, command in COMMANDS.items()
    ]
    union = members[0]
    for member in members[1:]:
        union = union | member
    return union


def _first(text: str | None) -> str:
    return (text or "").strip().split("\n\n")[0]


def main(argv: list[str] | None = None) -> None:
    """Parses, runs, and turns user errors into one line and exit code 2; a bug keeps its traceback."""
    args = list(sys.argv[1:] if argv is None else argv)
    if not args:
        args = ["--help"]
    command, unknown = tyro.cli(
        parser_type(args[0]),
        prog="rle",
        description=DESCRIPTION,
        args=args,
        return_unknown_args=True,
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
    )
    try:
        if unknown and not hasattr(command, "extra"):
            raise UserError(f"unknown option {unknown[0]!r}; see `rle {args[0]} --help`")
        if unknown:
            command = dataclasses.replace(command, extra=tuple(unknown))
        code = command.run()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has enough, as in `rle list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except RleError as error:
        print(f"rle: {error.message}", file=sys.stderr)
        raise SystemExit(2 if isinstance(error, UserError | InvalidSubmission) else 3) from None
    except KeyboardInterrupt:
        print("rle: interrupted", file=sys.stderr)
        raise SystemExit(130) from None
    raise SystemExit(code or 0)
