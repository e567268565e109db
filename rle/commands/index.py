"""`rle index`: folds results into the RLE Index."""

import dataclasses
import json
from pathlib import Path

from rle.index import IndexOptions, run_index


@dataclasses.dataclass
class Index(IndexOptions):
    """Folds results into the RLE Index. Example: rle index results/* --html results/index.html"""

    html: Path | None = None
    """Write the Index page."""
    csv: Path | None = None
    """Write every cell with every native metric, unrounded."""
    json: bool = False
    """Print the result on stdout."""

    def run(self) -> int:
        result = run_index(self)
        if self.html is not None:
            from rle.pages import write_index_page

            write_index_page(result, self.html)
        if self.csv is not None:
            self.csv.write_text(result.to_csv())
        print(json.dumps(result.to_json(), indent=2) if self.json else result.summary())
        return 0
