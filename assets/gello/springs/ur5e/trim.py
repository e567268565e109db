"""Feedforward of the f09 oracle: nominal from the model; adapted by ridge regression on sixteen probes.

The gravity torque is linear in the masses: g(q) = sum_b s_b y_b(q) + m_p y_p(q), with s_b the mass factor of body b
and m_p the payload. A probe settles where the servo carries what is left, so 8 (target - q) measures
g(q) + springs up to friction and reading noise. The prior of the ridge is what the card says of s_b and m_p.

This file is the `trim.py` of each arm of the submission; it imports nothing but numpy and mujoco.
"""

import copy

import mujoco
import numpy as np

SERVO_KP = 8.0  # N m / rad
SERVO_LIMIT = 0.35  # N m
GRAVITY = 9.81  # m / s^2
SCALE_SD = 0.05 / np.sqrt(3.0)  # uniform +- 5 %
PAYLOAD_SD = 0.056 / np.sqrt(12.0)  # kg, uniform over the payload range
READING_SD = SERVO_KP * 0.005  # N m, from the noise of a joint reading
FRICTION_SD = 0.03 / np.sqrt(3.0)  # N m, dry friction of unknown sign
USABLE = 0.9 * SERVO_LIMIT  # N m; beyond it the servo may have been saturated
CANDIDATES = 400
PROBES = 15


def spring(model, q):
    """k (q - springref), N m."""
    stiffness = model.jnt_stiffness.reshape(model.njnt, -1)[:, 0]
    return stiffness * (q - model.qpos_spring)


def regressor(model, q):
    """Columns: gravity torque of each body as drawn; last: of one kg of payload. Shape (nv, n + 1)."""
    data = mujoco.MjData(model)
    data.qpos[:] = q
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    payload = model.body("payload").id
    jacobian = np.zeros((3, model.nv))
    columns = []
    for body in range(1, model.nbody):
        if body == payload:
            continue
        mujoco.mj_jacBodyCom(model, data, jacobian, None, body)
        columns.append(model.body_mass[body] * GRAVITY * jacobian[2])
    mujoco.mj_jacBodyCom(model, data, jacobian, None, payload)
    columns.append(GRAVITY * jacobian[2])
    return np.array(columns).T


def prior(model):
    """Mean and precision of (s_b - 1 ..., m_p - nominal)."""
    n = model.nbody - 2
    precision = np.full(n + 1, SCALE_SD**-2.0)
    precision[-1] = PAYLOAD_SD**-2.0
    return np.diag(precision)


def weights(residual):
    """1 / variance of each joint's torque reading; 0 where the servo may be saturated."""
    return np.where(np.abs(residual) < USABLE, 1.0 / (READING_SD**2 + FRICTION_SD**2), 0.0)


def plan_probe(model, sample, lower, upper):
    """Fifteen poses, each the one that adds most to log det of the information, greedily."""
    rng = np.random.default_rng(20)
    poses = lower + (upper - lower) * rng.uniform(size=(CANDIDATES, model.nv))
    nominal = np.append(np.ones(model.nbody - 2), model.body_mass[model.body("payload").id])
    gains = []
    for q in poses:
        y = regressor(model, q)
        w = weights(y @ nominal + spring(model, q))
        gains.append(y.T @ (w[:, None] * y))
    information, chosen = prior(model), []
    for _ in range(PROBES):
        values = [np.linalg.slogdet(information + gain)[1] for gain in gains]
        best = int(np.argmax(values))
        information = information + gains[best]
        chosen.append(best)
        gains[best] = np.zeros_like(gains[best])
    return poses[chosen]


def adapt(model, probes):
    """Mass factors of the bodies and the payload (kg) that explain the probes best."""
    payload = model.body_mass[model.body("payload").id]
    nominal = np.append(np.ones(model.nbody - 2), payload)
    information, right = prior(model), np.zeros(len(nominal))
    for probe in probes:
        q = np.asarray(probe["q"])
        y = regressor(model, q)
        measured = SERVO_KP * (np.asarray(probe["target"]) - q)
        w = weights(measured)
        error = measured - spring(model, q) - y @ nominal
        information = information + y.T @ (w[:, None] * y)
        right = right + y.T @ (w * error)
    return nominal + np.linalg.solve(information, right)


def feedforward(model, factors):
    """q -> g(q) + k (q - springref) of a model whose masses are scaled."""
    scaled = copy.copy(model)
    payload = model.body("payload").id
    others = [b for b in range(1, model.nbody) if b != payload]
    scaled.body_mass[others] = model.body_mass[others] * factors[:-1]
    scaled.body_mass[payload] = factors[-1]
    data = mujoco.MjData(scaled)

    def trim(q):
        data.qpos[:] = q
        mujoco.mj_kinematics(scaled, data)
        mujoco.mj_comPos(scaled, data)
        torque = np.zeros(scaled.nv)
        mujoco.mj_rne(scaled, data, 0, torque)
        return torque + spring(scaled, np.asarray(q))

    return trim


def make_trim(model):
    """Feedforward of the device as drawn."""
    return feedforward(
        model, np.append(np.ones(model.nbody - 2), model.body_mass[model.body("payload").id])
    )


def make_trim_adapted(model, params):
    """Feedforward of the device as probed."""
    return feedforward(model, params)
