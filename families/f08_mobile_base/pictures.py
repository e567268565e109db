"""What a reader sees beside the numbers: check table, pictures of the design, margin plots, cameras."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import mujoco
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from families.f08_mobile_base import battery, chassis, metrics, scene, shelf, spec, task
from rle.report import Row, Threshold
from rle.sim.render import Frames

LINE_RGB, CENTRE_RGB = (0, 114, 178), (213, 94, 0)
"""Colours of drawn lines and of the mass centre."""
PLAN_HEADLIGHT = 0.1
"""Strength of the light at the camera in the view from above."""


def thresholds(design: chassis.Chassis, rows: Sequence[Row]) -> list[Threshold]:
    """Every limit that was checked, and how near it came: for each arm and test the worst trial."""
    heaviest = max(design.total_kg(arm) for arm in spec.ARMS)
    checks = [
        Threshold(name=name, measured=value, limit=limit, unit=unit, sense="at_most")
        for name, value, limit, unit in (
            ("footprint x", design.footprint_m[0], spec.FOOTPRINT_LIMIT_M, "m"),
            ("footprint y", design.footprint_m[1], spec.FOOTPRINT_LIMIT_M, "m"),
            ("assembled mass", heaviest, spec.MASS_LIMIT_KG, "kg"),
            ("profile length", design.length_m, spec.LENGTH_LIMIT_M, "m"),
        )
    ]
    worst: dict[str, Threshold] = {}
    for row in rows:
        for check in _limits(row):
            label = f"{row.group.replace('/', ' ')} {check.name}"
            named = msgspec.structs.replace(check, name=f"{label} ({row.id})")
            if label not in worst or _is_nearer(named, worst[label]):
                worst[label] = named
    return checks + list(worst.values())


def _limits(row: Row) -> list[Threshold]:
    """The limits that apply to a trial, with what it measured; those that decide its score."""
    test = row.group.partition("/")[2]
    most: list[tuple[str, str, float, str]] = []
    least: list[tuple[str, str, float, str]] = []
    if test == "static":
        least = [("margin", "ssm_min_m", spec.SSM_ZERO_M, "m")]
    elif test == "testD2":
        most = [
            ("tracking", "tracking", spec.D2_TRACKING_LIMIT, "-"),
            ("longest lift-off", "longest_event_s", spec.D2_EVENT_LIMIT_S, "s"),
            ("tilt", "tilt_max_deg", spec.D2_TILT_LIMIT_DEG, "deg"),
        ]
    elif test in spec.SCENARIOS:
        most = [
            ("tracking", "tracking", spec.TRACKING_LIMIT, "-"),
            ("lift-offs", "n_events", 0.0, "-"),
            ("tilt", "tilt_max_deg", spec.TILT_LIMIT_DEG, "deg"),
        ]
        least = [("margin", "fasm_min", 0.0, "N m rad")]
    elif test.startswith("shelf"):
        most = [
            ("touch", "shelf_force_max_n", spec.SHELF_FORCE_LIMIT_N, "N"),
            ("error", "min_ee_err_m", spec.SHELF_TOLERANCE_M, "m"),
        ]
    return [
        Threshold(name=name, measured=float(value), limit=limit, unit=unit, sense=sense)
        for sense, limits in (("at_most", most), ("at_least", least))
        for name, key, limit, unit in limits
        if (value := row.metrics.get(key)) is not None
    ]


def _is_nearer(a: Threshold, b: Threshold) -> bool:
    """Whether a is nearer to the limit that both share, or further beyond it."""
    return a.measured > b.measured if a.sense == "at_most" else a.measured < b.measured


def span_stress_mpa(design: chassis.Chassis) -> dict[str, float]:
    """Bending stress M c / I of every member as a simply supported span with the assembled weight of
    the heaviest arm in its middle, weak axis, M = W L / 4. Never scored."""
    weight_n = max(design.total_kg(arm) for arm in spec.ARMS) * spec.GRAVITY_M_S2
    return {
        f"profile_{m.index}": round(
            1e-6 * weight_n * m.length_m / 4 * 0.5 * m.section.width_m / m.section.bending_i_m4, 1
        )
        for m in design.members
    }


def follow(model: mujoco.MjModel, name: str) -> Callable[[mujoco.MjData], mujoco.MjvCamera]:
    """A free camera of `spec.CAMERAS` that keeps the base in view."""
    view = mujoco.MjvCamera()
    view.azimuth, view.elevation, view.distance = spec.CAMERAS[name]
    base = model.body(spec.BASE).id

    def aim(data: mujoco.MjData) -> mujoco.MjvCamera:
        view.lookat[:] = data.xpos[base] + (0.0, 0.0, spec.LOOK_AT_Z_M)
        return view

    return aim


def simplify_floor(model: mujoco.MjModel) -> None:
    """Draws the floor up to `FILM_FLOOR_M` and flat sides undivided; contacts know nothing of that.

    Light falls evenly on a flat side here: both lights have parallel rays.
    """
    model.geom_size[model.geom("floor").id, :2] = spec.FILM_FLOOR_M
    model.vis.quality.numquads = 1


def write_pictures(
    design: chassis.Chassis, folder: Path, arms: Sequence[str] = spec.ARM_NAMES
) -> None:
    """Writes `picture_<arm>_{front,side,top,extended}.png` of the design with each arm."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in arms:
        robot = scene.compose(design, scene.find_arm(name))
        simplify_floor(robot.model)
        data = robot.stowed()
        with Frames(robot.model, *spec.PICTURE_PX) as frames:
            for view in ("front", "side"):
                image = Image.fromarray(frames.rgb(data, follow(robot.model, view)(data)))
                image.save(folder / f"picture_{name}_{view}.png")
            data.qpos[robot.arm_qpos] = battery.extended(robot.arm, 0.0)
            mujoco.mj_forward(robot.model, data)
            image = Image.fromarray(frames.rgb(data, follow(robot.model, "side")(data)))
            image.save(folder / f"picture_{name}_extended.png")
            image = _draw_plan(frames, robot, robot.stowed(), design)
            image.save(folder / f"picture_{name}_top.png")


def _draw_plan(
    frames: Frames, robot: scene.Robot, data: mujoco.MjData, design: chassis.Chassis
) -> Image.Image:
    """The robot from above in parallel projection: support rectangle, footprint with its two lengths,
    and the mass centre. Leaves the model with the plan's light and projection."""
    width, height = spec.PICTURE_PX
    visual = robot.model.vis
    visual.global_.orthographic, visual.global_.fovy = 1, spec.PLAN_HEIGHT_M
    visual.headlight.diffuse[:] = PLAN_HEADLIGHT  # straight down it would bleach the floor
    image = Image.fromarray(frames.rgb(data, follow(robot.model, "top")(data)))
    scale = height / spec.PLAN_HEIGHT_M

    def pixel(x: float, y: float) -> tuple[float, float]:
        return 0.5 * width + scale * x, 0.5 * height - scale * y

    draw, font = ImageDraw.Draw(image), ImageFont.load_default(18)
    wheels = design.record.wheel_pos_m[[0, 1, 3, 2], :2]
    draw.polygon([pixel(x, y) for x, y in wheels], outline=LINE_RGB, width=2)
    (x0, y0), (sx, sy) = design.lower_m, design.footprint_m
    x1, y1, off = x0 + sx, y0 + sy, 0.08
    draw.line([pixel(x0, y0 - off), pixel(x1, y0 - off)], fill=LINE_RGB, width=2)
    draw.line([pixel(x0 - off, y0), pixel(x0 - off, y1)], fill=LINE_RGB, width=2)
    for at, length_m, anchor in (
        (pixel(0.5 * (x0 + x1), y0 - off - 0.02), sx, "mt"),
        (pixel(x0 - off - 0.02, 0.5 * (y0 + y1)), sy, "rm"),
    ):
        draw.text(at, f"{1000 * length_m:.0f} mm", fill=LINE_RGB, font=font, anchor=anchor)
    cx, cy = pixel(*(data.subtree_com[robot.base] - data.xpos[robot.base])[:2])
    draw.ellipse([cx - 6, cy - 6, cx + 6, cy + 6], fill=CENTRE_RGB)
    return image


def write_last_frame(
    design: chassis.Chassis, arm: str, payload_kg: float, qpos: np.ndarray, path: Path
) -> None:
    """Writes the last state of a shelf trial as a picture."""
    robot = shelf.make_robot(design, scene.find_arm(arm), payload_kg)
    simplify_floor(robot.model)
    data = mujoco.MjData(robot.model)
    data.qpos[:] = qpos
    mujoco.mj_forward(robot.model, data)
    with Frames(robot.model, *spec.PICTURE_PX) as frames:
        view = follow(robot.model, "integration")(data)
        Image.fromarray(frames.rgb(data, view)).save(path)


def plot_margins(design: chassis.Chassis, rows: Sequence[Row], path: Path) -> None:
    """Static margin by azimuth of the tool, and force-angle margins by time with their bars."""
    from matplotlib.figure import Figure  # no window system, no global state

    figure = Figure(figsize=(10, 6), layout="constrained")
    axes = figure.subplots(2, 3).ravel()
    azimuth = np.arange(0, 360, 10)
    for arm in spec.ARM_NAMES:
        margins = 1000 * task.static_margin(design, arm, spec.STATIC_PAYLOAD_KG, len(azimuth))
        axes[0].plot(azimuth, margins, label=arm)
    for limit in (spec.SSM_ZERO_M, spec.SSM_FULL_M):
        axes[0].axhline(1000 * limit, color="grey", linewidth=0.8)
    axes[0].set(title="static margin, kinematic", xlabel="tool azimuth, deg", ylabel="mm")
    axes[0].legend()
    bars = {"testB": sum(spec.FASM_BE), "testE": sum(spec.FASM_BE), "testC": spec.FASM_C,
            "testD1": spec.FASM_D1, "testD2": 0.0}  # fmt: skip
    for axis, test in zip(axes[1:], spec.SCENARIOS, strict=True):
        for k, arm in enumerate(spec.ARM_NAMES):
            for row in rows:
                if row.group == f"{arm}/{test}" and row.series.get("fasm"):
                    axis.plot(row.series["t_s"], row.series["fasm"], color=f"C{k}", linewidth=0.8)
        axis.axhline(bars[test], color="grey", linewidth=0.8)
        axis.set(title=f"{test}: force-angle margin", xlabel="s", ylabel="N m rad")
    figure.savefig(path, dpi=90)


def filmed(rows: Sequence[Row], is_quick: bool = False) -> list[str]:
    """Ids of the rows worth a film, at most `MAX_FILMS_PER_ARM` per arm.

    Args:
        rows: Those of a run.
        is_quick: The first shelf target alone, instead of the first draw of every scenario, the first
            shelf target and failed ones.
    """
    chosen = []
    for arm in spec.ARM_NAMES:
        mine = [row for row in rows if row.group.partition("/")[0] == arm]
        first: dict[str, Row] = {}
        for row in mine:
            test = row.group.partition("/")[2]
            if test in ("static", *spec.SCENARIOS, "shelf-1kg"):
                first.setdefault(test, row)
        if is_quick:
            chosen += [first["shelf-1kg"].id] if "shelf-1kg" in first else []
            continue
        failed = [row for row in mine if "/shelf" in row.group and row.score < 1.0]
        kept = [row for row in failed if row.ended != "no_submission" and row not in first.values()]
        chosen += [row.id for row in [*first.values(), *kept][: spec.MAX_FILMS_PER_ARM]]
    return chosen


def lost_points(rows: Sequence[Row]) -> dict[str, float]:
    """What each checkpoint costs, w (1 - c) of the worst arm, largest first; nothing that costs nothing."""
    credits, _ = metrics.worst_credits(rows)
    lost = {cp: spec.WEIGHTS[cp] * (1.0 - credits[cp]) for cp in spec.WEIGHTS}
    return {cp: v for cp, v in sorted(lost.items(), key=lambda item: -item[1]) if v > 1e-9}
