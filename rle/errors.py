"""The one error tree. A message says what failed, what was given, what is allowed and what to do next.

`UserError` prints without a traceback and exits 2; `InvalidSubmission` is what an agent may read and
takes its text from `AGENT_MESSAGES` alone; `InfrastructureError` means that our side failed and no
reward may be written. Anything else is a bug and keeps its traceback.
"""

import difflib
from collections.abc import Iterable


class RleError(Exception):
    """Root of every error this project raises on purpose.

    Args:
        message: The sentence for the reader.
        code: Stable machine name, `area.finding`.
    """

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def message(self) -> str:
        return str(self.args[0])

    def __reduce__(self):
        """Crosses a process boundary as it is: constructors take other arguments than the message."""
        return _restore, (type(self), self.args, dict(self.__dict__))


def _restore(cls: type[RleError], args: tuple, state: dict) -> RleError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class UserError(RleError):
    """The caller gave something that cannot be used; the message names the fix. Exit code 2."""

    def __init__(self, message: str, *, code: str = "usage") -> None:
        super().__init__(message, code=code)


class UnknownName(UserError):
    """A name that is not in a closed list; answers with the nearest one and the list.

    Args:
        kind: What the name stands for ("task", "profile").
        given: The unknown name.
        allowed: All accepted names.
        hint: Where the reader finds the list again, e.g. "See `rle list`."
    """

    def __init__(self, kind: str, given: str, allowed: Iterable[str], hint: str = "") -> None:
        names = list(allowed)
        near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
        meant = f"; did you mean {near[0]!r}?" if near else "."
        listed = ", ".join(names)
        text = f"unknown {kind} {given!r}{meant} Known: {listed}. {hint}".strip()
        super().__init__(text, code="unknown_name")


class NotAvailable(UserError):
    """A task that the benchmark defines but this version does not ship."""

    def __init__(self, task_id: str, landed: Iterable[str]) -> None:
        families = ", ".join(sorted(landed)) or "none"
        super().__init__(
            f"{task_id} is part of the 51 tasks, but its family is not in this version. "
            f"Families here: {families}. See `rle list`.",
            code="not_available",
        )


class MissingReference(UserError):
    """Reference data that the user pointed to lacks a needed file. Never a silent fall-back."""

    def __init__(self, message: str) -> None:
        super().__init__(f"missing_reference: {message}", code="missing_reference")


class BadReference(UserError):
    """Reference data that breaks its format; names the first fault."""

    def __init__(self, message: str) -> None:
        super().__init__(f"bad_reference: {message}", code="bad_reference")


class SimulationError(RleError):
    """Physics that cannot be trusted: a MuJoCo warning, a non-finite state, a full buffer."""

    def __init__(self, message: str, *, code: str = "sim_unstable") -> None:
        super().__init__(f"{code}: {message}", code=code)


class InvalidSubmission(RleError):
    """A submission that cannot be accepted. Scores 0 and stays in the denominator.

    Args:
        code: Key of `AGENT_MESSAGES`.
        fields: Short facts about the submission itself that fill the message.
    """

    def __init__(self, code: str, **fields: object) -> None:
        self.fields = fields
        super().__init__(AGENT_MESSAGES[code].format(**fields), code=code)


class BudgetExceeded(RleError):
    """A budget of the card that ends the attempt was passed."""

    def __init__(self, code: str, **fields: object) -> None:
        self.fields = fields
        super().__init__(AGENT_MESSAGES[code].format(**fields), code=code)


class InfrastructureError(RleError):
    """Our side failed (transfer, disk, sandbox, machine, our own exception): no reward is written."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message, code=code)


class IsolationUnavailable(InfrastructureError):
    """A sandbox layer that the chosen mode needs is missing. Exit code 4, no reward."""

    def __init__(self, layer: str, fact: str, fix: str) -> None:
        super().__init__(
            f"isolation.unavailable: {layer} missing ({fact}). {fix} "
            "Or accept a marked result with --isolation reduced.",
            code="isolation.unavailable",
        )


AGENT_MESSAGES: dict[str, str] = {
    # files: intake and audit
    "file.none": "the folder is empty; put {required} in it",
    "file.missing": "{path} is missing; found: {found}",
    "file.symlink": "{path} is a symbolic link; only regular files are accepted",
    "file.special": "{path} is a {type}; only regular files are accepted",
    "file.hardlink": "{path} is a hard link; only regular files with one name are accepted",
    "file.name": "{name} is not an accepted name; use letters, digits . _ - /",
    "file.case": "{a} and {b} differ only by case or accents",
    "file.vcs": "{path} does not belong in a submission",
    "file.lfs": "{path} is a Git LFS pointer, not the file; run `git lfs pull` and copy again",
    "file.count": "{n} files; at most {max} are accepted",
    "file.depth": "{path} is nested {n} folders deep; at most {max} are accepted",
    "file.size": "{path} has {n} bytes; at most {max} are accepted",
    "file.extra": "{path} is not part of the contract of {task}; allowed: {patterns}",
    "file.empty": "{path} is empty",
    "file.encoding": "{path} is not UTF-8 text (byte {byte})",
    "file.changed": "{path} changed while it was copied; submit a finished folder",
    # session records of f01 to f03
    "ledger.missing": "there is no session record in the hand-over: {detail}",
    "ledger.files": "the hand-over is not what the service left: {detail}",
    "ledger.chain": "the session record is not what the service wrote: {detail}",
    "ledger.sequence": "the session record cannot have happened: {detail}",
    "ledger.signature": "the session record is not signed by this deployment: {detail}",
    "ledger.foreign": "the session record belongs to another task, version or deployment: {detail}",
    "ledger.session": "the session record is not the first of its deployment: {detail}",
    "ledger.unsealed": "the session record is not sealed: {detail}",
    "ledger.budget": "more was spent than the task allows: {detail}",
    # f04: what policy_meta.json says
    "f04.meta": "policy_meta.json is not a JSON object ({fact})",
    "f04.history": "obs_history_length must be an integer {min}..{max}, got {found}",
    "f04.meta_dim": "{key} must be {size} where it is given, got {found}",
    # f07: which pictures a policy asks for
    "f07.channels": "channels.json {fact}; allowed: {allowed}",
    # f06: the first frame decides whether there is an estimator at all
    "f06.answer": "update returned no (x, y, theta, shape_id): {fact}",
    "f06.died": "the estimator did not survive the first frame: {fact}",
    # any artifact: check and load
    "check.time": "{path} could not be checked within {s} s",
    "check.died": "{path} ended the process that checked it (memory or a crash in the library)",
    "load.time": "loading took more than {s} s",
    "ipc.frame": "the worker answered with something that is no message of the protocol",
    "ipc.extra": "the worker wrote to its channel without being asked",
    # actions of a loaded submission
    "action.raised": "the call raised {cls} at line {line}",
    "action.type": "expected {expected}, got {got}",
    "action.shape": "expected {expected}, got shape {got}",
    "action.nonfinite": "expected finite numbers",
    "action.missing": "there is no {name} to call",
    # mjcf and meshes
    "mjcf.xml": "line {line}: {fact}",
    "mjcf.doctype": "line {line}: {what} is not accepted",
    "mjcf.depth": "line {line}: nested more than {max} elements deep",
    "mjcf.element": "line {line}: <{tag}> is not accepted in {parent}; allowed: {allowed}",
    "mjcf.attribute": "line {line}: <{tag}> may not have {name}; allowed: {allowed}",
    "mjcf.value": "line {line}: {path} = '{value}'; allowed: {allowed}",
    "mjcf.number": "line {line}: {path} = '{value}': finite numbers up to {max} are expected",
    "mjcf.range": "line {line}: {path} = '{value}': {min:g} to {max:g} is accepted",
    "mjcf.name": "line {line}: {path} = '{value}' is not an accepted name: letters, digits and _ - /, and "
    "none that begins with arm_ or rle_ but those that the card asks for",
    "mjcf.twice": "line {line}: two <{tag}> elements are named {name}",
    "mjcf.count": "{n} <{tag}> elements; at most {max} are accepted",
    "mjcf.root": "line {line}: {what}; everything hangs below the one root body of the card",
    "mjcf.required": "{missing} missing; the file needs {needed}",
    "mjcf.extra": "{what} is not accepted; allowed: {allowed}",
    "mjcf.unstable": "the file reads differently when it is written again",
    "mjcf.compile": "MuJoCo does not compile the file: {fact}",
    "mjcf.finite": "the compiled model has non-finite numbers in {name}",
    "mjcf.hidden": "the compiled model has {n} in {name}; none is accepted",
    "mjcf.inertia": "{body}: declared {declared} kg, geometry gives {derived} kg",
    "mesh.missing": "line {line}: mesh file {file} is not in the folder, or its name is not accepted",
    "mesh.format": "{file}: {fact}",
    "mesh.vertices": "{file}: {n:,} vertices; at most {max:,}",
    "mesh.number": "{file}: coordinates must be finite and within {max} m",
    # torchscript
    "ts.zip": "not a TorchScript archive as torch.jit.save writes it: {fact}",
    "ts.code": "class {cls} runs code when it is loaded",
    "ts.code_size": "code/ has {n:,} bytes; at most {max:,} are accepted",
    "ts.op": "{op} is not accepted in a model",
    "ts.parameters": "{n:,} stored elements; at most {max:,} are accepted",
    "ts.load": "torch does not load the model: {fact}",
    "ts.run": "the model failed: {fact}",
    "ts.io": "expected {expected}; found {found}",
    "ts.finite": "the model answers with non-finite numbers",
    "ts.stateful": "the same frame gave two answers; the model must be stateless",
    # python packages
    "python.shadow": "{path} would replace a trusted module; choose another name",
    "python.suffix": "{path} is not accepted here; files end in {allowed}",
    "python.syntax": "{path} line {line}: {fact}",
    "python.load": "{path} could not be loaded: {cls} at line {line}",
    "python.factory": "{path} defines no {name}()",
    "python.interface": "{maker} returned an object without {name}",
    "python.signature": "{call} is required: {fact}",
    # recipes and their checkpoints
    "recipe.literals": "{path} carries {n:,} {what} (allowed {max:,}); train the weights in replay",
    "recipe.train": "training ended with code {status}; the worker's log holds what it printed",
    "recipe.died": "training was ended by the system ({fact}); it may use {memory} of memory",
    "recipe.time": "training stopped after {s:,.0f} s without a complete {path}; write checkpoints as you go",
    "recipe.output": "what training left is not accepted: {fact}",
    "recipe.scratch": "training wrote more than {max:,} bytes; delete what is not needed any more",
    "recipe.serve": "no server on the socket after {s:,.0f} s ({fact})",
    "ckpt.load": "{path}: {fact}",
    "ckpt.size": "{path} holds {n:,} elements; at most {max:,} are accepted",
    # onnx
    "onnx.parse": "the ONNX file cannot be read: {fact}",
    "onnx.functions": "{name}: model-local functions are not accepted; inline them at export",
    "onnx.training": "the graph holds training parts; export it for inference",
    "onnx.external": "tensor {name} keeps its data outside the file",
    "onnx.subgraph": "operator {op} at {node} holds a sub-graph; control flow is not accepted",
    "onnx.opset": "opset of the standard domain: {found}; exactly one in {min} to {max} is accepted",
    "onnx.domain": "operator {domain}.{op}; only standard ONNX operators are accepted",
    "onnx.op": "operator {op} at {node} is not in the list; see the card",
    "onnx.nodes": "{n} nodes; at most {max} are accepted",
    "onnx.parameters": (
        "{n:,} parameters (float32 equivalents; {constants:,} of them in Constant nodes); "
        "at most {max:,}. Shrink the network or remove stored tables"
    ),
    "onnx.io": "expected {expected}; found {found}",
    "onnx.shape": "expected {expected}; found {found}: sizes must be static",
    "onnx.infer": "the shapes of the graph are inconsistent: {fact}",
    "onnx.size": "tensor {name} would hold {n:,} elements; at most {max:,} are accepted",
    "onnx.load": "onnxruntime does not load the graph: {fact}",
    "onnx.run": "onnxruntime failed: {fact}",
    "onnx.output": "output {name} came back as {found}; the contract says otherwise",
    "onnx.memory": "loading and one run took {n:,} bytes of memory; at most {max:,} are accepted",
    "onnx.stateful": "the same input gave two answers; the graph must be stateless",
    "onnx.finite": "output {found} for {case} input; finite, moderate numbers are expected",
    "onnx.ignores": "the outputs do not depend on {inputs}",
    "onnx.latency": "median inference {ms} ms; at most {max} ms",
}
"""Every sentence an agent may read about its submission, by code. Tests grep it for seeds,
outside paths, tolerances and reference values."""
