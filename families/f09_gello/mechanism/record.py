"""What is left of a submitted arm: springs, added parts and meshes as numbers, and their geometry."""

import math
import struct
from collections.abc import Mapping
from typing import Literal

import msgspec
import numpy as np

from families.f09_gello.spec import PART_RULES

Shape = Literal["box", "sphere", "capsule", "cylinder", "ellipsoid", "mesh"]
METAL, PRINTED = "cw_", "sup_"
"""Prefixes of added counterweights and printed supports."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that a check has to say about a submission."""

    level: Literal["refused", "dropped", "note"]
    code: str
    element: str
    message: str


class Spring(msgspec.Struct, frozen=True):
    """A torsion spring: torque -k (q - ref) on its joint."""

    joint: int
    """1-based."""
    stiffness_n_m_per_rad: float
    ref_rad: float


class Part(msgspec.Struct, frozen=True):
    """An added geom in the frame of its body."""

    name: str
    body: str
    shape: Shape
    size_m: tuple[float, ...]
    pos_m: tuple[float, float, float]
    quat_wxyz: tuple[float, float, float, float]
    density_kg_m3: float
    mesh: str = ""

    @property
    def is_metal(self) -> bool:
        """True for a counterweight."""
        return self.name.startswith(METAL)


class Mesh(msgspec.Struct, frozen=True):
    """A closed triangle surface, outward normals."""

    vertices_m: np.ndarray
    """Shape (n, 3)."""
    faces: np.ndarray
    """Shape (f, 3), int."""


class Record(msgspec.Struct, frozen=True):
    """All that reaches the simulator of a submitted arm."""

    arm: str
    springs: tuple[Spring, ...] = ()
    parts: tuple[Part, ...] = ()
    meshes: dict[str, Mesh] = {}


class Lead(msgspec.Struct, frozen=True, kw_only=True):
    """A submitted arm: what is accepted of it, and what was found."""

    record: Record
    findings: tuple[Finding, ...] = ()
    n_parts: int = 0
    """Added geoms in the file."""
    n_springs: int = 0
    """Springs in the file."""
    n_unconnected: int = 0
    """Added geoms that touch nothing that leads to their body."""

    def refused(self, code: str) -> bool:
        """Whether `load`, `structure` or `budget` refused the arm."""
        return any(f.level == "refused" and f.code.split(".")[0] == code for f in self.findings)


def volume_m3(part: Part, meshes: Mapping[str, Mesh]) -> float:
    """Volume of a part."""
    s = part.size_m
    match part.shape:
        case "box":
            return 8 * s[0] * s[1] * s[2]
        case "sphere":
            return 4 / 3 * math.pi * s[0] ** 3
        case "capsule":
            return math.pi * s[0] ** 2 * (2 * s[1] + 4 / 3 * s[0])
        case "cylinder":
            return 2 * math.pi * s[0] ** 2 * s[1]
        case "ellipsoid":
            return 4 / 3 * math.pi * s[0] * s[1] * s[2]
    return mesh_volume_m3(meshes[part.mesh])


def mesh_volume_m3(mesh: Mesh) -> float:
    """V = 1/6 sum_f a . (b x c): positive for outward normals."""
    a, b, c = (mesh.vertices_m[mesh.faces[:, i]] for i in range(3))
    return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)


def bounding_radius_m(part: Part, meshes: Mapping[str, Mesh]) -> float:
    """Radius about the geom's position that holds the whole part."""
    s = part.size_m
    match part.shape:
        case "box":
            return math.hypot(*s)
        case "sphere":
            return s[0]
        case "capsule":
            return s[0] + s[1]
        case "cylinder":
            return math.hypot(*s)
        case "ellipsoid":
            return max(s)
    return float(np.linalg.norm(meshes[part.mesh].vertices_m, axis=1).max())


def thickness_m(part: Part, meshes: Mapping[str, Mesh]) -> float:
    """Smallest full dimension; of a mesh, its smallest extent along its own principal axes."""
    if part.shape == "mesh":
        vertices = meshes[part.mesh].vertices_m - meshes[part.mesh].vertices_m.mean(axis=0)
        axes = np.linalg.eigh(vertices.T @ vertices)[1]
        return float(np.ptp(vertices @ axes, axis=0).min())
    if part.shape == "capsule":
        return 2 * part.size_m[0]
    return 2 * min(part.size_m)


def read_stl(data: bytes) -> Mesh:
    """Reads a binary STL as a closed surface, metres.

    Raises:
        ValueError: Not a binary STL, too large, not finite, not closed, or inside out.
    """
    count = struct.unpack_from("<I", data, 80)[0] if len(data) >= 84 else -1
    if len(data) != 84 + 50 * count:
        raise ValueError("not a binary STL (its size does not match its triangle count)")
    if not 4 <= count <= PART_RULES.mesh_faces_max:
        raise ValueError(f"{count} faces; 4 to {PART_RULES.mesh_faces_max} are accepted")
    raw = np.frombuffer(
        data, dtype=np.dtype([("n", "<f4", 3), ("v", "<f4", (3, 3)), ("a", "<u2")]), offset=84
    )
    corners = raw["v"].reshape(-1, 3).astype(float)
    if not np.isfinite(corners).all():
        raise ValueError("a vertex is not finite")
    vertices, index = np.unique(corners, axis=0, return_inverse=True)
    mesh = Mesh(vertices, index.reshape(-1, 3))
    edges = np.concatenate([mesh.faces[:, [0, 1]], mesh.faces[:, [1, 2]], mesh.faces[:, [2, 0]]])
    directed = {(int(a), int(b)) for a, b in edges}
    if len(directed) != len(edges) or any((b, a) not in directed or a == b for a, b in directed):
        raise ValueError("the surface is not closed (every edge must join exactly two faces)")
    if mesh_volume_m3(mesh) <= 0:
        raise ValueError("the surface is inside out (its volume is not positive)")
    return mesh
