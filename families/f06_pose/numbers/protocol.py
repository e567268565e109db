"""Protocol, score and budgets of f06. Part of `spec.py`, which re-exports every name."""

N_GROUPS_A, FRAMES_PER_GROUP_A = 10, 10
"""Stage A: groups of single frames. Source: card."""
N_PUSHES_B, FRAMES_PER_PUSH_B = 10, 60
"""Stage B: pushes. Source: card."""
GROUP_WORST_N, KERNEL_XY_M, KERNEL_YAW_RAD = 5, 0.01, 0.1
"""Errors that count in a group, and the kernels' widths. Source: card."""
WEIGHT_A, WEIGHT_B = 0.3, 0.7
"""Source: card."""
WEIGHT_XY, WEIGHT_YAW = 0.5, 0.5
"""Share of position and yaw in a group's score. Source: card."""
DEDUCTION_MAX, RATE_FULL_HZ, RATE_ZERO_HZ = 0.2, 10.0, 1.0
"""Deduction for slow estimators. Source: card."""
POSE_LIMIT_M = 0.45
"""A coordinate beyond it counts as no answer. Source: published."""
CALL_CAP_S, TRIAL_CAP_S, TRIAL_CAP_PER_FRAME_S = 10.0, 90.0, 10.0
"""Charged time of one update, and of a trial: 90 s + 10 s per frame. Source: card."""
WARM_UP_CAP_S, LOAD_CAP_S = 30.0, 60.0
"""The untimed first update; import and `make_estimator`. Source: card."""
SMOKE_FRAMES = 1
"""Frames of the smoke trial, from a namespace of their own. Source: card."""
MAX_TENSOR_ELEMENTS = 20_000_000
"""Elements stored in `model.pt`. Source: card."""
MODEL_CHANNELS, MODEL_OUTPUTS = 5, 7
"""R, G, B in [0, 1], depth in m, validity; and x, y, cos, sin, three logits. Source: card."""
RENDER_AHEAD = 2
"""Trials whose frames are held in memory. Source: card."""
RENDER_PIECE_FRAMES = 10
"""Frames that a renderer process draws before it hands them over: 22 MB. Source: ours."""

EVALUATION_CALLS = 6
"""Metered evaluations of a deployment. Source: card."""
DESIGN_SEEDS = (11, 23, 37)
"""Seeds of the evaluation's scenes, in a namespace that cannot be rendered. Source: published."""
DESIGN_SINGLES, DESIGN_PUSH_FRAMES = 4, 40
"""Frames per design seed. Source: card."""
BOOTSTRAP_N = 2_000
"""Resamples of the evaluation's intervals. Source: card."""
MAX_PUBLIC_SEED = 2**31 - 1
"""Largest seed that can be rendered. Source: card."""

RENDERER_WORKERS = 8
"""Most processes of the renderer service; fewer where the process has fewer CPUs. Source: ours."""
QUEUE_MAX, PIPELINE_MAX = 64, 16
"""Waiting requests of the service, and those one connection may have open. Source: card."""
SHARD_FRAMES = 100
"""Frames of one file of a generated data set. Source: card."""

AGENT_WALL_S, VERIFY_WALL_S = 7_200, 3_600
"""Source: card; the second ours."""
MAX_FILES, MAX_TOTAL_BYTES, MAX_TOTAL_BYTES_AGNOSTIC = 64, 32 * 2**20, 100 * 2**20
"""Files of a submission. Source: card."""
MAX_MODEL_BYTES = 4 * MAX_TENSOR_ELEMENTS + 4 * 2**20
ESTIMATOR_SUFFIXES = (".py", ".json", ".npz", ".npy", ".onnx", ".txt", ".md")
"""Files of a package. Source: card."""

CHANNELS: dict[str, tuple[str, ...]] = {
    "rgb": ("rgb",),
    "rgbd": ("rgb", "depth"),
    "learned-rgbd": ("rgb", "depth"),
    "method-agnostic": ("rgb", "depth"),
}
"""Granted picture channels by task. Source: card."""
LEARNED = "learned-rgbd"
"""The task whose artifact is a TorchScript module."""
AGNOSTIC = "method-agnostic"
BOOTSTRAP_SEED = 20_260
"""Seed of those resamples, so that a reply depends on its errors alone. Source: ours."""
