"""Where the parts of a deployment lie, and whose they are. One value, so that tests can move it."""

from pathlib import Path

import msgspec


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Paths and users of a deployment; the defaults are those of the images."""

    private: Path = Path("/opt/rle/private")
    """`profile.json`, `salt`, `broker.key`: 0700, the service's user."""
    code: Path = Path("/opt/rle/venv")
    """Simulator, families and scorer; the agent cannot read it."""
    state: Path = Path("/var/lib/rle")
    """Session, control socket, hand-over: 0700, the service's user."""
    socket: Path = Path("/run/rle/sim.sock")
    """The agent's door."""
    keeper: Path = Path("/var/lib/rle-keeper")
    """Root's folder: lock, logs, snapshot."""
    workspace: Path = Path("/workspace")
    """The agent's folder."""
    agent_uid: int = 1000
    """User `agent`. Source: the images."""
    service_uid: int = 990
    """User `rle`. Source: the images."""

    roots: tuple[Path, ...] = ()
    """Where the agent may have left files; empty: every writable mount."""

    @property
    def profile(self) -> Path:
        return self.private / "profile.json"

    @property
    def session(self) -> Path:
        return self.state / "session"

    @property
    def control(self) -> Path:
        return self.state / "control.sock"

    @property
    def handover(self) -> Path:
        return self.state / "handover"

    @property
    def keeper_socket(self) -> Path:
        """Where the keeper can be asked for the one snapshot."""
        return self.keeper / "keeper.sock"

    @property
    def keeper_lock(self) -> Path:
        """Held by the living keeper."""
        return self.keeper / "lock"

    @property
    def snapshot(self) -> Path:
        """Agent-owned files before the first step: 0600, root."""
        return self.keeper / "snapshot.tar"

    def arguments(self) -> list[str]:
        """As options of `python -m rle.service`."""
        pairs = [(f"--{name.replace('_', '-')}", getattr(self, name)) for name in SINGLE]
        words = [str(word) for pair in pairs for word in pair]
        return words + [word for root in self.roots for word in ("--root", str(root))]


SINGLE = tuple(name for name in Places.__struct_fields__ if name != "roots")
"""Fields that are one path or number."""
