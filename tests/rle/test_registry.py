"""The 51 tasks are known from the start; a family that has not landed says so."""

import pytest

from rle import registry
from rle.errors import NotAvailable, UnknownName


def test_there_are_51_tasks_in_nine_families_and_four_workflows():
    assert len(registry.TASK_IDS) == len(set(registry.TASK_IDS)) == 51
    assert [len(registry.family_tasks(f)) for f in registry.PACKAGES] == [
        15,
        15,
        5,
        5,
        4,
        4,
        1,
        1,
        1,
    ]
    assert sorted(f for fs in registry.WORKFLOWS.values() for f in fs) == sorted(registry.PACKAGES)


def test_unknown_task_names_the_nearest_and_the_family():
    with pytest.raises(UnknownName) as caught:
        registry.get("f04/dence")
    assert "did you mean 'f04/dance'?" in caught.value.message
    assert "fall-and-get-up" in caught.value.message


def test_a_family_that_has_not_landed_is_not_available(monkeypatch):
    monkeypatch.setattr(registry, "landed_families", lambda: ("f04",))
    with pytest.raises(NotAvailable, match=r"not in this version. Families here: f04"):
        registry.get("f05/libero-open")


@pytest.mark.parametrize("family", registry.landed_families())
def test_specs_agree_with_the_registry(family):
    tasks = registry.room(family, "spec").TASKS
    assert tuple(t.id for t in tasks) == registry.family_tasks(family)
    for task in tasks:
        assert task.workflow == registry.workflow_of(family)
        assert 0 <= task.floor < task.pass_mark
        assert task.floor < task.bar <= 1
        assert task.instruction.strip() and task.title
        if task.gym_id:
            assert task.gym_id == f"rle/{task.id.replace('/', '-')}-v{task.version.split('.')[0]}"
