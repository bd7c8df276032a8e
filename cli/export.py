"""`drafthouse export`: a study out of the warehouse."""

# ruff: noqa: PLC0415 - what writes Parquet is imported when it is asked for
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.output import print_json
from warehouse.queries.connect import open_warehouse
from warehouse.settings import load_settings

StudyId = Annotated[str, typer.Argument(help="A job's id, the beginning of a study's digest, or a study's name.")]
To = Annotated[
    Path,
    typer.Option(
        help="A new folder (Parquet and JSON, for another Drafthouse to import), or a file: .csv or .parquet with a "
        "row a run, .json as `vllm bench serve` writes it."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def export(study: StudyId, *, to: To, as_json: AsJson = False) -> None:
    """Write a study's runs to a folder or a file; the end of its name says as what."""
    from warehouse.bundles.export import export as export_study

    settings = load_settings()
    with open_warehouse(settings.warehouse_file) as con:
        runs = export_study(settings.bundles, con, study, to)
    if as_json:
        print_json({"runs": runs, "to": str(to.absolute())})
    else:
        print(f"{runs} runs of {study} are in {to.absolute()}")
