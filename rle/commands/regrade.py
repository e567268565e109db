"""`rle regrade`: verifies stored results again, or compares two sets of results."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import tyro


@dataclasses.dataclass
class Regrade:
    """Verifies stored artifacts again with today's code. Example: rle regrade results, or rle regrade --reproduce a b"""

    results: tyro.conf.Positional[tuple[Path, ...]] = ()
    """OUT folders or Harbor job folders."""
    jobs: int | None = None
    """Trials at a time; default: the CPUs of this process."""
    set_version: str = "rle-51"
    """Name of the task set, for the record."""
    salt_file: Path | None = None
    """Secret of the campaign that made the results; none: practice."""
    reproduce: tuple[Path, Path] | None = None
    """Two result sets to compare task by task instead."""
    json: bool = False
    """Print the record as JSON."""

    def run(self) -> int:
        argv = [sys.executable, "-m", "verifier.regrade", *map(str, self.results)]
        argv += ["--set-version", self.set_version]
        argv += ["--jobs", str(self.jobs)] if self.jobs else []
        argv += ["--salt-file", str(self.salt_file)] if self.salt_file else []
        argv += ["--reproduce", *map(str, self.reproduce)] if self.reproduce else []
        argv += ["--json"] if self.json else []
        return subprocess.run(argv, check=False).returncode
