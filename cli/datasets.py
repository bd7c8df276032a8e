"""`drafthouse datasets`: list them, register a file, forget one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.output import print_json, print_table
from jobs.datasets.listing import DatasetState, add_dataset, list_datasets
from jobs.datasets.registry import remove_dataset
from warehouse.settings import load_settings

app = typer.Typer(help="What prompts there are, and registering your own.")


@app.callback(invoke_without_command=True)
def datasets(
    context: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """List the datasets, with source, licence, where to get the file, and whether it is registered here."""
    if context.invoked_subcommand is not None:
        return
    found = list_datasets(load_settings())
    if as_json:
        print_json([each.model_dump(mode="json") for each in found])
        return
    print_table(("dataset", "state", "prompts", "what"), [(d.name, d.state, _prompts(d), d.what) for d in found])
    for each in found:
        if each.state == "missing":
            print(f"\n{each.name}: {each.source}\n  licence: {each.licence}\n  to get it: {each.how_to_get}")
            print(f"  its columns: {each.columns}")
    if any(each.state == "missing" for each in found):
        print("\nA file you have got is registered with `drafthouse datasets add NAME FILE`.")


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="sharegpt, spec_bench, ... or a new name for prompts of your own.")],
    file: Annotated[Path, typer.Argument(help="The file as downloaded, or JSONL with a prompt or messages a line.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Check a whole file and register a copy of it; a wrong line is named, and nothing of the file is kept then."""
    added = add_dataset(load_settings(), name, file)
    if as_json:
        print_json(added.model_dump(mode="json"))
        return
    left_out = f" ({added.stock.left_out:,} records are not used)" if added.stock and added.stock.left_out else ""
    print(f"dataset {added.name}: {_prompts(added)} prompts{left_out}, sha256 {added.sha256}")


@app.command()
def remove(name: Annotated[str, typer.Argument(help="As it was registered.")]) -> None:
    """Forget a registered file and delete the copy; the original stays where it is."""
    remove_dataset(load_settings(), name)
    print(f"dataset {name} is no longer registered")


def _prompts(dataset: DatasetState) -> str:
    return "any number" if dataset.state == "built in" and dataset.stock is None else _count(dataset)


def _count(dataset: DatasetState) -> str:
    return "" if dataset.stock is None else f"{dataset.stock.rows:,}"
