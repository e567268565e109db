"""Faults of our own side: every one ends in one outcome, and none in a wrong score."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import msgspec
import pytest

from rle.errors import InfrastructureError, IsolationUnavailable
from rle.report import read_report
from tests.attacks.onnx_files import honest
from tests.verifier import fake_family
from tests.verifier.conftest import write_files
from tests.verifier.runs import (
    plain_rows,
    report_of,
    reward_of,
    start,
    verify,
    wait_until,
    workers_of,
)
from verifier import media, output, submission
from verifier.isolation import layers, selftest


def test_honest_run(honest_out):
    report = report_of(honest_out)
    assert report.outcome == "scored" and report.practice and report.reward > 0.9
    assert report.isolation.mode == "strict" and len(report.isolation.selftest.blocked) >= 20
    assert [row.id for row in report.rows] == ["t00", "t01", "t02"]
    assert report.failed_calls == []
    assert (honest_out / "submission" / "policy.onnx").read_bytes() == honest()
    flat = json.loads((honest_out / "reward.json").read_text())
    assert flat["practice"] == 1.0 and flat["trials_ok"] == 3.0


def test_one_and_two_jobs_give_equal_rows(policy, tmp_path, honest_out):
    assert start(policy, tmp_path / "two", "--jobs", "2").wait() == 0
    assert plain_rows(honest_out) == plain_rows(tmp_path / "two")


def test_worker_killed_twice(policy, tmp_path, honest_out, capsys):
    """1 and 10: the trial fails after one more try, the others do not notice; it is said why."""
    assert verify(policy, tmp_path / "out", "--fault", "kill-worker") == 0
    first, *others = plain_rows(tmp_path / "out")
    assert (first.ended, first.score, first.retried) == ("worker_died", 0.0, 1)
    assert others == plain_rows(honest_out)[1:]
    said = "1 failed of 3 calls; call 3 (act): signal 9"
    assert report_of(tmp_path / "out").failed_calls == [f"t00: {said}", f"t00-again: {said}"]
    printed = capsys.readouterr().err
    assert "ended by worker_died: t00\n" in printed
    assert f"t00: {said} (and in 1 more: see failed_calls in report.json)" in printed


def test_worker_killed_once(policy, tmp_path, honest_out):
    """1: the second row stands and says so."""
    assert verify(policy, tmp_path / "out", "--fault", "kill-worker-once") == 0
    first = plain_rows(tmp_path / "out")[0]
    assert first.retried == 1
    assert msgspec.structs.replace(first, retried=0) == plain_rows(honest_out)[0]


def kill_somewhere(policy: Path, out: Path, delay_s: float) -> None:
    """2: kill -9 at one moment leaves no half result and no worker."""
    process = start(policy, out, "--jobs", "1")
    time.sleep(delay_s)
    process.kill()
    process.wait()
    process.stderr.close()
    wait_until(lambda: not workers_of(process.pid), "the workers of a killed verifier end")
    if (out / "reward.json").exists():
        assert reward_of(out) > 0.9 and report_of(out).outcome == "scored"


def test_verifier_killed_then_run_again(policy, tmp_path, honest_out):
    for moment in (0.8, 2.0):
        kill_somewhere(policy, tmp_path / "out", moment)
    assert verify(policy, tmp_path / "out") == 0
    assert reward_of(tmp_path / "out") == reward_of(honest_out)


@pytest.mark.slow
def test_verifier_killed_at_twenty_moments(policy, tmp_path):
    moments = random.Random(2)
    for _ in range(20):
        kill_somewhere(policy, tmp_path / "out", moments.uniform(0.0, 4.0))


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_stopped_at_the_deadline(policy, tmp_path, jobs):
    """3: the report has the rows so far, there is no reward, the exit code is 130."""
    mark = tmp_path / "second-trial"
    environment = {**os.environ, fake_family.MARK: str(mark)}
    options = ("--fault", "slow", "--jobs", jobs)
    process = start(policy, tmp_path / "out", *options, env=environment)
    wait_until(mark.exists, "the second trial", limit_s=240.0)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 130
    process.stderr.close()
    assert not (tmp_path / "out" / "reward.json").exists()
    report = report_of(tmp_path / "out")
    assert report.outcome == "infrastructure_error" and report.reward is None
    assert report.errors[0].code == "verifier.interrupted"
    wait_until(lambda: not workers_of(process.pid), "the workers end with it")
    if jobs == "1":
        assert [row.id for row in report.rows] == ["t00"]


def limited(n_bytes: int):
    """Largest file of a process: writing beyond it fails as on a full disk."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))


def test_disk_full_at_the_copy(tmp_path):
    """4."""
    large = write_files(tmp_path / "large", {"policy.onnx": bytes(100_000)})
    process = start(large, tmp_path / "out", preexec_fn=limited(65_536))
    _, text = process.communicate()
    assert process.returncode == 3 and "does not fit" in text
    assert report_of(tmp_path / "out").errors[0].code == "output.disk"
    assert not (tmp_path / "out" / "reward.json").exists()


def test_disk_full_at_the_report(policy, tmp_path):
    """4: no file of the result is left, whole or in part."""
    process = start(policy, tmp_path / "out", "--no-keep", preexec_fn=limited(500))
    _, text = process.communicate()
    assert process.returncode == 3 and "disk is full" in text
    assert os.listdir(tmp_path / "out") == []


def test_disk_full_at_the_reward(policy, tmp_path, monkeypatch, capsys):
    """4: a report without a reward is left, and the exit code says so."""

    def full(*_):
        raise InfrastructureError("reward.json was not written: full", code="output.disk")

    monkeypatch.setattr(output, "write_reward", full)
    assert verify(policy, tmp_path / "out") == 3
    assert not (tmp_path / "out" / "reward.json").exists()


def test_out_cannot_be_made(policy, tmp_path, capsys):
    """5."""
    (tmp_path / "file").write_text("")
    assert verify(policy, tmp_path / "file" / "out") == 2
    assert verify(policy, Path("/proc/nothing")) == 2


def test_artifacts_vanish_in_the_copy(policy, tmp_path, monkeypatch):
    """5."""
    copy = submission._copy_once

    def vanish(root_fd, path, target, max_bytes):
        (policy / path).unlink()
        return copy(root_fd, path, target, max_bytes)

    monkeypatch.setattr(submission, "_copy_once", vanish)
    assert verify(policy, tmp_path / "out") == 3
    assert report_of(tmp_path / "out").errors[0].code == "intake.transfer"


def test_worker_stopped_by_somebody(policy, tmp_path):
    """6: the deadline is the verifier's own, so the call ends and the worker is killed."""
    assert verify(policy, tmp_path / "out", "--fault", "stop-worker") == 0
    first, *others = report_of(tmp_path / "out").rows
    assert (first.ended, first.retried) == ("timeout_call", 0)
    assert all(row.ended == "done" for row in others)


def test_wall_clock_jumps(policy, tmp_path, monkeypatch):
    """7: an hour forth and back at every look; every deadline is on the monotonic clock."""
    clock = time.time
    calls = iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: clock() + 3600.0 * (next(calls) % 3 - 1))
    assert verify(policy, tmp_path / "out") == 0
    assert all(row.ended == "done" for row in report_of(tmp_path / "out").rows)


def absent_landlock(monkeypatch):
    monkeypatch.setattr(layers, "landlock_abi", lambda: 0)
    monkeypatch.setattr(layers, "unreachable_path", lambda: "/root")


def absent_seccomp(monkeypatch):
    monkeypatch.setattr(layers, "seccomp_fault", lambda: "no libseccomp.so.2")


@pytest.mark.parametrize(
    ("absent", "layer"), [(absent_landlock, "landlock"), (absent_seccomp, "seccomp")]
)
def test_missing_layer(policy, tmp_path, monkeypatch, absent, layer):
    """8: strict refuses and names it; reduced runs and marks the result. Row 94 of the book."""
    absent(monkeypatch)
    assert verify(policy, tmp_path / "strict") == 4
    report = report_of(tmp_path / "strict")
    assert report.reward is None and report.errors[0].code == "isolation.unavailable"
    assert layer in report.errors[0].message and "--isolation reduced" in report.errors[0].message
    assert verify(policy, tmp_path / "reduced", "--isolation", "reduced") == 0
    report = report_of(tmp_path / "reduced")
    assert report.isolation.mode == "reduced" and layer not in report.isolation.layers
    assert any(text.startswith(layer) for text in report.isolation.missing)
    flat = json.loads((tmp_path / "reduced" / "reward.json").read_text())
    assert flat["isolation_reduced"] == 1.0


@pytest.mark.parametrize("layer", ["rlimits", "nnp", "seccomp", "nocap", "landlock"])
def test_layer_that_a_worker_could_not_reach(layer):
    """8: what counts is what the worker reports, not what was planned."""
    names = ("rlimits", "nocap", "nnp", "landlock", "seccomp")
    plan = layers.Plan("strict", names)
    reached = tuple(name for name in names if name != layer)
    with pytest.raises(IsolationUnavailable) as caught:
        plan.require(reached, {layer: "Operation not permitted"})
    assert layer in caught.value.message and "not permitted" in caught.value.message
    layers.Plan("reduced", names).require(reached)


def test_canary_that_was_done(policy, tmp_path, monkeypatch):
    """9: no trial starts."""
    ask = selftest._ask

    def escaped(spec, fields):
        answer = ask(spec, fields)
        answer["forbidden"]["inet"] = "done"
        return answer

    monkeypatch.setattr(selftest, "_ask", escaped)
    monkeypatch.setattr(fake_family, "run_trial", None)
    assert verify(policy, tmp_path / "out") == 4
    assert "inet" in report_of(tmp_path / "out").errors[0].message


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_bug_in_one_trial(policy, tmp_path, jobs):
    """11: a traceback, no reward, and never a zero."""
    process = start(policy, tmp_path / "out", "--fault", "bug", "--jobs", jobs)
    _, text = process.communicate()
    assert process.returncode == 3
    assert "ZeroDivisionError: injected" in text and "Traceback" in text
    assert report_of(tmp_path / "out").errors[0].code == "verifier.bug"
    assert not (tmp_path / "out" / "reward.json").exists()


@pytest.mark.slow
def test_loaded_cores_change_nothing(policy, tmp_path):
    """13."""
    burners = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in os.sched_getaffinity(0)
    ]
    try:
        for i in range(3):
            assert verify(policy, tmp_path / f"{i}") == 0
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    assert len({reward_of(tmp_path / f"{i}") for i in range(3)}) == 1


def test_report_of_another_schema(honest_out):
    """16: refused with its version and the command that makes a new one."""
    report = json.loads((honest_out / "report.json").read_text())
    report["schema"] = "rle-report/0"
    with pytest.raises(msgspec.ValidationError, match=r"rle-report/0.*rle regrade"):
        read_report(json.dumps(report).encode())


def _films_for_ever(*_args: object) -> None:
    time.sleep(600)


def test_a_signal_while_filming_ends_the_filming_alone(monkeypatch, tmp_path):
    """The score is on disk by then; whoever waits for the shell need not wait for the videos."""
    room = types.SimpleNamespace(media=None)
    monkeypatch.setattr(media, "_film", _films_for_ever)
    monkeypatch.setattr(media.registry, "room", lambda family, name: room)
    settings = types.SimpleNamespace(task=types.SimpleNamespace(family="any"))
    before = signal.getsignal(signal.SIGTERM)
    killer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM))
    killer.start()
    assert media.render(settings, tmp_path) == "stopped by SIGTERM"
    assert signal.getsignal(signal.SIGTERM) is before
