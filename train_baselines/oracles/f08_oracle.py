"""Writes the stored submissions of f08: chassis, postures, controller. Takes a few minutes per frame.

python -m train_baselines.oracles.f08_oracle [FRAME ...]
"""

import sys
from pathlib import Path

import msgspec

from families.f08_mobile_base import chassis, scene, shelf, spec
from rle.paths import assets_dir
from train_baselines.oracles import f08_frames, f08_postures

FRONT_GAP_M: dict[str, dict[str, float]] = {"light": {"xarm7": 0.012}}
"""Frames whose low mount needs the base closer to the shelf for an arm."""
STORED = (f08_frames.ORACLE, f08_frames.LIGHT, f08_frames.BRACED)


def folder(name: str) -> Path:
    """Where a stored submission stands."""
    return assets_dir() / "oracles" / "f08" / name


def controller_text(postures: dict[str, list[f08_postures.Posture | None]]) -> str:
    """The controller with its postures, rounded to 0.1 mm and 0.1 mrad."""
    lines = ["# fmt: off", "POSTURES = {"]
    for arm, row in postures.items():
        lines.append(f'    "{arm}": [')
        for p in row:
            values = None if p is None else [round(v, 4) for v in (*p.base, *p.joints_rad)]
            lines.append(f"        {values},")
        lines.append("    ],")
    lines += ["}", "# fmt: on"]
    text = (Path(__file__).parent / "f08_controller.py").read_text()
    return text.replace("POSTURES = {}", "\n".join(lines), 1)


def write(frame: f08_frames.Frame) -> None:
    """Solves and writes one submission."""
    xml = f08_frames.to_xml(frame)
    design = chassis.inspect(chassis.read_text(xml.encode()))
    postures = f08_postures.all_postures(design, front_gap_m=FRONT_GAP_M.get(frame.name))
    target = folder(frame.name)
    target.mkdir(parents=True, exist_ok=True)
    (target / "robot.xml").write_text(xml)
    (target / "controller.py").write_text(controller_text(postures))


def agent_files() -> dict[str, str]:
    """What `assets/f08/` gives to agents, by file name: starter, preview scene, shelf, catalogue."""
    starter = f08_frames.to_xml(f08_frames.STARTER)
    design = chassis.inspect(chassis.read_text(starter.encode()))
    boxes = {n: {"lower_m": low, "upper_m": high} for n, low, high in scene.shelf_boxes()}
    targets = dict(zip(spec.TARGET_NAMES, spec.TARGETS_M, strict=True))
    return {
        "starter_robot.xml": starter,
        "preview_scene.xml": shelf.make_robot(design, spec.ARMS[0], 1.0).xml,
        "shelf.xml": scene.shelf_text(),
        "catalogue.json": _json([msgspec.structs.asdict(s) for s in spec.CATALOGUE]),
        "shelf.json": _json({"boxes": boxes, "targets_m": targets}),
    }


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


if __name__ == "__main__":
    for file_name, text in agent_files().items():
        (assets_dir() / "f08" / file_name).write_text(text)
    wanted = sys.argv[1:] or [frame.name for frame in STORED]
    for each in STORED:
        if each.name in wanted:
            write(each)
