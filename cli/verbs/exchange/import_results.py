"""`drafthouse import`: result files of other tools become runs of the warehouse."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from cli.arguments import AsJson
from cli.home import ready_settings
from cli.output import print_json, print_table
from jobs.access.local import local_actor
from lab.errors import UserError
from warehouse.importers.documents import import_document
from warehouse.importers.store import Import, import_paths
from warehouse.importers.store import Progress as ImportProgress
from warehouse.ingest.service import ingest_all
from warehouse.process_memory import do_without_pandas, give_back_memory
from warehouse.settings import Settings

Paths = Annotated[
    list[Path], typer.Argument(help="Result files, folders of them, or a folder that `drafthouse export` wrote.")
]
Tool = Annotated[str, typer.Option(help="Accept only this format; docs/importing.md has the names.")]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label", help="KEY=VALUE, added to every run; study, arm, hardware and others fill in what the file lacks."
    ),
]


def import_results(paths: Paths, *, tool: Tool = "auto", label: Labels = None, as_json: AsJson = False) -> None:
    """Import result files of other tools: all of them or none.

    Runs that were imported before stay as they are.
    """
    do_without_pandas()
    pa.set_memory_pool(pa.system_memory_pool())  # which gives back more than Arrow's own
    settings = ready_settings()
    labels = dict(map(_label, label or []))
    with _bar() as progress:
        imported = import_paths(settings, paths, tool, labels, progress, actor=local_actor())
        progress("adding to the warehouse", 1.0)
        give_back_memory()
        ingested = _ingest(settings) if imported.new_run_ids else True
    if as_json:
        print_json(import_document(imported))
        return
    _show(imported)
    if not ingested:
        print("The running ingester adds them to the warehouse within seconds.")


@contextlib.contextmanager
def _bar() -> Iterator[ImportProgress]:
    """Show how far the import is, on a terminal; nothing stays of it."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading files", total=1.0)
        yield lambda doing, share: bar.update(task, description=doing, completed=share)


def _label(text: str) -> tuple[str, str]:
    key, mark, value = text.partition("=")
    if not (mark and key.strip() and value.strip()):
        raise UserError(f"--label {text!r} is not a label: write KEY=VALUE")
    return key.strip(), value.strip()


def _ingest(settings: Settings) -> bool:
    """Ingest the new bundles here. Returns False if an ingester runs, which does it then."""
    try:
        ingest_all(settings)
    except UserError:
        return False
    return True


def _show(imported: Import) -> None:
    new = set(imported.new_run_ids)
    if imported.taken_in:
        print(f"{len(new)} of {len(imported.taken_in)} runs are new; they keep the ids that they were exported with")
        return
    rows = [
        (
            run.run_id[:12],
            run.tool,
            run.columns["target"],
            run.place,
            "" if run.run_id in new else "imported before",
            run.source.name,
        )
        for run in imported.runs
    ]
    print_table(("run", "tool", "target", "in the file", "", "file"), rows)
    for run in imported.runs:
        for doubt in run.doubts:
            print(f"doubt about {run.run_id[:12]}: {doubt}")
    for skipped in imported.skipped:
        print(f"skipped {skipped}")
    print(f"{len(new)} of {len(imported.runs)} runs are new, in the jobs {', '.join(imported.jobs)}")
