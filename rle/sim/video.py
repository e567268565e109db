"""H.264 videos that start at once in a browser, with a poster frame; written beside, then renamed."""

import os
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
from PIL import Image


class VideoWriter:
    """Writes frames to `path` (MP4, yuv420p, faststart) and the poster to `path` with suffix .jpg.

    A context manager: the file appears only when the block ends without an error.

    Args:
        path: Target file, ending in .mp4.
        fps: Frames per second of playback.
        width_px: Even picture width.
        height_px: Even picture height.
        poster_frame: Index of the frame that stands for the video.
    """

    def __init__(
        self, path: Path, fps: float, width_px: int, height_px: int, poster_frame: int = 0
    ) -> None:
        if width_px % 2 or height_px % 2:
            raise ValueError(f"H.264 needs an even picture size, got {width_px} x {height_px}")
        self._path, self._partial = path, path.with_name(f".{path.stem}.partial.mp4")
        self._shape = (height_px, width_px, 3)
        self._poster_frame, self._poster, self.n_frames = poster_frame, None, 0
        self._sink: Any = imageio_ffmpeg.write_frames(
            str(self._partial), (width_px, height_px), fps=fps, codec="libx264", quality=None,
            macro_block_size=2, pix_fmt_out="yuv420p", ffmpeg_log_level="error",
            output_params=["-crf", "28", "-preset", "veryfast", "-movflags", "+faststart", "-threads", "1"],
        )  # fmt: skip
        self._sink.send(None)

    def add(self, frame: np.ndarray) -> None:
        """Appends a frame. Shape (height, width, 3), uint8."""
        if frame.shape != self._shape or frame.dtype != np.uint8:
            raise ValueError(f"frame must be uint8 {self._shape}, got {frame.dtype} {frame.shape}")
        if self.n_frames <= self._poster_frame:
            self._poster = frame
        self._sink.send(np.ascontiguousarray(frame))
        self.n_frames += 1

    def __enter__(self) -> "VideoWriter":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._sink.close()
        if kind is not None or self._poster is None:
            self._partial.unlink(missing_ok=True)
            return
        Image.fromarray(self._poster).save(self._path.with_suffix(".jpg"), quality=80)
        os.replace(self._partial, self._path)
