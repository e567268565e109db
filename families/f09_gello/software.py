"""`trim.py` through its worker: what is declared, how it is probed, and its answers, frozen.

All feedforward is asked for before anything is simulated, row by row, so that it cannot react to time.
"""

import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import msgspec
import mujoco
import numpy as np

from families.f09_gello.spec import ARMS, DEVICES, SOFTWARE_LIMITS, TRIM_BYTES_MAX, Arm
from families.f09_gello.task import probe_bounds
from rle.contracts import Arg, ArraySpec, Function, PythonContract
from rle.errors import AGENT_MESSAGES
from rle.exits import exits_raise, line_of
from rle.verify_api import Checked, Limits, TrialFault, nonfinite

LIMITS = Limits(
    call_cap_s=SOFTWARE_LIMITS.call_s,
    total_cap_s=SOFTWARE_LIMITS.cpu_s,
    load_cap_s=SOFTWARE_LIMITS.load_s,
    memory_bytes=SOFTWARE_LIMITS.memory_bytes,
)
"""Caps of one (arm, device) pair."""
GONE = frozenset({"timeout_call", "timeout_total", "worker_died"})
"""Endings after which a worker answers no more."""
TIERS = ("nominal", "adapted")
_MODEL = Arg(kind="kept", kept="model")


def contract(arm_name: str) -> PythonContract:
    """The four functions of `trim.py` with the arrays that travel; everything else stays in the worker."""
    nv, n_probes = ARMS[arm_name].nv, DEVICES.probe_chosen + 1
    pose, torque = ArraySpec("q", (nv,)), ArraySpec("ff", (nv,))
    sample = Arg(kind="dict", arrays=(ArraySpec("target", (nv,)), pose))
    bounds = tuple(Arg(arrays=(ArraySpec(name, (nv,)),)) for name in ("lower", "upper"))
    probes = Arg(
        kind="records",
        arrays=(ArraySpec("target", (n_probes, nv)), ArraySpec("q", (n_probes, nv))),
    )
    asked = Arg(arrays=(pose,))
    return PythonContract(
        folder=arm_name,
        entry="trim.py",
        functions=(
            Function(
                name="plan_probe",
                args=(_MODEL, sample, *bounds),
                returns=(ArraySpec("targets", (DEVICES.probe_chosen, nv)),),
            ),
            Function(name="adapt", args=(_MODEL, probes), keep="params"),
            Function(name="make_trim", args=(_MODEL,), keep="nominal"),
            Function(
                name="make_trim_adapted",
                args=(_MODEL, Arg(kind="kept", kept="params")),
                keep="adapted",
            ),
            *(
                Function(name=tier, target=f"kept:{tier}", args=(asked,), returns=(torque,))
                for tier in TIERS
            ),
        ),
        suffixes=(".py", ".xml", ".stl"),
        max_total_bytes=24 * TRIM_BYTES_MAX,
        modules=("numpy", "scipy", "mujoco"),
        compile_model=True,
    )


def checked(arm_name: str) -> Checked:
    """`trim.py` of an arm as a worker loads it."""
    return Checked(kind="python", contract=contract(arm_name), files=(f"{arm_name}/trim.py",))


class Caller(Protocol):
    """The part of a worker that is used here."""

    def call(self, name: str, *arrays: np.ndarray) -> tuple[np.ndarray, ...]: ...


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """What one (arm, device) pair's software answered. A tier that is absent is None."""

    nominal: dict[str, np.ndarray] | None = None
    """Feedforward by name of the asked matrix. Shape (n, nv), N m, not clipped."""
    adapted: dict[str, np.ndarray] | None = None
    faults: int = 0
    """Rows that raised or had a wrong shape or a non-finite number; zeros stand for them."""
    timed_out: bool = False
    notes: tuple[str, ...] = ()
    """What failed, in words that say nothing of a device."""
    probe_accepted: bool = False

    @property
    def best(self) -> dict[str, np.ndarray] | None:
        """Adapted if there is one, else nominal, else None."""
        return self.adapted if self.adapted is not None else self.nominal


ABSENT = Answers(notes=("no software",))
"""Where `trim.py` is missing or cannot be imported."""


def freeze(
    worker: Caller,
    arm: Arm,
    probe: Callable[[np.ndarray], np.ndarray],
    asked: Mapping[str, np.ndarray],
) -> Answers:
    """Runs the probe protocol and asks for every torque that will be needed.

    Args:
        worker: Holds `trim.py` and the nominal model.
        arm: The arm in question.
        probe: Poses (n, nv) to settled, noisy poses of the device at hand.
        asked: Matrices of poses, shape (n, nv) each.
    """
    notes: list[str] = []
    faults = 0
    adapted = accepted = False
    try:
        accepted, adapted = _adapt(worker, arm, probe, notes)
        made = {"nominal": _made(worker, "make_trim", "nominal", notes), "adapted": adapted}
        tables: dict[str, dict[str, np.ndarray] | None] = {}
        for tier in TIERS:
            tables[tier] = None
            if made[tier]:
                bad: list[str] = []
                tables[tier] = {k: _rows(worker, tier, poses, bad) for k, poses in asked.items()}
                faults += len(bad)
                if bad:
                    total = sum(len(poses) for poses in asked.values())
                    notes.append(
                        f"{tier} trim: zeros stand for {len(bad)} of {total} poses: {bad[0]}"
                    )
    except TrialFault as fault:
        if fault.ended not in GONE:
            raise
        said = f": {fault.detail}" if fault.detail else ""
        notes.append(f"software absent: {fault.ended}{said}")
        return Answers(timed_out=fault.ended != "worker_died", notes=tuple(notes))
    return Answers(
        nominal=tables["nominal"],
        adapted=tables["adapted"],
        faults=faults,
        notes=tuple(notes),
        probe_accepted=accepted,
    )


def _adapt(
    worker: Caller, arm: Arm, probe: Callable[[np.ndarray], np.ndarray], notes: list[str]
) -> tuple[bool, bool]:
    """(probes accepted, adapted trim made)."""
    lower, upper = probe_bounds(arm)
    home = np.array(arm.home_rad)
    settled = probe(home[None])[0]
    try:
        (targets,) = worker.call("plan_probe", home, settled, lower, upper)
    except TrialFault as fault:
        _note(fault, "plan_probe", notes)
        return False, False
    tol = DEVICES.probe_bound_tol_rad
    outside = np.argwhere((targets < lower - tol) | (targets > upper + tol))
    if len(outside):
        row, joint = outside[0]
        notes.append(
            f"plan_probe: entry [{row}, {joint}] = {targets[row, joint]:.9g} rad lies outside "
            f"[{lower[joint]:.9g}, {upper[joint]:.9g}]; no probes were made"
        )
        return False, False
    q = np.vstack([settled, probe(targets)])
    try:
        worker.call("adapt", np.vstack([home, targets]), q)
    except TrialFault as fault:
        _note(fault, "adapt", notes)
        return True, False
    return True, _made(worker, "make_trim_adapted", "adapted", notes)


def _made(worker: Caller, maker: str, tier: str, notes: list[str]) -> bool:
    try:
        worker.call(maker)
    except TrialFault as fault:
        _note(fault, maker, notes)
        return False
    return True


def _note(fault: TrialFault, function: str, notes: list[str]) -> None:
    """Keeps what failed; a worker that is gone ends the pair."""
    if fault.ended in GONE:
        raise fault
    notes.append(f"{function}: {fault.detail or fault.code}")


def _rows(worker: Caller, tier: str, poses: np.ndarray, bad: list[str]) -> np.ndarray:
    """Feedforward of every pose, zeros where it failed; `bad` gets the reason of every such pose."""
    table = np.zeros_like(poses)
    for row, pose in zip(table, poses, strict=True):
        try:
            (row[:],) = worker.call(tier, pose)
        except TrialFault as fault:
            if fault.ended in GONE:
                raise
            bad.append(fault.detail or fault.code)
    return table


# ---------------------------------------------------------------------------------------- trusted


class LocalTrim:
    """`trim.py` in this process, for development: same calls and same faults as a worker, no walls.

    Args:
        path: The file; it is trusted.
        model_xml: Nominal model of the arm in question.

    Raises:
        TrialFault: The file cannot be imported.
    """

    def __init__(self, path: Path, model_xml: str) -> None:
        self._functions = {f.name: f for f in contract(path.parent.name).functions}
        self._kept: dict[str, Any] = {"model": mujoco.MjModel.from_xml_string(model_xml)}
        try:
            with exits_raise():
                self._module = _import(path)
        except (Exception, SystemExit) as error:  # whatever its import raises is its own fault
            path_told = f"{path.parent.name}/{path.name}"
            raise _fault(
                "python.load", path=path_told, cls=type(error).__name__, line=line_of(error)
            ) from error

    def call(self, name: str, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """As `Worker.call`."""
        function = self._functions[name]
        target = function.target
        if target.startswith("kept:"):
            callee = self._kept.get(target.removeprefix("kept:"))
        else:
            callee = getattr(self._module, name, None)
        if not callable(callee):
            raise _fault("action.missing", name=name)
        queue = [np.array(a, dtype=float) for a in arrays]
        given = [self._argument(arg, queue) for arg in function.args]
        try:
            with exits_raise():
                value = callee(*given)
            if function.keep:
                self._kept[function.keep] = value
                return ()
            result = np.asarray(value, dtype=float)
        except (Exception, SystemExit) as error:  # whatever its code raises is its own fault
            cls, line = type(error).__name__, line_of(error)
            raise _fault("action.raised", cls=cls, line=line) from error
        shape = function.returns[0].shape
        if result.shape != shape:
            expected = f"{' x '.join(map(str, shape))} finite numbers"
            raise _fault("action.shape", expected=expected, got=result.shape)
        if not np.isfinite(result).all():
            raise nonfinite(function.returns[0].name, name, result)
        return (result,)

    def _argument(self, arg: Arg, queue: list[np.ndarray]) -> Any:
        if arg.kind == "kept":
            return self._kept[arg.kept]
        taken = {spec.name: queue.pop(0) for spec in arg.arrays}
        if arg.kind == "records":
            count = len(next(iter(taken.values())))
            return [{name: table[i] for name, table in taken.items()} for i in range(count)]
        return taken if arg.kind == "dict" else next(iter(taken.values()))


def _fault(code: str, **fields: object) -> TrialFault:
    """A fault in the words that the verifier has for it."""
    return TrialFault("bad_action", code, AGENT_MESSAGES[code].format(**fields))


def _import(path: Path) -> ModuleType:
    name = f"trim_{path.parent.name}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
