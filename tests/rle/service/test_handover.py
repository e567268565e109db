"""The hand-over: sealed or partial, with or without a broker, and what of the agent's it ends and restores."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from service_broker import declared, places_of, write_private

from rle.errors import InfrastructureError
from rle.service import client as c
from rle.service.__main__ import main
from rle.service.broker import control
from rle.service.deploy import handover, snapshot
from rle.service.record import Expect, VerifyKey, verify
from rle.service.supervisor import InProcess

STILL = np.zeros(2)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it acts as another user")
UID = 61_234
"""A user that no machine has."""


def report_of(places, kind, *, partial=False):
    key = VerifyKey.load(places.private / "broker.pub")
    expect = Expect(spec=declared(kind), deployment_id=key.deployment_id, partial=partial)
    return verify(places.handover / "ledger.jsonl", key, expect)


def test_a_session_is_sealed_copied_and_believed(start, tmp_path):
    broker = start("attempt", "deployed")
    places = places_of(tmp_path)
    sim = broker.connect()
    sim.step(np.tile([0.5, 0.0], (4, 1)))
    assert handover.hand_over(places, "collected")
    assert sorted(p.name for p in places.handover.iterdir()) == [
        "actions.f32", "ledger.jsonl", "worker.log",
    ]  # fmt: skip
    assert places.handover.stat().st_mode & 0o777 == 0o700
    report = report_of(places, "attempt")
    assert report.ok and (report.end_reason, report.steps_used) == ("collected", 4)
    before = (places.handover / "ledger.jsonl").read_bytes()
    assert handover.hand_over(places, "again"), "a second hook changes nothing"
    assert (places.handover / "ledger.jsonl").read_bytes() == before
    with pytest.raises((c.ConnectionLostError, c.TrialOverError)):
        sim.step(STILL)


def test_a_broker_that_is_gone_is_said_to_be_and_a_later_one_takes_it_back(start, tmp_path):
    broker = start("attempt", "deployed")
    places = places_of(tmp_path)
    broker.connect().step(STILL)
    broker.kill()
    assert not handover.hand_over(places, "collected", patience_s=0.3)
    failure = json.loads((places.handover / "failure.json").read_text())
    assert failure["reason"] == "broker_failed"
    assert report_of(places, "attempt").code == "ledger.unsealed"
    broker.start()
    assert handover.hand_over(places, "collected")
    assert not (places.handover / "failure.json").exists()
    assert report_of(places, "attempt").ok


def test_a_sealed_record_needs_no_living_broker(start, tmp_path):
    broker = start("attempt", "deployed")
    places = places_of(tmp_path)
    broker.connect().finish()
    broker.kill()
    assert handover.hand_over(places, "collected", patience_s=0.3)
    assert not (places.handover / "failure.json").exists()
    assert report_of(places, "attempt").ok


def test_links_in_the_session_folder_are_not_followed(start, tmp_path):
    start("attempt", "deployed").connect().finish()
    places = places_of(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("x")
    (places.session / "worker.log").unlink()
    (places.session / "worker.log").symlink_to(secret)
    frozen = places.session / "frozen" / "agent_harness"
    frozen.mkdir(parents=True)
    (frozen / "MANUAL.md").write_text("how to")
    (frozen / "link").symlink_to(secret)
    (frozen / "folder").symlink_to(tmp_path)
    assert handover.hand_over(places, "collected")
    assert not (places.handover / "worker.log").exists()
    copied = sorted(str(p.relative_to(places.handover)) for p in places.handover.rglob("*"))
    assert copied == ["actions.f32", "frozen", "frozen/agent_harness",
                      "frozen/agent_harness/MANUAL.md", "ledger.jsonl"] or copied == [
                      "frozen", "frozen/agent_harness", "frozen/agent_harness/MANUAL.md",
                      "ledger.jsonl"]  # fmt: skip


def test_steps_advance_export_signed_parts_and_the_last_one_seals(start, tmp_path):
    broker = start("steps", "deployed")
    places = places_of(tmp_path)
    with broker.connect() as sim:
        sim.reset(seed=1)
        sim.step(STILL)
    assert handover.hand_over_step(places, "develop")
    part = report_of(places, "steps", partial=True)
    assert part.ok and part.steps_used == 2 and part.end_reason is None
    assert report_of(places, "steps").code == "ledger.unsealed", "a part must be asked for"
    assert handover.hand_over_step(places, "develop"), "a repeated hook changes nothing"
    with broker.connect() as sim:
        assert sim.fetch_status().phase == "eval_01" and sim.status.live
        sim.step(np.tile([0.5, 0.0], (3, 1)))
        sim.finish()
        assert sim.status.phase == "eval_01", "the next phase waits for its step"
    assert handover.hand_over_step(places, "eval_01")
    part = report_of(places, "steps", partial=True)
    assert [t.ended for t in part.trials] == ["phase_closed", "finished", None][: len(part.trials)]
    with pytest.raises(InfrastructureError, match=r"phases: development, eval_01, eval_02"):
        handover.hand_over_step(places, "eval_09")
    with broker.connect() as sim:
        sim.step(STILL)
    assert handover.hand_over_step(places, "eval_02")
    report = report_of(places, "steps")
    assert report.ok and report.end_reason == "collected"
    assert [t.ended for t in report.trials] == ["phase_closed", "finished", "finished"]


def test_a_control_operation_does_not_wait_for_a_hanging_simulator(start, tmp_path):
    broker = start("attempt", "deployed", "patience=0.3")
    sim = broker.connect()
    sim.step(STILL)
    hung = subprocess.Popen(
        [sys.executable, "-c", "import sys; from rle.service import client as c; "
         "c.connect(sys.argv[1]).call('fault', how='hang')", broker.state["address"]],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)},
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    sim.close()
    while b'"op":"fault"' not in (Path(broker.state["folder"]) / "ledger.jsonl").read_bytes():
        assert hung.poll() is None
        time.sleep(0.05)
    start_s = time.monotonic()
    assert handover.hand_over(places_of(tmp_path), "collected")
    assert time.monotonic() - start_s < 25.0, "the simulator's own deadline is 30 s"
    hung.wait(30)
    report = report_of(places_of(tmp_path), "attempt")
    assert report.ok and report.trials[0].ended == "sim_error"


def test_control_is_for_the_service_alone(start, tmp_path):
    broker = start("attempt", "deployed")
    path = places_of(tmp_path).control
    assert path.stat().st_mode & 0o777 == 0o600
    answer = control(path, "status")
    assert answer["phases"] == ["attempt"] and broker.process.pid in answer["pids"]


def test_an_image_without_secrets_serves_practice_and_says_so(start, tmp_path):
    places = places_of(tmp_path)
    places.private.mkdir(mode=0o700)
    places.profile.write_text('{"task": "f03/tower"}')
    broker = start("attempt", "deployed")
    with broker.connect() as sim:
        assert sim.task_info()["practice"] is True
        sim.finish()
    opening = json.loads((places.session / "ledger.jsonl").read_bytes().splitlines()[0])["p"]
    assert (opening["layout"], opening["practice"]) == ("practice", True)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"task": "f03/tower", "budget": 1}', "budget"),
        ("{", "known keys: task"),
        ('{"task": "f03/towr"}', "did you mean 'f03/tower'"),
    ],
)
def test_a_profile_that_is_none_is_a_usage_error(tmp_path, capsys, text, told):
    places = places_of(tmp_path)
    places.private.mkdir(mode=0o700)
    places.profile.write_text(text)
    assert main([*places.arguments()]) == 2
    assert told in capsys.readouterr().err


def test_a_key_without_its_salt_is_no_practice(tmp_path, capsys):
    places = places_of(tmp_path)
    write_private(places.private, "f03/tower")
    (places.private / "salt").unlink()
    assert main([*places.arguments()]) == 2
    assert "salt" in capsys.readouterr().err


# ------------------------------------------------------------------------- the agent's side


@pytest.fixture
def agents_files(tmp_path):
    """A tree with files of `UID` between those of root."""
    home = tmp_path / "home"
    (home / ".config").mkdir(parents=True)
    (home / ".config" / "cli.json").write_text("{}")
    (home / ".config" / "cli.json").chmod(0o640)
    (home / "link").symlink_to(".config/cli.json")
    (tmp_path / "system").write_text("root's")
    for path in (home, *home.rglob("*")):
        os.chown(path, UID, UID, follow_symlinks=False)
    return tmp_path


def plant(base: Path) -> list[Path]:
    """Notes for the next agent, in the places that come to mind."""
    home = base / "home"
    (home / ".cache" / "deep").mkdir(parents=True)
    (base / "tmp").mkdir(mode=0o777)
    notes = [home / "notes.md", home / ".cache" / "deep" / "n", home / ".config" / "history",
             base / "tmp" / "note", base / "tmp" / ".hidden"]  # fmt: skip
    for path in notes:
        path.write_text("the heavy one is cube 4")
    (home / ".config" / "cli.json").write_text('{"note": 4}')
    (home / "link").unlink()
    (home / "link").symlink_to("notes.md")
    with contextlib.suppress(OSError):
        os.setxattr(home / ".config", "user.note", b"cube 4")
    for path in (*home.rglob("*"), *notes, home / ".cache"):
        os.chown(path, UID, UID, follow_symlinks=False)
    return notes


@as_root
def test_between_steps_the_agents_files_are_those_before_the_first(agents_files):
    base = agents_files
    archive = base / "snapshot.tar"
    assert snapshot.take(UID, [base], archive)
    assert archive.stat().st_mode & 0o777 == 0o600
    notes = plant(base)
    assert not snapshot.take(UID, [base], archive), "a second snapshot is not honoured"
    assert snapshot.restore(UID, [base], archive) > len(notes)
    assert not any(path.exists() for path in notes)
    home = base / "home"
    assert sorted(str(p.relative_to(home)) for p in home.rglob("*")) == [
        ".config", ".config/cli.json", "link",
    ]  # fmt: skip
    restored = (home / ".config" / "cli.json").stat()
    assert (home / ".config" / "cli.json").read_text() == "{}"
    assert (restored.st_uid, restored.st_mode & 0o777) == (UID, 0o640)
    assert os.readlink(home / "link") == ".config/cli.json"
    assert os.listxattr(home / ".config") == []
    assert (base / "system").read_text() == "root's" and (base / "tmp").is_dir()


@as_root
def test_what_was_frozen_comes_back_read_only_beside_an_empty_scratch(tmp_path):
    frozen, workspace, outside = (tmp_path / n for n in ("frozen", "workspace", "outside"))
    (frozen / "agent_harness" / "lib").mkdir(parents=True)
    (frozen / "agent_harness" / "MANUAL.md").write_text("how to")
    (frozen / "agent_harness" / "lib" / "a.py").write_text("A = 1")
    for folder in (workspace, outside):
        folder.mkdir()
    (outside / "kept").write_text("x")
    (workspace / "agent_harness").symlink_to(outside)
    (workspace / "scratch").mkdir()
    (workspace / "scratch" / "note").write_text("cube 4")
    for _ in range(2):  # after each step
        assert snapshot.put_back(frozen, workspace, UID) == ["agent_harness"]
        harness = workspace / "agent_harness"
        assert not harness.is_symlink() and (harness / "MANUAL.md").read_text() == "how to"
        for path in (harness, *harness.rglob("*")):
            assert (path.stat().st_uid, path.stat().st_mode & 0o222) == (0, 0)
        assert list((workspace / "scratch").iterdir()) == []
        assert (workspace / "scratch").stat().st_uid == UID
    assert [p.name for p in outside.iterdir()] == ["kept"]
    assert snapshot.put_back(tmp_path / "none", workspace, UID) == []


@as_root
def test_every_process_of_the_agent_ends_and_no_other():
    code = "trap '' TERM; sleep 600 & sleep 600; exit 0"
    agent = subprocess.Popen(["/bin/sh", "-c", code], user=UID, group=UID, extra_groups=[], cwd="/")
    mine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        while len(handover._processes_of(UID)) < 3:
            assert agent.poll() is None
            time.sleep(0.02)
        assert handover.end_processes(UID) == 3
        assert agent.wait(10) == -signal.SIGKILL
        assert handover._processes_of(UID) == [] and mine.poll() is None
    finally:
        mine.kill()
        mine.wait()


def test_mounts_that_hold_no_files_are_left_alone(tmp_path):
    table = tmp_path / "mounts"
    table.write_text(
        "overlay / overlay rw,relatime 0 0\nproc /proc proc rw 0 0\n"
        "tmpfs /dev/shm tmpfs rw,nosuid 0 0\n/dev/sda /opt ext4 ro,relatime 0 0\n"
        "tmpfs /with\\040space tmpfs rw 0 0\n"
    )
    assert snapshot.writable_mounts(table) == [Path("/"), Path("/dev/shm"), Path("/with space")]


def test_the_embedded_link_has_nothing_to_abort():
    link = InProcess(declared("attempt"))
    link.abort()
    assert link.is_alive()
