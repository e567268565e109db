"""`rle dev`: the scored loop on the published seeds."""

import json

import pytest

from families.f04_tracking import dev, draws, metrics, policy, task, verify
from rle.errors import InvalidSubmission, UserError
from tests.families.f04_tracking import graphs

OPEN_LOOP = graphs.open_loop(4).SerializeToString()


def test_design_evaluator_is_the_scored_loop(tmp_path):
    folder = graphs.write(tmp_path, graphs.open_loop(4), 4)
    result = dev.evaluate_design("f04/dance", folder, design_seeds=(101,))
    clip = verify.load_clip("dance")
    drawn = draws.trial_draws(dev.design_streams("dance", 101), clip.body_pos_w)
    act = policy.LocalGraph(OPEN_LOOP, 4).act
    row = verify.to_row(
        task.play(task.Trial(clip, drawn), act, 4), metrics.jerk_limit(clip.joint_pos), "seed101"
    )
    assert result.score == row.score and result.rows[0].metrics == row.metrics
    assert result.reference == "stand-in"


def test_design_evaluator_names_the_missing_file(tmp_path):
    with pytest.raises(InvalidSubmission, match="policy_meta.json is missing; found: nothing"):
        dev.evaluate_design("dance", tmp_path)


def test_command_prints_each_seed_and_the_mean(tmp_path, capsys):
    folder = graphs.write(tmp_path, graphs.open_loop(4), 4)
    assert dev.main(["--submission", str(folder), "--seeds", "101"], "f04/dance") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[0] == "seed101" and "fall:" in lines[0]
    assert lines[1].startswith("f04/dance: 0.0") and "1 design seeds" in lines[1]


def test_command_in_json_and_with_a_video(tmp_path, capsys):
    folder = graphs.write(tmp_path / "in", graphs.open_loop(4), 4)
    video = tmp_path / "videos"
    args = ["--submission", str(folder), "--seeds", "101", "--json", "--video", str(video)]
    assert dev.main([*args, "--profile", "nominal"], "f04/dance") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["profile"] == "nominal" and len(result["rows"]) == 1
    assert (video / "seed101.mp4").is_file()


def test_command_names_what_it_needs(tmp_path):
    with pytest.raises(UserError, match="policy.onnx and policy_meta.json"):
        dev.main(["--submission", str(tmp_path / "none")], "f04/dance")
