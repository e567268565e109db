"""Code of a submission that runs in this process, as under `rle dev`: when it ends the process, somebody says so."""

import contextlib
import os
import traceback
from collections.abc import Generator


@contextlib.contextmanager
def exits_raise() -> Generator[None]:
    """Meanwhile `os._exit` raises SystemExit, as `sys.exit` does, so that the caller can tell who left.

    A process that the code forks still leaves by it.
    """
    leave, here = os._exit, os.getpid()

    def raised(status: int) -> None:
        if os.getpid() != here:
            leave(status)
        raise SystemExit(status)

    os._exit = raised  # ty: ignore[invalid-assignment]
    try:
        yield
    finally:
        os._exit = leave


def line_of(error: BaseException) -> int:
    """Line of the submission at which an error was raised; 0 where it has none."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    return getattr(error, "lineno", None) or (frames[-1].lineno if frames else 0) or 0
