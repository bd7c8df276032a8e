"""`drafthouse export`: a study's runs as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.arguments import AsJson, StudyId
from cli.lab import the_lab
from cli.output import print_json, print_text
from cli.results import results_of
from interchange.export import export as export_study
from interchange.export import is_folder

To = Annotated[
    Path,
    typer.Option(
        help="A new folder, which another Drafthouse can import, or a file: .csv, .parquet, or .json as `vllm bench "
        "serve` writes it."
    ),
]


def export(study: StudyId, *, to: To, as_json: AsJson = False) -> None:
    """Export a study's runs to a folder or a file; the suffix chooses the format."""
    here = the_lab()
    replaced = ", in place of the file that was there" if to.is_file() else ""
    with results_of(study, here.warehouse_file) as con:
        runs = export_study(here.bundles(con, study) if is_folder(to) else to.parent, con, study, to)
    if as_json:
        print_json({"runs": runs, "to": str(to.absolute())})
    else:
        print_text(f"{runs} runs of {study} are in {to.absolute()}{replaced}")
