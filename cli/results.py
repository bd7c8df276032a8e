"""The published results of a study that was named on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from cli.lab import the_lab
from cli.output import print_error
from warehouse.queries.comparing.paired_runs import newer_without_results
from warehouse.queries.connect import open_warehouse


@contextmanager
def results_of(study: str, warehouse_file: Path | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the published warehouse, by default that of the chosen lab.

    Names on standard error a newer job of that name without results.
    """
    with open_warehouse(warehouse_file or the_lab().warehouse_file) as con:
        if note := newer_without_results(con, study):
            print_error(f"note: {note}")
        yield con
