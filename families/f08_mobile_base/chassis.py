"""The submitted chassis: text -> numeric record -> members -> the rules of construction.

`read_record` turns `robot.xml` into numbers and forgets everything else: masses, joints' gains, frictions
and wheels of the file are never used. `inspect` reads the numbers against the catalogue and measures gaps,
overlaps, clearance and footprint with MuJoCo's exact distance between convex bodies.
"""

import functools
from dataclasses import dataclass, field

import mujoco
import numpy as np

from families.f08_mobile_base import spec

BASE, FREE_JOINT, MOUNT_SITE, BATTERY_BODY = "base", "base_free", "arm_mount_site", "battery"
BATTERY_GEOM = "battery_geom"
REQUIRED_BODIES = (BASE, BATTERY_BODY, *(f"wheel_{w}" for w in spec.WHEELS))
REQUIRED_JOINTS = (FREE_JOINT, *(f"drive_{w}" for w in spec.WHEELS))
REQUIRED_ACTUATORS = tuple(f"motor_{w}" for w in spec.WHEELS)


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
    """Contents that were ignored, for the reader."""

    def to_bytes(self) -> bytes:
        """Raw little-endian float64: boxes first (10 numbers each), then wheels, battery, mount."""
        boxes = np.hstack([self.box_pos_m, self.box_quat_wxyz, self.box_half_m])
        wheels = np.hstack([self.wheel_pos_m, self.wheel_quat_wxyz])
        poses = (self.battery_pos_m, self.battery_quat_wxyz, self.mount_pos_m, self.mount_quat_wxyz)
        flat = np.concatenate([boxes.ravel(), wheels.ravel(), *poses])
        return flat.astype("<f8").tobytes()

    @staticmethod
    def from_bytes(data: bytes) -> "Record":
        """Inverse of `to_bytes`; notices and foreign geoms are not carried."""
        flat = np.frombuffer(data, "<f8").astype(float)
        tail = 4 * 7 + 14
        boxes, rest = flat[:-tail].reshape(-1, 10), flat[-tail:]
        wheels, poses = rest[:28].reshape(4, 7), rest[28:]
        return Record(
            boxes[:, :3], boxes[:, 3:7], boxes[:, 7:], wheels[:, :3], wheels[:, 3:],
            poses[:3], poses[3:7], poses[7:10], poses[10:14],
        )  # fmt: skip


@dataclass(frozen=True)
class Member:
    """A box read as a catalogue profile."""

    index: int
    """Position among the boxes on `base`; the geom is `profile_<index>`."""
    section: spec.Section
    half_m: np.ndarray
    """Snapped half sizes along the box's own axes."""
    pos_m: np.ndarray
    quat_wxyz: np.ndarray
    length_m: float

    @property
    def mass_kg(self) -> float:
        """Catalogue kg/m times length; what the file says is never read."""
        return self.section.kg_per_m * self.length_m

    def rotation(self) -> np.ndarray:
        return rotation(self.quat_wxyz)


@dataclass(frozen=True)
class Check:
    """One of the rules of construction."""

    name: str
    ok: bool
    findings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chassis:
    """A record with its members and findings."""

    record: Record
    members: tuple[Member, ...]
    checks: tuple[Check, ...]
    """The eight parts of S1.structure, in the card's order."""
    overlaps: tuple[tuple[int, int, float], ...]
    """Pairs of members inside each other, with depth in m."""
    footprint_m: tuple[float, float]
    """Extent in x and y of all parts but the arm."""
    lower_m: tuple[float, float] = field(default=(0.0, 0.0))
    """Smallest x and y of that rectangle."""
    neighbours: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Member index -> indices of the members it is joined to."""

    @property
    def structure_share(self) -> float:
        """Share of the eight checks that hold."""
        return sum(check.ok for check in self.checks) / len(self.checks)

    @property
    def profile_kg(self) -> float:
        return float(sum(m.mass_kg for m in self.members))

    @property
    def base_kg(self) -> float:
        """Wheels, battery and profiles."""
        return spec.IMMUTABLE_BASE_KG + self.profile_kg

    @property
    def length_m(self) -> float:
        return float(sum(m.length_m for m in self.members))

    @property
    def area_m2(self) -> float:
        return self.footprint_m[0] * self.footprint_m[1]

    @property
    def clean_member_share(self) -> float:
        """Share of members that overlap no other member."""
        if not self.members:
            return 0.0
        dirty = {i for a, b, _ in self.overlaps for i in (a, b)}
        return 1.0 - len(dirty) / len(self.members)

    def total_kg(self, arm: spec.Arm) -> float:
        """Assembled mass without payload."""
        return self.base_kg + spec.ADAPTER_MASS_KG + arm.mass_kg


def rotation(quat_wxyz: np.ndarray) -> np.ndarray:
    """Rotation matrix of a quaternion, shape (3, 3)."""
    flat = np.empty(9)
    mujoco.mju_quat2Mat(flat, np.asarray(quat_wxyz, dtype=float))
    return flat.reshape(3, 3)


def read_record(model: mujoco.MjModel) -> Record:
    """Numbers of a compiled submission; its element tree has been checked before.

    Args:
        model: `robot.xml`, compiled as it is.
    """
    base = model.body(BASE).id
    boxes, foreign = [], []
    first = model.body_geomadr[base]
    for geom in range(first, first + model.body_geomnum[base]):
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_BOX:
            boxes.append(geom)
        else:
            kind = mujoco.mjtGeom(model.geom_type[geom]).name.removeprefix("mjGEOM_").lower()
            foreign.append(f"{model.geom(geom).name or f'geom {geom - first}'} ({kind})")
    wheels = [model.body(f"wheel_{w}").id for w in spec.WHEELS]
    battery, mount = model.body(BATTERY_BODY).id, model.site(MOUNT_SITE).id
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
        notices=tuple(_notices(model)),
    )


def _notices(model: mujoco.MjModel) -> list[str]:
    """What differs from the trusted parts and is therefore ignored."""
    notices = []
    for wheel in spec.WHEELS:
        body = model.body(f"wheel_{wheel}").id
        mass = float(model.body_subtreemass[body])
        if abs(mass - spec.WHEEL_MASS_KG) > 0.01:
            notices.append(
                f"wheel_{wheel} weighs {mass:.3g} kg in the file; the trusted wheel weighs "
                f"{spec.WHEEL_MASS_KG:g} kg"
            )
    mass = float(model.body_mass[model.body(BATTERY_BODY).id])
    if abs(mass - spec.BATTERY_MASS_KG) > 0.01:
        notices.append(
            f"battery weighs {mass:.3g} kg in the file; the trusted battery weighs "
            f"{spec.BATTERY_MASS_KG:g} kg"
        )
    return notices


def read_member(
    index: int, pos_m: np.ndarray, quat_wxyz: np.ndarray, half_m: np.ndarray
) -> Member | None:
    """A box as a profile: two sides match a section, the third is the length; the heaviest reading."""
    size = 2.0 * np.asarray(half_m, dtype=float)
    best: Member | None = None
    for section in spec.CATALOGUE:
        for axis in range(3):
            a, b = (axis + 1) % 3, (axis + 2) % 3
            for width, height in {
                (section.width_m, section.height_m),
                (section.height_m, section.width_m),
            }:
                error = max(abs(size[a] - width), abs(size[b] - height))
                if error > spec.SECTION_TOLERANCE_M + 1e-12:
                    continue
                half = np.empty(3)
                half[axis], half[a], half[b] = 0.5 * size[axis], 0.5 * width, 0.5 * height
                reading = Member(index, section, half, pos_m, quat_wxyz, float(size[axis]))
                if best is None or reading.mass_kg > best.mass_kg + 1e-12:
                    best = reading
    return best


def nearest_section(half_m: np.ndarray) -> str:
    """Name of the section whose sides miss the box's two smaller sides least."""
    small = np.sort(2.0 * half_m)[:2]
    gap = [np.abs(small - (s.width_m, s.height_m)).max() for s in spec.CATALOGUE]
    return spec.CATALOGUE[int(np.argmin(gap))].name


class Parts:
    """All solid parts as bodies of one small model, for exact distances.

    `names` lists the geoms: members, "battery", "adapter", and the wheel envelopes "FL" ... "RR".
    """

    def __init__(self, record: Record, members: tuple[Member, ...]) -> None:
        parts = mujoco.MjSpec()
        self.names: list[str] = []

        def add(name: str, pos: np.ndarray, quat: np.ndarray, kind: mujoco.mjtGeom, size) -> None:
            body = parts.worldbody.add_body(pos=pos, quat=quat)
            body.add_geom(name=name, type=kind, size=size)
            self.names.append(name)

        for m in members:
            box = mujoco.mjtGeom.mjGEOM_BOX
            add(f"profile_{m.index}", m.pos_m, m.quat_wxyz, box, m.half_m)
        box, cylinder = mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CYLINDER
        add("battery", record.battery_pos_m, record.battery_quat_wxyz, box, spec.BATTERY_HALF_M)
        lift = rotation(record.mount_quat_wxyz)[:, 2] * spec.ADAPTER_HALF_M[2]
        add("adapter", record.mount_pos_m + lift, record.mount_quat_wxyz, box, spec.ADAPTER_HALF_M)
        about_y = (np.sqrt(0.5), -np.sqrt(0.5), 0.0, 0.0)
        size = (spec.WHEEL_ENVELOPE_RADIUS_M, spec.WHEEL_ENVELOPE_HALF_WIDTH_M, 0.0)
        for k, wheel in enumerate(spec.WHEELS):
            add(wheel, record.wheel_pos_m[k], np.array(about_y), cylinder, size)
        self.model = parts.compile()
        self.data = mujoco.MjData(self.model)
        mujoco.mj_kinematics(self.model, self.data)
        self._id = {name: self.model.geom(name).id for name in self.names}

    def distance(self, a: str, b: str, far_m: float = 1.0) -> float:
        """Smallest distance in m, negative for depth; `far_m` where they are further apart."""
        return float(
            mujoco.mj_geomDistance(self.model, self.data, self._id[a], self._id[b], far_m, None)
        )

    def point_distance(self, point_m: np.ndarray, box: str) -> float:
        """Distance of a point to a box; 0 inside."""
        geom = self._id[box]
        turn = self.data.geom_xmat[geom].reshape(3, 3)
        local = np.abs(turn.T @ (point_m - self.data.geom_xpos[geom]))
        return float(np.linalg.norm(np.maximum(local - self.model.geom_size[geom], 0.0)))

    @functools.cached_property
    def bounds_m(self) -> dict[str, np.ndarray]:
        """Axis-aligned bounds of every part, shape (2, 3): lower and upper corner."""
        bounds = {}
        for name, geom in self._id.items():
            turn, size = self.data.geom_xmat[geom].reshape(3, 3), self.model.geom_size[geom]
            if self.model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_CYLINDER:
                axis = turn[:, 2]
                reach = np.abs(axis) * size[1] + np.sqrt(np.clip(1 - axis**2, 0, 1)) * size[0]
            else:
                reach = np.abs(turn) @ size
            centre = self.data.geom_xpos[geom]
            bounds[name] = np.array([centre - reach, centre + reach])
        return bounds


def inspect(record: Record) -> Chassis:
    """Reads the record against the catalogue and checks the rules of construction."""
    readings = [
        read_member(i, record.box_pos_m[i], record.box_quat_wxyz[i], record.box_half_m[i])
        for i in range(len(record.box_pos_m))
    ]
    members = tuple(m for m in readings if m is not None)
    parts = Parts(record, members)
    names = {m.index: f"profile_{m.index}" for m in members}
    gaps = {
        (a.index, b.index): parts.distance(names[a.index], names[b.index], 2 * spec.JOIN_GAP_M)
        for k, a in enumerate(members) for b in members[k + 1 :]
    }  # fmt: skip
    joined: dict[int, list[int]] = {m.index: [] for m in members}
    for (a, b), gap in gaps.items():
        if gap <= spec.JOIN_GAP_M + 1e-9:
            joined[a].append(b)
            joined[b].append(a)
    lower = np.min([bounds[0] for bounds in parts.bounds_m.values()], axis=0)
    upper = np.max([bounds[1] for bounds in parts.bounds_m.values()], axis=0)
    return Chassis(
        record=record,
        members=members,
        checks=(
            _check_members(record, readings),
            _check_cluster(joined, parts),
            _check_brackets(record, members, parts),
            _check_touch("adapter", members, parts),
            _check_touch("battery", members, parts),
            _check_interference(members, parts),
            _check_clearance(members, parts),
            _check_placement(record),
        ),
        overlaps=tuple(
            (a, b, -gap) for (a, b), gap in gaps.items() if -gap > spec.OVERLAP_M + 1e-9
        ),
        footprint_m=(float(upper[0] - lower[0]), float(upper[1] - lower[1])),
        lower_m=(float(lower[0]), float(lower[1])),
        neighbours={i: tuple(js) for i, js in joined.items()},
    )


def _check_members(record: Record, readings: list[Member | None]) -> Check:
    findings = [f"geom {name} on base is no box; members are boxes" for name in record.foreign]
    for i, member in enumerate(readings):
        size = 2.0 * record.box_half_m[i]
        dims = " x ".join(f"{1000 * s:.1f}" for s in size)
        shortest, longest = spec.MEMBER_LENGTH_M
        if member is None:
            nearest = nearest_section(record.box_half_m[i])
            findings.append(f"profile_{i} ({dims} mm) matches no section; nearest: {nearest}")
        elif not shortest - 1e-9 <= member.length_m <= longest + 1e-9:
            findings.append(
                f"profile_{i} ({dims} mm, {member.section.name}) is {1000 * member.length_m:.1f} mm "
                f"long; allowed: {1000 * shortest:.0f} to {1000 * longest:.0f} mm"
            )
    if len(readings) > spec.MAX_MEMBERS:
        findings.append(f"{len(readings)} boxes on base; at most {spec.MAX_MEMBERS} are accepted")
    if not readings:
        findings.append("base has no box; the chassis needs at least one member")
    return Check("members", not findings, tuple(findings))


def _check_cluster(joined: dict[int, list[int]], parts: Parts) -> Check:
    if not joined:
        return Check("cluster", False, ("there are no members",))
    start = min(joined)
    reached, stack = {start}, [start]
    while stack:
        for other in joined[stack.pop()]:
            if other not in reached:
                reached.add(other)
                stack.append(other)
    findings = []
    for i in sorted(set(joined) - reached):
        gap = min(parts.distance(f"profile_{i}", f"profile_{j}") for j in joined if j != i)
        findings.append(
            f"profile_{i} is not joined to profile_{start}: its nearest member is "
            f"{1000 * gap:.1f} mm away; joined means within {1000 * spec.JOIN_GAP_M:.0f} mm"
        )
    return Check("cluster", not findings, tuple(findings))


def _check_brackets(record: Record, members: tuple[Member, ...], parts: Parts) -> Check:
    findings = []
    for k, wheel in enumerate(spec.WHEELS):
        point = record.wheel_pos_m[k].copy()
        point[1] -= spec.WHEEL_QUADRANT[wheel][1] * spec.AXLE_INSET_M
        gap = min(
            (parts.point_distance(point, f"profile_{m.index}") for m in members), default=np.inf
        )
        if gap > spec.BRACKET_REACH_M + 1e-9:
            findings.append(
                f"axle point of wheel_{wheel} is {1000 * gap:.1f} mm from the nearest member; "
                f"a bracket reaches {1000 * spec.BRACKET_REACH_M:.0f} mm"
            )
    return Check("brackets", not findings, tuple(findings))


def _check_touch(part: str, members: tuple[Member, ...], parts: Parts) -> Check:
    gap = min((parts.distance(part, f"profile_{m.index}") for m in members), default=np.inf)
    if gap <= spec.JOIN_GAP_M + 1e-9:
        return Check(part, True)
    return Check(
        part, False,
        (f"{part} is {1000 * gap:.1f} mm from the nearest member; "
         f"attached means within {1000 * spec.JOIN_GAP_M:.0f} mm",),
    )  # fmt: skip


def _check_interference(members: tuple[Member, ...], parts: Parts) -> Check:
    profiles = [f"profile_{m.index}" for m in members]
    pairs = [(p, other) for p in profiles for other in ("battery", "adapter", *spec.WHEELS)]
    pairs += [("battery", other) for other in ("adapter", *spec.WHEELS)]
    pairs += [("adapter", wheel) for wheel in spec.WHEELS]
    pairs += [(a, b) for k, a in enumerate(spec.WHEELS) for b in spec.WHEELS[k + 1 :]]
    findings = []
    for a, b in pairs:
        depth = -parts.distance(a, b, spec.JOIN_GAP_M)
        if depth > spec.OVERLAP_M + 1e-9:
            other = f"the envelope of wheel_{b}" if b in spec.WHEELS else b
            findings.append(f"{a} is {1000 * depth:.1f} mm inside {other}")
    return Check("interference", not findings, tuple(findings))


def _check_clearance(members: tuple[Member, ...], parts: Parts) -> Check:
    names = [f"profile_{m.index}" for m in members] + ["battery", "adapter"]
    lowest = min(names, key=lambda name: parts.bounds_m[name][0, 2])
    height = float(parts.bounds_m[lowest][0, 2]) + spec.WHEEL_RADIUS_M
    if height >= spec.GROUND_CLEARANCE_M - 1e-9:
        return Check("clearance", True)
    return Check(
        "clearance", False,
        (f"{lowest} is {1000 * height:.1f} mm above the ground; at least "
         f"{1000 * spec.GROUND_CLEARANCE_M:.0f} mm are needed",),
    )  # fmt: skip


def _check_placement(record: Record) -> Check:
    findings = []
    for k, wheel in enumerate(spec.WHEELS):
        x, y, z = record.wheel_pos_m[k]
        sx, sy = spec.WHEEL_QUADRANT[wheel]
        if x * sx <= 0 or y * sy <= 0:
            findings.append(f"wheel_{wheel} is at x {x:.3f}, y {y:.3f} m, not in its quadrant")
        if abs(z) > spec.WHEEL_Z_TOLERANCE_M + 1e-9:
            findings.append(
                f"wheel_{wheel} is {1000 * z:.1f} mm from the height of the base origin; "
                f"allowed: {1000 * spec.WHEEL_Z_TOLERANCE_M:.0f} mm"
            )
        angle = 2.0 * np.arccos(min(1.0, abs(float(record.wheel_quat_wxyz[k, 0]))))
        if angle > spec.ORIENTATION_TOLERANCE_RAD:
            findings.append(f"wheel_{wheel} is turned by {angle:.4f} rad; the identity is expected")
    up = rotation(record.mount_quat_wxyz)[2, 2]
    tilt = float(np.arccos(np.clip(up, -1.0, 1.0)))
    if tilt > spec.MOUNT_TILT_TOLERANCE_RAD:
        findings.append(
            f"{MOUNT_SITE} leans by {tilt:.4f} rad; at most {spec.MOUNT_TILT_TOLERANCE_RAD:g} rad"
        )
    return Check("placement", not findings, tuple(findings))
