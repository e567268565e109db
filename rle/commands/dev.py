"""`rle dev`: the development side of a task; what follows the task is the family's own."""

import dataclasses

import tyro

from rle import registry
from rle.commands.serve import Serve
from rle.errors import UserError


@dataclasses.dataclass
class Dev:
    """A task's development side. Example: rle dev f04/dance --submission DIR; options: rle dev TASK -- --help"""

    task: tyro.conf.Positional[str]
    """Task id, as in `rle list`; its card says what there is."""
    extra: tyro.conf.Suppress[tuple[str, ...]] = ()

    def run(self) -> int:
        family = registry.get(self.task).family
        if self.task in getattr(registry.room(family, "spec"), "SESSIONS", {}):
            return Serve(task=self.task).run()
        if not registry.has_room(family, "dev"):
            raise UserError(
                f"{self.task} has no command of its own to develop with; see `rle card {self.task}`"
            )
        args = [a for a in self.extra if a != "--"]
        return registry.room(family, "dev").main(args, self.task)
