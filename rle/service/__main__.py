"""`python -m rle.service`: the broker of a deployment, and what runs around it.

    python -m rle.service                                     serve (profile, salt and key in --private)
    python -m rle.service up                                  start and keep the broker; 0 when it greets
    python -m rle.service control status|seal|advance|export|snapshot
    python -m rle.service handover [--step NAME] [--end-agent]
    python -m rle.service selfcheck                           what the agent's user can reach

Exit codes: 0 done, 1 the check failed or the broker is gone, 2 usage, 3 the session cannot be served
(owned, sealed, damaged), 4 disk full.
"""

import argparse
import json
import logging
import sys
from pathlib import Path

import msgspec

from rle.errors import InfrastructureError, UserError
from rle.service.deploy import handover, keeper, selfcheck, snapshot
from rle.service.deploy.places import SINGLE, Places

RETRIED = ("sim.unavailable",)
"""Codes of failures that another start may mend: exit 1, and the keeper starts the broker again."""


def main(argv: list[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    args = _parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    single = {name: getattr(args, name) for name in SINGLE}
    places = Places(**single, roots=tuple(args.root or ()))
    if args.profile is not None:
        places = msgspec.structs.replace(places, private=args.profile.parent)
    try:
        return _run(args, places)
    except UserError as error:
        _say(f"rle.service: {error.message}", error=True)
        return 2
    except InfrastructureError as error:
        _say(f"rle.service: {error.message}", error=True)
        return 1 if error.code in RETRIED else 3


def _run(args: argparse.Namespace, places: Places) -> int:
    match args.command:
        case "up":
            return 0 if keeper.up(places) else 1
        case "keep":
            return keeper.keep(places)
        case "control":
            return _control(args, places)
        case "handover":
            return _handover(args, places)
        case "selfcheck":
            return _selfcheck(places)
    return _serve(places)


def _serve(places: Places) -> int:
    from rle.service import hosting

    broker = hosting.deployed(places)
    broker.session.start()
    broker.run()
    return 4 if broker.session.is_full else 0


def _control(args: argparse.Namespace, places: Places) -> int:
    if args.op == "snapshot":
        taken = keeper.ask_snapshot(places)
        _say("taken" if taken else "was taken before; nothing changed")
        return 0
    if args.op == "export":
        _say(str(handover.export(places, partial=args.partial)))
        return 0
    answer = handover.patient_control(places, args.op, reason=args.reason, to=args.to)
    _say(json.dumps(answer, indent=2))
    return 0 if answer["ok"] else 2


def _handover(args: argparse.Namespace, places: Places) -> int:
    if args.end_agent:
        handover.end_processes(places.agent_uid)
    if not args.step:
        return 0 if handover.hand_over(places, args.reason) else 1
    whole = handover.hand_over_step(places, args.step)
    if args.end_agent:
        snapshot.restore(places.agent_uid, snapshot.roots_of(places), places.snapshot)
        snapshot.put_back(places.handover / handover.FROZEN, places.workspace, places.agent_uid)
    return 0 if whole else 1


def _selfcheck(places: Places) -> int:
    findings = selfcheck.selfcheck(places)
    for f in findings:
        want = "must fail" if f.is_wall else "must work"
        _say(f"{'ok  ' if f.ok else 'FAIL'} {want}: {f.name}  ({f.detail})")
    return 0 if all(f.ok for f in findings) else 1


def _say(text: str, *, error: bool = False) -> None:
    print(text, file=sys.stderr if error else sys.stdout)  # noqa: T201 - the command's answer


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rle.service", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    usual = Places()
    parser.add_argument("--profile", type=Path, help="profile.json; its folder is --private")
    for name in SINGLE:
        value = getattr(usual, name)
        parser.add_argument(
            "--" + name.replace("_", "-"),
            type=Path if isinstance(value, Path) else int,
            default=value,
        )
    parser.add_argument(
        "--root", type=Path, action="append", help="where the agent may leave files"
    )
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("up", help="start the keeper when none lives, wait for the broker")
    commands.add_parser("keep", help="the keeper itself")
    ask = commands.add_parser("control", help="ask the running broker or its keeper")
    ask.add_argument(
        "op", choices=("status", "seal", "advance", "checkpoint", "export", "snapshot")
    )
    ask.add_argument("--reason", default="collected", help="of `seal`")
    ask.add_argument("--to", default="", help="phase of `advance`")
    ask.add_argument("--partial", action="store_true", help="`export` up to a signed checkpoint")
    hand = commands.add_parser("handover", help="seal and copy the record for the verifier")
    hand.add_argument("--reason", default="collected")
    hand.add_argument("--step", default="", help="step that ended, in a task of several")
    hand.add_argument("--end-agent", action="store_true",
                      help="first end the agent's processes; after a step restore its files")  # fmt: skip
    commands.add_parser("selfcheck", help="what the agent's user can reach").add_argument(
        "--as", dest="role", choices=("agent",), default="agent"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
