"""Pictures, videos and a page of a measured submission. Made after the score; nothing here can change it."""

import html
from collections.abc import Callable, Sequence
from pathlib import Path

import mujoco
import numpy as np
from matplotlib.figure import Figure
from PIL import Image, ImageDraw, ImageFont

from families.f09_gello import scene, task
from families.f09_gello.figures import TITLES, sentence
from families.f09_gello.mechanism.record import Lead, Record, Spring
from families.f09_gello.spec import (
    ARMS,
    CHECKPOINTS,
    CLEARANCE,
    DESIGN_SEEDS,
    DEVICES,
    MARKS,
    PHYSICS,
    PROTOCOL,
    SERVO,
    UNITS,
)
from rle.report import Row
from rle.sim.render import Frames, sphere
from rle.sim.video import VideoWriter

VIEWS: dict[str, tuple[float, float]] = {
    "front": (180.0, -12.0),
    "side": (90.0, -12.0),
    "top": (90.0, -89.0),
}
"""Azimuth and elevation of the stills, degrees."""
STILL_PX, HALF_PX = (640, 480), (320, 360)
"""Width and height of a still and of one half of a video frame."""
FPS = 25.0
SPEED: dict[str, float] = {"hold": 1.0, "push": 1.0, "path": 8.0}
"""Playback speed of each video: a path of 24 s is sped up."""
CAPTIONS: dict[str, str] = {
    "hold": "Left the stock arm, right the submitted one, both without software: which one stays?",
    "push": "The handle is pushed with 2 N for 0.3 s; right with the submission's own software.",
    "path": "A path of the clearance check, eight times as fast: does anything touch?",
}
CAMERA_DISTANCE_M = 1.05
LOOK_AT_M = (-0.02, 0.08, 0.16)
SKY_RGB = ((0.93, 0.95, 0.97), (0.70, 0.76, 0.82))
TABLE_RGBA = np.array([0.72, 0.70, 0.66, 1.0])
COIL_RGBA = np.array([0.10, 0.45, 0.70, 1.0], dtype=np.float32)
CENTRE_RGBA = np.array([0.84, 0.15, 0.16, 1.0])
BLACK = (20, 20, 24)
HEADLIGHT = (0.1, 0.1, 0.1), (0.0, 0.0, 0.0)
"""Diffuse and specular light at the camera: looking down, more would bleach the table."""

Feedforward = Callable[[Lead, np.ndarray], np.ndarray]
"""(arm, poses) -> nominal feedforward of the submission, N m."""


class Stage:
    """One arm with sky, table and coils, ready to be drawn.

    Args:
        record: What the arm is made of.
        frames: Renderer of the wanted picture size is made from it.
    """

    def __init__(self, record: Record, width_px: int, height_px: int) -> None:
        spec = scene.device_spec(record, DEVICES.payload_nominal_kg)
        spec.add_texture(
            name="sky", type=mujoco.mjtTexture.mjTEXTURE_SKYBOX, builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
            rgb1=SKY_RGB[0], rgb2=SKY_RGB[1], width=64, height=64,
        )  # fmt: skip
        spec.worldbody.add_geom(
            name="table", type=mujoco.mjtGeom.mjGEOM_PLANE, size=(0.6, 0.6, 0.01),
            pos=(0, 0, CLEARANCE.table_z_m), rgba=TABLE_RGBA, contype=0, conaffinity=0,
        )  # fmt: skip
        spec.visual.headlight.diffuse, spec.visual.headlight.specular = HEADLIGHT
        if (width_px, height_px) != STILL_PX:
            spec.visual.quality.offsamples = 0  # three quarters of a frame on a software renderer
        self.record, self.model = record, spec.compile()
        self.data = mujoco.MjData(self.model)
        self.frames = Frames(self.model, width_px, height_px)

    def draw(self, q: np.ndarray, azimuth: float = 135.0, elevation: float = -18.0) -> np.ndarray:
        """Picture of a pose. Shape (height, width, 3), uint8."""
        self.data.qpos[:] = q
        mujoco.mj_forward(self.model, self.data)
        camera = mujoco.MjvCamera()
        camera.azimuth, camera.elevation = azimuth, elevation
        camera.distance, camera.lookat[:] = CAMERA_DISTANCE_M, LOOK_AT_M
        return self.frames.rgb(self.data, camera, decorate=self._decorate)

    def _decorate(self, shown: mujoco.MjvScene) -> None:
        for spring in self.record.springs:
            self._coil(shown, spring)
        sphere(shown, self.data.subtree_com[self.model.body("lead_base").id], 0.008, CENTRE_RGBA)

    def _coil(self, shown: mujoco.MjvScene, spring: Spring) -> None:
        """A helix around the joint's axis."""
        joint = self.model.joint(f"lead_joint{spring.joint}").id
        body = self.model.jnt_bodyid[joint]
        turn, origin = self.data.xmat[body].reshape(3, 3), self.data.xpos[body]
        angle = np.linspace(0.0, 6 * np.pi, 40)
        local = np.column_stack(
            [0.019 * np.cos(angle), 0.019 * np.sin(angle), np.linspace(-0.012, 0.012, 40)]
        )
        points = local @ turn.T + origin
        for a, b in zip(points[:-1], points[1:], strict=True):
            if shown.ngeom >= shown.maxgeom:
                return
            geom = shown.geoms[shown.ngeom]
            mujoco.mjv_initGeom(
                geom,
                mujoco.mjtGeom.mjGEOM_CAPSULE,
                np.zeros(3),
                np.zeros(3),
                np.eye(3).ravel(),
                COIL_RGBA,
            )
            mujoco.mjv_connector(geom, mujoco.mjtGeom.mjGEOM_CAPSULE, 0.0016, a, b)
            shown.ngeom += 1

    def close(self) -> None:
        self.frames.close()


def stills(lead: Lead, folder: Path) -> None:
    """`picture_<arm>_{front,side,top}.png` at home, with mass and centre of mass written in."""
    arm = ARMS[lead.record.arm]
    stage = Stage(lead.record, *STILL_PX)
    device = scene.compose(lead.record)
    try:
        for view, (azimuth, elevation) in VIEWS.items():
            picture = Image.fromarray(stage.draw(np.array(arm.home_rad), azimuth, elevation))
            centre = stage.data.subtree_com[stage.model.body("lead_base").id]
            at = ", ".join(f"{100 * x:.1f}" for x in centre)
            text = f"{arm.name}, {view}   {device.mass_kg:.3f} kg without payload   centre of mass {at} cm"
            ImageDraw.Draw(picture).text((10, 8), text, fill=BLACK, font=ImageFont.load_default(15))
            picture.save(folder / f"picture_{arm.name}_{view}.png")
    finally:
        stage.close()


def torque_figure(lead: Lead, path: Path) -> None:
    """`picture_<arm>_torque.png`: residual of every joint over the grid, stock and submitted, with the servo limit."""
    arm = lead.record.arm
    grid = task.workspace_grid(arm)
    before = task.residual(scene.stock_device(arm).model, grid)
    after = task.residual(task.compose(lead), grid)
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    joints = np.arange(1, before.shape[1] + 1)
    for offset, table, color, label in (
        (-0.18, before, "#999999", "stock"),
        (0.18, after, "#0072B2", "submitted"),
    ):
        low, high = table.min(axis=0), table.max(axis=0)
        axes.bar(joints + offset, high - low, bottom=low, width=0.32, color=color, label=label)
    for sign in (-1, 1):
        axes.axhline(sign * SERVO.limit_n_m, color="#D55E00", linestyle="--", linewidth=1)
    axes.text(0.55, SERVO.limit_n_m + 0.02, "servo limit", color="#D55E00", fontsize=8)
    axes.set(
        xlabel="joint", ylabel="holding torque over the workspace (N m)", xticks=joints, title=arm
    )
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


def videos(lead: Lead, folder: Path, feedforward: Feedforward | None) -> None:
    """`<arm>_{hold,push,path}.mp4`: stock arm on the left, submitted arm on the right.

    hold: both without software. push: the submitted arm with its own software, where it has any. path: a
    public teleoperation path.
    """
    arm = ARMS[lead.record.arm]
    home, off = np.array(arm.home_rad), np.zeros(arm.nv)
    own, stock = task.compose(lead), scene.stock_device(arm.name).model
    ff = off if feedforward is None else feedforward(lead, home[None])[0]
    path = task.teleop_path(arm.name, np.random.default_rng(DESIGN_SEEDS[0]), CLEARANCE.dt_s).q

    def played(name: str, model: mujoco.MjModel, torque: np.ndarray) -> np.ndarray:
        seconds, push_n = (
            (PROTOCOL.push_s, PROTOCOL.push_n) if name == "push" else (PROTOCOL.hold_s, 0.0)
        )
        poses = task.servo_run(model, home, torque, seconds, push_n, is_recorded=True).poses
        stride = max(1, round(SPEED[name] / FPS / PHYSICS.timestep_s))
        return poses[::stride]

    shown = path[:: round(SPEED["path"] / FPS / CLEARANCE.dt_s)]
    runs = {
        "hold": (played("hold", stock, off), played("hold", own, off)),
        "push": (played("push", stock, off), played("push", own, ff)),
        "path": (shown, shown),
    }
    halves = []
    for k, record in enumerate((Record(arm.name), lead.record)):
        stage = Stage(record, *HALF_PX)
        halves.append({name: [stage.draw(q) for q in run[k]] for name, run in runs.items()})
        stage.close()
    for name in runs:
        with VideoWriter(
            folder / f"{arm.name}_{name}.mp4", FPS, 2 * HALF_PX[0], HALF_PX[1]
        ) as video:
            for left, right in zip(halves[0][name], halves[1][name], strict=True):
                video.add(np.hstack([left, right]))


# ----------------------------------------------------------------------------------------- the page

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
  color: #1b1b1f; background: #fff; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #ccc; text-align: right; }
th:first-child, td:first-child { text-align: left; }
.wide { overflow-x: auto; } img, video { max-width: 100%; height: auto; }
svg text { fill: currentColor; font: 12px system-ui, sans-serif; }
@media (prefers-color-scheme: dark) { body { color: #e8e8ea; background: #17171a; } th, td { border-color: #444; } }
"""


def page(rows: Sequence[Row], folder: Path) -> None:
    """`index.html`: one static page without scripts: scores, ten bars per arm, pictures, videos, findings."""
    reward = sum(row.score for row in rows) / len(ARMS)
    head = "".join(f'<th scope="col">{row.group}</th>' for row in rows)
    lines = [
        "<!doctype html>", '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>f09/gello: {100 * reward:.1f}</title><style>{_STYLE}</style></head><body>",
        f"<h1>GELLO gravity compensation: {100 * reward:.1f} of 100</h1>",
        f'<div class="wide"><table><thead><tr><th scope="col">score x100</th>{head}</tr></thead><tbody>',
    ]  # fmt: skip
    for label, key in (
        ("reward", None),
        ("ten checkpoints", "raw_total"),
        ("deductions", "validity_deduction"),
    ):
        cells = [row.score if key is None else row.metrics.get(key) for row in rows]
        shown = "".join(f"<td>{'-' if c is None else f'{100 * c:.1f}'}</td>" for c in cells)
        lines.append(f'<tr><th scope="row">{label}</th>{shown}</tr>')
    lines.append("</tbody></table></div>")
    for row in rows:
        lines += _arm_section(row, folder)
    lines.append("</body></html>")
    (folder / "index.html").write_text("\n".join(lines) + "\n")


def _arm_section(row: Row, folder: Path) -> list[str]:
    arm = row.group
    lines = [f"<h2>{arm}: {100 * row.score:.1f}</h2>", f"<p>{html.escape(sentence(row))}.</p>"]
    if row.ended != "no_submission":
        lines += ['<div class="wide">', _bars(row), "</div>"]
    for view in VIEWS:
        if (folder / f"picture_{arm}_{view}.png").is_file():
            alt = f"{arm} at home, {view} view: metal parts grey-blue, printed parts orange, springs as coils"
            lines.append(
                f'<img src="picture_{arm}_{view}.png" width="{STILL_PX[0]}" height="{STILL_PX[1]}" alt="{alt}">'
            )
    if (folder / f"picture_{arm}_torque.png").is_file():
        alt = (
            f"{arm}: range of the holding torque of each joint over the workspace, before and after"
        )
        lines.append(f'<p><img src="picture_{arm}_torque.png" alt="{alt}"></p>')
    for name, text in CAPTIONS.items():
        if (folder / f"{arm}_{name}.mp4").is_file():
            lines.append(
                f'<figure><video controls preload="none" width="{2 * HALF_PX[0]}" height="{HALF_PX[1]}" '
                f'poster="{arm}_{name}.jpg" src="{arm}_{name}.mp4"></video><figcaption>{text}</figcaption></figure>'
            )
    said = "".join(f"<li>{html.escape(text)}</li>" for _, text in row.events)
    lines.append(f"<h3>Findings</h3><ul>{said or '<li>none</li>'}</ul>")
    return lines


def _bars(row: Row) -> str:
    """Ten bars of credit with x, and the marks that earn 0, 0.6 and 1."""
    left, width, step = 210, 300, 24
    height = step * len(CHECKPOINTS) + 20
    found = [
        f'<svg role="img" width="{left + width + 330}" height="{height}" '
        f'aria-label="{html.escape(sentence(row))}">'
    ]
    for share, label in ((0.0, "zero"), (0.6, "bar"), (1.0, "best")):
        x = left + share * width
        found.append(
            f'<line x1="{x}" x2="{x}" y1="16" y2="{height}" stroke="#999" stroke-dasharray="2 3"/>'
        )
        found.append(f'<text x="{x}" y="11" text-anchor="middle">{label}</text>')
    for i, key in enumerate(CHECKPOINTS):
        y = 20 + step * i
        credit, x = row.metrics.get(f"cp_{key}") or 0.0, row.metrics.get(f"x_{key}")
        marks = MARKS[row.group].get(key)
        against = f" (0 at {marks.zero:g}, bar {marks.bar:g}, best {marks.best:g})" if marks else ""
        value = "not measured" if x is None else f"{x:.4g} {UNITS[key]}{against}"
        found.append(f'<text x="0" y="{y + 14}">{key} {TITLES[key]}</text>')
        found.append(
            f'<rect x="{left}" y="{y + 3}" width="{credit * width:.1f}" height="14" fill="#009E73"/>'
        )
        found.append(f'<text x="{left + width + 10}" y="{y + 14}">{credit:.2f}   {value}</text>')
    return "".join([*found, "</svg>"])


def media(
    leads: Sequence[Lead], rows: Sequence[Row], folder: Path, feedforward: Feedforward | None = None
) -> None:
    """Everything: stills, torque figures, videos and the page.

    Args:
        leads: The submitted arms that could be read.
        rows: Their rows, and those of absent arms.
        folder: Where the files go; made if needed.
        feedforward: The submission's software, for the push videos.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for lead in leads:
        stills(lead, folder)
        torque_figure(lead, folder / f"picture_{lead.record.arm}_torque.png")
        videos(lead, folder, feedforward)
    page(rows, folder)
