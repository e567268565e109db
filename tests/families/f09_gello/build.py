"""Small submissions for the tests: records written as text and read back."""

from collections.abc import Sequence

from families.f09_gello import task
from families.f09_gello.mechanism.record import Lead, Mesh, Part, Record, Spring
from families.f09_gello.scene import stock_xml
from train_baselines.oracles.f09_gello import lead_xml, stl_bytes

STEEL, PLASTIC = 7850.0, 1240.0
IDENTITY = (1.0, 0.0, 0.0, 0.0)


def ball(
    name: str, body: str, at: tuple[float, float, float], radius_m: float, density: float = STEEL
) -> Part:
    return Part(name, body, "sphere", (radius_m,), at, IDENTITY, density)


def box(
    name: str,
    body: str,
    at: tuple[float, float, float],
    half: tuple[float, float, float],
    density: float = PLASTIC,
) -> Part:
    return Part(name, body, "box", half, at, IDENTITY, density)


def accept(
    parts: Sequence[Part] = (),
    springs: Sequence[Spring] = (),
    meshes: dict[str, Mesh] | None = None,
    arm: str = "franka",
) -> Lead:
    """Writes `lead.xml` (and STL files) and reads them as the verifier does."""
    record = Record(arm, tuple(springs), tuple(parts), meshes or {})
    files = {f"{name}.stl": stl_bytes(mesh) for name, mesh in record.meshes.items()}
    return task.accept(arm, lead_xml(record).encode(), files)


def edited(old: str, new: str, arm: str = "franka") -> Lead:
    """The stock file with one piece of text changed."""
    text = stock_xml(arm)
    assert old in text
    return task.accept(arm, text.replace(old, new, 1).encode(), {})


def kept(lead: Lead) -> list[str]:
    return [part.name for part in lead.record.parts]


def messages(lead: Lead) -> str:
    return "\n".join(f"{f.code}: {f.element}: {f.message}" for f in lead.findings)
