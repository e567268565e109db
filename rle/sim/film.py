"""A video of recorded states: every frame is a state that was simulated, nothing is simulated again."""

from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np

from rle.sim.render import Frames
from rle.sim.video import VideoWriter


def film_states(
    path: Path,
    model: mujoco.MjModel,
    qpos: np.ndarray,
    fps: float,
    *,
    width_px: int = 640,
    height_px: int = 360,
    camera: str | Callable[[mujoco.MjData], mujoco.MjvCamera],
    option: mujoco.MjvOption | None = None,
    decorate: Callable[[mujoco.MjvScene, int], None] | None = None,
    poster_frame: int | None = None,
) -> None:
    """Writes `path` (MP4) and its poster (JPEG).

    Args:
        path: Target file, ending in .mp4.
        model: Compiled model.
        qpos: States in order, one per video frame, shape (T, nq).
        fps: Video frames per second.
        width_px: Even picture width.
        height_px: Even picture height.
        camera: Camera of the model, or a function that aims a free camera at a state.
        option: Which groups are drawn.
        decorate: Adds markers to the scene of frame i.
        poster_frame: Index of the frame that stands for the video; the middle one by default.

    Raises:
        InfrastructureError: `render.unavailable`.
        ValueError: No state.
    """
    if len(qpos) == 0:
        raise ValueError(f"{path.name}: no state to draw")
    quality = (
        model.vis.quality
    )  # several samples are three quarters of a frame on a software renderer
    quality.offsamples, quality.numslices, quality.numstacks = 0, 14, 8
    data = mujoco.MjData(model)
    poster = len(qpos) // 2 if poster_frame is None else poster_frame
    with Frames(model, width_px, height_px) as frames:
        with VideoWriter(path, fps, width_px, height_px, poster_frame=poster) as video:
            for i, state in enumerate(qpos):
                data.qpos[:] = state
                mujoco.mj_forward(model, data)
                view = camera if isinstance(camera, str) else camera(data)
                mark = None if decorate is None else (lambda s, i=i: decorate(s, i))
                video.add(frames.rgb(data, view, option, mark))
