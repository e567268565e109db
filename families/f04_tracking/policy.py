"""What a policy sees and what its graph must be: observation frames, history, the ONNX contract.

The observation functions are pure and work on batches of N robots, with numpy arrays or torch tensors
(`xp` is the array module), so that training, oracles and scoring build the same numbers.
"""

import importlib
from typing import Any, NamedTuple

import msgspec
import numpy as np

from families.f04_tracking import spec
from families.f04_tracking.reference import Reference
from rle import rotations
from rle.contracts import ArraySpec, OnnxContract, OnnxProbes
from rle.errors import InvalidSubmission
from rle.verify_api import Checked

Array = Any
"""A numpy array or a torch tensor."""
_ANCHOR = spec.ANCHOR_INDEX


class Robot(NamedTuple):
    """Measured state of N robots."""

    joint_pos: Array
    """Shape (N, 29), rad, without encoder bias."""
    joint_vel: Array
    """Shape (N, 29), rad/s."""
    imu_lin_vel: Array
    """Shape (N, 3), m/s, IMU frame."""
    imu_ang_vel: Array
    """Shape (N, 3), rad/s, IMU frame."""
    body_pos: Array
    """Tracked bodies, shape (N, 14, 3), m, world."""
    body_quat_wxyz: Array
    """Tracked bodies, shape (N, 14, 4), world."""


class Target(NamedTuple):
    """Reference frames, one per robot; the tracked bodies only."""

    joint_pos: Array
    joint_vel: Array
    body_pos: Array
    body_quat_wxyz: Array
    body_lin_vel: Array
    body_ang_vel: Array
    anchor_rotation: Array
    """R of the anchor, shape (N, 3, 3): the clip's, so computed once and not in every observation."""

    def at(self, frames: Any) -> "Target":
        """Selects frames: a slice, or an index array of shape (N,)."""
        return Target(*(array[frames] for array in self))


def targets(reference: Reference) -> Target:
    """All frames of a clip as a batch."""
    tracked = list(spec.TRACKED_INDEX)
    anchor_quat_wxyz = reference.body_quat_w[:, tracked[_ANCHOR]]
    return Target(
        joint_pos=reference.joint_pos,
        joint_vel=reference.joint_vel,
        body_pos=reference.body_pos_w[:, tracked],
        body_quat_wxyz=reference.body_quat_w[:, tracked],
        body_lin_vel=reference.body_lin_vel_w[:, tracked],
        body_ang_vel=reference.body_ang_vel_w[:, tracked],
        anchor_rotation=rotations.matrix(anchor_quat_wxyz),
    )


def observe(
    robot: Robot, target: Target, joint_offset_rad: Array, last_action: Array, xp: Any = np
) -> Array:
    """Noise-free observation frames, layout of `spec.OBS_BLOCKS`. Shape (N, 160).

    Args:
        robot: State at time k.
        target: Reference frame k.
        joint_offset_rad: Encoder bias minus default pose, shape (N, 29) or (29,).
        last_action: Raw action of step k - 1, zeros at step 0, shape (N, 29).
        xp: `numpy` or `torch`.
    """
    to_world = rotations.matrix(robot.body_quat_wxyz[:, _ANCHOR])
    offset = target.body_pos[:, _ANCHOR] - robot.body_pos[:, _ANCHOR]
    offset_torso = (offset[:, None, :] @ to_world)[:, 0]
    turn = to_world.swapaxes(-1, -2) @ target.anchor_rotation
    parts = [
        target.joint_pos,
        target.joint_vel,
        offset_torso,
        turn[:, :, :2].reshape(-1, 6),
        robot.imu_lin_vel,
        robot.imu_ang_vel,
        robot.joint_pos + joint_offset_rad,
        robot.joint_vel,
        last_action,
    ]
    return xp.concatenate(parts, 1)


def observe_critic(frame: Array, robot: Robot, xp: Any = np) -> Array:
    """Privileged training observation. Shape (N, 286).

    Slices 0:67 of the noise-free frame, position (m) and first two columns (row-major) of the
    orientation of the 14 bodies in the torso frame, then slices 67:160 of the frame.

    Args:
        frame: Result of `observe` for the same state, shape (N, 160).
        robot: That state.
        xp: `numpy` or `torch`.
    """
    n = len(frame)
    rotation = rotations.matrix(robot.body_quat_wxyz)
    to_world = rotation[:, _ANCHOR]
    position = (robot.body_pos - robot.body_pos[:, _ANCHOR, None]) @ to_world
    turn = to_world.swapaxes(-1, -2)[:, None] @ rotation
    split = spec.REFERENCE_OBS_DIM
    parts = [
        frame[:, :split],
        position.reshape(n, -1),
        turn[..., :2].reshape(n, -1),
        frame[:, split:],
    ]
    return xp.concatenate(parts, 1)


class History:
    """The last H observation frames of N robots, oldest first; zeros before an episode's start.

    Args:
        n: Robots.
        length: H, frames that a policy sees.
        like: An array of the wanted kind, dtype and device (torch); None is numpy float32.
    """

    def __init__(self, n: int, length: int, like: Array | None = None) -> None:
        shape = (n, length * spec.OBS_DIM)
        self.array = np.zeros(shape, np.float32) if like is None else like.new_zeros(shape)
        """Shape (N, 160 H); the newest frame is the last 160 numbers."""

    def push(self, frames: Array) -> Array:
        """Appends a frame per robot, shape (N, 160), drops the oldest, and returns the window."""
        width = spec.OBS_DIM
        if isinstance(self.array, np.ndarray):
            self.array[:, :-width] = self.array[:, width:]
        else:
            self.array = self.array.roll(-width, 1)  # torch cannot move overlapping memory in place
        self.array[:, -width:] = frames
        return self.array

    def clear(self, robots: Any = slice(None)) -> None:
        """Forgets the frames of the given robots."""
        self.array[robots] = 0.0


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """What `policy_meta.json` says."""

    obs_history_length: int
    """H, observation frames that the graph takes."""
    n_params: int | None = None
    """The submission's own count, compared with ours and not used."""


def read_meta(data: bytes) -> Meta:
    """Reads `policy_meta.json`; keys that it does not know are ignored.

    Args:
        data: The file.

    Raises:
        InvalidSubmission: `f04.meta`, no JSON object; `f04.history`, no integer in range;
            `f04.meta_dim`, a stated size of observation or action that is not ours.
    """
    try:
        meta = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise InvalidSubmission("f04.meta", fact=str(error)) from None
    if not isinstance(meta, dict):
        raise InvalidSubmission("f04.meta", fact=f"it holds a {type(meta).__name__}")
    history = meta.get("obs_history_length")
    low, high = spec.HISTORY_MIN, spec.HISTORY_MAX
    if type(history) is not int or not low <= history <= high:
        found = "nothing" if history is None else _shown(history)
        raise InvalidSubmission("f04.history", min=low, max=high, found=found)
    for key, size in (("obs_dim", spec.OBS_DIM), ("action_dim", spec.ACTION_DIM)):
        if key in meta and (type(meta[key]) is not int or meta[key] != size):
            raise InvalidSubmission("f04.meta_dim", key=key, size=size, found=_shown(meta[key]))
    n_params = meta.get("n_params")
    return Meta(obs_history_length=history, n_params=n_params if type(n_params) is int else None)


def _shown(value: Any) -> str:
    """A value of the meta file as JSON, shortened for a message."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 40 else text[:37] + "..."


def contract(history: int) -> OnnxContract:
    """The graph that the verifier accepts for a history of H frames."""
    return OnnxContract(
        path=spec.ONNX_FILE,
        inputs=(ArraySpec("obs", (1, spec.OBS_DIM * history), "float32"),),
        outputs=(ArraySpec("actions", (1, spec.ACTION_DIM), "float32"),),
        max_parameters=spec.MAX_PARAMS,
        max_bytes=spec.MAX_ONNX_BYTES,
        symbolic_batch=True,
        opset_min=spec.OPSET_MIN,
        opset_max=spec.OPSET_MAX,
        ops=spec.OPERATORS,
        probes=OnnxProbes(
            responsive_pairs=spec.PROBE_PAIRS,
            responsive_min=spec.MIN_RESPONSE,
            finite_inputs=spec.PROBE_PAIRS,
            max_abs_output=spec.MAX_ACTION,
            latency_cap_s=spec.MAX_INFERENCE_S,
            latency_warmup=spec.INFERENCE_WARMUP_CALLS,
            latency_calls=spec.INFERENCE_CALLS,
            latency_tries=spec.INFERENCE_TRIES,
        ),
    )


def checked(history: int) -> Checked:
    """The checked artifact as a trial process names it: what a worker loads."""
    return Checked(kind="onnx", contract=contract(history), files=(spec.ONNX_FILE,))


def _is_exception(value: Any) -> bool:
    """onnxruntime's exceptions have no common base below `Exception`."""
    return isinstance(value, type) and issubclass(value, Exception)


class LocalGraph:
    """The graph in this process, for its author's own evaluation: no sandbox, same runtime settings.

    Args:
        data: `policy.onnx`.
        history: H of `policy_meta.json`.

    Raises:
        InvalidSubmission: `onnx.load`, `onnx.io`.
    """

    def __init__(self, data: bytes, history: int) -> None:
        import onnxruntime as ort  # 0.1 s that most users of this module do not need

        state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.log_severity_level = 4
        try:
            session = ort.InferenceSession(data, options, ["CPUExecutionProvider"])
        except tuple(v for v in vars(state).values() if _is_exception(v)) as error:
            raise InvalidSubmission("onnx.load", fact=str(error).splitlines()[0]) from None
        wanted = contract(history)
        for side, found, (want,) in (
            ("input", session.get_inputs(), wanted.inputs),
            ("output", session.get_outputs(), wanted.outputs),
        ):
            fits = [(v.name, v.type, v.shape[1:]) for v in found] == [
                (want.name, "tensor(float)", list(want.shape[1:]))
            ]
            if not fits:
                shown = ", ".join(f"{v.name} {v.type} {v.shape}" for v in found)
                expected = (
                    f"{side} {want.name} {want.dtype} {list(want.shape)} for history {history}"
                )
                raise InvalidSubmission("onnx.io", expected=expected, found=shown)
        self._session = session

    def act(self, frames: np.ndarray) -> np.ndarray:
        """Action for an observation history, float32 (1, 160 H) to (1, 29)."""
        return np.asarray(self._session.run(["actions"], {"obs": frames})[0])
