"""Holds, pushes and probes: equilibria in closed form, determinism, and physics that fails loudly."""

import mujoco
import numpy as np
import pytest

from families.f09_gello import scene, task
from families.f09_gello.dev import design_streams
from families.f09_gello.devices.draws import draw
from families.f09_gello.mechanism.record import Record, Spring
from families.f09_gello.spec import ARM_NAMES, ARMS, DEVICES, PHYSICS, PROTOCOL, SERVO
from rle.errors import SimulationError


def balanced() -> tuple[object, np.ndarray]:
    """A ur5e whose residual at home is within the servos, and that pose."""
    q = np.array(ARMS["ur5e"].home_rad)
    torque = task.gravity_torque(scene.stock_device("ur5e").model, q[None])[0]
    springs = tuple(Spring(j + 1, 0.6, q[j] + torque[j] / 0.6) for j in (1, 2))
    return scene.compose(Record("ur5e", springs=springs)).model, q


def test_exact_feedforward_holds_still():
    model, q = balanced()
    ff = task.residual(model, q[None])[0]
    trace = task.servo_run(model, q, ff, PROTOCOL.hold_s, is_recorded=True)
    assert trace.final_m < 1e-6 and trace.peak_m < 1e-6


def test_at_rest_the_servo_carries_the_residual_up_to_friction():
    # kp (target - q) = tau_a(q) +- frictionloss once nothing moves.
    model, q = balanced()
    model.dof_frictionloss[:] = 0.0
    trace = task.servo_run(model, q + 0.05, np.zeros(model.nv), 6.0)
    carried = SERVO.kp_n_m_per_rad * (q + 0.05 - trace.q)
    assert np.abs(trace.qd).max() < 1e-6
    assert carried == pytest.approx(task.residual(model, trace.q[None])[0], abs=1e-5)


def test_stock_arm_falls_and_the_feedforward_is_clipped():
    model = scene.stock_device("franka").model
    q = np.array(ARMS["franka"].home_rad)
    assert task.simulate_hold(model, q, np.zeros(7)) > 0.1
    big, most = np.full(7, 5.0), np.full(7, SERVO.limit_n_m)
    assert task.simulate_hold(model, q, big) == task.simulate_hold(model, q, most)


def test_push_moves_the_handle_and_lets_it_come_back():
    model, q = balanced()
    ff = task.residual(model, q[None])[0]
    peak, final = task.simulate_push(model, q, ff)
    assert peak > 0.005 and final < peak
    trace = task.servo_run(model, q, ff, PROTOCOL.push_s, PROTOCOL.push_n, is_recorded=True)
    before = round(PROTOCOL.push_from_s / PHYSICS.timestep_s)
    assert trace.displacement_m[: before - 1].max() < 1e-6, "nothing moves before the push"
    assert trace.poses.shape == (round(PROTOCOL.push_s / PHYSICS.timestep_s), 6)
    assert (trace.peak_m, trace.final_m) == (peak, final)


def test_probe_noise_is_on_the_reading_alone():
    model, q = balanced()
    quiet = np.array([task.servo_run(model, q, np.zeros(6), DEVICES.probe_settle_s).q] * 400)
    noise = task.run_probe(model, q[None], np.random.default_rng(5)) - quiet[:1]
    assert 0 < np.abs(noise).max() < 6 * DEVICES.probe_noise_rad
    again = task.run_probe(model, q[None], np.random.default_rng(5)) - quiet[:1]
    assert (noise == again).all()


def test_broken_physics_is_an_error_not_a_number():
    model, q = balanced()
    with pytest.raises(SimulationError):
        task.servo_run(model, q * np.nan, np.zeros(6), 0.1)


@pytest.mark.parametrize("arm", ARM_NAMES)
def test_reference_holds_are_within_reach_of_the_servos(arm):
    draws = draw(arm, design_streams(arm, 101))
    assert draws.reference_holds.shape == (PROTOCOL.hold_poses, ARMS[arm].nv)
    for scale, payload in draws.reference_copies:
        model = task.compose(draws.reference, payload, scale)
        limit = PROTOCOL.reference_hold_share * SERVO.limit_n_m
        assert np.abs(task.residual(model, draws.reference_holds)).max() <= limit


def test_draws_of_two_arms_and_two_seeds_differ_and_repeat():
    a, b = (draw("ur5e", design_streams("ur5e", 101)) for _ in range(2))
    assert a.copies == b.copies and (a.holds == b.holds).all()
    other = draw("ur5e", design_streams("ur5e", 102))
    assert a.copies != other.copies and not (a.holds == other.holds).all()
    assert a.copies[0][1] != a.reference_copies[0][1], "own and reference copies share no stream"


def test_a_solver_that_gives_up_is_a_named_error(monkeypatch):
    """MuJoCo's fatal error in a step ends the run as any divergence does; it is not our crash."""
    model, q = balanced()

    def gives_up(_model, _data):
        raise mujoco.FatalError("FactorizeHessian: rank-deficient")

    monkeypatch.setattr(mujoco, "mj_step", gives_up)
    with pytest.raises(SimulationError, match=r"servo run at 0\.000 s: FactorizeHessian"):
        task.servo_run(model, q, np.zeros(6), 0.1)
