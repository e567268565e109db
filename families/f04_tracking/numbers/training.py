"""Training in numbers: rates, reward, start frames. Part of `spec.py`, which re-exports every name."""

from families.f04_tracking.numbers.robot import Frozen

TRAIN_TIMESTEP_S = 0.005
"""Physics step of the training environment. Source: card."""
TRAIN_SUBSTEPS = 4
"""Physics steps per control period. Source: card."""
TRAIN_EPISODE_S = 10.0
"""Length of a training episode. Source: card."""

GYM_ACTION_LIMIT = 10.0
"""Half-width of the Gymnasium action box, in raw actions. Source: ours: a sampled action should move the
robot without saturating every servo; scoring itself accepts `MAX_ACTION`."""


class RewardTerm(Frozen, frozen=True):
    """weight x exp(-error^2 / sigma^2)."""

    weight: float
    sigma: float


class TrainReward(Frozen, frozen=True):
    """Training reward per second, multiplied by the control period. Source: published."""

    anchor_pos: RewardTerm = RewardTerm(weight=0.5, sigma=0.3)
    """sigma in m."""
    anchor_ori: RewardTerm = RewardTerm(weight=0.5, sigma=0.4)
    """sigma in rad."""
    body_pos: RewardTerm = RewardTerm(weight=1.0, sigma=0.3)
    """sigma in m; body terms take the mean of squares over the tracked bodies."""
    body_ori: RewardTerm = RewardTerm(weight=1.0, sigma=0.4)
    """sigma in rad."""
    body_lin_vel: RewardTerm = RewardTerm(weight=1.0, sigma=1.0)
    """sigma in m/s."""
    body_ang_vel: RewardTerm = RewardTerm(weight=1.0, sigma=3.14)
    """sigma in rad/s."""
    action_rate_weight: float = -0.1
    """On |a_k - a_{k-1}|^2."""
    joint_limit_weight: float = -10.0
    """On the excess over `soft_limit_fraction` of the joint range, rad."""
    soft_limit_fraction: float = 0.9
    self_contact_weight: float = -0.1
    """On the number of bodies that are no end effector and feel a contact."""
    contact_force_n: float = 1.0
    """Force from which a contact counts."""


TRAIN_REWARD = TrainReward()


class StartSampling(Frozen, frozen=True):
    """Adaptive choice of the start frame of a training episode. Source: published."""

    bin_s: float = 1.0
    """Width of a bin of start frames."""
    ema_alpha: float = 0.001
    """Weight of a new failure count."""
    uniform_share: float = 0.1
    """Share of the uniform distribution in the mixture."""


START_SAMPLING = StartSampling()
