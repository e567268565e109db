"""Runs the check of an artifact in a sandbox and turns its findings into `Checked`."""

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from rle.contracts import (
    CheckpointContract,
    DataContract,
    MjcfContract,
    OnnxContract,
    OnnxProbes,
    PythonContract,
    RecipeContract,
    TorchScriptContract,
)
from rle.errors import InvalidSubmission
from rle.spec import Kind, Profile
from rle.verify_api import Checked
from verifier.box import wire
from verifier.isolation.channel import ChannelTimeout, ProtocolFault
from verifier.isolation.launch import LaunchSpec, Sandboxed, WorkerDied
from verifier.isolation.layers import PROFILES, Plan
from verifier.isolation.worker import invalid, invalid_for
from verifier.submission import Frozen

ANSWER_LIMIT = 64 * 2**20
"""Largest answer of a check: canonical text and meshes."""
CHECK_CAP_S: dict[str, float] = {"onnx": 60.0, "torchscript": 120.0, "mjcf": 60.0, "python": 60.0}
"""Longest wall time of one check, its probes and compilation included."""
CHECKED_AS: dict[type, tuple[Kind, Profile, str]] = {
    OnnxContract: ("onnx", "onnx", "onnx_check"),
    TorchScriptContract: ("torchscript", "torchscript", "torchscript_check"),
    MjcfContract: ("mjcf", "mjcf", "mjcf_check"),
    PythonContract: ("python", "python", "python_check"),
    RecipeContract: ("recipe", "python", "recipe.source_check"),
    CheckpointContract: ("recipe", "torchscript", "recipe.ckpt_check"),
}
"""Kind of a contract, profile of the worker that checks it, and the module of the box that does."""
MESH_SUFFIXES = (".stl", ".obj")


@dataclass(frozen=True)
class Checker:
    """Checks artifacts of one frozen submission."""

    frozen: Frozen
    plan: Plan

    def check(self, kind: Kind, contract: msgspec.Struct) -> Checked:
        """Checks one artifact against its contract.

        Raises:
            InvalidSubmission: With the code and facts of the first finding.
            ValueError: The contract is not one of this kind (our mistake).
        """
        if isinstance(contract, DataContract):
            return self._data(contract)
        expected, profile, role = CHECKED_AS.get(type(contract), (None, None, ""))
        if kind != expected or profile is None:
            raise ValueError(f"{type(contract).__name__} is no contract of kind {kind!r}")
        files = self._files_of(contract)
        answer = self._ask(profile, role, contract, files)
        if isinstance(contract, OnnxContract):
            self._repeat(contract, answer.pop("probe_digest"))
        if isinstance(contract, MjcfContract) and contract.family_judges:
            faults = answer["mesh_faults"].items()
            told = {file: invalid_for(code, fields).message for file, (code, fields) in faults}
            answer["mesh_faults"] = told | self._refused_beside(contract.path)
        canonical = answer.pop("canonical", None)
        assets = answer.pop("assets", {})
        return Checked(
            kind=kind,
            contract=contract,
            files=tuple(files),
            facts=answer,
            canonical=canonical,
            assets=assets,
        )

    def _refused_beside(self, path: str) -> dict[str, str]:
        """Files of the same folder that the intake refused, by name, with the reason."""
        folder = posixpath.dirname(path)
        return {
            posixpath.basename(name): error.message
            for name, error in self.frozen.refused.items()
            if posixpath.dirname(name) == folder
        }

    def _data(self, contract: DataContract) -> Checked:
        data = self.frozen.read(contract.path)
        if len(data) > contract.max_bytes:
            raise InvalidSubmission(
                "file.size", path=contract.path, n=len(data), max=contract.max_bytes
            )
        if contract.text:
            try:
                data.decode("utf-8")
            except UnicodeDecodeError as error:
                raise InvalidSubmission(
                    "file.encoding", path=contract.path, byte=error.start
                ) from None
        return Checked(
            kind="data", contract=contract, files=(contract.path,), facts={}, canonical=data
        )

    def _files_of(self, contract: msgspec.Struct) -> list[str]:
        names = self.frozen.names()
        if isinstance(contract, PythonContract):
            folder = f"{contract.folder}/" if contract.folder else ""
            main, files = folder + contract.entry, [n for n in names if n.startswith(folder)]
        elif isinstance(contract, MjcfContract):
            main = contract.path
            folder = contract.mesh_folder or posixpath.dirname(main)
            files = [main] + [
                n
                for n in names
                if posixpath.dirname(n) == folder and n.lower().endswith(MESH_SUFFIXES)
            ]
        elif isinstance(
            contract, OnnxContract | TorchScriptContract | RecipeContract | CheckpointContract
        ):
            main = contract.path
            files = [main]
        else:
            raise ValueError(f"{type(contract).__name__} names no file")
        if refusal := self.frozen.refusal(main):
            raise refusal
        if main not in names:
            raise InvalidSubmission(
                "file.missing", path=main, found=", ".join(names[:5]) or "nothing"
            )
        return files

    def _ask(
        self, profile: Profile, role: str, contract: msgspec.Struct, files: Sequence[str], **more
    ) -> dict:
        """One request to a fresh check worker; a worker that dies gets one more try."""
        cap_s = CHECK_CAP_S[profile]
        spec = LaunchSpec(
            profile=profile,
            role=role,
            plan=self.plan,
            submission=self.frozen.folder,
            cpu_s=int(2 * cap_s),
        )
        request = {
            "root": str(self.frozen.folder),
            "files": list(files),
            "contract": msgspec.to_builtins(contract),
            **more,
        }
        limits = {wire.READY: ANSWER_LIMIT, wire.FAULT: wire.FAULT_LIMIT}
        for attempt in (1, 2):
            with Sandboxed(spec) as worker:
                try:
                    kind, payload = worker.request(
                        wire.LOAD, wire.encode_fields(request), cap_s, limits, charge=False
                    )
                    break
                except ChannelTimeout:
                    raise InvalidSubmission("check.time", path=files[0], s=f"{cap_s:g}") from None
                except (WorkerDied, ProtocolFault) as error:
                    if attempt == 2:
                        raise InvalidSubmission("check.died", path=files[0]) from error
        if kind == wire.FAULT:
            raise invalid(payload)
        return wire.decode_fields(payload)

    def _repeat(self, contract: OnnxContract, digest: str) -> None:
        """The same probes in a new process must give the same bits."""
        answer = self._ask(
            "onnx",
            PROFILES["onnx"].run_role,
            contract,
            [contract.path],
            probe_only=msgspec.to_builtins(OnnxProbes()),
        )
        if answer["probe_digest"] != digest:
            raise InvalidSubmission("onnx.stateful")
