"""Frames of a scene. One renderer per process, closed by code, drawn only when asked for."""

import atexit
import os
from collections.abc import Callable

import mujoco
import numpy as np

from rle.errors import InfrastructureError

_open: list["Frames"] = []


def gl_backend() -> str:
    """Name of the GL backend that this process renders with ("egl", "osmesa", "glfw", "default")."""
    return os.environ.get("MUJOCO_GL", "default")


class Frames:
    """Draws pictures of one model. A context manager; opening another one closes it, unless told not to.

    Args:
        model: Compiled model; its offscreen buffer is enlarged where needed.
        width_px: Picture width.
        height_px: Picture height.
        shadows: Shadows and reflections cost most of a frame on a software renderer.
        keep_open: True leaves earlier ones open: for one scene that is drawn in two picture sizes.

    Raises:
        InfrastructureError: `render.unavailable`, with the fix.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        width_px: int,
        height_px: int,
        shadows: bool = False,
        keep_open: bool = False,
    ) -> None:
        while _open and not keep_open:
            _open[-1].close()
        model.vis.global_.offwidth = max(model.vis.global_.offwidth, width_px)
        model.vis.global_.offheight = max(model.vis.global_.offheight, height_px)
        try:
            self._renderer = mujoco.Renderer(model, height_px, width_px)
        except Exception as error:  # each GL binding raises its own class here
            raise InfrastructureError(
                f"no frame can be drawn with MUJOCO_GL={gl_backend()} ({error}). Either mujoco was "
                "imported before rle set MUJOCO_GL (import rle first, or export MUJOCO_GL=egl), or there "
                "is no driver: install Mesa's (Debian: libegl1 libegl-mesa0 libgl1-mesa-dri), or "
                "libosmesa6 and set MUJOCO_GL=osmesa; check with `rle doctor`.",
                code="render.unavailable",
            ) from error
        flags = self._renderer.scene.flags
        flags[mujoco.mjtRndFlag.mjRND_SHADOW] = shadows
        flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = shadows
        _open.append(self)
        # MuJoCo registers the end of its EGL display at the first renderer; what is registered later runs
        # before it, and contexts must be freed before.
        atexit.unregister(_close_all)
        atexit.register(_close_all)

    def rgb(
        self,
        data: mujoco.MjData,
        camera: str | mujoco.MjvCamera,
        option: mujoco.MjvOption | None = None,
        decorate: Callable[[mujoco.MjvScene], None] | None = None,
    ) -> np.ndarray:
        """Colour picture. Shape (height, width, 3), uint8.

        Args:
            data: State, after `mj_forward`.
            camera: Name of a camera of the model, or a free camera.
            option: Which groups are drawn.
            decorate: Adds geoms to the scene (markers of a reference).
        """
        self._renderer.update_scene(data, camera, option)
        if decorate is not None:
            decorate(self._renderer.scene)
        return self._renderer.render()

    def depth_m(
        self, data: mujoco.MjData, camera: str, option: mujoco.MjvOption | None = None
    ) -> np.ndarray:
        """Distance along the optical axis. Shape (height, width), float32, m."""
        self._renderer.enable_depth_rendering()
        try:
            self._renderer.update_scene(data, camera, option)
            return self._renderer.render()
        finally:
            self._renderer.disable_depth_rendering()

    def pictures(
        self, data: mujoco.MjData, camera: str, *, rgb: bool, depth: bool
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """What is asked for of `rgb` and `depth_m`, bit for bit, from one drawing.

        The depth buffer of a colour picture holds the depth already; to draw the scene a second time
        for it, as `mujoco.Renderer` does, takes a fifth of a frame with shadows and half of one without.
        Where pixels are drawn from several samples (`offsamples`), depth is drawn by itself after all.
        Translucent geoms leave no depth beside a colour picture.
        """
        if not rgb:
            return None, self.depth_m(data, camera) if depth else None
        picture = self.rgb(data, camera)
        if not depth:
            return picture, None
        if self._renderer.model.vis.quality.offsamples:
            return picture, self.depth_m(data, camera)
        height, width, _ = picture.shape
        buffer = np.empty((height, width), np.float32)
        # The renderer's own context, which it does not show: one frame buffer holds both pictures.
        whole = mujoco.MjrRect(0, 0, width, height)
        mujoco.mjr_readPixels(None, buffer, whole, self._renderer._mjr_context)
        return picture, self._metres(buffer[::-1])

    def _metres(self, buffer: np.ndarray) -> np.ndarray:
        """z = n f / (n + b (f - n)) of MuJoCo's reversed depth buffer b, with its own rounding."""
        visual, extent = self._renderer.model.vis.map, self._renderer.model.stat.extent
        near, far = np.float32(visual.znear * extent), np.float32(visual.zfar * extent)
        half = np.float32(0.5)
        c = half * ((far + near) / (far - near)) - half
        d = half * (np.float32(2.0) * far * near / (far - near))
        return (d / (buffer.astype(np.float64) + c)).astype(np.float32)

    def segmentation(self, data: mujoco.MjData, camera: str) -> np.ndarray:
        """(object id, object type) of each pixel, -1 for none. Shape (height, width, 2), int32."""
        self._renderer.enable_segmentation_rendering()
        try:
            self._renderer.update_scene(data, camera)
            return self._renderer.render()
        finally:
            self._renderer.disable_segmentation_rendering()

    @property
    def is_open(self) -> bool:
        """False once it was closed, also by the opening of another one."""
        return self in _open

    def close(self) -> None:
        """Frees the GL context. Safe to call twice."""
        if self in _open:
            _open.remove(self)
            self._renderer.close()

    def __enter__(self) -> "Frames":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _close_all() -> None:
    # Left to the interpreter's exit, MuJoCo 3.9.0's destructor prints an EGLError.
    while _open:
        _open[-1].close()


def sphere(
    scene: mujoco.MjvScene, position_m: np.ndarray, radius_m: float, rgba: np.ndarray
) -> None:
    """Adds a sphere marker to a scene; does nothing once the scene's geom buffer is full."""
    if scene.ngeom >= scene.maxgeom:
        return
    mujoco.mjv_initGeom(
        scene.geoms[scene.ngeom],
        mujoco.mjtGeom.mjGEOM_SPHERE,
        np.full(3, radius_m),
        np.asarray(position_m, dtype=float),
        np.eye(3).flatten(),
        np.asarray(rgba, dtype=np.float32),
    )
    scene.ngeom += 1
