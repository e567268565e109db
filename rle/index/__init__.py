"""The RLE Index: results in, one number with its uncertainty out.

`run_index` does all of it. The denominator is always the 51 tasks; a missing one counts 0 and says so.
"""

from rle.index.corrected import AuditEntry, append_entry
from rle.index.model import IndexInput, input_schema
from rle.index.result import IndexResult, result_schema
from rle.index.run import IndexOptions, run_index

__all__ = [
    "AuditEntry",
    "IndexInput",
    "IndexOptions",
    "IndexResult",
    "append_entry",
    "input_schema",
    "result_schema",
    "run_index",
]
