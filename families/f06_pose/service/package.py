"""The agent's client as part of the `rle_client` wheel: `rle_client.f06`."""

from pathlib import Path

from rle.service.deploy import wheel

_HERE = Path(__file__).resolve().parent
FILES = {
    "f06/__init__.py": _HERE.parent / "client.py",
    "f06/dataset.py": _HERE.parent / "dataset.py",
    "f06/__main__.py": _HERE / "agent.py",
}
RENAMES = {
    "families.f06_pose.client": "rle_client.f06",
    "families.f06_pose.dataset": "rle_client.f06.dataset",
}


def build(folder: Path) -> Path:
    """Writes the wheel into a folder and returns its path."""
    return wheel.build(folder, FILES, RENAMES)
