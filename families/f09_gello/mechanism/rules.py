"""What of a submitted arm is legal, one element at a time; every refusal says rule, value and limit."""

from collections.abc import Mapping, Sequence
from functools import cache

import msgspec
import numpy as np

from families.f09_gello.mechanism.record import (
    METAL,
    PRINTED,
    Finding,
    Lead,
    Mesh,
    Part,
    Record,
    Spring,
    bounding_radius_m,
    read_stl,
    thickness_m,
    volume_m3,
)
from families.f09_gello.mechanism.text import orientation, parse, place
from families.f09_gello.scene import lead_bodies, stock_xml
from families.f09_gello.spec import ARMS, PART_RULES, STRUCTURE, Arm
from rle.errors import InvalidSubmission
from rle.sim.mjcf_text import Node

_ADDED = (METAL, PRINTED)
DEFAULT_DENSITY = 1000.0
"""Density of a geom that gives none, kg/m^3; exporters leave it out. Source: MJCF default."""


def read(
    arm_name: str,
    xml: bytes,
    files: Mapping[str, bytes],
    lines: Sequence[int] = (),
    mesh_faults: Mapping[str, str] | None = None,
) -> Lead:
    """Reads `lead.xml` and its meshes. Compiles nothing.

    Args:
        arm_name: `franka`, `ur5e` or `xarm7`.
        xml: Content of `lead.xml`, or canonical text of it.
        files: STL files of the same folder, by name.
        lines: For canonical text: the line of the file that each of its lines comes from.
        mesh_faults: Files that were there and could not be read, with the reason.
    """
    arm = ARMS[arm_name]
    try:
        root = parse(arm_name, xml, lines)
    except InvalidSubmission as error:
        return refused(arm_name, error)
    findings = structure_findings(root, arm)
    springs, n_springs = _springs(root, arm, findings)
    meshes = _meshes(root, files, mesh_faults or {}, findings)
    parts, n_parts = _parts(root, arm, meshes, findings)
    used = {part.mesh for part in parts}
    record = Record(
        arm=arm_name,
        springs=springs,
        parts=parts,
        meshes={name: mesh for name, mesh in meshes.items() if name in used},
    )
    return Lead(record=record, findings=tuple(findings), n_parts=n_parts, n_springs=n_springs)


def refused(arm_name: str, error: InvalidSubmission) -> Lead:
    """What is left of an arm whose file cannot be used at all."""
    finding = Finding("refused", f"load.{error.code}", "lead.xml", error.message)
    return Lead(record=Record(arm=arm_name), findings=(finding,))


# -------------------------------------------------------------------------------------- structure


def structure_findings(root: Node, arm: Arm) -> list[Finding]:
    """Differences between the submitted tree and the stock arm; additions named cw_* and sup_* aside."""
    stock, given = _stock_elements(arm.name), _elements(root)
    findings = []

    def differ(element: str, expected: str, found: str) -> None:
        message = f"expected {expected}, found {found}; the stock arm may only be added to"
        findings.append(Finding("refused", "structure.changed", element, message))

    for name, (path, _) in stock.items():
        if name not in given:
            differ(name, f"in {path}", "nothing")
    for name, (path, node) in given.items():
        if name not in stock:
            differ(name, "no such element", f"one in {path} (line {node.line})")
            continue
        stock_path, stock_node = stock[name]
        if path != stock_path:
            differ(name, f"in {stock_path}", f"in {path} (line {node.line})")
            continue
        try:
            fault = _fault(stock_node, node)
        except ValueError as error:
            fault = ("a readable element", str(error))
        if fault:
            differ(name, fault[0], f"{fault[1]} (line {node.line})")
    return findings


@cache
def _stock_elements(arm_name: str) -> dict[str, tuple[str, Node]]:
    return _elements(parse(arm_name, stock_xml(arm_name).encode()))


def _elements(root: Node) -> dict[str, tuple[str, Node]]:
    """Bodies, joints, sites and stock geoms by `tag name`, each with the names of its ancestors."""
    found: dict[str, tuple[str, Node]] = {}

    def visit(node: Node, path: str) -> None:
        for child in node.children:
            name = child.attributes.get("name", "")
            is_added = child.tag == "geom" and name.startswith(_ADDED) and path != "world"
            if child.tag in ("body", "joint", "geom", "site") and not is_added:
                key = f"{child.tag} {name or 'without a name'}"
                key = f"second {key}" if key in found else key
                found[key] = (path, child)
            if child.tag == "body":
                visit(child, f"{path}/{name}")

    for section in root.children:
        if section.tag == "worldbody":
            visit(section, "world")
    return found


def _fault(stock: Node, given: Node) -> tuple[str, str] | None:
    """(expected, found) of the first attribute that differs beyond rounding, or None."""
    tag = stock.tag
    if tag == "geom":
        (shape, size, pos, quat), (shape2, size2, pos2, quat2) = place(stock), place(given)
        if shape != shape2:
            return f"type {shape}", f"type {shape2}"
        if not np.allclose(size, size2, rtol=0, atol=STRUCTURE.frame_tol_m):
            return f"size {_told(size)}", f"size {_told(size2)}"
        turned = _axis_angle_rad(quat, quat2) if shape != "box" else _angle_rad(quat, quat2)
    else:
        pos, pos2 = (np.array(n.numbers("pos", (0.0, 0.0, 0.0))) for n in (stock, given))
        turned = 0.0 if tag == "joint" else _angle_rad(orientation(stock), orientation(given))
    shift = float(np.linalg.norm(np.subtract(pos, pos2))) if len(pos) == len(pos2) else np.inf
    if shift > STRUCTURE.frame_tol_m:
        return f"pos {_told(pos)}", f"a place {shift * 1e3:.3g} mm off"
    if turned > STRUCTURE.frame_tol_rad:
        return "the stock orientation", f"one turned by {turned:.3g} rad"
    if tag == "joint":
        return _joint_fault(stock, given)
    if tag == "geom":
        name, default = (
            ("mass", ()) if "mass" in stock.attributes else ("density", (DEFAULT_DENSITY,))
        )
        a, b = stock.numbers(name, default), given.numbers(name, default)
        if len(a) != len(b) or not np.allclose(a, b, rtol=STRUCTURE.other_rtol):
            return f"{name} {_told(a)}", f"{name} {_told(b)}"
    return None


def _joint_fault(stock: Node, given: Node) -> tuple[str, str] | None:
    kind = given.attributes.get("type", "hinge")
    if kind != "hinge":
        return "type hinge", f"type {kind}"
    axis = np.array(given.numbers("axis", (0.0, 0.0, 1.0)))
    if len(axis) != 3 or not np.linalg.norm(axis) > 0:
        return "axis 0 0 1", f"axis {_told(axis)}"
    axis = axis / np.linalg.norm(axis)
    if np.abs(axis - np.array(stock.numbers("axis"))).max() > STRUCTURE.axis_tol:
        return "axis 0 0 1", f"axis {_told(axis)}"
    expected, found = stock.numbers("range"), given.numbers("range")
    if len(found) != 2 or not np.allclose(expected, found, rtol=STRUCTURE.other_rtol, atol=1e-6):
        return f"range {_told(expected)}", f"range {_told(found)}"
    return None


def _told(numbers: Sequence[float] | np.ndarray) -> str:
    """Numbers as they stand in a file, rounded for reading."""
    return " ".join(f"{number:.6g}" for number in numbers)


def _angle_rad(a: np.ndarray, b: np.ndarray) -> float:
    """Angle of the rotation between two unit quaternions."""
    return 2 * float(np.arccos(min(1.0, abs(float(a @ b)))))


def _axis_angle_rad(a: np.ndarray, b: np.ndarray) -> float:
    """Angle between the z axes of two frames, either sign: what matters of a capsule or cylinder."""
    za, zb = (2 * np.array([q[1] * q[3] + q[0] * q[2], q[2] * q[3] - q[0] * q[1],
                            0.5 - q[1] ** 2 - q[2] ** 2]) for q in (a, b))  # fmt: skip
    return float(np.arctan2(np.linalg.norm(np.cross(za, zb)), abs(float(za @ zb))))


# ---------------------------------------------------------------------------------------- springs


def _springs(root: Node, arm: Arm, findings: list[Finding]) -> tuple[tuple[Spring, ...], int]:
    joints = {node.attributes.get("name"): node for node in root.walk() if node.tag == "joint"}
    kept, count = [], 0
    for i, home in enumerate(arm.home_rad, start=1):
        node = joints.get(f"lead_joint{i}")
        stiffness = node.numbers("stiffness", (0.0,)) if node is not None else (0.0,)
        if node is None or stiffness == (0.0,):
            continue
        count += 1
        ref = node.numbers("springref", (0.0,))
        fault = _spring_fault(stiffness, ref, home)
        if fault:
            findings.append(Finding("dropped", "spring.illegal", f"lead_joint{i}", fault))
        else:
            kept.append(Spring(i, stiffness[0], ref[0]))
    return tuple(kept), count


def _spring_fault(stiffness: tuple[float, ...], ref: tuple[float, ...], home: float) -> str:
    limit, preload_max = PART_RULES.stiffness_max_n_m_per_rad, PART_RULES.preload_max_rad
    if len(stiffness) != 1 or len(ref) != 1:
        return "stiffness and springref are one number each"
    if not 0 <= stiffness[0] <= limit:
        return f"stiffness {stiffness[0]:g} N m/rad; 0 to {limit:g} is accepted"
    if abs(ref[0] - home) > preload_max:
        return (
            f"springref - home = {ref[0] - home:.4g} rad; at most {preload_max:g} rad either way "
            f"(home is {home:g} rad)"
        )
    return ""


# ------------------------------------------------------------------------------------ added parts


def _meshes(
    root: Node, files: Mapping[str, bytes], faults: Mapping[str, str], findings: list[Finding]
) -> dict[str, Mesh]:
    meshes: dict[str, Mesh] = {}
    nodes = [node for node in root.walk() if node.tag == "mesh"]
    for k, node in enumerate(nodes):
        file = node.attributes.get("file", "")
        name = node.attributes.get("name", file.removesuffix(".stl"))
        data = files.get(file)
        try:
            if not name:
                raise ValueError("it has neither a name nor a file")
            if k >= PART_RULES.meshes_max:
                raise ValueError(f"mesh {k + 1}; at most {PART_RULES.meshes_max} are accepted")
            if file in faults:
                raise ValueError(faults[file])
            if data is None:
                raise ValueError(f"file {file!r} is not in the folder of lead.xml")
            if len(data) > PART_RULES.mesh_bytes_max:
                raise ValueError(
                    f"{len(data)} bytes; at most {PART_RULES.mesh_bytes_max} are accepted"
                )
            if node.numbers("scale", (1.0, 1.0, 1.0)) != (1.0, 1.0, 1.0):
                raise ValueError("scale is not 1; write the STL in metres")
            meshes[name] = read_stl(data)
        except ValueError as error:
            findings.append(Finding("dropped", "mesh.illegal", name, str(error)))
    return meshes


def _parts(
    root: Node, arm: Arm, meshes: Mapping[str, Mesh], findings: list[Finding]
) -> tuple[tuple[Part, ...], int]:
    bodies = lead_bodies(arm)
    kept: list[Part] = []
    names: set[str] = set()
    count, total_m3 = 0, 0.0
    for body in (node for node in root.walk() if node.tag == "body"):
        for node in body.children:
            name = node.attributes.get("name", "")
            if node.tag != "geom" or not name.startswith(_ADDED):
                continue
            count += 1
            try:
                part = _part(node, body.attributes.get("name", ""), meshes)
                if part.body not in bodies:
                    raise ValueError(f"body {part.body!r} is not one of {', '.join(bodies)}")
                if name in names:
                    raise ValueError("a second part of this name; names are unique")
                names.add(name)
                if count > PART_RULES.geoms_max:
                    raise ValueError(f"part {count}; at most {PART_RULES.geoms_max} are accepted")
                total = total_m3 + volume_m3(part, meshes)
                if total > PART_RULES.total_volume_max_m3:
                    limit = PART_RULES.total_volume_max_m3
                    raise ValueError(
                        f"brings all added parts to {total:.4g} m^3; at most {limit:g}"
                    )
                total_m3 = total
                kept.append(part)
            except ValueError as error:
                findings.append(Finding("dropped", "part.illegal", name, str(error)))
    return tuple(kept), count


def _part(node: Node, body: str, meshes: Mapping[str, Mesh]) -> Part:
    """One added geom. Raises ValueError with rule, value and limit."""
    if "mass" in node.attributes:
        raise ValueError("mass is given; give the density of the material instead")
    density = node.numbers("density", (DEFAULT_DENSITY,))
    if len(density) != 1:
        raise ValueError("density is one number; metal is 7850 or 8500, printed 248 to 1240 kg/m^3")
    shape, size, pos, quat = place(node)
    mesh = node.attributes.get("mesh", "") if shape == "mesh" else ""
    if shape == "mesh" and mesh not in meshes:
        raise ValueError(f"its mesh {mesh!r} is not an accepted one")
    part = Part(
        name=node.attributes["name"], body=body, shape=shape, size_m=tuple(size), pos_m=tuple(pos.tolist()),
        quat_wxyz=tuple(quat.tolist()), density_kg_m3=density[0], mesh=mesh,
    )  # fmt: skip
    check_part(part, meshes)
    return part


def check_part(part: Part, meshes: Mapping[str, Mesh]) -> None:
    """Density, volume, reach and thickness of one part.

    Raises:
        ValueError: Names the rule, the value and the limit.
    """
    rules, density = PART_RULES, part.density_kg_m3
    least, most = rules.fill_density_kg_m3
    if part.is_metal:
        tol = rules.metal_density_tol
        metals = rules.metal_density_kg_m3
        if not any(abs(density - metal) <= tol * metal for metal in metals):
            allowed = " or ".join(f"{metal:g}" for metal in metals)
            raise ValueError(f"density {density:g} kg/m^3; metal has {allowed} within {tol:.1%}")
    elif not least <= density <= most:
        raise ValueError(
            f"density {density:g} kg/m^3; printed parts have {least:g} to {most:g} kg/m^3"
        )
    volume = volume_m3(part, meshes)
    if volume > rules.geom_volume_max_m3:
        raise ValueError(f"volume {volume:.4g} m^3; at most {rules.geom_volume_max_m3:g}")
    reach = float(np.linalg.norm(part.pos_m)) + bounding_radius_m(part, meshes)
    if reach > rules.reach_max_m:
        raise ValueError(
            f"reaches {reach:.4f} m from the origin of {part.body}; at most {rules.reach_max_m}"
        )
    thickness = thickness_m(part, meshes)
    if thickness < rules.thickness_min_m:
        raise ValueError(
            f"is {thickness * 1e3:.3g} mm thin; at least {rules.thickness_min_m * 1e3:g} mm"
        )


def without(lead: Lead, dropped: Mapping[str, Finding], n_unconnected: int = 0) -> Lead:
    """The lead with some parts removed and the findings that say why."""
    parts = tuple(part for part in lead.record.parts if part.name not in dropped)
    used = {part.mesh for part in parts}
    meshes = {name: mesh for name, mesh in lead.record.meshes.items() if name in used}
    return msgspec.structs.replace(
        lead,
        record=msgspec.structs.replace(lead.record, parts=parts, meshes=meshes),
        findings=(*lead.findings, *dropped.values()),
        n_unconnected=lead.n_unconnected + n_unconnected,
    )
