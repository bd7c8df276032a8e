"""What a dataset is: a declaration, one a name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jobs.datasets.formats.rows import RowReader
from jobs.datasets.prompt import Prompt
from jobs.datasets.tokenizer import TargetTokenizer
from lab.study import Workload

#: From workload, number of prompts, seed and tokenizer to prompts; fewer of them are the start of more.
Maker = Callable[[Workload, int, int, TargetTokenizer], tuple[Prompt, ...]]
#: The files that come with Drafthouse.
SHIPPED = Path(__file__).parents[2] / "datasets"


@dataclass(frozen=True)
class Dataset:
    """One dataset: where it is from, what one may do with it, and how it becomes prompts.

    It is made (`make`), or its file is read row by row (`read_row`): the file that is `shipped`, the one that the user
    registered under the name, or, for the reference prompts, those of the prepared models. `synthetic`: its prompts
    are random tokens, so acceptance means little. `fits`: which lengths (prompt, output tokens) are used.
    """

    name: str
    what: str
    source: str
    licence: str
    how_to_get: str
    columns: str
    make: Maker | None = None
    read_row: RowReader | None = None
    shipped: str | None = None
    synthetic: bool = False
    fits: Callable[[int, int], bool] | None = None

    @property
    def is_registered(self) -> bool:
        """Whether its file must be registered by the user before it can be used."""
        return self.read_row is not None and self.shipped is None and self.name != "reference"
