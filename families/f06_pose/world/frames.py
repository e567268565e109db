"""From a state of the scene to what a camera gives: picture, noisy depth, label and occlusion."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from families.f06_pose import scene, spec
from families.f06_pose.world import pushes
from rle.sim.depth import DepthNoise, noisy_depth_m
from rle.sim.render import Frames

NOISE = DepthNoise(
    sigma0_m=spec.DEPTH_SIGMA0_M,
    sigma_tan2_m=spec.DEPTH_SIGMA_TAN2_M,
    sigma_extra_max_m=spec.DEPTH_SIGMA_EXTRA_MAX_M,
    dropout_cos=spec.DROPOUT_COS,
    dropout_p=spec.DROPOUT_P,
    depth_max_m=spec.DEPTH_MAX_M,
)


@dataclass(frozen=True)
class Shot:
    """One frame: what is shown, and the truth behind it."""

    obs: dict[str, Any]
    """`K`, `T_cam_table`, `t`, and the pictures that were asked for."""
    pose: tuple[float, float, float]
    """x and y of the block's origin in m, yaw in (-pi, pi]."""
    shape_id: int
    is_occluded: bool
    frame: int


class Studio:
    """Draws states. A context manager: it owns one renderer per shape, opened when first needed."""

    def __init__(self) -> None:
        self._frames: dict[int, Frames] = {}
        self._data: dict[int, mujoco.MjData] = {}
        self._K, self._pose = scene.camera_matrix(), scene.camera_pose()

    def pictures(
        self,
        built: scene.Scene,
        qpos: np.ndarray,
        look: scene.Look,
        sensor: np.random.Generator,
        channels: Collection[str],
    ) -> dict[str, np.ndarray]:
        """Pictures of one state.

        Args:
            built: Scene of the shape.
            qpos: State. Shape (nq,).
            look: Light and colours.
            sensor: Stream `sensor` of this frame: the depth noise.
            channels: Out of `rgb` and `depth`.

        Returns:
            `rgb` (480, 640, 3) uint8 and `depth` (480, 640) float32 in m, NaN where missing.
        """
        built.write(look)
        data = self._data.setdefault(built.shape_id, mujoco.MjData(built.model))
        data.qpos[:] = qpos
        mujoco.mj_kinematics(built.model, data)
        mujoco.mj_camlight(built.model, data)
        frames = self._renderer(built)
        rgb, exact = frames.pictures(
            data, scene.CAMERA, rgb="rgb" in channels, depth="depth" in channels
        )
        shown = {}
        if rgb is not None:
            shown["rgb"] = rgb
        if exact is not None:
            shown["depth"] = noisy_depth_m(exact, spec.FOCAL_PX, sensor, NOISE)
        return shown

    def shot(
        self,
        built: scene.Scene,
        qpos: np.ndarray,
        streams: pushes.Streams,
        frame: int,
        is_occluded: bool,
        channels: Collection[str],
    ) -> Shot:
        """Frame `frame` of a scene; without channels its `obs` holds no picture."""
        obs: dict[str, Any] = {}
        if channels:
            look, sensor = scene.Look.draw(streams("light")), streams("sensor", frame)
            obs.update(self.pictures(built, qpos, look, sensor, channels))
        obs.update({"K": self._K, "T_cam_table": self._pose, "t": frame / spec.FRAME_HZ})
        return Shot(obs, pushes.block_pose(built, qpos), built.shape_id, is_occluded, frame)

    def _renderer(self, built: scene.Scene) -> Frames:
        frames = self._frames.get(built.shape_id)
        if frames is None or not frames.is_open:
            ours = any(f.is_open for f in self._frames.values())
            frames = Frames(built.model, *spec.IMAGE_WH_PX, shadows=True, keep_open=ours)
            self._frames[built.shape_id] = frames
        return frames

    def close(self) -> None:
        """Frees the renderers. Safe to call twice."""
        for frames in self._frames.values():
            frames.close()
        self._frames = {}

    def __enter__(self) -> "Studio":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def noisy_label(
    pose: tuple[float, float, float], rng: np.random.Generator
) -> tuple[float, float, float]:
    """A pose with the labels' noise, yaw wrapped to (-pi, pi].

    Args:
        pose: x and y in m, yaw in rad.
        rng: Stream `label` of the frame; nothing else decides the noise.
    """
    noise = rng.standard_normal(3)
    x, y, yaw = pose
    yaw += spec.LABEL_SIGMA_YAW_RAD * noise[2]
    return (
        float(x + spec.LABEL_SIGMA_XY_M * noise[0]),
        float(y + spec.LABEL_SIGMA_XY_M * noise[1]),
        float(np.pi - (np.pi - yaw) % (2.0 * np.pi)),
    )
