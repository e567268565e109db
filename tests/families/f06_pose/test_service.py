"""The renderer service over its socket: frames, limits, deaths, evaluations that survive a restart."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path

import msgspec
import numpy as np
import pytest

from families.f06_pose import client, dev, spec, task
from families.f06_pose.service import calls, package, server
from families.f06_pose.service.calls import Calls
from families.f06_pose.service.evaluate import EvaluationFailed, evaluate, interval, summary
from families.f06_pose.service.pool import Job
from families.f06_pose.service.server import Server
from rle import registry
from rle.errors import UserError
from rle.report import Report, Row
from rle.service.frames import recv_frame, send_frame
from rle.service.protocol import (
    encode,
)
from rle.service.record import SigningKey

SEED = 5
"""A public push whose first candidate is chosen."""


@pytest.fixture(scope="module")
def service():
    with tempfile.TemporaryDirectory(prefix="f06") as name:
        path = Path(name) / "s.sock"
        with Server(registry.get("f06/rgbd"), path, 1, None) as running:
            yield running, str(path)


@pytest.fixture
def renderer(service):
    with client.connect(service[1]) as connected:
        yield connected


def test_info_names_channels_camera_and_calls(renderer):
    facts = renderer.info()
    assert facts.channels == ("rgb", "depth") and facts.image_wh_px == (640, 480)
    assert facts.label_sigma == (0.005, 0.005, np.radians(3))
    assert renderer.task == "f06/rgbd"


def test_a_single_frame_is_the_one_of_the_scene(renderer):
    frame = renderer.single_frame(3)
    assert set(frame.obs) == {"rgb", "depth", "K", "T_cam_table", "t"}
    assert frame.obs["rgb"].shape == (480, 640, 3) and frame.obs["depth"].dtype == np.float32
    x, y, _ = task.draw_pose(task.open_streams("public", "single", 3))
    assert np.hypot(frame.label[0] - x, frame.label[1] - y) < 0.03, "a noisy label"
    assert frame.label == renderer.single_frame(3, render=False).label
    assert not frame.occluded and frame.t_s == 0.0


def test_the_shape_never_crosses_the_socket():
    fields = set(client.Shown.__struct_fields__) | set(client.Facts.__struct_fields__)
    assert not any("shape" in name for name in fields)


def test_shorter_requests_are_prefixes_and_labels_do_not_depend_on_the_length(renderer):
    long = renderer.push_episode(SEED, max_frames=3).frames
    short = renderer.push_episode(SEED, max_frames=2).frames
    for a, b in zip(long, short):
        assert np.array_equal(a.obs["rgb"], b.obs["rgb"]) and a.label == b.label
        assert np.array_equal(a.obs["depth"], b.obs["depth"], equal_nan=True)
    first = {
        renderer.push_episode(SEED, max_frames=n, render=False).frames[0].label for n in (1, 4)
    }
    assert first == {long[0].label}
    one = renderer.push_episode(SEED, n_strokes=1, render=False).frames
    whole = renderer.push_episode(SEED, render=False).frames
    assert len(one) < len(whole) <= spec.FRAMES_MAX
    assert [f.label for f in one] == [f.label for f in whole[: len(one)]]


def test_map_keeps_the_order_of_the_seeds(renderer):
    seeds = [9, 2, 7, 2]
    labels = [f.label for f in renderer.map("single", seeds, render=False)]
    assert labels == [renderer.single_frame(s, render=False).label for s in seeds]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"seed": -1}, "seed is -1; 0 to 2147483647 is accepted"),
        ({"seed": 2**31}, "seed is 2147483648"),
        ({"seed": 1, "n_strokes": 6}, "n_strokes is 6; 1 to 5"),
        ({"seed": 1, "max_frames": 0}, "max_frames is 0; 1 to 100"),
    ],
)
def test_bad_requests_say_what_is_allowed(renderer, kwargs, message):
    with pytest.raises(client.RendererError, match=message) as caught:
        renderer.push_episode(**kwargs)
    assert caught.value.kind == "bad_request"


def test_more_open_requests_than_a_connection_may_have_are_refused(service):
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(service[1])
        recv_frame(raw, 2**20)
        for k in range(spec.PIPELINE_MAX + 1):
            request = client.Render(request_id=str(k), kind="single", seed=k, render=False)
            send_frame(raw, encode(request))
        decoder = msgspec.msgpack.Decoder(client.Reply)
        replies = [decoder.decode(recv_frame(raw, 2**25)) for _ in range(spec.PIPELINE_MAX + 1)]
    refused = [r for r in replies if isinstance(r, client.Failed)]
    assert all(r.kind == "busy" and "16 requests" in r.message for r in refused)
    assert len(replies) == spec.PIPELINE_MAX + 1


def test_a_place_is_free_before_the_last_reply_is_read(service):
    """A client that keeps its pipeline full asks again the moment it has read an answer."""
    told, ended = [], threading.Event()

    def tell(word: str) -> None:
        told.append(word)
        if told.count("reply") == 3:
            ended.set()

    request = client.Render(
        request_id="a", kind="push", seed=SEED, n_strokes=1, max_frames=3, render=False
    )
    job = Job(request, ("rgb",), send=lambda _: tell("reply"), done=lambda: tell("free"))
    assert service[0].pool.submit(job) and ended.wait(120.0)
    assert told == ["reply", "reply", "free", "reply"]


def test_garbage_is_answered_and_the_service_lives(service, renderer):
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(service[1])
        recv_frame(raw, 2**20)
        send_frame(raw, b"\xc1garbage")
        reply = msgspec.msgpack.decode(recv_frame(raw, 2**20), type=client.Reply)
        assert reply.kind == "bad_request"
        raw.sendall((2**31).to_bytes(4, "big"))
        assert recv_frame(raw, 2**20) is None, "an oversize frame ends the connection"
    assert renderer.info().workers == 1


def test_a_dead_renderer_is_replaced(service, renderer):
    pid = service[0].pool.pids[0]
    before = renderer.single_frame(1, render=False).label
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(client.RendererError, match="renderer process died") as caught:
        renderer.single_frame(1, render=False)
    assert caught.value.kind == "sim_error"
    assert service[0].pool.pids[0] != pid
    assert renderer.single_frame(1, render=False).label == before


def test_nobody_there_names_the_command():
    with pytest.raises(client.RendererError, match="start it with `rle dev f06/rgb`"):
        client.connect("/nowhere/f06.sock")


# ------------------------------------------------------------------------------ evaluations


@pytest.fixture
def key():
    return SigningKey.generate()


def test_six_calls_then_no_more_also_after_a_restart(tmp_path, key):
    counter = Calls(tmp_path, "f06/rgb", key)
    for k in range(spec.EVALUATION_CALLS):
        assert counter.charge(str(k), "digest")
        counter.confirm(str(k), 1)
    assert not counter.charge("x", "digest") and counter.left == 0
    counter.close()
    again = Calls(tmp_path, "f06/rgb", key)
    assert again.left == 0 and not again.charge("y", "digest")
    again.close()


def test_a_call_of_ours_that_failed_is_given_back(tmp_path, key):
    counter = Calls(tmp_path, "f06/rgb", key)
    counter.charge("a", "digest")
    counter.confirm("a", 0)
    assert counter.left == spec.EVALUATION_CALLS
    counter.charge("b", "digest")
    counter.close()  # as a crash leaves it: charged, not confirmed
    again = Calls(tmp_path, "f06/rgb", key)
    assert again.left == spec.EVALUATION_CALLS
    text = (tmp_path / "ledger.jsonl").read_text()
    assert '"k":"confirm"' in text.splitlines()[-2] and '"executed":0' in text.splitlines()[-2]
    again.close()


def test_the_record_of_another_task_is_refused(tmp_path, key):
    Calls(tmp_path, "f06/rgb", key).close()
    with pytest.raises(UserError, match="belongs to f06/rgb, not f06/rgbd"):
        Calls(tmp_path, "f06/rgbd", key)


def test_the_seventh_evaluation_over_the_socket(tmp_path, key, monkeypatch):
    told: list[str] = []

    def fake(task_id, folder, request_id, calls_left):
        told.append(str(folder))
        if "broken" in str(folder):
            raise EvaluationFailed("invalid_submission", "estimator.py is missing", is_used=False)
        nothing = client.Interval(0, None, None, None, None, None)
        table = {"single": nothing, "push": nothing}
        return client.Evaluation(
            request_id=request_id, xy_mm=table, theta_deg=table, rate_hz=1.0, calls_left=calls_left
        )

    monkeypatch.setattr(server, "evaluate", fake)
    for restart in range(2):
        counter = Calls(tmp_path / "record", "f06/rgb", key)
        path = tmp_path / f"{restart}.sock"
        with Server(registry.get("f06/rgb"), path, 0, counter):
            with client.connect(str(path)) as renderer:
                with pytest.raises(client.RendererError, match="estimator.py is missing|6 of 6"):
                    renderer.evaluate("/broken")
                if restart == 0:
                    left = [renderer.evaluate("/good").calls_left for _ in range(6)]
                    assert left == [5, 4, 3, 2, 1, 0]
                with pytest.raises(client.RendererError) as caught:
                    renderer.evaluate("/good")
                assert str(caught.value) == "6 of 6 design-set evaluations are used"
                assert caught.value.kind == "budget_exhausted"
        counter.close()
    assert len(told) == 7


def test_intervals_resample_whole_seeds():
    # Three seeds with means 1, 2, 3: the mean of three draws lies in [1, 3].
    got = interval([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    assert (got.n, got.mean, got.median) == (6, 2.0, 2.0)
    assert got.std == round(float(np.std([1, 1, 2, 2, 3, 3])), 1)
    assert got.low is not None and got.high is not None
    assert 1.0 <= got.low < 1.5 and 2.5 < got.high <= 3.0
    assert interval([]) == interval([[], []]) == client.Interval(0, None, None, None, None, None)
    assert got == interval([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]), "the same errors, the same reply"


def test_a_reply_holds_no_shape_and_no_frame():
    series = {"xy_error_mm": [1.26, 2.0], "yaw_error_deg": [0.5, 0.5]}
    rows = [
        Row(id=f"{s}{d}", group=s, score=0.0, ended="done", series=series)
        for s in "ab" for d in spec.DESIGN_SEEDS
    ]  # fmt: skip
    report = Report(
        task="f06/rgb", family_version="1", outcome="scored", reward=0.5, practice=True, rows=rows,
        metrics={"rate_hz": 12.345, "shape_accuracy_a": 1.0}, started_at="", finished_at="", wall_s=0,
    )  # fmt: skip
    reply = summary(report, "id", 3)
    assert reply.xy_mm["single"].n == 6 and reply.xy_mm["push"].mean == 1.6
    assert reply.rate_hz == 12.3 and reply.calls_left == 3
    assert b"shape" not in encode(reply) and b"reward" not in encode(reply)


# ------------------------------------------------------------------------- package and command


def test_the_agents_package_imports_alone(tmp_path):
    with zipfile.ZipFile(package.build(tmp_path)) as wheel:
        wheel.extractall(tmp_path / "site")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
        "import rle_client.f06, rle_client.f06.dataset\n"
        "try:\n    rle_client.f06.connect('/nowhere')\n"
        "except rle_client.f06.RendererError as error: print(error.kind)\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('rle', 'families', 'mujoco', 'torch')])"
    )
    run = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split("\n")[:2] == ["internal", "[]"]
    shown = subprocess.run(
        [sys.executable, "-m", "rle_client.f06", "generate", "--help"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        cwd=tmp_path,
    )  # fmt: skip
    assert "--start-seed" in shown.stdout, shown.stderr


@pytest.mark.parametrize("task_id", registry.family_tasks("f06"))
def test_help_fits_one_screen(task_id):
    text = dev.help_text(task_id)
    assert text.count("\n") <= 24 and max(map(len, text.splitlines())) <= 110
    assert "generate" in text and "evaluate" in text and calls.OPERATION in text


def test_a_command_finds_the_running_service(tmp_path, monkeypatch):
    monkeypatch.setattr(dev, "runtime_folder", lambda: tmp_path)
    assert dev._running("f06/rgb") is None
    path = dev.socket_path(dev.root_of("f06/rgb"))
    with Server(registry.get("f06/rgb"), path, 0, None):
        found = dev._running("f06/rgb")
        assert found is not None and found.info().channels == ("rgb",)
        found.close()
    path.touch()  # as a killed service leaves it
    assert dev._running("f06/rgb") is None


def test_a_folder_that_is_not_there_is_named_and_costs_nothing(tmp_path):
    with pytest.raises(
        EvaluationFailed, match="nowhere is not a folder that the renderer can read"
    ) as caught:
        evaluate("f06/rgb", tmp_path / "nowhere", "r", 5)
    assert caught.value.kind == "invalid_submission" and not caught.value.is_used


@pytest.mark.parametrize("workers", ["0", "-1", "two"])
def test_no_renderer_process_is_refused(workers, capsys):
    for args in (
        ["--workers", workers],
        ["generate", "--n", "1", "--out", "x", "--workers", workers],
    ):
        with pytest.raises(SystemExit):
            dev.main(args, "f06/rgb")
        assert f"'{workers}' is not a whole number above 0" in capsys.readouterr().err


def test_an_unknown_command_lists_the_known():
    with pytest.raises(UserError, match="known: serve, generate, evaluate"):
        dev.main(["render"], "f06/rgb")


@pytest.mark.slow
def test_a_real_evaluation_of_the_reference(tmp_path, key):
    tracker = Path(__file__).resolve().parents[3] / "train_baselines" / "f06_tracker"
    counter = Calls(tmp_path / "record", "f06/rgbd", key)
    path = tmp_path / "s.sock"
    with Server(registry.get("f06/rgbd"), path, 0, counter):
        with client.connect(str(path), timeout_s=1200.0) as renderer:
            reply = renderer.evaluate(tracker)
            empty = tmp_path / "empty"
            empty.mkdir()
            with pytest.raises(client.RendererError, match="the folder is empty"):
                renderer.evaluate(empty)
            left = renderer.info().calls_left
    counter.close()
    assert reply.xy_mm["single"].n == 12 and reply.xy_mm["push"].n == 120
    assert reply.xy_mm["single"].mean < 5.0 and reply.theta_deg["push"].mean < 5.0
    assert reply.calls_left == left == 5, "a refused copy costs nothing"
