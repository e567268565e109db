"""Runs a recipe's file as `python solution.py` would, with an environment made from scratch."""

import os
import runpy
import sys
import threading
import traceback
from pathlib import Path

from ..wire import FUNCTION, Fault

FAILED = 1
"""Exit code of a file that raised."""


class RecipeRole:
    """LOAD names the file and its environment; ACT runs it and answers with its exit code (u64)."""

    def load(self, fields: dict) -> dict:
        self._path = str(Path(fields["root"]) / fields["path"])
        os.environ.clear()
        os.environ.update(fields["environment"])
        return {}

    def reset(self, fields: dict) -> None:
        raise Fault("ipc.frame")

    def act(self, payload: memoryview) -> bytes:
        code = run(self._path)
        sys.stdout.flush()
        return FUNCTION.pack(code & 0xFF)


def run(path: str) -> int:
    """Runs a file as the main program, waits for its threads, and returns its exit code."""
    sys.argv = [path]
    try:
        runpy.run_path(path, run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else FAILED if end.code else 0
    except (
        BaseException
    ):  # what a recipe raises is its own failure, as it is for `python solution.py`
        traceback.print_exc()
        code = FAILED
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    return code


def build(config: dict) -> RecipeRole:
    return RecipeRole()
