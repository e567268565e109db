"""A bounded reader of STL and OBJ: triangles in, canonical binary STL out, nothing else kept."""

import struct

import numpy as np

from .roles import quoted
from .wire import Fault

MAX_COORDINATE_M = 10.0
"""Largest coordinate of a vertex."""
MIN_VERTICES = 4
"""A solid has at least these."""
STL_HEADER, STL_FACE_BYTES = 80, 50
"""Layout of binary STL: header, u32 count, then 12 floats and a u16 for each triangle."""
FACES_PER_VERTEX = 4
"""A closed surface has about two triangles for each vertex; far more are duplicates."""
FACE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def read(name: str, data: bytes, max_vertices: int) -> np.ndarray:
    """Reads a mesh file.

    Args:
        name: File name; its suffix is the format.
        data: Content.
        max_vertices: Largest number of distinct vertices.

    Returns:
        Corners of the triangles, shape (n, 3, 3), float32, m.

    Raises:
        Fault: `mesh.format`, `mesh.vertices` or `mesh.number`.
    """
    max_faces = FACES_PER_VERTEX * max_vertices
    if name.endswith(".obj"):
        corners = _read_obj(name, data, max_vertices, max_faces)
    elif is_binary_stl(data):
        corners = _read_binary_stl(name, data, max_vertices, max_faces)
    else:
        corners = _read_text_stl(name, data, max_vertices, max_faces)
    if not np.isfinite(corners).all() or np.abs(corners).max(initial=0.0) > MAX_COORDINATE_M:
        raise Fault("mesh.number", file=name, max=f"{MAX_COORDINATE_M:g}")
    n_vertices = count_vertices(corners)
    if n_vertices > max_vertices:
        raise Fault("mesh.vertices", file=name, n=n_vertices, max=max_vertices)
    if n_vertices < MIN_VERTICES:
        raise Fault("mesh.format", file=name, fact=f"{n_vertices} vertices are no solid")
    return corners


def count_vertices(corners: np.ndarray) -> int:
    """Distinct vertices of triangles, shape (n, 3, 3)."""
    flat = np.ascontiguousarray(corners.reshape(-1, 3) + np.float32(0.0))  # -0.0 becomes 0.0
    return len(np.unique(flat.view([("", flat.dtype)] * 3)))


def to_stl(corners: np.ndarray) -> bytes:
    """Canonical binary STL: empty header, zero normals (MuJoCo computes its own)."""
    faces = np.zeros(len(corners), FACE)
    faces["corners"] = corners
    return bytes(STL_HEADER) + struct.pack("<I", len(corners)) + faces.tobytes()


def is_binary_stl(data: bytes) -> bool:
    """The declared number of triangles fits the size, or the file is not even text."""
    if len(data) >= STL_HEADER + 4:
        (count,) = struct.unpack_from("<I", data, STL_HEADER)
        if len(data) == STL_HEADER + 4 + STL_FACE_BYTES * count:
            return True
    return not data.lstrip().startswith(b"solid")


def _too_many(name: str, faces: int, max_vertices: int, max_faces: int) -> None:
    if faces > max_faces:
        raise Fault("mesh.vertices", file=name, n=3 * faces, max=max_vertices)


def _read_binary_stl(name: str, data: bytes, max_vertices: int, max_faces: int) -> np.ndarray:
    if len(data) < STL_HEADER + 4:
        raise Fault("mesh.format", file=name, fact="the file is too short")
    (count,) = struct.unpack_from("<I", data, STL_HEADER)
    _too_many(name, count, max_vertices, max_faces)
    expected = STL_HEADER + 4 + STL_FACE_BYTES * count
    if len(data) != expected:
        fact = f"{count} triangles need {expected} bytes, the file has {len(data)}"
        raise Fault("mesh.format", file=name, fact=fact)
    return np.frombuffer(data, FACE, count, STL_HEADER + 4)["corners"].copy()


def _numbers(name: str, words: list[bytes]) -> list[float]:
    try:
        return [float(word) for word in words]
    except ValueError:
        raise Fault("mesh.number", file=name, max=f"{MAX_COORDINATE_M:g}") from None


def _read_text_stl(name: str, data: bytes, max_vertices: int, max_faces: int) -> np.ndarray:
    vertices = []
    for line in data.splitlines():
        words = line.split()
        if words and words[0] == b"vertex":
            if len(words) != 4:
                raise Fault("mesh.format", file=name, fact="a vertex without three numbers")
            vertices.append(_numbers(name, words[1:]))
            _too_many(name, len(vertices) // 3, max_vertices, max_faces)
    if not vertices or len(vertices) % 3:
        raise Fault("mesh.format", file=name, fact=f"{len(vertices)} corners make no triangles")
    return _single(vertices).reshape(-1, 3, 3)


def _read_obj(name: str, data: bytes, max_vertices: int, max_faces: int) -> np.ndarray:
    vertices, faces = [], []
    for line in data.splitlines():
        words = line.split()
        if not words:
            continue
        if words[0] == b"v":
            if len(words) < 4:
                raise Fault("mesh.format", file=name, fact="a vertex without three numbers")
            vertices.append(_numbers(name, words[1:4]))
            if len(vertices) > max_vertices:
                raise Fault("mesh.vertices", file=name, n=len(vertices), max=max_vertices)
        elif words[0] == b"f":
            corners = [_index(name, word) for word in words[1:]]
            if len(corners) < 3:
                raise Fault("mesh.format", file=name, fact="a face with fewer than three corners")
            faces.extend((corners[0], b, c) for b, c in zip(corners[1:], corners[2:]))
            _too_many(name, len(faces), max_vertices, max_faces)
        elif words[0] in (b"mtllib", b"usemtl", b"call", b"csh"):
            raise Fault("mesh.format", file=name, fact=f"{quoted(words[0].decode())} names files")
    table = _single(vertices).reshape(-1, 3)
    index = np.array(faces, np.int64).reshape(-1, 3) - 1
    if not len(index) or index.min() < 0 or index.max() >= len(table):
        raise Fault("mesh.format", file=name, fact="face indices outside the vertices")
    return table[index]


def _single(vertices: list[list[float]]) -> np.ndarray:
    with np.errstate(over="ignore"):  # what does not fit is refused as non-finite
        return np.array(vertices, np.float32)


def _index(name: str, word: bytes) -> int:
    head = word.split(b"/")[0]
    if not head.isdigit() or len(head) > 9:
        raise Fault("mesh.format", file=name, fact="face indices are whole numbers from 1")
    return int(head)
