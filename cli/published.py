"""`drafthouse published`: what others published, and what is doubtful about it."""

# ruff: noqa: PLC0415 - pandas and SciPy are imported when they are asked for: they cost every other command a second
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.output import print_json, print_table
from warehouse.queries.connect import open_warehouse
from warehouse.settings import load_settings

if TYPE_CHECKING:
    import pandas as pd

SourceName = Annotated[str | None, typer.Argument(help="One of the sources: its figures, as they were printed.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def published(source: SourceName = None, *, as_json: AsJson = False) -> None:
    """List who published figures, the figures of one of them, and what does not fit together."""
    from warehouse.queries import published as published_questions

    with open_warehouse(load_settings().warehouse_file) as con:
        sources, figures = published_questions.sources(con), published_questions.figures(con, source)
        doubts = published_questions.doubts(con)
    if source is not None:
        sources, doubts = (each[each["source"] == source] for each in (sources, doubts))
    if as_json:
        found = {"sources": sources, "figures": figures, "doubts": doubts}
        print_json({name: _records(each) for name, each in found.items()})
        return
    if source is None:
        columns = ["source", "date", "title", "figures", "runs", "doubts", "preset"]
        print_table(columns, [[row[name] for name in columns] for row in _records(sources)])
    else:
        print(f"{_records(sources)[0]['method']}\n")
        print_table(("number", "setting", "metric", "as printed", "doubtful"), map(_row, _records(figures)))
    for doubt in _records(doubts):
        print(f"doubt about {doubt['source']}: {doubt['sentence']}")


def _row(figure: dict[str, Any]) -> tuple[Any, ...]:
    drafted = figure["num_speculative_tokens"]
    arm = [figure["engine"], figure["engine_version"], figure["method"], figure["draft_model"]]
    arm += [None if drafted is None else f"k = {drafted}", figure["dataset"], figure["access_pattern"], figure["load"]]
    setting = ", ".join(str(part) for part in [figure["hardware"], *arm] if part is not None)
    scale = "" if figure["scale"] == "absolute" else f" ({figure['scale']})"
    shown = f"{figure['printed']} {figure['unit']}{scale}"
    return (figure["number"], setting, figure["metric"], shown, "yes" if len(figure["doubts"]) else "")


def _records(found: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of plain values, None where nothing is known."""
    return [{str(name): _plain(value) for name, value in row.items()} for row in found.to_dict("records")]


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, float) and math.isnan(value):
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value
