"""What a request must look like before anything is charged: pure checks with messages for the agent."""

import math
import string
import struct

from rle.service.adapter import BadRequest, ExtraOp, SessionSpec
from rle.service.frames import ProtocolError
from rle.service.protocol import (
    MAX_BATCH,
    MAX_CAMERAS,
    MAX_IMAGE_PX,
    Array,
    Call,
    Move,
    ObserveSpec,
    Reset,
    check_size,
)

ID_CHARACTERS = string.ascii_letters + string.digits + "_-"
UNIT_NORM_TOLERANCE = 1e-3
"""Accepted error of a quaternion's norm. Source: card."""
MAX_SEED = 2**31 - 1


def request_id(text: str) -> None:
    """Raises BadRequest for an id outside 1-64 of [A-Za-z0-9_-]."""
    if not 1 <= len(text) <= 64 or text.strip(ID_CHARACTERS):
        raise BadRequest(f"request_id {text[:70]!r} is not 1-64 characters of [A-Za-z0-9_-]")


def actions(array: Array, spec: SessionSpec) -> tuple[Array, int]:
    """Checks a batch and clips it.

    Without numpy: in a process that sleeps between requests its first calls cost 0.2 ms of cold code.

    Returns:
        Actions as float32 in [-1, 1], shape (n, A), and how many values were clipped.

    Raises:
        BadRequest: Type, shape or size is wrong, or a value is not finite (names row and column).
    """
    try:
        check_size(array)
    except ProtocolError as error:
        raise BadRequest(str(error)) from None
    shape, width = array.shape, spec.action_dim
    wanted = f"task {spec.task} takes float64 (n, {width}), n from 1 to {MAX_BATCH}"
    if array.dtype != "float64" or len(shape) != 2 or shape[1] != width:
        raise BadRequest(f"actions is {array.dtype} {shape}; {wanted}")
    if not 1 <= shape[0] <= MAX_BATCH:
        raise BadRequest(f"actions has {shape[0]} rows; {wanted}")
    count = shape[0] * width
    values = struct.unpack(f"<{count}d", array.data)
    clipped = 0
    if not all(-1.0 <= value <= 1.0 for value in values):
        for i, value in enumerate(values):
            if not math.isfinite(value):
                raise BadRequest(
                    f"actions[{i // width}, {i % width}] is {value}; only finite values are accepted, "
                    "nothing was charged"
                )
        clipped = sum(abs(value) > 1.0 for value in values)
        values = [min(1.0, max(-1.0, value)) for value in values]
    return Array("float32", shape, struct.pack(f"<{count}f", *values)), clipped


def observe(look: ObserveSpec, spec: SessionSpec) -> ObserveSpec:
    """Fills the defaults of an observation request.

    Raises:
        BadRequest: Unknown or too many cameras, too large an image, or depth where there is none.
    """
    unknown = [name for name in look.cameras if name not in spec.cameras]
    if unknown:
        raise BadRequest(f"camera {unknown[0]!r} is unknown; allowed: {', '.join(spec.cameras)}")
    if len(look.cameras) > MAX_CAMERAS or len(set(look.cameras)) != len(look.cameras):
        raise BadRequest(f"{len(look.cameras)} cameras; at most {MAX_CAMERAS}, each once")
    if look.depth and not set(look.cameras) <= set(spec.depth_cameras):
        offered = ", ".join(spec.depth_cameras) or "none"
        raise BadRequest(f"depth is not offered by these cameras; cameras with depth: {offered}")
    width, height = look.width_px, look.height_px
    if min(width, height) < 0 or max(width, height) > MAX_IMAGE_PX:
        raise BadRequest(
            f"width_px is {width}, height_px {height}; sides are 1 to {MAX_IMAGE_PX} px, 0 is the default"
        )
    side = width or height or spec.default_px
    return ObserveSpec(
        cameras=look.cameras, width_px=width or side, height_px=height or side, depth=look.depth
    )


def move(request: Move) -> None:
    """Raises BadRequest for a pose that is not finite, a quaternion that is not unit, or a bad count."""
    if not 1 <= request.steps <= MAX_BATCH:
        raise BadRequest(f"steps is {request.steps}; allowed: 1 to {MAX_BATCH}")
    numbers = (*request.position_m, *request.quat_xyzw, request.gripper)
    if not all(map(math.isfinite, numbers)):
        raise BadRequest("position_m, quat_xyzw and gripper must be finite; nothing was charged")
    norm = math.sqrt(sum(q * q for q in request.quat_xyzw))
    if abs(norm - 1.0) > UNIT_NORM_TOLERANCE:
        raise BadRequest(f"quat_xyzw has norm {norm:.6g}; a unit quaternion is expected")


def reset(request: Reset, spec: SessionSpec, *, takes_scene: bool) -> None:
    """Raises BadRequest for a task or seed that `reset` does not take here."""
    if not takes_scene and (request.task is not None or request.seed is not None):
        raise BadRequest("reset takes no task and no seed here")
    if request.task is not None and request.task not in spec.tasks:
        raise BadRequest(
            f"task {request.task!r} is unknown; allowed: {', '.join(spec.tasks) or 'none'}"
        )
    if request.seed is not None and not 0 <= request.seed <= MAX_SEED:
        raise BadRequest(f"seed {request.seed} is outside 0 to {MAX_SEED}")


def extra(request: Call, op: ExtraOp) -> None:
    """Raises BadRequest for arguments that are not the declared ones."""
    wanted = {arg.name: arg for arg in op.args}
    if request.args.keys() != wanted.keys():
        given = ", ".join(sorted(request.args)) or "none"
        takes = ", ".join(f"{arg.name} ({arg.type})" for arg in op.args) or "no arguments"
        raise BadRequest(f"{op.name} takes {takes}; given: {given}")
    for name, value in request.args.items():
        arg = wanted[name]
        if type(value).__name__ != arg.type and not (arg.type == "float" and type(value) is int):
            raise BadRequest(f"{name} is {value!r}; {arg.type} is expected")
        if arg.choices and value not in arg.choices:
            raise BadRequest(f"{name} is one of {', '.join(arg.choices)}; given: {value!r}")
