"""One module per group of commands. A command is a dataclass with `run() -> exit code`."""
