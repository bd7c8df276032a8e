"""`drafthouse datasets`: list the datasets, register a file, remove one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.arguments import AsJson
from cli.lab import the_lab
from cli.output import print_json, print_table, print_text
from jobs.datasets.files import Stock
from jobs.datasets.listing import DatasetState

app = typer.Typer(add_completion=False)


@app.callback(invoke_without_command=True)
def datasets(
    context: typer.Context,
    *,
    as_json: AsJson = False,
) -> None:
    """List the datasets with source and licence, and register or remove your own."""
    if context.invoked_subcommand is not None:
        return
    states = the_lab(ready=False).datasets()
    if as_json:
        print_json([state.model_dump(mode="json") for state in states])
        return
    print_table(
        ("dataset", "state", "prompts", "description"), [(d.name, d.state, _prompts(d), d.what) for d in states]
    )
    for state in states:
        if state.state == "missing":
            print_text(f"\n{state.name}: {state.source}\n  licence: {state.licence}\n  to get it: {state.how_to_get}")
            print_text(f"  its columns: {state.columns}")
    if any(state.state == "missing" for state in states):
        print_text("\nRegister a downloaded file with `drafthouse datasets add NAME FILE`.")


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="sharegpt, spec_bench, ... or a new name.")],
    file: Annotated[Path, typer.Argument(help="As downloaded, or JSONL with one prompt or messages a line.")],
    *,
    replace: Annotated[bool, typer.Option("--replace", help="Replace another file of this name.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a file and register a copy of it."""
    added = the_lab().add_dataset(name, file, replace=replace)
    if as_json:
        print_json(added.model_dump(mode="json"))
        return
    skipped = _skipped(added.stock) if added.stock else ""
    print_text(f"dataset {added.name}: {_prompts(added)} prompts{skipped}, sha256 {added.sha256}")


@app.command()
def remove(name: Annotated[str, typer.Argument(help="The name it was registered under.")]) -> None:
    """Remove a registered dataset and delete its copy; the original file stays."""
    the_lab().remove_dataset(name)
    print_text(f"dataset {name} is no longer registered")


def _skipped(stock: Stock) -> str:
    counts = [f"{stock.left_out:,} records skipped"] if stock.left_out else []
    counts += [f"{stock.invalid:,} invalid ones, the first in {stock.first_invalid}"] if stock.invalid else []
    return f" ({', '.join(counts)})" if counts else ""


def _prompts(dataset: DatasetState) -> str:
    if dataset.stock is None:
        return "any number" if dataset.state == "built in" else ""
    return f"{dataset.stock.rows:,}"
