"""Names and sentences of the tasks. Part of `spec.py`, which re-exports every name."""

OPERATORS = (
    "Abs", "Add", "And", "ArgMax", "ArgMin", "BatchNormalization", "Cast", "Ceil", "Clip",
    "Concat", "Constant", "ConstantOfShape", "Conv", "Cos", "CumSum", "Div", "Elu", "Equal",
    "Erf", "Exp", "Expand", "Flatten", "Floor", "GRU", "Gather", "GatherElements", "Gelu", "Gemm",
    "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "LSTM",
    "LayerNormalization", "LeakyRelu", "Less", "LessOrEqual", "Log", "MatMul", "Max", "Mean",
    "Min", "Mish", "Mod", "Mul", "Neg", "Not", "OneHot", "Or", "Pad", "Pow", "Range",
    "Reciprocal", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum",
    "ReduceSumSquare", "Relu", "Reshape", "Selu", "Shape", "Sigmoid", "Sign", "Sin", "Slice",
    "Softmax", "Softplus", "Softsign", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tanh", "Tile",
    "TopK", "Transpose", "Trilu", "Unsqueeze", "Where",
)  # fmt: skip
"""Accepted operators of the standard domain: dense arithmetic, no chance, no control flow. Source: card."""
TITLES: dict[str, str] = {
    "dance": "Dance",
    "fight": "Punches with weight shift",
    "fall-and-get-up": "Fall and get up",
    "run": "Run",
    "sprint": "Sprint",
}
INSTRUCTION = """\
Train a neural controller that makes a simulated Unitree G1 (29 joints) follow a given 20 s motion \
("{title}"), and export it as one ONNX graph.

Hand in a folder with two files. `policy.onnx` has one input `obs`, float32 [1, 160 H], and one output \
`actions`, float32 [1, 29]; opset 13 to 21, at most 10,000,000 parameters, at most 10 ms per call on one \
thread. `policy_meta.json` holds {{"obs_history_length": H}} with H from 1 to 16.

The graph alone is run at 50 Hz on CPU MuJoCo, in eight trials of 20 s that you cannot see, with drawn \
friction, terrain, mass, centre of mass, gains, encoder bias, latency, start state, sensor noise and pushes. \
Each trial earns 0.7 T + 0.3 U - 0.15 min(J / J_max, 1) - 0.05 F: tracking of 14 body positions, share of \
the clip survived, jerk of the actions, and whether the robot fell. A trial ends when the robot falls.

The simulator, the reference, the training baseline (`python -m train_baselines.f04_ppo --help`) and an \
evaluator with published seeds (`python -m families.f04_tracking.dev f04/{slug} --submission DIR`) are yours to \
use and to change; only the graph is scored. Training and evaluation share 4 hours of wall time. Hand in early \
and improve: the last complete folder counts.
"""
"""I, with the clip's title filled in."""
AGENT_FILES = (
    "families/__init__.py",
    "families/f04_tracking/**",
    "rle/__init__.py",
    *(
        f"rle/{name}.py"
        for name in (
            "contracts", "errors", "paths", "registry", "report", "rotations", "scoring", "seeds",
            "spec", "verify_api",
        )
    ),
    "rle/envs/**",
    "rle/sim/**",
    "train_baselines/__init__.py",
    "train_baselines/f04_ppo.py",
    "assets/unitree_g1/**",
    "assets/motions/*.npz",
)  # fmt: skip
"""Files of the checkout that the agent gets. Source: card, section 4."""
CHANNEL_MEANINGS = {
    "ref_joint_pos": "joint positions of reference frame k",
    "ref_joint_vel": "joint velocities of reference frame k",
    "anchor_pos_error": "reference torso minus robot torso",
    "anchor_rot_error": "rotation robot torso to reference torso, first two columns, row-major",
    "imu_lin_vel": "linear velocity at the pelvis IMU",
    "imu_ang_vel": "angular velocity at the pelvis IMU",
    "joint_pos": "joint positions, with encoder bias, minus the default pose",
    "joint_vel": "joint velocities",
    "last_action": "raw action of the step before, zeros at first",
}
CHANNEL_FRAMES = {"anchor_pos_error": "robot torso", "imu_lin_vel": "IMU", "imu_ang_vel": "IMU"}
"""Words for the observation table of the card."""
