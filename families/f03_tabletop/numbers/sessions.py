"""How each task is served: action layout, observations, cameras, phases, extra operations."""

import math
from typing import Any

import numpy as np

from families.f03_tabletop.numbers import common as c
from families.f03_tabletop.numbers import others as o
from families.f03_tabletop.numbers import tabletop as t
from families.f03_tabletop.numbers.texts import INSTRUCTIONS
from rle.service.adapter import (
    ActionPart,
    ArgSpec,
    EventKey,
    ExtraOp,
    ObservationKey,
    PhaseSpec,
    SessionSpec,
)

ADAPTER = "families.f03_tabletop.task:make"


def _arm_parts(prefix: str, start: int, frame: str) -> tuple[ActionPart, ...]:
    return (
        ActionPart(
            name=f"{prefix}position", start=start, stop=start + 3,
            help=f"grip-site displacement, +-1 = +-0.05 m, {frame}",
        ),
        ActionPart(
            name=f"{prefix}rotation", start=start + 3, stop=start + 6,
            help=f"grip-site rotation vector, +-1 = +-0.5 rad, {frame}",
        ),
        ActionPart(name=f"{prefix}gripper", start=start + 6, stop=start + 7, help=c.GRIPPER_NOTE),
    )  # fmt: skip


OMRON_LAYOUT = (
    *_arm_parts("", 0, "frame of the mobile base"),
    ActionPart(
        name="base", start=7, stop=10,
        help="base velocity forward, left (1 = 1 m/s at most) and turn (1 = 1.5 rad/s at most), base frame",
    ),
    ActionPart(name="torso", start=10, stop=11, help="torso height change"),
    ActionPart(
        name="mode", start=11, stop=12,
        help="> 0: arm goals follow the last goal while the base moves; <= 0: follow the present pose",
    ),
)  # fmt: skip
PANDA_LAYOUT = _arm_parts("", 0, "frame of the arm's base")
CUBE_LAYOUT = (
    *_arm_parts("arm0_", 0, "frame of arm 0's base"),
    *_arm_parts("arm1_", 7, "frame of arm 1's base"),
)


def _arm_keys(prefix: str = "") -> tuple[ObservationKey, ...]:
    rows = (
        ("joint_pos", (7,), "rad", "arm joints"),
        ("joint_vel", (7,), "rad/s", "arm joints"),
        ("eef_pos", (3,), "m", "grip site in the world"),
        ("eef_quat", (4,), "-", "grip site in the world, xyzw; z approaches, x closes"),
        ("gripper_pos", (2,), "m", "finger joints"),
    )
    return tuple(
        ObservationKey(name=prefix + name, shape=shape, unit=unit, help=text)
        for name, shape, unit, text in rows
    )


def _base_keys(prefix: str = "") -> tuple[ObservationKey, ...]:
    return (
        ObservationKey(
            name=f"{prefix}base_pos", shape=(3,), unit="m",
            help="frame of the arm actions in the world",
        ),
        ObservationKey(
            name=f"{prefix}base_quat", shape=(4,), unit="-",
            help="frame of the arm actions in the world, xyzw",
        ),
    )  # fmt: skip


OMRON_KEYS = (
    *_arm_keys(),
    *_base_keys(),
    ObservationKey(name="eef_base_pos", shape=(3,), unit="m", help="grip site in the base frame"),
    ObservationKey(
        name="eef_base_quat", shape=(4,), unit="-", help="grip site in the base frame, xyzw"
    ),
)
BALANCE_KEYS = (
    ObservationKey(
        name="joint_pos", shape=(7,), unit="rad",
        help=f"arm joints, Gaussian noise sigma {t.JOINT_NOISE_RAD:g} rad",
    ),
    *(key for key in OMRON_KEYS if key.name != "joint_pos"),
    ObservationKey(
        name="cube_positions", shape=(t.CUBES, 3), unit="m",
        help=f"cube centres in the world, Gaussian noise sigma {t.POSITION_NOISE_M:g} m; on a pan refreshed while locked or at rest",
    ),
    ObservationKey(
        name="pan_positions", shape=(2, 3), unit="m",
        help="centres of the plates' tops in the world, -y pan first; refreshed while locked or at rest, Gaussian noise sigma "
        f"{t.POSITION_NOISE_M:g} m",
    ),
    ObservationKey(
        name="pan_at_rest", shape=(), unit="-", dtype="bool",
        help=f"beam slower than {t.BEAM.rest_beam_rad_s:g} and both pans than {t.BEAM.rest_pan_rad_s:g} rad/s in each of the last "
        f"{t.BEAM.rest_steps} steps since the beam was last locked or released; a pan swings for a while after "
        "something was put on it or taken off, also under lock",
    ),
    ObservationKey(
        name="beam_locked", shape=(), unit="-", help="the arrest holds the beam, or brings it level", dtype="bool"
    ),
)  # fmt: skip
CUBE_KEYS = tuple(
    key for prefix in ("arm0_", "arm1_") for key in (*_arm_keys(prefix), *_base_keys(prefix))
)


def look_rotation(eye: tuple[float, ...], target: tuple[float, ...]) -> np.ndarray:
    """Camera axes in the world as columns x (right), y (up), z (backwards). Shape (3, 3)."""
    back = np.array(eye) - np.array(target)
    back /= np.linalg.norm(back)
    up = np.array([0.0, 0.0, 1.0]) if abs(back[2]) < 0.999 else np.array([0.0, 1.0, 0.0])
    right = np.cross(up, back)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(back, right), back], axis=1)


def eye_of(camera: o.LookAt) -> tuple[float, float, float]:
    """Position of a look-at camera, m."""
    azimuth, elevation = math.radians(camera.azimuth_deg), math.radians(camera.elevation_deg)
    forward = (
        math.cos(elevation) * math.cos(azimuth),
        math.cos(elevation) * math.sin(azimuth),
        math.sin(elevation),
    )
    x, y, z = (p - camera.distance_m * f for p, f in zip(camera.target_m, forward, strict=True))
    return x, y, z


def _camera_facts(name: str, eye, rotation: np.ndarray, fovy_deg: float) -> dict[str, Any]:
    focal = 0.5 * c.IMAGE_PX / math.tan(math.radians(fovy_deg) / 2.0)
    return {
        "name": name,
        "position_m": [float(v) for v in eye],
        "rotation_columns_right_up_back": [[float(v) for v in row] for row in rotation],
        "fovy_deg": fovy_deg,
        "focal_px_at_512": focal,
        "centre_px_at_512": [c.IMAGE_PX / 2.0] * 2,
    }


FRONT_FACTS = _camera_facts(
    "front",
    o.FRONT_CAMERA_M,
    look_rotation(o.FRONT_CAMERA_M, o.FRONT_TARGET_M),
    o.FRONT_FOVY_DEG,
)
HIDDEN_FACTS = [
    _camera_facts(
        camera.name, eye_of(camera), look_rotation(eye_of(camera), camera.target_m), camera.fovy_deg
    )
    for camera in o.HIDDEN_CAMERAS
]
TABLETOP_FACTS = {
    "side_cameras": {
        "names": ["left", "right"],
        "frame": "base_pos, base_quat (moves with the base)",
        "position_m": [list(c.SIDE_CAMERA_XYZ_M), [c.SIDE_CAMERA_XYZ_M[0], -c.SIDE_CAMERA_XYZ_M[1], c.SIDE_CAMERA_XYZ_M[2]]],
        "quat_wxyz": [list(c.LEFT_CAMERA_WXYZ), list(c.RIGHT_CAMERA_WXYZ)],
        "fovy_deg": c.SIDE_FOVY_DEG,
    },
    "wrist_camera": {
        "names": ["wrist"],
        "frame": "eef_pos, eef_quat (moves with the hand)",
        "position_m": [list(c.WRIST_CAMERA_XYZ_M)],
        "quat_wxyz": [list(c.WRIST_CAMERA_WXYZ)],
        "fovy_deg": c.WRIST_FOVY_DEG,
    },
    "table": {"top_z_m": t.TABLE.top_z_m, "size_m": list(t.TABLE.size_m)},
}  # fmt: skip

BEAM_OP = ExtraOp(
    name="beam", cost=1, args=(ArgSpec(name="locked", type="bool"),),
    help=f"locks (level over {t.BEAM.lock_steps} steps) or releases the beam; the robot holds still for one step",
)  # fmt: skip
RECOVER_OP = ExtraOp(
    name="recover_drop", cost=1,
    help="puts a fallen cube back on its fork in its last legal aligned state",
)  # fmt: skip
SUBMIT_OP = ExtraOp(
    name="submit", cost=0, args=(ArgSpec(name="quadrant", type="str", choices=tuple(o.QUADRANTS)),),
    help="answers the live box for good and opens the next", is_answer=True,
)  # fmt: skip


BALANCE_EVENTS = (
    EventKey(name="weighings", help="weighings counted so far; with every step"),
    EventKey(name="locked", help="whether the beam is locked after `beam`"),
)
CUBE_EVENTS = (
    EventKey(name="turns", help="quarter turns counted so far; with every step"),
    EventKey(name="unclassified", help="transitions so far that are no single turn"),
    EventKey(name="recoveries", help="calls of `recover_drop` so far, with each of them"),
)


def _attempt(**changes: Any) -> PhaseSpec:
    fields: dict[str, Any] = {
        "name": "attempt", "kind": "attempt", "trials": 1, "steps": c.BUDGET_STEPS,
        "seconds": float(c.WALL_S), "reset": "same", "reset_cost": 1,
    }  # fmt: skip
    return PhaseSpec(**{**fields, **changes})


def session(slug: str) -> SessionSpec:
    """Session declaration of one task."""
    fields: dict[str, Any] = {
        "action_dim": 12, "action_layout": OMRON_LAYOUT, "observation": OMRON_KEYS,
        "cameras": ("left", "right", "wrist"), "calibration": TABLETOP_FACTS, "has_move": True,
        "phases": (_attempt(),),
    }  # fmt: skip
    if slug == "balance":
        fields |= {"observation": BALANCE_KEYS, "extra_ops": (BEAM_OP,),
                   "events": BALANCE_EVENTS}  # fmt: skip
    if slug == "pocket-cube":
        fields |= {
            "action_dim": 14, "action_layout": CUBE_LAYOUT, "observation": CUBE_KEYS,
            "cameras": ("front",), "depth_cameras": ("front",), "has_move": False,
            "calibration": {"front": FRONT_FACTS, "cube_start_m": list(o.CUBE_START_M)},
            "phases": (_attempt(reset="forfeit", reset_cost=0),), "extra_ops": (RECOVER_OP,),
            "events": CUBE_EVENTS,
        }  # fmt: skip
    if slug == "hidden-com":
        phase = _attempt(
            trials=o.BOXES, steps=o.BOXES * c.HIDDEN_COM_STEPS, trial_steps=c.HIDDEN_COM_STEPS,
            seconds=float(c.HIDDEN_COM_WALL_S), reset="none", reset_cost=0, can_finish=False,
            close_at_budget=False,
        )  # fmt: skip
        fields |= {
            "action_dim": 7, "action_layout": PANDA_LAYOUT, "observation": _arm_keys(),
            "cameras": tuple(camera.name for camera in o.HIDDEN_CAMERAS), "has_move": False,
            "calibration": {"cameras": HIDDEN_FACTS, "base_pos_m": list(o.HIDDEN_BASE_M)},
            "phases": (phase,), "extra_ops": (SUBMIT_OP,),
        }  # fmt: skip
    return SessionSpec(
        task=f"f03/{slug}", family_version=c.FAMILY_VERSION, draw_key=slug, adapter=ADAPTER,
        instruction=INSTRUCTIONS[slug], control_hz=c.CONTROL_HZ, default_px=c.IMAGE_PX,
        on_sim_error="reopen_once", **fields,
    )  # fmt: skip
