"""What is submitted: a package with `estimator.py` or a TorchScript module, behind one question per frame."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from families.f06_pose import spec
from rle.contracts import Arg, ArraySpec, Function, PythonContract, TorchScriptContract
from rle.spec import Kind, Profile, TaskSpec
from rle.verify_api import Limits, TrialFault, Worker

_WIDTH, _HEIGHT = spec.IMAGE_WH_PX
_RETURNS = (
    ArraySpec("x"), ArraySpec("y"), ArraySpec("theta"), ArraySpec("shape_id", (), "int64"),
)  # fmt: skip
_ARRAYS = {
    "rgb": ArraySpec("rgb", (_HEIGHT, _WIDTH, 3), "uint8"),
    "K": ArraySpec("K", (3, 3)),
    "T_cam_table": ArraySpec("T_cam_table", (4, 4)),
    "t": ArraySpec("t"),
    "depth": ArraySpec("depth", (_HEIGHT, _WIDTH), "float32"),
}
_ENDS = frozenset({"timeout_call", "timeout_total", "worker_died"})
"""Endings after which there is nobody to ask."""


@dataclass(frozen=True)
class Answer:
    """An estimate for one frame."""

    pose: tuple[float, float, float]
    """x and y in m, theta in rad, any wrap."""
    shape_id: int


class Estimator(Protocol):
    """One kind of artifact: its contract, and how a frame is put to a worker that holds it."""

    kind: Kind
    profile: Profile

    @property
    def contract(self) -> PythonContract | TorchScriptContract:
        """What the artifact must hold."""
        ...

    def start(self, worker: Worker) -> None:
        """Begins a new episode (timed)."""
        ...

    def ask(self, worker: Worker, obs: Mapping[str, Any], *, warm_up: bool = False) -> Answer:
        """Puts one frame. Raises TrialFault."""
        ...


class CodeEstimator:
    """`estimator.py`: `make_estimator()` gives an object with `reset()` and `update(...)`.

    Args:
        task: One of the tasks that take a package; only its granted channels are ever sent.
    """

    kind: Kind = "python"
    profile: Profile = "python"

    def __init__(self, task: TaskSpec) -> None:
        granted = spec.CHANNELS[task.slug]
        self._names = tuple(n for n in _ARRAYS if n in (*granted, "K", "T_cam_table", "t"))
        agnostic = task.slug == spec.AGNOSTIC
        suffixes = (*spec.ESTIMATOR_SUFFIXES, ".pt") if agnostic else spec.ESTIMATOR_SUFFIXES
        args = tuple(Arg(kind="array", arrays=(_ARRAYS[n],), keyword=n) for n in self._names)
        self.contract = PythonContract(
            entry="estimator.py",
            factory="make_estimator",
            required=("reset", "update"),
            functions=(Function(name="update", args=args, returns=_RETURNS),),
            suffixes=suffixes,
            max_files=spec.MAX_FILES,
            max_total_bytes=spec.MAX_TOTAL_BYTES_AGNOSTIC if agnostic else spec.MAX_TOTAL_BYTES,
        )

    def start(self, worker: Worker) -> None:
        """Calls `reset()`."""
        worker.reset()

    def ask(self, worker: Worker, obs: Mapping[str, Any], *, warm_up: bool = False) -> Answer:
        """Calls `update` with the granted channels."""
        arrays = [np.asarray(obs[n], _ARRAYS[n].dtype) for n in self._names]
        put = worker.warm_up if warm_up else worker.call
        x, y, theta, shape = put("update", *arrays)
        if not 0 <= int(shape) < len(spec.SHAPES):
            raise TrialFault(
                "bad_action", "action.type", f"shape_id is {int(shape)}, not 0, 1 or 2"
            )
        return Answer((float(x), float(y), float(theta)), int(shape))


class ModelEstimator:
    """`model.pt`: one picture of five channels in, seven numbers out, no state."""

    kind: Kind = "torchscript"
    profile: Profile = "torchscript"
    contract = TorchScriptContract(
        path="model.pt",
        input=ArraySpec("x", (1, spec.MODEL_CHANNELS, _HEIGHT, _WIDTH), "float32"),
        output=ArraySpec("y", (1, spec.MODEL_OUTPUTS), "float32"),
        max_elements=spec.MAX_TENSOR_ELEMENTS,
    )

    def start(self, worker: Worker) -> None:
        """A module has no state."""

    def ask(self, worker: Worker, obs: Mapping[str, Any], *, warm_up: bool = False) -> Answer:
        """Runs `forward` and reads its seven numbers."""
        put = worker.warm_up if warm_up else worker.call
        return read_outputs(put("act", model_input(obs["rgb"], obs["depth"]))[0])


def estimator_of(task: TaskSpec) -> Estimator:
    """How a task's artifact is asked."""
    return ModelEstimator() if task.slug == spec.LEARNED else CodeEstimator(task)


def model_input(rgb: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """Input of `model.pt` from the two pictures.

    Args:
        rgb: Shape (H, W, 3), uint8.
        depth: Shape (H, W), float32, m, NaN where missing.

    Returns:
        R, G, B in [0, 1], depth in m (missing: 0), validity. Shape (1, 5, H, W), float32.
    """
    x = np.empty((1, spec.MODEL_CHANNELS, *depth.shape), np.float32)
    np.divide(rgb.transpose(2, 0, 1), np.float32(255.0), out=x[0, :3], dtype=np.float32)
    valid = np.isfinite(depth) & (depth > 0)
    x[0, 3] = np.where(valid, depth, np.float32(0.0))
    x[0, 4] = valid
    return x


def read_outputs(outputs: np.ndarray) -> Answer:
    """x, y, atan2(sin, cos) and the largest logit, the lowest index on ties, of shape (1, 7)."""
    x, y, cos, sin, *logits = map(float, outputs[0])
    return Answer((x, y, math.atan2(sin, cos)), int(np.argmax(logits)))


def limits(frames: int) -> Limits:
    """Caps of a trial of this many frames."""
    return Limits(
        call_cap_s=spec.CALL_CAP_S,
        total_cap_s=spec.TRIAL_CAP_S + spec.TRIAL_CAP_PER_FRAME_S * frames,
        load_cap_s=spec.LOAD_CAP_S,
        warm_up_cap_s=spec.WARM_UP_CAP_S,
    )


def is_over(fault: TrialFault) -> bool:
    """Whether nobody is left to ask after this fault."""
    return fault.ended in _ENDS
