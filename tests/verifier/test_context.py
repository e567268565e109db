"""What trials keep for the videos of a run, and the command that a report shows."""

import stat

import numpy as np

from tests.attacks.onnx_files import honest
from tests.verifier import fake_family
from verifier.context import Context
from verifier.hidden import read_salt
from verifier.isolation import layers
from verifier.run import Request, Run
from verifier.submission import freeze

STATES = np.linspace(0.0, 1.0, 12).reshape(4, 3)


def settings_of(tmp_path, *, media: bool):
    """Settings as a run makes them, and the run."""
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "policy.onnx").write_bytes(honest())
    request = Request(
        task=fake_family.TASK, artifacts=tmp_path / "given", out=tmp_path / "out", media=media
    )
    run = Run(request)
    frozen = freeze(request.artifacts, tmp_path / "frozen", request.task)
    return run._make_settings(read_salt(None), layers.plan("reduced"), frozen), run


def test_the_process_that_films_finds_what_a_trial_kept_and_nobody_else_may_look(tmp_path):
    settings, run = settings_of(tmp_path, media=True)
    Context(settings, label="t3").keep("t3", STATES)
    filming = Context(settings, label="media")
    assert np.array_equal(filming.kept("t3"), STATES) and filming.kept("t4") is None
    folder = settings.states_folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    run.clean()
    assert not folder.exists()


def test_a_run_without_videos_keeps_nothing(tmp_path):
    settings, run = settings_of(tmp_path, media=False)
    context = Context(settings)
    context.keep("t3", STATES)
    assert context.kept("t3") is None and settings.states_folder is None
    assert not list(run._work.rglob("*.npy"))
    run.clean()


def test_the_command_of_a_report_asks_for_the_salt_and_does_not_tell_where_it_lies(tmp_path):
    given = {"task": fake_family.TASK, "artifacts": tmp_path, "out": tmp_path}
    secret = Request(**given, salt_file="/secret/place").command()
    assert "--salt-file SALT_FILE" in secret and "/secret" not in secret
    assert "salt" not in Request(**given).command()
