"""Before any submission is touched: a worker tries to escape, and must fail at every attempt."""

import ctypes
import os
import secrets
import tempfile
from pathlib import Path

from rle.errors import InfrastructureError, IsolationUnavailable
from rle.report import SelfTest
from rle.spec import Profile
from verifier.box import canaries, wire
from verifier.isolation.channel import ChannelTimeout, ProtocolFault
from verifier.isolation.launch import LaunchSpec, Sandboxed, WorkerDied
from verifier.isolation.layers import PROFILES, Plan

CAP_S = 60.0
"""Longest time of the whole self-test of one profile, start excluded."""
ECHO_BYTES = 640
"""Size of the frame that must come back unchanged."""
ANSWER_LIMIT = 65_536


def run(profile: Profile, plan: Plan, private_folder: Path) -> SelfTest:
    """Runs the self-test of one profile.

    Args:
        profile: The profile whose layers and libraries are tried.
        plan: Layers of this machine.
        private_folder: Where the verifier keeps secrets; the canary file lies here.

    Returns:
        Names of the acts that were blocked, and of those that worked as they must.

    Raises:
        IsolationUnavailable: A forbidden act was done (strict).
        InfrastructureError: The worker could not start, or cannot do what it must.
    """
    numbers = PROFILES[profile]
    secret = ctypes.create_string_buffer(secrets.token_bytes(canaries.CANARY_BYTES))
    with tempfile.TemporaryDirectory(prefix="rle-selftest-") as own:
        os.chmod(own, 0o755)
        own_file = Path(own) / "own.txt"
        own_file.write_text("readable")
        own_file.chmod(0o444)
        fd, canary = tempfile.mkstemp(prefix=".rle-canary-", dir=private_folder)
        os.close(fd)
        try:
            answer = _ask(
                LaunchSpec(
                    profile=profile,
                    role="canaries",
                    plan=plan,
                    submission=Path(own),
                    modules=(numbers.run_role,),
                ),
                {
                    "canary": canary,
                    "ppid": os.getpid(),
                    "address": ctypes.addressof(secret),
                    "memory_bytes": numbers.memory_bytes or 0,
                    "threads": numbers.threads,
                    "unix_sockets": numbers.unix_sockets,
                    "own_file": str(own_file),
                },
            )
        finally:
            os.unlink(canary)
    return _judge(answer, plan)


def _ask(spec: LaunchSpec, fields: dict) -> dict:
    with Sandboxed(spec) as worker:
        try:
            limits = {wire.READY: ANSWER_LIMIT}
            load = wire.encode_fields(fields)
            _, payload = worker.request(wire.LOAD, load, CAP_S, limits, charge=False)
            frame = os.urandom(ECHO_BYTES)
            limits = {wire.REPLY: ECHO_BYTES}
            _, echo = worker.request(wire.ACT, frame, CAP_S, limits, charge=False)
        except (WorkerDied, ChannelTimeout, ProtocolFault) as error:
            raise InfrastructureError(
                f"the {spec.profile} self-test did not finish ({error!r}): "
                f"{worker.log_text()[-600:]}",
                code="worker.selftest",
            ) from error
    answer = wire.decode_fields(payload)
    answer["allowed"]["echo"] = canaries.DONE if echo == frame else canaries.BLOCKED
    return answer


def _judge(answer: dict, plan: Plan) -> SelfTest:
    escaped = sorted(n for n, r in answer["forbidden"].items() if r == canaries.DONE)
    if escaped and plan.mode == "strict":
        raise IsolationUnavailable(
            "self-test", f"a worker could: {', '.join(escaped)}", "Run `rle doctor`."
        )
    broken = {n: r for n, r in answer["allowed"].items() if r != canaries.DONE}
    if broken:
        raise InfrastructureError(
            f"a worker cannot do what it must: {broken}", code="worker.selftest"
        )
    return SelfTest(
        blocked=sorted(set(answer["forbidden"]) - set(escaped)), allowed=sorted(answer["allowed"])
    )
