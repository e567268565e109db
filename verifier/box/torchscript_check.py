"""What a TorchScript file holds: a plain zip, little code, counted numbers, no forbidden calls.

`torch.jit.load` runs `__setstate__`, so the code text is scanned before it; the graph of every
method is scanned again after loading, in `torchscript_box`.
"""

import io
import re
import struct
import zipfile
import zlib

from . import torchscript_box
from .roles import CheckRole, quoted
from .wire import Fault

FILE_MARGIN_BYTES = 4 * 2**20
"""Beside 4 bytes an element: code, debug tables, padding."""
MAX_CODE_BYTES = 256 * 1024
MAX_MEMBER_BYTES = 4 * 2**20
"""Largest debug table beside the code."""
MEMBER_OVERHEAD_BYTES = 512
"""Headers and alignment of one zip member."""
SLACK = 0.01
"""Share of the file that may belong to no member."""
MEMBER_NAME = re.compile(r"[A-Za-z0-9_./-]{1,200}", re.ASCII)
BYTES_PER_ELEMENT = 4
NUMBERS = ("data/", "constants/")
"""Folders of stored tensors; the two pickles beside them hold lists and plain numbers."""
PICKLES = ("data.pkl", "constants.pkl")
READ_ERRORS = (zipfile.BadZipFile, zlib.error, struct.error, UnicodeDecodeError, ValueError,
               EOFError, OSError, RuntimeError)  # fmt: skip
"""What `zipfile` raises for members that are not where or what the archive says."""

HOOKS = re.compile(r"\b(__setstate__|__getstate__)\b")
CALLS = re.compile(
    r"(?:\b(?:torch|ops\.\w+)\.)(save|from_file|fork|wait|rand\w*|normal\w*|bernoulli\w*|"
    r"multinomial|poisson|exponential_?|geometric_?|cauchy_?|log_normal_?|uniform_?|random_?|"
    r"seed|manual_seed)\("
)
PRINT = re.compile(r"(?<![\w.])print\(")
TRAINED_DROPOUT = re.compile(r"\b(?:torch\.)\w*dropout_?\([^)]*\bTrue\)")
SET_ATTRIBUTE = re.compile(r"^\s*self(?:\.\w+)+ = ", re.MULTILINE)
CLASS = re.compile(r"^class (\w+)", re.MULTILINE)


def check(files: dict[str, bytes], contract: dict) -> dict:
    """Static check, without torch.

    Args:
        files: The file by its path.
        contract: `rle.contracts.TorchScriptContract` as plain data.

    Returns:
        `n_elements` (stored bytes / 4), `n_code_bytes`.

    Raises:
        Fault: `ts.*` or `file.size`.
    """
    data = files[contract["path"]]
    limit = BYTES_PER_ELEMENT * contract["max_elements"] + FILE_MARGIN_BYTES
    if len(data) > limit:
        raise Fault("file.size", path=contract["path"], n=len(data), max=limit)
    archive, members = _open(data)
    code = _read_code(archive, members)
    stored = sum(
        info.file_size
        for name, info in members.items()
        if name.startswith(NUMBERS) or name in PICKLES
    )
    elements = -(-stored // BYTES_PER_ELEMENT)
    if elements > contract["max_elements"]:
        raise Fault("ts.parameters", n=elements, max=contract["max_elements"])
    for name, text in code.items():
        _check_code(name, text)
    return {"n_elements": elements, "n_code_bytes": sum(map(len, code.values()))}


def _open(data: bytes) -> tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]:
    """The archive, and its members by their name below the one top folder."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        infos = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OverflowError) as error:
        raise Fault("ts.zip", fact=quoted(error, 60)) from None
    if not infos or not data.startswith(b"PK\x03\x04") or archive.comment:
        raise Fault("ts.zip", fact="not the archive that torch.jit.save writes")
    top = infos[0].filename.split("/")[0] + "/"
    members: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        name = info.filename
        is_code = name.removeprefix(top).startswith("code/")  # torch compresses these alone
        plain = info.compress_type == zipfile.ZIP_STORED and info.file_size == info.compress_size
        is_code &= info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        parts = name.split("/")
        if not MEMBER_NAME.fullmatch(name) or ".." in parts or not name.startswith(top):
            raise Fault("ts.zip", fact=f"member {quoted(name, 60)}")
        if not (plain or is_code) or info.flag_bits & 0x1:
            raise Fault("ts.zip", fact=f"member {quoted(name, 60)} is compressed")
        if name.removeprefix(top) in members:
            raise Fault("ts.zip", fact=f"member {quoted(name, 60)} is there twice")
        members[name.removeprefix(top)] = info
    unexplained = len(data) - sum(info.compress_size for info in infos)
    if not 0 <= unexplained <= SLACK * len(data) + MEMBER_OVERHEAD_BYTES * len(infos):
        raise Fault("ts.zip", fact=f"{unexplained} bytes belong to no member")
    return archive, members


def _read_code(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> dict[str, str]:
    """Code texts by name; sizes are those really there, whatever the archive declares."""
    code, total = {}, 0
    for name, info in members.items():
        if not name.startswith("code/"):
            continue
        declared = info.file_size if name.endswith(".py") else 0
        total += declared
        if total > MAX_CODE_BYTES:
            raise Fault("ts.code_size", n=total, max=MAX_CODE_BYTES)
        try:
            with archive.open(info) as member:
                content = member.read(MAX_MEMBER_BYTES + 1)
            if len(content) != info.file_size:
                raise Fault("ts.zip", fact=f"member {quoted(name, 60)} has another size")
            if name.endswith(".py"):
                code[name] = content.decode("utf-8")
        except READ_ERRORS:
            raise Fault("ts.zip", fact="the code cannot be read") from None
    return code


def _check_code(name: str, text: str) -> None:
    if found := HOOKS.search(text):
        before = CLASS.findall(text[: found.start()])
        raise Fault("ts.code", cls=quoted(before[-1] if before else name, 60))
    for pattern in (CALLS, PRINT, TRAINED_DROPOUT):
        if found := pattern.search(text):
            raise Fault("ts.op", op=quoted(found.group(0).split("(")[0], 60))
    if found := SET_ATTRIBUTE.search(text):
        raise Fault("ts.op", op=quoted(found.group(0).strip(), 60))


def check_and_probe(files: dict[str, bytes], contract: dict) -> dict:
    """`check`, then load, scan the graphs, and run the statelessness test."""
    facts = check(files, contract)
    torchscript_box.probe(files[contract["path"]], contract)
    return facts


def build(config: dict) -> CheckRole:
    return CheckRole(check_and_probe)
