"""The stock arms as text, and a composed device as a compiled model with named handles.

The stock arm is written from `spec.py` alone; of a submission only its record of springs and parts
is added. No numbers of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import mujoco
import numpy as np

from families.f09_gello.mechanism.record import Mesh, Record
from families.f09_gello.spec import (
    ARMS,
    DEVICES,
    PARTS,
    PHYSICS,
    Arm,
    unit_quat_wxyz,
)

PRINTED_RGBA = "0.82 0.82 0.78 1"
SERVO_RGBA = "0.15 0.16 0.18 1"
METAL_RGBA = (0.42, 0.50, 0.58, 1.0)
SUPPORT_RGBA = (0.93, 0.55, 0.14, 1.0)
"""Colours: stock printed parts and servos, added metal and added printed supports."""


def lead_bodies(arm: Arm) -> tuple[str, ...]:
    """Bodies of the stock arm, from the base to the trigger; order of every per-body array."""
    links = tuple(f"lead_link{i + 1}" for i in range(arm.nv))
    return ("lead_base", *links, "lead_handle", "lead_trigger")


def _text(values: tuple[float, ...]) -> str:
    return " ".join(f"{x:.10g}" for x in values)


def stock_xml(name: str) -> str:
    """`lead.xml` of the stock arm: what an agent starts from, and what its file is compared with."""
    arm = ARMS[name]
    servo = (
        f'type="box" size="{_text(PARTS.servo_half_m)}" mass="{PARTS.servo_mass_kg}" material="servo" '
        'contype="0" conaffinity="0"'
    )
    printed = (
        f'density="{PARTS.printed_density_kg_m3:g}" material="printed" contype="0" conaffinity="0"'
    )
    joint = (
        f'damping="{PHYSICS.joint_damping_n_m_s_per_rad}" '
        f'frictionloss="{PHYSICS.joint_frictionloss_n_m}" armature="{PHYSICS.joint_armature_kg_m2}"'
    )

    def capsule(label: str, end: tuple[float, ...], radius_m: float) -> str:
        return f'<geom name="{label}" type="capsule" size="{radius_m}" fromto="0 0 0 {_text(end)}" {printed}/>'

    def frame(pos: tuple[float, ...], quat: tuple[float, ...]) -> str:
        return f'pos="{_text(pos)}" quat="{_text(unit_quat_wxyz(quat))}"'

    lines = [
        f'<mujoco model="lead_{name}">',
        '  <compiler angle="radian"/>',
        "  <asset>",
        f'    <material name="printed" rgba="{PRINTED_RGBA}"/>',
        f'    <material name="servo" rgba="{SERVO_RGBA}"/>',
        "  </asset>",
        "  <worldbody>",
        '    <light name="key_light" pos="0.4 -0.6 1.2" dir="-0.3 0.45 -0.85"/>',
        '    <light name="fill_light" pos="-0.6 0.6 0.8" dir="0.5 -0.5 -0.7" diffuse="0.35 0.35 0.35"/>',
        f'    <body name="lead_base" {frame(arm.base_at_m, arm.base_quat_wxyz)}>',
        f'      <geom name="printed_base" type="cylinder" size="{PARTS.base_radius_m} '
        f'{PARTS.base_half_length_m}" {printed}/>',
    ]
    for i, link in enumerate(arm.links):
        end = arm.links[i + 1][:3] if i + 1 < arm.nv else PARTS.last_link_end_m
        pad = "  " * (i + 4)
        lines += [
            f'{pad[2:]}<body name="lead_link{i + 1}" {frame(link[:3], link[3:])}>',
            f'{pad}<joint name="lead_joint{i + 1}" axis="0 0 1" range="{_text(arm.range_rad[i])}" {joint}/>',
            f'{pad}<geom name="servo{i + 1}" {servo}/>',
            pad + capsule(f"printed_link{i + 1}", end, PARTS.link_radius_m),
        ]
    pad = "  " * (arm.nv + 4)
    lines += [
        f'{pad[2:]}<body name="lead_handle" pos="{_text(PARTS.last_link_end_m)}">',
        pad + capsule("printed_handle", PARTS.handle_end_m, PARTS.handle_radius_m),
        f'{pad}<site name="lead_ee_site" pos="{_text(PARTS.handle_end_m)}"/>',
        f'{pad}<body name="lead_trigger" pos="{_text(PARTS.trigger_at_m)}">',
        f'{pad}  <geom name="servo_trigger" {servo}/>',
        f"{pad}  " + capsule("printed_trigger", PARTS.trigger_end_m, PARTS.trigger_radius_m),
        f"{pad}</body>",
    ]
    lines += ["  " * depth + "</body>" for depth in range(arm.nv + 3, 1, -1)]
    lines += ["  </worldbody>", "</mujoco>"]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Device:
    """A composed arm."""

    arm: Arm
    model: mujoco.MjModel
    ee_site: int
    handle_body: int
    lead_body: np.ndarray
    """Body ids in the order of `lead_bodies`. Shape (nv + 3,)."""
    added_geom: dict[str, int]
    """Geom id of each added part, by its name in the record."""

    @property
    def mass_kg(self) -> float:
        """Mass of all bodies without the payload."""
        return float(self.model.body_mass[self.lead_body].sum())


def device_spec(record: Record, payload_kg: float) -> mujoco.MjSpec:
    """The device as an editable model: stock arm, springs, parts, payload; masses as drawn."""
    arm = ARMS[record.arm]
    spec = mujoco.MjSpec.from_string(stock_xml(arm.name))
    spec.option.timestep = PHYSICS.timestep_s
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.gravity = (0.0, 0.0, -PHYSICS.gravity_m_s2)
    spec.option.disableflags = mujoco.mjtDisableBit.mjDSBL_AUTORESET
    for spring in record.springs:
        joint = spec.joint(f"lead_joint{spring.joint}")
        joint.stiffness = [spring.stiffness_n_m_per_rad, 0.0, 0.0]
        joint.springref = spring.ref_rad
    for name, mesh in record.meshes.items():
        _add_mesh(spec, name, mesh)
    for part in record.parts:
        size = np.zeros(3)
        size[: len(part.size_m)] = part.size_m
        spec.body(part.body).add_geom(
            name=part.name,
            type=getattr(mujoco.mjtGeom, f"mjGEOM_{part.shape.upper()}"),
            size=size,
            pos=part.pos_m,
            quat=part.quat_wxyz,
            density=part.density_kg_m3,
            meshname=part.mesh,
            rgba=METAL_RGBA if part.is_metal else SUPPORT_RGBA,
            contype=0,
            conaffinity=0,
        )
    spec.body("lead_handle").add_body(
        name="payload",
        pos=PARTS.payload_at_m,
        explicitinertial=True,
        mass=payload_kg,
        inertia=[PARTS.payload_inertia_kg_m2] * 3,
        ipos=(0.0, 0.0, 0.0),
    )
    return spec


def mesh_fault(mesh: Mesh) -> str:
    """Why MuJoCo cannot build a mesh, in its own words; empty if it can."""
    spec = mujoco.MjSpec()
    _add_mesh(spec, "part", mesh)
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="part")
    try:
        spec.compile()
    except ValueError as error:
        return str(error).split("\n")[0]
    return ""


def _add_mesh(spec: mujoco.MjSpec, name: str, mesh: Mesh) -> None:
    spec.add_mesh(
        name=name,
        uservert=mesh.vertices_m.flatten(),
        userface=mesh.faces.flatten(),
        inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_EXACT,
    )


def compose(
    record: Record,
    payload_kg: float = DEVICES.payload_nominal_kg,
    mass_scale: Mapping[str, float] | None = None,
) -> Device:
    """The device that is simulated.

    Args:
        record: What is accepted of a submission; an empty one is the stock arm.
        payload_kg: Point mass in the handle.
        mass_scale: Factor on mass and inertia of each body of `lead_bodies`; None: as drawn.
    """
    spec = device_spec(record, payload_kg)
    return _device(spec.compile(), record, mass_scale)


def _device(
    model: mujoco.MjModel, record: Record, mass_scale: Mapping[str, float] | None
) -> Device:
    arm = ARMS[record.arm]
    bodies = np.array([model.body(name).id for name in lead_bodies(arm)])
    if mass_scale is not None:
        factor = np.array([mass_scale[name] for name in lead_bodies(arm)])
        model.body_mass[bodies] *= factor
        model.body_inertia[bodies] *= factor[:, None]
        mujoco.mj_setConst(model, mujoco.MjData(model))
    return Device(
        arm=arm,
        model=model,
        ee_site=model.site("lead_ee_site").id,
        handle_body=model.body("lead_handle").id,
        lead_body=bodies,
        added_geom={part.name: model.geom(part.name).id for part in record.parts},
    )


def nominal_xml(record: Record) -> str:
    """The nominal device as MJCF without files: what a submission's software is given."""
    spec = device_spec(record, DEVICES.payload_nominal_kg)
    spec.compile()
    return spec.to_xml()


@cache
def stock_device(name: str) -> Device:
    """The uncompensated arm with the nominal payload. Shared: not to be changed."""
    return compose(Record(arm=name))
