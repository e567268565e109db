"""What a reader sees of a result: check table, pictures, margin plots and the page of a design."""

from collections.abc import Callable, Sequence

import mujoco

from families.f08_mobile_base import chassis, spec
from rle.report import Row, Threshold


def thresholds(design: chassis.Chassis, rows: Sequence[Row]) -> list[Threshold]:
    """Every limit that was checked, with the measurement of each trial that it applies to."""
    heaviest = max(design.total_kg(arm) for arm in spec.ARMS)
    checks: list[tuple[str, float | None, float, str, bool]] = [
        ("footprint x", design.footprint_m[0], spec.FOOTPRINT_LIMIT_M, "m", True),
        ("footprint y", design.footprint_m[1], spec.FOOTPRINT_LIMIT_M, "m", True),
        ("assembled mass", heaviest, spec.MASS_LIMIT_KG, "kg", True),
        ("profile length", design.length_m, spec.LENGTH_LIMIT_M, "m", True),
    ]
    for row in rows:
        arm, _, test = row.group.partition("/")
        label, values = f"{row.id} {arm} {test}", row.metrics
        if test == "static":
            checks.append((f"{label} margin", values.get("ssm_min_m"), spec.SSM_ZERO_M, "m", False))
        elif test in spec.SCENARIOS:
            checks.append(
                (f"{label} tracking", values.get("tracking"), spec.TRACKING_LIMIT, "-", True)
            )
            checks.append((f"{label} margin", values.get("fasm_min"), 0.0, "N m rad", False))
            tilt = values.get("tilt_max_deg")
            checks.append((f"{label} tilt", tilt, spec.TILT_LIMIT_DEG, "deg", True))
        elif test.startswith("shelf"):
            force = values.get("shelf_force_max_n")
            checks.append((f"{label} touch", force, spec.SHELF_FORCE_LIMIT_N, "N", True))
            error = values.get("min_ee_err_m")
            checks.append((f"{label} error", error, spec.SHELF_TOLERANCE_M, "m", True))
    return [
        Threshold(
            name=name,
            measured=float(value),
            limit=limit,
            unit=unit,
            sense="at_most" if is_most else "at_least",
        )
        for name, value, limit, unit, is_most in checks
        if value is not None
    ]


def follow(model: mujoco.MjModel, name: str) -> Callable[[mujoco.MjData], mujoco.MjvCamera]:
    """A free camera of `spec.CAMERAS` that keeps the base in view."""
    view = mujoco.MjvCamera()
    view.azimuth, view.elevation, view.distance = spec.CAMERAS[name]
    base = model.body(spec.BASE).id

    def aim(data: mujoco.MjData) -> mujoco.MjvCamera:
        view.lookat[:] = data.xpos[base] + (0.0, 0.0, 0.4)
        return view

    return aim
