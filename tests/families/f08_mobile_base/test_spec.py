"""The instruction says what is scored, with the numbers of the spec."""

import re

from families.f08_mobile_base import spec
from rle.paths import assets_dir
from train_baselines.oracles.f08_oracle import agent_files

TEXT = spec.INSTRUCTION


def test_both_loads_and_the_extended_arm_are_told():
    assert "fully extended" in TEXT and "load of 2 kg" in TEXT
    assert "1 kg (required) and 2 kg (margin)" in TEXT and "between 1 and 2 kg" in TEXT


def test_numbers_of_the_instruction_are_those_of_the_spec():
    told = set(re.findall(r"\d+(?:\.\d+)?", TEXT))
    for value in (
        f"{spec.WHEEL_RADIUS_M:g}", f"{spec.WHEEL_MASS_KG:g}", f"{spec.ADAPTER_MASS_KG:g}",
        f"{spec.FOOTPRINT_LIMIT_M:g}", f"{spec.MASS_LIMIT_KG:g}", f"{spec.LENGTH_LIMIT_M:g}",
        f"{spec.BASE_MASS_REFERENCE_KG:g}", f"{spec.DESIGN_EFFICIENCY_BEST:g}",
        f"{1000 * spec.SSM_FULL_M:g}", f"{1000 * spec.SSM_ZERO_M:g}", f"{sum(spec.FASM_BE):g}",
        f"{spec.FASM_C:g}", f"{spec.FASM_D1:g}", f"{spec.TRACKING_LIMIT:g}", f"{spec.D2_TRACKING_LIMIT:g}", f"{spec.LIFT_OFF_S:g}",
        f"{spec.SUPPORT_WINDOW_S:g}", f"{spec.SHELF_TOLERANCE_M:g}", f"{spec.AXLE_INSET_M:g}",
        f"{spec.MAX_MEMBERS}", f"{1000 * spec.BRACKET_REACH_M:g}", f"{spec.GATE_CAP:g}",
        f"{1000 * spec.BUMP_PROUD_M:g}", f"{1000 * spec.CURB_SIZE_M[2]:g}",
        *(f"{s.kg_per_m:g}" for s in spec.CATALOGUE),
    ):  # fmt: skip
        assert value in told or f"{float(value):.2f}" in told, value
    assert f"{spec.FOOTPRINT_LIMIT_M**2:.4f}" in told


def test_derived_numbers():
    assert spec.IMMUTABLE_BASE_KG == 17.36 or abs(spec.IMMUTABLE_BASE_KG - 17.36) < 1e-12
    assert abs(spec.WHEEL_RADIUS_M - 0.076) < 1e-12
    assert spec.TASKS[0].pass_mark > spec.TASKS[0].floor


def test_files_for_agents_are_what_the_code_composes():
    for name, text in agent_files().items():
        assert (assets_dir() / "f08" / name).read_text() == text, name


def test_files_for_agents_hold_no_submission():
    root = assets_dir().parent
    given = {p for pattern in spec.AGENT_FILES for p in root.glob(pattern)}
    assert any(p.name == "preview_scene.xml" for p in given)
    assert not [p for p in given if "oracles" in p.parts or "verifier" in p.parts]
