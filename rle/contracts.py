"""What a family asks of an artifact: one typed contract per kind, passed to `ctx.check(kind, contract)`.

    onnx        OnnxContract         tensors in and out, operators, parameters, probes
    torchscript TorchScriptContract  tensors in and out, stored elements, statelessness
    mjcf        MjcfContract         elements and attributes of the text, caps, mesh files
    python      PythonContract       entry file, how the object is made, functions with fixed arrays
    recipe      RecipeContract       one source file that is trained and served again, and its limits
    data        DataContract         a bounded file that the family reads by itself

`Worker.act` and `Worker.call` exchange raw arrays, so every function declares its shapes and
dtypes here. A worker for other shapes of the same artifact (another arm, say) gets
`msgspec.structs.replace(checked, contract=...)`.
"""

from pathlib import Path
from typing import Literal

import msgspec

Dtype = Literal["float64", "float32", "uint8", "int32", "int64", "uint16", "bool"]


class ArraySpec(msgspec.Struct, frozen=True):
    """One array of a message."""

    name: str
    shape: tuple[int, ...] = ()
    """`()` is a number: it arrives in Python as a float (or int, bool by `dtype`)."""
    dtype: Dtype = "float64"


class OnnxProbes(msgspec.Struct, frozen=True, kw_only=True):
    """What the check measures beside shapes and repeatability; None or 0 leaves a probe out."""

    responsive_pairs: int = 0
    """Pairs of random inputs whose outputs must differ by more than `responsive_min`."""
    responsive_min: float = 1e-6
    finite_inputs: int = 0
    """Number of N(0, 1) inputs, beside all zeros and all ones, with finite outputs."""
    max_abs_output: float | None = None
    """Largest accepted magnitude of those outputs."""
    latency_cap_s: float | None = None
    """Median of `latency_calls` calls after `latency_warmup`, best of `latency_tries`."""
    latency_warmup: int = 20
    latency_calls: int = 200
    latency_tries: int = 3


class OnnxContract(msgspec.Struct, frozen=True, kw_only=True):
    """An ONNX graph that runs on onnxruntime, CPU, one thread, without state."""

    path: str
    inputs: tuple[ArraySpec, ...]
    outputs: tuple[ArraySpec, ...]
    max_parameters: int
    """Float32 equivalents over every tensor stored anywhere in the file."""
    max_bytes: int | None = None
    """Default: 4 B x `max_parameters` + 1 MiB."""
    symbolic_batch: bool = False
    """Whether the first dimension may be symbolic; it is set to the contract's size."""
    opset_min: int = 11
    opset_max: int = 23
    ops: tuple[str, ...] = ()
    """Accepted operators of the standard domain; empty: the verifier's default list."""
    max_nodes: int = 20_000
    max_tensor_elements: int = 4_194_304
    probes: OnnxProbes = OnnxProbes()


class TorchScriptContract(msgspec.Struct, frozen=True, kw_only=True):
    """A TorchScript module with one tensor in and one out, without state."""

    path: str
    input: ArraySpec
    output: ArraySpec
    max_elements: int
    """Stored bytes / 4 over parameters, buffers and constants."""
    state_frames: int = 8
    """Frames of the statelessness test."""


class MjcfContract(msgspec.Struct, frozen=True, kw_only=True):
    """An MJCF file that is re-written from accepted values before anything compiles it."""

    path: str
    elements: dict[str, tuple[str, ...]]
    """Accepted elements with their accepted attributes."""
    drop_elements: tuple[str, ...] = ()
    """Elements that are accepted and left out, with what they hold."""
    drop_attributes: dict[str, tuple[str, ...]] = {}
    """Attributes that are accepted and left out, by element."""
    values: dict[str, tuple[str, ...]] = {}
    """Accepted values of `element@attribute`, e.g. `compiler@angle` -> ("radian",)."""
    allow_names: tuple[str, ...] = ()
    """Names that may start with a prefix of the verifier's own elements."""
    roots: tuple[str, ...] = ()
    """Accepted names of the bodies directly under the world; empty: exactly one, any name."""
    mesh_folder: str = ""
    """Folder of the submission that holds the mesh files; "" is that of the file."""
    max_bytes: int = 2**20
    max_bodies: int = 200
    max_geoms: int = 400
    max_joints: int = 60
    max_meshes: int = 64
    max_mesh_vertices: int = 50_000
    max_vertices: int = 200_000
    compile: bool = True
    """Whether the canonical text is compiled in the box and its numbers are checked."""
    geometry_inertia: bool = True
    """Whether an explicit inertial must agree with geometry x density within 1 %."""
    family_judges: bool = False
    """Whether ranges of numbers, repeated names, what stands directly under the world, and meshes are the
    family's to judge, one part at a time. Such a family compiles its own record, never the text; its facts
    hold `lines` (of the file, for each line of the canonical text) and `mesh_faults` (message by file)."""


class Arg(msgspec.Struct, frozen=True, kw_only=True):
    """One argument of a Python call, built from arrays of the message or from what is kept.

    kind     value in Python
    array    the one array (a number where its shape is ())
    dict     {name: array} of all arrays
    records  list of such dicts: every array has the number of records as its first dimension
    kept     a value that stays in the worker: the result of a call with `keep`, or a LOAD field
    """

    kind: Literal["array", "dict", "records", "kept"] = "array"
    arrays: tuple[ArraySpec, ...] = ()
    keyword: str = ""
    """Passed by this keyword; empty: by position."""
    kept: str = ""


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A declared function: what `Worker.call(name, *arrays)` runs and what comes back.

    The arrays of all arguments travel in order. A single result array is `numpy.asarray(value)` with
    exactly the declared shape; several results are the items of a tuple, each one number or array.
    """

    name: str
    target: str = ""
    """Attribute of the object (or module), or `kept:NAME` for a kept callable; empty: `name`."""
    args: tuple[Arg, ...] = ()
    returns: tuple[ArraySpec, ...] = ()
    """An int64 or bool result must be an integer in Python too; a float64 one may be neither bool
    nor text."""
    keep: str = ""
    """Keeps the result in the worker under this name and answers with nothing."""


class PythonContract(msgspec.Struct, frozen=True, kw_only=True):
    """A package of Python files that runs in a worker.

    `Worker.load(**fields)` imports `entry`, calls `factory()` and looks up `required`; the fields
    stay in the worker as kept values. `Worker.reset(**fields)` calls `reset` of the object with
    the fields as positional arguments, in their order; values may be numpy arrays. `Worker.act`
    calls the function "act". What the submission raises in a call ends the call, not the worker.
    """

    folder: str = ""
    """Folder of the submission that goes (last) on the import path."""
    entry: str
    """File of that folder, `policy.py`."""
    factory: str = ""
    """Function of the entry that makes the object; empty: the module itself is the object."""
    required: tuple[str, ...] = ()
    """Attributes that must be callable, with a signature that fits the declared call."""
    functions: tuple[Function, ...] = ()
    suffixes: tuple[str, ...] = (".py", ".json", ".npz", ".npy", ".onnx", ".txt", ".md")
    max_files: int = 64
    max_total_bytes: int = 32 * 2**20
    modules: tuple[str, ...] = ("numpy",)
    """Trusted modules imported before the sandbox closes; others of the environment load lazily."""
    compile_model: bool = False
    """LOAD fields `model_xml` and `model_assets` are compiled and kept as `model` (MjModel)."""


class RecipeContract(msgspec.Struct, frozen=True, kw_only=True):
    """One source file that trains a policy and serves it; it may not carry the weights itself."""

    path: str
    compressed_max_bytes: int
    """Of the whole file, zlib level 9."""
    opaque_max_bytes: int
    """Sum over literals of 128 bytes and more that are bytes, or text with under 8 % white space."""
    numbers_max_n: int
    """Numbers in the syntax tree."""


class CheckpointContract(msgspec.Struct, frozen=True, kw_only=True):
    """What training leaves: tensors and plain data in one dict, as `torch.save` writes it."""

    path: str = "ckpt.pt"
    max_bytes: int
    max_elements: int
    """Over all tensors, by shape: a view that claims more than it stores counts as what it claims."""
    max_depth: int = 16
    """Containers inside containers."""
    meta_path: str = "meta.json"
    """Optional JSON object beside it."""
    meta_max_bytes: int = 2**20


class RecipeRun(msgspec.Struct, frozen=True, kw_only=True):
    """How a recipe is trained and served: `ctx.train(checked, run)`, then `ctx.serve(...)`."""

    checkpoint: CheckpointContract
    readable: tuple[Path, ...] = ()
    """Data that training may read; a server does not see it."""
    served: tuple[Path, ...] = ()
    """Data that training and serving may read (encoders)."""
    train_s: float
    """Wall time after which training is asked to finish (SIGTERM)."""
    allowance_s: float
    """Further time until it is ended (SIGKILL)."""
    bind_s: float
    """Longest time until a server has its socket."""
    scratch_bytes: int = 20 * 2**30
    """Bytes that may lie in output and scratch at one time."""
    memory_bytes: int | None = None
    output_variable: str = "OUTPUT_DIR"
    checkpoint_variable: str = "CKPT"
    socket_variable: str = "SOCKET"
    mode_variable: str = "MODE"
    """Names of the variables that tell a recipe its folders and whether it trains or serves."""
    environment: dict[str, str] = {}
    """Further variables; beside PATH, LANG, HOME and TMPDIR there are no others."""


class DataContract(msgspec.Struct, frozen=True, kw_only=True):
    """A bounded file without a check of its own; `Checked.canonical` holds its bytes."""

    path: str
    max_bytes: int
    text: bool = False
