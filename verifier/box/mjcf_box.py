"""Compiles canonical MJCF and checks the numbers of the model that came out."""

import re
from collections.abc import Sequence

import mujoco
import numpy as np

from .roles import quoted
from .wire import Fault

EMPTY = ("nplugin", "nmocap", "nkey", "neq", "nexclude", "npair", "ntendon", "nflex", "nhfield")
"""Counts that must be zero in a compiled submission."""
INERTIA_TOLERANCE = 0.01
"""Relative difference of a declared mass, and of inertia, from geometry x density."""
CENTRE_TOLERANCE_M = 0.01
"""Difference of a declared centre of mass from that of the geometry."""


def compile_model(text: str, assets: dict[str, bytes], lines: Sequence[int] = ()) -> mujoco.MjModel:
    """Compiles from text and an asset dictionary alone.

    Args:
        text: Canonical MJCF.
        assets: Meshes by name.
        lines: For every line of the text, the line of the submitted file that it comes from.

    Raises:
        Fault: `mjcf.compile` with what the compiler said; its line is that of the submitted file.
    """
    try:
        return mujoco.MjModel.from_xml_string(text, assets)
    except (ValueError, mujoco.FatalError) as error:
        raise Fault("mjcf.compile", fact=_said(error, lines)) from None


def _said(error: Exception, lines: Sequence[int] = ()) -> str:
    """What the compiler said, on one line, with lines of the submitted file."""

    def submitted(match: re.Match) -> str:
        line = int(match[1])
        return f"line {lines[line - 1] if 0 < line <= len(lines) else line}"

    said = "; ".join(str(error).strip().splitlines()) or "unknown error"
    return quoted(re.sub(r"\bline (\d+)", submitted, said), 160)


def check_model(
    text: str, assets: dict[str, bytes], contract: dict, lines: Sequence[int] = ()
) -> dict:
    """Model stage: everything finite, nothing hidden, inertia that the geometry explains.

    Returns:
        `n_bodies`, `n_geoms`, `n_joints`, `mass_kg`.

    Raises:
        Fault: `mjcf.compile`, `mjcf.finite`, `mjcf.hidden` or `mjcf.inertia`.
    """
    model = compile_model(text, assets, lines)
    for name in dir(model):
        if name.startswith("_"):
            continue
        value = getattr(model, name)
        numeric = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        if numeric and not np.isfinite(value).all():
            raise Fault("mjcf.finite", name=name)
    for name in EMPTY:
        if getattr(model, name, 0):
            raise Fault("mjcf.hidden", name=name, n=int(getattr(model, name)))
    if model.body_gravcomp.any():
        raise Fault("mjcf.hidden", name="gravcomp", n=int(np.count_nonzero(model.body_gravcomp)))
    if contract["geometry_inertia"] and "<inertial" in text:
        _check_inertia(model, text, assets)
    return {
        "n_bodies": model.nbody - 1,
        "n_geoms": model.ngeom,
        "n_joints": model.njnt,
        "mass_kg": float(model.body_mass.sum()),
    }


def _check_inertia(model: mujoco.MjModel, text: str, assets: dict[str, bytes]) -> None:
    """Compares every body with the same tree compiled from its geometry alone."""
    spec = mujoco.MjSpec.from_string(text, assets=assets)
    spec.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
    try:
        from_geometry = spec.compile()
    except (ValueError, mujoco.FatalError) as error:
        raise Fault("mjcf.compile", fact=_said(error)) from None
    for body in range(1, model.nbody):
        declared, derived = model.body_mass[body], from_geometry.body_mass[body]
        inertia = np.sort(model.body_inertia[body]), np.sort(from_geometry.body_inertia[body])
        agrees = (
            abs(declared - derived) <= INERTIA_TOLERANCE * derived
            and np.abs(inertia[0] - inertia[1]).max() <= INERTIA_TOLERANCE * inertia[1].max()
            and np.linalg.norm(model.body_ipos[body] - from_geometry.body_ipos[body])
            <= CENTRE_TOLERANCE_M
        )
        if not agrees:
            name = model.body(body).name or f"body {body}"
            raise Fault(
                "mjcf.inertia",
                body=quoted(name, 64),
                declared=f"{declared:.4g}",
                derived=f"{derived:.4g}",
            )


class CompileRole:
    """Compiles what LOAD brings: `{"fields": {"text": ..., "assets": {...}}, "contract": ...}`."""

    def load(self, fields: dict) -> dict:
        given = fields["fields"]
        return check_model(given["text"], given.get("assets") or {}, fields["contract"])

    def reset(self, fields: dict) -> None:
        raise Fault("ipc.frame")

    def act(self, payload: memoryview) -> bytes:
        raise Fault("ipc.frame")


def build(config: dict) -> CompileRole:
    return CompileRole()
