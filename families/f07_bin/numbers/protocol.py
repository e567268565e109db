"""Events, protocol, score and budgets of f07. Part of `spec.py`, which re-exports every name.

Sources: "published" is a number of the published benchmark task, "card" one that the family's card sets,
"ours" a choice of this project with its reason, "measured" a result of this scene on the pinned MuJoCo.
"""

from families.f07_bin.numbers.cell import CONTROL_HZ, Vec3

# ----------------------------------------------------------------------------- forces and events

FORCE_WINDOW_SUBSTEPS = 5
"""Physics steps over which every judged force is averaged, so that one-step solver peaks do not count.
Source: ours."""
DAMAGE_FORCE_N = 700.0
"""Force that bends a flange: sigma_y t^2 / 6 x (effective width / arm = 1) = 170 MPa x 25 mm2 / 6 =
708 N for a local load at its edge (deep-drawing steel). Source: ours."""
BIN_HIT_FORCE_N = 700.0
"""Force of robot and held parts on the bin that counts as a hit; about a 0.75 m/s slam. Source: published
value."""
BIN_HIT_REARM_S = 0.25
"""A hit is over when the force has stayed below its limit for this time. Source: ours."""
CLEAR_SPEED_M_S, CLEAR_REST_S = 0.02, 0.5
"""A part is cleared after resting slower than this in the nest for this time. Source: published."""
CLEAR_TICKS = round(CLEAR_REST_S * CONTROL_HZ)
CLEARED_POS_M: Vec3 = (2.0, -3.0, 0.5)
CLEARED_PITCH_M = 0.3
"""Where cleared part k waits, weightless and without contact: CLEARED_POS_M + (0.3 k, 0, 0). Source: card."""

# ------------------------------------------------------------------------------ protocol and score

N_HIDDEN = 8
"""Scored piles. Source: card."""
QUICK_S = 40.0
"""Length of the one pile that `--profile quick` plays instead; it is no result. Source: ours."""
SMOKE_S = 20.0
"""Length of the smoke pile, run twice. Source: published."""
QUICK_TICKS = round(QUICK_S * CONTROL_HZ)
SMOKE_TICKS = round(SMOKE_S * CONTROL_HZ)
SMOKE_FAULT_SHARE = 0.10
"""Largest share of faulty ticks in the smoke pile. Source: published."""
SMOKE_CAP = 0.1
"""Largest reward when a gate other than `load` is false. Source: card."""
ACT_CAP_S, RESET_CAP_S = 30.0, 120.0
"""Longest charged time of one act and of reset. Source: card; reset: published."""
POLICY_TOTAL_S = 360.0
"""Charged time of reset and act in one pile. Source: card."""
LOAD_CAP_S = 60.0
"""Import and `make_policy`. Source: card."""
DIGEST_ROUND = 9
"""Decimals of qpos in the determinism digest. Source: card."""

WEIGHT_CLEAN, WEIGHT_CLEARED, WEIGHT_RATE, WEIGHT_CLEAN_RATE = 0.30, 0.35, 0.20, 0.15
"""Weights of I, h, min(p/10, 1) and I min(p/15, 1). Source: card."""
RATE_FULL_PPM, CLEAN_RATE_FULL_PPM = 10.0, 15.0
"""Parts per minute that earn the rate terms in full. Source: card."""
DEDUCT_FLOOR, DEDUCT_DAMAGE, DEDUCT_BIN = 0.03, 0.05, 0.05
"""Deduction per event. Source: card."""
H_KNEE, H_AT_KNEE = 0.6, 0.1
"""Credit for partial clearing: linear to 0.1 at 60 % cleared, then cubic to 1. Source: card."""

AGENT_WALL_S, VERIFY_WALL_S = 14_400, 10_800
"""Source: card."""
MAX_FILES, MAX_TOTAL_BYTES = 64, 32 * 2**20
"""Files of a submission. Source: card."""
