"""Numbers -> members -> the rules of construction.

`inspect` reads the boxes of a record against the catalogue and measures gaps, overlaps, clearance and
footprint with MuJoCo's exact distance between convex bodies.
"""

from dataclasses import dataclass, field

import numpy as np

from families.f08_mobile_base import spec
from families.f08_mobile_base.chassis.parts import Parts
from families.f08_mobile_base.chassis.record import Record
from families.f08_mobile_base.scene import rotation


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


@dataclass(frozen=True)
class Check:
    """One of the rules of construction."""

    name: str
    ok: bool
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Chassis:
    """A record with its members and findings; equal only to itself."""

    record: "Record"
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
            gap = [
                np.abs(np.sort(size)[:2] - (s.width_m, s.height_m)).max() for s in spec.CATALOGUE
            ]
            nearest = spec.CATALOGUE[int(np.argmin(gap))].name
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
    groups = _groups(joined)
    frame = max(groups, key=len)  # of equals the first
    findings = []
    for group in groups:
        if group is frame:
            continue
        gap, mine, other = min(
            (parts.distance(f"profile_{i}", f"profile_{j}"), i, j) for i in group for j in frame
        )
        more = f" and the {len(group) - 1} joined to it are" if len(group) > 1 else " is"
        findings.append(
            f"profile_{mine}{more} not joined to the frame: {1000 * gap:.1f} mm from profile_{other}, "
            f"the nearest of it; joined means within {1000 * spec.JOIN_GAP_M:.0f} mm"
        )
    return Check("cluster", not findings, tuple(findings))


def _groups(joined: dict[int, list[int]]) -> list[list[int]]:
    """Members that hang together, by the first of each group."""
    groups: list[list[int]] = []
    left = set(joined)
    while left:
        stack = [min(left)]
        group = set(stack)
        while stack:
            new = set(joined[stack.pop()]) - group
            group |= new
            stack += new
        groups.append(sorted(group))
        left -= group
    return groups


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
            f"{spec.MOUNT_SITE} leans by {tilt:.4f} rad; at most {spec.MOUNT_TILT_TOLERANCE_RAD:g} rad"
        )
    return Check("placement", not findings, tuple(findings))
