"""Section 3.4 of the card as a test: reach, weight, breakaway, locking, several parts."""

import mujoco
import numpy as np
import pytest

from families.f07_bin import scene, spec
from families.f07_bin.magnet import Magnet, breakaway
from tests.families.f07_bin.cells import OFF, ON, episode, grab, put, under_head
from train_baselines.oracles.f07_arm import Arm

DOWN = np.array((0.0, 0.0, -1.0))


def pull(e, newton: float, seconds: float = 1.0) -> None:
    """Pulls part 0 along the tool, ramped up over `seconds`."""
    body = e.cell.part_bodies[0]
    ticks = round(seconds * spec.CONTROL_HZ)
    for i in range(ticks):
        axis = e.data.xmat[e.cell.tool_body].reshape(3, 3)[:, 2]
        e.data.xfrc_applied[body, :3] = newton * (i + 1) / ticks * axis
        e.step(ON)


def test_breakaway_is_the_ellipse_of_pull_and_shear():
    assert breakaway(-0.99 * spec.MAG_PULL_N * DOWN, DOWN) == pytest.approx(0.99)
    assert breakaway(-1.01 * spec.MAG_PULL_N * DOWN, DOWN) == pytest.approx(1.01)
    assert breakaway(np.array((0.5 * spec.MAG_SHEAR_N, 0.0, 0.0)), DOWN) == pytest.approx(0.5)
    # Pressing onto the part (force along the tool) loads nothing.
    assert breakaway(500.0 * DOWN, DOWN) == 0.0
    both = breakaway(np.array((0.6 * spec.MAG_SHEAR_N, 0.0, 0.8 * spec.MAG_PULL_N)), DOWN)
    assert both == pytest.approx(1.0)


@pytest.mark.parametrize(("gap_m", "held"), [(0.0014, (0,)), (0.0016, ())])
def test_reach(gap_m, held):
    e = episode()
    under_head(e, gap_m)
    e.data.ctrl[:] = spec.ARM_HOME_RAD
    e._command[-1] = spec.MAG_ON_THRESHOLD
    e._substep()  # one physics step: the part has not fallen yet
    assert e.held == held


@pytest.mark.parametrize(("magnet", "is_on"), [(127.9, False), (128.0, True)])
def test_threshold_of_the_command(magnet, is_on):
    e = episode()
    under_head(e, 0.0005)
    e.step(np.append(spec.ARM_HOME_RAD, magnet))
    assert e.is_on == is_on and (e.held == (0,)) == is_on


def test_hanging_part_reads_its_weight_and_keeps_its_pose():
    e = episode()
    e.step(OFF)
    empty = e.data.sensordata[e.cell.ft_force][2]
    grab(e)
    mujoco.mj_kinematics(e.cell.model, e.data)

    def relative():
        tool = e.cell.tool_body
        inverse = e.data.xmat[tool].reshape(3, 3).T
        return inverse @ (e.data.xpos[e.cell.part_bodies[0]] - e.data.xpos[tool])

    before = relative()
    for _ in range(20):
        e.step(ON)
    assert relative() == pytest.approx(before, abs=3e-4)
    # 0.3089 kg x 9.81 m/s2 = 3.03 N; the tool hangs 50 mrad off plumb.
    assert abs(e.data.sensordata[e.cell.ft_force][2] - empty) == pytest.approx(3.03, abs=0.05)
    assert e.magnet_load[0] == pytest.approx(3.03 / spec.MAG_PULL_N, abs=0.005)


def test_140_newton_more_are_held_and_155_are_not():
    e = episode()
    grab(e)
    pull(e, 140.0)
    assert e.held == (0,) and 0.9 < e.magnet_load[0] < 1.0
    pull(e, 155.0)
    assert e.held == () and e.n_slips == 1
    assert [event.kind for event in e.events][:2] == ["grab", "slip"]


def test_force_of_the_tool_is_that_of_weld_and_tool_contacts(monkeypatch):
    """Read from the free joint; here summed up from the weld and MuJoCo's contact forces, part by part."""
    e = episode(3)
    arm = Arm(scene.model_xml(), np.array(spec.ARM_HOME_RAD))
    x, y = e.part_poses[0, :2]
    put(e, 1, (x + 0.045, y, e.part_poses[0, 2]))  # leans on the part that is taken
    e.data.qpos[: spec.N_JOINTS] = e.data.ctrl[:] = arm.solve(np.array((x, y, 0.13)))
    honest, seen = Magnet._forces_on_held, []

    def both(self, data, contacts, others):
        forces = honest(self, data, contacts, others)
        expected = np.zeros_like(forces)
        wrench, part_of = np.zeros(6), e.cell.part_of_geom
        for k, part in enumerate(self.held):
            expected[k] = -data.efc_force[6 * k : 6 * k + 3]
            for i in range(data.ncon):
                geoms = data.contact.geom[i]
                tool = e.cell.model.geom_bodyid[geoms] == e.cell.tool_body
                if data.contact.efc_address[i] >= 0 and tool.any() and part in part_of[geoms]:
                    mujoco.mj_contactForce(e.cell.model, data, i, wrench)
                    on_second = data.contact.frame[i].reshape(3, 3).T @ wrench[:3]
                    expected[k] += on_second if tool[0] else -on_second
        assert forces == pytest.approx(expected, abs=1e-8)
        seen.append((np.abs(forces).max(), len(others)))
        return forces

    monkeypatch.setattr(Magnet, "_forces_on_held", both)
    for z in (0.115, 0.112, 0.14):
        for _ in range(8):
            e.step(np.append(arm.solve(np.array((x, y, z))), 255.0))
    assert max(n for _, n in seen) > 0, "it touches the bottom and its neighbour"
    assert max(force for force, _ in seen) > 2 * spec.PART_WEIGHT_N
    seen.clear()
    e = episode()
    grab(e)
    e.step(ON)
    assert seen and all(n == 0 for _, n in seen), "it hangs free"


@pytest.mark.parametrize(("steps", "held"), [(124, ()), (126, (0,))])
def test_slipped_part_is_locked_for_a_quarter_second(steps, held):
    e = episode()
    grab(e)
    pull(e, 170.0)
    assert e.n_slips == 1
    e.data.xfrc_applied[:] = 0.0
    # Since the slip: run the magnet's clock on with the part away, then touch again.
    slipped_at = e._magnet._locked_until[0] - round(spec.MAG_REATTACH_S / spec.TIMESTEP_S)
    assert pytest.approx(125 * spec.TIMESTEP_S) == spec.MAG_REATTACH_S
    e._magnet._step = slipped_at + steps - 1
    under_head(e, 0.0005)
    e._substep()
    assert e.held == held


def test_the_lock_runs_out_while_the_magnet_is_off():
    e = episode()
    grab(e)
    pull(e, 170.0)
    assert e.n_slips == 1
    e.data.xfrc_applied[:] = 0.0
    for _ in range(6):  # 0.3 s
        e.step(OFF)
    grab(e)


def test_two_parts_in_one_grab_and_off_releases_both():
    e = episode(2)
    under_head(e, 0.0005, 0, offset_m=(0.0365, 0.0))
    under_head(e, 0.0005, 1, offset_m=(-0.0365, 0.0))
    e.step(ON)
    assert e.held == (0, 1)
    for _ in range(10):
        e.step(ON)
    assert e.held == (0, 1) and (e.magnet_load < 0.1).all()
    e.step(OFF)
    assert e.held == ()
    assert [event.kind for event in e.events][-2:] == ["release", "release"]


def test_toggling_does_not_dodge_the_breakaway():
    e = episode()
    grab(e)
    body = e.cell.part_bodies[0]
    for i in range(12):
        axis = e.data.xmat[e.cell.tool_body].reshape(3, 3)[:, 2]
        e.data.xfrc_applied[body, :3] = 200.0 * axis
        e.step(OFF if i % 2 == 0 else ON)
    assert e.n_slips >= 1 or e.held == ()
    assert e.held == ()
