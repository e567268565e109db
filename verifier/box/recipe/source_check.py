"""Whether a recipe carries weights in its source: a recipe is code, what it learns it must learn anew.

Three limits, all hard. How far the file can be compressed bounds what it can hold, however it is spelled:
in literals, names, comments or white space. Opaque literals are long runs of bytes, or of text without
the white space that prose has. And numbers are counted. Nothing is executed.
"""

import ast
import zlib

from ..python_check import check_syntax
from ..roles import CheckRole
from ..wire import Fault

OPAQUE_MIN_BYTES = 128
"""Shorter literals are names, keys and messages."""
PROSE_SPACE_SHARE = 0.08
"""Share of ASCII white space that a long text must have to be prose; English has about 0.17."""
SPACES = " \t\n\r\f\v"
JOINED = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.JoinedStr, ast.Call, ast.Starred)
"""Nodes whose constants are read as one text, so that cutting a literal into pieces changes nothing."""


def check(files: dict[str, bytes], contract: dict) -> dict:
    """Measures a recipe.

    Args:
        files: The one file by its path.
        contract: `rle.contracts.RecipeContract` as plain data.

    Returns:
        `recipe_literal_bytes`, `recipe_compressed_bytes`, `recipe_numbers`.

    Raises:
        Fault: `file.encoding`, `python.syntax` or `recipe.literals`.
    """
    path = contract["path"]
    data = files[path]
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Fault("file.encoding", path=path, byte=error.start) from None
    check_syntax(path, data)
    compressed = len(zlib.compress(data, 9))
    opaque, numbers = measure(ast.parse(text))
    for n, limit, what in (
        (compressed, contract["compressed_max_bytes"], "bytes when compressed"),
        (opaque, contract["opaque_max_bytes"], "bytes of opaque literals"),
        (numbers, contract["numbers_max_n"], "numbers"),
    ):
        if n > limit:
            raise Fault("recipe.literals", path=path, n=n, what=what, max=limit)
    return {
        "recipe_literal_bytes": opaque,
        "recipe_compressed_bytes": compressed,
        "recipe_numbers": numbers,
    }


def measure(tree: ast.AST) -> tuple[int, int]:
    """Bytes in opaque literals, and numbers, of a syntax tree of any depth."""
    opaque, numbers = 0, 0
    groups: list[list[str | bytes]] = [[]]
    pending: list[tuple[ast.AST, list[str | bytes]]] = [(tree, groups[0])]
    while pending:
        node, group = pending.pop()
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str | bytes):
                group.append(node.value)
            elif isinstance(node.value, int | float | complex) and not isinstance(node.value, bool):
                numbers += 1
            continue
        is_sum = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
        joins = is_sum or isinstance(node, JOINED)
        for child in reversed(list(ast.iter_child_nodes(node))):
            if not joins:
                groups.append([])
            pending.append((child, group if joins else groups[-1]))
    for group in groups:
        raw = b"".join(value for value in group if isinstance(value, bytes))
        prose = "".join(value for value in group if isinstance(value, str))
        opaque += len(raw) if len(raw) >= OPAQUE_MIN_BYTES else 0
        opaque += _opaque_bytes(prose)
    return opaque, numbers


def _opaque_bytes(text: str) -> int:
    size = len(text.encode("utf-8", "surrogatepass"))
    spaces = sum(text.count(space) for space in SPACES)
    is_opaque = size >= OPAQUE_MIN_BYTES and spaces < PROSE_SPACE_SHARE * len(text)
    return size if is_opaque else 0


def build(config: dict) -> CheckRole:
    return CheckRole(check)
