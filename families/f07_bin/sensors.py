"""What a policy sees: joint sensors, force-torque, and cameras that are drawn only when asked for."""

import time
from collections.abc import Collection, Mapping

import mujoco
import numpy as np

from families.f07_bin import scene, spec
from families.f07_bin.piles import Streams
from rle.sim.depth import noisy_depth_m
from rle.sim.render import Frames

_CAMERAS = {
    "overhead": (spec.OVERHEAD_WH_PX, spec.OVERHEAD_VFOV_DEG),
    "wrist": (spec.WRIST_WH_PX, spec.WRIST_VFOV_DEG),
}


def cell_spec() -> dict:
    """What `reset` of a policy gets beside its seed: plain numbers, lists and one XML text.

    Lengths m, angles rad, forces N, torques N m, times s, rates Hz. `*_K` are 3 x 3 pinhole matrices (pixel
    centres at half integers), `overhead_T_world_cam` is the camera's pose with columns right, up,
    backward, position.
    """
    low = [c - h for c, h in zip(spec.BELT_CENTRE_M, spec.BELT_HALF_M, strict=True)]
    high = [c + h for c, h in zip(spec.BELT_CENTRE_M, spec.BELT_HALF_M, strict=True)]
    pose = np.eye(4)
    pose[:3, 3] = spec.OVERHEAD_POS_M
    return {
        "ctrl_hz": spec.CONTROL_HZ,
        "frame_hz": spec.CONTROL_HZ / spec.FRAME_EVERY_TICKS,
        "timestep": spec.TIMESTEP_S,
        "episode_t": spec.EPISODE_S,
        "n_ctrl": spec.N_CTRL,
        "mag_ctrl_range": list(spec.MAG_CTRL_RANGE),
        "mag_on_threshold": spec.MAG_ON_THRESHOLD,
        "mag_head_r": spec.HEAD_RADIUS_M,
        "mag_head_h": spec.HEAD_Z_M[1] - spec.HEAD_Z_M[0],
        "mag_pull_n": spec.MAG_PULL_N,
        "mag_shear_n": spec.MAG_SHEAR_N,
        "mag_reattach_s": spec.MAG_REATTACH_S,
        "ft_noise_n": spec.FT_FORCE_SIGMA_N,
        "ft_noise_nm": spec.FT_TORQUE_SIGMA_NM,
        "arm_home": list(spec.ARM_HOME_RAD),
        "bin_lo": list(spec.BIN_LO_M),
        "bin_hi": list(spec.BIN_HI_M),
        "bin_top_z": spec.BIN_TOP_Z_M,
        "zone_lo": list(spec.ZONE_LO_M),
        "zone_hi": list(spec.ZONE_HI_M),
        "belt_lo": low,
        "belt_hi": high,
        "overhead_K": camera_matrix("overhead").tolist(),
        "overhead_T_world_cam": pose.tolist(),
        "overhead_wh": list(spec.OVERHEAD_WH_PX),
        "wrist_K": camera_matrix("wrist").tolist(),
        "wrist_wh": list(spec.WRIST_WH_PX),
        "wrist_mount_pos": list(spec.WRIST_POS_M),
        "wrist_mount_quat": list(spec.WRIST_QUAT_WXYZ),
        "clear_speed": spec.CLEAR_SPEED_M_S,
        "clear_rest_s": spec.CLEAR_REST_S,
        "n_parts_range": [spec.N_PARTS_MIN, spec.N_PARTS_MAX],
        "damage_force_n": spec.DAMAGE_FORCE_N,
        "bin_hit_force_n": spec.BIN_HIT_FORCE_N,
        "force_window_s": spec.FORCE_WINDOW_SUBSTEPS * spec.TIMESTEP_S,
        "part_boxes": scene.part_boxes(),
        "part_mass": spec.PART_MASS_KG,
        "model_xml": scene.model_xml(),
    }


def camera_matrix(camera: str) -> np.ndarray:
    """Pinhole matrix of `overhead` or `wrist`. Shape (3, 3), px."""
    (width, height), vfov = _CAMERAS[camera]
    f = spec.focal_px(height, vfov)
    return np.array([[f, 0.0, width / 2], [0.0, f, height / 2], [0.0, 0.0, 1.0]])


class Sensors:
    """Observations of one running cell. A context manager: it owns the renderers.

    Args:
        cell: The compiled cell.
        streams: Streams of the pile; noise is keyed on the tick and on nothing else.
        channels: Picture channels to draw, out of `spec.CHANNELS`.
    """

    def __init__(self, cell: scene.Cell, streams: Streams, channels: Collection[str]) -> None:
        self._cell, self._streams = cell, streams
        self.channels = frozenset(channels)
        """Picture channels that are drawn."""
        self._frames: Mapping[str, Frames] = {}
        self._wrist_camera = int(cell.model.camera("wrist").id)
        self.n_renders = 0
        """Drawings so far; colour and depth of one camera are one."""
        self.render_s = 0.0
        """Wall time of drawing and depth noise so far."""

    def observe(self, data: mujoco.MjData, tick: int, is_on: bool) -> dict[str, np.ndarray | float]:
        """Observation before tick `tick`; picture keys are there on frame ticks only."""
        rng = self._streams("sensor", tick)
        noise = rng.standard_normal(6)
        n = spec.N_JOINTS
        ft = np.concatenate(
            (data.sensordata[self._cell.ft_force], data.sensordata[self._cell.ft_torque])
        )
        ft[:3] += spec.FT_FORCE_SIGMA_N * noise[:3]
        ft[3:] += spec.FT_TORQUE_SIGMA_NM * noise[3:]
        is_frame = tick % spec.FRAME_EVERY_TICKS == 0
        obs: dict[str, np.ndarray | float] = {
            "t": tick / spec.CONTROL_HZ,
            "qpos": data.qpos[:n].copy(),
            "qvel": data.qvel[:n].copy(),
            "tau": data.actuator_force[:n].copy(),
            "ft": ft,
            "mag_on": float(is_on),
            "frame": float(is_frame),
        }
        if is_frame:
            self._add_pictures(obs, data, tick)
        return obs

    def _add_pictures(self, obs: dict, data: mujoco.MjData, tick: int) -> None:
        # Poses of now; touches nothing that the next step reads.
        mujoco.mj_kinematics(self._cell.model, data)
        mujoco.mj_camlight(self._cell.model, data)
        pose = np.eye(4)
        pose[:3, :3] = data.cam_xmat[self._wrist_camera].reshape(3, 3)
        pose[:3, 3] = data.cam_xpos[self._wrist_camera]
        obs["wrist_T_world_cam"] = pose
        started = time.perf_counter()
        for camera in _CAMERAS:
            rgb, depth = f"{camera}_rgb", f"{camera}_depth"
            if not {rgb, depth} & self.channels:
                continue
            picture, exact = self._camera(camera).pictures(
                data, camera, rgb=rgb in self.channels, depth=depth in self.channels
            )
            self.n_renders += 1
            if picture is not None:
                obs[rgb] = picture
            if exact is not None:
                focal = float(camera_matrix(camera)[0, 0])
                obs[depth] = noisy_depth_m(exact, focal, self._streams(depth, tick))
        self.render_s += time.perf_counter() - started

    def _camera(self, camera: str) -> Frames:
        if camera not in self._frames or not self._frames[camera].is_open:
            size, _ = _CAMERAS[camera]
            ours = any(frames.is_open for frames in self._frames.values())
            frames = Frames(self._cell.model, *size, keep_open=ours)
            self._frames = {**self._frames, camera: frames}
        return self._frames[camera]

    def close(self) -> None:
        """Frees the renderers. Safe to call twice."""
        for frames in self._frames.values():
            frames.close()
        self._frames = {}

    def __enter__(self) -> "Sensors":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
