"""What a robot of f04 can tell of itself from noisy observation frames, as a graph without trained numbers.

A network that is given raw frames spends its samples on learning to filter them. Here the 16 newest
frames are averaged in six bins that widen into the past, so that what is new stays sharp and what is old
gets quiet. From the bins follow, by forward kinematics of the nominal robot:

- the vertical: the clip stands on flat soles, so its joints say how its torso leans; the observed rotation
  carries that over to the robot, and the gyro carries older bins over to the newest one;
- the centre of mass seen from each foot, in level axes of the newest pelvis: its value and, bin against bin,
  its velocity, which together are the capture point.
"""

from typing import NamedTuple

import mujoco
import numpy as np
import torch
from torch import nn

from families.f04_tracking import scene, spec

HISTORY = 16
"""Frames."""
BINS = ((0,), (1,), (2,), (3, 4), (5, 6, 7, 8), (9, 10, 11, 12, 13, 14, 15))
"""Ages of the frames of each bin, control steps."""
REFERENCE_POS, REFERENCE, ANCHOR_POS, ANCHOR_ROT, LIN_VEL, ANG_VEL, JOINT_POS, LAST_ACTION = (
    slice(0, 29), slice(0, 58), slice(58, 61), slice(61, 67), slice(67, 70), slice(70, 73),
    slice(73, 102), slice(131, 160),
)  # fmt: skip
"""Slices of a frame."""


class Body(NamedTuple):
    """A posture in the pelvis frame: components first, then the axes of the joint angles, then feet."""

    com_m: torch.Tensor
    """Shape (3, ...)."""
    feet_m: torch.Tensor
    """Ankles, left and right, shape (3, ..., 2)."""
    foot_rot: torch.Tensor
    """Shape (3, 3, ..., 2)."""
    torso_rot: torch.Tensor
    """Shape (3, 3, ...)."""


class Kinematics(nn.Module):
    """Forward kinematics of the nominal robot, all bodies of one depth of the tree at once."""

    def __init__(self) -> None:
        super().__init__()
        g1 = scene.build(spec.EVAL_TIMESTEP_S)
        model = g1.model
        joint_of = {int(model.dof_bodyid[at]): i for i, at in enumerate(g1.handles.qvel)}
        root = model.body(spec.BODY_NAMES[0]).id
        total_kg = float(model.body_subtreemass[root])
        center = model.body_mass[root] / total_kg * model.body_ipos[root]
        self.register_buffer("root_center", torch.tensor(center, dtype=torch.float32))
        self.places: dict[str, tuple[int, int]] = {}
        """Depth and place in it of every body."""
        level, self.depth = [root], 0
        while below := [b for b in range(1, model.nbody) if int(model.body_parentid[b]) in level]:
            turned = np.empty((len(below), 9))
            for row, b in zip(turned, below, strict=True):
                mujoco.mju_quat2Mat(row, model.body_quat[b])
            turned = turned.reshape(-1, 3, 3)
            x, y, z = model.jnt_axis[model.body_jntadr[below]].T
            zero = np.zeros(len(below))
            k = np.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]]).transpose(2, 0, 1)
            for name, array in {  # rotation = fixed + sin(q) sine + cos(q) cosine
                "fixed": turned @ (np.eye(3) + k @ k),
                "sine": turned @ k,
                "cosine": -turned @ k @ k,
                "offset": model.body_pos[below],
                "center": model.body_ipos[below],
            }.items():
                last = torch.tensor(np.moveaxis(array, 0, -1), dtype=torch.float32)
                self.register_buffer(f"{name}_{self.depth}", last[..., None, :])
            share = torch.tensor(model.body_mass[below] / total_kg, dtype=torch.float32)
            self.register_buffer(f"share_{self.depth}", share)
            joint, parent = (
                torch.tensor([joint_of[b] for b in below]),
                torch.tensor([level.index(int(model.body_parentid[b])) for b in below]),
            )
            self.register_buffer(f"joint_{self.depth}", joint)
            self.register_buffer(f"parent_{self.depth}", parent)
            for place, b in enumerate(below):
                self.places[model.body(b).name] = (self.depth, place)
            level, self.depth = below, self.depth + 1

    def forward(self, joint_pos: torch.Tensor) -> Body:
        """Bodies of joint angles (N, B, 29), rad, joint order of `spec.JOINT_NAMES`."""
        lead = (-1, joint_pos.shape[1])
        flat = joint_pos.reshape(-1, spec.N_JOINTS)
        sine, cosine = flat.sin(), flat.cos()
        com = self.root_center[:, None] + 0.0 * flat[:, 0]
        rotations, positions = [], []
        for d in range(self.depth):
            fixed, s, c, offset, center, share, joint, parent = (
                getattr(self, f"{name}_{d}")
                for name in ("fixed", "sine", "cosine", "offset", "center", "share", "joint", "parent")
            )  # fmt: skip
            turn = fixed + sine.index_select(1, joint) * s + cosine.index_select(1, joint) * c
            if d:
                above = rotations[-1].index_select(3, parent)
                position = positions[-1].index_select(2, parent) + _apply(above, offset)
                turn = _product(above, turn)
            else:
                position = offset + 0.0 * turn[0]
            com = com + ((position + _apply(turn, center)) * share).sum(dim=-1)
            rotations.append(turn)
            positions.append(position)
        feet = [self.places[name] for name in spec.FOOT_BODIES]
        depth, place = self.places["torso_link"]
        feet_m = torch.stack([positions[d][..., i] for d, i in feet], dim=-1)
        foot_rot = torch.stack([rotations[d][..., i] for d, i in feet], dim=-1)
        return Body(
            com.reshape(3, *lead),
            feet_m.reshape(3, *lead, 2),
            foot_rot.reshape(3, 3, *lead, 2),
            rotations[depth][..., place].reshape(3, 3, *lead),
        )


class Senses(nn.Module):
    """Features of observation histories; its attribute `size` is their number."""

    def __init__(self) -> None:
        super().__init__()
        self.kinematics = Kinematics()
        n = len(BINS)
        sums = np.zeros((n, HISTORY))
        for i, ages in enumerate(BINS):
            sums[i, HISTORY - 1 - np.array(ages)] = 1.0
        age = np.array([np.mean(ages) for ages in BINS])
        turning = np.zeros((n - 1, HISTORY))
        fine = np.linspace(0.0, 1.0, 100, endpoint=False) + 0.005
        for i in range(n - 1):  # integral of the angular velocity between two bins' mean ages
            at = age[i] + (age[i + 1] - age[i]) * fine
            step_s = (age[i + 1] - age[i]) * spec.CONTROL_PERIOD_S / len(fine)
            older = np.ceil(at).astype(int)
            np.add.at(turning[i], HISTORY - 1 - older, step_s * (1.0 - (older - at)))
            np.add.at(turning[i], HISTORY - older, step_s * (older - at))
        along = (age - age[0]) / (age[-1] - age[0])
        for name, array in {
            "sums": sums,
            "averages": sums / sums.sum(axis=1, keepdims=True),
            "turning": turning,
            "along": along,
            "default": np.array(spec.DEFAULT_POSE_RAD),
            "eye": np.eye(3)[:, :, None],
        }.items():
            self.register_buffer(name, torch.tensor(array, dtype=torch.float32))
        with torch.no_grad():
            self.size = self(torch.ones(1, HISTORY * spec.OBS_DIM)).shape[1]

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Features (N, size) of observation histories (N, 160 H), oldest frame first."""
        n = len(BINS)
        frames = obs.reshape(-1, HISTORY, spec.OBS_DIM)
        exists = (frames[:, :, REFERENCE].abs().amax(dim=2, keepdim=True) > 0.0).to(obs.dtype)
        total = exists.sum(dim=1, keepdim=True).clamp(min=1.0)
        mean = (frames * exists).sum(dim=1, keepdim=True) / total
        bins = self.averages @ (frames * exists + mean * (1.0 - exists))
        counts = self.sums @ exists
        turned_rad = self.turning @ (frames[:, :, ANG_VEL] * exists)
        clip = torch.cat([bins[:, :1, REFERENCE_POS], bins[:, -1:, REFERENCE_POS]], dim=1)
        body = self.kinematics(torch.cat([bins[:, :, JOINT_POS] + self.default, clip], dim=1))
        up_clip = _unit(body.foot_rot[:, 2, :, n:].mean(dim=-1))
        to_newest = self._chain(turned_rad)
        up = self._vertical(bins, counts[:, :, 0], body, up_clip, to_newest)
        level = _product(_level(up)[..., None], to_newest)
        to_level = torch.cat([level, _level(up_clip)], dim=3)
        reach = _apply(to_level[..., None], body.com_m[..., None] - body.feet_m)
        rotation = _product(to_level[..., None], body.foot_rot)
        parts = (
            bins[:, :, ANCHOR_POS.start :],
            reach.permute(1, 2, 3, 0),
            rotation[:2, 2].permute(1, 2, 3, 0),
            rotation[1, 0],
            _apply(level, bins[:, :, LIN_VEL].permute(2, 0, 1)).permute(1, 2, 0),
            bins[:, :1, REFERENCE],
            up.permute(1, 0),
            counts / self.sums.sum(dim=1, keepdim=True),
        )
        return torch.cat([part.flatten(1) for part in parts], dim=1)

    def _chain(self, turned_rad: torch.Tensor) -> torch.Tensor:
        """Rotations from each bin's pelvis frame to the newest, (3, 3, N, B), from turns (N, B - 1, 3)."""
        x, y, z = turned_rad[..., 0], turned_rad[..., 1], turned_rad[..., 2]
        o = 0.0 * x
        k = torch.stack([o, z, -y, -z, o, x, y, -x, o]).reshape(3, 3, -1, len(BINS) - 1)
        back = self.eye[..., None] + k + 0.5 * _product(k, k)
        chain = [self.eye + 0.0 * back[..., 0]]
        for i in range(len(BINS) - 1):
            chain.append(_product(chain[-1], back[..., i]))
        return torch.stack(chain, dim=-1)

    def _vertical(
        self,
        bins: torch.Tensor,
        counts: torch.Tensor,
        body: Body,
        up_clip: torch.Tensor,
        to_newest: torch.Tensor,
    ) -> torch.Tensor:
        """Upward unit vector in the newest pelvis frame, (3, N): measured in every bin, turned on by the gyro."""
        n = len(BINS)
        torso = body.torso_rot
        ends = _apply(torso[..., n:].transpose(0, 1), up_clip)
        in_torso = _unit(ends[..., :1] + (ends[..., 1:] - ends[..., :1]) * self.along)
        columns = bins[:, :, ANCHOR_ROT].permute(2, 0, 1)
        first, second = columns[0::2], columns[1::2]
        measured = first * in_torso[0] + second * in_torso[1]
        measured = measured + _cross(first, second) * in_torso[2]
        newest = _apply(_product(to_newest, torso[..., :n]), measured)
        return _unit((newest * counts).sum(dim=-1))


def _level(up: torch.Tensor) -> torch.Tensor:
    """Rotation (3, 3, ...) to level axes, of which x is the pelvis' x without its vertical part."""
    x, y, z = up[0], up[1], up[2]
    forward = _unit(torch.stack([1.0 - x * x, -x * y, -x * z]))
    return torch.stack([forward, _cross(up, forward), up])


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Products of 3x3 matrices, components first: many times faster here than small `matmul`s."""
    return a[:, 0, None] * b[0] + a[:, 1, None] * b[1] + a[:, 2, None] * b[2]


def _apply(rotation: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return rotation[:, 0] * vector[0] + rotation[:, 1] * vector[1] + rotation[:, 2] * vector[2]


def _cross(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.stack(
        [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    )


def _unit(vector: torch.Tensor) -> torch.Tensor:
    return vector / (vector * vector).sum(dim=0, keepdim=True).sqrt().clamp(min=1e-6)


# --------------------------------------------------------------------------------------- mirror


def mirror() -> tuple[np.ndarray, np.ndarray]:
    """The robot in a mirror, left for right: frame' = sign * frame[index]. Two arrays of shape (160,)."""
    joint, flip = mirror_joints()
    index, sign = np.arange(spec.OBS_DIM), np.ones(spec.OBS_DIM)
    for block in spec.OBS_BLOCKS:
        if block.stop - block.start == spec.N_JOINTS:
            index[block.start : block.stop] = block.start + joint
            sign[block.start : block.stop] = flip
    sign[ANCHOR_POS], sign[LIN_VEL], sign[ANG_VEL] = (1, -1, 1), (1, -1, 1), (-1, 1, -1)
    sign[ANCHOR_ROT] = (1, -1, -1, 1, 1, -1)
    return index, sign


def mirror_joints() -> tuple[np.ndarray, np.ndarray]:
    """The same for joints or actions, two arrays of shape (29,)."""
    swap = {"left": "right", "right": "left"}
    index, sign = [], []
    for name in spec.JOINT_NAMES:
        side, _, rest = name.partition("_")
        index.append(spec.JOINT_NAMES.index(f"{swap[side]}_{rest}" if side in swap else name))
        sign.append(1.0 if "pitch" in name or "knee" in name or "elbow" in name else -1.0)
    return np.array(index), np.array(sign)
