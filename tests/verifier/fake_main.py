"""`python -m verifier` with the family of `fake_family` in place of f04; for tests of processes."""

import sys
from unittest import mock

from rle import registry
from tests.verifier import fake_family


def patched():
    """Context in which the registry answers with the fake family."""
    return mock.patch.multiple(
        registry,
        get=lambda task_id: fake_family.TASK,
        room=lambda family, name: fake_family,
    )


if __name__ == "__main__":
    from verifier.__main__ import main

    with patched():
        sys.exit(main())
