"""What an agent is told: every rule of measurement and score is in the instruction, every entry in the manual."""

import math
import subprocess
import sys

import pytest

from families.f03_tabletop import spec as s
from rle.service.manual import manual

STACKING = (
    f"{s.BUDGET_STEPS:,} control steps",
    f"{s.WALL_S:,} s of wall time",
    "`reset()` costs 1 step and puts the same scene back",
    f"runs {s.SETTLE_MIN_S:g} s, then on in {s.QUIET_WINDOW_S:g} s pieces up to {s.SETTLE_MAX_S:g} s",
    f"slower than {s.QUIET_LIN_M_S:g} m/s and {s.QUIET_ANG_RAD_S:g} rad/s",
    f"held {s.HOLD_S:g} s more, read again; the lower reading counts",
    "still moves, or touches the robot at either reading, is excluded and supports nothing",
    f"reaches about {s.TOP_DOWN_REACH_M:g} m for top-down grasps",
)
RULES = {
    "tower": (
        *STACKING,
        *(p.name for p in s.PIECES),
        "connected to the table through contacts of pieces that are not excluded",
        f"from {s.SCALE_RANGE[0]:g} to {s.SCALE_RANGE[1]:g}",
        "clip(h / H, 0, 1)",
        "plus the best cap",
        f"nominally {s.OPTIMUM_NOMINAL_M:g} m",
    ),
    "cantilever": (
        *STACKING,
        f"whose lowest point is above z {s.LOWEST_SUPPORTED_Z_M:g} m",
        "end-face centre past one of the four table edges, along that edge's outward normal",
        f"{s.BLOCK_MASS_KG:g} kg",
        f"= {s.CANTILEVER_OPT_M:.6f} m",
        "clip(o / o_opt, 0, 1)",
    ),
    "balance": (
        *STACKING,
        "when the beam is released, or when the contents change while it is released",
        "not both empty and differ from the last counted pair",
        "Loading under lock is free",
        "Unequal counts are weighings too",
        "Release is refused while the robot touches the balance or a cube on it",
        f"level over {s.BEAM.lock_steps} steps",
        "steps, weighings and the last counted pair stay",
        f"within {s.MAT.reach_m:g} m of the mat's centre in x and in y",
        f"within {s.MAT.gap_m:g} m of its top",
        f"1 with at most {s.WEIGHINGS_FREE} weighings, {s.WEIGHINGS_FREE}/w with w more",
        f"one {s.HEAVY_FACTOR:g} times that",
        f"{1000 * s.POSITION_NOISE_M:g} mm noise",
    ),
    "pocket-cube": (
        f"{s.BUDGET_STEPS:,} control steps",
        f"{s.WALL_S:,} s of wall time",
        "`reset()` gives the attempt up: score 0",
        f"below z {s.TURNS.rescue_z_m:g} m and slower than {s.TURNS.rescue_m_s:g} m/s",
        "last legal aligned state seen at or above that height",
        "counted turns stay",
        f"read {1 / (s.TIMESTEP_S * s.TURNS.check_every):g} times a second",
        f"within {math.degrees(s.TURNS.align_rad):g} degrees",
        f"only above {math.degrees(s.TURNS.lose_rad):g} degrees",
        "nothing changed counts 0, one face by 90 degrees 1, by 180 degrees 2, anything else 1",
        f"the core above z {s.TURNS.solved_z_m:g} m and slower than {s.TURNS.solved_lin_m_s:g} m/s",
        f"{s.TURNS.solved_ang_rad_s:g} rad/s, for {s.TURNS.solved_steps} control steps",
        "That ends the attempt",
        "2^(-max(0, q/q* - 1))",
        "min(g, 0.5) if any transition was unclassified",
        f"at least {1000 * s.LIFT_M:g} mm before turning about x",
    ),
    "hidden-com": (
        f"For each box {s.HIDDEN_COM_STEPS:,} control steps",
        f"{s.HIDDEN_COM_WALL_S:,} s of wall time in all",
        "for good and opens the next; it costs nothing and tells nothing",
        "A box never answered is wrong",
        "A (-x, +y), B (+x, +y), C (-x, -y), D (+x, -y)",
        f"correct answers / {s.BOXES}",
    ),
}


@pytest.mark.parametrize("slug", s.SLUGS)
def test_the_instruction_states_every_rule(slug):
    missing = [rule for rule in RULES[slug] if rule not in s.INSTRUCTIONS[slug]]
    assert missing == []


@pytest.mark.parametrize("slug", s.SLUGS)
def test_session_and_task_have_one_budget(slug):
    session, task = s.SESSIONS[f"f03/{slug}"], next(t for t in s.TASKS if t.slug == slug)
    (phase,) = session.phases
    assert (phase.name, phase.kind, phase.trials) == ("attempt", "attempt", task.n_trials)
    assert (phase.steps, phase.seconds) == (task.budget.sim_steps, task.budget.agent_wall_s)
    is_hidden = slug == "hidden-com"
    assert phase.trial_steps == (s.HIDDEN_COM_STEPS if is_hidden else None)
    assert phase.can_finish is not is_hidden
    resets = {"pocket-cube": ("forfeit", 0), "hidden-com": ("none", 0)}
    assert (phase.reset, phase.reset_cost) == resets.get(slug, ("same", 1))
    assert session.has_move is (slug in ("tower", "cantilever", "balance"))
    assert session.depth_cameras == (("front",) if slug == "pocket-cube" else ())
    assert session.default_px == s.IMAGE_PX


def test_a_sealed_box_is_watched_by_cameras_alone():
    """No force, torque, contact, mass or pose of the box: the arm's own state and pictures."""
    seen = {key.name for key in s.SESSIONS["f03/hidden-com"].observation}
    assert seen == {"joint_pos", "joint_vel", "eef_pos", "eef_quat", "gripper_pos"}
    assert s.SESSIONS["f03/hidden-com"].all_events == ()


@pytest.mark.parametrize("slug", s.SLUGS)
def test_the_manual_lists_every_entry_of_observation_and_reply(slug):
    session = s.SESSIONS[f"f03/{slug}"]
    page = manual(session)
    for entry in (*session.observation, *session.all_events):
        assert f"| `{entry.name}` |" in page and entry.help in page
    layout = [(p.start, p.stop) for p in session.action_layout]
    assert [start for start, _ in layout] == [0, *(stop for _, stop in layout[:-1])]
    assert layout[-1][1] == session.action_dim


def test_noise_is_told_where_it_is():
    told = {key.name: key.help for key in s.SESSIONS["f03/balance"].observation}
    for name in ("cube_positions", "pan_positions"):
        assert f"noise sigma {s.POSITION_NOISE_M:g} m" in told[name]
    assert f"noise sigma {s.JOINT_NOISE_RAD:g} rad" in told["joint_pos"]
    noisy = [slug for slug in s.SLUGS if "noise" in manual(s.SESSIONS[f"f03/{slug}"])]
    assert noisy == ["balance"]


def test_a_lift_clears_the_posts_by_the_sweep_of_a_corner():
    # Corners of a half sweep sqrt(2) x 32 mm = 45.25 mm; posts end 32 mm below the cube's centre: 13.25 mm, 14 whole.
    assert pytest.approx(0.014) == s.LIFT_M
    assert pytest.approx(0.0133, abs=1e-4) == math.sqrt(2.0) * 0.032 - (1.04 - 1.008)


def test_instances_are_drawn_without_a_simulator():
    code = (
        "import sys; from families.f03_tabletop import instances, metrics, verify\n"
        "assert not {'mujoco', 'robosuite', 'torch'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
