"""The chassis that the tests grade: as lists of profiles, and written as `robot.xml`.

oracle      wide and braced, mount 0.42 m above the ground: full static credit and every shelf target
light       few members, low mount: the best efficiency, at the cost of stability and of high targets
braced      another sound design: 2040 frame with diagonal braces, mount 60 mm forward
starter     legal but poor: narrow, tall and heavy
compact     the smallest footprint that takes the battery
"""

from dataclasses import dataclass

import numpy as np

from families.f08_mobile_base import spec

SECTIONS = {section.name: section for section in spec.CATALOGUE}


@dataclass(frozen=True)
class Bar:
    """A piece of profile."""

    section: str
    along: str
    """Axis of its length: x, y or z."""
    pos_m: tuple[float, float, float]
    length_m: float
    tall: str = "z"
    """Axis of the section's larger side, where the sides differ."""
    euler_rad: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def half_m(self) -> tuple[float, ...]:
        section = SECTIONS[self.section]
        half = dict.fromkeys("xyz", 0.5 * section.width_m)
        if self.tall != self.along:
            half[self.tall] = 0.5 * section.height_m
        half[self.along] = 0.5 * self.length_m
        return tuple(half[axis] for axis in "xyz")


@dataclass(frozen=True)
class Frame:
    """A chassis in numbers."""

    name: str
    bars: tuple[Bar, ...]
    wheels_m: tuple[float, float]
    """|x| and |y| of the wheel centres."""
    mount_m: tuple[float, float, float]
    battery_m: tuple[float, float, float] = (0.0, 0.0, 0.0)


def _sides(*values: float) -> tuple[float, ...]:
    return tuple(sign * value for value in values for sign in (1.0, -1.0))


LIGHT = Frame(
    name="light",
    wheels_m=(0.203, 0.215),
    mount_m=(0.0, 0.0, 0.285),
    bars=(
        *(Bar("4040", "y", (x, 0.0, 0.05), 0.36) for x in _sides(0.165)),
        *(Bar("4040", "x", (0.0, y, 0.05), 0.29) for y in _sides(0.11)),
        *(Bar("4040", "z", (0.0, y, 0.1775), 0.215) for y in _sides(0.11)),
        Bar("4040", "y", (0.0, 0.0, 0.265), 0.18),
    ),
)
ORACLE = Frame(
    name="oracle",
    wheels_m=(0.203, 0.243),
    mount_m=(0.0, 0.0, 0.343),
    bars=(
        *(Bar("4040", "y", (x, 0.0, z), 0.416) for x in _sides(0.165) for z in (0.05, 0.01)),
        *(Bar("4040", "x", (0.0, y, 0.05), 0.29) for y in _sides(0.11, 0.15)),
        *(Bar("4040", "z", (x, y, 0.1865), 0.233) for x in _sides(0.07) for y in _sides(0.11)),
        *(Bar("4040", "y", (x, 0.0, 0.323), 0.26) for x in _sides(0.07)),
    ),
)

_BRACE_RAD = np.pi / 3
BRACED = Frame(
    name="braced",
    wheels_m=(0.203, 0.243),
    mount_m=(0.06, 0.0, 0.343),
    bars=(
        *(Bar("2040", "y", (x, 0.0, 0.04), 0.416) for x in _sides(0.165)),
        *(Bar("2040", "x", (0.0, y, 0.04), 0.31) for y in _sides(0.10)),
        *(Bar("2040", "z", (x, y, 0.1815), 0.243, "x") for x in (0.0, 0.12) for y in _sides(0.10)),
        *(Bar("2040", "y", (x, 0.0, 0.323), 0.24) for x in (0.0, 0.12)),
        *(
            Bar("2020", "x", (-0.07916, y, 0.1521), 0.20, euler_rad=(0.0, -_BRACE_RAD, 0.0))
            for y in _sides(0.10)
        ),
    ),
)
STARTER = Frame(
    name="starter",
    wheels_m=(0.13, 0.16),
    mount_m=(0.0, 0.0, 0.45),
    bars=(
        *(Bar("2040", "x", (0.0, y, 0.02), 0.31) for y in _sides(0.11)),
        *(Bar("2040", "y", (x, 0.0, 0.05), 0.24, "x") for x in _sides(0.07)),
        *(Bar("2040", "x", (0.0, y, 0.05), 0.10, "y") for y in _sides(0.05)),
        *(Bar("2040", "z", (x, y, 0.245), 0.37, "x") for x in _sides(0.07) for y in _sides(0.09)),
        *(Bar("2040", "y", (x, 0.0, 0.44), 0.24, "x") for x in _sides(0.07)),
        *(
            bar
            for k in range(9)
            for bar in (
                *(Bar("2040", "x", (0.0, y, 0.085 + 0.04 * k), 0.28) for y in _sides(0.11)),
                *(Bar("2040", "y", (x, 0.0, 0.085 + 0.04 * k), 0.20) for x in _sides(0.10)),
            )
        ),
    ),
)
COMPACT = Frame(
    name="compact",
    wheels_m=(0.0765, 0.1215),
    mount_m=(0.0, 0.0, 0.058),
    battery_m=(0.0, 0.0, -0.002),
    bars=(
        *(Bar("2020", "y", (x, 0.0, 0.048), 0.18) for x in _sides(0.07)),
        *(Bar("2020", "x", (0.0, y, 0.048), 0.12) for y in _sides(0.05)),
    ),
)


def to_xml(frame: Frame) -> str:
    """`robot.xml` of a frame, with the given parts drawn for looking."""
    lines = [
        f'<mujoco model="{frame.name}">',
        '  <compiler angle="radian"/>',
        "  <worldbody>",
        f'    <body name="base" pos="0 0 {spec.START_HEIGHT_M:g}">',
        '      <freejoint name="base_free"/>',
        f'      <site name="arm_mount_site" pos="{_text(frame.mount_m)}"/>',
    ]
    for bar in frame.bars:
        turn = "" if not any(bar.euler_rad) else f' euler="{_text(bar.euler_rad)}"'
        lines.append(
            f'      <geom type="box" size="{_text(bar.half_m())}" pos="{_text(bar.pos_m)}"{turn}/>'
        )
    lines += [
        f'      <body name="battery" pos="{_text(frame.battery_m)}">',
        f'        <geom name="battery_geom" type="box" size="{_text(spec.BATTERY_HALF_M)}"/>',
        "      </body>",
    ]
    size = f"{spec.WHEEL_RADIUS_M:g} {spec.WHEEL_ENVELOPE_HALF_WIDTH_M:g}"
    for wheel in spec.WHEELS:
        sx, sy = spec.WHEEL_QUADRANT[wheel]
        pos = (sx * frame.wheels_m[0], sy * frame.wheels_m[1], 0.0)
        lines += [
            f'      <body name="wheel_{wheel}" pos="{_text(pos)}">',
            f'        <joint name="drive_{wheel}" axis="0 1 0"/>',
            f'        <geom type="cylinder" size="{size}" zaxis="0 1 0"/>',
            "      </body>",
        ]
    lines += ["    </body>", "  </worldbody>", "  <actuator>"]
    lines += [f'    <velocity name="motor_{w}" joint="drive_{w}"/>' for w in spec.WHEELS]
    return "\n".join([*lines, "  </actuator>", "</mujoco>", ""])


def _text(values) -> str:
    return " ".join(f"{v:.6g}" for v in np.asarray(values, dtype=float) + 0.0)
