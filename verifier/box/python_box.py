"""Runs a submitted Python package: imports it, makes its object, calls declared functions.

Arguments are built from raw arrays and results are turned into raw arrays here, by the contract;
what the submission returns or raises never travels as an object.
"""

import importlib
import inspect
import numbers
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import wire
from .wire import FUNCTION, Fault, Layout

CLASS_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,59}")
KEPT = "kept:"
"""Prefix of a target that is a value kept in the worker."""
REAL_KINDS, INTEGER_KINDS = "fiu", "iu"
"""numpy kinds that a float and an integer result may have."""


class PythonRole:
    """Holds one package and the values that its calls keep."""

    def load(self, fields: dict) -> dict:
        contract, given = fields["contract"], fields["fields"]
        self._root = str(Path(fields["root"]) / contract["folder"])
        self._functions = [
            {
                **f,
                "inputs": Layout([a for arg in f["args"] for a in arg["arrays"]]),
                "outputs": Layout(f["returns"]),
            }
            for f in contract["functions"]
        ]
        self._kept: dict[str, Any] = dict(given)
        if contract["compile_model"]:
            self._kept["model"] = _compile_model(given)
        sys.path.append(self._root)
        entry = contract["entry"]
        module = self._guard(
            "python.load", importlib.import_module, entry.removesuffix(".py"), path=entry
        )
        self._object = module
        if contract["factory"]:
            factory = getattr(module, contract["factory"], None)
            if not callable(factory):
                raise Fault("python.factory", path=entry, name=contract["factory"])
            self._object = self._guard("python.load", factory, path=entry)
        self._check_interface(contract)
        return {}

    def _check_interface(self, contract: dict) -> None:
        maker = f"{contract['factory']}()" if contract["factory"] else contract["entry"]
        by_target = {f["target"] or f["name"]: f for f in self._functions}
        for name in contract["required"]:
            target = getattr(self._object, name, None)
            if not callable(target):
                raise Fault("python.interface", maker=maker, name=name)
            if name in by_target:
                _check_signature(name, target, by_target[name])

    def reset(self, fields: dict) -> None:
        target = getattr(self._object, "reset", None)
        if not callable(target):
            raise Fault("action.missing", name="reset")
        self._guard("action.raised", lambda: target(*fields.values()))

    def act(self, payload: memoryview) -> bytes:
        (number,) = FUNCTION.unpack_from(payload)
        function = self._functions[number]
        arrays = function["inputs"].unpack(payload, FUNCTION.size)
        target = self._target(function)
        positional, keywords = self._arguments(function["args"], iter(arrays))
        value = self._guard("action.raised", lambda: target(*positional, **keywords))
        if function["keep"]:
            self._kept[function["keep"]] = value
            return b""
        results = self._guard("action.raised", lambda: convert(value, function["returns"]))
        return function["outputs"].pack(results)

    def _target(self, function: dict) -> Callable:
        name = function["target"] or function["name"]
        if name.startswith(KEPT):
            target = self._kept.get(name.removeprefix(KEPT))
        else:
            target = getattr(self._object, name, None)
        if not callable(target):
            raise Fault("action.missing", name=name)
        return target

    def _arguments(self, args: list[dict], arrays) -> tuple[list, dict]:
        positional, keywords = [], {}
        for arg in args:
            value = self._argument(arg, arrays)
            if arg["keyword"]:
                keywords[arg["keyword"]] = value
            else:
                positional.append(value)
        return positional, keywords

    def _argument(self, arg: dict, arrays) -> Any:
        if arg["kind"] == "kept":
            if arg["kept"] not in self._kept:
                raise Fault("action.missing", name=arg["kept"])
            return self._kept[arg["kept"]]
        values = {spec["name"]: next(arrays) for spec in arg["arrays"]}
        if arg["kind"] == "records":
            count = len(next(iter(values.values())))
            return [{name: array[i] for name, array in values.items()} for i in range(count)]
        plain = {name: a.item() if a.shape == () else a for name, a in values.items()}
        return plain if arg["kind"] == "dict" else next(iter(plain.values()))

    def _guard(self, code: str, act: Callable, *args: Any, **fields: object) -> Any:
        """Runs code of the submission; what it raises becomes a fault with its class and line.

        `SystemExit` and the like pass: they end the worker, as the submission asked.
        """
        try:
            return act(*args)
        except Fault:
            raise
        except Exception as error:
            line = self._line_of(error)
            name = type(error).__name__
            shown = name if CLASS_NAME.fullmatch(name) else "an exception"
            traceback.print_exception(error, file=sys.stderr)
            raise Fault(code, cls=shown, line=line, **fields) from None

    def _line_of(self, error: Exception) -> int:
        """Last line of the traceback that lies in the package, else its last line."""
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if f.filename.startswith(self._root)]
        chosen = (own or frames)[-1:]
        if isinstance(error, SyntaxError):
            return error.lineno or 0
        return chosen[0].lineno or 0 if chosen else 0


def _compile_model(fields: dict) -> Any:
    import mujoco  # only contracts that ask for a model pay for it

    assets = fields.get("model_assets") or {}
    return mujoco.MjModel.from_xml_string(fields["model_xml"], assets)


def _check_signature(name: str, target: Callable, function: dict) -> None:
    """The declared call must fit the function's parameters."""
    positional = [None for arg in function["args"] if not arg["keyword"]]
    keywords = {arg["keyword"]: None for arg in function["args"] if arg["keyword"]}
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return  # a callable without a readable signature: its first call will tell
    try:
        signature.bind(*positional, **keywords)
    except TypeError as error:
        star = ["*"] if keywords and not positional else []
        shown = ", ".join([*star, *map(_argument_name, function["args"])])
        raise Fault("python.signature", call=f"{name}({shown})", fact=str(error)[:120]) from None


def _argument_name(arg: dict) -> str:
    names = [spec["name"] for spec in arg["arrays"]]
    whole = {"dict": f"{{{', '.join(names)}}}", "records": "records"}.get(arg["kind"])
    return arg["keyword"] or arg["kept"] or whole or "_".join(names[:1])


def convert(value: Any, specs: list[dict]) -> list[np.ndarray]:
    """Turns what a function returned into arrays of exactly the declared shapes and dtypes.

    Raises:
        Fault: `action.type` or `action.shape`.
    """
    if len(specs) == 1:
        return [_convert_one(value, specs[0])]
    expected = f"({', '.join(spec['name'] for spec in specs)})"
    if not isinstance(value, tuple | list):
        raise Fault("action.type", expected=expected, got=type(value).__name__[:60])
    if len(value) != len(specs):
        raise Fault("action.type", expected=expected, got=f"{len(value)} values")
    return [_convert_one(item, spec) for item, spec in zip(value, specs, strict=True)]


def _convert_one(value: Any, spec: dict) -> np.ndarray:
    dtype, shape = wire.DTYPES[spec["dtype"]], tuple(spec["shape"])
    whole = dtype.kind in INTEGER_KINDS
    if shape == ():
        kind = numbers.Integral if whole else numbers.Real
        if isinstance(value, bool | np.bool_) or not isinstance(value, kind):
            expected = f"{spec['name']} as {'an integer' if whole else 'a real number'}"
            raise Fault("action.type", expected=expected, got=type(value).__name__[:60])
        if whole and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
            raise Fault("action.type", expected=f"{spec['name']} as {dtype}", got="a larger one")
        return np.array(value, dtype)
    count = " x ".join(map(str, shape))
    expected = f"{count} finite numbers"
    try:
        array = np.asarray(value)
    except ValueError:
        raise Fault("action.type", expected=expected, got="a ragged sequence") from None
    if array.dtype.kind not in (INTEGER_KINDS if whole else REAL_KINDS):
        raise Fault("action.type", expected=expected, got=f"{type(value).__name__[:60]}")
    if array.shape != shape:
        raise Fault("action.shape", expected=expected, got=str(array.shape)[:60])
    with np.errstate(over="ignore"):
        return np.array(array, dtype)


def build(config: dict) -> PythonRole:
    for name in config["modules"]:
        importlib.import_module(name)
    return PythonRole()
