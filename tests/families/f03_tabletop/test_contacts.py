"""Pieces at rest are at rest: no contact is lost for a step, and nothing touches that does not."""

import math

import msgspec
import mujoco
import numpy as np
import pytest

from families.f03_tabletop import instances, scene, tabletop
from families.f03_tabletop import spec as s
from rle.sim.contacts import touching

WEDGES = ("wedge_a", "wedge_b")
FLAT = tuple(p.name for p in s.PIECES if p.column_m > 0.0)
COLUMNS = [
    *((base, wedge) for base in FLAT for wedge in WEDGES),
    *((None, wedge) for wedge in WEDGES),
]
"""What carries a wedge that stands on its small leg face; None: it lies on the table."""


@pytest.fixture(scope="module")
def columns():
    """Every column on one table, drawn scales and yaws; model, data and the scale of each piece."""
    rng = np.random.default_rng(1)
    spec = scene.new_spec()
    scene.add_table(spec, s.TABLE)
    pieces = {p.name: p for p in s.PIECES}
    placed, scales = [], {}
    for i, column in enumerate(COLUMNS):
        place = instances.Pose2(-0.24 + 0.16 * (i % 4), -0.7 + 0.16 * (i // 4), 0.0)
        for name in filter(None, column):
            piece = msgspec.structs.replace(pieces[name], name=f"{name}_{i}")
            scale = float(rng.uniform(*s.SCALE_RANGE))
            scene.add_piece(spec, piece, scale, place)
            placed.append((i, name, piece.name, float(rng.uniform(-math.pi, math.pi))))
            scales[piece.name] = scale
    model = spec.compile()
    data = mujoco.MjData(model)
    tops: dict[int, float] = {}
    for i, name, full, yaw in placed:
        at = int(model.joint(f"{full}_joint").qposadr[0])
        quat = np.array([math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)])
        if name in WEDGES and COLUMNS[i][0]:
            long_m, short_m, _ = pieces[name].size_m
            half = (math.pi / 2 + math.atan2(short_m, long_m)) / 2
            mujoco.mju_mulQuat(quat, quat.copy(), np.array([math.cos(half), 0, math.sin(half), 0]))
        data.qpos[at + 3 : at + 7] = quat
        mujoco.mj_forward(model, data)
        low, high = tabletop.vertical_extent_m(model, data, f"{full}_geom")
        floor = tops.get(i, s.TABLE.top_z_m) + 1e-5
        data.qpos[at + 2] += floor - low
        tops[i] = floor + high - low
    mujoco.mj_forward(model, data)
    return model, data, scales


def test_a_wedge_rests_on_every_face_that_carries_it(columns):
    """Fastest of each piece over 1 s, after 2 s: three quarters of the limits at most. A contact lost for one step is
    g x timestep = 0.0196 m/s, ten times the limit."""
    model, data, scales = columns
    names = list(scales)
    first = np.array([int(model.joint(f"{n}_joint").dofadr[0]) for n in names])
    linear = first[:, None] + np.arange(3)
    fastest = np.zeros((2, len(names)))
    for step in range(round(3.0 / s.TIMESTEP_S)):
        mujoco.mj_step(model, data)
        if step * s.TIMESTEP_S >= 2.0:
            now = [np.linalg.norm(data.qvel[dofs], axis=1) for dofs in (linear, linear + 3)]
            fastest = np.maximum(fastest, now)
    limits = np.array([s.QUIET_LIN_M_S, s.QUIET_ANG_RAD_S])
    restless = {
        n: v.tolist() for n, v in zip(names, fastest.T, strict=True) if (v > 0.75 * limits).any()
    }
    assert restless == {}
    for i, (base, wedge) in enumerate(COLUMNS):
        low, _ = tabletop.vertical_extent_m(model, data, f"{wedge}_{i}_geom")
        assert (low > s.TABLE.top_z_m + 0.01) is (base is not None), "it stands where it was put"


def test_what_is_found_across_the_gap_does_not_touch(columns):
    model, data, _ = columns
    mujoco.mj_resetData(model, data)
    name = f"wedge_b_{len(COLUMNS) - 1}"
    joint, geom = model.joint(f"{name}_joint"), model.geom(f"{name}_geom").id
    low, _ = _extent(model, data, name)
    for above, touches in ((s.WEDGE_CONTACT_GAP_M / 2, False), (-1e-5, True)):
        data.qpos[joint.qposadr[0] + 2] += s.TABLE.top_z_m + above - low
        low, _ = _extent(model, data, name)
        assert geom in data.contact.geom[: data.ncon], "found"
        assert (geom in touching(data)) is touches
    data.qpos[joint.qposadr[0] + 2] += s.WEDGE_CONTACT_GAP_M / 2
    mujoco.mj_step(model, data)
    falls = data.qvel[joint.dofadr[0] + 2]
    assert falls == pytest.approx(model.opt.gravity[2] * s.TIMESTEP_S), "nothing bears it there"


def test_a_drawn_scale_is_that_of_every_length(columns):
    model, data, scales = columns
    mujoco.mj_resetData(model, data)
    nominal = {p.name: p for p in s.PIECES}
    weights = {n: model.body(n).mass[0] / scale**3 for n, scale in scales.items()}
    for name, scale in scales.items():
        piece = nominal[name.rpartition("_")[0]]
        low, high = _extent(model, data, name)
        assert low == pytest.approx(s.TABLE.top_z_m), "no drop"
        lying = (
            piece.column_m or 3.0 * piece.rest_z_m
        )  # a wedge: the altitude, 3 times its centre's height
        assert high - low == pytest.approx(scale * lying)
        alike = [w for n, w in weights.items() if n.rpartition("_")[0] == piece.name]
        assert alike == pytest.approx([alike[0]] * len(alike))


def _extent(model, data, name) -> tuple[float, float]:
    mujoco.mj_forward(model, data)
    return tabletop.vertical_extent_m(model, data, f"{name}_geom")
