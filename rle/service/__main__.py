"""`python -m rle.service`: the broker of a deployment, its control client and the hand-over.

    python -m rle.service --profile /opt/rle/private/profile.json
    python -m rle.service control seal --reason collected
    python -m rle.service handover --target /var/lib/rle/handover

Exit codes: 0 done, 2 usage, 3 the session cannot be served (owned, sealed, damaged), 4 disk full.
"""

import argparse
import json
import logging
import sys
from pathlib import Path

from rle.errors import InfrastructureError, UserError
from rle.service import hosting
from rle.service.broker import control
from rle.service.protocol import ProtocolError


def main(argv: list[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    args = _parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    try:
        if args.command == "control":
            return _control(args)
        if args.command == "handover":
            return 0 if hosting.seal_and_export(args.state, args.target, args.reason) else 1
        broker = hosting.deployed(args.profile, state=args.state, socket=args.socket)
        broker.session.start()
        broker.run()
        return 4 if broker.session.is_full else 0
    except UserError as error:
        print(f"rle.service: {error.message}", file=sys.stderr)  # noqa: T201 - the command's answer
        return 2
    except InfrastructureError as error:
        print(f"rle.service: {error.message}", file=sys.stderr)  # noqa: T201 - the command's answer
        return 3


def _control(args: argparse.Namespace) -> int:
    fields = {"reason": args.reason} if args.op == "seal" else {}
    if args.op == "advance":
        fields = {"to": args.to}
    try:
        answer = control(args.state / "control.sock", args.op, **fields)
    except (OSError, TimeoutError, ProtocolError) as error:
        raise InfrastructureError(f"no broker answers: {error}", code="broker.gone") from error
    print(json.dumps(answer, indent=2))  # noqa: T201 - the command's answer
    return 0 if answer["ok"] else 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rle.service", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--profile", type=Path, default=hosting.PRIVATE / "profile.json")
    parser.add_argument("--state", type=Path, default=hosting.STATE)
    parser.add_argument("--socket", type=Path, default=hosting.SOCKET)
    commands = parser.add_subparsers(dest="command")
    ask = commands.add_parser("control", help="ask the running broker")
    ask.add_argument("op", choices=("status", "seal", "advance", "checkpoint"))
    ask.add_argument("--reason", default="collected")
    ask.add_argument("--to", default="")
    hand = commands.add_parser("handover", help="seal and copy the record for the verifier")
    hand.add_argument("--target", type=Path, default=hosting.STATE / "handover")
    hand.add_argument("--reason", default="collected")
    return parser


if __name__ == "__main__":
    sys.exit(main())
