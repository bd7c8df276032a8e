"""`drafthouse import`: result files of other tools become runs of the warehouse."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from cli.arguments import AsJson
from cli.lab import the_lab
from cli.output import print_json, print_table, print_text, printable
from host.process_memory import allocate_like_the_system, do_without_pandas
from lab.errors import UserError

if TYPE_CHECKING:
    from interchange.reading import Progress as ImportProgress

Paths = Annotated[list[str], typer.Argument(help="Result files, folders of them, or an exported folder.")]
Tool = Annotated[str, typer.Option(help="Only this format, as docs/importing.md names it.")]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", help="KEY=VALUE for every run: study, arm, hardware ..."),
]
AsMeasured = Annotated[
    bool,
    typer.Option(
        "--as-measured",
        help="Restore exported runs with their ids, as if measured here.",
    ),
]


def import_results(
    paths: Paths, *, tool: Tool = "auto", label: Labels = None, as_measured: AsMeasured = False, as_json: AsJson = False
) -> None:
    """Import result files of other tools: all that are named or none; of a folder, all that can be read.

    Runs imported before are not changed.
    """
    if "" in paths:  # of a script whose variable is not set; it would be the working directory
        raise UserError("an empty path names no file: write . for the working directory")
    do_without_pandas()
    allocate_like_the_system()
    here, labels = the_lab(), dict(map(_label, label or []))
    with _bar() as progress:
        imported = here.import_paths(list(map(Path, paths)), tool, labels, progress, as_measured=as_measured)
    if as_json:
        print_json(imported.document)
        return
    _show(imported.document)
    if imported.later:
        print_text("The running ingester adds them to the warehouse within seconds.")


@contextlib.contextmanager
def _bar() -> Iterator[ImportProgress]:
    """Show an import's progress on a terminal, and remove it at the end."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading files", total=1.0)
        yield lambda doing, share: bar.update(task, description=printable(doing), completed=share)


def _label(text: str) -> tuple[str, str]:
    key, mark, value = text.partition("=")
    if not (mark and key.strip() and value.strip()):
        raise UserError(f"--label {text!r} is not a label: write KEY=VALUE")
    return key.strip(), value.strip()


def _show(imported: Mapping[str, Any]) -> None:
    runs = imported["runs"]
    new = sum(run["new"] for run in runs)
    if any("file" not in run for run in runs):
        print_text(f"{new} of {len(runs)} runs are new, in the jobs {', '.join(imported['jobs'])}")
        return
    print_table(("run", "tool", "target", "in the file", "", "file"), map(_row, runs))
    for run in runs:
        for doubt in run["doubts"]:
            print_text(f"doubt about {run['run_id'][:12]}: {doubt}")
    for skipped in imported["skipped"]:
        print_text(f"skipped {skipped}")
    for refused in imported["refused"]:
        print_text(f"not imported: {refused}")
    print_text(f"{new} of {len(runs)} runs are new, in the jobs {', '.join(imported['jobs'])}")


def _row(run: Mapping[str, Any]) -> tuple[str, ...]:
    where = "" if run["new"] else "imported before"
    tool = " ".join(filter(None, (run["tool"], run["tool_version"])))
    return (run["run_id"][:12], tool, run["target"], run["place"], where, run["file"])
