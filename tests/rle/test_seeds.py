"""Streams: named, independent, secret where they must be."""

import itertools

import pytest

from rle.seeds import PRACTICE_SALT, salt_id, stream, trial_key

SALT = b"s" * 32


def draw(key, name="dynamics", *ids):
    return stream(key, name, *ids).random(4).tolist()


def test_same_coordinates_same_draws():
    keys = [trial_key("f04", "dance", "hidden", 3, SALT) for _ in range(2)]
    assert draw(keys[0]) == draw(keys[1])


@pytest.mark.parametrize(
    "other",
    [
        ("f05", "dance", "hidden", 3, SALT), ("f04", "fight", "hidden", 3, SALT),
        ("f04", "dance", "smoke", 3, SALT), ("f04", "dance", "hidden", 4, SALT),
        ("f04", "dance", "hidden", 3, b"t" * 32),
    ],
)  # fmt: skip
def test_every_coordinate_matters(other):
    assert draw(trial_key(*other)) != draw(trial_key("f04", "dance", "hidden", 3, SALT))


def test_streams_and_ids_are_independent():
    key = trial_key("f04", "dance", "hidden", 0, SALT)
    draws = [draw(key, "a"), draw(key, "b"), draw(key, "a", 1), draw(key, "a", "1", 2)]
    assert all(x != y for x, y in itertools.combinations(draws, 2))


def test_field_borders_are_part_of_the_key():
    # Without length prefixes ("ab", "c") and ("a", "bc") would hash alike.
    assert trial_key("ab", "c", "public", 0) != trial_key("a", "bc", "public", 0)


def test_public_and_design_ignore_the_salt():
    for namespace in ("public", "design"):
        a = trial_key("f04", "dance", namespace, 101, SALT)
        assert a == trial_key("f04", "dance", namespace, 101, b"t" * 32)


def test_salted_namespaces_refuse_an_empty_salt():
    with pytest.raises(ValueError, match="needs a salt"):
        trial_key("f04", "dance", "hidden", 0)


def test_salt_id_is_short_and_public():
    assert len(salt_id(PRACTICE_SALT)) == 8
    assert salt_id(PRACTICE_SALT) != salt_id(SALT)
