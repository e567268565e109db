"""`python -m verifier`: arguments, exit codes, and the one broad `except` of the trusted side.

Exit codes: 0 a reward was written (also for an invalid submission), 2 bad arguments, 3 our side
failed, 4 isolation is unavailable, 130 interrupted. Only 0 leaves a `reward.json`.
"""

import argparse
import os
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from rle import registry
from rle.errors import InfrastructureError, RleError, SimulationError, UserError
from verifier import run as pipeline
from verifier.run import Interrupted, Request, Run

EXAMPLES = """examples:
  python -m verifier --task f04/dance --artifacts my_policy --out results/dance
  python -m verifier --task f04/dance --artifacts DIR --out OUT --salt-file /root/salt --jobs 4
"""


class _Parser(argparse.ArgumentParser):
    """Its refusals are user errors of one line, under the name that people type."""

    def error(self, message: str) -> NoReturn:
        raise UserError(
            f"{message}; `rle verify --help` lists the options (those of the verifier alone: `python -m verifier --help`)"
        )


def parse(argv: list[str]) -> tuple[Request, bool]:
    """Reads the command line; options that the task's family declares are accepted beside ours.

    Returns:
        The request, and whether the report goes to stdout as JSON.

    Raises:
        UserError: An unknown task, or anything else that argparse refuses.
    """
    parser = _Parser(
        prog="python -m verifier",
        description="Scores a submission in a sandbox; writes reward.json and report.json.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--task", required=True, help="task id, e.g. f04/dance")
    parser.add_argument("--artifacts", required=True, type=Path, help="folder that was handed in")
    parser.add_argument("--out", required=True, type=Path, help="folder for the results")
    parser.add_argument("--salt-file", help="campaign secret, mode 0600; none: practice")
    parser.add_argument("--isolation", choices=("strict", "reduced"), default="strict")
    cpus = len(os.sched_getaffinity(0))
    parser.add_argument("--jobs", type=int, default=cpus, help="trials at a time (default: CPUs)")
    parser.add_argument(
        "--keep", action=argparse.BooleanOptionalAction, default=True, help="keep the frozen copy"
    )
    parser.add_argument("--media", action="store_true", help="render videos after the score")
    parser.add_argument("--harness", action="store_true", help="demand the hand-over marker")
    parser.add_argument("--replay", choices=("scored", "none"), default="none")
    parser.add_argument("--require-ledger-trust", choices=("sidecar", "deployment", "practice"))
    parser.add_argument("--partial", action="store_true", help="accept a signed checkpoint")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    known, _ = parser.parse_known_args(argv)
    task = registry.get(known.task)
    for option in task.options:
        parser.add_argument(
            f"--{option.name}", choices=option.choices, default=option.default, help=option.help
        )
    given, unknown = parser.parse_known_args(argv)
    if unknown:
        own = ", ".join(f"--{option.name}" for option in task.options)
        adds = f"{task.family} adds {own}" if own else f"{task.family} adds none of its own"
        parser.error(f"unknown option {unknown[0]!r} ({adds})")
    if given.jobs < 1:
        raise UserError(f"--jobs {given.jobs}: at least 1 is needed.")
    request = Request(
        task=task,
        artifacts=given.artifacts,
        out=given.out,
        salt_file=given.salt_file,
        isolation=given.isolation,
        jobs=given.jobs,
        keep=given.keep,
        media=given.media,
        harness=given.harness,
        replay=given.replay,
        require_ledger_trust=given.require_ledger_trust,
        partial=given.partial,
        options={o.name: getattr(given, o.name.replace("-", "_")) for o in task.options},
    )
    return request, given.json


def main(argv: list[str] | None = None) -> int:
    """Runs one verification and returns the exit code of the process."""
    try:
        request, as_json = parse(sys.argv[1:] if argv is None else argv)
    except UserError as error:
        print(f"rle: {error.message}", file=sys.stderr)
        return pipeline.EXIT_USAGE
    return grade(request, as_json)


def grade(request: Request, as_json: bool = False) -> int:
    """Runs a parsed request; whatever happens ends in one outcome and one exit code."""
    with pipeline.interruptible():
        run = Run(request)
        code = _execute(run)
    if run.report:
        print(pipeline.summary(run.report), file=sys.stderr)
        if as_json:
            print(pipeline.as_json(run.report))
    return code


def _execute(run: Run) -> int:
    try:
        return run.execute()
    except UserError as error:
        print(f"rle: {error.message}", file=sys.stderr)
        return pipeline.EXIT_USAGE
    except Interrupted as signal_name:
        return _fail(run, _infrastructure(f"stopped by {signal_name}", "verifier.interrupted"))
    except InfrastructureError as error:  # while the result itself was written
        print(f"rle verify: {error.message}", file=sys.stderr)
        return pipeline.EXIT_INFRASTRUCTURE
    except SimulationError as error:  # our own scene cannot be trusted, whatever was submitted
        traceback.print_exc()
        return _fail(run, _infrastructure(error.message, error.code))
    except Exception as error:  # a bug of ours is never scored 0
        traceback.print_exc()
        return _fail(
            run, _infrastructure(f"{type(error).__name__} in the verifier", "verifier.bug")
        )
    finally:
        run.clean()


def _infrastructure(message: str, code: str) -> InfrastructureError:
    return InfrastructureError(message, code=code)


def _fail(run: Run, error: RleError) -> int:
    try:
        return run.fail(error)
    except InfrastructureError as disk:
        print(f"rle verify: {disk.message}", file=sys.stderr)
        return pipeline.EXIT_INFRASTRUCTURE


if __name__ == "__main__":
    sys.exit(main())
