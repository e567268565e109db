"""`rle deploy`: the secrets of one evaluation campaign."""

import dataclasses
from pathlib import Path
from typing import Literal

import tyro

from rle.service.deploy.campaign import deploy


@dataclasses.dataclass
class Deploy:
    """Makes fresh salts and signing keys for one campaign. Example: rle deploy ~/campaign --tasks 'f03/*'"""

    folder: tyro.conf.Positional[Path]
    """New folder outside the repository; nothing but broker and verifier may read it."""
    tasks: tuple[str, ...] = ()
    """Task ids or globs; default: every task that is here."""
    layout: Literal["deployment", "sidecar"] = "deployment"
    """`sidecar`: the broker runs in a container of its own."""
    validation: bool = False
    """The services answer the reference solvers; such runs are never ranked."""

    def run(self) -> int:
        tasks = deploy(self.folder, self.tasks, layout=self.layout, validation=self.validation)
        base = self.folder / tasks[0].replace("/", "-")
        print(f"{len(tasks)} tasks in {self.folder}. For each, as for the first:")
        if (base / "environment").is_dir():
            print(
                f"  rle-service --private {base}/environment/private up    # where the agent works"
            )
        print(
            f"  rle verify {tasks[0]} --submission HANDOVER --salt-file {base}/tests/private/salt"
        )
        print("Keep the folder from the agents, and use it for one campaign.")
        return 0
