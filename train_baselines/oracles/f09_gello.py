"""Builds the reference submissions of f09; run it again and the same files come out.

    python -m train_baselines.oracles.f09_gello [--out assets/gello] [--only oracle,simple,springs,mesh]

`oracle`: springs and counterweights by a linear program (`f09_design.py`), ridge-regression software (`f09_trim.py`).
`simple`: a spring on joint 2 and one steel ball on two struts, nominal software only.
`springs`: springs on joints 2 to 4, nothing added, the oracle's software.
`mesh`: `simple` with its struts as closed STL files.
"""

import argparse
import shutil
import struct
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import numpy as np

from families.f09_gello import clearance, task
from families.f09_gello.mechanism.record import Lead, Mesh, Part, Record
from families.f09_gello.scene import stock_xml
from families.f09_gello.spec import ARM_NAMES
from rle.paths import assets_dir
from train_baselines.oracles import f09_design as design
from train_baselines.oracles.f09_places import Places, Want

TRIM = Path(__file__).with_name("f09_trim.py")
NOMINAL_TRIM = Path(__file__).with_name("f09_trim_nominal.py")
SEEDS = {"franka": 1, "ur5e": 2, "xarm7": 3}
"""Streams of the searches."""
SIMPLE_BODY = {"franka": "lead_link4", "ur5e": "lead_link3", "xarm7": "lead_link4"}
"""Link that carries the one ball of `simple`."""


def lead_xml(record: Record) -> str:
    """`lead.xml`: the stock file with the record's springs, parts and meshes."""
    root = ET.fromstring(stock_xml(record.arm))
    for spring in record.springs:
        joint = _found(root, f".//joint[@name='lead_joint{spring.joint}']")
        joint.set("stiffness", f"{spring.stiffness_n_m_per_rad:.8g}")
        joint.set("springref", f"{spring.ref_rad:.8g}")
    for name in record.meshes:
        ET.SubElement(_found(root, "asset"), "mesh", name=name, file=f"{name}.stl", inertia="exact")
    for part in record.parts:
        body = _found(root, f".//body[@name='{part.body}']")
        at = max(i for i, child in enumerate(body) if child.tag == "geom") + 1
        geom = ET.Element("geom", name=part.name, type=part.shape)
        if part.shape == "mesh":
            geom.set("mesh", part.mesh)
        else:
            geom.set("size", " ".join(f"{s:.8g}" for s in part.size_m))
        geom.set("pos", " ".join(f"{x:.8g}" for x in part.pos_m))
        if part.quat_wxyz != (1.0, 0.0, 0.0, 0.0):
            geom.set("quat", " ".join(f"{x:.10g}" for x in part.quat_wxyz))
        geom.set("density", f"{part.density_kg_m3:g}")
        geom.set("contype", "0")
        geom.set("conaffinity", "0")
        body.insert(at, geom)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def _found(root: ET.Element, path: str) -> ET.Element:
    element = root.find(path)
    if element is None:
        raise KeyError(f"the stock file has no {path}")
    return element


def stl_bytes(mesh: Mesh) -> bytes:
    """Binary STL of a closed surface."""
    triangles = mesh.vertices_m[mesh.faces].astype("<f4")
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    record = np.zeros(len(triangles), dtype=[("n", "<f4", 3), ("v", "<f4", (3, 3)), ("a", "<u2")])
    record["n"], record["v"] = normals, triangles
    return b"f09 printed strut".ljust(80) + struct.pack("<I", len(triangles)) + record.tobytes()


def prism(radius_m: float, half_length_m: float, sides: int = 16) -> Mesh:
    """Closed prism along z inside the cylinder of that radius and half length."""
    angle = 2 * np.pi * np.arange(sides) / sides
    ring = radius_m * np.column_stack([np.cos(angle), np.sin(angle)])
    low, high = (
        np.column_stack([ring, np.full(sides, z)]) for z in (-half_length_m, half_length_m)
    )
    ends = np.array([[0, 0, -half_length_m], [0, 0, half_length_m]])
    bottom, top = 2 * sides, 2 * sides + 1
    faces = []
    for a in range(sides):
        b = (a + 1) % sides
        faces += [
            (a, b, sides + a),
            (b, sides + b, sides + a),
            (bottom, b, a),
            (top, sides + a, sides + b),
        ]
    return Mesh(np.vstack([low, high, ends]), np.array(faces))


def write(folder: Path, lead: Lead, trim: Path) -> None:
    """Writes one arm of a submission and reads it back: what is written is what is accepted."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "lead.xml").write_text(lead_xml(lead.record))
    for name, mesh in lead.record.meshes.items():
        (folder / f"{name}.stl").write_bytes(stl_bytes(mesh))
    shutil.copyfile(trim, folder / "trim.py")
    back = task.load_lead(folder, lead.record.arm)
    if back.findings:
        raise RuntimeError(f"{folder}: {[f.message for f in back.findings]}")


def oracle(arm: str) -> Lead:
    """Springs and balls of the linear program."""
    return design.design(arm, Want(), np.random.default_rng(SEEDS[arm]))


def springs(arm: str) -> Lead:
    """Springs on joints 2 to 4, best of the same program without masses."""
    want = Want(mass_max_kg=0.0, spring_joints=(2, 3, 4))
    poses = design.sample_poses(arm, np.random.default_rng(SEEDS[arm]), 150)
    nowhere = Places([], np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0))
    found, _, _ = design.solve(Record(arm), nowhere, poses, np.zeros(len(poses)), want)
    return Lead(record=Record(arm, springs=found), n_springs=len(found))


def simple(arm: str) -> Lead:
    """One spring, one ball, two struts: what an engineer sketches on the first evening.

    Raises:
        RuntimeError: No clear design.
    """
    want = Want(
        mass_max_kg=0.6,
        balls_max=1,
        spring_joints=(2,),
        only_body=SIMPLE_BODY[arm],
        radii_m=(0.06, 0.08, 0.10, 0.12, 0.14, 0.16),
        struts=2,
    )
    return design.design(arm, want, np.random.default_rng(SEEDS[arm]))


def as_mesh(lead: Lead) -> Lead:
    """The same arm with every strut as an STL prism that fits inside its capsule."""
    meshes: dict[str, Mesh] = {}
    parts: list[Part] = []
    for part in lead.record.parts:
        if part.is_metal:
            parts.append(part)
            continue
        radius, half = part.size_m
        meshes[part.name.replace("sup", "strut")] = prism(radius, half)
        parts.append(
            msgspec.structs.replace(
                part, shape="mesh", size_m=(), mesh=part.name.replace("sup", "strut")
            )
        )
    record = msgspec.structs.replace(lead.record, parts=tuple(parts), meshes=meshes)
    return clearance.drop_unbuildable(msgspec.structs.replace(lead, record=record))


DESIGNS = {
    "oracle": (oracle, TRIM),
    "simple": (simple, NOMINAL_TRIM),
    "springs": (springs, TRIM),
    "mesh": (
        lambda arm: as_mesh(task.load_lead(assets_dir() / "gello" / "simple" / arm, arm)),
        NOMINAL_TRIM,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=assets_dir() / "gello")
    parser.add_argument("--only", default=",".join(DESIGNS))
    parser.add_argument("--arm", default=",".join(ARM_NAMES))
    args = parser.parse_args()
    for name in args.only.split(","):
        build, trim = DESIGNS[name]
        for arm in args.arm.split(","):
            write(args.out / name / arm, build(arm), trim)
            print(f"wrote {args.out / name / arm}")


if __name__ == "__main__":
    main()
