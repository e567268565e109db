"""What must not share one number is refused with the list, or marked when that was asked for."""

import json
import math

import pytest
from index_cases import report, scored, system, write_input, write_out

from rle.errors import UserError
from rle.index import IndexOptions, run_index
from rle.index.check import check, mixtures
from rle.index.published import read_published, recomputed_index


def index_of(tmp_path, *systems, **options):
    return run_index(IndexOptions(results=(write_input(tmp_path, *systems),), **options))


@pytest.mark.parametrize(
    ("task", "cell", "message"),
    [
        ("f04/dence", scored(0.5), "f04/dence .*no such task"),
        ("f04/dance", scored(1.2, rows=[]), "reward 1.2 is outside 0..1"),
        ("f04/dance", scored(-0.1, rows=[]), "reward -0.1 is outside 0..1"),
        ("f04/dance", scored(0.5, ranked=False, options={"profile": "no_push"}), "no_push"),
        ("f04/dance", scored(0.5, validation=True), "rehearsal"),
        ("f05/libero-open", scored(0.5, options={"tier": "lite"}), "tier 'lite'.*folds 'full'"),
    ],
)
def test_refused(tmp_path, task, cell, message):
    with pytest.raises(UserError, match=message):
        index_of(tmp_path, system("s", {task: cell}))


def test_not_a_number_is_no_reward(tmp_path):
    with pytest.raises(UserError, match="reward nan is outside"):
        check(
            [system("s", {"f04/dance": scored(math.nan, rows=[])})],
            tier="full", allow_mixed=False, allow_validation=False,
        )  # fmt: skip


def test_all_findings_are_listed_at_once(tmp_path):
    cells = {"f04/dance": scored(1.5, rows=[]), "f99/x": scored(0.5)}
    with pytest.raises(UserError) as error:
        index_of(tmp_path, system("s", cells))
    assert "1.5" in error.value.message and "f99/x" in error.value.message


def test_a_system_or_a_run_given_twice(tmp_path):
    one = system("s", {"f04/dance": scored(0.5)})
    with pytest.raises(UserError, match="system 's' is given twice"):
        index_of(tmp_path, one, one)


def test_fewer_runs_than_there_are(tmp_path):
    two = system("s", {"f04/dance": scored(0.5)}, {"f04/dance": scored(0.5)})
    with pytest.raises(UserError, match="hold run 2; give --runs 2"):
        index_of(tmp_path, two, runs=1)


def test_one_signed_session_counts_once(tmp_path):
    a = system("a", {"f03/tower": scored(0.5, session_id="5e55")})
    b = system("b", {"f03/tower": scored(0.5, session_id="5e55")})
    with pytest.raises(
        UserError, match="index.replayed_session: session 5e55 .*a f03/tower.*b f03"
    ):
        index_of(tmp_path, a, b)


@pytest.mark.parametrize(
    ("one", "other", "name"),
    [
        ({"practice": True}, {"practice": False}, "practice and hidden trials"),
        ({"isolation": "strict"}, {"isolation": "reduced"}, "isolation modes"),
        ({"reference": "lafan1"}, {"reference": "stand-in"}, "reference data"),
        ({"options": {"backend": "a"}}, {"options": {"backend": "b"}}, "simulator backends"),
        ({"options": {"kind": "agent"}}, {"options": {"kind": "code"}}, "agent kinds"),
        ({"family_version": "1.0.0"}, {"family_version": "1.1.0"}, "versions of f04"),
    ],
)
def test_mixtures_are_refused_or_marked(tmp_path, one, other, name):
    mixed = system("s", {"f04/dance": scored(0.5, **one), "f04/run": scored(0.5, **other)})
    with pytest.raises(UserError, match=f"(?s)s mixes {name}: .*f04/dance.*--allow-mixed") as error:
        index_of(tmp_path, mixed)
    assert "f04/run" in error.value.message
    marked = index_of(tmp_path, mixed, allow_mixed=True)
    assert "mixed" in marked.systems[0].marks
    assert name in marked.marks[0]


def test_versions_of_different_families_do_not_mix():
    cells = {
        "f04/dance": scored(0.5, family_version="1.0.0"),
        "f07/bin-clearing": scored(0.5, family_version="2.0.0"),
    }
    assert mixtures(system("s", cells)) == []


def test_marks_say_what_kind_of_result_it_is(tmp_path):
    write_out(tmp_path / "a", report(practice=True, reference="stand-in", validation=True))
    with pytest.raises(UserError, match="--allow-validation"):
        run_index(IndexOptions(results=(tmp_path,)))
    found = run_index(IndexOptions(results=(tmp_path,), allow_validation=True)).systems[0]
    assert found.marks == ["practice", "stand-in reference", "validation"]


def test_lite_is_said_in_the_title(tmp_path):
    lite = system("s", {"f05/libero-open": scored(0.5, options={"tier": "lite"})})
    result = index_of(tmp_path, lite, tier="lite")
    assert result.title == "RLE Index (f05 lite)"
    assert "RLE Index (f05 lite)" in result.summary()
    assert result.systems[0].marks == ["lite"]


def test_systems_of_different_kinds_are_not_called_comparable(tmp_path):
    a = system("a", {"f04/dance": scored(0.5, practice=True, family_version="1.0.0")})
    b = system("b", {"f04/dance": scored(0.4, family_version="1.1.0")})
    result = index_of(tmp_path, a, b)
    assert result.comparisons[0].differs == ["only a is practice", "f04 1.0.0 against 1.1.0"]
    assert "NOT comparable" in result.summary()
    same = system("c", {"f04/dance": scored(0.4, family_version="1.1.0")})
    assert index_of(tmp_path, b, same).comparisons[0].differs == []


# -------------------------------------------------------------------------------------- published

FAMILIES = dict(zip([f"f0{i}" for i in range(1, 10)], [90, 60, 30, 80, 40, 50, 70, 20, 60]))


def published_file(tmp_path, **system_fields):
    path = tmp_path / "published.json"
    value = {
        "schema": "rle-published/1",
        "source": "a paper",
        "date": "2026-01-01",
        "systems": [{"name": "system a", **system_fields}],
    }
    path.write_text(json.dumps(value))
    return path


def test_published_index_follows_from_its_families(tmp_path):
    # The worked example in percent: 60 60 60 40 -> 55.
    assert recomputed_index(FAMILIES) == pytest.approx(55.0)
    assert read_published(published_file(tmp_path, families=FAMILIES))[0].index == pytest.approx(55)
    assert read_published(published_file(tmp_path, families=FAMILIES, index=55.1))
    with pytest.raises(UserError, match=r"states an index of 55.2, but its families give 55.00"):
        read_published(published_file(tmp_path, families=FAMILIES, index=55.2))


def test_published_figures_are_checked(tmp_path):
    with pytest.raises(UserError, match="f10"):
        read_published(published_file(tmp_path, families={"f10": 1.0}))
    with pytest.raises(UserError, match="0..100"):
        read_published(published_file(tmp_path, tasks={"f04/dance": 101.0}))
    with pytest.raises(UserError, match="no rle-published/1"):
        read_published(tmp_path / "absent.json")


def test_published_rows_have_no_rank_and_no_interval(tmp_path):
    path = published_file(tmp_path, families=FAMILIES)
    result = index_of(tmp_path, system("s", {"f04/dance": scored(0.5)}), published=path)
    assert [s.name for s in result.systems] == ["s"]
    assert result.published[0].name == "system a"
    assert result.comparisons == []
