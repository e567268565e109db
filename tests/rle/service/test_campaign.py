"""A campaign's secrets: fresh, private, and what makes a run count."""

import os

import pytest

from rle import seeds
from rle.commands.deploy import Deploy
from rle.errors import UserError
from rle.service.deploy.campaign import deploy
from rle.service.hosting import load_profile
from rle.service.record import SigningKey, VerifyKey


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_a_metered_task_gets_a_pair_and_a_shared_salt(tmp_path, capsys):
    assert Deploy(folder=tmp_path / "c", tasks=("f03/tower",)).run() == 0
    base = tmp_path / "c" / "f03-tower"
    assert files(base) == [
        "environment/private/broker.key", "environment/private/profile.json",
        "environment/private/salt", "tests/private/broker.pub", "tests/private/salt",
    ]  # fmt: skip
    private, tests = base / "environment" / "private", base / "tests" / "private"
    assert (private / "salt").read_bytes() == (tests / "salt").read_bytes() != seeds.PRACTICE_SALT
    pair = SigningKey.load(private / "broker.key").public
    assert pair.deployment_id == VerifyKey.load(tests / "broker.pub").deployment_id
    profile = load_profile(private / "profile.json")
    assert (profile.task, profile.layout, profile.sync) == ("f03/tower", "deployment", True)
    for path in (private / "salt", private / "broker.key", tests / "salt"):
        assert path.stat().st_mode & 0o077 == 0
    assert "--salt-file" in capsys.readouterr().out


def test_no_secret_is_used_twice_and_draws_that_belong_together_share_one(tmp_path):
    tasks = deploy(tmp_path / "a")
    again = deploy(tmp_path / "b", ("f03/tower",))
    assert again == ["f03/tower"] and len(tasks) > 5
    salts = {
        t: (tmp_path / "a" / t.replace("/", "-") / "tests/private/salt").read_bytes() for t in tasks
    }
    assert salts["f03/tower"] != salts["f03/balance"]
    assert salts["f06/rgb"] == salts["f06/rgbd"]
    assert not (tmp_path / "a" / "f04-dance" / "environment").exists(), "no broker, no key"
    keys = [(tmp_path / n / "f03-tower/tests/private/broker.pub").read_text() for n in "ab"]
    assert keys[0] != keys[1]
    assert (tmp_path / "b" / "f03-tower/tests/private/salt").read_bytes() != salts["f03/tower"]


def test_secrets_do_not_go_where_something_is(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(UserError, match="not an empty folder"):
        deploy(tmp_path)
    with pytest.raises(UserError, match="no task matches f99"):
        deploy(tmp_path / "c", ("f99/*",))
    os.mkdir(tmp_path / ".git")
    with pytest.raises(UserError, match="lies in the repository"):
        deploy(tmp_path / "deep" / "c")
    assert not (tmp_path / "deep").exists()
