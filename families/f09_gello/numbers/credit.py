"""Checkpoints, their marks and weights, and the validity deductions."""

import msgspec


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """x that earns 0, 0.6 and 1."""

    zero: float
    bar: float
    best: float


BAR_CREDIT = 0.6
"""Credit at the bar. Source: card."""
HEADROOM_BACKDRIVE_CREDIT = BAR_CREDIT
"""Backdrive credit from which headroom is paid in full. Source: card."""
CHECKPOINTS = ("C1", "H1", "H2", "H3", "S2a", "S2b", "B1", "B2", "B3", "B4")
"""Ids of the ten checkpoints."""
OWN_CHECKPOINTS = tuple(c for c in CHECKPOINTS if not c.startswith("S"))
"""Checkpoints that are measured on the submitted arm; the others on the reference arm."""
CHECKPOINT_WEIGHT = 0.10
"""Weight of each. Source: card."""
VALIDITY_WEIGHTS: dict[str, float] = {
    "load": 0.010, "structure": 0.020, "printability": 0.020, "settle": 0.020,
    "budget": 0.010, "springs_legal": 0.010, "buildable": 0.010,
}  # fmt: skip
"""Deduction of each validity item at full shortfall; 0.10 in all. Source: card."""
_UNITS = {
    "H1": "N m", "H2": "m", "H3": "N m", "S2a": "m", "S2b": "N m",
    "B1": "m", "B2": "N m", "B3": "N m", "B4": "m",
}  # fmt: skip
UNITS: dict[str, str] = {"C1": "share", **_UNITS}
"""Unit of each checkpoint's x."""


def _marks(rows: dict[str, tuple[float, float, float]]) -> dict[str, Marks]:
    return {key: Marks(zero=z, bar=b, best=t) for key, (z, b, t) in rows.items()}


MARKS: dict[str, dict[str, Marks]] = {
    "franka": _marks({
        "H1": (1.06, 0.20, 0.11), "H2": (0.80, 0.012, 0.006), "H3": (0.89, 0.18, 0.12),
        "S2a": (0.10, 0.004, 0.001), "S2b": (0.30, 0.080, 0.055), "B1": (0.020, 0.004, 0.001),
        "B2": (0.25, 0.080, 0.045), "B3": (0.0, 0.19, 0.26), "B4": (0.15, 0.020, 0.010),
    }),
    "ur5e": _marks({
        "H1": (1.07, 0.13, 0.09), "H2": (0.58, 0.006, 0.004), "H3": (0.76, 0.15, 0.10),
        "S2a": (0.02, 0.004, 0.001), "S2b": (0.25, 0.070, 0.040), "B1": (0.008, 0.002, 0.0005),
        "B2": (0.16, 0.075, 0.045), "B3": (0.0, 0.20, 0.26), "B4": (0.10, 0.007, 0.0045),
    }),
    "xarm7": _marks({
        "H1": (0.93, 0.16, 0.10), "H2": (0.69, 0.008, 0.004), "H3": (0.67, 0.14, 0.095),
        "S2a": (0.016, 0.0025, 0.0007), "S2b": (0.25, 0.070, 0.042), "B1": (0.016, 0.003, 0.0006),
        "B2": (0.20, 0.080, 0.045), "B3": (0.0, 0.20, 0.27), "B4": (0.10, 0.006, 0.0045),
    }),
}  # fmt: skip
"""(zero, bar, best) of each checkpoint and arm, in `UNITS`. Source: measured, three devices per design."""
