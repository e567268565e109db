"""The development side: plays a policy folder on public piles through the loop that is scored.

The policy runs in this process and is trusted: what the sandbox of the verifier forbids works here.
Observations, conversion of the answer, faults and time limits are those of the verifier.
"""

import contextlib
import dataclasses
import json
import runpy
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from families.f07_bin import metrics, piles, spec, task, verify
from families.f07_bin.episode import Episode
from rle.errors import AGENT_MESSAGES, InvalidSubmission, UnknownName, UserError
from rle.exits import exits_raise, line_of
from rle.verify_api import TrialFault


class LocalPolicy:
    """A policy folder in this process, behind the interface of a worker.

    Args:
        submission: Folder that holds `policy/policy.py`.
        report: Told of every fault, in words.

    Raises:
        UserError: There is no such folder.
        InvalidSubmission: The file is missing, cannot be loaded, or makes no policy.
    """

    def __init__(self, submission: Path, report: Callable[[str], None] = lambda text: None) -> None:
        if not submission.is_dir():
            raise UserError(
                f"{submission} is not a folder; it must hold {verify.FOLDER}/{verify.ENTRY}"
            )
        path = submission / verify.FOLDER / verify.ENTRY
        if not path.is_file():
            found = sorted(p.name for p in submission.iterdir())[:5]
            raise InvalidSubmission(
                "file.missing",
                path=f"{verify.FOLDER}/{verify.ENTRY}",
                found=", ".join(found) or "nothing",
            )
        channels = submission / verify.CHANNELS_FILE
        self.channels = (
            verify.parse_channels(channels.read_bytes()) if channels.is_file() else spec.CHANNELS
        )
        self._report = report
        self._policy = self._load(path)
        self.wall_s = 0.0
        """Time in reset and act so far."""

    def _load(self, path: Path) -> Any:
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))
        try:
            with contextlib.redirect_stdout(sys.stderr), exits_raise():
                make_policy = runpy.run_path(str(path), run_name="policy").get("make_policy")
                policy = make_policy() if callable(make_policy) else None
        except (
            Exception,
            SystemExit,
        ) as error:  # whatever the policy's own code raises is its author's news
            traceback.print_exc()
            raise InvalidSubmission(
                "python.load", path=verify.ENTRY, cls=type(error).__name__, line=line_of(error)
            ) from None
        if not callable(make_policy):
            raise InvalidSubmission("python.factory", path=verify.ENTRY, name="make_policy")
        for name in ("reset", "act"):
            if not callable(getattr(policy, name, None)):
                raise InvalidSubmission("python.interface", maker="make_policy()", name=name)
        return policy

    def reset(self, **fields: Any) -> None:
        """Calls `reset(cell_spec, seed)`. Raises TrialFault."""
        self._timed(lambda: self._policy.reset(*fields.values()), spec.RESET_CAP_S)

    def call(self, name: str, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """Calls `act(obs)` and returns the command, shape (8,). Raises TrialFault."""
        function = next(f for f in verify.contract(self.channels).functions if f.name == name)
        obs = {
            array.name: value.item() if array.shape == () else value
            for array, value in zip(function.args[0].arrays, arrays, strict=True)
        }
        answer = self._timed(lambda: self._policy.act(obs), spec.ACT_CAP_S)
        expected = f"{spec.N_CTRL} finite numbers"
        try:
            command = np.asarray(answer)
        except ValueError:
            raise self._fault("action.type", expected=expected, got="a ragged sequence") from None
        if command.dtype.kind not in "fiu":
            raise self._fault("action.type", expected=expected, got=type(answer).__name__)
        if command.shape != (spec.N_CTRL,):
            raise self._fault("action.shape", expected=expected, got=command.shape)
        if not np.isfinite(command).all():
            raise self._fault("action.nonfinite")
        return (command.astype(float),)

    def _timed(self, act: Callable[[], Any], cap_s: float) -> Any:
        started = time.perf_counter()
        try:
            # stdout is for the score alone
            with contextlib.redirect_stdout(sys.stderr), exits_raise():
                answer = act()
        except Exception as error:
            traceback.print_exc()
            raise self._fault(
                "action.raised", cls=type(error).__name__, line=line_of(error)
            ) from None
        except SystemExit as error:
            text = f"the policy ended its own process at line {line_of(error)}"
            self._report(text)
            raise TrialFault("worker_died", "worker.died", text) from None
        finally:
            took = time.perf_counter() - started
            self.wall_s += took
        if self.wall_s > spec.POLICY_TOTAL_S:
            text = f"the {spec.POLICY_TOTAL_S:g} s of a pile are used up"
            self._report(text)
            raise TrialFault("timeout_total", "worker.time", text)
        if took > cap_s:
            text = f"one call took over {cap_s:g} s"
            self._report(text)
            raise TrialFault("timeout_call", "worker.time", text)
        return answer

    def _fault(self, code: str, **fields: object) -> TrialFault:
        text = AGENT_MESSAGES[code].format(**fields)
        self._report(text)
        return TrialFault("bad_action", code, text)


@dataclasses.dataclass
class Run:
    """Plays a policy on a public pile and prints every term of its score.

    Example: rle dev f07/bin-clearing run my_submission --pile 35 --video out.mp4 --events out.jsonl
    """

    submission: Annotated[Path, tyro.conf.Positional]
    """Folder that holds policy/policy.py."""
    pile: int | None = None
    """A published pile: 35, 16, 307, 211 or 101; the first one by default."""
    public_seed: int | None = None
    """A pile of your own choice instead, any number from 0."""
    seconds: float = spec.EPISODE_S
    """Simulated time to play."""
    video: Path | None = None
    """Writes a video, 10 frames per second."""
    events: Path | None = None
    """Writes every grab, release, slip, clear, floor, damage and bin_hit with what explains it."""
    json: bool = False
    """Prints the row as JSON."""

    def run(self) -> int:
        """Plays, prints, and returns the exit code."""
        ticks = self._ticks()
        streams, n_parts = self._streams()
        faults: list[str] = []
        played_tick = 0

        def note(text: str) -> None:
            faults.append(f"tick {played_tick}: {text}")

        policy = LocalPolicy(self.submission, note)
        pile = piles.draw(streams, n_parts)
        film = verify.Film()
        with Episode(pile, streams, policy.channels) as episode:
            seed = int(streams("policy_seed").integers(2**63, dtype=np.uint64))

            def on_tick(episode: Episode) -> None:
                nonlocal played_tick
                played_tick = episode.tick
                if self.video:
                    film(episode)

            played = task.play(episode, policy, seed, ticks, on_tick)
        row = verify.to_row(episode, played, "public" if n_parts is None else "design")
        if self.events is not None:
            write_events(episode, self.events)
        if self.video is not None:
            film.write(self.video, episode.n_parts, episode.lights)
        if self.json:
            print(json.dumps({"score": row.score, "ended": row.ended, **row.metrics}))  # noqa: T201
        else:
            print(summary(episode, played, faults))  # noqa: T201
        return 0

    def _ticks(self) -> int:
        """Length of the run."""
        if not 0.0 < self.seconds <= spec.EPISODE_S:
            raise UserError(
                f"--seconds is {self.seconds:g}; above 0 and up to {spec.EPISODE_S:g} is accepted"
            )
        return max(1, round(self.seconds * spec.CONTROL_HZ))

    def _streams(self) -> tuple[piles.Streams, int | None]:
        """Streams of the chosen pile, and its number of parts where that is published."""
        if self.pile is not None and self.public_seed is not None:
            raise UserError("give --pile or --public-seed, not both")
        if self.public_seed is not None:
            if self.public_seed < 0:
                raise UserError(
                    f"--public-seed is {self.public_seed}; any number from 0 is accepted"
                )
            return piles.public_streams("public", self.public_seed), None
        seed = next(iter(spec.DESIGN_PILES)) if self.pile is None else self.pile
        if seed not in spec.DESIGN_PILES:
            names = [str(s) for s in spec.DESIGN_PILES]
            raise UnknownName("pile", str(seed), names, "Others: --public-seed N.")
        return piles.public_streams("design", seed), spec.DESIGN_PILES[seed]


def write_events(episode: Episode, path: Path) -> None:
    """One JSON object per line, in order of time."""
    path.write_text(
        "".join(
            json.dumps({"t": e.t_s, "tick": e.tick, "kind": e.kind, "part": e.part, **e.facts})
            + "\n"
            for e in episode.events
        )
    )


def summary(episode: Episode, played: task.Played, faults: list[str]) -> str:
    """The score of a pile with every term that made it."""
    measured = verify.outcome(episode)
    t = metrics.score(measured)
    earned = (
        ("0.30 I", spec.WEIGHT_CLEAN * t.clean),
        ("0.35 h", spec.WEIGHT_CLEARED * t.h),
        ("0.20 min(p/10, 1)", spec.WEIGHT_RATE * min(t.p / spec.RATE_FULL_PPM, 1.0)),
        (
            "0.15 I min(p/15, 1)",
            spec.WEIGHT_CLEAN_RATE * t.clean * min(t.p / spec.CLEAN_RATE_FULL_PPM, 1.0),
        ),
        (f"{measured.floor} floor drops", -spec.DEDUCT_FLOOR * measured.floor),
        (f"{measured.damage} bent parts", -spec.DEDUCT_DAMAGE * measured.damage),
        (f"{measured.bin_hits} bin hits", -spec.DEDUCT_BIN * measured.bin_hits),
    )
    lines = [
        f"cleared {measured.cleared} of {measured.n} in {episode.t_s:.1f} s, ended: {played.ended}",
        f"f = {t.f:.3f}, h = {t.h:.3f}, p = {t.p:.2f} parts/min over {t.den_s:.1f} s, I = {t.clean:.0f}",
        *(f"  {name:<22}{value:+.4f}" for name, value in earned),
        f"  {'score':<22}{t.score:.4f}",
        f"slips {episode.n_slips}, peak force on a part {episode.peak_part_n:.0f} N, on the bin "
        f"{episode.peak_bin_n:.0f} N",
        f"policy {played.reset_s:.1f} s in reset and {played.act_s:.1f} s in act, physics "
        f"{episode.physics_s:.1f} s, pictures {episode.sensors.render_s:.1f} s",
    ]
    lines += [f"faults {len(faults)}; the first: {text}" for text in faults[:1]]
    return "\n".join(lines)


def main(args: list[str], task: str = spec.TASKS[0].id) -> int:
    """`run SUBMISSION [options]`, as `rle dev` calls it; returns the exit code."""
    command = tyro.cli(
        Run,
        prog=f"rle dev {task} run",
        args=args[1:] if args[:1] == ["run"] else args,
        config=(tyro.conf.FlagCreatePairsOff,),
    )
    return command.run()
