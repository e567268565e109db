"""Text -> numbers. `robot.xml` becomes a record of poses and box sizes; everything else is forgotten.

Masses, gains, frictions, wheels and the battery's contents of the file are never used.
"""

from dataclasses import dataclass

import mujoco
import numpy as np

from families.f08_mobile_base import spec
from rle.contracts import MjcfContract
from rle.errors import InvalidSubmission
from rle.sim import mjcf_text

_POSE = ("name", "pos", "quat", "axisangle", "xyaxes", "zaxis", "euler")
_UNUSED = (
    "mass", "density", "contype", "conaffinity", "condim", "friction", "solref", "solimp", "margin",
    "gap", "priority", "material", "rgba", "group", "shellinertia", "solmix",
)  # fmt: skip
CONTRACT = MjcfContract(
    path=spec.ROBOT_XML,
    elements={
        "mujoco": (),
        "compiler": ("angle", "autolimits", "eulerseq"),
        "worldbody": (),
        "body": _POSE,
        "frame": _POSE,
        "freejoint": ("name",),
        "joint": ("name", "type", "axis", "pos", "range", "limited"),
        "geom": (*_POSE, "type", "size", "fromto"),
        "site": (*_POSE, "size", "type"),
        "actuator": (),
        "velocity": ("name", "joint"),
    },
    drop_elements=("light", "camera", "asset", "keyframe", "inertial"),
    drop_attributes={
        "body": ("childclass",),
        "freejoint": ("group", "align"),
        "joint": ("damping", "armature", "frictionloss", "stiffness", "group", "springref"),
        "geom": _UNUSED,
        "site": ("rgba", "group", "material"),
        "velocity": ("kv", "ctrlrange", "ctrllimited", "forcerange", "forcelimited", "gear"),
    },
    allow_names=(spec.MOUNT_SITE,),
    roots=(spec.BASE,),
    max_bytes=spec.ROBOT_XML_MAX_BYTES,
    max_bodies=100,
    max_geoms=200,
    max_joints=80,
    geometry_inertia=False,
)
"""What `robot.xml` may hold; masses, contact numbers and gains are accepted and left out."""
REQUIRED = {
    mujoco.mjtObj.mjOBJ_BODY: (spec.BATTERY_BODY, *(f"wheel_{w}" for w in spec.WHEELS)),
    mujoco.mjtObj.mjOBJ_JOINT: (spec.FREE_JOINT, *(f"drive_{w}" for w in spec.WHEELS)),
    mujoco.mjtObj.mjOBJ_GEOM: (spec.BATTERY_GEOM,),
    mujoco.mjtObj.mjOBJ_SITE: (spec.MOUNT_SITE,),
    mujoco.mjtObj.mjOBJ_ACTUATOR: tuple(f"motor_{w}" for w in spec.WHEELS),
}
"""Names that must be there, beside `base`."""


@dataclass(frozen=True)
class Record:
    """Everything a submission contributes, in the base frame. Quaternions are wxyz."""

    box_pos_m: np.ndarray
    """Centres of the boxes on `base`, shape (n, 3)."""
    box_quat_wxyz: np.ndarray
    """Shape (n, 4)."""
    box_half_m: np.ndarray
    """Half sizes, shape (n, 3)."""
    wheel_pos_m: np.ndarray
    """FL, FR, RL, RR; shape (4, 3)."""
    wheel_quat_wxyz: np.ndarray
    """Shape (4, 4)."""
    battery_pos_m: np.ndarray
    battery_quat_wxyz: np.ndarray
    mount_pos_m: np.ndarray
    mount_quat_wxyz: np.ndarray
    foreign: tuple[str, ...] = ()
    """Geoms on `base` that are no boxes."""
    notices: tuple[str, ...] = ()
    """What was ignored, for the reader."""


def read_text(data: bytes) -> Record:
    """Reads a chassis file of one's own as the verifier reads a submitted one.

    Raises:
        InvalidSubmission: `mjcf.*`.
    """
    return read_canonical(canonical_text(data).encode())


def canonical_text(data: bytes) -> str:
    """The accepted part of a chassis file of one's own.

    Raises:
        InvalidSubmission: `file.size` or `mjcf.*`, with the line.
    """
    return mjcf_text.write(mjcf_text.read(data, CONTRACT))


def read_canonical(data: bytes) -> Record:
    """Numbers of accepted text, in which nothing but the contract's elements is left.

    Raises:
        InvalidSubmission: `mjcf.compile`, `mjcf.required` or `mjcf.extra`.
    """
    try:
        model = mujoco.MjModel.from_xml_string(data.decode(), {})
    except (ValueError, mujoco.FatalError) as error:
        said = "; ".join(str(error).strip().splitlines())
        raise InvalidSubmission("mjcf.compile", fact=said[:160]) from None
    _check_names(model)
    base = model.body(spec.BASE).id
    boxes, foreign = [], []
    first = model.body_geomadr[base]
    for geom in range(first, first + model.body_geomnum[base]):
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_BOX:
            boxes.append(geom)
        else:
            kind = mujoco.mjtGeom(model.geom_type[geom]).name.removeprefix("mjGEOM_").lower()
            foreign.append(f"{model.geom(geom).name or f'#{geom - first}'} ({kind})")
    wheels = [model.body(f"wheel_{w}").id for w in spec.WHEELS]
    battery, mount = model.body(spec.BATTERY_BODY).id, model.site(spec.MOUNT_SITE).id
    battery_half = model.geom_size[model.geom(spec.BATTERY_GEOM).id]
    return Record(
        box_pos_m=model.geom_pos[boxes].reshape(-1, 3),
        box_quat_wxyz=model.geom_quat[boxes].reshape(-1, 4),
        box_half_m=model.geom_size[boxes].reshape(-1, 3),
        wheel_pos_m=model.body_pos[wheels],
        wheel_quat_wxyz=model.body_quat[wheels],
        battery_pos_m=model.body_pos[battery],
        battery_quat_wxyz=model.body_quat[battery],
        mount_pos_m=model.site_pos[mount],
        mount_quat_wxyz=model.site_quat[mount],
        foreign=tuple(foreign),
        notices=()
        if np.abs(battery_half - spec.BATTERY_HALF_M).max() <= spec.OVERLAP_M
        else ("battery_geom differs from the trusted battery, which replaces it",),
    )


def _check_names(model: mujoco.MjModel) -> None:
    """Required names, in their places; nothing moves but base and wheels."""
    kinds = {k: k.name.removeprefix("mjOBJ_").lower() for k in REQUIRED}
    missing = [
        f"{kinds[kind]} {name}" for kind, names in REQUIRED.items() for name in names
        if mujoco.mj_name2id(model, kind, name) < 0
    ]  # fmt: skip
    if missing:
        needed = ", ".join(n for names in REQUIRED.values() for n in names)
        raise InvalidSubmission("mjcf.required", missing=", ".join(missing), needed=needed)
    base, battery = model.body(spec.BASE).id, model.body(spec.BATTERY_BODY).id
    wheels = [model.body(f"wheel_{w}").id for w in spec.WHEELS]
    inner = {b for b in range(model.nbody) if model.body_parentid[b] in {*wheels, battery}}
    for body in range(base + 1, model.nbody):
        if model.body_parentid[body] in inner:
            inner.add(body)
    for body in set(range(base + 1, model.nbody)) - {*wheels, battery} - inner:
        below = ", ".join([spec.BATTERY_BODY, *(f"wheel_{w}" for w in spec.WHEELS)])
        what = f"body {model.body(body).name or body} below {spec.BASE}"
        raise InvalidSubmission("mjcf.extra", what=what, allowed=below)
    place = {f"drive_{w}": b for w, b in zip(spec.WHEELS, wheels)} | {spec.FREE_JOINT: base}
    for joint in range(model.njnt):
        name, body = model.joint(joint).name, model.jnt_bodyid[joint]
        if place.get(name) != body and body not in inner:
            what = f"joint {name or joint} on {model.body(body).name or body}"
            allowed = ", ".join(f"{j} on {model.body(b).name}" for j, b in place.items())
            raise InvalidSubmission("mjcf.extra", what=what, allowed=allowed)
    if model.site_bodyid[model.site(spec.MOUNT_SITE).id] != base:
        raise InvalidSubmission(
            "mjcf.extra",
            what=f"site {spec.MOUNT_SITE} outside {spec.BASE}",
            allowed=f"directly on {spec.BASE}",
        )
    if any(model.body_parentid[b] != base for b in (*wheels, battery)):
        raise InvalidSubmission(
            "mjcf.extra",
            what=f"a wheel or the battery outside {spec.BASE}",
            allowed=f"directly below {spec.BASE}",
        )
