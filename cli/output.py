"""Tables and JSON on the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, default=str, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print values literally: nothing in them is read as Rich markup."""
    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    console = Console()
    if not console.is_terminal:
        console.width = 4096  # a program reads this: nothing may be cut off
    console.print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
